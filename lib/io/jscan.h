/* jscan.h -- JSON without a tree: one pass checks a text, cursors then point into it.
 *
 * For lines that strangers wrote and that may be 256 MiB long.  A parser that builds a tree can be made to
 * use two hundred times the size of the text ("[{},{},..."); here nothing is allocated at all, whatever the
 * text says. */
#ifndef RF_JSCAN_H
#define RF_JSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { RF_JSCAN_DEPTH = 64 };

/* A value where it stands in the text, without the space around it. */
struct rf_jvalue {
	char *s;      /* NULL: none */
	size_t n;
};

/* Exactly one value of RFC 8259 in n bytes, UTF-8, no half surrogate pairs, at most RF_JSCAN_DEPTH
 * containers deep.  RF_EDATA says what is wrong at which byte (counted from 1).  Everything below
 * wants a value that passed. */
enum rf_code rf_jscan_check(char *s, size_t n, struct rf_jvalue *v, struct rf_err *e);

/* Whether n bytes, as far as they are JSON, hold at most so many values and are at most so many containers
 * deep. */
bool rf_jscan_within(const char *s, size_t n, int depth, size_t values);

/* "a string", "a number", "true", "false", "null", "a list", "an object". */
const char *rf_jscan_kind(const struct rf_jvalue *v);
bool rf_jscan_is_string(const struct rf_jvalue *v);
bool rf_jscan_is_list(const struct rf_jvalue *v);
bool rf_jscan_is_object(const struct rf_jvalue *v);

/* The element of a list or object behind *v (the first one where v->s is NULL), in order; false after the
 * last.  key is NULL for a list. */
bool rf_jscan_next(const struct rf_jvalue *of, struct rf_jvalue *key, struct rf_jvalue *v);
/* The value of a key in an object; RF_EDATA: it is not there (v->s is NULL), or there twice. */
enum rf_code rf_jscan_get(const struct rf_jvalue *object, const char *key, struct rf_jvalue *v,
                          struct rf_err *e);

/* A string equals a word. */
bool rf_jscan_equals(const struct rf_jvalue *string, const char *word);
/* A string's text without quotes and escapes, written over it (the text never grows), with a NUL behind it;
 * the value is no JSON after that.  *n counts bytes, and a NUL may be among them. */
char *rf_jscan_text(struct rf_jvalue *string, size_t *n);
/* A number without fraction and exponent that fits; false for anything else. */
bool rf_jscan_int(const struct rf_jvalue *v, int64_t *i);
bool rf_jscan_uint(const struct rf_jvalue *v, uint64_t *u);
/* A number that is finite in double; not a whole one of more than 64 bits, which would be rounded. */
bool rf_jscan_real(const struct rf_jvalue *v, double *x);

#endif
