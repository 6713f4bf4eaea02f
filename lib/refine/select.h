/* select.h -- chooses the positions of a sequence that get rollouts (ReFINE, arXiv:2602.16704, eq. 6).
 *
 * The entropies are smoothed, and the sequence is cut into c equal chunks.  In each chunk one token t is
 * drawn with probability softmax(smoothed H / tau).  The rollout begins with token t + 1.  In the published
 * implementation H_t is the entropy of row t, the uncertainty about the first token of the rollout.  In eq. 5
 * of the paper H_t is the uncertainty about token t itself: the entropy of row t - 1, which a shift of 1
 * gives. */
#ifndef RF_SELECT_H
#define RF_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "stream/record.h"

enum rf_select_mode { RF_SELECT_ENTROPY, RF_SELECT_UNIFORM, RF_SELECT_MAX, RF_SELECT_MIN };
#define RF_SELECT_WORDS "entropy|uniform|max|min"

struct rf_select {
	int chunks; /* number of chunks of a sequence (c), each of which gets one position */
	int k;      /* rollout length (k), which must fit after a position */
	int smooth; /* width of the moving average; an even width counts as one more; 0: k */
	double tau;
	enum rf_select_mode mode;
	int margin; /* tokens at either end of a sequence (T) that are never chosen */
	int shift;  /* H_t is the entropy of row t - shift */
	uint64_t seed;
	int draw_step; /* training step for the random numbers; -1: the step of the model */
	bool strict;   /* whether a record that is too short is an error */
};
#define RF_SELECT_DEFAULTS \
	{ \
		.chunks = 8, .k = 5, .tau = 1, .margin = 20, .draw_step = -1 \
	}

/* --chunks, -k (--length), --smooth, --tau, --mode, --margin, --shift, --seed, --draw-step, --strict */
void rf_select_options(struct rf_select *s, struct rf_opts *opts);

/* Computes out (T), the average pooling of H (T) with stride 1 and an odd kernel; an even kernel is made one
 * wider.  The zeros beyond both ends count in the mean. */
void rf_smooth(const float *H, int T, int kernel, double *out);

/* Computes p (n) = softmax(H / tau), in double. */
void rf_select_probabilities(const double *H, int n, double tau, double *p);

/* Returns the first index at which the cumulative sum of p (n), in double, exceeds u times the total. */
int rf_draw_index(const double *p, int n, double u);

/* Returns the least number of tokens that a sequence needs. */
int rf_select_least(const struct rf_select *s);

/* Writes r->positions, one for each chunk, in the order of the chunks, and removes rollout, reward and
 * advantage.  step: for the random numbers.  If the record is too short, it gets no positions, and *short_one
 * is set.  Errors: RF_EDATA: the mode needs entropies, and the record has none; with s->strict, the record is
 * too short. */
enum rf_code rf_select_record(const struct rf_select *s, uint64_t step, struct rf_record *r, bool *short_one,
                              struct rf_err *e);

#endif
