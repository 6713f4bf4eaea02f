/* init.c -- fresh weights.  Each number depends only on the seed, its tensor and its place in the tensor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ckpt/init.h"
#include "ckpt/writer.h"
#include "tokenizer/tokenizer.h"

static uint64_t key_of(uint64_t seed, int tensor, uint64_t element)
{
	return rf_draw_key(seed, RF_DRAW_WEIGHTS, 0, 0, (uint64_t)tensor, element >> 32);
}

static void init_normal(float *w, size_t n, double scale, uint64_t seed, int tensor)
{
	const double turn = 2 * acos(-1);
	uint64_t key = key_of(seed, tensor, 0);

	for (size_t j = 0; j < n; j += 2) {
		if ((uint32_t)j == 0)
			key = key_of(seed, tensor, j);
		double u = rf_draw(key, (uint32_t)j), v = rf_draw(key, (uint32_t)j + 1);
		double r = scale * sqrt(-2 * log1p(-u));
		w[j] = (float)(r * cos(turn * v));
		if (j + 1 < n)
			w[j + 1] = (float)(r * sin(turn * v));
	}
}

/* Returns a number in (low, high]; low may be 0. */
static double interpolate(const struct rf_param *p, double u)
{
	return p->low + (p->high - p->low) * (1 - u);
}

/* Returns an element of a weight that is not normal. */
static double draw_element(const struct rf_param *p, double u)
{
	double x;

	if (p->init == RF_INIT_LOG)
		return log(interpolate(p, u));
	x = exp(log(p->low) + (log(p->high) - log(p->low)) * u);
	return x + log(-expm1(-x)); /* softplus of this is x */
}

void rf_init_weights(const struct rf_params *t, uint64_t seed, float *flat)
{
	memset(flat, 0, t->total * sizeof *flat);
	for (int i = 0; i < t->n; i++) {
		float *w = flat + t->p[i].offset;

		switch (t->p[i].init) {
		case RF_INIT_NORMAL: init_normal(w, t->p[i].count, t->p[i].scale, seed, i); break;
		case RF_INIT_ONE:
			for (size_t j = 0; j < t->p[i].count; j++)
				w[j] = 1;
			break;
		case RF_INIT_ZERO: break;
		case RF_INIT_LOG:
		case RF_INIT_RATE:
			for (size_t j = 0; j < t->p[i].count; j++)
				w[j] = (float)draw_element(&t->p[i],
				                           rf_draw(key_of(seed, i, j), (uint32_t)j));
			break;
		}
	}
}

enum rf_code rf_init_tokenizer(const struct rf_config *cfg, const char *config, const char **tokenizer,
                               char warning[RF_TOKENIZER_WARNING], struct rf_err *e)
{
	*warning = 0;
	if (!*tokenizer && cfg->vocab == RF_BYTES_VOCAB)
		*tokenizer = "bytes";
	if (*tokenizer && !strcmp(*tokenizer, "bytes") && cfg->vocab < RF_BYTES_VOCAB)
		return rf_fail(e, RF_EMODEL, "%s: vocab_size is %d, but the byte tokenizer has %d tokens",
		               config, cfg->vocab, RF_BYTES_VOCAB);
	return *tokenizer && strcmp(*tokenizer, "bytes")
	               ? rf_tokenizer_fit_copy(*tokenizer, cfg, config, warning, e)
	               : RF_OK;
}

enum rf_code rf_init_fresh(const struct rf_config *cfg, const struct rf_params *t, uint64_t seed,
                           const char *tokenizer, const char *dir, const volatile sig_atomic_t *stop,
                           struct rf_err *e)
{
	struct rf_ckpt_writer w = {
		.cfg = cfg, .params = t, .dtype = RF_F32, .tokenizer = tokenizer, .stop = stop
	};
	float *flat = malloc(t->total * sizeof *flat);
	enum rf_code rc;

	if (!flat)
		return rf_fail(e, RF_ENOMEM, "out of memory: %zu weights", t->total);
	rf_init_weights(t, seed, flat);
	rc = rf_ckpt_write(&w, dir, flat, e);
	free(flat);
	return rc;
}

enum rf_code rf_init_export(const struct rf_ckpt *from, enum rf_dtype dtype, const char *dir,
                            const volatile sig_atomic_t *stop, struct rf_err *e)
{
	struct rf_ckpt_writer w = RF_CKPT_WRITER(from);
	float *flat = malloc(from->params.total * sizeof *flat);
	enum rf_code rc;

	if (!flat)
		return rf_fail(e, RF_ENOMEM, "out of memory: %zu weights", from->params.total);
	w.dtype = dtype;
	w.with_card = true;
	w.stop = stop;
	if ((rc = rf_ckpt_load(from, flat, e)) == RF_OK)
		rc = rf_ckpt_write(&w, dir, flat, e);
	free(flat);
	return rc;
}
