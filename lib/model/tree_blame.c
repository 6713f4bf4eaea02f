/* tree_blame.c -- finds the first number that is not finite: runs the sequence and its rollouts again, while
 * tree_run.c checks the output of every layer. */
#include <stdio.h>

#include "model/tree_pass.h"

/* Runs the rollouts that are ready again, with pass p. */
static void run_branches_again(struct rf_tree *t, struct rf_pass *p, int n, int steps, rf_i32 tokens)
{
	rf_pass_set_branches(t, p, n);
	if (!p->decode) {
		p->steps = steps;
		rf_pass_fwd(p, tokens);
	}
	for (int j = 0; p->decode && j < steps && t->blame.layer < 0; j++)
		rf_tree_decode(t, rf_at_i32(tokens, (size_t)j * (size_t)p->nb));
}

/* Runs the sequence and its rollouts again, until a number that is not finite is found. */
static void run_again(struct rf_tree *t, rf_i32 tokens)
{
	struct rf_pass *p = t->rollouts;
	int n = p ? p->n : 0, steps = p ? p->decoded + p->steps : 0;

	t->model->dev->ops->zero(t->model->dev, t->memory.base, t->memory.state_bytes);
	for (int i = 0; i < t->segments && t->blame.layer < 0; i++) {
		rf_tree_forward(t, i);
		if (t->blame.layer >= 0 || !steps || !rf_tree_ready(t, NULL))
			continue;
		run_branches_again(t, p, n, steps, tokens);
		tokens = rf_at_i32(tokens, (size_t)p->nb * (size_t)steps);
	}
}

bool rf_tree_blame(struct rf_tree *t, rf_i32 tokens, char why[100])
{
	const struct rf_mixer *mixer;
	int n;

	t->blame.on = true;
	t->blame.layer = -1;
	run_again(t, tokens ? tokens : t->branch.tokens);
	t->blame.on = false;
	if (t->blame.layer < 0)
		return false;
	n = snprintf(why, 100, "layer %d overflows", t->blame.layer);
	if (t->blame.rollout >= 0)
		n += snprintf(why + n, 100 - (size_t)n, " in rollout %d", t->blame.rollout);
	n += snprintf(why + n, 100 - (size_t)n, " at position %d", t->blame.row);
	mixer = t->model->layer[t->blame.layer].mixer;
	if (t->blame.chunk >= 0 && mixer->describe_overflow)
		mixer->describe_overflow(t->model->cfg, t->blame.row, t->blame.chunk, why + n,
		                         100 - (size_t)n);
	return true;
}
