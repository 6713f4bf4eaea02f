/* json.h -- parses untrusted JSON files with jansson, after a pass that bounds what they can make it
 * allocate. */
#ifndef RF_JSON_H
#define RF_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { RF_JSON_NODES = 1000000 };

/* Parses a text that must be a JSON object into *root, which the caller releases with json_decref().  Errors:
 * RF_EMODEL: it is not a JSON object, has a duplicate key, a NUL in a string, bytes that are not UTF-8, more
 * than RF_JSON_NODES values, or more than `depth` levels of nesting; RF_ENOMEM. */
enum rf_code rf_json_parse(json_t **root, const char *text, size_t n, int depth, struct rf_err *e);
/* Parses as rf_json_parse() does, but a string may have NULs: it has json_string_length() bytes. */
enum rf_code rf_json_parse_nul(json_t **root, const char *text, size_t n, int depth, struct rf_err *e);

/* Appends a value as JSON without blanks.  In strings, control characters and those that rf_print_json()
 * escapes are written as \uNNNN.  Reals have the fewest digits that read back the same, and a point or an
 * exponent.  If value is NULL or memory runs out, to->failed is set. */
void rf_json_print(struct rf_buf *to, const json_t *value);

#endif
