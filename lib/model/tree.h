/* tree.h -- one sequence and the rollouts that branch off it, forward and backward: the shared prefix.
 *
 *     rows 0 .. T-1            the sequence
 *     position s, row p = s-1  a rollout at position s branches off row p: its row j sits at position s + j
 *
 *     x0 -- x1 -- x2 -- x3 -- x4 -- x5        T = 6, positions 2 and 5, n = 2, k = 3
 *           |                 |
 *           +- y0 y1 y2       +- y0 y1 y2
 *           +- y0 y1 y2       +- y0 y1 y2
 *
 * Only the mixers read earlier rows.  The sequence runs in segments.  State slots keep what the mixers read
 * of earlier rows: one slot for the start of each segment, and one for each position.  The backward pass
 * takes rollouts before the sequence, and later segments before earlier ones.  Each adds its gradient to the
 * slots from which it began.  So any number of rollouts costs one pass over the sequence.
 *
 * A sequence slides if every layer that reads rows has a window, there will be no backward pass, and the
 * sequence is longer than window and segment together.  Those layers then keep only the rows of the current
 * segment and, in whole chunks, the earlier rows that are inside the window.  The rollouts that branch off a
 * segment must run before the next segment does.  The rollouts of a sequence that does not slide run
 * together, after its last segment.
 *
 * With plan.apart each position has a sequence of its own, and its rollouts branch off the last row.  The
 * sequences run one after the other, and then the rollouts of all of them are decoded side by side.
 *
 * Order of calls:
 *     rf_tree_begin(); with plan.apart rf_tree_clear(), and for each sequence rf_tree_add()
 *     rf_tree_forward() for segments 0 .. segments-1; after each, if rf_tree_ready() has positions,
 *         rf_tree_branch() or rf_tree_decode_begin() and rf_tree_decode()
 *     or, for training, if the positions follow from the results: rf_tree_begin() without positions, and
 *         rf_tree_forward() for all segments; then rf_tree_branch_off(), and rf_tree_capture() for segments
 *         0 .. segments-1, with rollouts as above
 *     when training: rf_tree_backward_branch(); then rf_tree_backward() for segments segments-1 .. 0
 * Everything is queued on the device, and failures show at rf_dev_sync(). */
#ifndef RF_TREE_H
#define RF_TREE_H

#include "model/mixer.h"
#include "model/model.h"

/* A segment is a multiple of this many rows, so a mixer's chunks of RF_CHUNK rows are the same for any
 * segment. */
enum { RF_CHUNK = 64 };

/* Returns a number of rows, rounded up to whole chunks. */
static inline int rf_segment(int rows) { return (rows + RF_CHUNK - 1) / RF_CHUNK * RF_CHUNK; }

struct rf_plan {
	int max_len;    /* tokens of the longest sequence */
	int segment;    /* rows of a segment, before rf_segment() rounds them up */
	int positions;  /* most positions of a sequence */
	int n;          /* most rollouts at a position */
	int k;          /* most rows of a rollout */
	bool decode;    /* rollouts run token by token; when training, afterwards also in one pass */
	bool apart;     /* decode: each position has a sequence of its own */
	bool train;     /* there will be a backward pass */
	bool recompute; /* train: keep only the states at the starts of segments, and run each again */
};

/* The integers that kernels read of a pass, on the device. */
struct rf_pass_lists {
	rf_i32 all;               /* the lists below, which are adjacent */
	rf_i32 past_len;          /* (nb): rows of the sequence before rollout b, or before the segment */
	rf_i32 start;             /* (positions): slots of the states where they begin; a segment: one */
	rf_i32 open_rows;         /* (positions): rows of the open chunk (RF_CHUNK) before the first row of
	                                the pass; a segment: one 0 */
	rf_i32 cap_row, cap_slot; /* (captures): the state after row cap_row[i] of the pass is kept in slot
	                                cap_slot[i] */
	rf_i32 cache_len;         /* (nb): rows of the sequence that rollout b reads in the KV cache */
	rf_i32 cache_start;       /* (nb): the first of these rows, with plan.apart; else NULL */
};

/* The values between the mixers, in device memory.  Only h, mid and mlp are kept for the backward pass. */
struct rf_pass_values {
	rf_f32 *h;     /* (layers + 1): the residual stream before each layer and after all */
	rf_f32 *mid;   /* (layers): the residual stream between mixer and MLP */
	rf_f32 *mlp;   /* (layers): gate and up of the MLP (mlp_of() in tree_run.c) */
	rf_f32 x;      /* the input of a mixer or MLP */
	rf_f32 act;    /* the activation of an MLP */
	rf_f32 hidden; /* the hidden states after the final norm */
	rf_f32 dh, dx; /* gradients of the residual stream and of x */
};

/* Rows that are worked on together: a segment of the sequence (nb = 1), or the rollouts at some positions
 * (nb of them; row (j, b), step j of rollout b, is row j nb + b). */
struct rf_pass {
	struct rf_tree *tree;
	int max_nb, max_steps; /* the most rollouts and steps for which there is memory */
	bool branch;           /* the rows are those of rollouts */
	bool decode;           /* rollouts run token by token */
	bool train;            /* there will be a backward pass */

	/* the rows now */
	int nb, steps;       /* rollouts side by side, and new rows of each */
	int decoded;         /* rows of each rollout that ran before */
	int first_row;       /* a segment: its first row, counted in the sequence */
	int positions, n;    /* positions, and rollouts at each: rollout b is at position[b / n] */
	const int *position; /* (positions): indices of the positions in the sequence */
	const int *by_row;   /* (positions): indices into `position`, by ascending row */
	int captures;        /* number of states to keep */
	int cached;          /* the largest cache_len; a segment's own rows follow them */
	rf_i32 tokens;       /* (steps, nb) */
	struct rf_pass_lists list;
	/* the same lists on the host, for a mixer's decisions */
	struct {
		int *past_len, *start, *open_rows, *cap_row, *cap_slot, *cache_len, *cache_start;
	} host;
	int *bad_chunk; /* (nb): the chunk that rf_tree_found() noted; -1: none */

	struct rf_pass_values values;
	void **save; /* (layers), of the mixers' own types */
	void **work; /* (layers), likewise; layers share most of this memory */
};

/* Returns the number of rows for which a pass has memory. */
static inline size_t rf_pass_rows(const struct rf_pass *p)
{
	return (size_t)p->max_nb * (size_t)p->max_steps;
}

struct rf_tree {
	/* fixed by the plan */
	struct rf_model *model;
	struct rf_plan plan;
	int segments_max; /* segments of the longest sequence */
	/* slots for segments' starts, and in total: position i has slot sequence_slots + i.  Slot 0, where
	   the first segment starts, stays zero; without a backward pass the others share slot 1. */
	int sequence_slots, slots;
	void **state;             /* (layers), of the mixers' own types */
	int **index;              /* (layers): integers of the mixers (mixer.h, index_size); or NULL */
	struct rf_pass *sequence; /* (passes): one per segment if all are kept, else one */
	int passes;
	struct rf_pass branch, draw; /* rollouts in one pass, and token by token */
	struct {
		void *base;
		size_t bytes, state_bytes;
	} memory; /* the states come first */

	/* the rows of the sequence that mixers keep if they read rows (kv_cache.h) */
	struct {
		int before_max; /* most rows before a segment that its rows may read */
		int rows_max;   /* most rows that are kept, including the segment's own */
		int stride;     /* plan.apart: rows from the cache of one sequence to that of the next:
		                        whole chunks, so blocks of keys are the same in each; else 0 */
		bool transient; /* rows are kept only while their layer runs, because the plan has no
		                        rollouts that read them; rows that later segments need are copied */
	} cache;

	/* the sequence */
	int T, segments, positions;
	rf_i32 tokens;      /* (max_len) */
	bool slides;        /* only some of its rows are kept; always with cache.transient */
	int held_segment;   /* passes = 1: the segment whose activations are in memory; -1: none */
	int first_position; /* the first position of the sequence that runs; 0 unless plan.apart */
	struct {
		int *row;     /* (positions): row p = s - 1 of each position */
		int *by_row;  /* (positions): the positions by ascending row */
		int *numbers; /* (positions): 0, 1, ... */
		int *dropped; /* (positions): rows of its sequence that the cache no longer has when
		                        its rollouts run */
	} position;
	/* the positions whose rollouts can run now: how many, which, and the indices into these by ascending
	   row */
	struct {
		int n;
		const int *position, *by_row;
	} ready;
	struct rf_pass *rollouts; /* branch or draw: the one that ran last; NULL: none */

	/* rf_tree_blame(): whether it is checking, and where the first number is that is not finite.  layer
	   -1: nowhere; rollout -1: in the sequence; chunk -1: the mixer noted none */
	struct {
		bool on;
		int layer, rollout, row, chunk;
	} blame;
};

/* Returns the bytes of device memory that a tree of this plan takes; 0: the plan is too large to count, or
 * out of memory. */
size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan);
/* Makes a tree with memory for this plan.  Errors: RF_ENOMEM, or the failure of the device. */
enum rf_code rf_tree_new(struct rf_tree **t, struct rf_model *m, const struct rf_plan *plan,
                         struct rf_err *e);
void rf_tree_free(struct rf_tree *t);

/* Begins a sequence of T tokens, and sets t->segments.  The rollouts at position i branch off row[i], in
 * [0, T). */
void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int positions);
/* plan.apart: rf_tree_clear() forgets all sequences.  rf_tree_add() begins the next sequence, of T tokens;
 * its position is the last row.  Run all its segments before the next rf_tree_add(). */
void rf_tree_clear(struct rf_tree *t);
void rf_tree_add(struct rf_tree *t, const int32_t *tokens, int T);
/* Return the first row of segment i, and the number of its rows. */
int rf_tree_first(const struct rf_tree *t, int i);
int rf_tree_rows(const struct rf_tree *t, int i);
/* Runs segment i.  Returns its hidden states after the final norm, (rows, d), valid until the next call. */
rf_f32 rf_tree_forward(struct rf_tree *t, int i);
/* Returns the number of positions whose rollouts can run now, and must run before the next segment.
 * *position (NULL: not wanted) lists them; it is valid until the next rf_tree_forward() or
 * rf_tree_capture(). If the sequence slides, and not plan.apart, these are the positions in each segment, by
 * ascending row.  Otherwise they are all positions, after the last segment, in the order of rf_tree_begin()
 * or rf_tree_add(). */
int rf_tree_ready(const struct rf_tree *t, const int **position);
/* Runs all rollouts at the positions that are ready: n at each position, of `steps` rows.  tokens: (steps,
 * positions, n).  Returns the hidden states (steps, positions, n, d). */
rf_f32 rf_tree_branch(struct rf_tree *t, int n, int steps, const int32_t *tokens);
/* Run the rollouts token by token: call rf_tree_decode_begin() once, then rf_tree_decode() for each step,
 * with tokens (positions, n) on the device.  rf_tree_decode() returns the hidden states of the new rows,
 * (positions, n, d). */
void rf_tree_decode_begin(struct rf_tree *t, int n);
rf_f32 rf_tree_decode(struct rf_tree *t, rf_i32 tokens);

/* Finds the first layer whose output is not finite, after a pass with results that are not finite.  Runs the
 * sequence and its rollouts again, and writes the layer and the place to why: "layer 3 overflows at position
 * 4096 (chunk 2 of its fast weights)", or "layer 3 overflows in rollout 5 at position 4096".  The mixer adds
 * the text in brackets (mixer.h, describe_overflow).  Rollouts are counted in the order (positions, n).
 *
 * tokens: the tokens of the rollouts on the device: one block (steps, positions, n) for each group of
 * positions that were ready together, in order.  NULL: the tokens of the only rf_tree_branch() call, or no
 * rollouts.
 *
 * Returns false if the output of every layer is finite; then the head overflows.  The contents of the tree
 * are lost.  With plan.apart there must be only one sequence. */
bool rf_tree_blame(struct rf_tree *t, rf_i32 tokens, char why[100]);
/* Checks a state during rf_tree_blame(), and notes the first chunk whose state is not finite.  A mixer calls
 * it when it has computed the state x (n numbers) from a chunk of the rows of rollout b, or of the segment
 * (b = 0).  chunk: the number by which the mixer knows the chunk. */
void rf_tree_found(struct rf_pass *p, int b, int chunk, rf_f32 x, size_t n);

/* For training, after all segments of a sequence that does not slide have run. */

/* Chooses the positions: rollouts branch off these rows, as if rf_tree_begin() had been called with them. */
void rf_tree_branch_off(struct rf_tree *t, const int *row, int positions);
/* Keeps the states at the positions in segment i, and returns the hidden states of the segment, as
 * rf_tree_forward() does.  With plan.recompute, or if its activations are not in memory, the segment runs
 * again from the state at its start. */
rf_f32 rf_tree_capture(struct rf_tree *t, int i);

/* Runs the backward pass of the rollouts of rf_tree_branch().  dhidden: the gradient of the hidden states
 * that it returned; its contents may be lost.  Adds the gradients of the weights to those of the model. */
void rf_tree_backward_branch(struct rf_tree *t, rf_f32 dhidden);
/* Runs the backward pass of segment i, with dhidden as above.  If its activations are not in memory, the
 * segment first runs again from the state at its start. */
void rf_tree_backward(struct rf_tree *t, int i, rf_f32 dhidden);

#endif
