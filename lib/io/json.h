/* json.h -- JSON files from strangers: parsed with jansson, after a walk that bounds what they can make it
 * allocate. */
#ifndef RF_JSON_H
#define RF_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

enum { RF_JSON_NODES = 1000000 };

/* An object, malloc'd into *root; duplicate keys, NUL in a string, bytes that are not UTF-8, more than
 * RF_JSON_NODES values and nesting beyond depth are RF_EMODEL. */
enum rf_code rf_json_parse(json_t **root, const char *text, size_t n, int depth, struct rf_err *e);

#endif
