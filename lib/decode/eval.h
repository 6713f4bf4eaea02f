/* eval.h -- how well a model predicts sequences: rf-ntp --eval. */
#ifndef RF_EVAL_H
#define RF_EVAL_H

#include "base/buf.h"
#include "refine/entropy.h"
#include "train/train.h"

/* Sums over the tokens that count, in the order of the records. */
struct rf_eval {
	/* settings, as in struct rf_train: the kind of mean, the tokens that count, and their number at each
	   position */
	enum rf_loss_mean mean;
	enum rf_loss_tokens loss;
	int k;
	double nll, correct, prob;        /* weighted sums; prob: of the probabilities of the tokens */
	double weight;                    /* of all tokens together */
	uint64_t tokens, sequences, none; /* counts; none: of sequences without a token that counts */
};

/* Adds the tokens of a sequence that count to *sum.  Also writes r->entropy, nll and correct; s->nll must be
 * set.  The record must have passed rf_train_check() with the same settings.  Errors: those of
 * rf_entropy_record(). */
enum rf_code rf_eval_record(struct rf_entropy *s, struct rf_record *r, struct rf_eval *sum, struct rf_err *e);
/* For each value of `loss`: the name of what a record without a token that counts lacks, and a hint how to
 * get it. */
extern const char *const rf_eval_needs[][2];
/* Appends the means and the counts of tokens and sequences to a text, as a line of JSON. */
void rf_eval_json(const struct rf_eval *sum, struct rf_buf *line);

#endif
