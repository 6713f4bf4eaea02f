/* trainer_internal.h -- what trainer_*.c and commit.c share. */
#ifndef RF_TRAINER_INTERNAL_H
#define RF_TRAINER_INTERNAL_H

#include "train/trainer.h"

/* Reads the options that are texts, and checks that no options contradict each other. */
enum rf_code rf_trainer_check_options(struct rf_trainer *t, struct rf_err *e);
/* Checks that everything can be written that is written after the work. */
enum rf_code rf_trainer_check_places(const struct rf_trainer *t, struct rf_err *e);

/* Frees the records that wait, and empties their list. */
void rf_trainer_drop(struct rf_waiting *w);

/* Returns a hash of where the run is. */
uint64_t rf_trainer_hash_beginning(const struct rf_trainer *t);
/* Returns a hash of the settings that ranks must share: the options that the run's manifest has, except those
 * of a command for rewards, which each machine may start in its own way; and the options of a batch that
 * decide what ranks exchange. */
uint64_t rf_trainer_hash_settings(const struct rf_trainer *t);

/* The moments at which the ranks vote. */
enum rf_moment {
	RF_AT_LEAVING = -1,
	RF_AT_OPENING,
	RF_AT_MORE,
	RF_AT_AHEAD,
	RF_AT_BATCH,
	RF_AT_OUTER,
	RF_AT_END,
	RF_AT_MOMENTS,
	RF_AT_WRITTEN,
	RF_AT_COMMIT
};

/* Returns a vote with the facts that all ranks must share.  The other arguments are its members. */
struct rf_vote rf_trainer_vote(const struct rf_trainer *t, enum rf_moment moment, int64_t number,
                               const char *what);

#endif
