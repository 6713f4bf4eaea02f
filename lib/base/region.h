/* region.h -- many pieces of memory that are released together. */
#ifndef RF_REGION_H
#define RF_REGION_H

#include <stddef.h>

struct rf_region {
	struct rf_region_block *newest;
}; /* all zero: empty */

/* Returns uninitialised memory for `count` elements of `size` bytes, 64-byte aligned; NULL: memory ran
 * out. */
void *rf_region_alloc(struct rf_region *p, size_t count, size_t size);
size_t rf_region_used(const struct rf_region *p); /* bytes of all pieces, each rounded up */
void rf_region_clear(struct rf_region *p);        /* releases the pieces but keeps some memory for the next */
void rf_region_free(struct rf_region *p);

#endif
