/* engine.c -- a model that is ready to work: weights on the device, and memory for one sequence and
 * its rollouts.
 *
 * The memory is one tree (tree.h) and one block of the stage's own.  Both are laid out for the largest value
 * of each dimension so far, and never shrink.  So if a stream's largest record is known in advance (--max-len
 * gives the length, the history the positions and rollouts), nothing is allocated after the first
 * reservation. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "model/mixer.h"

void rf_engine_options(struct rf_engine *g, const char *model, struct rf_opt opts[RF_ENGINE_OPTS])
{
	const struct rf_opt table[] = {
		{ "model", 'm', RF_OPT_TEXT, &g->path, 0, 0, "path",
		  model ? model : "a run (its latest step) or a checkpoint directory", RF_OPT_OF_BATCH },
		{ "device", 0, RF_OPT_TEXT, &g->device, 0, 0, "cpu|cuda|auto",
		  "device to compute on; auto: a GPU if there is one", RF_OPT_OF_BATCH },
		{ "threads", 0, RF_OPT_INT, &g->threads, 0, 1024, "n",
		  "number of threads; 0: one per available processor", RF_OPT_OF_BATCH },
		{ "isa", 0, RF_OPT_TEXT, &g->isa, 0, 0, "level",
		  "highest instruction set level to use, such as x86_64_v3; auto: all there are",
		  RF_OPT_OF_BATCH },
		{ "segment", 0, RF_OPT_INT, &g->segment, 0, 1 << 24, "rows",
		  "tokens to process at once; memory grows with it; 0: what suits the device",
		  RF_OPT_OF_BATCH },
		{ "max-len", 0, RF_OPT_INT, &g->max_len, 0, 1 << 30, "tokens",
		  "plan memory for this length, refuse longer sequences; 0: plan as needed",
		  RF_OPT_OF_BATCH },
		{ "dtype", 0, RF_OPT_ENUM, &g->math, 0, 0, RF_MATH_WORDS,
		  "type of matrix product operands; auto: bf16 on a GPU, else f32",
		  RF_OPT_RESULT | RF_OPT_OF_BATCH },
		{ "deterministic", 0, RF_OPT_FLAG, &g->deterministic, 0, 0, NULL,
		  "no effect: every device is deterministic; accepted for scripts", RF_OPT_OF_BATCH },
		{ "dry-run", 0, RF_OPT_FLAG, &g->dry_run, 0, 0, NULL,
		  "check everything, print settings, memory and estimated time, exit", RF_OPT_OF_BATCH },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_ENGINE_OPTS);
}

/* ---- opening ------------------------------------------------------------------------------- */

static enum rf_code get(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e)
{
	struct rf_dev *d = arg;

	d->ops->download(d, to, from, bytes);
	return rf_dev_sync(d, e);
}

static enum rf_code put(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e)
{
	struct rf_dev *d = arg;

	(void)e; /* a failure shows at the next rf_dev_sync() */
	d->ops->upload(d, to, from, bytes);
	return RF_OK;
}

/* Of weights that are not all float32 here, and cannot be read back. */
static enum rf_code put_weights(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e)
{
	struct rf_model *m = arg;

	(void)e;
	rf_model_put(m, ((uintptr_t)to - (uintptr_t)m->w) / 4, from, bytes / 4);
	return RF_OK;
}

/* Only a step of a run says how many updates have made its moments; anywhere else they begin at 0. */
static bool moments(const struct rf_engine *g) { return g->train && g->ckpt->in_run; }

static struct rf_span own_part(const struct rf_engine *g)
{
	return rf_params_part(&g->ckpt->params, g->part, g->parts ? g->parts : 1);
}

/* Weights and moments go from the files to the device a block at a time, so that loading needs no
 * memory of its own. */
static enum rf_code load(struct rf_engine *g, struct rf_err *e)
{
	struct rf_model *m = &g->model;
	struct rf_transfer transfer = g->transfer;
	enum rf_code rc;

	if (m->halved) {
		transfer.arg = m;
		transfer.get = NULL;
		transfer.put = put_weights;
	}
	rf_model_clear(m);
	if (g->train) {
		g->dev.ops->zero(&g->dev, m->m, m->own.n * 4);
		g->dev.ops->zero(&g->dev, m->v, m->own.n * 4);
	}
	rc = rf_ckpt_load_to(g->ckpt, (void *)m->w, moments(g) ? &m->own : NULL, (void *)m->m, (void *)m->v,
	                     &transfer, e);
	return rc == RF_OK ? rf_dev_sync(&g->dev, e) : rc;
}

static bool halved(const struct rf_engine *g) { return rf_model_halves(&g->dev, g->train); }

/* Memory of the GPU that other programs of a pipeline take, which work on it at the same time: a filter has
 * the weights, the rounded copy of a head that is the embedding, and a segment's pass; and each program, this
 * one too, what the driver keeps for it. */
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
	struct rf_demand need = { .grows = NULL };
	struct rf_memory memory;
	enum rf_code rc;

	if (!all || !g->needs) {
		g->segment = LEAST;
		return RF_OK;
	}
	for (g->segment = g->train ? TRAINER : FILTER; g->segment > LEAST; g->segment /= 2) {
		struct rf_shape shape = RF_SHAPE_PAPER;

		shape.T = g->max_len ? g->max_len : g->segment;
		g->needs(g->stage, &shape, &need);
		if (need.plan.recompute && g->segment > FILTER)
			continue;
		if ((rc = rf_engine_memory(g, &shape, &memory, e)) != RF_OK)
			return rc;
		if (memory.all - memory.host <= room)
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
	/* what a GPU is asked for takes some microseconds to come, as long as a megabyte takes */
	g->transfer = (struct rf_transfer){ &g->dev, get, put, *g->dev.model ? 16 << 20 : 1 << 16 };
	own = own_part(g);
	if (!g->segment && (rc = choose_segment(g, e)) != RF_OK)
		return rc;
	if (g->dry_run) {
		g->model.dev = NULL;
		return g->ckpt->config_only ? RF_OK
		                            : rf_ckpt_load_to(g->ckpt, NULL, moments(g) ? &own : NULL,
		                                              NULL, NULL, NULL, e);
	}
	if ((rc = rf_model_init(&g->model, &g->dev, &g->ckpt->cfg, &g->ckpt->params, train ? &own : NULL,
	                        e)) != RF_OK)
		return rc;
	return load(g, e);
}

enum rf_code rf_engine_renew(struct rf_engine *g, struct rf_ckpt *next, struct rf_err *e)
{
	const bool same = !strcmp(next->weights, g->own.weights);

	if (strcmp(next->arch, g->own.arch))
		return rf_fail(e, RF_EMODEL, "%s: it is another model (%.12s) than before (%.12s)", next->dir,
		               next->arch, g->own.arch);
	rf_ckpt_advance(&g->own, next);
	return same ? RF_OK : load(g, e);
}

void rf_engine_forget(struct rf_engine *g)
{
	rf_tree_free(g->tree);
	if (g->extra)
		g->dev.ops->release(&g->dev, g->extra);
	g->tree = NULL;
	g->extra = NULL;
	g->extra_bytes = 0;
	g->plan = (struct rf_plan){ .max_len = 0 };
}

void rf_engine_close(struct rf_engine *g)
{
	rf_engine_forget(g);
	rf_model_free(&g->model);
	rf_dev_close(&g->dev);
	if (g->ckpt == &g->own)
		rf_ckpt_close(&g->own);
}

/* ---- what fits the model ------------------------------------------------------------------- */

enum rf_code rf_engine_check_head(const struct rf_engine *g, const struct rf_head *h, struct rf_err *e)
{
	return rf_ckpt_check_head(g->ckpt, h, e);
}

static enum rf_code check_tokens(const struct rf_engine *g, const int32_t *token, size_t n, const char *what,
                                 struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (token[i] < 0 || token[i] >= g->ckpt->cfg.vocab)
			return rf_fail(e, RF_EDATA, "%s %zu is %d, outside the model's vocabulary of %d",
			               what, i, token[i], g->ckpt->cfg.vocab);
	return RF_OK;
}

int rf_engine_length(const struct rf_engine *g, const struct rf_record *r)
{
	return r->T + (g->response ? r->response_len : 0);
}

enum rf_code rf_engine_check_record(const struct rf_engine *g, const struct rf_record *r, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	const int T = rf_engine_length(g, r);
	enum rf_code rc;

	if (g->max_len && T > g->max_len)
		return rf_fail(e, RF_EDATA,
		               "the sequence has %d tokens%s, more than --max-len %d (raise it, or cut with "
		               "rf-tokenize --max-len and --truncate)",
		               T, T > r->T ? " with its response" : "", g->max_len);
	rc = check_tokens(g, r->tokens, (size_t)r->T, "token", e);
	if (rc == RF_OK && g->response)
		rc = check_tokens(g, r->response, (size_t)r->response_len, "response token", e);
	return rc == RF_OK && o->tokens
	               ? check_tokens(g, o->tokens, (size_t)r->c * (size_t)o->n * (size_t)o->k,
	                              "rollout token", e)
	               : rc;
}

void rf_engine_sign(const struct rf_engine *g, struct rf_head *h, bool draws)
{
	if (!h->vocab || (draws && h->vocab < g->ckpt->cfg.vocab))
		h->vocab = g->ckpt->cfg.vocab;
	memcpy(h->arch, g->ckpt->arch, sizeof h->arch);
	memcpy(h->weights, g->ckpt->weights, sizeof h->weights);
	h->step = g->ckpt->step;
}

/* ---- memory -------------------------------------------------------------------------------- */

static int larger(int a, int b) { return a > b ? a : b; }
static int smaller(int a, int b) { return a < b ? a : b; }

/* The plan, with what the engine itself decides. */
static struct rf_plan own_plan(const struct rf_engine *g, const struct rf_plan *want)
{
	struct rf_plan p = *want;

	p.segment = rf_segment(g->segment);
	p.max_len = larger(p.max_len, g->max_len);
	return p;
}

/* Of the weights that rows are multiplied by: how many numbers, and the largest; and the widest row there is.
 * halved: those that products alone read need no rounded copy, and an embedding only if it is the head.
 * Embedding and head are not among the latter two: one is looked up, the other has blocks of its own. */
static void weigh(const struct rf_params *p, int vocab, bool halved, struct rf_workspace *need)
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

/* What the device takes in addition to a plan's tree and the weights. */
static struct rf_workspace workspace_of(const struct rf_engine *g, const struct rf_plan *p)
{
	const struct rf_config *c = &g->ckpt->cfg;
	struct rf_workspace need = { .d = c->d, .vocab = c->vocab, .train = g->train,
	                             .rollouts = p->positions * p->n, .steps = p->k, .group = p->n,
	                             .decode = p->decode };

	weigh(&g->ckpt->params, c->vocab, halved(g), &need);
	need.widest = larger(need.widest, 2 * c->ffn);
	need.segment = smaller(p->segment, p->max_len);
	need.rows = larger(need.segment, need.rollouts * need.steps);
	for (int l = 0; l < c->layers; l++)
		if (c->mixer[l]->workspace)
			c->mixer[l]->workspace(c, &need);
	return need;
}

enum rf_code rf_engine_reserve(struct rf_engine *g, const struct rf_plan *want, size_t extra,
                               struct rf_err *e)
{
	struct rf_plan p = own_plan(g, want);
	const struct rf_plan *old = &g->plan;
	const int rollouts = p.decode ? p.positions * p.n : 0, steps = p.decode ? p.k : 0;
	bool prepared = rollouts == g->now.rollouts && steps == g->now.steps;
	enum rf_code rc;

	if (!g->tree || p.train != old->train || p.recompute != old->recompute || p.decode != old->decode ||
	    p.apart != old->apart || p.max_len > old->max_len || p.positions > old->positions ||
	    p.n > old->n || p.k > old->k) {
		p.max_len = larger(p.max_len, old->max_len);
		p.positions = larger(p.positions, old->positions);
		p.n = larger(p.n, old->n);
		p.k = larger(p.k, old->k);
		rf_tree_free(g->tree);
		if ((rc = rf_tree_new(&g->tree, &g->model, &p, e)) != RF_OK)
			return rc;
		g->plan = p;
		prepared = false;
	}
	if (!prepared) {
		struct rf_workspace workspace = workspace_of(g, &g->plan);

		workspace.now.rollouts = g->now.rollouts = rollouts;
		workspace.now.steps = g->now.steps = steps;
		g->dev.ops->prepare(&g->dev, &workspace);
		if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
			return rc;
	}
	if (extra > g->extra_bytes) {
		if (g->extra)
			g->dev.ops->release(&g->dev, g->extra);
		g->extra_bytes = 0;
		if (!(g->extra = g->dev.ops->alloc(&g->dev, extra)))
			return rf_dev_sync(&g->dev, e);
		g->extra_bytes = extra;
	}
	return RF_OK;
}

bool rf_engine_expect(const struct rf_head *h, struct rf_shape *shape)
{
	/* beyond them a stream's word does not decide an allocation */
	enum { MOST = 1 << 16, MOST_TOKENS = 1 << 20 };
	const struct { const char *tool, *option; int *to; } said[] = {
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

enum rf_code rf_engine_ahead(struct rf_engine *g, const struct rf_head *h, struct rf_err *e)
{
	struct rf_shape shape = RF_SHAPE_PAPER;
	struct rf_demand need = { .grows = NULL };

	if (!g->max_len || !g->needs)
		return RF_OK;
	shape.T = g->max_len;
	rf_engine_expect(h, &shape);
	g->needs(g->stage, &shape, &need);
	return rf_engine_reserve(g, &need.plan, need.extra, e);
}

size_t rf_engine_tree_bytes(const struct rf_engine *g, const struct rf_plan *want)
{
	struct rf_dev dev = g->dev; /* it is asked how large things are, not used */
	struct rf_model bare = { .dev = &dev, .cfg = &g->ckpt->cfg, .params = &g->ckpt->params };
	struct rf_plan p = own_plan(g, want);
	size_t bytes = 0;

	if (rf_model_bind(&bare, NULL) == RF_OK)
		bytes = rf_tree_bytes(&bare, &p);
	rf_model_unbind(&bare);
	return bytes;
}

enum rf_code rf_engine_memory(struct rf_engine *g, struct rf_shape *shape, struct rf_memory *m,
                              struct rf_err *e)
{
	/* code and libraries; oneDNN's products, compiled per thread */
	enum { PROGRAM = 12 << 20, PER_THREAD = 1 << 20 };
	struct rf_workspace workspace;
	struct rf_demand need = { .grows = NULL };
	const struct rf_span own = own_part(g);
	struct rf_plan p;
	size_t tree;

	g->needs(g->stage, shape, &need);
	p = own_plan(g, &need.plan);
	if (!(tree = rf_engine_tree_bytes(g, &p)))
		return rf_fail(e, RF_ENOMEM, "out of memory (the plan of a sequence of %d tokens)",
		               p.max_len);
	workspace = workspace_of(g, &p);
	m->weights = rf_model_bytes(&g->ckpt->params, g->train ? &own : NULL, halved(g)) + need.own;
	m->pass = tree + need.extra;
	m->device = g->dev.ops->workspace(&g->dev, &workspace);
	m->host = PROGRAM + PER_THREAD * (size_t)g->dev.threads + need.host;
	m->grows = need.grows;
	m->all = m->weights + m->pass + m->device + m->host;
	return RF_OK;
}
