/* engine.c -- the options of an engine, and what fits its model. */
#include <string.h>

#include "engine/engine.h"

void rf_engine_options(struct rf_engine *g, const char *model, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_TEXT("model", &g->path, "path",
		         model ? model : "a run (its latest step) or a checkpoint directory", .letter = 'm',
		         .noted = RF_OPT_OF_BATCH),
		OPT_TEXT("device", &g->device, "cpu|cuda|auto",
		         "device to compute on; auto: a GPU if there is one", .noted = RF_OPT_OF_BATCH),
		OPT_INT("threads", &g->threads, 0, 1024, "n",
		        "number of threads; 0: one per available processor", .noted = RF_OPT_OF_BATCH),
		OPT_TEXT("isa", &g->isa, "level",
		         "highest instruction set level to use, such as x86_64_v3; auto: no limit",
		         .noted = RF_OPT_OF_BATCH),
		OPT_INT("segment", &g->segment, 0, 1 << 24, "rows",
		        "tokens to process together; memory grows with it; 0: suited to the device",
		        .noted = RF_OPT_OF_BATCH),
		OPT_INT("max-len", &g->max_len, 0, 1 << 30, "tokens",
		        "plan memory for this length, refuse longer sequences; 0: plan as needed",
		        .noted = RF_OPT_OF_BATCH),
		OPT_ENUM("dtype", &g->math, RF_MATH_WORDS,
		         "type of matrix product operands; auto: bf16 on a GPU, else f32",
		         .noted = RF_OPT_RESULT | RF_OPT_OF_BATCH),
		OPT_FLAG("dry-run", &g->dry_run,
		         "check everything, print settings, memory and operations, exit",
		         .noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

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

enum rf_code rf_engine_sign_stage(const struct rf_engine *g, struct rf_head *h, struct rf_err *e)
{
	return rf_head_stage_model(h, g->ckpt->arch, g->ckpt->weights, g->ckpt->step, e);
}
