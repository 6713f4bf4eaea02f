/* weights.c -- the tensors of model.safetensors, as a writer writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ckpt/ckpt_internal.h"
#include "ckpt/writer.h"

enum rf_code rf_ckpt_list_weights(const struct rf_ckpt_writer *w, const float *weights, const uint16_t *half,
                                  struct rf_tensor **out, int *n, struct rf_err *e)
{
	const struct rf_tensors *old = w->from ? &w->from->tensors : NULL;
	char embedding[RF_MAX_NAME];
	struct rf_tensor *t;

	rf_config_embedding(w->cfg, embedding);
	*n = old ? old->n : w->params->n;
	if (!(*out = calloc((size_t)*n + 1, sizeof **out)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < *n; i++) {
		const char *name = old ? old->t[i].name : w->params->p[i].name;
		const struct rf_param *x = rf_params_find(w->params, name);

		t = *out + i;
		if (!x && w->params->tied && !strcmp(name, "lm_head.weight"))
			x = rf_params_find(w->params, embedding);
		if (!x) {
			*t = old->t[i];
			continue;
		}
		*t = (struct rf_tensor){
			.name = name, .dtype = x->f32 ? RF_F32 : w->dtype, .ndim = x->ndim, .count = x->count
		};
		t->bytes = x->count * (uint64_t)rf_dtype_size(t->dtype);
		t->data = t->dtype == RF_F32 ? weights + x->offset : (const void *)(half + x->offset);
		t->transfer = w->transfer;
		for (int k = 0; k < x->ndim; k++)
			t->shape[k] = x->shape[k];
	}
	return RF_OK;
}

enum rf_code rf_ckpt_to_half(const struct rf_ckpt_writer *w, const float *weights, uint16_t **out,
                             struct rf_err *e)
{
	const struct rf_params *params = w->params;
	uint16_t *h = malloc(params->total * sizeof *h);

	if (!h)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < params->n; i++) {
		if (params->p[i].f32)
			continue;
		for (size_t k = params->p[i].offset, end = k + params->p[i].count; k < end; k++) {
			h[k] = w->dtype == RF_F16 ? rf_f32_f16(weights[k]) : rf_f32_bf16(weights[k]);
			if ((h[k] & 0x7fff) >= (w->dtype == RF_F16 ? 0x7c00 : 0x7f80)) {
				free(h);
				return rf_fail(e, RF_ENUMERIC,
				               "'%s' has a weight of %g, which %s cannot hold",
				               params->p[i].name, (double)weights[k],
				               rf_dtype_name(w->dtype));
			}
		}
	}
	*out = h;
	return RF_OK;
}

enum rf_code rf_ckpt_hash_weights(const struct rf_ckpt_writer *w, const float *weights, char hex[17],
                                  struct rf_err *e)
{
	struct rf_tensor *t;
	enum rf_code rc;
	int n;

	if ((rc = rf_ckpt_list_weights(w, weights, NULL, &t, &n, e)) == RF_OK)
		rc = rf_tensors_hash(t, n, NULL, hex, e);
	free(t);
	return rc;
}
