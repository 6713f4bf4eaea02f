/* sign.h -- the inner interface of lib/ranks: the ranks' signs of life.
 *
 * FOLDER/.ranks/3 is one line of rank 3: how many exchanges it has come to, its host and process, and what it
 * does.  When it was written last says how long ago that is: by the file system's clock, which is one for
 * all. */
#ifndef RF_SIGN_H
#define RF_SIGN_H

#include "ranks/ranks.h"

struct rf_sign {
	struct rf_rank_sign says;
	double changed;              /* when that was last seen to differ, by our clock */
};

/* Makes this rank's, and removes those of ranks that there are not. */
enum rf_code rf_signs_open(struct rf_ranks *r, const char *folder, struct rf_err *e);
/* What a rank does that waits. */
extern const char rf_ranks_waits[];
/* The seconds after which a sign is written anew, and the others' are looked at. */
double rf_signs_often(const struct rf_ranks *r);
/* Writes it: this rank has come to another exchange. */
void rf_ranks_arrive(struct rf_ranks *r);
/* Looks at the others'.  began: when this rank began to wait.  Errors: RF_EBUSY: somebody is missing, and for
 * too long; or another one has found so.  It returns when all that wait have given up. */
enum rf_code rf_signs_look(struct rf_ranks *r, double began, struct rf_err *e);
/* This rank gives up the exchange that it has come to: says so, and returns when all that have come to it
 * have given up, or after some seconds. */
void rf_ranks_give_up(struct rf_ranks *r);
void rf_signs_close(struct rf_ranks *r);

#endif
