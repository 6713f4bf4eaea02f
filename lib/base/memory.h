/* memory.h -- memory for lists that grow, and for texts that are kept or handed on. */
#ifndef RF_MEMORY_H
#define RF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/region.h"

/* Makes room for one more element of `size` bytes in a list of n elements, which has room for *cap.  list:
 * the address of the pointer to the elements, which may move.  Returns false, and changes nothing, if memory
 * ran out. */
bool rf_grow(void *list, size_t n, size_t *cap, size_t size);

/* Returns a copy of n bytes, ended by a NUL, in memory of the region; NULL: memory ran out. */
char *rf_region_text(struct rf_region *p, const void *s, size_t n);

/* Gives the bytes of a buffer to the caller: *text is malloc'd, *n bytes long and ended by a NUL.  n may be
 * NULL.  Frees the buffer and returns false if memory ran out. */
bool rf_buf_give(struct rf_buf *b, char **text, size_t *n);

#endif
