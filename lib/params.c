/* params.c -- the weights of each kind of model, by their Hugging Face names. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"

enum { ALIGN = 16, MAX_PER_LAYER = 20 };

/* Appends a weight with the dimensions up to the first 0. */
static void add(struct rf_params *t, enum rf_init_kind init, double scale, const int shape[4], const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

static void add(struct rf_params *t, enum rf_init_kind init, double scale, const int shape[4], const char *fmt, ...)
{
	struct rf_param *p = &t->p[t->n++];
	va_list ap;

	*p = (struct rf_param){ .count = 1, .decay = true, .init = init, .scale = scale };
	va_start(ap, fmt);
	vsnprintf(p->name, sizeof p->name, fmt, ap);
	va_end(ap);
	while (p->ndim < 4 && shape[p->ndim]) {
		p->shape[p->ndim] = shape[p->ndim];
		p->count *= (size_t)shape[p->ndim++];
	}
}

/* Layer i: DeltaNet (fla.layers.DeltaNet), or softmax attention where the config says so (fla.layers.Attention). */
static void add_delta_layer(struct rf_params *t, const struct rf_config *c, int i)
{
	const int d = c->d, HK = c->heads * c->K, HV = c->heads * c->V, F = c->ffn, w = c->conv_size;
	const double s = c->initializer_range;

#define LINEAR(name, out, in) add(t, RF_INIT_NORMAL, s, (int[4]){ out, in }, "model.layers.%d." name ".weight", i)
#define BIAS(name, n)         add(t, RF_INIT_ZERO, 0, (int[4]){ n }, "model.layers.%d." name ".bias", i)
#define NORM(name, n)         add(t, RF_INIT_ONE, 0, (int[4]){ n }, "model.layers.%d." name ".weight", i)
#define CONV(name, n)         add(t, RF_INIT_NORMAL, s, (int[4]){ n, 1, w }, "model.layers.%d." name ".weight", i)
	NORM("attn_norm", d);
	NORM("mlp_norm", d);
	LINEAR("mlp.gate_proj", F, d);
	LINEAR("mlp.up_proj", F, d);
	LINEAR("mlp.down_proj", d, F);
	if (c->has_attn && c->attn.in_layer[i]) {
		int kv = d / c->attn.heads * c->attn.kv_heads;
		LINEAR("attn.q_proj", d, d);
		LINEAR("attn.k_proj", kv, d);
		LINEAR("attn.v_proj", kv, d);
		LINEAR("attn.o_proj", d, d);
		if (c->attn.qkv_bias) {
			BIAS("attn.q_proj", d);
			BIAS("attn.k_proj", kv);
			BIAS("attn.v_proj", kv);
		}
		return;
	}
	LINEAR("attn.q_proj", HK, d);
	LINEAR("attn.k_proj", HK, d);
	LINEAR("attn.v_proj", HV, d);
	LINEAR("attn.o_proj", d, HV);
	NORM("attn.o_norm", c->V);
	if (c->use_beta)
		LINEAR("attn.b_proj", c->heads, d);
	if (c->use_gate)
		LINEAR("attn.g_proj", HV, d);
	if (c->use_short_conv) {
		CONV("attn.q_conv1d", HK);
		CONV("attn.k_conv1d", HK);
		CONV("attn.v_conv1d", HV);
	}
#undef LINEAR
#undef BIAS
#undef NORM
#undef CONV
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rf_param *)a)->name, ((const struct rf_param *)b)->name);
}

enum rf_code rf_params_build(struct rf_params *t, const struct rf_config *cfg, bool tied, struct rf_err *e)
{
	*t = (struct rf_params){ .tied = tied };
	if (!(t->p = calloc((size_t)cfg->layers * MAX_PER_LAYER + 3, sizeof *t->p)))
		return rf_fail(e, RF_ENOMEM, "out of memory");

	add(t, RF_INIT_NORMAL, cfg->initializer_range, (int[4]){ cfg->vocab, cfg->d }, "model.embeddings.weight");
	for (int i = 0; i < cfg->layers; i++)
		add_delta_layer(t, cfg, i);
	add(t, RF_INIT_ONE, 0, (int[4]){ cfg->d }, "model.norm.weight");
	if (!tied)
		add(t, RF_INIT_NORMAL, cfg->initializer_range, (int[4]){ cfg->vocab, cfg->d }, "lm_head.weight");
	qsort(t->p, (size_t)t->n, sizeof *t->p, by_name);

	/* 64 bits are enough: at most 2^10 layers of 10 matrices of 2^40, and two of 2^44 */
	for (int i = 0; i < t->n; i++) {
		t->p[i].offset = t->total;
		t->total += (t->p[i].count + ALIGN - 1) / ALIGN * ALIGN;
	}
	return RF_OK;
}

const struct rf_param *rf_params_find(const struct rf_params *t, const char *name)
{
	int lo = 0, hi = t->n;

	while (lo < hi) {
		int mid = lo + (hi - lo) / 2, c = strcmp(name, t->p[mid].name);
		if (c == 0)
			return &t->p[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

void rf_params_free(struct rf_params *t)
{
	free(t->p);
	*t = (struct rf_params){ .p = NULL };
}
