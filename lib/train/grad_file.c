/* grad_file.c -- one optimizer step of two programs: one writes its gradient to a file (--grad-out), the
 * other adds the file's gradient to its own gradient and makes the step (--grad-in).
 *
 * The gradient moves between file and device one block at a time, in both directions.  So no large memory is
 * needed after all the work has been done. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/ckpt_internal.h"
#include "ckpt/tensors.h"
#include "io/file.h"
#include "io/tempfile.h"
#include "train/adamw.h"
#include "train/grad_file.h"

enum { BLOCK = 1 << 16 }; /* numbers */

static bool all_finite(const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return false;
	return true;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Returns whether a file at `path` is, or would be, in a folder or below it. */
static bool would_be_inside(const char *path, const char *folder)
{
	char up[4096];

	return rf_file_directory(up, path, NULL) == RF_OK && rf_file_inside(up, folder);
}

enum rf_code rf_grad_file_place(const char *path, const char *run, struct rf_err *e)
{
	struct stat st;

	if (!strcmp(path, "-"))
		return rf_fail(e, RF_EUSAGE,
		               "--grad-out: '-' is not a file: name one ('./-' for one named '-')");
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return rf_fail(e, RF_EUSAGE,
		               "--grad-out: %s exists and is not a regular file: use another name", path);
	if (would_be_inside(path, run))
		return rf_fail(e, RF_EUSAGE, "--grad-out: %s is inside the run %s: write it elsewhere", path,
		               run);
	return rf_file_can_write(path, false, e);
}

static enum rf_code check_finite(struct rf_train *t, struct rf_err *e)
{
	const struct rf_model *m = &t->engine->model;
	const struct rf_params *p = m->params;
	double square;
	enum rf_code rc = rf_train_square(t, m->g, p->total, &square, e);

	if (rc != RF_OK || isfinite(square))
		return rc;
	for (int i = 0; i < p->n && rc == RF_OK; i++)
		if ((rc = rf_train_square(t, rf_at(m->g, p->p[i].offset), p->p[i].count, &square, e)) ==
		            RF_OK &&
		    !isfinite(square))
			rc = rf_fail(e, RF_ENUMERIC, "the gradient of '%s' is not finite", p->p[i].name);
	return rc;
}

enum rf_code rf_grad_file_write(struct rf_train *t, const char *path, const char *weights,
                                const volatile sig_atomic_t *stop, struct rf_err *e)
{
	const struct rf_engine *g = t->engine;
	const struct rf_params *p = g->model.params;
	struct rf_tensor *list = calloc((size_t)p->n, sizeof *list);
	const char *const extra[] = { "weights", weights, NULL };
	struct rf_tempfile f;
	enum rf_code rc = list ? check_finite(t, e)
	                       : rf_fail(e, RF_ENOMEM, "out of memory (a list of %d tensors)", p->n);

	for (int i = 0; rc == RF_OK && i < p->n; i++) {
		const struct rf_param *q = &p->p[i];

		list[i] = (struct rf_tensor){ .name = q->name,
			                      .dtype = RF_F32,
			                      .ndim = q->ndim,
			                      .count = q->count,
			                      .bytes = q->count * 4,
			                      .data = rf_at(g->model.g, q->offset),
			                      .transfer = &g->transfer };
		for (int j = 0; j < q->ndim; j++)
			list[i].shape[j] = q->shape[j];
	}
	if (rc == RF_OK && (rc = rf_tempfile_open(&f, path, stop, e)) == RF_OK) {
		if ((rc = rf_tensors_put(&f, list, p->n, extra, e)) == RF_OK)
			rc = rf_tempfile_commit(&f, NULL, e);
		else
			rf_tempfile_abandon(&f);
	}
	free(list);
	return rc;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Checks one tensor of the file.  add: adds it to the gradient, through the stage's block of device memory,
 * which the pass does not need any more. */
static enum rf_code check_tensor(const struct rf_work *w, const struct rf_tensor *x, const struct rf_param *q,
                                 float *block, bool add, struct rf_err *e)
{
	struct rf_engine *g = w->engine;
	size_t most = add && w->extra_bytes / 4 < BLOCK ? w->extra_bytes / 4 : BLOCK;
	enum rf_code rc;

	for (size_t at = 0; at < q->count; at += most) {
		size_t n = q->count - at < most ? q->count - at : most;

		if ((rc = rf_tensor_f32_part(x, at, n, block, e)) != RF_OK)
			return rc;
		if (!all_finite(block, n))
			return rf_fail(e, RF_EDATA, "'%s' has a value that is not finite", q->name);
		if (!add)
			continue;
		g->dev.ops->upload(&g->dev, w->extra, block, n * 4);
		RF_RUN(&g->dev, axpy, .n = n, .scale = 1, .add = true, .x = w->extra,
		       .y = rf_at(g->model.g, q->offset + at));
	}
	return RF_OK;
}

static enum rf_code read_gradient(const struct rf_train *t, const char *path, const char *weights, bool add,
                                  struct rf_err *e)
{
	const struct rf_params *p = &t->engine->ckpt->params;
	float *block = malloc(BLOCK * sizeof *block);
	struct rf_tensors file = { 0 };
	const char *made;
	enum rf_code rc =
		block ? rf_tensors_open(&file, path, e) : rf_fail(e, RF_ENOMEM, "out of memory (a gradient)");

	if (rc != RF_OK) {
		free(block);
		return rc;
	}
	made = rf_tensors_meta(&file, "weights");
	if (!made || strcmp(made, weights))
		rc = rf_fail(e, RF_EDATA,
		             "the gradient was computed with weights %.16s, but the run is at %.16s",
		             made ? made : "unknown", weights);
	else if (file.n != p->n)
		rc = rf_fail(e, RF_EMODEL, "the file has %d tensors, but the model needs %d", file.n, p->n);
	for (int i = 0; rc == RF_OK && i < p->n; i++) {
		const struct rf_tensor *x = rf_tensors_find(&file, p->p[i].name);

		if (!x || !rf_same_shape(x, &p->p[i]))
			rc = rf_fail(e, RF_EMODEL, "'%s' is missing or has another shape", p->p[i].name);
		else
			rc = check_tensor(t->work, x, &p->p[i], block, add, e);
	}
	if (rc != RF_OK)
		rf_blame(e, "%s", path);
	else if (add)
		rc = rf_dev_sync(&t->engine->dev, e);
	free(block);
	rf_tensors_close(&file);
	return rc;
}

enum rf_code rf_grad_file_check(const struct rf_train *t, const char *path, const char *weights,
                                struct rf_err *e)
{
	return read_gradient(t, path, weights, false, e);
}

enum rf_code rf_grad_file_add(struct rf_train *t, const char *path, const char *weights, struct rf_err *e)
{
	return read_gradient(t, path, weights, true, e);
}
