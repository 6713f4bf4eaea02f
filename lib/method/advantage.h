/* advantage.h -- rewards relative to their group: A = (R - mean) / (std + 1e-6), as GRPO has it. */
#ifndef RF_ADVANTAGE_H
#define RF_ADVANTAGE_H

#include <stdbool.h>

#include "base/err.h"
#include "stream/record.h"

enum rf_group { RF_GROUP_AUTO, RF_GROUP_SEQUENCE, RF_GROUP_POSITION };
#define RF_GROUP_WORDS "auto|sequence|position"

struct rf_advantage {
	enum rf_group group; /* AUTO: SEQUENCE when n = 1, else POSITION */
	bool no_std;        /* leave the division out */
	bool allow_single;  /* a group of one: A = R instead of an error */
};

/* One group of G rewards, in double; std with G-1; two or more equal rewards give exactly 0.
 * RF_EDATA: G = 1. */
enum rf_code rf_advantage_group(const struct rf_advantage *a, const float *R, int G, double *A,
                                struct rf_err *e);

/* spread_free: groups of two or more equal rewards, which teach nothing. */
struct rf_group_stats { int groups, spread_free; };

/* Writes r->advantage; a record without rollouts passes unchanged; one with rollouts and no reward is
 * RF_EDATA.  *st is added to (may be NULL). */
enum rf_code rf_advantage_record(const struct rf_advantage *a, struct rf_record *r, struct rf_group_stats *st,
                                 struct rf_err *e);

#endif
