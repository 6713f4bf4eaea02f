/* tree.h -- one sequence and the rollouts that hang below its rows, forward and backward: the shared prefix.
 *
 *     rows 0 .. T-1: the text.  A rollout that starts at s hangs below row s-1;
 *     its row j sits at position s+j.
 *
 * Only the mixers know of earlier rows.  The text goes through in segments; what later rows may read of
 * earlier ones is kept in state slots: one for the start of each segment, one for every row below which
 * rollouts hang.  Going back, rollouts come before the text and later segments before earlier ones; each adds
 * its gradient to the slots it began from.  So any number of rollouts costs one pass over the text.
 *
 * Where all attention has a window and there will be no backward pass, a text that is longer than window and
 * segment slides: attention keeps the segment's rows and those before it that it sees (in whole chunks), and
 * no others.  Rollouts below rows of a segment are then run before the next one; those of any other text all
 * after its last.
 *
 * Order of calls: begin; forward 0 .. segments-1, and after each, where rf_tree_ready() has sites, branch or
 * grow; training: backward_branch, then backward segments-1 .. 0.  Everything is queued on the device;
 * failures show at rf_dev_sync(). */
#ifndef RF_TREE_H
#define RF_TREE_H

#include "model/mixer.h"
#include "model/model.h"

/* segments are whole multiples of it: the delta rule's chunks then never depend on them */
enum { RF_CHUNK = 64 };

/* The segment that is meant by so many rows. */
static inline int rf_segment(int rows) { return (rows + RF_CHUNK - 1) / RF_CHUNK * RF_CHUNK; }

struct rf_plan {
	int max_len;          /* longest text, tokens */
	int segment;          /* rows of a segment; rf_segment() of them are taken */
	int sites;            /* most rows with rollouts below */
	int per;              /* most rollouts below one row */
	int steps;            /* longest rollout */
	bool grow;            /* rollouts grow step by step */
	bool train;           /* there will be a backward pass */
	/* train: keep only the states at the segments' starts, and compute each segment again */
	bool recompute;
};

/* Rows that are worked on together: a segment of the text (nb = 1), or the rollouts below some sites
 * (step-major). */
struct rf_pass {
	struct rf_tree *tree;
	int max_nb, max_steps;       /* what memory is laid out for */
	bool branch, grow, train;
	/* now: sequences, rollouts per site, new steps, steps that are there already */
	int nb, per, steps, given;
	int pos;                     /* text: position of its first row */
	int sites;                   /* rollouts: below how many sites they hang, */
	const int *site, *by_row;    /* (sites): which these are: sequence b is one of site[b / per]; and
	                                their places there by row */
	rf_i32 tokens;               /* (rows) */
	rf_i32 past;                 /* (nb): how many rows of the text come before */
	rf_i32 start;                /* (sites): slots that the sequences begin from */
	/* (sites): rows of the text's open chunk there (RF_CHUNK rows from position 0 on); text: 0 */
	rf_i32 lead;
	/* states to keep: after row cap_row[i] of the pass, in slot cap_slot[i] */
	int captures;
	rf_i32 cap_row, cap_slot;
	int cached;                  /* most rows of the text that a sequence finds in attention's cache;
	                                the text's own stand behind them ... */
	rf_i32 cache_past;           /* (nb): ... and where its own end there */
	/* the same, for a mixer's decisions */
	struct { int *past, *start, *lead, *cap_row, *cap_slot, *cache_past; } host;
	int *bad_part;              /* (nb): rf_tree_found() */
	/* (layers + 1), (layers): the residual stream before and inside each layer */
	rf_f32 *h, *mid;
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
	/* slots of the text (one per segment's start; one in all without a backward pass) and all */
	int text_slots, slots;
	void **state;                /* (layers), of the mixers' own types */
	struct rf_pass *text;        /* one per segment that is kept, else one */
	struct rf_pass branch;
	int passes;
	void *memory;
	size_t bytes, state_bytes;   /* of it all states, which lie first */
	int before_max, kept_max;    /* rows before a segment that attention may read, and with the
	                                segment's own: most that it holds */
	bool passing;                /* ... while a layer is at work: no rollouts read them, and of those
	                                that are read later a copy stays */
	/* the sequence */
	int T, segments, sites;
	/* not all of its rows are kept (passing: it is treated so whatever its length) */
	bool slides;
	/* segment that was run last: its forward pass is in memory, where only one is; -1: none */
	int held;
	/* (sites): row p = s - 1; the sites in order of their rows; and as they come: 0, 1, ... */
	int *site_row, *order, *all;
	rf_i32 tokens;               /* (max_len) */
	bool watch;                  /* look at every layer's output: rf_tree_blame() */
	struct {                     /* where the first that is not finite was seen */
		/* layer -1: nowhere; rollout -1: in the text; part -1: the mixer noted none */
		int layer, rollout, row, part;
	} bad;
};

/* Device bytes that a tree of this plan takes. */
size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan);
enum rf_code rf_tree_new(struct rf_tree **t, struct rf_model *m, const struct rf_plan *plan,
                         struct rf_err *e);
void rf_tree_free(struct rf_tree *t);

/* A new sequence of T tokens, with rollouts below rows row[0 .. sites-1] (each in [0, T)); t->segments says
 * how many segments it has. */
void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int sites);
/* Rows first .. first+rows-1 of segment i. */
int rf_tree_first(const struct rf_tree *t, int i);
int rf_tree_rows(const struct rf_tree *t, int i);
/* Runs segment i; returns its hidden states after the final norm, (rows, d), valid until the next call. */
rf_f32 rf_tree_forward(struct rf_tree *t, int i);
/* How many sites' rollouts can be run now, and must be before the next segment; *site (NULL: not
 * wanted) lists them, until the next rf_tree_forward() or rf_tree_again().  All are after the last
 * segment, in the order of rf_tree_begin(); of a text that slides those of each segment after it,
 * in the order of their rows. */
int rf_tree_ready(const struct rf_tree *t, const int **site);
/* All rollouts below the sites that are ready: per below each, `steps` rows each; tokens (steps, sites, per)
 * in this order.  Hidden states (steps, sites, per, d). */
rf_f32 rf_tree_branch(struct rf_tree *t, int per, int steps, const int32_t *tokens);
/* The same, one step at a time: grow_begin, then grow for each step with the device's tokens (sites, per);
 * returns the new rows' hidden states (sites, per, d). */
void rf_tree_grow_begin(struct rf_tree *t, int per);
rf_f32 rf_tree_grow(struct rf_tree *t, rf_i32 tokens);

/* After a pass whose results are not finite: runs text and rollouts again as they were run, and says which
 * layer's output first is not, and where: "layer 3 overflows at position 4096 (chunk 2 of its fast weights)",
 * the chunk being that from whose rows the weights were made; "layer 3 overflows in rollout 5 at position
 * 4096", rollouts being counted as (sites, per); false: none is (so it is the head).  tokens: the rollouts',
 * (steps, sites, per) for the sites that were ready at once, one after the other; NULL: those of the one
 * rf_tree_branch(), or there are none.  What the tree held is lost. */
bool rf_tree_blame(struct rf_tree *t, rf_i32 tokens, char why[100]);
/* For a mixer: it has made the state x (n) of sequence b from a part of its rows that it counts, such as a
 * chunk.  While a cause is looked for, x is looked at. */
void rf_tree_found(struct rf_pass *p, int b, int part, rf_f32 x, size_t n);

/* Training.  dhidden is overwritten.  Weights' gradients are added to the model's. */
void rf_tree_backward_branch(struct rf_tree *t, rf_f32 dhidden);
/* Where only the states at the segments' starts were kept, computes segment i again; returns its
 * hidden states. */
rf_f32 rf_tree_again(struct rf_tree *t, int i);
void rf_tree_backward(struct rf_tree *t, int i, rf_f32 dhidden);

#endif
