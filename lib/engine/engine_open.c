/* engine_open.c -- opens the device and loads the weights. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/work.h"

static enum rf_code download_block(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e)
{
	struct rf_dev *d = arg;

	d->ops->download(d, to, from, bytes);
	return rf_dev_sync(d, e);
}

static enum rf_code upload_block(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e)
{
	struct rf_dev *d = arg;

	(void)e; /* the next rf_dev_sync() reports a failure */
	d->ops->upload(d, to, from, bytes);
	return RF_OK;
}

/* Uploads weights to a model that stores some of them in bf16, and cannot give them back. */
static enum rf_code upload_weights(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e)
{
	struct rf_model *m = arg;

	(void)e;
	rf_model_put(m, ((uintptr_t)to - (uintptr_t)m->w) / 4, from, bytes / 4);
	return RF_OK;
}

/* Returns whether moments are loaded: only a step of a run records how many updates they have.  Otherwise
 * they begin at 0. */
static bool has_moments(const struct rf_engine *g) { return g->train && g->ckpt->in_run; }

static struct rf_span own_part(const struct rf_engine *g)
{
	return rf_params_part(&g->ckpt->params, g->part, g->parts ? g->parts : 1);
}

/* Loads weights and moments from the files to the device, a block at a time, so that loading takes no
 * memory. */
static enum rf_code load_weights(struct rf_engine *g, struct rf_err *e)
{
	struct rf_model *m = &g->model;
	struct rf_transfer transfer = g->transfer;
	enum rf_code rc;

	if (m->halved) {
		transfer.arg = m;
		transfer.get = NULL;
		transfer.put = upload_weights;
	}
	rf_model_clear(m);
	if (g->train) {
		g->dev.ops->zero(&g->dev, m->m, m->own.n * 4);
		g->dev.ops->zero(&g->dev, m->v, m->own.n * 4);
	}
	rc = rf_ckpt_load_to(g->ckpt, (void *)m->w, has_moments(g) ? &m->own : NULL, (void *)m->m,
	                     (void *)m->v, &transfer, e);
	return rc == RF_OK ? rf_dev_sync(&g->dev, e) : rc;
}

/* Returns the memory of the GPU that other programs of a pipeline take at the same time.  A filter has the
 * weights, the rounded copy of a head that is the embedding, and the pass of a segment.  The driver takes
 * memory for each program, also for this one. */
static size_t taken_by_others(const struct rf_engine *g)
{
	const struct rf_params *p = &g->ckpt->params;
	const size_t pass = (size_t)1 << 30, driver = (size_t)1 << 29,
		     head = p->tied ? (size_t)g->ckpt->cfg.vocab * (size_t)g->ckpt->cfg.d * 2 : 0,
		     filter = rf_model_bytes(p, NULL, rf_model_halves(&g->dev, false)) + head + pass + driver;

	return driver + (g->train ? 2 * filter : 0);
}

static enum rf_code choose_segment(struct rf_engine *g, struct rf_err *e)
{
	enum { LEAST = 2048, FILTER = 4096, TRAINER = 8192 };
	const size_t all = g->dev.memory, taken = taken_by_others(g), room = all > taken ? all - taken : 0;
	struct rf_memory memory;
	enum rf_code rc;

	if (!all || !g->work) {
		g->segment = LEAST;
		return RF_OK;
	}
	for (g->segment = g->train ? TRAINER : FILTER; g->segment > LEAST; g->segment /= 2) {
		struct rf_shape shape = RF_SHAPE_PAPER;

		shape.T = g->max_len ? g->max_len : g->segment;
		if (g->work->use.tree.recompute && g->segment > FILTER)
			continue;
		if ((rc = rf_work_memory(g, &shape, &memory, e)) != RF_OK)
			return rc;
		if (memory.all <= room)
			break;
	}
	return RF_OK;
}

enum rf_code rf_engine_open(struct rf_engine *g, const struct rf_ckpt *ckpt, bool train, struct rf_err *e)
{
	const char *asked = g->device ? g->device : getenv("RF_DEVICE"), *operands = getenv("RF_DTYPE");
	struct rf_span own;
	enum rf_code rc;

	g->train = train;
	if (!ckpt) {
		if (!g->path)
			return rf_fail(e, RF_EUSAGE, "missing option: -m RUN or -m CHECKPOINT");
		bool config = g->dry_run && rf_is_config(g->path);

		if ((rc = (config ? rf_ckpt_of_config : rf_ckpt_open)(&g->own, g->path, e)) != RF_OK)
			return rc;
	}
	g->ckpt = ckpt ? ckpt : &g->own;
	if (asked && !*asked)
		asked = NULL;
	if (g->math == RF_MATH_AUTO && operands && *operands) {
		if (strcmp(operands, "f32") && strcmp(operands, "bf16"))
			return rf_fail(e, RF_EUSAGE, "RF_DTYPE: '%.40s' is not one of f32|bf16", operands);
		g->math = strcmp(operands, "f32") ? RF_MATH_BF16 : RF_MATH_F32;
	}
	if ((rc = rf_cpu_isa(g->isa, e)) != RF_OK)
		return rc;
	if ((rc = rf_dev_open(&g->dev, asked, g->threads, g->math, &g->note, e)) != RF_OK)
		return rc;
	g->math = g->dev.math;
	/* a transfer from a GPU starts after some microseconds, in which a megabyte could be copied */
	g->transfer = (struct rf_transfer){ &g->dev, download_block, upload_block,
		                            *g->dev.model ? 16 << 20 : 1 << 16 };
	own = own_part(g);
	if (!g->segment && (rc = choose_segment(g, e)) != RF_OK)
		return rc;
	if (g->dry_run) {
		g->model.dev = NULL;
		return g->ckpt->config_only ? RF_OK
		                            : rf_ckpt_load_to(g->ckpt, NULL, has_moments(g) ? &own : NULL,
		                                              NULL, NULL, NULL, e);
	}
	if ((rc = rf_model_init(&g->model, &g->dev, &g->ckpt->cfg, &g->ckpt->params, train ? &own : NULL,
	                        e)) != RF_OK)
		return rc;
	return load_weights(g, e);
}

void rf_engine_close(struct rf_engine *g)
{
	if (g->work)
		rf_work_forget(g->work);
	rf_model_free(&g->model);
	rf_dev_close(&g->dev);
	if (g->ckpt == &g->own)
		rf_ckpt_close(&g->own);
}
