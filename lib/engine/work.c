/* work.c -- plans and reserves the memory of all stages.  The tree and the device memory of the stage are one
 * block each.  The functions that lay out a block first count it (arena.h), so the count is exact. */
#include "engine/work.h"
#include "model/mixer.h"

static int larger(int a, int b) { return a > b ? a : b; }
static int smaller(int a, int b) { return a < b ? a : b; }

/* Returns the shape with the larger number of each kind. */
static struct rf_shape merge_shapes(struct rf_shape a, struct rf_shape b)
{
	return (struct rf_shape){ larger(a.T, b.T), larger(a.c, b.c), larger(a.n, b.n), larger(a.k, b.k) };
}

/* Returns the plan of a tree for a shape, of which --max-len may raise the T. */
static struct rf_plan plan_of(const struct rf_engine *g, const struct rf_use *use, struct rf_shape *shape)
{
	struct rf_plan plan = use->tree;

	shape->T = larger(shape->T, g->max_len);
	plan.max_len = shape->T;
	plan.segment = rf_segment(g->segment);
	plan.positions = shape->c;
	plan.n = shape->n;
	/* training alone needs no row for the last token of a rollout: its prediction has no loss */
	plan.k = plan.train && !plan.decode && shape->k ? shape->k - 1 : shape->k;
	return plan;
}

/* Returns the bytes of the stage's device memory for a shape. */
static size_t own_bytes(const struct rf_use *use, const struct rf_shape *shape)
{
	struct rf_arena a = { NULL, 0 };

	use->place(use->stage, shape, &a);
	return a.used;
}

/* Returns the bytes of a tree with this plan; 0: too many to count, or out of memory. */
static size_t tree_bytes(const struct rf_engine *g, const struct rf_plan *plan)
{
	struct rf_dev dev = g->dev; /* it gives sizes, and allocates nothing */
	struct rf_model bare = { .dev = &dev, .cfg = &g->ckpt->cfg, .params = &g->ckpt->params };
	size_t bytes = 0;

	if (rf_model_bind(&bare, NULL) == RF_OK)
		bytes = rf_tree_bytes(&bare, plan);
	rf_model_unbind(&bare);
	return bytes;
}

/* Counts the weights that are operands of products, and finds the largest of them and the widest row.
 * halved: weights that only products read need no rounded copy, and an embedding needs one only if it is the
 * head.  Embedding and head do not count for the largest and the widest: rows of the embedding are looked up,
 * and the head works on blocks of its own. */
static void count_weights(const struct rf_params *p, int vocab, bool halved, struct rf_workspace *need)
{
	for (int i = 0; i < p->n; i++) {
		const struct rf_param *w = &p->p[i];

		if (w->ndim != 2)
			continue;
		if (!halved || (!w->product && (p->tied || w->shape[0] != vocab))) {
			need->weights++;
			need->matrices += w->count;
		}
		if (w->shape[0] == vocab)
			continue;
		need->largest = w->count > need->largest ? w->count : need->largest;
		need->widest = larger(need->widest, larger(w->shape[0], w->shape[1]));
	}
}

/* Returns the numbers that the device's workspace depends on. */
static struct rf_workspace workspace_of(const struct rf_engine *g, const struct rf_plan *p)
{
	const struct rf_config *c = &g->ckpt->cfg;
	/* clang-format off */
	struct rf_workspace need = { .d = c->d, .vocab = c->vocab, .train = g->train,
	                             .rollouts = p->positions * p->n, .steps = p->k, .group = p->n,
	                             .decode = p->decode };
	/* clang-format on */

	count_weights(&g->ckpt->params, c->vocab, rf_model_halves(&g->dev, g->train), &need);
	need.widest = larger(need.widest, 2 * c->ffn);
	need.segment = smaller(p->segment, p->max_len);
	need.rows = larger(need.segment, need.rollouts * need.steps);
	for (int l = 0; l < c->layers; l++)
		if (c->mixer[l]->workspace)
			c->mixer[l]->workspace(c, &need);
	return need;
}

/* ---- reserving ----------------------------------------------------------------------------- */

void rf_work_init(struct rf_work *w, struct rf_engine *g, struct rf_use use)
{
	*w = (struct rf_work){ .engine = g, .use = use };
	g->work = w;
}

void rf_work_forget(struct rf_work *w)
{
	rf_tree_free(w->tree);
	if (w->extra)
		w->engine->dev.ops->release(&w->engine->dev, w->extra);
	*w = (struct rf_work){ .engine = w->engine, .use = w->use };
}

void rf_work_decodes(struct rf_work *w, int rollouts, int steps)
{
	struct rf_dev *d = &w->engine->dev;
	struct rf_workspace workspace = workspace_of(w->engine, &w->plan);

	workspace.now.rollouts = rollouts;
	workspace.now.steps = steps;
	d->ops->prepare(d, &workspace);
}

/* Returns whether a tree with plan a is large enough for plan b. */
static bool covers(const struct rf_plan *a, const struct rf_plan *b)
{
	return a->train == b->train && a->recompute == b->recompute && a->decode == b->decode &&
	       a->apart == b->apart && a->max_len >= b->max_len && a->positions >= b->positions &&
	       a->n >= b->n && a->k >= b->k;
}

enum rf_code rf_work_reserve(struct rf_work *w, const struct rf_shape *want, struct rf_err *e)
{
	struct rf_engine *g = w->engine;
	struct rf_shape shape = *want;
	struct rf_plan plan;
	struct rf_arena a;
	size_t extra;
	enum rf_code rc;

	if (w->use.decides_all)
		w->use.decide(w->use.stage, &shape);
	shape = merge_shapes(w->shape, shape);
	plan = plan_of(g, &w->use, &shape);
	extra = own_bytes(&w->use, &shape);
	if (!w->tree || !covers(&w->plan, &plan)) {
		rf_tree_free(w->tree);
		if ((rc = rf_tree_new(&w->tree, &g->model, &plan, e)) != RF_OK)
			return rc;
		w->plan = plan;
		rf_work_decodes(w, 0, 0);
		if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
			return rc;
	}
	if (extra > w->extra_bytes) {
		if (w->extra)
			g->dev.ops->release(&g->dev, w->extra);
		w->extra_bytes = 0;
		if (!(w->extra = g->dev.ops->alloc(&g->dev, extra)))
			return rf_dev_sync(&g->dev, e);
		w->extra_bytes = extra;
	}
	w->shape = shape;
	a = (struct rf_arena){ w->extra, 0 };
	w->use.place(w->use.stage, &shape, &a);
	return RF_OK;
}

/* ---- planning ------------------------------------------------------------------------------ */

bool rf_work_expect(const struct rf_head *h, struct rf_shape *shape)
{
	/* larger numbers in a stream do not decide an allocation */
	enum { MOST = 1 << 16, MOST_TOKENS = 1 << 20 };
	const struct {
		const char *tool, *option;
		int *to;
	} said[] = {
		{ "rf-select", "chunks", &shape->c },
		{ "rf-rollout", "rollouts", &shape->n },
		{ "rf-rollout", "length", &shape->k },
	};

	const struct rf_shape before = *shape;
	bool any = false;

	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		int64_t value;

		if (rf_head_asked(h, said[i].tool, said[i].option, &value) && value > 0 && value <= MOST) {
			*said[i].to = (int)value;
			any = true;
		}
	}
	if ((int64_t)shape->c * shape->n * shape->k <= MOST_TOKENS)
		return any;
	*shape = before;
	return false;
}

enum rf_code rf_work_ahead(struct rf_engine *g, const struct rf_head *h, struct rf_err *e)
{
	struct rf_shape shape = RF_SHAPE_PAPER;

	if (!g->max_len || !g->work)
		return RF_OK;
	shape.T = g->max_len;
	rf_work_expect(h, &shape);
	g->work->use.decide(g->work->use.stage, &shape);
	return rf_work_reserve(g->work, &shape, e);
}

size_t rf_work_bytes(const struct rf_engine *g, const struct rf_use *use, const struct rf_shape *want)
{
	struct rf_shape shape = *want;
	const struct rf_plan plan = plan_of(g, use, &shape);
	const size_t tree = tree_bytes(g, &plan);

	return tree ? tree + own_bytes(use, &shape) : 0;
}

enum rf_code rf_work_memory(const struct rf_engine *g, struct rf_shape *shape, struct rf_memory *m,
                            struct rf_err *e)
{
	const struct rf_use *use = &g->work->use;
	const struct rf_span own = rf_params_part(&g->ckpt->params, g->part, g->parts ? g->parts : 1);
	struct rf_workspace workspace;
	struct rf_plan plan;

	use->decide(use->stage, shape);
	plan = plan_of(g, use, shape);
	if (!(m->pass = tree_bytes(g, &plan)))
		return rf_fail(e, RF_ENOMEM, "out of memory (the plan of a sequence of %d tokens)",
		               plan.max_len);
	m->pass += own_bytes(use, shape);
	workspace = workspace_of(g, &plan);
	m->weights =
		rf_model_bytes(&g->ckpt->params, g->train ? &own : NULL, rf_model_halves(&g->dev, g->train)) +
		g->ckpt->params.total * use->per_weight;
	m->device = g->dev.ops->workspace((struct rf_dev *)&g->dev, &workspace);
	m->all = m->weights + m->pass + m->device;
	return RF_OK;
}

double rf_work_operations(const struct rf_engine *g, struct rf_shape *shape)
{
	struct rf_dev dev = g->dev; /* it computes nothing */
	struct rf_model bare = { .dev = &dev, .cfg = &g->ckpt->cfg, .params = &g->ckpt->params };
	const struct rf_use *use = &g->work->use;
	const int T = shape->T;
	double operations = 0, rollout_rows;
	struct rf_plan plan;

	use->decide(use->stage, shape);
	plan = plan_of(g, use, shape);
	rollout_rows = (double)plan.positions * plan.n * plan.k;
	if (rf_model_bind(&bare, NULL) == RF_OK) {
		/* a row of a rollout costs as much as a row of the sequence; where nothing is learned, only
		   the rows of rollouts pass the head */
		operations = rf_model_flops(&bare, T, plan.train || !plan.positions ? T : 0) +
		             rf_model_flops(&bare, T, T) / T * rollout_rows;
		operations *= !plan.train ? 1 : plan.recompute ? 4 : 3;
	}
	rf_model_unbind(&bare);
	return operations;
}
