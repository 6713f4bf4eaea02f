/* adamw.c -- the learning rate, the tensors that are trained, and the AdamW step.
 *
 * Norms and dot products are added up tile by tile, in order, so their bits do not depend on the number of
 * ranks. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/adamw.h"

double rf_train_lr(const struct rf_train *t, int64_t step)
{
	double at = (double)step, warmup = (double)t->adamw.warmup, left;

	if (at < warmup)
		return t->adamw.lr * (at + 1) / warmup;
	if (t->adamw.schedule == RF_CONSTANT || t->adamw.total_steps <= t->adamw.warmup)
		return t->adamw.lr;
	left = 1 - (at - warmup) / ((double)t->adamw.total_steps - warmup);
	left = left < 0 ? 0 : left;
	return t->adamw.lr * (t->adamw.schedule == RF_LINEAR ? left : (1 - cos(M_PI * left)) / 2);
}

/* Returns whether a pattern of n bytes matches a tensor's name, or the part of it after one of its dots. */
static bool matches(const char *pattern, size_t n, const char *name)
{
	char one[RF_MAX_NAME];

	if (n >= sizeof one)
		return false;
	memcpy(one, pattern, n);
	one[n] = 0;
	for (const char *at = name;; at++) {
		if (!fnmatch(one, at, 0))
			return true;
		if (!(at = strchr(at, '.')))
			return false;
	}
}

/* Returns the pattern after this one in a list with commas; NULL: it is the last. */
static const char *next_pattern(const char *at)
{
	at += strcspn(at, ",");
	return *at ? at + 1 : NULL;
}

/* Returns whether a tensor is trained (--train). */
static bool trained(const struct rf_train *t, const struct rf_param *p)
{
	for (const char *at = t->adamw.only; at; at = next_pattern(at))
		if (matches(at, strcspn(at, ","), p->name))
			return true;
	return !t->adamw.only;
}

enum rf_code rf_train_check_only(const struct rf_train *t, struct rf_err *e)
{
	const struct rf_params *table = &t->engine->ckpt->params;

	for (const char *at = t->adamw.only; at; at = next_pattern(at)) {
		const size_t n = strcspn(at, ",");
		bool any = false;

		for (int i = 0; i < table->n && !any; i++)
			any = matches(at, n, table->p[i].name);
		if (!any)
			return rf_fail(e, RF_EUSAGE,
			               "--train: no tensor of the model matches '%.*s' (rf-dump lists them; "
			               "the first is %s)",
			               n < 80 ? (int)n : 80, at, table->p[0].name);
	}
	return RF_OK;
}

/* Sets the gradient of tensors that are not trained to 0. */
void rf_train_clear_untrained(struct rf_train *t, rf_f32 grad)
{
	struct rf_engine *g = t->engine;
	const struct rf_params *table = &g->ckpt->params;

	for (int i = 0; t->adamw.only && i < table->n; i++) {
		const struct rf_param *p = &table->p[i];
		const struct rf_span here = rf_span_of(&g->model.own, p->offset, p->count);

		if (here.n && !trained(t, p))
			g->dev.ops->zero(&g->dev, rf_at(grad, here.first), here.n * sizeof(float));
	}
}

enum rf_code rf_train_square(struct rf_train *t, rf_f32 x, size_t n, double *sum, struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	double *part = malloc((rf_train_tiles(n) + 1) * sizeof *part);
	enum rf_code rc = part ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory (%zu sums)", rf_train_tiles(n));

	if (rc == RF_OK) {
		RF_RUN(&g->dev, dot, .n = n, .x = x, .y = x, .out = t->mem.product);
		g->dev.ops->download(&g->dev, part, t->mem.product, rf_train_tiles(n) * sizeof *part);
		rc = rf_dev_sync(&g->dev, e);
	}
	*sum = 0;
	for (size_t i = 0; rc == RF_OK && i < rf_train_tiles(n); i++)
		*sum += part[i];
	free(part);
	return rc;
}

/* The sum of x y over all ranks' parts.  Collective. */
double rf_train_dot(struct rf_train *t, rf_f32 x, rf_f32 y, struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	const struct rf_span *own = &g->model.own;
	const size_t all = rf_train_tiles(g->ckpt->params.total), some = rf_train_tiles(own->n);
	double *part = malloc((all + some) * sizeof *part), *mine = part ? part + all : NULL, s = 0;
	enum rf_code rc = part ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory (%zu sums)", all);

	if (rc == RF_OK && own->n) {
		RF_RUN(&g->dev, dot, .n = own->n, .x = rf_at(x, own->first), .y = rf_at(y, own->first),
		       .out = t->mem.product);
		g->dev.ops->download(&g->dev, mine, t->mem.product, some * sizeof *mine);
		rc = rf_dev_sync(&g->dev, e);
	}
	if (rc == RF_OK)
		rc = rf_exchange_tiles(&t->exchange, mine, part, e);
	for (size_t i = 0; rc == RF_OK && i < all; i++)
		s += part[i];
	free(part);
	return rc == RF_OK ? s : NAN;
}

enum rf_code rf_train_step(struct rf_train *t, int64_t step, int64_t updates, struct rf_train_stats *st,
                           struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	struct rf_model *m = &g->model;
	const struct rf_params *table = m->params;
	double n = (double)(updates + 1), scale, sum, from;
	struct rf_err err;
	enum rf_code rc;

	if ((rc = rf_train_open(t, e)) != RF_OK)
		return rc;
	err.code = RF_OK;
	rf_train_clear_untrained(t, m->g); /* --grad-in may have added to it */
	sum = rf_train_dot(t, m->g, m->g, &err);
	if (err.code != RF_OK) {
		*e = err;
		return err.code;
	}
	st->grad_norm = sqrt(sum);
	st->lr = rf_train_lr(t, step);
	if (!isfinite(st->grad_norm))
		return rf_fail(e, RF_ENUMERIC,
		               "the gradient is not finite: the batch is not committed (try a smaller --lr, "
		               "or --on-nan skip)");
	scale = t->adamw.grad_clip / (st->grad_norm + 1e-6);
	for (int i = 0, j; i < table->n; i = j) { /* neighbours with the same decay together */
		const struct rf_param *p = &table->p[i];
		struct rf_span here;
		size_t last;

		for (j = i + 1; j < table->n && table->p[j].decay == p->decay &&
		                trained(t, &table->p[j]) == trained(t, p);
		     j++)
			;
		last = j < table->n ? table->p[j].offset : table->total;
		here = rf_span_of(&m->own, p->offset, last - p->offset);
		if (!here.n || !trained(t, p))
			continue;
		RF_RUN(&g->dev, adamw, .n = here.n, .scale = scale < 1 ? scale : 1, .lr = st->lr,
		       .b1 = t->adamw.betas[0], .b2 = t->adamw.betas[1], .eps = t->adamw.eps,
		       .decay = p->decay ? t->adamw.weight_decay : 0, .c1 = 1 - pow(t->adamw.betas[0], n),
		       .c2 = 1 - pow(t->adamw.betas[1], n), .w = rf_at(m->w, here.first),
		       .m = rf_at(m->m, here.first - m->own.first),
		       .v = rf_at(m->v, here.first - m->own.first), .g = rf_at(m->g, here.first));
	}
	st->stepped = true;
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		return rc;
	from = rf_now();
	if ((rc = rf_exchange_weights(&t->exchange, m->w, e)) == RF_OK && t->exchange.parts)
		rc = rf_train_square(t, m->w, table->total, &st->weights_square, e);
	st->reduce += rf_now() - from;
	return rc;
}
