/* tree_rows.c -- chooses rows: which rows of the sequence or of its rollouts a pass works on, from which
 * states they begin, and which states are kept of them. */
#include "model/tree_pass.h"

int rf_tree_first(const struct rf_tree *t, int i) { return i * t->plan.segment; }

int rf_tree_rows(const struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i);

	return t->T - first < t->plan.segment ? t->T - first : t->plan.segment;
}

void rf_tree_upload(struct rf_tree *t, rf_i32 to, const int *from, int n)
{
	if (n)
		t->model->dev->ops->upload(t->model->dev, to, from, (size_t)n * sizeof *from);
}

/* Begins a sequence without positions. */
static void begin_sequence(struct rf_tree *t, const int32_t *tokens, int T)
{
	t->T = T;
	t->segments = (T + t->plan.segment - 1) / t->plan.segment;
	t->slides = t->cache.transient || T > t->cache.rows_max;
	t->held_segment = -1;
	t->ready.n = 0;
	t->rollouts = NULL;
	t->branch.steps = 0;
	rf_tree_upload(t, t->tokens, tokens, T);
}

/* Returns how many rows the cache no longer has when segment i runs.  The rows in the cache are counted from
 * the first that it has. */
static int dropped_rows(const struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i);

	return t->slides && first > t->cache.before_max ? first - t->cache.before_max : 0;
}

/* Sets the positions of the sequence. */
static void set_positions(struct rf_tree *t, const int *row, int positions)
{
	t->positions = positions;
	for (int i = 0; i < positions; i++) {
		int j = i;

		t->position.row[i] = row[i];
		t->position.dropped[i] = dropped_rows(t, row[i] / t->plan.segment);
		for (; j && row[t->position.by_row[j - 1]] > row[i]; j--) /* few, and mostly sorted */
			t->position.by_row[j] = t->position.by_row[j - 1];
		t->position.by_row[j] = i;
	}
}

/* Tells the mixers that the sequence or its positions are new. */
static void set_indices(struct rf_tree *t)
{
	const struct rf_model *m = t->model;

	for (int l = 0; l < m->cfg->layers; l++)
		if (m->layer[l].mixer->set_index)
			m->layer[l].mixer->set_index(t, t->index[l]);
}

void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int positions)
{
	begin_sequence(t, tokens, T);
	t->model->dev->ops->zero(t->model->dev, t->memory.base, t->memory.state_bytes);
	set_positions(t, row, positions);
	set_indices(t);
}

void rf_tree_clear(struct rf_tree *t)
{
	t->positions = 0;
	t->model->dev->ops->zero(t->model->dev, t->memory.base, t->memory.state_bytes);
}

void rf_tree_add(struct rf_tree *t, const int32_t *tokens, int T)
{
	int i = t->positions++;

	begin_sequence(t, tokens, T);
	t->first_position = t->position.by_row[i] = i;
	t->position.row[i] = T - 1;
	t->position.dropped[i] = dropped_rows(t, t->segments - 1);
	set_indices(t);
}

void rf_tree_branch_off(struct rf_tree *t, const int *row, int positions)
{
	t->ready.n = 0;
	set_positions(t, row, positions);
	set_indices(t);
}

/* Sets the positions whose rollouts are ready after segment i. */
static void set_ready(struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i), end = first + rf_tree_rows(t, i), from = 0, to = 0;

	if (!t->slides || t->plan.apart) {
		t->ready.n = i + 1 == t->segments ? t->positions : 0;
		t->ready.position = t->position.numbers;
		t->ready.by_row = t->position.by_row;
		return;
	}
	for (int j = 0; j < t->positions; j++) {
		from += t->position.row[t->position.by_row[j]] < first;
		to += t->position.row[t->position.by_row[j]] < end;
	}
	t->ready.n = to - from;
	t->ready.position = t->position.by_row + from;
	t->ready.by_row = t->position.numbers;
}

int rf_tree_ready(const struct rf_tree *t, const int **position)
{
	if (position)
		*position = t->ready.position;
	return t->ready.n;
}

static void upload_lists(struct rf_pass *p)
{
	rf_tree_upload(p->tree, p->list.all, p->host.past_len, (int)rf_pass_list_numbers(p));
}

/* Returns the slot of the state at the start of a segment. */
static int start_slot(const struct rf_tree *t, int segment)
{
	return t->plan.train || !segment ? segment : 1;
}

/* Sets the rows of a pass to a segment: the state from which they begin, and the states to keep of them. */
static void set_segment_rows(struct rf_tree *t, struct rf_pass *p, int segment)
{
	int first = rf_tree_first(t, segment), rows = rf_tree_rows(t, segment), n = 0;

	p->nb = p->n = 1;
	p->steps = rows;
	p->decoded = 0;
	p->first_row = first;
	p->cached = first - dropped_rows(t, segment);
	p->host.past_len[0] = first;
	p->host.start[0] = start_slot(t, segment);
	p->host.cache_len[0] = p->cached;
	for (int j = t->first_position; j < t->positions; j++) {
		int i = t->position.by_row[j], row = t->position.row[i];

		if (row >= first && row < first + rows) {
			p->host.cap_row[n] = row - first;
			p->host.cap_slot[n++] = t->sequence_slots + i;
		}
	}
	if (segment + 1 < t->segments) {
		p->host.cap_row[n] = rows - 1;
		p->host.cap_slot[n++] = start_slot(t, segment + 1);
	}
	p->captures = n;
	upload_lists(p);
}

struct rf_pass *rf_tree_pass(struct rf_tree *t, int i) { return &t->sequence[t->passes > 1 ? i : 0]; }

struct rf_pass *rf_tree_set_segment(struct rf_tree *t, int i)
{
	struct rf_pass *p = rf_tree_pass(t, i);

	set_segment_rows(t, p, i);
	set_ready(t, i);
	return p;
}

void rf_pass_set_branches(struct rf_tree *t, struct rf_pass *p, int n)
{
	t->rollouts = p;
	p->positions = t->ready.n;
	p->position = t->ready.position;
	p->by_row = t->ready.by_row;
	p->nb = p->positions * n;
	p->n = n;
	p->decoded = 0;
	p->steps = 0;
	p->captures = 0;
	p->cached = 0;
	for (int b = 0; b < p->nb; b++) {
		int i = p->position[b / n], past = t->position.row[i] + 1;
		int end = past - t->position.dropped[i];

		p->host.past_len[b] = past;
		p->host.cache_len[b] = end;
		p->host.cache_start[b] = i * t->cache.stride;
		p->cached = end > p->cached ? end : p->cached;
	}
	for (int i = 0; i < p->positions; i++) {
		p->host.start[i] = t->sequence_slots + p->position[i];
		p->host.open_rows[i] = (t->position.row[p->position[i]] + 1) % RF_CHUNK;
	}
	upload_lists(p);
}
