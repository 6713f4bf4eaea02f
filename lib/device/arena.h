/* arena.h -- device memory that is laid out once.
 *
 * Each function hands out the next piece.  Without a base an arena only counts, so one layout function both
 * plans (arena.used is then the size) and places. */
#ifndef RF_ARENA_H
#define RF_ARENA_H

#include "device/dev.h"

struct rf_arena { char *base; size_t used; };

/* n numbers, at a multiple of 64 bytes; NULL where there is no base. */
rf_f32 rf_arena_f32(struct rf_arena *a, size_t n);
rf_i32 rf_arena_i32(struct rf_arena *a, size_t n);
rf_f64 rf_arena_f64(struct rf_arena *a, size_t n);

#endif
