/* jscan.h -- JSON without a tree: one pass checks a text, cursors then point into it.
 *
 * For lines that strangers wrote and that may be 256 MiB long.  A parser that builds a tree can be made to use two
 * hundred times the size of the text ("[{},{},..."); here nothing is allocated at all, whatever the text says. */
#ifndef RF_JSCAN_H
#define RF_JSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

enum { RF_JSON_DEPTH = 64 };

/* A value where it stands in the text, without the space around it. */
struct rf_json {
	char *s;      /* NULL: none */
	size_t n;
};

/* Exactly one value of RFC 8259 in n bytes, UTF-8, no half surrogate pairs, at most RF_JSON_DEPTH containers deep.
 * RF_EDATA says what is wrong at which byte (counted from 1).  Everything below wants a value that passed. */
enum rf_code rf_json_check(char *s, size_t n, struct rf_json *v, struct rf_err *e);

/* "a string", "a number", "true", "false", "null", "a list", "an object". */
const char *rf_json_kind(const struct rf_json *v);
bool rf_json_is_string(const struct rf_json *v);
bool rf_json_is_list(const struct rf_json *v);
bool rf_json_is_object(const struct rf_json *v);

/* The element of a list or object behind *v (the first one where v->s is NULL), in order; false after the last.  key
 * is NULL for a list. */
bool rf_json_next(const struct rf_json *of, struct rf_json *key, struct rf_json *v);
/* The value of a key in an object; RF_EDATA: it is not there (v->s is NULL), or there twice. */
enum rf_code rf_json_get(const struct rf_json *object, const char *key, struct rf_json *v, struct rf_err *e);

/* A string equals a word. */
bool rf_json_equals(const struct rf_json *string, const char *word);
/* A string's text without quotes and escapes, written over it (the text never grows), with a NUL behind it; the value
 * is no JSON after that.  *n counts bytes, and a NUL may be among them. */
char *rf_json_text(struct rf_json *string, size_t *n);
/* A number without fraction and exponent that fits; false for anything else. */
bool rf_json_int(const struct rf_json *v, int64_t *i);
bool rf_json_uint(const struct rf_json *v, uint64_t *u);
/* Any number that is finite in double. */
bool rf_json_real(const struct rf_json *v, double *x);

#endif
