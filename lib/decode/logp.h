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

#include "engine/work.h"
#include "stream/record.h"

/* Device memory of the stage.  A choice that is run alone has its values at the places of its tokens. */
struct rf_logp_place {
	rf_f32 last;             /* (d): row T-1 */
	rf_f32 h;                /* (16 (256 + 1), d) at most: rows for the head */
	rf_i32 from;             /* their places in what the tree returned */
	rf_i32 target, top;      /* one number each for these rows, or for the tokens of a long choice */
	rf_f32 logp;
};

struct rf_logp {
	struct rf_work *work;
	struct rf_logp_place at;
	/* so far: choices; rows that passed through the model, and that one pass per choice would take */
	uint64_t choices, rows, alone;
};

/* The stage's use of memory, for rf_work_init(). */
struct rf_use rf_logp_use(struct rf_logp *s);

/* rf_logp_record() writes logp and greedy of r->choice; a record without choices passes unchanged.
 * rf_logp_check() only checks the record.  Errors: RF_EDATA: a token is outside the model's vocabulary, or
 * tokens and a choice are together longer than --max-len; RF_ENUMERIC: NaN or Inf. */
enum rf_code rf_logp_check(const struct rf_logp *s, const struct rf_record *r, struct rf_err *e);
enum rf_code rf_logp_record(struct rf_logp *s, struct rf_record *r, struct rf_err *e);

#endif
