/* u-init -- fresh weights: by the formula of init.h, with the moments that they should have. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "model.h"
#include "rng.h"
#include "tap.h"

static const char config[] =
	"{\"model_type\": \"delta_net\", \"hidden_size\": 63, \"num_heads\": 3, \"num_hidden_layers\": 2, \"vocab_size\": 501, \"conv_size\": 3,"
	" \"initializer_range\": 0.05, \"attn\": {\"layers\": [1], \"num_heads\": 1, \"qkv_bias\": true}, \"intermediate_size\": 99}";

/* Gated DeltaNet's decays: exp(A_log) is uniform up to 16; softplus(dt_bias) is from 0.001 to 0.1, its logarithm uniform. */
static void test_decays(void)
{
	static const char text[] = "{\"model_type\": \"gated_deltanet\", \"hidden_size\": 8, \"num_heads\": 900, \"head_dim\": 1, \"expand_v\": 1,"
		" \"num_hidden_layers\": 2, \"vocab_size\": 3}";
	double A[2] = { 0 }, dt[2] = { 0 }, least = 1, largest = 0, low = 1, high = 0, n = 0;
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	float *w;

	if (!ok(rf_config_parse(&c, text, strlen(text), &e) == RF_OK && rf_params_build(&t, &c, false, &e) == RF_OK, "a model with decays (%s)", e.msg))
		return;
	w = malloc(t.total * sizeof *w);
	rf_init_weights(&t, 3, w);
	for (int l = 0; l < 2; l++) {
		char name[80];
		const float *a, *d;

		snprintf(name, sizeof name, "model.layers.%d.attn.A_log", l);
		a = w + rf_params_find(&t, name)->offset;
		snprintf(name, sizeof name, "model.layers.%d.attn.dt_bias", l);
		d = w + rf_params_find(&t, name)->offset;
		for (int i = 0; i < 900; i++, n++) {
			double x = exp((double)a[i]) / 16, rate = log1p(exp((double)d[i])), y = log(rate / 0.001) / log(100);

			A[0] += x, A[1] += x * x;
			dt[0] += y, dt[1] += y * y;
			least = fmin(least, x), largest = fmax(largest, x);
			low = fmin(low, y), high = fmax(high, y);
		}
	}
	/* five times the standard error: mean 1/2, mean square 1/3 of a uniform number */
	ok(least > 0 && largest <= 1.000001 && fabs(A[0] / n - 0.5) < 5 / sqrt(12 * n) && fabs(A[1] / n - 1. / 3) < 5 * sqrt(4. / 45 / n),
	   "A is uniform up to 16: from %.4f to %.3f, mean %.3f", least * 16, largest * 16, 16 * A[0] / n);
	ok(low > -1e-4 && high < 1.0001 && fabs(dt[0] / n - 0.5) < 5 / sqrt(12 * n) && fabs(dt[1] / n - 1. / 3) < 5 * sqrt(4. / 45 / n),
	   "steps are from 0.001 to 0.1, uniform in their logarithm: mean %.3f", dt[0] / n);
	free(w);
	rf_params_free(&t);
	rf_config_free(&c);
}

int main(void)
{
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	float *a, *b, *other;
	const struct rf_param *p;
	double sum = 0, square = 0, fourth = 0, largest = 0, n = 0;

	/* heads of width 63 are odd, and rotary wants even ones: so none of them */
	if (!ok(rf_config_parse(&c, config, sizeof config - 1, &e) == RF_EMODEL, "attention heads are of even width (%s)", e.msg))
		return tap_end();
	rf_config_free(&c);
	char even[sizeof config];
	strcpy(even, config);
	memcpy(strstr(even, "63"), "66", 2);
	if (!ok(rf_config_parse(&c, even, strlen(even), &e) == RF_OK && rf_params_build(&t, &c, false, &e) == RF_OK, "a model (%s)", e.msg))
		return tap_end();
	a = malloc(3 * t.total * sizeof *a);
	b = a + t.total;
	other = b + t.total;
	rf_init_weights(&t, 7, a);
	memset(b, 0xff, t.total * sizeof *b);
	rf_init_weights(&t, 7, b);
	rf_init_weights(&t, 8, other);
	ok(!memcmp(a, b, t.total * sizeof *a), "the same seed gives the same weights, and padding of 0");

	p = rf_params_find(&t, "model.embeddings.weight");
	const uint64_t key = rf_draw_key(7, RF_DRAW_WEIGHTS, 0, 0, (uint64_t)(p - t.p), 0);
	const double u = rf_draw(key, 4), v = rf_draw(key, 5), r = 0.05 * sqrt(-2 * log(1 - u));
	ok(fabs(a[p->offset + 4] - r * cos(2 * acos(-1) * v)) < 1e-8 && fabs(a[p->offset + 5] - r * sin(2 * acos(-1) * v)) < 1e-8, "two draws make two normal numbers");
	for (int i = 0; i < t.n; i++)
		for (size_t k = t.p[i].offset; t.p[i].init == RF_INIT_NORMAL && k < t.p[i].offset + t.p[i].count; k++) {
			double x = (double)a[k] / 0.05;
			n++;
			sum += x;
			square += x * x;
			fourth += x * x * x * x;
			largest = fmax(largest, fabs(x));
		}
	/* five times the standard error of each */
	ok(fabs(sum / n) < 5 / sqrt(n) && fabs(square / n - 1) < 5 * sqrt(2 / n) && fabs(fourth / n - 3) < 5 * sqrt(96 / n) && largest > 3.5 && largest < 6.5,
	   "%g of them have mean %.4f, variance %.4f, fourth moment %.3f, largest %.2f", n, sum / n, square / n, fourth / n, largest);

	double same = 0, cross = 0;
	for (size_t k = 0; k < p->count; k++) {
		same += a[p->offset + k] == other[p->offset + k];
		cross += (double)a[p->offset + k] * (double)other[p->offset + k] / 0.0025;
	}
	ok(same < 10 && fabs(cross / (double)p->count) < 5 / sqrt((double)p->count), "another seed gives others");
	const struct rf_param *q = rf_params_find(&t, "lm_head.weight");
	for (cross = 0, n = 0; n < (double)p->count; n++)
		cross += (double)a[p->offset + (size_t)n] * (double)a[q->offset + (size_t)n] / 0.0025;
	ok(fabs(cross / n) < 5 / sqrt(n), "and so does another tensor");

	bool ones = true, zeros = true;
	for (int i = 0; i < t.n; i++)
		for (size_t k = t.p[i].offset; k < t.p[i].offset + t.p[i].count; k++) {
			ones &= t.p[i].init != RF_INIT_ONE || a[k] == 1;
			zeros &= t.p[i].init != RF_INIT_ZERO || a[k] == 0;
		}
	ok(ones && zeros, "norms are 1, biases 0");
	free(a);
	rf_params_free(&t);
	rf_config_free(&c);
	test_decays();
	return tap_end();
}
