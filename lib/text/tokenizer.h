/* tokenizer.h -- text to token ids and back. */
#ifndef RF_TOKENIZER_H
#define RF_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_tokenizer;

/* Ids of the byte tokenizer, as ByT5 has them: id = byte + 3. */
enum { RF_BYTES_PAD = 0, RF_BYTES_EOS = 1, RF_BYTES_UNK = 2, RF_BYTES_FIRST = 3, RF_BYTES_VOCAB = 384 };

enum rf_code rf_tokenizer_bytes(struct rf_tokenizer **t, struct rf_err *e);
/* The files by which a model directory has a tokenizer, NULL at the end.  The first that is there counts: a
 * tokenizer itself before the config that names its kind and its special tokens. */
extern const char *const rf_tokenizer_files[];
/* The hash of a model directory's tokenizer, as rf_tokenizer_hash(); "" where it has none, or only the config
 * of a kind we do not have. */
enum rf_code rf_tokenizer_hash_dir(const char *dir, char hash[17], struct rf_err *e);
/* What a model directory or run holds, or a tokenizer file; a kind we do not have is RF_EMODEL by
 * its name. */
enum rf_code rf_tokenizer_open(struct rf_tokenizer **t, const char *path, struct rf_err *e);
/* What ids were made with, of whatever kind: its name and hash ("" where rf_tokenizer_hash_dir() has none),
 * and the vocabulary that the config.json beside it says; 0: none does. */
enum rf_code rf_tokenizer_identify(const char *path, char kind[80], char hash[17], int *vocab,
                                   struct rf_err *e);
void rf_tokenizer_free(struct rf_tokenizer *t);

const char *rf_tokenizer_kind(const struct rf_tokenizer *t);   /* "bytes" */
/* XXH64 of its file; of bytes: of the word `bytes` */
const char *rf_tokenizer_hash(const struct rf_tokenizer *t);
int rf_tokenizer_vocab(const struct rf_tokenizer *t);
int rf_tokenizer_eos(const struct rf_tokenizer *t);            /* -1: none */

/* Appends the ids of n bytes of text to *ids (realloc'd; *count of *cap used). */
enum rf_code rf_tokenizer_encode(const struct rf_tokenizer *t, const char *text, size_t n, int32_t **ids,
                                 size_t *count, size_t *cap, struct rf_err *e);
/* The text of ids as bytes, not escaped, malloc'd into *text with its length: special tokens as
 * <pad>, <eos>, <unk>. */
enum rf_code rf_tokenizer_decode(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                 size_t *n, struct rf_err *e);

#endif
