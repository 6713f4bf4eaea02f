/* mixer.h -- the interface between a model and a layer's sequence mixer, the only part of a layer that reads
 * earlier rows.
 *
 * Each mixer is one table (delta_net.c, full_attention.c, lact.c).  Model, tree and engine use only this
 * table.  Per layer a mixer has four structs of its own types, whose sizes the table gives:
 *     weights  the places of its weights
 *     state    the arrays that later rows read of earlier ones
 *     save     the arrays that a pass keeps for its backward pass or, for decoding, for the next token
 *     work     memory that is needed only while the layer runs */
#ifndef RF_MIXER_H
#define RF_MIXER_H

#include <stddef.h>

#include "device/arena.h"
#include "device/dev.h"

struct rf_config;
struct rf_params;
struct rf_pass;
struct rf_tree;

struct rf_mixer {
	const char *name;
	size_t weights_size, state_size, save_size, work_size;
	/* Declares the weights of the layer (params.h), and keeps their places in *weights. */
	void (*declare)(struct rf_params *t, const struct rf_config *c, int layer, void *weights);
	/* Lay out the struct's arrays in an arena.  The state is zeroed when a sequence begins; its slots
	   are numbered by the tree (tree.h). */
	void (*state)(const struct rf_tree *t, int layer, struct rf_arena *a, void *state);
	void (*save)(const struct rf_pass *p, int layer, struct rf_arena *a, void *save);
	void (*work)(const struct rf_pass *p, int layer, struct rf_arena *a, void *work);
	/* The index: integers on the host by which a layer finds its slots in the state, in index[layer] of
	   the tree.  index_size() returns how many there are.  set_index() sets them when a sequence begins
	   or its positions are chosen.  NULL: the mixer has no index. */
	size_t (*index_size)(const struct rf_tree *t);
	void (*set_index)(const struct rf_tree *t, int *index);
	/* Computes h += mixer(x) for the new rows of the pass; x, h (rows, d).  While rollouts are decoded,
	   only save has their earlier rows. */
	void (*fwd)(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h);
	/* Keeps the states at the captures of the pass of a segment, after fwd has run without these
	   captures.  Reads save.  NULL: fwd keeps nothing for captures. */
	void (*capture)(struct rf_pass *p, int layer);
	/* Runs backward, from the input x of the mixer and the gradient dh of its output: writes dx, and adds
	   to the gradients of the weights and of the state from which the rows began. */
	void (*bwd)(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx);
	/* Returns the multiplications and additions of the forward pass over a sequence of T rows, without
	   the products with linear weights. */
	double (*flops)(const struct rf_config *c, int T);
	/* Adds to *need the device memory that the operations of the mixer take.  The caller has set the
	   numbers of rows, whether the model is trained, and the sizes of its weights.  NULL: they take
	   none. */
	void (*workspace)(const struct rf_config *c, struct rf_workspace *need);
	/* For a mixer that keeps something of every row, such as keys and values: returns how many rows a row
	   reads, itself included: the window or RF_ALL_ROWS.  NULL: rows read earlier ones only through a
	   state of fixed size. */
	int (*reads)(const struct rf_config *c);
	/* Writes to why (size bytes), the end of a longer text, what the mixer knows of an overflow in the
	   output of a layer at this row.  chunk: the number that rf_tree_found() noted.  NULL: the mixer
	   notes none. */
	void (*describe_overflow)(const struct rf_config *c, int row, int chunk, char *why, size_t size);
};
enum { RF_ALL_ROWS = 1 << 30 };

extern const struct rf_mixer rf_mixer_delta_net, rf_mixer_attention, rf_mixer_lact;

#endif
