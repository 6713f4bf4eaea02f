/* arena.h -- device memory that is laid out once.
 *
 * Each function hands out the next piece.  Without a base an arena only counts: a layout function that runs
 * without a base computes the size (arena.used), and the same function with a base places the pieces. */
#ifndef RF_ARENA_H
#define RF_ARENA_H

#include "device/dev.h"

struct rf_arena {
	char *base;
	size_t used;
};

/* Returns memory for n numbers, at a multiple of 64 bytes; NULL if the arena has no base. */
rf_f32 rf_arena_f32(struct rf_arena *a, size_t n);
rf_i32 rf_arena_i32(struct rf_arena *a, size_t n);
rf_f64 rf_arena_f64(struct rf_arena *a, size_t n);

#endif
