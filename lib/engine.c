#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

void rf_engine_options(struct rf_engine *g, struct rf_opt opts[RF_ENGINE_OPTS])
{
	const struct rf_opt table[] = {
		{ "model", 'm', RF_OPT_TEXT, &g->path, 0, 0, "path", "a run (its latest step) or a checkpoint directory", false },
		{ "device", 0, RF_OPT_TEXT, &g->device, 0, 0, "cpu|auto", "where to compute", false },
		{ "threads", 0, RF_OPT_INT, &g->threads, 0, 1024, "n", "0: as many as this process may use", false },
		{ "segment", 0, RF_OPT_INT, &g->segment, 1, 1 << 24, "rows", "rows that are worked on at once; memory grows with it", false },
		{ "max-len", 0, RF_OPT_INT, &g->max_len, 0, 1 << 30, "tokens", "plan memory for sequences up to this; longer ones are refused", false },
		{ "dtype", 0, RF_OPT_ENUM, &g->math, 0, 0, "f32|bf16", "operands of matrix products", true },
		{ "dry-run", 0, RF_OPT_FLAG, &g->dry_run, 0, 0, NULL, "check everything, print settings and memory, exit", false },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_ENGINE_OPTS);
}

static enum rf_code load(struct rf_engine *g, struct rf_err *e)
{
	size_t n = g->ckpt->params.total;
	float *flat = malloc(n * 4), *v = NULL;
	bool there;
	enum rf_code rc;

	if (!flat)
		return rf_fail(e, RF_ENOMEM, "out of memory: wanted %zu MiB to load the weights", n * 4 >> 20);
	if ((rc = rf_ckpt_load(g->ckpt, flat, e)) == RF_OK)
		rf_model_upload(&g->model, flat);
	if (rc == RF_OK && g->train) {
		if (!(v = malloc(n * 4)))
			rc = rf_fail(e, RF_ENOMEM, "out of memory: wanted %zu MiB to load the moments", n * 4 >> 20);
		else if ((rc = rf_ckpt_load_moments(g->ckpt, flat, v, &there, e)) == RF_OK) {
			g->dev.ops->upload(&g->dev, g->model.m, flat, n * 4);
			g->dev.ops->upload(&g->dev, g->model.v, v, n * 4);
		}
	}
	free(flat);
	free(v);
	return rc;
}

enum rf_code rf_engine_open(struct rf_engine *g, const struct rf_ckpt *ckpt, bool train, struct rf_err *e)
{
	const char *device = g->device ? g->device : getenv("RF_DEVICE") && *getenv("RF_DEVICE") ? getenv("RF_DEVICE") : "auto";
	enum rf_code rc;

	g->train = train;
	if (!ckpt) {
		if (!g->path)
			return rf_fail(e, RF_EUSAGE, "no model: say -m RUN or -m CHECKPOINT");
		if ((rc = rf_ckpt_open(&g->own, g->path, e)) != RF_OK)
			return rc;
	}
	g->ckpt = ckpt ? ckpt : &g->own;
	if ((rc = rf_dev_open(&g->dev, device, g->threads, (enum rf_math)g->math, &g->note, e)) != RF_OK)
		return rc;
	if (!g->device) /* who asked for nothing is not told what was not to be had */
		g->note = NULL;
	if (g->dry_run) {
		g->model.dev = NULL;
		return RF_OK;
	}
	if ((rc = rf_model_init(&g->model, &g->dev, &g->ckpt->cfg, &g->ckpt->params, train, e)) != RF_OK)
		return rc;
	if ((rc = load(g, e)) != RF_OK)
		return rc;
	return rf_dev_sync(&g->dev, e);
}

void rf_engine_close(struct rf_engine *g)
{
	rf_tree_free(g->tree);
	if (g->extra)
		g->dev.ops->release(&g->dev, g->extra);
	rf_model_free(&g->model);
	rf_dev_close(&g->dev);
	if (g->ckpt == &g->own)
		rf_ckpt_close(&g->own);
}

enum rf_code rf_engine_check_head(const struct rf_engine *g, const struct rf_head *h, struct rf_err *e)
{
	if (h->vocab > g->ckpt->cfg.vocab)
		return rf_fail(e, RF_EDATA, "the stream has a vocabulary of %d, the model of %d", h->vocab, g->ckpt->cfg.vocab);
	if (h->tokenizer_hash[0] && g->ckpt->tokenizer[0] && strcmp(h->tokenizer_hash, g->ckpt->tokenizer))
		return rf_fail(e, RF_EDATA, "the stream was made with tokenizer %.12s, the model has %.12s", h->tokenizer_hash, g->ckpt->tokenizer);
	return RF_OK;
}

static enum rf_code check_tokens(const struct rf_engine *g, const int32_t *token, size_t n, const char *what, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (token[i] < 0 || token[i] >= g->ckpt->cfg.vocab)
			return rf_fail(e, RF_EDATA, "%s %zu is %d, outside the model's vocabulary of %d", what, i, token[i], g->ckpt->cfg.vocab);
	return RF_OK;
}

enum rf_code rf_engine_check_record(const struct rf_engine *g, const struct rf_record *r, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	enum rf_code rc = check_tokens(g, r->tokens, (size_t)r->T, "token", e);

	return rc == RF_OK && o->tokens ? check_tokens(g, o->tokens, (size_t)r->c * (size_t)o->n * (size_t)o->k, "rollout token", e) : rc;
}

void rf_engine_sign(const struct rf_engine *g, struct rf_head *h)
{
	if (!h->vocab)
		h->vocab = g->ckpt->cfg.vocab;
	memcpy(h->arch, g->ckpt->arch, sizeof h->arch);
	memcpy(h->weights, g->ckpt->weights, sizeof h->weights);
	h->step = g->ckpt->step;
}

static int larger(int a, int b) { return a > b ? a : b; }

enum rf_code rf_engine_reserve(struct rf_engine *g, const struct rf_plan *want, size_t extra, struct rf_err *e)
{
	struct rf_plan p = *want;
	enum rf_code rc;

	if (g->max_len && want->max_len > g->max_len)
		return rf_fail(e, RF_EDATA, "%d tokens are more than --max-len %d (rf-tokenize --max-len cuts)", want->max_len, g->max_len);
	p.segment = g->segment;
	p.max_len = larger(p.max_len, g->max_len);
	if (!g->tree || p.train != g->plan.train || p.recompute != g->plan.recompute || p.grow != g->plan.grow || p.max_len > g->plan.max_len || p.sites > g->plan.sites || p.per > g->plan.per || p.steps > g->plan.steps) {
		p.max_len = larger(p.max_len, g->plan.max_len);
		p.sites = larger(p.sites, g->plan.sites);
		p.per = larger(p.per, g->plan.per);
		p.steps = larger(p.steps, g->plan.steps);
		rf_tree_free(g->tree);
		if ((rc = rf_tree_new(&g->tree, &g->model, &p, e)) != RF_OK)
			return rc;
		g->plan = p;
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

size_t rf_engine_bytes(struct rf_engine *g, const struct rf_plan *want, size_t extra)
{
	struct rf_model bare = { .dev = &g->dev, .cfg = &g->ckpt->cfg, .params = &g->ckpt->params };
	struct rf_plan p = *want;
	size_t bytes = rf_model_bytes(bare.params, g->train) + extra;

	p.segment = g->segment;
	if (rf_model_bind(&bare) == RF_OK)
		bytes += rf_tree_bytes(&bare, &p);
	free(bare.layer);
	return bytes;
}

void rf_engine_describe(struct rf_engine *g, const struct rf_plan *want, size_t extra, char *buf, size_t size)
{
	const struct rf_config *c = &g->ckpt->cfg;

	snprintf(buf, size,
	         "model      %s, step %lld, weights %s\n"
	         "           %s: %d layers, width %d, vocabulary %d%s, %zu parameters\n"
	         "device     %s, %d threads, products in %s\n"
	         "plan       sequences up to %d tokens in segments of %d rows\n"
	         "memory     %zu MiB (weights%s %zu MiB, pass %zu MiB)\n",
	         g->ckpt->dir, (long long)g->ckpt->step, g->ckpt->weights, c->model_type, c->layers, c->d, c->vocab,
	         g->ckpt->params.tied ? ", tied" : "", g->ckpt->params.total, g->dev.ops->name, g->dev.threads,
	         g->math == RF_MATH_BF16 ? "bf16" : "f32", want->max_len, g->segment,
	         rf_engine_bytes(g, want, extra) >> 20, g->train ? ", gradient, moments" : "",
	         rf_model_bytes(&g->ckpt->params, g->train) >> 20,
	         (rf_engine_bytes(g, want, extra) - rf_model_bytes(&g->ckpt->params, g->train)) >> 20);
}
