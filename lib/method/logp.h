/* logp.h -- the log-probability of every choice, all below one pass over the tokens that they continue.
 *
 *     tokens  x0 x1 x2 x3          T = 4
 *                      |
 *                      +- a0 a1 a2        choice 0, of which a2 needs no row: nothing follows it
 *                      +- b0              choice 1: row T-1 is all that it needs
 *
 * A question of T tokens with choices of m tokens thus takes T + n (m - 1) rows, not n (T + m - 1). */
#ifndef RF_LOGP_H
#define RF_LOGP_H

#include "engine/engine.h"
#include "stream/record.h"

struct rf_logp {
	struct rf_engine *engine;
	/* so far: choices; rows that passed through the model, and that one pass per choice would take */
	uint64_t choices, rows, alone;
};

/* The memory that the stage needs for a shape (struct rf_engine, needs).  stage: a struct rf_logp. */
void rf_logp_needs(const void *stage, struct rf_shape *shape, struct rf_demand *need);

/* rf_logp_record() writes logp and greedy of r->choice; a record without choices passes unchanged.
 * rf_logp_check() only checks the record.  Errors: RF_EDATA: a token is outside the model's vocabulary, or
 * tokens and a choice are together longer than --max-len; RF_ENUMERIC: NaN or Inf. */
enum rf_code rf_logp_check(const struct rf_logp *s, const struct rf_record *r, struct rf_err *e);
enum rf_code rf_logp_record(struct rf_logp *s, struct rf_record *r, struct rf_err *e);

#endif
