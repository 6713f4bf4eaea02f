/* moments.c -- optim.safetensors: the moments of the optimizer, exp_avg.NAME and exp_avg_sq.NAME for each
 * weight.  One process writes all of them, or several processes write their spans into the same file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/ckpt_internal.h"
#include "ckpt/writer.h"
#include "io/file.h"

/* In order of name: "exp_avg." sorts before "exp_avg_sq.". */
static const char *const kinds[2] = { "exp_avg", "exp_avg_sq" };

enum rf_code rf_moments_table(struct rf_moments *o, const struct rf_params *params, const float *m,
                              const float *v, const struct rf_transfer *transfer, struct rf_err *e)
{
	*o = (struct rf_moments){ .n = 2 * params->n };
	o->t = calloc((size_t)o->n + 1, sizeof *o->t);
	o->names = calloc((size_t)o->n + 1, sizeof *o->names);
	if (!o->t || !o->names) {
		rf_moments_free(o);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	for (int i = 0; i < o->n; i++) {
		const struct rf_param *p = &params->p[i % params->n];
		const float *from = i < params->n ? m : v;
		struct rf_tensor *t = &o->t[i];

		snprintf(o->names[i], sizeof o->names[i], "%s.%s", kinds[i / params->n], p->name);
		/* clang-format off */
		*t = (struct rf_tensor){ .name = o->names[i], .dtype = RF_F32, .ndim = p->ndim,
		                         .count = p->count, .bytes = p->count * 4, .transfer = transfer,
		                         .data = from ? from + p->offset : NULL };
		/* clang-format on */
		for (int d = 0; d < p->ndim; d++)
			t->shape[d] = p->shape[d];
	}
	return RF_OK;
}

void rf_moments_free(struct rf_moments *o)
{
	free(o->t);
	free(o->names);
	*o = (struct rf_moments){ .t = NULL };
}

/* Writes one kind of moments of the span, from x, to their places in the file. */
static enum rf_code write_kind(int fd, const struct rf_tensors *file, const char *kind,
                               const struct rf_params *params, const struct rf_span *own, const float *x,
                               const struct rf_transfer *transfer, float *block, struct rf_err *e)
{
	const size_t most = transfer->block / sizeof *block;
	char name[RF_MAX_NAME + 16];
	enum rf_code rc = RF_OK;

	for (int i = 0; i < params->n && rc == RF_OK; i++) {
		const struct rf_param *p = &params->p[i];
		const struct rf_span here = rf_span_of(own, p->offset, p->count);
		const struct rf_tensor *t;

		if (!here.n)
			continue;
		snprintf(name, sizeof name, "%s.%s", kind, p->name);
		t = rf_tensors_find(file, name);
		if (!t || t->dtype != RF_F32 || !rf_same_shape(t, p))
			return rf_fail(e, RF_EMODEL, "'%s' is missing or has another shape", name);
		for (size_t at = 0; at < here.n && rc == RF_OK; at += most) {
			const size_t n = here.n - at < most ? here.n - at : most;
			const float *from = x + (here.first - own->first) + at;

			rc = transfer->get(transfer->arg, block, from, n * 4, e);
			if (rc == RF_OK)
				rc = rf_file_pwrite(fd, block, n * 4,
				                    t->at + (here.first - p->offset + at) * 4, e);
		}
	}
	return rc;
}

enum rf_code rf_ckpt_put_span(const char *path, const struct rf_params *params, const struct rf_span *span,
                              const float *m, const float *v, const struct rf_transfer *transfer,
                              struct rf_err *e)
{
	float *block = malloc(transfer->block);
	struct rf_tensors file;
	enum rf_code rc;
	int fd;

	if (!block)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = rf_tensors_open(&file, path, e)) != RF_OK) {
		free(block);
		return rf_blame(e, "%s", path);
	}
	if ((fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
		rc = rf_fail(e, RF_EIO, "open: %s", strerror(errno));
	if (rc == RF_OK)
		rc = write_kind(fd, &file, kinds[0], params, span, m, transfer, block, e);
	if (rc == RF_OK)
		rc = write_kind(fd, &file, kinds[1], params, span, v, transfer, block, e);
	if (rc == RF_OK && rf_file_sync(fd) < 0)
		rc = rf_fail(e, RF_EIO, "sync: %s", strerror(errno));
	if (fd >= 0 && close(fd) < 0 && rc == RF_OK)
		rc = rf_fail(e, RF_EIO, "close: %s", strerror(errno));
	rf_tensors_close(&file);
	free(block);
	return rc == RF_OK ? RF_OK : rf_blame(e, "%s", path);
}
