/* record_check.c -- checks a record against the rules of rf-stream(5).  The rules that compare two keys come
 * first, then the rule of each key, in one walk over the table of fields. */
#include <math.h>
#include <string.h>

#include "base/opt.h"
#include "base/utf8.h"
#include "stream/fields.h"
#include "stream/msg.h"

/* Checks that n numbers are finite. */
static enum rf_code check_floats(const float *x, size_t n, const char *pre, const char *key, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return rf_fail(e, RF_EDATA, "%s%s is %s (number %zu)", pre, key,
			               isnan(x[i]) ? "NaN" : "infinite", i);
	return RF_OK;
}

/* Checks that n numbers are from 0 to 1. */
static enum rf_code check_shares(const float *x, size_t n, const char *pre, const char *key, struct rf_err *e)
{
	enum rf_code rc = check_floats(x, n, pre, key, e);

	for (size_t i = 0; i < n && rc == RF_OK; i++)
		if (x[i] < 0 || x[i] > 1)
			rc = rf_fail(e, RF_EDATA, "%s%s: number %zu is %.9g, outside 0 to 1", pre, key, i,
			             (double)x[i]);
	return rc;
}

/* Checks that n numbers are at least min and below end. */
static enum rf_code check_range(const int32_t *x, size_t n, int64_t min, int64_t end, const char *pre,
                                const char *key, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] < min || x[i] >= end)
			return rf_fail(e, RF_EDATA, "%s%s: number %zu is %ld, outside %lld to %lld", pre, key,
			               i, (long)x[i], (long long)min, (long long)end - 1);
	return RF_OK;
}

/* Checks that the bytes are a valid map of msgpack. */
static enum rf_code check_map(struct rf_raw raw, const char *key, struct rf_err *e)
{
	const unsigned char *p = raw.data;

	if (rf_msg_check(raw.data, raw.size, e) != RF_OK)
		return rf_blame(e, "%s", key);
	if (*p >> 4 != 8 && *p != 0xde && *p != 0xdf)
		return rf_fail(e, RF_EDATA, "%s is not a map", key);
	return RF_OK;
}

/* Checks that no dimension of an array is empty, and that the array fits in a message. */
static enum rf_code check_shape(const struct rf_field *f, const struct rf_value *v, const char *pre,
                                const char *key, struct rf_err *e)
{
	for (int i = 0; i < v->ndim; i++)
		if (v->shape[i] < (f->shape[i] != 't'))
			return rf_fail(e, RF_EDATA, "%s%s is empty", pre, key);
	if (v->count > UINT32_MAX / 4)
		return rf_fail(e, RF_EIO,
		               "%s%s has 4 GiB or more, which no message can hold: use shorter sequences",
		               pre, key);
	return RF_OK;
}

/* Checks the parts of the reward that have no key of their own, and the names of all parts. */
static enum rf_code check_parts(const struct rf_reward *w, const struct rf_field *f, const struct rf_value *v,
                                struct rf_err *e)
{
	static const char pre[] = "reward.parts.";
	enum rf_code rc = RF_OK;

	for (int i = 0; i < w->parts && rc == RF_OK; i++) {
		const struct rf_part *p = &w->part[i];

		if (!rf_part_named(p->name, strlen(p->name))) {
			rf_part_bad_name(p->name, strlen(p->name), e);
			return rf_blame(e, "reward.parts");
		}
		if (rf_part_find(w, p->name) < i)
			return rf_fail(e, RF_EDATA, "reward has the part '%s' twice", p->name);
		if (!rf_part_has_key(p->name) && (rc = check_shape(f, v, pre, p->name, e)) == RF_OK)
			rc = check_floats(p->value, v->count, pre, p->name, e);
	}
	return rc;
}

/* Checks that each choice has a token after its context. */
static enum rf_code check_context(const struct rf_choice *c, struct rf_err *e)
{
	for (int i = 0; i < c->n; i++)
		if (c->from[i] < 0 || c->from[i] >= c->length[i])
			return rf_fail(e, RF_EDATA, "choice.from: number %d is %ld, outside 0 to %ld", i,
			               (long)c->from[i], (long)c->length[i] - 1);
	return RF_OK;
}

static enum rf_code check_texts(const struct rf_field *f, const struct rf_value *v, const char *pre,
                                struct rf_err *e)
{
	const char *const *text = v->p;

	for (size_t i = 0; i < v->count; i++) {
		if (!rf_utf8(text[i], strlen(text[i])))
			return rf_fail(e, RF_EDATA, "%s%s: number %zu is not UTF-8", pre, f->key, i);
		if (f->rule == RF_RULE_STOP && rf_opt_index(RF_STOP_WORDS, text[i]) < 0)
			return rf_fail(e, RF_EDATA, "%s%s: number %zu is not one of %s", pre, f->key, i,
			               RF_STOP_WORDS);
	}
	return RF_OK;
}

static enum rf_code check_text(const struct rf_field *f, const char *text, const char *pre, struct rf_err *e)
{
	return rf_utf8(text, strlen(text)) ? RF_OK : rf_fail(e, RF_EDATA, "%s%s is not UTF-8", pre, f->key);
}

static enum rf_code check_real(const struct rf_field *f, double x, const char *pre, struct rf_err *e)
{
	const bool from_0 = f->rule == RF_RULE_FROM_0;

	if (isfinite(x) && (x > 0 || (from_0 && x == 0)))
		return RF_OK;
	return rf_fail(e, RF_EDATA, "%s%s is %g, not a number %s", pre, f->key, x,
	               from_0 ? "of 0 or more" : "above 0");
}

static enum rf_code check_prompt(int prompt_len, int T, struct rf_err *e)
{
	if (prompt_len > T)
		return rf_fail(e, RF_EDATA, "prompt_len is %d, but the sequence has only %d tokens",
		               prompt_len, T);
	return RF_OK;
}

/* Checks a value that exists by the rule of its field. */
static enum rf_code check_rule(const struct rf_record *r, const struct rf_field *f, const struct rf_value *v,
                               int vocab, const char *pre, struct rf_err *e)
{
	switch (f->rule) {
	case RF_RULE_NONE: return RF_OK;
	case RF_RULE_FINITE: return check_floats(v->p, v->count, pre, f->key, e);
	case RF_RULE_SHARE: return check_shares(v->p, v->count, pre, f->key, e);
	case RF_RULE_ABOVE_0:
	case RF_RULE_FROM_0: return check_real(f, *(const double *)v->p, pre, e);
	case RF_RULE_TOKENS:
		return check_range(v->p, v->count, 0, vocab ? vocab : INT64_C(1) << 31, pre, f->key, e);
	case RF_RULE_UP_TO:
		return check_range(v->p, v->count, 1, (int64_t)rf_field_size_now(r, f->limit) + 1, pre,
		                   f->key, e);
	case RF_RULE_BITS: return check_range(v->p, v->count, 0, 2, pre, f->key, e);
	case RF_RULE_CONTEXT: return check_context(&r->choice, e);
	case RF_RULE_PROMPT: return check_prompt(*(const int *)v->p, r->T, e);
	case RF_RULE_UTF8:
	case RF_RULE_STOP: return f->shape ? check_texts(f, v, pre, e) : check_text(f, v->p, pre, e);
	case RF_RULE_MAP: return check_map(*(const struct rf_raw *)v->p, f->key, e);
	case RF_RULE_PARTS: return check_parts(&r->reward, f, v, e);
	}
	return RF_OK;
}

static enum rf_code check_fields(const struct rf_record *r, const struct rf_field_group *g, int vocab,
                                 struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	struct rf_value v;

	for (const struct rf_field *f = g->fields; f->key && rc == RF_OK; f++) {
		if (!rf_field_value(r, f, &v))
			continue;
		if (f->type == RF_OF_GROUP)
			rc = check_fields(r, f->group, vocab, e);
		else if (f->type == RF_OF_I4 || f->type == RF_OF_F4 || f->type == RF_OF_PART)
			rc = check_shape(f, &v, g->prefix, f->key, e);
		if (rc == RF_OK)
			rc = check_rule(r, f, &v, vocab, g->prefix, e);
	}
	return rc;
}

enum rf_code rf_record_check(const struct rf_record *r, int vocab, struct rf_err *e)
{
	if (!r->tokens)
		return rf_fail(e, RF_EDATA, "the record has no 'tokens'");
	if (r->rollout.tokens && !r->positions)
		return rf_fail(e, RF_EDATA, "the record has a rollout but no positions");
	if (r->reward.kind && !r->rollout.tokens)
		return rf_fail(e, RF_EDATA, "the record has a reward but no rollout");
	if ((r->advantage || r->advantage_per_token) && !r->rollout.tokens)
		return rf_fail(e, RF_EDATA, "the record has an advantage but no rollout");
	if (r->advantage && r->advantage_per_token)
		return rf_fail(e, RF_EDATA,
		               "the record has advantage and advantage_per_token, but only one of them is "
		               "allowed");
	if (!r->rollout.h_pred != !r->rollout.h_gt)
		return rf_fail(e, RF_EDATA, "rollout has %s but no %s", r->rollout.h_pred ? "h_pred" : "h_gt",
		               r->rollout.h_pred ? "h_gt" : "h_pred");
	if (r->reward.kind && !r->reward.total)
		return rf_fail(e, RF_EDATA, "reward has no 'total'");
	if (r->reward.kind && r->reward.n != r->rollout.n)
		return rf_fail(e, RF_EDATA, "reward has %d numbers per position, but rollout has %d",
		               r->reward.n, r->rollout.n);
	if (r->response && r->prompt_len >= 0)
		return rf_fail(e, RF_EDATA,
		               "the record has a response and prompt_len, but only one of them is "
		               "allowed");
	return check_fields(r, &rf_record_group, vocab, e);
}
