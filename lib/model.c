#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "mixer.h"
#include "model.h"

struct rf_weight rf_model_weight(const struct rf_model *m, const char *fmt, ...)
{
	char name[120];
	const struct rf_param *p;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof name, fmt, ap);
	va_end(ap);
	p = rf_params_find(m->params, name);
	return p ? (struct rf_weight){ p->offset, true, p->shape[0], p->ndim > 1 ? p->shape[p->ndim - 1] : 1 } : (struct rf_weight){ 0 };
}

size_t rf_model_bytes(const struct rf_params *params, bool train)
{
	return params->total * 4 * (train ? 4 : 1);
}

enum rf_code rf_model_bind(struct rf_model *m)
{
	const struct rf_config *cfg = m->cfg;

	if (!(m->layer = calloc((size_t)cfg->layers, sizeof *m->layer)))
		return RF_ENOMEM;
	m->embed = rf_model_weight(m, "model.embeddings.weight");
	m->norm = rf_model_weight(m, "model.norm.weight");
	m->head = m->params->tied ? m->embed : rf_model_weight(m, "lm_head.weight");
	for (int i = 0; i < cfg->layers; i++) {
		struct rf_layer *l = &m->layer[i];

		l->attn_norm = rf_model_weight(m, "model.layers.%d.attn_norm.weight", i);
		l->mlp_norm = rf_model_weight(m, "model.layers.%d.mlp_norm.weight", i);
		l->gate = rf_model_weight(m, "model.layers.%d.mlp.gate_proj.weight", i);
		l->up = rf_model_weight(m, "model.layers.%d.mlp.up_proj.weight", i);
		l->down = rf_model_weight(m, "model.layers.%d.mlp.down_proj.weight", i);
		l->mixer = cfg->has_attn && cfg->attn.in_layer[i] ? &rf_mixer_attention : &rf_mixer_delta_net;
		l->mixer->bind(m, i);
	}
	return RF_OK;
}

enum rf_code rf_model_init(struct rf_model *m, struct rf_dev *dev, const struct rf_config *cfg, const struct rf_params *params,
                           bool train, struct rf_err *e)
{
	size_t bytes = params->total * 4;

	*m = (struct rf_model){ .dev = dev, .cfg = cfg, .params = params };
	if (rf_model_bind(m) != RF_OK)
		return rf_fail(e, RF_ENOMEM, "no memory for %d layers", cfg->layers);
	m->w = dev->ops->alloc(dev, bytes);
	if (train && m->w) {
		m->g = dev->ops->alloc(dev, bytes);
		m->m = dev->ops->alloc(dev, bytes);
		m->v = dev->ops->alloc(dev, bytes);
	}
	if (!m->w || (train && (!m->g || !m->m || !m->v))) {
		rf_model_free(m);
		return rf_dev_sync(dev, e);
	}
	return RF_OK;
}

void rf_model_upload(struct rf_model *m, const float *flat)
{
	m->dev->ops->upload(m->dev, m->w, flat, m->params->total * 4);
}

void rf_model_free(struct rf_model *m)
{
	if (!m->dev)
		return;
	m->dev->ops->release(m->dev, m->w);
	m->dev->ops->release(m->dev, m->g);
	m->dev->ops->release(m->dev, m->m);
	m->dev->ops->release(m->dev, m->v);
	free(m->layer);
	*m = (struct rf_model){ 0 };
}

void rf_linear_fwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x, rf_f32 y, bool add)
{
	RF(m->dev, gemm, .m = rows, .n = w.out, .k = w.in, .tb = true, .add = add, .weight = true, .a = x, .lda = w.in,
	   .b = rf_w(m, w), .ldb = w.in, .c = y, .ldc = w.out, .bias = rf_w(m, bias));
}

void rf_linear_bwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x, rf_f32 dy, rf_f32 dx, bool add)
{
	RF(m->dev, gemm, .m = w.out, .n = w.in, .k = rows, .ta = true, .add = true, .a = dy, .lda = w.out, .b = x, .ldb = w.in,
	   .c = rf_dw(m, w), .ldc = w.in);
	if (bias.there)
		RF(m->dev, colsum, .rows = rows, .d = w.out, .x = dy, .y = rf_dw(m, bias));
	if (dx)
		RF(m->dev, gemm, .m = rows, .n = w.in, .k = w.out, .add = add, .weight = true, .a = dy, .lda = w.out,
		   .b = rf_w(m, w), .ldb = w.in, .c = dx, .ldc = w.in);
}
