/* select.h -- which positions of a sequence get rollouts (ReFINE, arXiv:2602.16704, eq. 5).
 *
 * The entropies are smoothed, the sequence is cut into c equal chunks, and in each one position is drawn with
 * probability softmax(smoothed H / tau). */
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
	int chunks;      /* c */
	int k;           /* rollout length that must fit behind a position */
	int smooth;      /* width of the average; 0: k; an even one takes one more */
	double tau;
	enum rf_select_mode mode;
	int margin;
	uint64_t seed;
	int draw_step;   /* step for the random numbers; -1: the model's (rf_draw_step) */
	bool strict;     /* a record that is too short is an error */
};
#define RF_SELECT_DEFAULTS { .chunks = 8, .k = 5, .tau = 1, .margin = 20, .draw_step = -1 }

/* --chunks, --length, --smooth, --tau, --mode, --margin, --seed, --draw-step, --strict */
enum { RF_SELECT_OPTS = 10 };
void rf_select_options(struct rf_select *s, struct rf_opt opts[RF_SELECT_OPTS]);

/* Average pooling, odd kernel, stride 1, zero padding counted in the mean.  H, out (T). */
void rf_smooth(const float *H, int T, int kernel, double *out);

/* p (n) = softmax(H / tau), in double. */
void rf_select_probabilities(const double *H, int n, double tau, double *p);

/* The first index whose cumulative sum of p, in double, exceeds u * total. */
int rf_draw_index(const double *p, int n, double u);

/* Writes r->positions, c of them in the order of the chunks, and removes rollout, reward and advantage.
 * step: for the random numbers.  A record that is too short is left without positions: *short_one.  RF_EDATA:
 * no entropies where the mode needs them; too short, and strict. */
enum rf_code rf_select_record(const struct rf_select *s, uint64_t step, struct rf_record *r, bool *short_one,
                              struct rf_err *e);

#endif
