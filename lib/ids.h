/* ids.h -- which ids have been seen, and how often. */
#ifndef RF_IDS_H
#define RF_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct rf_ids { struct rf_id_slot *slot; size_t used, size; };

/* Counts id once more; *before: how often it came before. */
enum rf_code rf_ids_add(struct rf_ids *ids, uint64_t id, uint64_t *before, struct rf_err *e);
void rf_ids_free(struct rf_ids *ids);

#endif
