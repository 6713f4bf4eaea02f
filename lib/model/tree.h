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
 * Only the mixers know of earlier rows.  The sequence is run in segments, and what later rows may read of
 * earlier ones is kept in state slots: one for the start of each segment, and one for every position.  The
 * backward pass takes rollouts before the sequence, and later segments before earlier ones; each adds its
 * gradient to the slots that it began from.  So any number of rollouts costs one pass over the sequence.
 *
 * A sequence slides where all layers that read rows have a window, there will be no backward pass, and the
 * sequence is longer than window and segment.  Then those layers keep the rows of the segment and, in whole
 * chunks, the rows before it that the window holds, and no others; rollouts that branch off a segment run
 * before the next segment does.  The rollouts of any other sequence run together, after its last segment.
 *
 * Order of calls: begin; forward 0 .. segments-1, and after each, where rf_tree_ready() has positions, branch
 * or decode; for training then backward_branch, and backward segments-1 .. 0.  Everything is queued on the
 * device; failures show at rf_dev_sync(). */
#ifndef RF_TREE_H
#define RF_TREE_H

#include "model/mixer.h"
#include "model/model.h"

/* Segments are whole multiples of it, so that a mixer's chunks of this many rows never depend on them. */
enum { RF_CHUNK = 64 };

/* How many rows a segment has where so many are asked for. */
static inline int rf_segment(int rows) { return (rows + RF_CHUNK - 1) / RF_CHUNK * RF_CHUNK; }

struct rf_plan {
	int max_len;          /* tokens of the longest sequence */
	int segment;          /* rows of a segment, of which rf_segment() are taken */
	int positions;        /* most positions of a sequence */
	int n;                /* most rollouts at a position */
	int k;                /* most rows of a rollout */
	bool decode;          /* rollouts are run token by token */
	bool train;           /* there will be a backward pass */
	bool recompute;       /* train: keep only the states at the segments' starts, and run each again */
};

/* Rows that are worked on together: a segment of the sequence (nb = 1), or the rollouts at some positions
 * (nb of them; row (j, b), step j of rollout b, is row j nb + b). */
struct rf_pass {
	struct rf_tree *tree;
	int max_nb, max_steps;       /* what memory is laid out for */
	bool branch, decode, train;  /* branch: these are rollouts */
	int nb, steps;               /* now: rollouts side by side, and rows of each that are new */
	int decoded;                 /* rows of each that were run before */
	int n;                       /* rollouts at each position: rollout b is one of position[b / n] */
	int positions;               /* at how many positions; of a segment none */
	const int *position;         /* (positions): which they are, */
	const int *by_row;           /* and their places in that list by row */
	int pos;                     /* of a segment: position of its first row */
	rf_i32 tokens;               /* (nb steps) */
	rf_i32 past_len;             /* (nb): how many rows of the sequence come before */
	rf_i32 start;                /* (positions): the slots that they begin from; of a segment one */
	rf_i32 open_rows;            /* (positions): rows of the chunk that is open there; of a segment 0 */
	/* states to keep: after row cap_row[i] of the pass, in slot cap_slot[i] */
	int captures;
	rf_i32 cap_row, cap_slot;
	int cached;                  /* most rows of the sequence that any of them finds in the KV cache,
	                                behind which a segment's own rows lie */
	rf_i32 cache_len;            /* (nb): how many each of them finds */
	/* the same, for a mixer's decisions */
	struct { int *past_len, *start, *open_rows, *cap_row, *cap_slot, *cache_len; } host;
	int *bad_part;               /* (nb): rf_tree_found() */
	rf_f32 *h, *mid;             /* (layers + 1), (layers): the residual stream before and inside each */
	rf_f32 *gate, *up;           /* (layers) */
	void **save;                 /* (layers), of the mixers' own types */
	void **work;                 /* (layers), mostly the same memory */
	rf_f32 x, act, hidden, dh, dx;
};

/* Rows that its memory is laid out for. */
static inline size_t rf_pass_rows(const struct rf_pass *p)
{
	return (size_t)p->max_nb * (size_t)p->max_steps;
}

struct rf_tree {
	struct rf_model *model;
	struct rf_plan plan;
	int segments_max;
	int sequence_slots, slots;   /* slots of segments' starts (one in all without a backward pass), and
	                                all: position i has slot sequence_slots + i */
	void **state;                /* (layers), of the mixers' own types */
	struct rf_pass *sequence;    /* (passes): one per segment that is kept, else one */
	int passes;
	struct rf_pass branch;
	void *memory;
	size_t bytes, state_bytes;   /* of it all states, which lie first */
	/* of layers that read rows: rows before a segment that they may read, and most that are kept, with
	   the segment's own */
	int before_max, kept_max;
	/* KV rows live only while their layer is run: no rollout reads them, and those that later segments
	   read are copied out */
	bool passing;
	/* the sequence */
	int T, segments, positions;
	/* not all of its rows are kept; passing: treated so whatever its length */
	bool slides;
	int held;                    /* the segment whose forward pass is in memory, where only one is; -1 */
	/* (positions): row p = s - 1 of each; all in the order of their rows; and as they come: 0, 1, ... */
	int *position_row, *order, *all;
	rf_i32 tokens;               /* (max_len) */
	bool watch;                  /* look at every layer's output: rf_tree_blame() */
	/* where the first number that is not finite was seen: layer -1: nowhere; rollout -1: in the
	   sequence; part -1: the mixer noted none */
	struct { int layer, rollout, row, part; } bad;
};

/* Device bytes that a tree of this plan takes. */
size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan);
enum rf_code rf_tree_new(struct rf_tree **t, struct rf_model *m, const struct rf_plan *plan,
                         struct rf_err *e);
void rf_tree_free(struct rf_tree *t);

/* A new sequence of T tokens; row[i] in [0, T) is the row that the rollouts at position i branch off.
 * t->segments then says how many segments it has. */
void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int positions);
/* Rows first .. first+rows-1 of segment i. */
int rf_tree_first(const struct rf_tree *t, int i);
int rf_tree_rows(const struct rf_tree *t, int i);
/* Runs segment i; returns its hidden states after the final norm, (rows, d), valid until the next call. */
rf_f32 rf_tree_forward(struct rf_tree *t, int i);
/* The number of positions whose rollouts can be run now, and must be before the next segment; *position
 * (NULL: not wanted) lists them, until the next rf_tree_forward() or rf_tree_again().  These are all
 * positions after the last segment, in the order of rf_tree_begin(); where a sequence slides, those of each
 * segment after it, in the order of their rows. */
int rf_tree_ready(const struct rf_tree *t, const int **position);
/* All rollouts at the positions that are ready: n at each, `steps` rows each; tokens (steps, positions, n) in
 * this order.  Returns hidden states (steps, positions, n, d). */
rf_f32 rf_tree_branch(struct rf_tree *t, int n, int steps, const int32_t *tokens);
/* The same token by token: decode_begin, then decode for each step with the device's tokens (positions, n),
 * which returns the new rows' hidden states (positions, n, d). */
void rf_tree_decode_begin(struct rf_tree *t, int n);
rf_f32 rf_tree_decode(struct rf_tree *t, rf_i32 tokens);

/* After a pass whose results are not finite: runs sequence and rollouts again as they were run, and says
 * which layer's output is the first that is not, and where: "layer 3 overflows at position 4096 (chunk 2 of
 * its fast weights)", or "layer 3 overflows in rollout 5 at position 4096", rollouts being counted as
 * (positions, n).  What is in brackets is the mixer's (mixer.h, describe_overflow).  False: every layer's
 * output is finite, so it is the head's that is not.  tokens: the rollouts', (steps, positions, n) for the
 * positions that were ready at once, one after the other; NULL: those of the one rf_tree_branch(), or there
 * are none.  What the tree held is lost. */
bool rf_tree_blame(struct rf_tree *t, rf_i32 tokens, char why[100]);
/* For a mixer: it has made the state x (n) of rollout (or segment) b from a part of its rows that it counts,
 * such as a chunk.  While a cause is looked for, x is looked at. */
void rf_tree_found(struct rf_pass *p, int b, int part, rf_f32 x, size_t n);

/* Training.  dhidden is overwritten.  Weights' gradients are added to the model's. */
void rf_tree_backward_branch(struct rf_tree *t, rf_f32 dhidden);
/* Where only the states at the segments' starts were kept: runs segment i again, and returns its hidden
 * states. */
rf_f32 rf_tree_again(struct rf_tree *t, int i);
void rf_tree_backward(struct rf_tree *t, int i, rf_f32 dhidden);

#endif
