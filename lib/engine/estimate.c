/* estimate.c -- how long a sequence will take: the stage's operations, and a product's measured speed. */
#include "base/clock.h"
#include "engine/work.h"

static int smaller(int a, int b) { return a < b ? a : b; }

/* Rows of a segment times the weight of an MLP, both up to a size that says as much, of which a GPU wants
 * more: the best of a few times. */
static enum rf_code time_product(struct rf_engine *g, int rows, double *per_second, struct rf_err *e)
{
	enum { ROWS = 512, IN = 1024, OUT = 2048, TIMES = 20 };
	const double until = rf_now() + 0.05;
	struct rf_dev *d = &g->dev;
	const int by = *d->model ? 4 : 1;
	int m = smaller(rows, ROWS * by), k = smaller(g->ckpt->cfg.d, IN * by),
	    n = smaller(g->ckpt->cfg.ffn, OUT * by);
	size_t a = (size_t)m * (size_t)k, b = (size_t)n * (size_t)k, c = (size_t)m * (size_t)n;
	enum rf_code rc = RF_OK;
	rf_f32 x = d->ops->alloc(d, (a + b + c) * 4);
	double best = 0;

	if (!x)
		return rf_dev_sync(d, e);
	d->ops->zero(d, x, (a + b + c) * 4);
	/* the first prepares */
	for (int i = 0; rc == RF_OK && i < TIMES && (i < 2 || rf_now() < until); i++) {
		double t = rf_now();

		RF_RUN(d, gemm, .m = m, .n = n, .k = k, .tb = true, .weight = true, .a = x, .lda = k,
		       .b = rf_at(x, a), .ldb = k, .c = rf_at(x, a + b), .ldc = n);
		rc = rf_dev_sync(d, e);
		t = rf_now() - t;
		best = i == 0 || t < best ? t : best;
	}
	d->ops->release(d, x);
	*per_second = 2. * m * n * k / (best > 1e-9 ? best : 1e-9);
	return rc;
}

enum rf_code rf_work_speed(struct rf_engine *g, struct rf_shape *shape, struct rf_speed *s,
                             struct rf_err *e)
{
	struct rf_model bare = { .dev = &g->dev, .cfg = &g->ckpt->cfg, .params = &g->ckpt->params };
	const struct rf_use *use = &g->work->use;
	struct rf_demand need = { .grows = NULL };
	const struct rf_plan *p = &need.plan;
	int T = shape->T;
	double rollout_rows;

	use->decide(use->stage, shape);
	use->needs(use->stage, shape, &need);
	if (rf_model_bind(&bare, e) != RF_OK)
		return RF_ENOMEM;
	/* a row of a rollout costs as much as a row of the sequence; where nothing is learned, only the rows
	   of rollouts pass the head */
	rollout_rows = (double)p->positions * p->n * p->k;
	s->flops = rf_model_flops(&bare, T, p->train || !p->positions ? T : 0) +
	           rf_model_flops(&bare, T, T) / T * rollout_rows;
	s->flops *= !p->train ? 1 : p->recompute ? 4 : 3;
	rf_model_unbind(&bare);
	return time_product(g, smaller(T, rf_segment(g->segment)), &s->per_second, e);
}
