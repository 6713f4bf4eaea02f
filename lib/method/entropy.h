/* entropy.h -- the model's uncertainty at every position of a sequence, in one forward pass (ReFINE,
 * arXiv:2602.16704, eq. 4). */
#ifndef RF_ENTROPY_H
#define RF_ENTROPY_H

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

/* What evaluation shares of it.  One pass over the sequence: entropies, log-probabilities of the next tokens
 * and the most likely next tokens, each (T); logp and top may be NULL. */
enum rf_code rf_entropy_pass(struct rf_entropy *s, struct rf_record *r, float *entropy, float *logp,
                             int32_t *top, struct rf_err *e);
/* n numbers of 4 bytes that live as long as the record; NULL: RF_ENOMEM in *e. */
void *rf_entropy_array(struct rf_record *r, size_t n, struct rf_err *e);
/* Writes r->nll and correct, into these arrays (T). */
void rf_entropy_nll(struct rf_record *r, const float *logp, const int32_t *top, float *nll, float *correct);

#endif
