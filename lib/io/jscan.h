/* jscan.h -- reads JSON without building a tree: one pass checks a text, then cursors point into it.
 *
 * It is meant for lines from untrusted sources, which may be 256 MiB long.  A parser that builds a tree can
 * be made to allocate two hundred times the size of the text ("[{},{},..."); these functions allocate nothing
 * at all, whatever the text contains.
 *
 * Python's json writes more than RFC 8259 has: NaN, Infinity and -Infinity as values, and unpaired surrogates
 * ("\ud800") in strings.  rf_jscan_check() lets them pass, so a value that no program reads does no harm.  A
 * program that reads such a value sees that it is neither a string nor a number: rf_jscan_is_string() and the
 * functions that read numbers return false, and rf_jscan_kind() names it. */
#ifndef RF_JSCAN_H
#define RF_JSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { RF_JSCAN_DEPTH = 64 };

/* A value as a piece of the text, without the white space around it. */
struct rf_jvalue {
	char *s; /* NULL: none */
	size_t n;
};

/* Checks that n bytes are exactly one JSON value in UTF-8, with containers nested at most RF_JSCAN_DEPTH
 * deep; *v is that value.  The functions below take only values of a text that passed.  Errors: RF_EDATA; the
 * sentence says what is wrong at which byte, counted from 1. */
enum rf_code rf_jscan_check(char *s, size_t n, struct rf_jvalue *v, struct rf_err *e);
/* Checks the same and refuses the additions of Python's json.  For texts in which every value is read. */
enum rf_code rf_jscan_check_strict(char *s, size_t n, struct rf_jvalue *v, struct rf_err *e);

/* Returns whether a text of n bytes, up to where it stops being valid JSON, has at most `values` values and
 * containers nested at most `depth` deep.  The text need not have been checked. */
bool rf_jscan_within(const char *s, size_t n, int depth, size_t values);

/* Returns the kind of a value for a message: "a string", "a number", "true", "false", "null", "a list", "an
 * object", "NaN", "Infinity", "-Infinity" or "a broken string (an unpaired surrogate)". */
const char *rf_jscan_kind(const struct rf_jvalue *v);
/* Returns true for a string without unpaired surrogates. */
bool rf_jscan_is_string(const struct rf_jvalue *v);
bool rf_jscan_is_list(const struct rf_jvalue *v);
bool rf_jscan_is_object(const struct rf_jvalue *v);

/* Advances *v to the next element of a list or object, or to the first one if v->s is NULL.  key gets the
 * element's key; it must be NULL for a list.  Returns false if there are no more elements. */
bool rf_jscan_next(const struct rf_jvalue *of, struct rf_jvalue *key, struct rf_jvalue *v);
/* Finds the value of a key in an object.  Errors: RF_EDATA: the key is missing (v->s is then NULL), or it
 * occurs twice. */
enum rf_code rf_jscan_get(const struct rf_jvalue *object, const char *key, struct rf_jvalue *v,
                          struct rf_err *e);
/* Finds the values of n keys in one pass, which counts where an object is large; s of a key that is missing
 * is NULL.  Errors: RF_EDATA: a key occurs twice. */
enum rf_code rf_jscan_pick(const struct rf_jvalue *object, const char *const *keys, int n,
                           struct rf_jvalue *values, struct rf_err *e);

/* Returns whether a string, with its escapes resolved, equals a word. */
bool rf_jscan_equals(const struct rf_jvalue *string, const char *word);
/* Removes a string's quotes and escapes in place (the text never grows) and puts a NUL after it.  The value
 * is no longer JSON after that.  Returns the text; *n is its length in bytes.  The text may contain NULs.  An
 * unpaired surrogate becomes three bytes that are not UTF-8: a caller that has not checked the value by
 * rf_jscan_is_string(), such as for the key of an object, must expect them. */
char *rf_jscan_text(struct rf_jvalue *string, size_t *n);
/* Reads a number that has neither fraction nor exponent and fits the type; false for anything else. */
bool rf_jscan_int(const struct rf_jvalue *v, int64_t *i);
bool rf_jscan_uint(const struct rf_jvalue *v, uint64_t *u);
/* Reads a number that is finite as a double.  False for anything else, and for a whole number of more than 64
 * bits, which would be rounded. */
bool rf_jscan_real(const struct rf_jvalue *v, double *x);

#endif
