/* init -- tests fresh weights: the formula of init.h, and the statistical moments of the numbers.  Prints
 * TAP. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ckpt/init.h"
#include "model/model.h"
#include "unit/tap.h"

static const char config[] = "{\"model_type\": \"delta_net\", \"hidden_size\": 63, \"num_heads\": 3, "
			     "\"num_hidden_layers\": 2, \"vocab_size\": 501, \"conv_size\": 3,"
			     " \"initializer_range\": 0.05, \"attn\": {\"layers\": [1], \"num_heads\": 1, "
			     "\"qkv_bias\": true}, \"intermediate_size\": 99}";

/* Checks the weights of the decay whose names contain `name`: f of each weight is uniform from low to
 * high. */
static void test_decay(const char *type, const char *name, double (*f)(double), double low, double high)
{
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	char text[400];
	double sum = 0, square = 0, least = INFINITY, largest = -INFINITY, n = 0;
	bool free_of_decay = true;
	float *w;

	snprintf(text, sizeof text,
	         "{\"model_type\": \"%s\", \"hidden_size\": 8, \"num_hidden_layers\": 6, \"vocab_size\": 9, "
	         "\"intermediate_size\": 4, "
	         "\"num_heads\": 300, \"head_dim\": 2, \"linear_num_value_heads\": 320, "
	         "\"full_attention_interval\": 7}",
	         type);
	if (!ok(rf_config_parse(&c, text, strlen(text), &e) == RF_OK &&
	                rf_params_build(&t, &c, false, &e) == RF_OK,
	        "the config of %s is accepted (%s)", type, e.msg))
		return;
	w = malloc(t.total * sizeof *w);
	rf_init_weights(&t, 3, w);
	for (int i = 0; i < t.n; i++)
		if (strstr(t.p[i].name, name)) {
			free_of_decay &= !t.p[i].decay;
			for (size_t k = t.p[i].offset; k < t.p[i].offset + t.p[i].count; k++) {
				double x = (f((double)w[k]) - low) / (high - low);
				n++;
				sum += x;
				square += x * x;
				least = fmin(least, x);
				largest = fmax(largest, x);
			}
		}
	/* five times the standard error of each */
	ok(n >= 1800 && least >= -1e-6 && largest <= 1 + 1e-6 && least < 0.01 && largest > 0.99 &&
	           fabs(sum / n - 0.5) < 5 * sqrt(1 / 12. / n) &&
	           fabs(square / n - 1 / 3.) < 5 * sqrt(4 / 45. / n),
	   "%g of %s's %s are uniform from %.4g to %.4g (%.4f, %.4f, %.4f, %.4f)", n, type, name, low, high,
	   least, sum / n, square / n, largest);
	ok(free_of_decay, "these parameters have no weight decay");
	free(w);
	rf_params_free(&t);
	rf_config_free(&c);
}

static double log_softplus(double x) { return log(log1p(exp(x))); }

static void test_qwen(void)
{
	static const char text[] = "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 8, "
				   "\"num_hidden_layers\": 4, \"vocab_size\": 9, \"head_dim\": 8}";
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	bool good = true;
	float *w;

	if (!ok(rf_config_parse(&c, text, strlen(text), &e) == RF_OK &&
	                rf_params_build(&t, &c, false, &e) == RF_OK,
	        "the config of Qwen3.5 is accepted (%s)", e.msg))
		return;
	w = malloc(t.total * sizeof *w);
	rf_init_weights(&t, 3, w);
	for (int i = 0; i < t.n; i++) {
		const char *name = t.p[i].name;
		bool one = strstr(name, "linear_attn.norm.") || strstr(name, "dt_bias"),
		     zero = !one && strstr(name, "norm.");

		good &= !strstr(name, "dt_bias") || !t.p[i].decay;
		for (size_t k = t.p[i].offset; k < t.p[i].offset + t.p[i].count; k++)
			good &= one ? w[k] == 1 : zero ? w[k] == 0 : w[k] != 0;
	}
	ok(good, "Qwen3.5: norms that multiply by 1 + w begin as 0, other norms and dt_bias as 1");
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

	/* one head of width 63 is odd, and rotary embeddings need an even width */
	if (!ok(rf_config_parse(&c, config, sizeof config - 1, &e) == RF_EMODEL,
	        "an odd width of attention heads is refused (%s)", e.msg))
		return tap_end();
	rf_config_free(&c);
	char even[sizeof config];
	strcpy(even, config);
	memcpy(strstr(even, "63"), "66", 2);
	if (!ok(rf_config_parse(&c, even, strlen(even), &e) == RF_OK &&
	                rf_params_build(&t, &c, false, &e) == RF_OK,
	        "a model with even heads is built (%s)", e.msg))
		return tap_end();
	a = malloc(3 * t.total * sizeof *a);
	b = a + t.total;
	other = b + t.total;
	rf_init_weights(&t, 7, a);
	memset(b, 0xff, t.total * sizeof *b);
	rf_init_weights(&t, 7, b);
	rf_init_weights(&t, 8, other);
	ok(!memcmp(a, b, t.total * sizeof *a), "the same seed gives the same weights, and the padding is 0");

	p = rf_params_find(&t, "model.embeddings.weight");
	const uint64_t key = rf_draw_key(7, RF_DRAW_WEIGHTS, 0, 0, (uint64_t)(p - t.p), 0);
	const double u = rf_draw(key, 4), v = rf_draw(key, 5), r = 0.05 * sqrt(-2 * log(1 - u));
	ok(fabs(a[p->offset + 4] - r * cos(2 * acos(-1) * v)) < 1e-8 &&
	           fabs(a[p->offset + 5] - r * sin(2 * acos(-1) * v)) < 1e-8,
	   "two draws give two normal numbers by the formula");
	for (int i = 0; i < t.n; i++)
		for (size_t k = t.p[i].offset;
		     t.p[i].init == RF_INIT_NORMAL && k < t.p[i].offset + t.p[i].count; k++) {
			double x = (double)a[k] / 0.05;
			n++;
			sum += x;
			square += x * x;
			fourth += x * x * x * x;
			largest = fmax(largest, fabs(x));
		}
	/* five times the standard error of each */
	ok(fabs(sum / n) < 5 / sqrt(n) && fabs(square / n - 1) < 5 * sqrt(2 / n) &&
	           fabs(fourth / n - 3) < 5 * sqrt(96 / n) && largest > 3.5 && largest < 6.5,
	   "%g normal numbers have mean %.4f, variance %.4f, fourth moment %.3f; the largest is %.2f", n,
	   sum / n, square / n, fourth / n, largest);

	double same = 0, cross = 0;
	for (size_t k = 0; k < p->count; k++) {
		same += a[p->offset + k] == other[p->offset + k];
		cross += (double)a[p->offset + k] * (double)other[p->offset + k] / 0.0025;
	}
	ok(same < 10 && fabs(cross / (double)p->count) < 5 / sqrt((double)p->count),
	   "another seed gives other weights");
	const struct rf_param *q = rf_params_find(&t, "lm_head.weight");
	for (cross = 0, n = 0; n < (double)p->count; n++)
		cross += (double)a[p->offset + (size_t)n] * (double)a[q->offset + (size_t)n] / 0.0025;
	ok(fabs(cross / n) < 5 / sqrt(n), "the weights of two tensors do not correlate");

	bool ones = true, zeros = true;
	for (int i = 0; i < t.n; i++)
		for (size_t k = t.p[i].offset; k < t.p[i].offset + t.p[i].count; k++) {
			ones &= t.p[i].init != RF_INIT_ONE || a[k] == 1;
			zeros &= t.p[i].init != RF_INIT_ZERO || a[k] == 0;
		}
	ok(ones && zeros, "norms begin as 1, and biases as 0");
	free(a);
	rf_params_free(&t);
	rf_config_free(&c);
	test_decay("gated_deltanet", ".A_log", exp, 0, 16);
	test_decay("gated_deltanet", ".dt_bias", log_softplus, log(1e-3), log(1e-1));
	test_decay("qwen3_5_text", ".A_log", exp, 0.01, 16);
	test_qwen();
	return tap_end();
}
