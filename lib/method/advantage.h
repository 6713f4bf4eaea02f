/* advantage.h -- rewards relative to their group: A = (R - mean) / (std + 1e-6), as in GRPO. */
#ifndef RF_ADVANTAGE_H
#define RF_ADVANTAGE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "stream/record.h"

enum rf_group { RF_GROUP_AUTO, RF_GROUP_SEQUENCE, RF_GROUP_POSITION };
#define RF_GROUP_WORDS "auto|sequence|position"

struct rf_advantage {
	enum rf_group group; /* AUTO: SEQUENCE when n = 1, else POSITION */
	bool no_std;         /* do not divide by the deviation */
	bool allow_single;   /* a group of one rollout: A = R instead of an error */
};

/* --group --no-std --allow-single */
enum { RF_ADVANTAGE_OPTS = 4 };
void rf_advantage_options(struct rf_advantage *a, struct rf_opt opts[RF_ADVANTAGE_OPTS]);

/* Computes the advantages A (G) of one group of G rewards, in double.  std is the sample deviation (divisor
 * G-1).  Two or more equal rewards give exactly 0.  Errors: RF_EDATA: G = 1, unless allow_single. */
enum rf_code rf_advantage_group(const struct rf_advantage *a, const float *R, int G, double *A,
                                struct rf_err *e);

/* spread_free: the number of groups of two or more equal rewards, from which nothing is learned. */
struct rf_group_stats { int groups, spread_free; };

/* Writes r->advantage and adds the record's groups to *st (may be NULL).  A record without rollouts passes
 * unchanged.  Errors: RF_EDATA: rollouts without reward, or a group of one; RF_ENUMERIC: float32 cannot hold
 * an advantage. */
enum rf_code rf_advantage_record(const struct rf_advantage *a, struct rf_record *r, struct rf_group_stats *st,
                                 struct rf_err *e);

#endif
