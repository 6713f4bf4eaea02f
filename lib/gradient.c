#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "disk.h"
#include "gradient.h"
#include "tensors.h"

enum rf_code rf_gradient_write(struct rf_train *t, const char *path, const char *weights, struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	const struct rf_params *p = g->model.params;
	float *flat = malloc(p->total * 4);
	struct rf_tensor *list = calloc((size_t)p->n, sizeof *list);
	const char *const extra[] = { "weights", weights, NULL };
	char temp[4096];
	enum rf_code rc;

	if (!flat || !list) {
		rc = rf_fail(e, RF_ENOMEM, "out of memory for a gradient");
	} else {
		g->dev.ops->download(&g->dev, flat, g->model.g, p->total * 4);
		rc = rf_dev_sync(&g->dev, e);
	}
	for (int i = 0; rc == RF_OK && i < p->n; i++) {
		const struct rf_param *q = &p->p[i];

		list[i] = (struct rf_tensor){ .name = q->name, .dtype = RF_F32, .ndim = q->ndim, .count = q->count, .bytes = q->count * 4,
		                              .data = flat + q->offset };
		for (int j = 0; j < q->ndim; j++)
			list[i].shape[j] = q->shape[j];
		for (size_t j = 0; j < q->count; j++)
			if (!isfinite(flat[q->offset + j])) {
				rc = rf_fail(e, RF_ENUMERIC, "the gradient of '%s' is not finite", q->name);
				break;
			}
	}
	if (rc == RF_OK)
		rc = rf_disk_temp(temp, path, e);
	if (rc == RF_OK && (rc = rf_tensors_write(temp, list, p->n, extra, e)) == RF_OK)
		rc = rf_disk_publish(temp, path, NULL, e);
	free(flat);
	free(list);
	return rc;
}

enum rf_code rf_gradient_add(struct rf_train *t, const char *path, const char *weights, struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	struct rf_model *m = &g->model;
	const struct rf_params *p = m->params;
	float *flat = NULL;
	struct rf_tensors file;
	const char *made;
	enum rf_code rc = rf_tensors_open(&file, path, e);

	if (rc != RF_OK)
		return rc;
	made = rf_tensors_meta(&file, "weights");
	if (!made || strcmp(made, weights))
		rc = rf_fail(e, RF_EDATA, "%s: a gradient of weights %.16s, the run is at %.16s", path, made ? made : "unknown", weights);
	else if (file.n != p->n)
		rc = rf_fail(e, RF_EMODEL, "%s: %d tensors, the model has %d", path, file.n, p->n);
	else if (!(flat = calloc(p->total, sizeof *flat)))
		rc = rf_fail(e, RF_ENOMEM, "out of memory for a gradient");
	for (int i = 0; rc == RF_OK && i < p->n; i++) {
		const struct rf_param *q = &p->p[i];
		const struct rf_tensor *x = rf_tensors_find(&file, q->name);

		if (!x || !rf_same_shape(x, q))
			rc = rf_fail(e, RF_EMODEL, "%s: '%s' is missing or of another shape", path, q->name);
		else
			rc = rf_tensor_f32(x, flat + q->offset, e);
		for (size_t j = 0; rc == RF_OK && j < q->count; j++)
			if (!isfinite(flat[q->offset + j]))
				rc = rf_fail(e, RF_EDATA, "%s: '%s' is not finite", path, q->name);
	}
	if (rc == RF_OK && !t->other && !(t->other = g->dev.ops->alloc(&g->dev, p->total * 4)))
		rc = rf_dev_sync(&g->dev, e);
	if (rc == RF_OK) {
		g->dev.ops->upload(&g->dev, t->other, flat, p->total * 4);
		RF(&g->dev, axpy, .n = p->total, .scale = 1, .add = true, .x = t->other, .y = m->g);
		rc = rf_dev_sync(&g->dev, e);
	}
	free(flat);
	rf_tensors_close(&file);
	return rc;
}
