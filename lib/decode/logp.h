/* logp.h -- the log-probability of every choice, with one pass over the tokens that the choices continue.
 *
 *     tokens  x0 x1 x2 x3          T = 4
 *                      |
 *                      +- a0 a1 a2        choice 0: a2 needs no row, because no token follows it
 *                      +- b0              choice 1: needs only row T-1
 *
 * A question of T tokens with choices of m tokens thus takes T + n (m - 1) rows, not n (T + m - 1). */
#ifndef RF_LOGP_H
#define RF_LOGP_H

#include "engine/work.h"
#include "stream/record.h"

/* Device memory of the stage.  For a long choice, which is a sequence of its own, value i belongs to token
 * i. */
struct rf_logp_place {
	rf_f32 last;        /* (d): row T-1 */
	rf_f32 h;           /* (16 (256 + 1), d) at most: rows for the head */
	rf_i32 from;        /* the indices of these rows in the result of the tree */
	rf_i32 target, top; /* one number for each of these rows, or for each token of a long choice */
	rf_f32 logp;
};

struct rf_logp {
	struct rf_work *work;
	struct rf_logp_place at;
	/* counts: choices; rows that passed through the model; rows that one pass per choice would take */
	uint64_t choices, rows, alone;
};

/* Returns how the stage uses memory, for rf_work_init(). */
struct rf_use rf_logp_use(struct rf_logp *s);

/* Checks that the stage accepts the record.  Errors: RF_EDATA: a token is outside the model's vocabulary, or
 * the sequence and a choice are together longer than --max-len. */
enum rf_code rf_logp_check(const struct rf_logp *s, const struct rf_record *r, struct rf_err *e);
/* Writes logp and greedy of r->choice.  A record without choices passes unchanged.  Errors: those of
 * rf_logp_check(); RF_ENUMERIC: NaN or Inf. */
enum rf_code rf_logp_record(struct rf_logp *s, struct rf_record *r, struct rf_err *e);

#endif
