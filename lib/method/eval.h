/* eval.h -- how well a model predicts sequences: rf-ntp --eval. */
#ifndef RF_EVAL_H
#define RF_EVAL_H

#include "base/buf.h"
#include "method/entropy.h"

/* Sums over tokens, in the order of the records. */
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
