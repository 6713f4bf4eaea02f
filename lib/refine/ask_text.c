/* ask_text.c -- decodes tokens whose text may depend on the tokens before them. */
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "refine/ask_text.h"

enum rf_code rf_ask_tokenizer(struct rf_tokenizer **t, const struct rf_head *head, const char *given,
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

enum rf_code rf_ask_decode(const struct rf_tokenizer *t, const int32_t *ids, int n, int32_t *known,
                           char **text, size_t *bytes, size_t *final, struct rf_err *e)
{
	size_t m = 0;

	for (int i = 0; i < n; i++)
		if (ids[i] >= 0 && ids[i] < rf_tokenizer_vocab(t))
			known[m++] = ids[i];
	return rf_tokenizer_text(t, known, m, text, bytes, final, e);
}

enum rf_code rf_ask_add_after(struct rf_buf *b, const struct rf_tokenizer *t, int32_t *before, int n_before,
                              const int32_t *ids, int n, int32_t *room, struct rf_err *e)
{
	char *prefix, *both;
	size_t np, nb, from, final;
	enum rf_code rc;

	memcpy(before + n_before, ids, (size_t)n * sizeof *ids);
	if ((rc = rf_ask_decode(t, before, n_before, room, &prefix, &np, &from, e)) != RF_OK)
		return rc;
	rc = rf_ask_decode(t, before, n_before + n, room, &both, &nb, &final, e);
	/* later tokens may change the prefix: invalid bytes of one run all become U+FFFD */
	if (rc == RF_OK && (nb < from || memcmp(prefix, both, from))) {
		free(both);
		from = 0;
		rc = rf_ask_decode(t, ids, n, room, &both, &nb, &final, e);
	}
	free(prefix);
	if (rc != RF_OK)
		return rc;
	rf_print_string(b, both + from, nb - from);
	free(both);
	return RF_OK;
}
