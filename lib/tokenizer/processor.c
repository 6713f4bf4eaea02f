/* processor.c -- finds out what a post-processor does, by running it once on a mark that stands for the text.
 *
 * The Rust library hands a list of parts from processor to processor.  At first the text is the only part.
 * TemplateProcessing makes one part of each piece of its template: of `single` if it gets one part, and of
 * `pair` if it gets two.  BertProcessing and RobertaProcessing put tokens around each part. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/normal.h"
#include "tokenizer/processor.h"

/* In a list of parts: the mark of the text; the end of a part.  A list has at most MOST numbers. */
enum { TEXT = -1, END = -2, MOST = 4096 };

enum { BYTE_LEVEL, TEMPLATE, BERT, ROBERTA };
static const char *const types[] = { "ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing",
	                             NULL };

static size_t count(const struct rf_id_list *ids, int32_t id)
{
	size_t n = 0;

	for (size_t i = 0; i < ids->n; i++)
		n += ids->p[i] == id;
	return n;
}

static enum rf_code put(struct rf_id_list *to, const int32_t *ids, size_t n, struct rf_err *e)
{
	if (to->n + n > MOST)
		return rf_fail(e, RF_EMODEL, "the post-processor puts more than %d tokens", MOST);
	return rf_id_list_add(to, ids, n, e);
}

/* Finds a part of the list, counted from 0.  *n is its length without the end mark. */
static const int32_t *part(const struct rf_id_list *parts, size_t number, size_t *n)
{
	size_t from = 0, end = 0;

	while (parts->p[end] != END || number--) {
		if (parts->p[end] == END)
			from = end + 1;
		end++;
	}
	*n = end - from;
	return parts->p + from;
}

static enum rf_code read_id(const struct rf_jvalue *v, int32_t *id, struct rf_err *e)
{
	int64_t number;

	if (!rf_jscan_int(v, &number) || number < 0 || number >= RF_BPE_TOKENS)
		return rf_fail(e, RF_EDATA, "a token of the post-processor has no id from 0 to %d",
		               RF_BPE_TOKENS - 1);
	*id = (int32_t)number;
	return RF_OK;
}

/* Puts the ids that `special_tokens` of a template gives a name. */
static enum rf_code put_special(const struct rf_jvalue *template, const char *name, struct rf_id_list *to,
                                struct rf_err *e)
{
	struct rf_jvalue all, ids, key, v = { NULL, 0 }, each = { NULL, 0 };
	enum rf_code rc = RF_OK;
	char q[60];
	int32_t id;

	rf_maybe(template, "special_tokens", &all);
	while (all.s && rf_jscan_is_object(&all) && rf_jscan_next(&all, &key, &v)) {
		if (!rf_jscan_equals(&key, name) || !rf_jscan_is_object(&v))
			continue;
		rf_maybe(&v, "ids", &ids);
		if (!ids.s || !rf_jscan_is_list(&ids))
			break;
		while (rc == RF_OK && rf_jscan_next(&ids, NULL, &each))
			if ((rc = read_id(&each, &id, e)) == RF_OK)
				rc = put(to, &id, 1, e);
		return rc;
	}
	return rf_fail(e, RF_EDATA, "the template's token '%s' has no list of ids among the special_tokens",
	               rf_quote(q, sizeof q, name, strlen(name)));
}

/* Puts one piece of a template: a special token, or the part that is called A or B. */
static enum rf_code put_piece(const struct rf_jvalue *template, const struct rf_jvalue *piece,
                              const struct rf_id_list *from, struct rf_id_list *to, struct rf_err *e)
{
	struct rf_jvalue token, text, id;
	enum rf_code rc;
	const int32_t *ids;
	char *name;
	size_t n, number;

	if (!rf_jscan_is_object(piece))
		return rf_fail(e, RF_EDATA, "a piece of the template is %s, not an object",
		               rf_jscan_kind(piece));
	rf_maybe(piece, "SpecialToken", &token);
	rf_maybe(piece, "Sequence", &text);
	if (token.s) {
		if (!rf_jscan_is_object(&token))
			return rf_fail(e, RF_EDATA, "'SpecialToken' is %s, not an object",
			               rf_jscan_kind(&token));
		if ((rc = rf_string_read(&token, "id", &name, &n, e)) != RF_OK)
			return rc;
		rc = put_special(template, name, to, e);
		free(name);
		return rc;
	}
	if (!text.s || !rf_jscan_is_object(&text))
		return rf_fail(e, RF_EDATA, "a piece of the template is neither SpecialToken nor Sequence");
	if ((rc = rf_jscan_get(&text, "id", &id, e)) != RF_OK)
		return rc;
	number = rf_jscan_is_string(&id) && rf_jscan_equals(&id, "A") ? 0 : 1;
	if (!rf_jscan_is_string(&id) || (number && !rf_jscan_equals(&id, "B")) || number >= count(from, END))
		return rf_fail(e, RF_EDATA, "the template has a Sequence that it is not given");
	ids = part(from, number, &n);
	return put(to, ids, n, e);
}

static enum rf_code run_template(const struct rf_jvalue *json, const struct rf_id_list *from,
                                 struct rf_id_list *to, struct rf_err *e)
{
	const char *key = count(from, END) == 1 ? "single" : "pair";
	struct rf_jvalue list, v = { NULL, 0 };
	enum rf_code rc;

	if (count(from, END) > 2)
		return rf_fail(e, RF_EMODEL,
		               "TemplateProcessing after another post-processor that puts more "
		               "than one token is not supported");
	if ((rc = rf_jscan_get(json, key, &list, e)) != RF_OK)
		return rc;
	if (!rf_jscan_is_list(&list))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a list", key, rf_jscan_kind(&list));
	while (rc == RF_OK && rf_jscan_next(&list, NULL, &v))
		if ((rc = put_piece(json, &v, from, to, e)) == RF_OK)
			rc = put(to, &(int32_t){ END }, 1, e);
	return rc;
}

/* Reads the id of `cls` or `sep`, which is a list of a name and an id. */
static enum rf_code read_pair(const struct rf_jvalue *json, const char *key, int32_t *id, struct rf_err *e)
{
	struct rf_jvalue pair, name = { NULL, 0 }, v;
	enum rf_code rc = rf_jscan_get(json, key, &pair, e);

	if (rc != RF_OK)
		return rc;
	if (!rf_jscan_is_list(&pair) || !rf_jscan_next(&pair, NULL, &name) ||
	    (v = name, !rf_jscan_next(&pair, NULL, &v)))
		return rf_fail(e, RF_EDATA, "'%s' is not a list of a name and an id", key);
	return read_id(&v, id, e);
}

/* Runs BertProcessing, or RobertaProcessing, which has a sep before each part but the first, too. */
static enum rf_code run_bert(const struct rf_jvalue *json, bool roberta, const struct rf_id_list *from,
                             struct rf_id_list *to, struct rf_err *e)
{
	const size_t parts = count(from, END);
	int32_t cls, sep;
	enum rf_code rc;

	if ((rc = read_pair(json, "cls", &cls, e)) != RF_OK ||
	    (rc = read_pair(json, "sep", &sep, e)) != RF_OK)
		return rc;
	for (size_t i = 0, n; i < parts && rc == RF_OK; i++) {
		const int32_t *ids = part(from, i, &n);

		if (!i || roberta)
			rc = put(to, i ? &sep : &cls, 1, e);
		if (rc == RF_OK && (rc = put(to, ids, n, e)) == RF_OK)
			rc = put(to, (int32_t[]){ sep, END }, 2, e);
	}
	return rc;
}

/* Runs one post-processor on the parts, which it replaces. */
static enum rf_code run(void *of, const struct rf_jvalue *json, int type, struct rf_err *e)
{
	struct rf_id_list *parts = of, to = { 0 };
	enum rf_code rc;

	if (type == BYTE_LEVEL)
		return RF_OK;
	rc = type == TEMPLATE ? run_template(json, parts, &to, e)
	                      : run_bert(json, type == ROBERTA, parts, &to, e);
	if (rc == RF_OK && count(&to, TEXT) != 1)
		rc = rf_fail(e, RF_EMODEL, "a post-processor that puts the text %s is not supported",
		             count(&to, TEXT) ? "several times" : "nowhere");
	free(parts->p);
	*parts = to;
	return rc;
}

enum rf_code rf_processor_read(const struct rf_jvalue *json, struct rf_id_list *before, struct rf_err *e)
{
	struct rf_id_list parts = { 0 };
	enum rf_code rc = RF_OK;

	if (rf_is_absent(json))
		return RF_OK;
	if ((rc = rf_id_list_add(&parts, (int32_t[]){ TEXT, END }, 2, e)) == RF_OK)
		rc = rf_parts_read(&(struct rf_parts){ "post-processor", "processors", types, run, &parts },
		                   json, e);
	for (size_t i = 0; rc == RF_OK && parts.p[i] != TEXT; i++)
		if (parts.p[i] != END)
			rc = rf_id_list_add(before, &parts.p[i], 1, e);
	free(parts.p);
	return rc;
}
