/* ids.c -- a hash table with open addressing.  The hash has no secret key, but it multiplies by an odd
 * number, which is a bijection, so that consecutive ids 0, 1, 2, ... spread evenly. */
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"

struct rf_id_slot {
	uint64_t id, count, first;
};

static struct rf_id_slot *find(struct rf_id_slot *slot, size_t size, uint64_t id)
{
	uint64_t h = id * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(h ^ h >> 32) & (size - 1);

	while (slot[i].count && slot[i].id != id)
		i = (i + 1) & (size - 1);
	return &slot[i];
}

static int grow(struct rf_ids *ids)
{
	size_t size = ids->size ? 2 * ids->size : 1024;
	struct rf_id_slot *slot = calloc(size, sizeof *slot);

	if (!slot)
		return -1;
	for (size_t i = 0; i < ids->size; i++)
		if (ids->slot[i].count)
			*find(slot, size, ids->slot[i].id) = ids->slot[i];
	free(ids->slot);
	ids->slot = slot;
	ids->size = size;
	return 0;
}

enum rf_code rf_ids_add(struct rf_ids *ids, uint64_t id, uint64_t *before, struct rf_err *e)
{
	struct rf_id_slot *s;

	if (ids->used >= ids->size / 2 && grow(ids))
		return rf_fail(e, RF_ENOMEM, "out of memory (%zu ids)", ids->used);
	s = find(ids->slot, ids->size, id);
	s->id = id;
	ids->used += !s->count;
	ids->total++;
	*before = s->count++;
	if (!*before)
		s->first = ids->total;
	return RF_OK;
}

uint64_t rf_ids_first(const struct rf_ids *ids, uint64_t id)
{
	return ids->size ? find(ids->slot, ids->size, id)->first : 0;
}

void rf_ids_free(struct rf_ids *ids)
{
	free(ids->slot);
	memset(ids, 0, sizeof *ids);
}
