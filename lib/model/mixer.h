/* mixer.h -- what a layer's sequence mixer is to the model: the only part of a layer that knows of
 * earlier rows.
 *
 * One table per mixer (delta_net.c, attention.c, ...); model, tree and engine know nothing else of them.
 * What a mixer keeps per layer are structs of its own, of which the table says the sizes: its weights; its
 * state, which later rows read; what a pass saves for its backward pass (or, where rollouts are decoded, for
 * their next token); what it needs meanwhile. */
#ifndef RF_MIXER_H
#define RF_MIXER_H

#include "device/arena.h"
#include "model/model.h"

struct rf_mixer {
	const char *name;
	size_t weights_size, state_size, save_size, work_size;
	/* Declares the layer's weights (params.h) and keeps where they lie. */
	void (*declare)(struct rf_params *t, const struct rf_config *c, int layer, void *weights);
	/* Layouts.  The state is zeroed when a sequence begins, and its slots are the tree's (tree.h). */
	void (*state)(const struct rf_tree *t, int layer, struct rf_arena *a, void *state);
	void (*save)(const struct rf_pass *p, int layer, struct rf_arena *a, void *save);
	void (*work)(const struct rf_pass *p, int layer, struct rf_arena *a, void *work);
	/* h += mixer(x) for the rows of the pass that are new; x, h (rows, d). */
	void (*fwd)(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h);
	/* Given the gradient dh of the mixer's output and its input x: dx, the weights' gradients (added),
	   the state's. */
	void (*bwd)(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx);
	/* Multiplications and additions of the forward pass over a sequence of T rows, beside those
	   with linear weights. */
	double (*flops)(const struct rf_config *c, int T);
	/* Adds to *need what its operations take on a device.  Which rows there are, whether the model is
	   trained, and what weights it has are said already. */
	void (*workspace)(const struct rf_config *c, struct rf_workspace *need);
	/* Of how many rows, itself included, a row reads what was kept of them, such as keys and values: a
	   window, or RF_ALL_ROWS.  NULL: of none, earlier rows are in the state alone. */
	int (*reads)(const struct rf_config *c);
	/* Says in *why, from its end on, what rf_tree_found() noted before a layer's output overflowed at a
	   position: `part` is what the mixer counted.  NULL: it notes nothing. */
	void (*describe_overflow)(const struct rf_config *c, int position, int part, char *why, size_t size);
};
enum { RF_ALL_ROWS = 1 << 30 };

extern const struct rf_mixer rf_mixer_delta_net, rf_mixer_attention, rf_mixer_lact;

#endif
