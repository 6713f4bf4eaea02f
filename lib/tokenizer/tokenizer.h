/* tokenizer.h -- converts text to token ids and back. */
#ifndef RF_TOKENIZER_H
#define RF_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/config.h"
#include "tokenizer/token_ids.h"

struct rf_tokenizer;

/* Ids of the byte tokenizer, the same as in ByT5: id = byte + 3. */
enum { RF_BYTES_PAD = 0, RF_BYTES_EOS = 1, RF_BYTES_UNK = 2, RF_BYTES_FIRST = 3, RF_BYTES_VOCAB = 384 };

/* Opens the byte tokenizer, which needs no file. */
enum rf_code rf_tokenizer_bytes(struct rf_tokenizer **t, struct rf_err *e);
/* The names of tokenizer files in a model directory, with NULL at the end.  The first one that exists is the
 * tokenizer: a file with the tokenizer itself comes before the config, which only names its kind and its
 * special tokens. */
extern const char *const rf_tokenizer_files[];
/* Stores in e that a stream was made with another tokenizer, by its hash, than the one at dir, which has the
 * hash `own`: names both, and says what to do.  Returns RF_EDATA. */
enum rf_code rf_tokenizer_differs(const char *stream, const char *own, const char *dir, struct rf_err *e);
/* hash: the hash of the tokenizer in a model directory, or in the newest step of a run, as
 * rf_tokenizer_hash() returns it; "" if there is no tokenizer, or only the config of a kind that is not
 * supported.  Errors: RF_EMODEL: the file is too large or malformed; RF_EIO, RF_ENOMEM. */
enum rf_code rf_tokenizer_hash_dir(const char *dir, char hash[17], struct rf_err *e);
/* Opens the tokenizer at path: a model directory, a run, or a tokenizer file.  Errors: RF_ENOINPUT: there is
 * nothing at path; RF_EMODEL: it contains no tokenizer, or one of a kind that is not supported, which the
 * sentence names; RF_EIO, RF_ENOMEM. */
enum rf_code rf_tokenizer_open(struct rf_tokenizer **t, const char *path, struct rf_err *e);
/* Opens the tokenizer that options name: `given`, the value of --tokenizer, which is a path as for
 * rf_tokenizer_open() or the word `bytes`, else the tokenizer in `model`, the value of --model.  *t is NULL
 * if both are NULL, or if `model` is a folder without a tokenizer.  Errors: those of rf_tokenizer_open(). */
enum rf_code rf_tokenizer_open_option(struct rf_tokenizer **t, const char *given, const char *model,
                                      struct rf_err *e);
/* Returns whether a stream may have been made with a tokenizer.  kind, hash: the values in the stream's
 * head; "": not in the head. */
bool rf_tokenizer_made(const struct rf_tokenizer *t, const char *kind, const char *hash);
/* Checks the same.  Errors: RF_EDATA: the stream was made with another tokenizer; the sentence names both. */
enum rf_code rf_tokenizer_check_made(const struct rf_tokenizer *t, const char *kind, const char *hash,
                                     struct rf_err *e);
/* Identifies the tokenizer at path (as for rf_tokenizer_open()), which may be of a kind that is not
 * supported: the name of its kind, its hash ("" in the cases of rf_tokenizer_hash_dir()), and its vocabulary
 * size.  For an unsupported kind, and for a model without a tokenizer, the size is that of the model, from
 * the config.json next to the file; 0: there is no such config.  A model without a tokenizer has kind and
 * hash "". */
enum rf_code rf_tokenizer_identify(const char *path, char kind[80], char hash[17], int *vocab,
                                   struct rf_err *e);
/* Reads the config.json of the model that the tokenizer at path (as for rf_tokenizer_open()) is for, which is
 * next to the tokenizer, with its generation_config.json.  *found is false if there is none, or one of a
 * model that is not supported.  `file` is the config's path.  Errors: those of rf_config_read().  The caller
 * frees cfg with rf_config_free(), also after a failure. */
enum rf_code rf_tokenizer_model(const char *path, struct rf_config *cfg, char file[4096], bool *found,
                                struct rf_err *e);
/* Finds the end token of the tokenizer at path (as for rf_tokenizer_open()) without opening a large
 * tokenizer; its id is -1 also if the tokenizer is of a kind that is not supported.  Errors: those of
 * rf_tokenizer_open(). */
enum rf_code rf_tokenizer_end(const char *path, struct rf_end_token *eos, struct rf_err *e);
void rf_tokenizer_free(struct rf_tokenizer *t);

const char *rf_tokenizer_kind(const struct rf_tokenizer *t); /* "bytes" */
/* XXH64 of its file, as 16 hex digits, and of the tokens that files next to it add or change, if there are
 * any; for the byte tokenizer, of the word `bytes` */
const char *rf_tokenizer_hash(const struct rf_tokenizer *t);
int rf_tokenizer_vocab(const struct rf_tokenizer *t);
int rf_tokenizer_eos(const struct rf_tokenizer *t); /* -1: none */
/* Returns the bos token that the files name, else the first of rf_tokenizer_before(); -1: none. */
int rf_tokenizer_bos(const struct rf_tokenizer *t);
/* Returns a sentence for the user about files of the tokenizer that contradict each other; "": they do
 * not. */
const char *rf_tokenizer_warning(const struct rf_tokenizer *t);
/* Returns the *n ids that the tokenizer's own files put before a text.  The tokenizer owns the memory. */
const int32_t *rf_tokenizer_before(const struct rf_tokenizer *t, size_t *n);

/* Compares the tokenizer with the model whose config has the path `config`, and forgets tokens that only
 * files next to the tokenizer add and for which the model has no rows.  The warning is "" or a sentence about
 * such a token, or about different end tokens, which names both ids and the file to edit.  Errors: RF_EMODEL:
 * the tokenizer has more ids than the model. */
enum { RF_TOKENIZER_WARNING = 1600 };
enum rf_code rf_tokenizer_fit(struct rf_tokenizer *t, const struct rf_config *cfg, const char *config,
                              char warning[RF_TOKENIZER_WARNING], struct rf_err *e);
/* Compares the tokenizer at `path` with the model next to it, as rf_tokenizer_fit() does; *vocab is the
 * model's vocabulary, which is often padded; 0: there is no such model, or one that is not supported.
 * Errors: also those of rf_tokenizer_model(). */
enum rf_code rf_tokenizer_fit_model(struct rf_tokenizer *t, const char *path, int *vocab,
                                    char warning[RF_TOKENIZER_WARNING], struct rf_err *e);
/* Compares the tokenizer in a folder with a model that will get a copy of it and of its
 * generation_config.json.  One of a kind that is not supported is not compared.  Errors: also those of
 * rf_tokenizer_open(). */
enum rf_code rf_tokenizer_fit_copy(const char *dir, const struct rf_config *cfg, const char *config,
                                   char warning[RF_TOKENIZER_WARNING], struct rf_err *e);
/* Compares only an end token with that of the model; the warning is as above. */
void rf_tokenizer_fit_end(const struct rf_end_token *eos, const struct rf_config *cfg, const char *config,
                          char warning[RF_TOKENIZER_WARNING]);

/* Appends the ids of n bytes of text to the list, and none after a failure.  Errors: RF_EDATA: a pattern of
 * the tokenizer fails on the text; RF_ENOMEM. */
enum rf_code rf_tokenizer_encode(const struct rf_tokenizer *t, const char *text, size_t n,
                                 struct rf_id_list *ids, struct rf_err *e);
/* Converts ids to *n bytes of text, not escaped, malloc'd into *text with a NUL after them.  Special tokens
 * become <pad>, <eos>, <unk>, <extra_id_N>.  Errors: RF_EDATA: an id is outside the vocabulary, or a pattern
 * of the tokenizer fails on the text; RF_ENOMEM. */
enum rf_code rf_tokenizer_decode(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                 size_t *n, struct rf_err *e);
/* Converts ids that a model wrote to text, as rf_tokenizer_decode() does, but without special tokens.  The
 * text is valid UTF-8 without NUL, as a str of a stream must be.  A NUL and invalid bytes become U+FFFD, as
 * many as in the reference: one for each byte of a run of tokens <0xNN>, else one for each maximal subpart.
 *
 * The first *final bytes stay as they are when more ids follow.  The bytes after them stand for an
 * incomplete character: U+FFFD, which is right if no ids follow.  In one case more ids can still change the
 * final bytes, as in the reference for tokenizer.json: if a run of tokens <0xNN> is not UTF-8, each of its
 * bytes becomes U+FFFD, also the bytes before the wrong one.
 *
 * *text is malloc'd, with a NUL after its *n bytes, and belongs to the caller; NULL on failure.  Errors:
 * RF_EDATA: an id is outside the vocabulary, or a pattern of the tokenizer fails on the text; RF_ENOMEM. */
enum rf_code rf_tokenizer_text(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                               size_t *n, size_t *final, struct rf_err *e);

/* Stores the text in which stop strings are searched: the text of rf_tokenizer_text(), but with the names of
 * special tokens from the model's tokenizer_config.json.  So no string matches across a special token unless
 * it has the token's name.  Errors: those of rf_tokenizer_text(). */
enum rf_code rf_tokenizer_named(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                size_t *n, size_t *final, struct rf_err *e);
/* Stores in *text the text of the same ids without special tokens, as rf_tokenizer_text() does, but only what
 * comes before byte `at` of their rf_tokenizer_named().  Errors: those of rf_tokenizer_text(). */
enum rf_code rf_tokenizer_text_before(const struct rf_tokenizer *t, const int32_t *ids, size_t count,
                                      size_t at, char **text, size_t *n, struct rf_err *e);

#endif
