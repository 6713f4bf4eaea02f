/* region.c -- a list of blocks, each as large as all earlier ones together.  rf_region_clear() keeps the
 * largest, so after a few rounds of equal work a region needs only one block. */
#include <stdint.h>
#include <stdlib.h>

#include "base/region.h"

struct rf_region_block {
	struct rf_region_block *next;
	size_t size, used;
	unsigned char *data; /* 64-byte aligned, after this struct */
};

void *rf_region_alloc(struct rf_region *p, size_t count, size_t piece)
{
	struct rf_region_block *b = p->newest;
	size_t size = 64 << 10, n;

	if (__builtin_mul_overflow(count, piece, &n) || n > SIZE_MAX / 4)
		return NULL;
	n = n ? (n + 63) & ~(size_t)63 : 64;
	if (!b || b->size - b->used < n) {
		if (b && size < 2 * b->size)
			size = 2 * b->size;
		if (size < n)
			size = n;
		if (!(b = malloc(sizeof *b + 64 + size)))
			return NULL;
		*b = (struct rf_region_block){
			p->newest, size, 0, (unsigned char *)(((uintptr_t)(b + 1) + 63) & ~(uintptr_t)63)
		};
		p->newest = b;
	}
	b->used += n;
	return b->data + b->used - n;
}

size_t rf_region_used(const struct rf_region *p)
{
	size_t bytes = 0;

	for (const struct rf_region_block *b = p->newest; b; b = b->next)
		bytes += b->used;
	return bytes;
}

void rf_region_clear(struct rf_region *p)
{
	struct rf_region_block *b = p->newest;

	/* the newest block is the largest */
	while (b && b->next) {
		struct rf_region_block *old = b->next;
		b->next = old->next;
		free(old);
	}
	if (b)
		b->used = 0;
}

void rf_region_free(struct rf_region *p)
{
	rf_region_clear(p);
	free(p->newest);
	p->newest = NULL;
}
