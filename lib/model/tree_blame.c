/* tree_blame.c -- finds the first number that is not finite: runs the sequence and its rollouts again, and
 * checks the output of every layer. */
#include <math.h>
#include <stdio.h>

#include "model/tree_pass.h"

/* Returns the index of the first of n numbers on the device that is not finite; n: all are finite. */
static size_t first_not_finite(struct rf_tree *t, rf_f32 from, size_t n)
{
	enum { PIECE = 1024 };
	float x[PIECE];

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < PIECE ? n - i : PIECE;
		t->model->dev->ops->download(t->model->dev, x, rf_at(from, i), m * 4);
		for (size_t j = 0; j < m; j++)
			if (!isfinite(x[j]))
				return i + j;
	}
	return n;
}

void rf_tree_found(struct rf_pass *p, int b, int chunk, rf_f32 x, size_t n)
{
	struct rf_tree *t = p->tree;

	if (t->blame.on && t->blame.layer < 0 && p->bad_chunk[b] < 0 && first_not_finite(t, x, n) < n)
		p->bad_chunk[b] = chunk;
}

void rf_blame_layer(struct rf_pass *p)
{
	for (int b = 0; p->tree->blame.on && b < p->nb; b++)
		p->bad_chunk[b] = -1;
}

void rf_blame_output(struct rf_pass *p, int layer, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	size_t d = (size_t)t->model->cfg->d, n = (size_t)p->nb * (size_t)p->steps * d;
	size_t i = t->blame.on && t->blame.layer < 0 ? first_not_finite(t, h, n) : n;
	int row, b;

	if (i == n)
		return;
	row = (int)(i / d);
	b = row % p->nb;
	t->blame.layer = layer;
	t->blame.rollout = p->branch ? p->position[b / p->n] * p->n + b % p->n : -1;
	t->blame.row = p->host.past_len[b] + p->decoded + row / p->nb;
	t->blame.chunk = p->bad_chunk[b];
}

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
