/* work.h -- the memory in which sequences are computed: a tree (tree.h), and device memory of the stage's
 * own.
 *
 * It is laid out for the largest of each number of a shape so far, and shrinks only by rf_work_forget().  So
 * if a stream's largest record is known in advance, nothing is allocated after the first reservation.
 *
 * With --max-len, device memory is added up and allocated before the first record is read.  It is planned
 * for sequences of that length, with as many positions and rollouts as the stage's options or the stream's
 * history say, or else as in the paper of ReFINE (arXiv:2602.16704).  So it runs out at the start or never.
 * A longer record is refused when it is read.  Without --max-len, memory is planned for the first record (in
 * a trainer, for the first mini-batch), and again for a longer one. */
#ifndef RF_WORK_H
#define RF_WORK_H

#include "device/arena.h"
#include "engine/engine.h"
#include "model/tree.h"

/* Memory is planned for sequences of T tokens with c positions, and n rollouts of k tokens at each. */
struct rf_shape { int T, c, n, k; };
#define RF_SHAPE_PAPER { .c = 8, .n = 1, .k = 5 }

/* What a stage, or the stages that share the memory, need memory for. */
struct rf_use {
	void *stage;
	/* overwrites the numbers of a shape that the stage's own options determine */
	void (*decide)(const void *stage, struct rf_shape *shape);
	bool decides_all;            /* c, n and k of all shapes are those that `decide` sets */
	/* lays out the stage's own device memory for a shape */
	void (*place)(void *stage, const struct rf_shape *shape, struct rf_arena *a);
	/* what the tree is for: decode, apart, train and recompute; the shape gives the numbers */
	struct rf_plan tree;
	size_t per_weight;           /* bytes for each weight that the stage allocates itself */
};

struct rf_work {
	struct rf_engine *engine;
	struct rf_use use;
	struct rf_tree *tree;        /* NULL: nothing is reserved */
	struct rf_plan plan;         /* of the tree */
	struct rf_shape shape;       /* what all is laid out for */
	void *extra;                 /* the stage's own memory */
	size_t extra_bytes;
};

/* Begins without memory.  The engine plans for this use from now on (rf_engine_open(), rf_work_ahead(),
 * rf_work_memory()). */
void rf_work_init(struct rf_work *w, struct rf_engine *g, struct rf_use use);
/* Makes the memory large enough for a shape.  If it grows, its contents are lost. */
enum rf_code rf_work_reserve(struct rf_work *w, const struct rf_shape *shape, struct rf_err *e);
/* Prepares the device for decoding this number of rollouts side by side, of `steps` rows each; 0, 0: for
 * anything else.  Only the record at hand may decide it, because the bits depend on it.  A failure shows at
 * rf_dev_sync(). */
void rf_work_decodes(struct rf_work *w, int rollouts, int steps);
/* Frees the memory: what is reserved next does not have to hold what was reserved before. */
void rf_work_forget(struct rf_work *w);

/* Sets the numbers of *shape that a stream's history has, but for those that are unreasonably large.  Returns
 * whether it set any. */
bool rf_work_expect(const struct rf_head *h, struct rf_shape *shape);
/* With --max-len: allocates the memory that the engine's use needs for that length, before the first record.
 * Without: does nothing. */
enum rf_code rf_work_ahead(struct rf_engine *g, const struct rf_head *h, struct rf_err *e);

/* The parts of the device memory of a program, in bytes. */
struct rf_memory {
	size_t all;
	size_t weights;              /* with gradient, its exact sum, and moments, if it trains */
	size_t pass;                 /* tree and the stage's own */
	size_t device;               /* what the device takes for operations: struct rf_workspace */
};
/* Counts the memory that the engine's use needs for a shape, without allocating it on the device.  Errors:
 * RF_ENOMEM: it is more than can be counted. */
enum rf_code rf_work_memory(const struct rf_engine *g, struct rf_shape *shape, struct rf_memory *m,
                            struct rf_err *e);
/* Bytes of tree and own memory that rf_work_reserve() would make for this shape alone.  0: more than can be
 * counted, or out of memory. */
size_t rf_work_bytes(const struct rf_engine *g, const struct rf_use *use, const struct rf_shape *shape);

/* Returns the number of floating-point operations, in matrix products and mixers, that the engine's use takes
 * for one sequence of a shape with its rollouts.  0: out of memory. */
double rf_work_operations(const struct rf_engine *g, struct rf_shape *shape);

#endif
