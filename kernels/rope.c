/* rope.c -- rotary embedding (Su et al. 2021, arXiv:2104.09864): rotates column i with i + rotary / 2. */
#include <math.h>

#include "cpu/cpu.h"
#include "cpu/vec.h"

struct rope {
	struct rf_dev *d;
	const struct rf_rope *a;
	const double *freq;
	int width; /* rotated columns of a head */
	size_t ldx, ldy;
};

/* Sets c and s to cos and sin of at freq[i] for n frequencies; sign multiplies the sine.  The angle is
 * reduced to [-pi/4, pi/4] in double, since positions are large; in that range the polynomials of Cephes'
 * sinf and cosf are good to 1e-7. */
static void angles(double at, const double *freq, int n, float sign, float *restrict c, float *restrict s)
{
	const double half_pi = 1.57079632679489661923, round = 6755399441055744; /* 1.5 2^52 */

	for (int i = 0; i < n; i++) {
		double a = at * freq[i], k = a / half_pi + round - round;
		float x = (float)(a - k * half_pi), y = x * x;
		float sine = x + x * y * (-1.6666654611e-1f + y * (8.3321608736e-3f + y * -1.9515295891e-4f));
		float cosine = 1 - 0.5f * y +
		               y * y *
		                       (4.166664568298827e-2f +
		                        y * (-1.388731625493765e-3f + y * 2.443315711809948e-5f));
		int quarter = (int)k;
		float u = quarter & 1 ? sine : cosine, v = quarter & 1 ? cosine : sine;

		c[i] = (quarter + 1) & 2 ? -u : u;
		s[i] = (quarter & 2 ? -v : v) * sign;
	}
}

static void rope_tile(void *arg, int tile, int thread)
{
	const struct rope *t = arg;
	const struct rf_rope *a = t->a;
	const int32_t *past_len = cpu_i32(t->d, a->past_len);
	int half = t->width / 2, end = a->nb * a->steps;
	float *c = rf_cpu_scratch(t->d, thread, (size_t)t->width * sizeof *c), *s = c + half;

	if (!c)
		return;
	for (int row = tile * ROWS_TILE; row < end && row < (tile + 1) * ROWS_TILE; row++) {
		const float *x = cpu_f32(t->d, a->x) + (size_t)row * t->ldx;
		float *y = cpu_f32(t->d, a->y) + (size_t)row * t->ldy;
		int at = (past_len ? past_len[row % a->nb] : 0) + a->from + row / a->nb;

		angles(at, t->freq, half, a->inverse ? -1 : 1, c, s);
		for (int h = 0; h < a->heads; h++, x += a->D, y += a->D) {
			for (int i = 0; i < half; i += VL) {
				vf x0 = vget(x, i, half), x1 = vget(x + half, i, half), u = vget(c, i, half),
				   v = vget(s, i, half);

				vput(y, i, half, x0 * u - x1 * v);
				vput(y + half, i, half, x1 * u + x0 * v);
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
