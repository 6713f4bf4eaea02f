/* tokenizer_sentencepiece.c -- tokenizer.model, by libsentencepiece. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "io/file.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/sentencepiece_check.h"
#include "tokenizer/special.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_kind.h"

/* Finds the piece that a file names at eos_token or bos_token; *id remains as tokenizer.model has it if no
 * file has the key, and is -1 if a file says that there is no such token. */
static enum rf_code find_name(const struct rf_sentencepiece *sp, const struct rf_special_name *name,
                              const char *key, const char *path, int *id, struct rf_err *e)
{
	char q[60];

	if (!name->given)
		return RF_OK;
	*id = name->text ? rf_sentencepiece_id(sp, name->text, name->n) : -1;
	if (name->text && *id < 0)
		return rf_fail(e, RF_EMODEL,
		               "%.*s%s: the %s '%s' is not one of tokenizer.model (use the model's "
		               "tokenizer.json)",
		               (int)(rf_file_name(path) - path), path, name->file, key,
		               rf_quote(q, sizeof q, name->text, name->n));
	return RF_OK;
}

/* Reads the end and the bos token from the files next to tokenizer.model.  Other tokens of these files must
 * be pieces that do not stand for text, because libsentencepiece would divide any other token.  It would
 * also add a blank before a text, or none, regardless of these files. */
static enum rf_code read_special(struct rf_tokenizer *t, const char *path, struct rf_err *e)
{
	const struct rf_sentencepiece *sp = t->data;
	const int folder = (int)(rf_file_name(path) - path);
	struct rf_special s;
	enum rf_code rc = rf_special_read(&s, path, e);
	char q[60];

	for (int i = 0; i < s.n && rc == RF_OK; i++) {
		const int id = rf_sentencepiece_id(sp, s.t[i].text, s.t[i].n);

		if (s.t[i].is_name ||
		    (id >= 0 && rf_sentencepiece_special(sp, id) && (s.t[i].id < 0 || s.t[i].id == id)))
			continue;
		rc = rf_fail(e, RF_EMODEL,
		             "%.*s%s: the token '%s' is not one of tokenizer.model, which would cut it to "
		             "pieces (use the model's tokenizer.json)",
		             folder, path, s.t[i].file, rf_quote(q, sizeof q, s.t[i].text, s.t[i].n));
	}
	if (rc == RF_OK && s.prefix_space >= 0 && s.prefix_space != sp->prefix_space)
		rc = rf_fail(e, RF_EMODEL,
		             "%.*stokenizer_config.json: add_prefix_space is %s, but tokenizer.model puts %s "
		             "blank before a text (use the model's tokenizer.json)",
		             folder, path, s.prefix_space ? "true" : "false", s.prefix_space ? "no" : "a");
	if (rc == RF_OK && (rc = find_name(sp, &s.eos, "eos_token", path, &t->eos.id, e)) == RF_OK)
		rc = find_name(sp, &s.bos, "bos_token", path, &t->bos, e);
	if (s.eos.given)
		t->eos.file = s.eos.file;
	snprintf(t->warning, sizeof t->warning, "%s", s.warning);
	rf_special_free(&s);
	return rc;
}

static enum rf_code open_model(struct rf_tokenizer *t, const char *path, struct rf_err *e)
{
	struct rf_sentencepiece *sp = NULL;
	char why[100], q[200], *model;
	size_t n;
	enum rf_code rc = rf_file_read(path, RF_MOST_TOKENIZER, &model, &n, e);

	if (rc != RF_OK)
		return rc;
	rf_file_hash(model, n, t->hash);
	if ((rc = rf_sentencepiece_check(model, n, e)) == RF_OK &&
	    !(sp = rf_sentencepiece_open(model, n, why, sizeof why)))
		rc = *why ? rf_fail(e, RF_EDATA, "%s", why) : rf_fail(e, RF_ENOMEM, "out of memory");
	free(model);
	if (rc == RF_EDATA)
		rf_blame(e, "%s: not a SentencePiece model", rf_quote(q, sizeof q, path, strlen(path)));
	if (rc != RF_OK)
		return rc;
	t->data = sp;
	t->vocab = sp->vocab;
	t->eos = (struct rf_end_token){ sp->eos, "tokenizer.model" };
	t->bos = sp->bos;
	return read_special(t, path, e);
}

static enum rf_code encode_model(const struct rf_tokenizer *t, const char *text, size_t n,
                                 struct rf_id_list *ids, struct rf_err *e)
{
	size_t more;
	int32_t *made = rf_sentencepiece_encode(t->data, text, n, &more);
	enum rf_code rc;

	if (!made)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rc = rf_id_list_add(ids, made, more, e);
	free(made);
	return rc;
}

/* Decodes all ids that stand for text.  The library makes U+FFFD of each byte of an incomplete character. */
static enum rf_code decode_plain(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                 size_t *n, size_t *held, struct rf_err *e)
{
	int32_t *kept = malloc((count + 1) * sizeof *kept);
	unsigned char last[3];
	size_t k = 0, bytes = 0;
	int byte;

	if (!kept)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		if (!rf_sentencepiece_control(t->data, ids[i]))
			kept[k++] = ids[i];
	while (bytes < 3 && bytes < k && (byte = rf_sentencepiece_byte(t->data, kept[k - 1 - bytes])) >= 0)
		last[2 - bytes++] = (unsigned char)byte;
	*held = 3 * rf_utf8_unfinished(last + 3 - bytes, bytes);
	*text = rf_sentencepiece_decode(t->data, kept, k, n);
	free(kept);
	return *text ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");
}

/* Decodes runs of ids, and writes between them the names of ids that do not stand for text. */
static enum rf_code decode_model(const struct rf_tokenizer *t, const int32_t *ids, size_t count, bool special,
                                 char **text, size_t *n, size_t *held, struct rf_err *e)
{
	struct rf_buf out = { 0 };

	for (size_t i = 0; i < count; i++)
		if (ids[i] < 0 || ids[i] >= t->vocab)
			return rf_fail(e, RF_EDATA, "token id %d is not in the vocabulary of %d", (int)ids[i],
			               t->vocab);
	if (!special)
		return decode_plain(t, ids, count, text, n, held, e);
	for (size_t i = 0, end; i < count; i = end) {
		const char *name = rf_sentencepiece_control(t->data, ids[i]);
		char *run;
		size_t len;

		if (name) {
			rf_buf_add(&out, name, strlen(name));
			end = i + 1;
			continue;
		}
		for (end = i + 1; end < count && !rf_sentencepiece_control(t->data, ids[end]);)
			end++;
		if (!(run = rf_sentencepiece_decode(t->data, ids + i, end - i, &len))) {
			rf_buf_free(&out);
			return rf_fail(e, RF_ENOMEM, "out of memory");
		}
		rf_buf_add(&out, run, len);
		free(run);
	}
	*held = 0; /* names follow, or the caller wants them */
	return rf_buf_give(&out, text, n) ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");
}

static void close_model(struct rf_tokenizer *t) { rf_sentencepiece_close(t->data); }

const struct rf_tokenizer_kind rf_tokenizer_kind_sentencepiece = {
	/* clang-format off */
	.name = "sentencepiece", .class = "SentencePiece", .open = open_model, .encode = encode_model,
	.decode = decode_model, .close = close_model,
	/* clang-format on */
};
