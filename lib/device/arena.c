/* arena.c -- hands out consecutive pieces of one block of device memory. */
#include "device/arena.h"

enum { ALIGN = 64 };

static void *next_piece(struct rf_arena *a, size_t n, size_t size)
{
	char *p = a->base ? a->base + a->used : NULL;

	a->used += (n * size + ALIGN - 1) / ALIGN * ALIGN;
	return p;
}

rf_f32 rf_arena_f32(struct rf_arena *a, size_t n) { return next_piece(a, n, 4); }
rf_i32 rf_arena_i32(struct rf_arena *a, size_t n) { return next_piece(a, n, 4); }
rf_f64 rf_arena_f64(struct rf_arena *a, size_t n) { return next_piece(a, n, 8); }
