/* sign.h -- the inner interface of lib/ranks: signs of life.
 *
 * FOLDER/.ranks/3 is the sign of rank 3, one line: the number of its collective calls, its host and process,
 * and what it is doing.  The age of a sign follows from the file's modification time, which is by the file
 * system's clock and thus comparable for all ranks. */
#ifndef RF_SIGN_H
#define RF_SIGN_H

#include "ranks/ranks.h"

struct rf_sign {
	struct rf_rank_sign says;
	double changed; /* when this rank last saw the sign change, by its own clock */
};

/* Writes the first sign of this rank, and removes signs of ranks beyond the number of ranks. */
enum rf_code rf_signs_open(struct rf_ranks *r, const char *folder, struct rf_err *e);
/* The words of a rank that waits for other ranks. */
extern const char rf_ranks_waits[];
/* Returns the seconds between two signs of a rank, and between two looks at the other ranks' signs. */
double rf_signs_often(const struct rf_ranks *r);
/* Writes the sign of a rank that has come to another exchange. */
void rf_ranks_arrive(struct rf_ranks *r);
/* Looks at the signs of all other ranks.  began: when this rank began to wait.  Errors: RF_EBUSY: a rank has
 * been missing for too long, or another rank has found that; then it returns when all waiting ranks have
 * given up. */
enum rf_code rf_signs_look(struct rf_ranks *r, double began, struct rf_err *e);
/* Gives up the exchange that this rank waits in: writes that to the sign, and returns when all ranks that
 * wait in it have given up, or after three seconds. */
void rf_ranks_give_up(struct rf_ranks *r);
void rf_signs_close(struct rf_ranks *r);

#endif
