/* work.h -- the memory in which sequences are computed: a tree (tree.h), and device memory of the stage.
 *
 * The memory is laid out for the largest number of each kind in all shapes so far, and only rf_work_forget()
 * makes it smaller.  So if the largest record of a stream is known in advance, nothing is allocated after the
 * first reservation.
 *
 * With --max-len, device memory is counted and allocated before the first record is read.  It is planned for
 * sequences of that length.  The numbers of positions and rollouts come from the options of the stage or from
 * the history of the stream, or else from the paper of ReFINE (arXiv:2602.16704).  So memory runs out at the
 * start or never.  A longer record is refused when it is read.  Without --max-len, memory is planned for the
 * first record (in a trainer, for the first mini-batch), and again for a longer record. */
#ifndef RF_WORK_H
#define RF_WORK_H

#include "device/arena.h"
#include "engine/engine.h"
#include "model/tree.h"

/* The numbers that memory depends on: sequences of T tokens with c positions, and n rollouts of k tokens at
 * each position. */
/* clang-format off */
struct rf_shape { int T, c, n, k; };
#define RF_SHAPE_PAPER { .c = 8, .n = 1, .k = 5 }
/* clang-format on */

/* How a stage uses memory, or several stages that share it.  The plan of a tree has the flags of `tree` and
 * the numbers of a shape. */
struct rf_use {
	void *stage;
	/* sets the numbers of a shape that the stage's options determine */
	void (*decide)(const void *stage, struct rf_shape *shape);
	bool decides_all; /* whether `decide` sets c, n and k of every shape */
	/* lays out the device memory of the stage for a shape */
	void (*place)(void *stage, const struct rf_shape *shape, struct rf_arena *a);
	struct rf_plan tree; /* its flags: decode, apart, train, recompute */
	size_t per_weight;   /* bytes that the stage allocates itself for each weight */
};

struct rf_work {
	struct rf_engine *engine;
	struct rf_use use;
	struct rf_tree *tree;  /* NULL: nothing is reserved */
	struct rf_plan plan;   /* the plan of the tree */
	struct rf_shape shape; /* the shape that the memory is laid out for */
	void *extra;           /* device memory of the stage */
	size_t extra_bytes;
};

/* Initialises w without memory.  The engine plans for this use from now on (rf_engine_open(),
 * rf_work_ahead(), rf_work_memory()). */
void rf_work_init(struct rf_work *w, struct rf_engine *g, struct rf_use use);
/* Makes the memory large enough for a shape.  If it grows, its contents are lost. */
enum rf_code rf_work_reserve(struct rf_work *w, const struct rf_shape *shape, struct rf_err *e);
/* Prepares the device for decoding this number of rollouts together, with `steps` rows each; 0, 0: for other
 * work.  The numbers must depend only on the current record, because the bits depend on them.  rf_dev_sync()
 * reports a failure. */
void rf_work_decodes(struct rf_work *w, int rollouts, int steps);
/* Frees the memory, and forgets the shapes that were reserved. */
void rf_work_forget(struct rf_work *w);

/* Sets the numbers of *shape that the history of a stream has, unless they are unreasonably large.  Returns
 * whether it set any. */
bool rf_work_expect(const struct rf_head *h, struct rf_shape *shape);
/* With --max-len, allocates the memory that the engine's use needs for that length, before the first record.
 * Without --max-len, does nothing. */
enum rf_code rf_work_ahead(struct rf_engine *g, const struct rf_head *h, struct rf_err *e);

/* The parts of the device memory of a program, in bytes. */
struct rf_memory {
	size_t all;
	size_t weights; /* in training with the gradient, its exact sum and the moments */
	size_t pass;    /* the tree and the device memory of the stage */
	size_t device;  /* the workspace of operations: struct rf_workspace */
};
/* Counts the memory that the engine's use needs for a shape, without allocating it.  Errors: RF_ENOMEM: the
 * memory is more than can be counted. */
enum rf_code rf_work_memory(const struct rf_engine *g, struct rf_shape *shape, struct rf_memory *m,
                            struct rf_err *e);
/* Returns the bytes that rf_work_reserve() would allocate for this shape only.  0: more than can be counted,
 * or out of memory. */
size_t rf_work_bytes(const struct rf_engine *g, const struct rf_use *use, const struct rf_shape *shape);

/* Returns the number of floating-point operations, in matrix products and mixers, that the engine's use takes
 * for one sequence of a shape with its rollouts.  0: out of memory. */
double rf_work_operations(const struct rf_engine *g, struct rf_shape *shape);

#endif
