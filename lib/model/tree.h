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
 * Only the mixers read earlier rows.  The sequence is run in segments.  What later rows may read of earlier
 * ones is kept in state slots: one for the start of each segment, and one for each position.  The backward
 * pass takes rollouts before the sequence, and later segments before earlier ones.  Each adds its gradient to
 * the slots from which it began.  So any number of rollouts costs one pass over the sequence.
 *
 * A sequence slides if every layer that reads rows has a window, there will be no backward pass, and the
 * sequence is longer than window and segment together.  Those layers then keep only the rows of the current
 * segment and, in whole chunks, the earlier rows that are inside the window.  The rollouts that branch off a
 * segment must run before the next segment does.  The rollouts of a sequence that does not slide run
 * together, after its last segment.
 *
 * With `apart` each position has a sequence of its own and is its last row: sequences are run one after the
 * other, and then what follows each of them is decoded side by side.
 *
 * Order of calls:
 *     rf_tree_begin(); with `apart` rf_tree_clear(), and for each sequence rf_tree_add()
 *     rf_tree_forward() for segments 0 .. segments-1; after each, if rf_tree_ready() has positions,
 *         rf_tree_branch() or rf_tree_decode_begin() and rf_tree_decode()
 *     or, when training, where positions are chosen by what the pass gave: rf_tree_begin() without positions
 *         and rf_tree_forward(); then rf_tree_branch_off(), and rf_tree_capture() for segments 0 ..
 *         segments-1, in the place of rf_tree_forward()
 *     when training: rf_tree_backward_branch(); then rf_tree_backward() for segments segments-1 .. 0
 * Everything is queued on the device, and failures show at rf_dev_sync(). */
#ifndef RF_TREE_H
#define RF_TREE_H

#include "model/mixer.h"
#include "model/model.h"

/* A segment is a multiple of this many rows, so a mixer's chunks of RF_CHUNK rows are the same for any
 * segment. */
enum { RF_CHUNK = 64 };

/* The rows of a segment when `rows` are asked for: rounded up to whole chunks. */
static inline int rf_segment(int rows) { return (rows + RF_CHUNK - 1) / RF_CHUNK * RF_CHUNK; }

struct rf_plan {
	int max_len;          /* tokens of the longest sequence */
	int segment;          /* rows of a segment, before rf_segment() rounds them up */
	int positions;        /* most positions of a sequence */
	int n;                /* most rollouts at a position */
	int k;                /* most rows of a rollout */
	bool decode;          /* rollouts are run token by token; and when training, then all at once */
	bool apart;           /* decode: each position has a sequence of its own */
	bool train;           /* there will be a backward pass */
	bool recompute;       /* train: keep only the states at the segments' starts, and run each again */
};

/* The integers that kernels read of a pass, on the device. */
struct rf_pass_lists {
	rf_i32 all;                  /* the lists below, which are adjacent */
	rf_i32 past_len;             /* (nb): rows of the sequence before rollout b, or before the segment */
	rf_i32 start;                /* (positions): slots of the states where they begin; a segment: one */
	rf_i32 open_rows;            /* (positions): rows of the open chunk (RF_CHUNK) before the first row of
	                                the pass; a segment: one 0 */
	rf_i32 cap_row, cap_slot;    /* (captures): the state after row cap_row[i] of the pass is kept in slot
	                                cap_slot[i] */
	rf_i32 cache_len;            /* (nb): rows of the sequence that rollout b reads in the KV cache */
	rf_i32 cache_start;          /* (nb): the first of these rows, with plan.apart; else NULL */
};

/* The values between the mixers, in device memory.  Only h, mid and mlp are kept for the backward pass. */
struct rf_pass_values {
	rf_f32 *h;                   /* (layers + 1): the residual stream before each layer, after the last */
	rf_f32 *mid;                 /* (layers): the residual stream between mixer and MLP */
	rf_f32 *mlp;                 /* (layers): gate and up of the MLP (mlp_of() in tree_run.c) */
	rf_f32 x;                    /* the input of a mixer or MLP */
	rf_f32 act;                  /* the activation of an MLP */
	rf_f32 hidden;               /* the hidden states after the final norm */
	rf_f32 dh, dx;               /* gradients of the residual stream and of x */
};

/* Rows that are worked on together: a segment of the sequence (nb = 1), or the rollouts at some positions
 * (nb of them; row (j, b), step j of rollout b, is row j nb + b). */
struct rf_pass {
	struct rf_tree *tree;
	int max_nb, max_steps;       /* the most rollouts and steps for which there is memory */
	bool branch;                 /* the rows are those of rollouts */
	bool decode;                 /* rollouts run token by token */
	bool train;                  /* there will be a backward pass */

	/* the rows now */
	int nb, steps;               /* rollouts side by side, and new rows of each */
	int decoded;                 /* rows of each rollout that ran before */
	int first_row;               /* a segment: its first row, counted in the sequence */
	int positions, n;            /* positions, and rollouts at each: rollout b is at position[b / n] */
	const int *position;         /* (positions): indices of the positions in the sequence */
	const int *by_row;           /* (positions): indices into `position`, by ascending row */
	int captures;                /* number of states to keep */
	int cached;                  /* the largest cache_len; a segment's own rows follow them */
	rf_i32 tokens;               /* (steps, nb) */
	struct rf_pass_lists list;
	/* the same lists on the host, for a mixer's decisions */
	struct { int *past_len, *start, *open_rows, *cap_row, *cap_slot, *cache_len, *cache_start; } host;
	int *bad_chunk;              /* (nb): the chunk that rf_tree_found() noted; -1: none */

	struct rf_pass_values values;
	void **save;                 /* (layers), of the mixers' own types */
	void **work;                 /* (layers), likewise; layers share most of this memory */
};

/* The number of rows that a pass's memory is laid out for. */
static inline size_t rf_pass_rows(const struct rf_pass *p)
{
	return (size_t)p->max_nb * (size_t)p->max_steps;
}

struct rf_tree {
	/* fixed by the plan */
	struct rf_model *model;
	struct rf_plan plan;
	int segments_max;
	/* slots for segments' starts, and in total: position i has slot sequence_slots + i.  Slot 0, where
	   the first segment starts, stays zero; without a backward pass the others share slot 1. */
	int sequence_slots, slots;
	void **state;                /* (layers), of the mixers' own types */
	int **index;                 /* (layers): what a mixer's index_size() asks for (mixer.h); else NULL */
	struct rf_pass *sequence;    /* (passes): one per segment if all are kept, else one */
	int passes;
	struct rf_pass branch, draw; /* rollouts in one go, and token by token */
	struct { void *base; size_t bytes, state_bytes; } memory; /* the states come first */

	/* the rows of the sequence that mixers keep which read rows (kv_cache.h) */
	struct {
		int before_max;      /* most rows before a segment that its rows may read */
		int rows_max;        /* most rows that are kept, including the segment's own */
		int stride;          /* plan.apart: rows from the cache of one sequence to that of the next:
		                        whole chunks, so blocks of keys are the same in each; else 0 */
		bool transient;      /* rows are kept only while their layer runs, because the plan has no
		                        rollouts that read them; rows that later segments need are copied */
	} cache;

	/* the sequence */
	int T, segments, positions;
	rf_i32 tokens;               /* (max_len) */
	bool slides;                 /* only some of its rows are kept; always with cache.transient */
	int held_segment;            /* passes = 1: the segment whose activations are in memory; -1: none */
	int first_position;          /* the first position of the sequence that runs; 0 unless plan.apart */
	struct {
		int *row;            /* (positions): row p = s - 1 of each position */
		int *by_row;         /* (positions): the positions by ascending row */
		int *numbers;        /* (positions): 0, 1, ... */
		int *dropped;        /* (positions): rows of its sequence that the cache no longer has when
		                        its rollouts run */
	} position;
	/* the positions whose rollouts can run now: how many, which, and the indices into these by ascending
	   row */
	struct { int n; const int *position, *by_row; } ready;
	struct rf_pass *rollouts;    /* branch or draw: the one that ran last; NULL: none */

	/* rf_tree_blame(): whether it is checking, and where the first number is that is not finite.  layer
	   -1: nowhere; rollout -1: in the sequence; chunk -1: the mixer noted none */
	struct { bool on; int layer, rollout, row, chunk; } blame;
};

/* Bytes of device memory that a tree of this plan takes.  0: the plan is too large to count, or out of
 * memory. */
size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan);
enum rf_code rf_tree_new(struct rf_tree **t, struct rf_model *m, const struct rf_plan *plan,
                         struct rf_err *e);
void rf_tree_free(struct rf_tree *t);

/* Begins a sequence of T tokens.  row[i] in [0, T) is the row off which the rollouts at position i branch.
 * t->segments is then its number of segments. */
void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int positions);
/* Where positions are apart: rf_tree_clear() forgets all sequences; rf_tree_add() begins the next one, of T
 * tokens, whose last row is its position.  All its segments must be run before the next is added. */
void rf_tree_clear(struct rf_tree *t);
void rf_tree_add(struct rf_tree *t, const int32_t *tokens, int T);
/* Segment i consists of rows first .. first+rows-1. */
int rf_tree_first(const struct rf_tree *t, int i);
int rf_tree_rows(const struct rf_tree *t, int i);
/* Runs segment i.  Returns its hidden states after the final norm, (rows, d), valid until the next call. */
rf_f32 rf_tree_forward(struct rf_tree *t, int i);
/* Returns the number of positions whose rollouts can run now, and must run before the next segment.
 * *position (NULL: not wanted) lists them; it is valid until the next rf_tree_forward() or rf_tree_capture().
 * After the last segment of a sequence that does not slide, and of each where positions are apart, these are
 * all positions, in the order of rf_tree_begin() or rf_tree_add().  After each segment of another sequence
 * that slides they are the segment's positions, by ascending row. */
int rf_tree_ready(const struct rf_tree *t, const int **position);
/* Runs all rollouts at the positions that are ready: n at each, `steps` rows each.  tokens: (steps,
 * positions, n).  Returns their hidden states (steps, positions, n, d). */
rf_f32 rf_tree_branch(struct rf_tree *t, int n, int steps, const int32_t *tokens);
/* The same token by token: call decode_begin once, then decode for each step with tokens on the device,
 * (positions, n).  decode returns the hidden states of the new rows, (positions, n, d). */
void rf_tree_decode_begin(struct rf_tree *t, int n);
rf_f32 rf_tree_decode(struct rf_tree *t, rf_i32 tokens);

/* Call it after a pass whose results are not finite.  It runs the sequence and its rollouts again as before,
 * and writes to why which layer's output is the first that is not finite, and where: "layer 3 overflows at
 * position 4096 (chunk 2 of its fast weights)", or "layer 3 overflows in rollout 5 at position 4096".  The
 * text in brackets is the mixer's (mixer.h, describe_overflow); rollouts are counted in the order (positions,
 * n).
 * tokens: those of the rollouts on the device: one block (steps, positions, n) for each group of positions
 * that were ready at once, in order.  NULL: those of the only rf_tree_branch() call, or no rollouts were run.
 * Returns false if every layer's output is finite, so that the head's is not.  What the tree held is lost.
 * Of sequences that are apart there must be only one. */
bool rf_tree_blame(struct rf_tree *t, rf_i32 tokens, char why[100]);
/* A mixer calls it when it has computed the state x (n numbers) of rollout b, or of the segment (b = 0), from
 * a chunk of the rows; `chunk` is the mixer's number for it.  During rf_tree_blame(), x is checked, and the
 * first chunk whose x is not finite is noted. */
void rf_tree_found(struct rf_pass *p, int b, int chunk, rf_f32 x, size_t n);

/* Training, of a sequence that does not slide.  rf_tree_branch_off(): rollouts branch off these rows of the
 * sequence that was run, as if rf_tree_begin() had said so.  rf_tree_capture(): keeps the states at the
 * positions in segment i, and returns the segment's hidden states, as if rf_tree_forward() were called: from
 * what its pass has kept, or else it runs the segment again from the state at its start. */
void rf_tree_branch_off(struct rf_tree *t, const int *row, int positions);
rf_f32 rf_tree_capture(struct rf_tree *t, int i);

/* Training.  dhidden is the gradient of the hidden states that were returned; its contents may be lost.  The
 * weights' gradients are added to the model's. */
void rf_tree_backward_branch(struct rf_tree *t, rf_f32 dhidden);
/* If the segment's activations were not kept, it is run again from the state at its start. */
void rf_tree_backward(struct rf_tree *t, int i, rf_f32 dhidden);

#endif
