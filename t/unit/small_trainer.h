/* small_trainer.h -- a trainer without a model, for tests: it changes every weight and moment of a run and
 * commits them; and a reader of such a run. */
#ifndef RF_T_SMALL_TRAINER_H
#define RF_T_SMALL_TRAINER_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/writer.h"

/* Allocates 3 n floats. */
static inline float *floats(size_t n)
{
	float *p = calloc(3 * n, sizeof *p);

	if (!p)
		abort();
	return p;
}

/* Changes the weights and moments of the newest step by amounts that depend on `step`, and commits them as
 * that step. */
static inline enum rf_code train(struct rf_run *r, int64_t step, const struct rf_commit *how,
                                 const volatile sig_atomic_t *stop, struct rf_err *e)
{
	const size_t n = r->at.params.total;
	float *w = floats(n), *m = w + n, *v = m + n;
	struct rf_ckpt_writer writer = RF_CKPT_WRITER(&r->at);
	struct rf_commit c = *how;
	enum rf_code rc;
	bool there;

	if ((rc = rf_ckpt_load(&r->at, w, e)) == RF_OK &&
	    (rc = rf_ckpt_load_moments(&r->at, m, v, &there, e)) == RF_OK) {
		for (int i = 0; i < r->at.params.n; i++)
			for (size_t k = r->at.params.p[i].offset, end = k + r->at.params.p[i].count; k < end;
			     k++) {
				w[k] += 1e-3f * (float)step;
				m[k] += (float)step;
				v[k] += 1;
			}
		c.step = step;
		c.updates = r->at.updates + 2;
		writer.with_moments = true;
		writer.stop = stop;
		if ((rc = rf_commit_begin(r, &c, &writer, e)) == RF_OK &&
		    (rc = rf_ckpt_put_weights(&writer, w, e)) == RF_OK &&
		    (rc = rf_ckpt_put_moments(&writer, m, v, e)) == RF_OK)
			rc = rf_commit_finish(r, &c, &writer, e);
	}
	free(w);
	return rc;
}

/* Writes these weights as a checkpoint without a run. */
static inline enum rf_code export(const struct rf_ckpt *c, const float *weights, enum rf_dtype dtype,
                                  const char *dir, struct rf_err *e) {
	struct rf_ckpt_writer w = RF_CKPT_WRITER(c);

	w.dtype = dtype;
	w.with_card = true;
	return rf_ckpt_write(&w, dir, weights, e);
}

/* Reads the newest step of a run: its weights and moments, as a filter does, and its files, as rf-dump
 * --check does.  *gone: a trainer has removed the step meanwhile, so the run has a newer one. */
static inline enum rf_code read_once(const char *path, int64_t *step, char weights[17], bool *gone,
                                     struct rf_err *e)
{
	struct rf_ckpt c;
	enum rf_code rc;
	bool there;
	float *w;

	*gone = false;
	if ((rc = rf_ckpt_open(&c, path, e)) != RF_OK)
		return rc;
	w = floats(c.params.total);
	if ((rc = rf_ckpt_load(&c, w, e)) == RF_OK &&
	    (rc = rf_ckpt_load_moments(&c, w + c.params.total, w + 2 * c.params.total, &there, e)) == RF_OK)
		rc = rf_ckpt_verify(&c, e);
	*step = c.step;
	strcpy(weights, c.weights);
	free(w);
	*gone = access(c.dir, F_OK) < 0;
	rf_ckpt_close(&c);
	return rc;
}

/* Reads the newest step of a run.  Begins again if a trainer removed the step, as rf-dump --check does. */
static inline enum rf_code read_whole(const char *path, int64_t *step, char weights[17], struct rf_err *e)
{
	enum rf_code rc;
	bool gone;

	do
		rc = read_once(path, step, weights, &gone, e);
	while (rc != RF_OK && gone);
	return rc;
}

#endif
