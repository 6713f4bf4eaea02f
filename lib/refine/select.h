/* select.h -- which positions of a sequence get rollouts (ReFINE, arXiv:2602.16704, eq. 6).
 *
 * The entropies are smoothed, the sequence is cut into c equal chunks, in each chunk one token t is drawn
 * with probability softmax(smoothed H / tau), and the rollout begins with token t + 1.  In the published
 * implementation H_t is row t, the uncertainty about the token with which the rollout begins.  In eq. 5 of
 * the paper H_t is the uncertainty about token t itself: row t - shift with a shift of 1. */
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
	int chunks;      /* chunks of a sequence (c), each with one position */
	int k;           /* rollout length (k), which must fit after a position */
	int smooth;      /* width of the moving average, an even one plus 1; 0: k */
	double tau;
	enum rf_select_mode mode;
	int margin;      /* tokens at either end of a sequence (T) that are never chosen */
	int shift;       /* H_t is the entropy of row t - shift */
	uint64_t seed;
	int draw_step;   /* training step for the random numbers; -1: the model's (rf_draw_step) */
	bool strict;     /* a record that is too short is an error */
};
#define RF_SELECT_DEFAULTS { .chunks = 8, .k = 5, .tau = 1, .margin = 20, .draw_step = -1 }

/* --chunks, -k (--length), --smooth, --tau, --mode, --margin, --shift, --seed, --draw-step, --strict */
void rf_select_options(struct rf_select *s, struct rf_opts *opts);

/* out (T) = average pooling of H (T) with stride 1 and an odd kernel (an even one is made one wider).  The
 * zeros beyond both ends count in the mean. */
void rf_smooth(const float *H, int T, int kernel, double *out);

/* p (n) = softmax(H / tau), in double. */
void rf_select_probabilities(const double *H, int n, double tau, double *p);

/* The first index at which the cumulative sum of p (n), in double, exceeds u times the total. */
int rf_draw_index(const double *p, int n, double u);

/* The tokens that a sequence needs. */
int rf_select_least(const struct rf_select *s);

/* Writes r->positions, one for each chunk, in the order of the chunks, and removes rollout, reward and
 * advantage.  step: for the random numbers.  If the record is too short, it gets no positions, and *short_one
 * is set.  Errors: RF_EDATA: the mode needs entropies, and there are none; too short, with s->strict. */
enum rf_code rf_select_record(const struct rf_select *s, uint64_t step, struct rf_record *r, bool *short_one,
                              struct rf_err *e);

#endif
