/* tokenizer -- feeds any bytes to the reader of tokenizer.json.  A tokenizer that is accepted gives ids of
 * its vocabulary, and these ids give a text.  The first line is the text to encode; the rest is the file. */

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

/* Checks that the ids, and the ids without up to 20 at the end, give a text of UTF-8 without NUL. */
static void read_back(const struct rf_tokenizer *t, const int32_t *ids, size_t count)
{
	size_t len, final;
	struct rf_err e;
	char *text;

	for (size_t n = count < 20 ? 0 : count - 20; n <= count; n++) {
		if (rf_tokenizer_text(t, ids, n, &text, &len, &final, &e) != RF_OK)
			continue;
		insist(final <= len && strlen(text) == len && rf_utf8(text, len) && rf_utf8(text, final),
		       "a bad text of ids");
		free(text);
	}
}

static void check_ids(const struct rf_tokenizer *t, const char *text, size_t n)
{
	struct rf_id_list ids = { 0 };
	size_t len;
	struct rf_err e;
	char *back;

	insist(rf_tokenizer_vocab(t) >= 0 && rf_tokenizer_eos(t) < rf_tokenizer_vocab(t),
	       "a bad size of the vocabulary, or a bad end token");
	if (rf_tokenizer_encode(t, text, n, &ids, &e) == RF_OK) {
		for (size_t i = 0; i < ids.n; i++)
			insist(ids.p[i] >= 0 && ids.p[i] < rf_tokenizer_vocab(t),
			       "an id outside the vocabulary");
		if (rf_tokenizer_decode(t, ids.p, ids.n, &back, &len, &e) == RF_OK)
			free(back);
		read_back(t, ids.p, ids.n);
	}
	free(ids.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t n = end ? (size_t)(end - data) : 0;
	struct rf_tokenizer *t;
	struct rf_err e;
	char path[40];
	int fd;

	if (!end)
		return 0;
	fd = memory_file(end + 1, size - n - 1, path);
	if (rf_tokenizer_open(&t, path, &e) == RF_OK) {
		check_ids(t, (const char *)data, n);
		rf_tokenizer_free(t);
	}
	close(fd);
	return 0;
}
