/* tokenizer_bytes.c -- the byte tokenizer: every byte is a token, id = byte + 3, because ids 0 to 2 are
 * padding, end and unknown, as in ByT5 (Xue et al. 2022, arXiv:2105.13626).  The ids from 259 on are ByT5's
 * 125 sentinels, which no text produces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_kind.h"

enum { SENTINEL = RF_BYTES_FIRST + 256, LONGEST = sizeof "<extra_id_124>" };

static enum rf_code open_bytes(struct rf_tokenizer *t, const char *path, struct rf_err *e)
{
	(void)path;
	(void)e;
	t->vocab = RF_BYTES_VOCAB;
	t->eos = (struct rf_end_token){ RF_BYTES_EOS, "tokenizer_config.json" };
	snprintf(t->hash, sizeof t->hash, "%016llx", (unsigned long long)XXH64("bytes", 5, 0));
	return RF_OK;
}

static enum rf_code encode_bytes(const struct rf_tokenizer *t, const char *text, size_t n,
                                 struct rf_id_list *ids, struct rf_err *e)
{
	int32_t some[256];
	enum rf_code rc = RF_OK;

	(void)t;
	for (size_t i = 0, k; i < n && rc == RF_OK; i += k) {
		for (k = 0; k < 256 && k < n - i; k++)
			some[k] = (unsigned char)text[i + k] + RF_BYTES_FIRST;
		rc = rf_id_list_add(ids, some, k, e);
	}
	return rc;
}

/* Decodes ids.  eos: the name of the end token; NULL: special tokens are left out. */
static enum rf_code decode_with(const struct rf_tokenizer *t, const int32_t *ids, size_t count,
                                const char *eos, char **text, size_t *n, size_t *held, struct rf_err *e)
{
	const char *const names[] = {
		[RF_BYTES_PAD] = "<pad>", [RF_BYTES_EOS] = eos, [RF_BYTES_UNK] = "<unk>"
	};
	size_t bytes = 1, w = 0;
	char *out;

	for (size_t i = 0; i < count; i++) {
		if (ids[i] < 0 || ids[i] >= t->vocab)
			return rf_fail(e, RF_EDATA, "token id %d is not in the vocabulary of %d", (int)ids[i],
			               t->vocab);
		if (__builtin_add_overflow(bytes, ids[i] >= RF_BYTES_FIRST && ids[i] < SENTINEL ? 1 : LONGEST,
		                           &bytes))
			return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	if (!(out = malloc(bytes)))
		return rf_fail(e, RF_ENOMEM, "out of memory (wanted %zu bytes)", bytes);
	for (size_t i = 0; i < count; i++) {
		if (ids[i] >= RF_BYTES_FIRST && ids[i] < SENTINEL)
			out[w++] = (char)(ids[i] - RF_BYTES_FIRST);
		else if (eos && ids[i] < RF_BYTES_FIRST)
			w += (size_t)sprintf(out + w, "%s", names[ids[i]]);
		else if (eos)
			w += (size_t)sprintf(out + w, "<extra_id_%d>", (int)ids[i] - SENTINEL);
	}
	out[w] = 0;
	*held = rf_utf8_unfinished(out, w);
	*text = out;
	*n = w;
	return RF_OK;
}

static enum rf_code decode_bytes(const struct rf_tokenizer *t, const int32_t *ids, size_t count, bool special,
                                 char **text, size_t *n, size_t *held, struct rf_err *e)
{
	return decode_with(t, ids, count, special ? "<eos>" : NULL, text, n, held, e);
}

/* Decodes with the end token's name of ByT5, which the tokenizer_config.json of checkpoints has. */
static enum rf_code decode_named(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                 size_t *n, size_t *held, struct rf_err *e)
{
	return decode_with(t, ids, count, "</s>", text, n, held, e);
}

const struct rf_tokenizer_kind rf_tokenizer_kind_bytes = {
	/* clang-format off */
	.name = "bytes", .class = "ByT5Tokenizer", .open = open_bytes, .encode = encode_bytes,
	.decode = decode_bytes, .decode_named = decode_named,
	/* clang-format on */
};
