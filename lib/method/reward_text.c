/* reward_text.c -- the text of a record's rollouts.
 *
 * The text of some tokens depends on the tokens before them: a tokenizer may drop the blank in front of a
 * text's first word, and a character may have bytes in two tokens.  So the truth and the rollouts are decoded
 * together with the last tokens of their prefix, and the text of these is then cut off. */
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "method/reward_text.h"

enum { BEFORE = 16 }; /* tokens of the prefix that are decoded together with what follows */

enum rf_code rf_reward_tokenizer(struct rf_tokenizer **t, const struct rf_head *head, const char *given,
                                 const char *model, struct rf_err *e)
{
	const char *kind = head->tokenizer_kind;
	char name[4 * sizeof head->tokenizer_kind];
	enum rf_code rc = rf_tokenizer_open_option(t, given, model, e);

	if (rc == RF_OK && !*t && !strcmp(kind, "bytes"))
		rc = rf_tokenizer_bytes(t, e);
	else if (rc == RF_OK && !*t && model)
		rc = rf_tokenizer_open(t, model, e); /* the model has none, which this reports */
	else if (rc == RF_OK && !*t && *kind)
		rc = rf_fail(e, RF_EUSAGE, "the stream's tokenizer is '%s': name it with -m or --tokenizer",
		             rf_quote(name, sizeof name, kind, strlen(kind)));
	else if (rc == RF_OK && !*t)
		rc = rf_fail(e, RF_EUSAGE,
		             "the stream names no tokenizer: name one with -m or --tokenizer, or leave out "
		             "--text");
	if (rc == RF_OK)
		rc = rf_tokenizer_check_made(*t, kind, head->tokenizer_hash, e);
	if (rc != RF_OK) {
		rf_tokenizer_free(*t);
		*t = NULL;
	}
	return rc;
}

/* Decodes n tokens.  Those outside the vocabulary have no text: a model's vocabulary may be padded. */
static enum rf_code decode(const struct rf_tokenizer *t, const int32_t *ids, int n, int32_t *known,
                           char **text, size_t *bytes, size_t *final, struct rf_err *e)
{
	size_t m = 0;

	for (int i = 0; i < n; i++)
		if (ids[i] >= 0 && ids[i] < rf_tokenizer_vocab(t))
			known[m++] = ids[i];
	return rf_tokenizer_text(t, known, m, text, bytes, final, e);
}

/* Appends the text of n tokens as a JSON string.  before: the last tokens of their prefix, n_before of them,
 * in an array that has room for n more. */
static enum rf_code add_after(struct rf_buf *b, const struct rf_tokenizer *t, int32_t *before, int n_before,
                              const int32_t *ids, int n, int32_t *room, struct rf_err *e)
{
	char *prefix, *both;
	size_t np, nb, final, unused;
	enum rf_code rc;

	memcpy(before + n_before, ids, (size_t)n * sizeof *ids);
	if ((rc = decode(t, before, n_before, room, &prefix, &np, &final, e)) != RF_OK)
		return rc;
	rc = decode(t, before, n_before + n, room, &both, &nb, &unused, e);
	/* later tokens may change the prefix: invalid bytes of one run all become U+FFFD */
	if (rc == RF_OK && (nb < final || memcmp(prefix, both, final))) {
		free(both);
		final = 0;
		rc = decode(t, ids, n, room, &both, &nb, &unused, e);
	}
	free(prefix);
	if (rc != RF_OK)
		return rc;
	rf_print_string(b, both + final, nb - final);
	free(both);
	return RF_OK;
}

/* Appends the object of position i.  ids: room for T + k tokens, twice. */
static enum rf_code add_position(struct rf_buf *b, const struct rf_tokenizer *t, const struct rf_record *r,
                                 int i, int32_t *ids, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	int s = r->positions[i], n = s < BEFORE ? s : BEFORE;
	size_t first = (size_t)i * (size_t)o->n;
	int32_t *room = ids + r->T + o->k;
	size_t bytes, final;
	enum rf_code rc;
	char *prefix;

	if ((rc = decode(t, r->tokens, s, room, &prefix, &bytes, &final, e)) != RF_OK)
		return rc;
	rf_print_text(b, i ? ",{\"prefix\":" : "{\"prefix\":");
	rf_print_string(b, prefix, final);
	free(prefix);
	memcpy(ids, r->tokens + s - n, (size_t)n * sizeof *ids);
	rf_print_text(b, ",\"truth\":");
	rc = add_after(b, t, ids, n, r->tokens + s, o->k < r->T - s ? o->k : r->T - s, room, e);
	rf_print_text(b, ",\"rollouts\":[");
	for (int j = 0; rc == RF_OK && j < o->n; j++) {
		rf_print_text(b, j ? "," : "");
		rc = add_after(b, t, ids, n, o->tokens + (first + (size_t)j) * (size_t)o->k, o->k, room, e);
	}
	rf_print_text(b, "]}");
	return rc;
}

enum rf_code rf_reward_text(char **line, size_t *len, const struct rf_tokenizer *t, const struct rf_record *r,
                            struct rf_err *e)
{
	int32_t *ids = malloc(2 * ((size_t)r->T + (size_t)r->rollout.k) * sizeof *ids);
	struct rf_buf b = { 0 };
	enum rf_code rc = RF_OK;

	rf_buf_add(&b, *line, *len - 1);
	free(*line);
	*line = NULL;
	rf_print_text(&b, ",\"text\":[");
	for (int i = 0; ids && rc == RF_OK && i < r->c; i++)
		rc = add_position(&b, t, r, i, ids, e);
	rf_print_text(&b, "]}");
	*len = b.n;
	rf_buf_add(&b, "", 1);
	if (rc == RF_OK && (!ids || b.failed))
		rc = rf_fail(e, RF_ENOMEM, "out of memory (the text of a record)");
	free(ids);
	if (rc == RF_OK)
		*line = (char *)b.p;
	else
		rf_buf_free(&b);
	return rc;
}
