/* eval.h -- how well a model predicts sequences: rf-ntp --eval. */
#ifndef RF_EVAL_H
#define RF_EVAL_H

#include "base/buf.h"
#include "method/entropy.h"
#include "method/train.h"

/* Sums over the tokens that count, in the order of the records. */
struct rf_eval {
	enum rf_mean mean;                /* the setting: what the means are of */
	double nll, correct, prob;        /* weighted; prob: probabilities of the text's tokens */
	double weight;                    /* of all tokens */
	uint64_t tokens, sequences, none; /* none: sequences without a token that counts */
};

/* Adds one sequence's tokens to *sum; with `response` only those from prompt_len on count.  s->nll must be
 * set: also writes r->entropy, nll and correct.  Errors: RF_EDATA: `response`, but the record has no
 * prompt_len. */
enum rf_code rf_eval_record(struct rf_entropy *s, struct rf_record *r, bool response, struct rf_eval *sum,
                            struct rf_err *e);
/* Appends the means to a text, as a line of JSON. */
void rf_eval_json(const struct rf_eval *sum, struct rf_buf *line);

#endif
