/* entropy.h -- the model's uncertainty at every position of a sequence, in one forward pass (ReFINE,
 * arXiv:2602.16704, eq. 4). */
#ifndef RF_ENTROPY_H
#define RF_ENTROPY_H

#include "base/buf.h"
#include "engine/engine.h"
#include "stream/record.h"

struct rf_entropy {
	struct rf_engine *engine;
	bool nll;              /* also nll and correct */
	bool hidden, logits;   /* also these, for small models */
};

/* --keep: "hidden", "logits" or both with a comma; NULL: neither.  False: something else. */
bool rf_entropy_keep(struct rf_entropy *s, const char *words);

/* Memory for such sequences.  stage: a struct rf_entropy (struct rf_engine, needs). */
void rf_entropy_needs(const void *stage, struct rf_shape *shape, struct rf_demand *need);

/* Writes r->entropy and what else is asked for; nothing that was computed before is removed, since positions
 * and rollouts are tokens and keep their meaning.  RF_ENUMERIC: NaN or Inf, and at which position. */
enum rf_code rf_entropy_record(struct rf_entropy *s, struct rf_record *r, struct rf_err *e);

/* What rf-ntp --eval sums up, in the order of the records. */
struct rf_eval {
	double nll, correct, prob;
	uint64_t tokens, sequences, none; /* none: sequences without a token that counts */
};

/* Adds one sequence's tokens (from prompt_len on with `response`) to *sum; with s->nll writes
 * r->nll and correct. */
enum rf_code rf_eval_record(struct rf_entropy *s, struct rf_record *r, bool response, struct rf_eval *sum,
                            struct rf_err *e);
/* Adds the means to a text, as a line of JSON. */
void rf_eval_json(const struct rf_eval *sum, struct rf_buf *line);

#endif
