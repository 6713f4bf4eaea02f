/* eval.h -- how well a model predicts sequences: rf-ntp --eval. */
#ifndef RF_EVAL_H
#define RF_EVAL_H

#include "base/buf.h"
#include "refine/entropy.h"
#include "train/train.h"

/* Sums over the tokens that count, in the order of the records. */
struct rf_eval {
	/* settings: what the means are of; the tokens that count; how many of them at each position */
	enum rf_loss_mean mean;
	enum rf_loss_tokens loss;
	int k;
	double nll, correct, prob;        /* weighted; prob: probabilities of the text's tokens */
	double weight;                    /* of all tokens */
	uint64_t tokens, sequences, none; /* none: sequences without a token that counts */
};

/* Adds those of a sequence's tokens that count to *sum.  s->nll must be set: also writes r->entropy, nll and
 * correct.  The record must have passed rf_train_check() with the same settings.  Errors: those of
 * rf_entropy_record(). */
enum rf_code rf_eval_record(struct rf_entropy *s, struct rf_record *r, struct rf_eval *sum, struct rf_err *e);
/* By the setting `loss`: what a record without a token that counts lacks, and what writes or keeps that. */
extern const char *const rf_eval_needs[][2];
/* Appends the means to a text, as a line of JSON, with the counts of tokens and sequences. */
void rf_eval_json(const struct rf_eval *sum, struct rf_buf *line);

#endif
