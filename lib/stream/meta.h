/* meta.h -- what a record's meta has under a key. */
#ifndef RF_META_H
#define RF_META_H

#include <jansson.h>

#include "base/err.h"
#include "base/region.h"
#include "stream/record.h"

/* The value of a key as a new reference, without a key all of meta; NULL: there is none, or memory ran out.
 * What JSON lacks, bytes, becomes null, a whole number from 2^63 on a real one. */
json_t *rf_meta_json(const struct rf_record *r, const char *key);

struct rf_texts { const char *const *s; int n; };

/* The strings of a list, or the one string, in memory of p; n 0: there is no such value, or null.  Errors:
 * RF_EDATA: one is no text, or has a NUL; RF_ENOMEM. */
enum rf_code rf_meta_texts(const struct rf_record *r, const char *key, struct rf_region *p,
                           struct rf_texts *to, struct rf_err *e);

#endif
