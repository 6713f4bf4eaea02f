/* normal.h -- the normalizers of tokenizer.json, which change a text before it is divided into pieces. */
#ifndef RF_NORMAL_H
#define RF_NORMAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "io/jscan.h"
#include "tokenizer/pattern.h"

struct rf_normal;

/* Reads "normalizer", whose value may be null.  Supported: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip,
 * Prepend, Replace.  Errors: RF_EMODEL: another one, by its name; RF_EDATA: it is malformed;
 * RF_ENOMEM.  The caller frees *n, also after a failure. */
enum rf_code rf_normal_read(struct rf_normal **n, const struct rf_jvalue *json, struct rf_err *e);
void rf_normal_free(struct rf_normal *n);
/* Checks for the normalizer Prepend, which adds a blank's mark before a text. */
bool rf_normal_prepends(const struct rf_normal *n);

/* A limit on the growth of a text in a tokenizer's steps: this many times its bytes, and a constant for short
 * texts.  Unicode's forms make up to 11 times the bytes, a mark for a blank 3 times. */
enum { RF_GROWTH_TIMES = 16, RF_GROWTH_MORE = 1 << 16 };
/* Returns the most bytes that n bytes of text may become. */
size_t rf_growth_most(size_t n);

/* Appends the normalized form of a piece of valid UTF-8 to out, which is empty.  most: the bytes that each
 * step may make.  *head: how many bytes of the piece, and then of the result, stem from the first character
 * of the document.  Errors: RF_EDATA: a pattern fails, or a step would make more bytes; RF_ENOMEM. */
enum rf_code rf_normal_apply(const struct rf_normal *n, struct rf_pattern_work *w, const char *s, size_t len,
                             size_t most, struct rf_buf *out, size_t *head, struct rf_err *e);

/* Checks for a value that is missing or null. */
bool rf_is_absent(const struct rf_jvalue *v);
/* Finds the value of a key; a missing key gives a missing value. */
void rf_maybe(const struct rf_jvalue *object, const char *key, struct rf_jvalue *v);
/* Copies the text of a JSON string, malloc'd.  key: its name in errors. */
enum rf_code rf_string_copy(const struct rf_jvalue *v, const char *key, char **text, size_t *n,
                            struct rf_err *e);
/* Reads true or false into *flag; a missing value counts as `otherwise`.  key: the name of the value in an
 * error.  Errors: RF_EDATA: it is another value. */
enum rf_code rf_flag(const struct rf_jvalue *v, const char *key, bool otherwise, bool *flag,
                     struct rf_err *e);
/* Reads the value of a key of an object as rf_flag() does.  Errors: also RF_EDATA: the key occurs twice. */
enum rf_code rf_flag_read(const struct rf_jvalue *object, const char *key, bool otherwise, bool *flag,
                          struct rf_err *e);
/* Stores in *i the index of the string at a key of an object among `words`, which end with NULL; `otherwise`
 * if the key is missing.  Errors: RF_EDATA: the value is not a string, or the key occurs twice; RF_EMODEL:
 * the string is not one of the words. */
enum rf_code rf_word_read(const struct rf_jvalue *object, const char *key, const char *const *words,
                          int otherwise, int *i, struct rf_err *e);
/* Reads a string of exactly one character, malloc'd; *n is its length in bytes.  Errors: RF_EDATA: the value
 * is missing or anything else; RF_ENOMEM. */
enum rf_code rf_character_read(const struct rf_jvalue *object, const char *key, char **text, size_t *n,
                               struct rf_err *e);
/* Reads a pattern object {"String": ..} or {"Regex": ..}. */
enum rf_code rf_pattern_read(struct rf_pattern **p, const struct rf_jvalue *json, struct rf_err *e);
enum rf_code rf_string_read(const struct rf_jvalue *object, const char *key, char **text, size_t *n,
                            struct rf_err *e);
/* Reads the members that the pre-tokenizer and the decoder Metaspace have: the mark for a blank, malloc'd, *n
 * bytes; when a mark is put before a text; whether a mark begins a piece. */
enum rf_scheme { RF_ALWAYS, RF_FIRST, RF_NEVER };
enum rf_code rf_metaspace_read(const struct rf_jvalue *json, char **mark, size_t *n, enum rf_scheme *scheme,
                               bool *split, struct rf_err *e);

/* How to read a value of tokenizer.json that is null, one part, or a Sequence of parts.  what: "decoder";
 * list: the key of a Sequence's list; types: the supported types, with NULL at the end; read() reads one
 * part into `to`; type: its index in types. */
struct rf_parts {
	const char *what, *list;
	const char *const *types;
	enum rf_code (*read)(void *to, const struct rf_jvalue *json, int type, struct rf_err *e);
	void *to;
};
/* Reads the parts in their order.  Errors: RF_EMODEL: a part has another type, which the sentence names;
 * RF_EDATA: it is malformed; those of p->read(). */
enum rf_code rf_parts_read(const struct rf_parts *p, const struct rf_jvalue *json, struct rf_err *e);

/* Appends n bytes of text.  U+FFFD replaces each byte sequence that is not a character, and each character
 * below `least`. */
void rf_add_valid(struct rf_buf *to, const void *s, size_t n, int32_t least);
/* Appends s to `to`, with each match replaced by `with`.  most: the bytes that `to` may have in all.  Errors:
 * RF_EDATA: a pattern fails, or the limit is exceeded; RF_ENOMEM. */
enum rf_code rf_pattern_replace(const struct rf_pattern *p, struct rf_pattern_work *w, const char *s,
                                size_t n, const char *with, size_t with_n, size_t most, struct rf_buf *to,
                                struct rf_err *e);

#endif
