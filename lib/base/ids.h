/* ids.h -- counts how often each id occurs, and remembers when it came first. */
#ifndef RF_IDS_H
#define RF_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A set of counted ids; all zero: empty. */
struct rf_ids {
	struct rf_id_slot *slot;
	size_t used, size;
	uint64_t total;
};

/* Counts one more occurrence of id.  *before: the number of its earlier occurrences.  Errors: RF_ENOMEM. */
enum rf_code rf_ids_add(struct rf_ids *ids, uint64_t id, uint64_t *before, struct rf_err *e);
/* Returns the number, from 1, of the rf_ids_add() call that first added id; 0: no call did. */
uint64_t rf_ids_first(const struct rf_ids *ids, uint64_t id);
void rf_ids_free(struct rf_ids *ids);

#endif
