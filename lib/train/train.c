/* train.c -- options of training, checks of records, and the memory that lasts as long as the program. */
#include <limits.h>
#include <stdlib.h>

#include "train/train.h"

void rf_train_options(struct rf_train *t, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_REAL("lr", &t->adamw.lr, 0, 1e3, "rate", "learning rate"),
		OPT_PAIR("betas", t->adamw.betas, 0, 0.9999999, "b1,b2",
		         "AdamW decay rates of the first and second moment"),
		/* not 0: a weight that no gradient has reached would be divided by it */
		OPT_REAL("adam-eps", &t->adamw.eps, 1e-30, 1, "eps", "AdamW epsilon"),
		OPT_REAL("weight-decay", &t->adamw.weight_decay, 0, 1e3, "d", "AdamW weight decay"),
		OPT_REAL("grad-clip", &t->adamw.grad_clip, 1e-12, 1e12, "norm",
		         "clip the gradient to this global norm"),
		OPT_TEXT("train", &t->adamw.only, "pattern,...",
		         "train only the tensors whose names match, as in 'attn.w0*'"),
		OPT_ENUM("lr-schedule", &t->adamw.schedule, RF_SCHEDULE_WORDS,
		         "learning rate after the warm-up"),
		OPT_INT("warmup", &t->adamw.warmup, 0, 1 << 30, "steps",
		        "linear warm-up, in optimizer steps"),
		OPT_INT("total-steps", &t->adamw.total_steps, 0, 1 << 30, "steps",
		        "optimizer step at which cosine and linear reach a learning rate of 0"),
		OPT_ENUM("recompute", &t->recompute, RF_RECOMPUTE_WORDS,
		         "segment: recompute activations for less memory; a sixth slower",
		         .noted = RF_OPT_OF_BATCH),
		OPT_ENUM("sum", &t->sum, RF_SUM_WORDS,
		         "how records' gradients add up; plain: less memory, other bits in another order",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("shard", &t->shard, RF_SHARD_WORDS,
		         "optimizer: each of several ranks keeps a part of AdamW's moments",
		         .noted = RF_OPT_OF_BATCH),
		OPT_ENUM("exchange", &t->exchange.carrier, RF_CARRIER_WORDS,
		         "what ranks exchange gradients by; auto: NCCL where each has a GPU of its own",
		         .noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

bool rf_train_needs_positions(const struct rf_train *t)
{
	return t->position_coef != 0 || t->loss == RF_LOSS_POSITIONS;
}

enum rf_code rf_train_find_k(struct rf_train *t, const struct rf_head *h, const struct rf_record *r,
                             struct rf_err *e)
{
	int64_t k;

	if (!rf_train_needs_positions(t) || !r->positions)
		return RF_OK;
	if (r->rollout.tokens && t->k_found && r->rollout.k != t->k)
		return rf_fail(e, RF_EDATA,
		               "the rollouts have %d tokens, but the positions were chosen for %d: say with "
		               "--length how many count",
		               r->rollout.k, t->k);
	if (t->k)
		return RF_OK;
	if ((!rf_head_asked(h, "rf-select", "length", &k) && !rf_head_asked(h, "rf-step", "length", &k)) ||
	    k < 1 || k > INT_MAX)
		return rf_fail(e, RF_EDATA,
		               "the stream does not say how many tokens count at each position: use "
		               "--length");
	t->k = (int)k;
	t->k_found = true;
	return rf_train_find_k(t, h, r, e); /* check the record's rollouts */
}

/* Checks that the tokens which count at each position are in the text. */
static enum rf_code check_positions(const struct rf_train *t, const struct rf_record *r, struct rf_err *e)
{
	for (int i = 0; rf_train_needs_positions(t) && i < (r->positions ? r->c : 0); i++)
		if (r->positions[i] < 1 || r->positions[i] > r->T - t->k)
			return rf_fail(e, RF_EDATA,
			               "position %d is %d, but it must be at least 1 and leave room for %d "
			               "tokens (--length) in the sequence of %d tokens",
			               i, r->positions[i], t->k, r->T);
	return RF_OK;
}

enum rf_code rf_train_check(const struct rf_train *t, const struct rf_record *r, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	enum rf_code rc = rf_engine_check_record(t->engine, r, e);

	if (rc != RF_OK || (rc = check_positions(t, r, e)) != RF_OK)
		return rc;
	if (t->loss == RF_LOSS_RESPONSE && r->prompt_len < 0)
		return rf_fail(e, RF_EDATA,
		               "--loss response needs prompt_len, which the record lacks (rf-tokenize "
		               "--prompt-key writes it)");
	if (!o->tokens || t->rl_coef == 0)
		return RF_OK;
	if (!o->logp)
		return rf_fail(e, RF_EDATA,
		               "the rollouts have no log-probabilities (rf-rollout --score writes them)");
	if (!r->advantage && !r->advantage_per_token)
		return rf_fail(e, RF_EDATA, "the rollouts have no advantages");
	if (t->policy.kl_coef != 0 && !o->logp_ref)
		return rf_fail(e, RF_EDATA,
		               "the rollouts have no log-probabilities of a reference model, which --kl-coef "
		               "needs (rf-rollout --score --as ref -m CHECKPOINT writes them; in a pipeline "
		               "REFERENCE=CHECKPOINT)");
	return RF_OK;
}

/* Allocates device memory, unless `old` exists already.  Returns NULL if none is wanted, or if memory is
 * short, which shows at rf_dev_sync(). */
static void *alloc_once(struct rf_train *t, void *old, bool wanted, size_t bytes)
{
	struct rf_dev *d = &t->engine->dev;

	return old || !wanted ? old : d->ops->alloc(d, bytes);
}

enum rf_code rf_train_open(struct rf_train *t, struct rf_err *e)
{
	const size_t total = t->engine->ckpt->params.total;
	const bool exact = t->sum == RF_SUM_EXACT;

	t->exchange.dev = &t->engine->dev;
	t->exchange.ranks = t->ranks;
	t->exchange.params = &t->engine->ckpt->params;
	t->exchange.parts = t->shard == RF_SHARD_OPTIMIZER;
	t->mem.product = alloc_once(t, t->mem.product, true, rf_train_tiles(total) * sizeof(double));
	t->mem.grad_rl = alloc_once(t, t->mem.grad_rl, t->log_gradients, total * 4);
	t->mem.exact = alloc_once(t, t->mem.exact, exact, total * 8);
	t->mem.largest = alloc_once(t, t->mem.largest, exact, sizeof(float));
	return rf_dev_sync(&t->engine->dev, e);
}

enum rf_code rf_train_join(struct rf_train *t, struct rf_err *e) { return rf_exchange_open(&t->exchange, e); }

void rf_train_close(struct rf_train *t)
{
	struct rf_dev *d = t->engine ? &t->engine->dev : NULL;

	if (!d || !d->ops)
		return;
	rf_exchange_close(&t->exchange);
	free(t->ahead.share);
	t->ahead.share = NULL;
	t->ahead.open = false;
	t->ahead.room = 0;
	d->ops->release(d, t->mem.grad_rl);
	d->ops->release(d, t->mem.product);
	d->ops->release(d, t->mem.exact);
	d->ops->release(d, t->mem.largest);
	t->mem = (struct rf_train_mem){ .exact = NULL };
}
