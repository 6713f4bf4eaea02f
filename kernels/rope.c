/* rope.c -- rotary embedding (Su et al. 2021, arXiv:2104.09864), halves of the turned width rotated together. */
#include <math.h>

#include "cpu.h"
#include "vec.h"

struct rope {
	struct rf_dev *d;
	const struct rf_rope *a;
	const double *freq;
	int width;               /* columns of a head that are turned */
	size_t ldx, ldy;
};

static void rope_tile(void *arg, int tile, int thread)
{
	const struct rope *t = arg;
	const struct rf_rope *a = t->a;
	const int32_t *past = cpu_i32(t->d, a->past);
	int half = t->width / 2, end = a->nb * a->steps;
	float *c = rf_cpu_scratch(t->d, thread, (size_t)t->width * sizeof *c), *s = c + half;

	if (!c)
		return;
	for (int row = tile * ROWS_TILE; row < end && row < (tile + 1) * ROWS_TILE; row++) {
		const float *x = cpu_f32(t->d, a->x) + (size_t)row * t->ldx;
		float *y = cpu_f32(t->d, a->y) + (size_t)row * t->ldy;
		int at = (past ? past[row % a->nb] : 0) + a->from + row / a->nb;

		for (int i = 0; i < half; i++) {
			c[i] = (float)cos(at * t->freq[i]);
			s[i] = (float)sin(a->inverse ? -at * t->freq[i] : at * t->freq[i]);
		}
		for (int h = 0; h < a->heads; h++, x += a->D, y += a->D) {
			for (int i = 0; i < half; i++) {
				float x0 = x[i], x1 = x[half + i];
				y[i] = x0 * c[i] - x1 * s[i];
				y[half + i] = x1 * c[i] + x0 * s[i];
			}
			for (int i = t->width; i < a->D && x != y; i++)
				y[i] = x[i];
		}
	}
}

void KERNEL(rope)(struct rf_dev *d, const struct rf_rope *a)
{
	struct rope t = { .d = d, .a = a, .width = a->rotary ? a->rotary : a->D };
	double *freq = rf_cpu_scratch(d, -1, (size_t)t.width * sizeof *freq);

	if (!freq)
		return;
	for (int i = 0; i < t.width / 2; i++)
		freq[i] = pow(a->theta, -2.0 * i / t.width);
	t.freq = freq;
	t.ldx = (size_t)(a->ldx ? a->ldx : a->heads * a->D);
	t.ldy = (size_t)(a->ldy ? a->ldy : a->heads * a->D);
	cpu_tiles(d, (a->nb * a->steps + ROWS_TILE - 1) / ROWS_TILE, rope_tile, &t);
}
