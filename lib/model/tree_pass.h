/* tree_pass.h -- what the files of the tree share: tree_plan.c lays out memory, tree_rows.c chooses rows,
 * tree_run.c computes them, tree_blame.c computes them again to find a number that is not finite. */
#ifndef RF_TREE_PASS_H
#define RF_TREE_PASS_H

#include "model/tree.h"

/* Returns how many numbers the lists of a pass have.  The lists are adjacent on the host and on the device,
 * so one copy uploads all of them. */
static inline size_t rf_pass_list_numbers(const struct rf_pass *p)
{
	return 4 * ((size_t)p->tree->plan.positions + 1) + 3 * (size_t)p->max_nb;
}

/* tree_rows.c */

/* Copies n numbers to the device. */
void rf_tree_upload(struct rf_tree *t, rf_i32 to, const int *from, int n);
/* Returns the pass that runs segment i. */
struct rf_pass *rf_tree_pass(struct rf_tree *t, int i);
/* Sets the rows of that pass to segment i: the state from which they begin, the states to keep of them, and
 * the positions that are ready after them.  Returns the pass. */
struct rf_pass *rf_tree_set_segment(struct rf_tree *t, int i);
/* Sets the rows of pass p to rollouts, n at each position that is ready, before their first step. */
void rf_pass_set_branches(struct rf_tree *t, struct rf_pass *p, int n);

/* tree_run.c */

/* Runs all layers over the rows of a pass.  Returns the hidden states after the final norm. */
rf_f32 rf_pass_fwd(struct rf_pass *p, rf_i32 tokens);

#endif
