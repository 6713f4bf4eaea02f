/* meta.h -- reads values from a record's meta. */
#ifndef RF_META_H
#define RF_META_H

#include <jansson.h>

#include "base/err.h"
#include "base/region.h"
#include "stream/record.h"

/* Returns the value of a key as a new reference; key NULL: all of meta.  Returns NULL if meta has no such
 * key or memory ran out.  Bytes become null, because JSON has none.  A whole number of 2^63 or more becomes
 * a real number. */
json_t *rf_meta_json(const struct rf_record *r, const char *key);

struct rf_texts {
	const char *const *s;
	int n;
};

/* Reads a key's list of strings, or its only string, into memory of p.  to->n is 0 if the value is absent or
 * null.  Errors: RF_EDATA: an element is not a text, or has a NUL; RF_ENOMEM. */
enum rf_code rf_meta_texts(const struct rf_record *r, const char *key, struct rf_region *p,
                           struct rf_texts *to, struct rf_err *e);

#endif
