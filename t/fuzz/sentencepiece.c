/* sentencepiece -- feeds any bytes as a tokenizer.model to SentencePiece.  A model that is accepted gives
 * ids of its vocabulary for any text, and these ids give a text of UTF-8.  The first byte is the length of
 * the text, which follows; the rest is the model.
 *
 * The bytes are not written to a file: the target calls the check and the library as
 * tokenizer_sentencepiece.c does. */

#include "fuzz/fuzz.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/sentencepiece_check.h"

static void encode(const struct rf_sentencepiece *sp, const char *text, size_t n)
{
	size_t count, len;
	int32_t *ids = rf_sentencepiece_encode(sp, text, n, &count);
	char *back;

	if (!ids)
		return;
	for (size_t i = 0; i < count; i++)
		insist(ids[i] >= 0 && ids[i] < sp->vocab, "an id outside the vocabulary");
	if ((back = rf_sentencepiece_decode(sp, ids, count, &len)))
		insist(!back[len], "a text without its end");
	free(back);
	free(ids);
}

/* Encodes texts that follow any path of a trie: all bytes, and each byte many times. */
static void encode_bytes(const struct rf_sentencepiece *sp, uint8_t first)
{
	char text[600];

	for (size_t i = 0; i < 256; i++)
		text[i] = (char)(i + first);
	encode(sp, text, 256);
	memset(text, first, sizeof text);
	encode(sp, text, sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t n = size ? data[0] : 0;
	struct rf_sentencepiece *sp;
	char why[100];

	if (size < 1 + n || rf_sentencepiece_check(data + 1 + n, size - 1 - n, NULL) != RF_OK)
		return 0;
	/* a failure without a reason means that memory was short, which must not happen for a small input */
	if (!(sp = rf_sentencepiece_open(data + 1 + n, size - 1 - n, why, sizeof why))) {
		insist(*why, "out of memory");
		return 0;
	}
	insist(sp->vocab > 0 && sp->bos < sp->vocab && sp->eos < sp->vocab,
	       "a bad size of the vocabulary, or a bad end token");
	encode(sp, (const char *)data + 1, n);
	encode_bytes(sp, n ? data[1] : 0);
	for (int id = 0; id < sp->vocab && id < 300; id++) {
		const char *name = rf_sentencepiece_control(sp, id);

		insist(rf_sentencepiece_byte(sp, id) < 256, "a byte above 255");
		if (name)
			rf_sentencepiece_id(sp, name, strlen(name));
	}
	rf_sentencepiece_close(sp);
	return 0;
}
