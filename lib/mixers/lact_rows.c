/* lact_rows.c -- takes the rows of a pass through the chunks: which rows read which fast weights, and which
 * rows update them.  lact.c explains the idea.
 *
 *     chunk   0         1         2         3         4      each of `chunk` rows of the sequence
 *     row     ....|....|....|....|..*.|....|*...|....|..     * a position: rollouts branch off this row
 *     mark    M0        M1        M2        M3        M4     a chunk's weights z, momentum p, and m
 *     sums                            S         S            over the rows of the chunk up to the position
 *
 *     - Rows read the mark of their own chunk.  The first row of a chunk makes it, from the mark and the sums
 *       of the chunk before.
 *     - Rollouts read the mark of the chunk that is open at their position.  Those that leave that chunk also
 *       read the sums at their position.
 *     - The backward pass reads every mark again.
 *
 * lact_slots.c says in which slot of the layer's state each mark and sum is. */
#include "mixers/lact.h"

static int smaller(int a, int b) { return a < b ? a : b; }
static int larger(int a, int b) { return a > b ? a : b; }

/* ---- chunks, marks, sums ------------------------------------------------------------------- */

/* Returns how many rows the chunk that is open at position i still takes.  A longer rollout leaves the
 * chunk. */
static int room_at(const struct rf_tree *t, int i)
{
	int chunk = rf_lact_config(t)->chunk;

	return chunk - 1 - t->position.row[i] % chunk;
}

/* Return whether rollouts at position i may leave its chunk, by the plan, and whether those that are trained
 * on leave it. */
static bool may_leave(const struct rf_tree *t, int i) { return t->plan.k > room_at(t, i); }
static bool leaves(const struct rf_tree *t, int i) { return t->branch.steps > room_at(t, i); }

/* Returns whether the sequence has rows after this chunk, which read the weights made from its sums. */
static bool is_followed(const struct rf_tree *t, int chunk)
{
	int C = rf_lact_config(t)->chunk;

	return t->T - chunk * C > C;
}

/* Returns the end of the rows of this chunk that update weights: those of the next chunk, or those of
 * rollouts that are trained on. */
static int learned_until(const struct rf_tree *t, int chunk)
{
	int C = rf_lact_config(t)->chunk, until = chunk * C;

	if (is_followed(t, chunk))
		return until + C;
	for (int i = 0; i < t->positions; i++)
		if (leaves(t, i) && t->position.row[i] / C == chunk && t->position.row[i] >= until)
			until = t->position.row[i] + 1;
	return until;
}

static struct rf_fast_mark mark_at(const struct rf_lact_config *c, rf_f32 z, rf_f32 p, rf_f32 m, int i,
                                   bool first)
{
	size_t W = rf_fast_size(c), n = (size_t)i;

	return (struct rf_fast_mark){ rf_at(z, n * W), rf_at(p, n * W), rf_at(m, n * (size_t)c->heads),
		                      first };
}

static struct rf_fast_mark state_mark(const struct rf_tree *t, int layer, int slot, bool first)
{
	const struct rf_lact_state *s = t->state[layer];

	return mark_at(rf_lact_config(t), s->z, s->p, s->m, slot, first);
}

/* Return the mark of a chunk of the sequence, and below its gradient (dmark_of()). */
static struct rf_fast_mark mark_of(const struct rf_tree *t, int layer, int chunk)
{
	return state_mark(t, layer, rf_lact_slots(t, layer).mark[chunk], !chunk);
}

/* Returns the mark that rollouts at a position begin with. */
static struct rf_fast_mark position_mark(const struct rf_tree *t, int layer, int position)
{
	return state_mark(t, layer, rf_lact_slots(t, layer).position_mark[position],
	                  t->position.row[position] < rf_lact_config(t)->chunk);
}

/* plan.apart: returns the mark of the chunk that rollout i at a position has begun itself. */
static struct rf_fast_mark rollout_mark(const struct rf_tree *t, int layer, int position, int i)
{
	return state_mark(t, layer, rf_lact_slots(t, layer).rollout_mark + position * t->plan.n + i, false);
}

static struct rf_fast_mark dmark_of(const struct rf_tree *t, int layer, int chunk)
{
	const struct rf_lact_state *s = t->state[layer];

	return mark_at(rf_lact_config(t), s->dz, s->dp, NULL, rf_lact_slots(t, layer).dmark[chunk], !chunk);
}

static struct rf_fast_sum sum_at(const struct rf_lact_config *c, rf_f32 w, rf_f32 m, int i)
{
	return (struct rf_fast_sum){ rf_at(w, (size_t)i * rf_fast_size(c)),
		                     rf_at(m, (size_t)i * (size_t)c->heads) };
}

static struct rf_fast_sum state_sum(const struct rf_tree *t, int layer, int slot)
{
	const struct rf_lact_state *s = t->state[layer];

	return sum_at(rf_lact_config(t), s->sum, s->msum, slot);
}

/* Returns the sums of the chunk that is open where a segment begins. */
static struct rf_fast_sum sequence_sum(const struct rf_tree *t, int layer, int segment)
{
	return state_sum(t, layer, rf_lact_slots(t, layer).sum[segment]);
}

/* Returns the sums up to a position. */
static struct rf_fast_sum position_sum(const struct rf_tree *t, int layer, int position)
{
	return state_sum(t, layer, rf_lact_slots(t, layer).position_sum + position);
}

static struct rf_fast_sum dsum_at(const struct rf_tree *t, int layer, int slot)
{
	const struct rf_lact_state *s = t->state[layer];

	return sum_at(rf_lact_config(t), s->dsum, s->dmsum, slot);
}

/* Return the gradients of the sums of the chunk that the backward pass is in, and of those up to a
 * position. */
static struct rf_fast_sum sequence_dsum(const struct rf_tree *t, int layer) { return dsum_at(t, layer, 0); }

static struct rf_fast_sum position_dsum(const struct rf_tree *t, int layer, int position)
{
	return dsum_at(t, layer, 1 + position);
}

static void copy_sum(const struct rf_fast *f, struct rf_fast_sum from, struct rf_fast_sum to, bool add)
{
	if (from.w == to.w)
		return;
	rf_fast_copy(f, rf_fast_size(f->c), from.w, to.w, add);
	if (from.m)
		rf_fast_copy(f, (size_t)f->c->heads, from.m, to.m, add);
}

static struct rf_fast fast_of(struct rf_pass *p, int layer)
{
	const struct rf_lact_state *s = p->tree->state[layer];
	struct rf_lact_work *w = p->work[layer];

	return (struct rf_fast){ p->tree->model->dev, rf_lact_config(p->tree), &w->fast, s->length,
		                 s->dlength };
}

/* ---- the first weights --------------------------------------------------------------------- */

/* Makes the mark of the first chunk from the model's weights, and the lengths of its rows. */
static void make_first_weights(struct rf_pass *p, int layer, const struct rf_fast *f)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_lact_weights *l = m->layer[layer].w;
	const struct rf_lact_config *c = f->c;
	struct rf_fast_mark mark = mark_of(p->tree, layer, 0);
	rf_f32 z = mark.z, length = f->length;
	size_t D = (size_t)c->D, E = (size_t)c->E, each = D * E, H = (size_t)c->heads, rank = (size_t)c->rank;

	if (p->tree->plan.apart && mark.p) /* the slot has the momentum of the previous sequence */
		f->dev->ops->zero(f->dev, mark.p, rf_fast_size(c) * 4);
	for (int i = 0; i < 3; i += 2) {
		rf_f32 to = rf_at(z, i ? each : 0);

		for (size_t h = 0; h < H && !rank; h++)
			rf_fast_copy(f, each, rf_at(rf_w(m, l->w[i]), h * each), rf_at(to, 2 * h * each),
			             false);
		if (rank)
			RF_RUN(f->dev, gemm, .batch = c->heads, .m = c->E, .n = c->D, .k = c->rank,
			       .a = rf_w(m, l->left[i]), .lda = c->rank, .sa = E * rank,
			       .b = rf_w(m, l->right[i]), .ldb = c->D, .sb = rank * D, .c = to, .ldc = c->D,
			       .sc = 2 * each);
	}
	if (rank)
		RF_RUN(f->dev, diagonal, .mats = 2 * c->heads, .rows = c->E, .cols = c->D, .stride = each,
		       .value = 0.5f, .y = z);
	rf_fast_copy(f, H * each, rf_w(m, l->w[1]), rf_at(z, 2 * H * each), false);
	RF_RUN(f->dev, length_fwd, .rows = 2 * c->heads * c->E, .n = D, .x = z, .y = length);
	RF_RUN(f->dev, length_fwd, .rows = c->heads * c->D, .n = E, .x = rf_at(z, 2 * H * each),
	       .y = rf_at(length, 2 * H * E));
}

/* Adds the gradients of the first mark and of the lengths to those of the model's weights. */
static void first_weights_bwd(struct rf_pass *p, int layer, const struct rf_fast *f)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_lact_weights *l = m->layer[layer].w;
	const struct rf_lact_config *c = f->c;
	rf_f32 z = mark_of(p->tree, layer, 0).z, dz = dmark_of(p->tree, layer, 0).z;
	size_t D = (size_t)c->D, E = (size_t)c->E, each = D * E, H = (size_t)c->heads, rank = (size_t)c->rank;

	RF_RUN(f->dev, length_bwd, .rows = 2 * c->heads * c->E, .n = D, .x = z, .y = f->length,
	       .dy = f->dlength, .dx = dz);
	RF_RUN(f->dev, length_bwd, .rows = c->heads * c->D, .n = E, .x = rf_at(z, 2 * H * each),
	       .y = rf_at(f->length, 2 * H * E), .dy = rf_at(f->dlength, 2 * H * E),
	       .dx = rf_at(dz, 2 * H * each));
	rf_fast_copy(f, H * each, rf_at(dz, 2 * H * each), rf_dw(m, l->w[1]), true);
	for (int i = 0; i < 3; i += 2) {
		rf_f32 from = rf_at(dz, i ? each : 0);

		for (size_t h = 0; h < H && !rank; h++)
			rf_fast_copy(f, each, rf_at(from, 2 * h * each), rf_at(rf_dw(m, l->w[i]), h * each),
			             true);
		if (!rank)
			continue;
		RF_RUN(f->dev, gemm, .batch = c->heads, .m = c->E, .n = c->rank, .k = c->D, .tb = true,
		       .add = true, .a = from, .lda = c->D, .sa = 2 * each, .b = rf_w(m, l->right[i]),
		       .ldb = c->D, .sb = rank * D, .c = rf_dw(m, l->left[i]), .ldc = c->rank,
		       .sc = E * rank);
		RF_RUN(f->dev, gemm, .batch = c->heads, .m = c->rank, .n = c->D, .k = c->E, .ta = true,
		       .add = true, .a = rf_w(m, l->left[i]), .lda = c->rank, .sa = E * rank, .b = from,
		       .ldb = c->D, .sb = 2 * each, .c = rf_dw(m, l->right[i]), .ldc = c->D, .sc = rank * D);
	}
}

/* ---- the sequence -------------------------------------------------------------------------- */

/* Rows [from, to) of one chunk.  opens: the rows begin the chunk, whose mark is made first; learns: sums over
 * these rows are needed. */
struct part {
	int chunk, from, to;
	bool opens, learns;
};

/* Returns the part of a pass that row `at` is in: all rows of its chunk that the pass has.  The positions do
 * not divide it, so its results do not depend on them. */
static struct part part_of(const struct rf_pass *p, int at)
{
	const struct rf_tree *t = p->tree;
	int C = rf_lact_config(t)->chunk, chunk = at / C, begins = chunk * C, end = p->first_row + p->steps;
	struct part x = { .chunk = chunk,
		          .from = larger(p->first_row, begins),
		          .to = end - begins > C ? begins + C : end };

	x.opens = x.from == begins && chunk;
	/* positions in the next segment need the sums up to the end of this one */
	x.learns = is_followed(t, chunk) || (t->plan.positions && end < t->T);
	return x;
}

/* Returns the part for the backward pass.  It ends at positions whose rollouts leave the chunk, because the
 * gradient of these rollouts is added there. */
static struct part part_bwd(const struct rf_pass *p, int at)
{
	const struct rf_tree *t = p->tree;
	struct part x = part_of(p, at);

	for (int i = 0; i < t->positions; i++) {
		int cut = t->position.row[i] + 1;

		if (leaves(t, i) && cut <= at)
			x.from = larger(x.from, cut);
		else if (leaves(t, i))
			x.to = smaller(x.to, cut);
	}
	x.opens = x.opens && x.from % rf_lact_config(t)->chunk == 0;
	x.learns = x.from < learned_until(t, x.chunk);
	return x;
}

static struct rf_fast_piece piece_of(const struct rf_pass *p, const struct part *x)
{
	return (struct rf_fast_piece){ (size_t)(x->from - p->first_row), x->to - x->from, 1 };
}

/* Keeps the sums at those positions in a part whose rollouts may leave the chunk.  The sums at a position
 * are `before`, over the rows before the part, plus the sums over the rows of the part up to the position.
 * now: the weights of the chunk. */
static void keep_sums(struct rf_pass *p, int layer, const struct rf_fast *f, const struct part *a,
                      const struct rf_fast_rows *x, rf_f32 now, struct rf_fast_sum before)
{
	const struct rf_tree *t = p->tree;
	const bool inside = a->from % f->c->chunk;

	for (int i = t->first_position; i < t->positions; i++) {
		const int row = t->position.row[i];
		const struct part some = { .from = a->from, .to = row + 1 };
		struct rf_fast_sum sum = position_sum(t, layer, i);

		if (row < a->from || row >= a->to || !may_leave(t, i))
			continue;
		if (inside)
			copy_sum(f, before, sum, false);
		rf_fast_learn(f, piece_of(p, &some), x, now, sum, inside);
	}
}

void rf_lact_sequence_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	int segment = p->first_row / t->plan.segment, C = f.c->chunk;
	struct rf_fast_sum sum = sequence_sum(t, layer, segment + 1);
	rf_f32 now = NULL;

	if (!p->first_row)
		make_first_weights(p, layer, &f);
	copy_sum(&f, sequence_sum(t, layer, segment), sum, false);
	for (int row = p->first_row; row < p->first_row + p->steps;) {
		struct part a = part_of(p, row);
		struct rf_fast_mark mark = mark_of(t, layer, a.chunk);

		if (a.opens) {
			struct rf_fast_mark before = mark_of(t, layer, a.chunk - 1);

			rf_fast_update(&f, &before, now ? now : rf_fast_weights(&f, &before, w->w[0]), sum,
			               &mark);
			rf_tree_found(p, 0, a.chunk - 1, mark.z, rf_fast_size(f.c));
			now = NULL;
		}
		if (!now)
			now = rf_fast_weights(&f, &mark, w->w[0]);
		rf_fast_apply(&f, piece_of(p, &a), x, now);
		keep_sums(p, layer, &f, &a, x, now, sum);
		if (a.learns)
			rf_fast_learn(&f, piece_of(p, &a), x, now, sum, a.from % C);
		row = a.to;
	}
}

/* Returns whether rows [from, to) have a position whose rollouts may leave its chunk. */
static bool has_sums(const struct rf_tree *t, int from, int to)
{
	for (int i = 0; i < t->positions; i++)
		if (may_leave(t, i) && t->position.row[i] >= from && t->position.row[i] < to)
			return true;
	return false;
}

bool rf_lact_captures(const struct rf_pass *p)
{
	return has_sums(p->tree, p->first_row, p->first_row + p->steps);
}

void rf_lact_capture(struct rf_pass *p, int layer, const struct rf_fast_rows *x)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	const struct rf_fast_sum before = sequence_sum(t, layer, p->first_row / t->plan.segment);

	for (int row = p->first_row; row < p->first_row + p->steps;) {
		const struct part a = part_of(p, row);
		const struct rf_fast_mark mark = mark_of(t, layer, a.chunk);

		if (has_sums(t, a.from, a.to))
			keep_sums(p, layer, &f, &a, x, rf_fast_weights(&f, &mark, w->w[0]), before);
		row = a.to;
	}
}

static void zero_numbers(const struct rf_fast *f, rf_f32 x, size_t n)
{
	if (x && n)
		f->dev->ops->zero(f->dev, x, n * 4);
}

/* Sets the gradients from updates to 0 in rows [first, rows), which update no weights. */
static void zero_unlearned(const struct rf_fast *f, const struct rf_fast_rows *dx, size_t first, size_t rows)
{
	size_t H = (size_t)f->c->heads, d = H * (size_t)f->c->D;

	zero_numbers(f, rf_at(dx->k, first * d), (rows - first) * d);
	zero_numbers(f, rf_at(dx->v, first * d), (rows - first) * d);
	zero_numbers(f, rf_at(dx->lr, first * H * 3), (rows - first) * H * 3);
	zero_numbers(f, rf_at(dx->m, first * H), (rows - first) * H);
}

void rf_lact_sequence_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x,
                          const struct rf_fast_rows *dx)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	int end = p->first_row + p->steps, learned = learned_until(t, (end - 1) / f.c->chunk);
	struct rf_fast_sum dsum = sequence_dsum(t, layer);
	rf_f32 now = NULL;

	zero_unlearned(&f, dx, (size_t)(smaller(end, larger(p->first_row, learned)) - p->first_row),
	               (size_t)p->steps);
	for (int row = end - 1; row >= p->first_row;) {
		struct part a = part_bwd(p, row);
		struct rf_fast_mark mark = mark_of(t, layer, a.chunk), dmark = dmark_of(t, layer, a.chunk);
		bool last = !now;

		for (int i = 0; i < t->positions; i++)
			if (leaves(t, i) && t->position.row[i] == a.to - 1)
				copy_sum(&f, position_dsum(t, layer, i), dsum, true);
		if (!now)
			now = rf_fast_weights(&f, &mark, w->w[0]);
		rf_fast_apply_bwd(&f, piece_of(p, &a), x, dx, now, w->dw[0], !last);
		if (a.learns)
			rf_fast_learn_bwd(&f, piece_of(p, &a), x, dx, now, dsum, w->dw[0]);
		if (a.opens || a.from == p->first_row) {
			rf_fast_weights_bwd(&f, &mark, w->dw[0], &dmark);
			now = NULL;
		}
		if (a.opens) {
			struct rf_fast_mark before = mark_of(t, layer, a.chunk - 1),
					    dbefore = dmark_of(t, layer, a.chunk - 1);

			/* no rollout has added to it, but the slot may have the gradient of a later chunk */
			if (rf_lact_slots(t, layer).branched[a.chunk - 1] < 0) {
				zero_numbers(&f, dbefore.z, rf_fast_size(f.c));
				zero_numbers(&f, dbefore.p, rf_fast_size(f.c));
			}
			rf_fast_update_bwd(&f, &before, &dbefore, dsum, &mark, &dmark);
		}
		row = a.from - 1;
	}
	if (!p->first_row)
		first_weights_bwd(p, layer, &f);
}

/* ---- rollouts ------------------------------------------------------------------------------ */

/* Returns the number of steps from one position to the next in the order of the fast weights, which is by
 * position, step, rollout. */
static int steps_room(const struct rf_pass *p) { return p->decode ? p->max_steps : p->steps; }

void rf_lact_regroup(const struct rf_pass *p, int width, rf_f32 pass, rf_f32 group, bool back)
{
	size_t each = (size_t)p->n * (size_t)width;
	int across = p->nb * width, along = p->n * width;

	for (int i = 0; i < p->positions && pass; i++) {
		rf_f32 a = rf_at(pass, (size_t)i * each),
		       b = rf_at(group, ((size_t)i * (size_t)steps_room(p) + (size_t)p->decoded) * each);

		RF_RUN(p->tree->model->dev, rows, .n = p->steps, .d = along, .from = back ? b : a,
		       .lf = back ? along : across, .to = back ? a : b, .lt = back ? across : along);
	}
}

/* Returns steps [from, to) of rollout i at position `at` of the pass; i < 0: of all its rollouts. */
static struct rf_fast_piece steps_of(const struct rf_pass *p, int at, int i, int from, int to)
{
	size_t per = (size_t)p->n, first = ((size_t)at * (size_t)steps_room(p) + (size_t)from) * per;

	if (i < 0)
		return (struct rf_fast_piece){ first, (to - from) * p->n, 1 };
	return (struct rf_fast_piece){ first + (size_t)i, to - from, p->n };
}

/* Returns the mark of the n-th chunk that a rollout begins.  Without a backward pass all chunks share one
 * mark. */
static struct rf_fast_mark begun_mark(const struct rf_pass *p, const struct rf_lact_work *w, int n)
{
	return mark_at(rf_lact_config(p->tree), w->z, w->p, w->m, p->train ? n : 0, false);
}

/* Takes rollout i at position `at` of the pass beyond the chunk of its position: makes the marks of the
 * chunks that the rollout begins, and computes x->y of its new rows in them.  x->y NULL: only makes the
 * marks.  w0: the weights of the position's chunk.  Returns the number of marks. */
static int leave_chunk_fwd(struct rf_pass *p, int layer, const struct rf_fast *f,
                           const struct rf_fast_rows *x, int at, int i, rf_f32 w0)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	int position = p->position[at], C = f->c->chunk, begins = room_at(t, position),
	    to = p->decoded + p->steps, n = 0;
	struct rf_fast_mark from = position_mark(t, layer, position);
	rf_f32 now = w0;

	copy_sum(f, position_sum(t, layer, position), w->sum, false);
	if (begins)
		rf_fast_learn(f, steps_of(p, at, i, 0, begins), x, w0, w->sum, true);
	while (begins < to) {
		struct rf_fast_mark mark = begun_mark(p, w, n);
		int ends = to - begins > C ? begins + C : to, first = larger(begins, p->decoded);

		rf_fast_update(f, &from, now, w->sum, &mark);
		rf_tree_found(p, at * p->n + i, t->position.row[position] / C + n++, mark.z,
		              rf_fast_size(f->c));
		now = rf_fast_weights(f, &mark, w->w[1]);
		if (x->y && first < ends)
			rf_fast_apply(f, steps_of(p, at, i, first, ends), x, now);
		if (ends < to)
			rf_fast_learn(f, steps_of(p, at, i, begins, ends), x, now, w->sum, false);
		from = mark;
		begins = ends;
	}
	return n;
}

/* plan.apart: does the same for one new row.  The last mark of the rollout is kept, so each chunk is summed
 * only once, when the first row after it comes. */
static void leave_chunk_apart(struct rf_pass *p, int layer, const struct rf_fast *f,
                              const struct rf_fast_rows *x, int at, int i, rf_f32 w0)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	int position = p->position[at], C = f->c->chunk, room = room_at(t, position), row = p->decoded;
	struct rf_fast_mark own = rollout_mark(t, layer, position, i);

	if (row == room) {
		struct rf_fast_mark from = position_mark(t, layer, position);

		copy_sum(f, position_sum(t, layer, position), w->sum, false);
		if (room)
			rf_fast_learn(f, steps_of(p, at, i, 0, room), x, w0, w->sum, true);
		rf_fast_update(f, &from, w0, w->sum, &own);
	} else if ((row - room) % C == 0) {
		rf_f32 now = rf_fast_weights(f, &own, w->w[1]);

		rf_fast_learn(f, steps_of(p, at, i, row - C, row), x, now, w->sum, false);
		rf_fast_update(f, &own, now, w->sum, &own);
	}
	if ((row - room) % C == 0)
		rf_tree_found(p, at * p->n + i, (t->position.row[position] + row) / C, own.z,
		              rf_fast_size(f->c));
	rf_fast_apply(f, steps_of(p, at, i, row, row + 1), x, rf_fast_weights(f, &own, w->w[1]));
}

void rf_lact_branch_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	int to = p->decoded + p->steps;
	rf_f32 now = NULL;

	for (int j = 0, before = -1; j < p->positions; j++) {
		int at = p->by_row[j], position = p->position[at],
		    chunk = t->position.row[position] / f.c->chunk, room = room_at(t, position);
		struct rf_fast_mark mark = position_mark(t, layer, position);

		if (chunk != before || t->plan.apart)
			now = rf_fast_weights(&f, &mark, w->w[0]);
		before = chunk;
		if (p->decoded < room)
			rf_fast_apply(&f, steps_of(p, at, -1, p->decoded, smaller(to, room)), x, now);
		for (int i = 0; i < p->n && to > room; i++)
			if (t->plan.apart)
				leave_chunk_apart(p, layer, &f, x, at, i, now);
			else
				leave_chunk_fwd(p, layer, &f, x, at, i, now);
	}
}

/* Computes the gradients of the rows for which leave_chunk_fwd() computed x->y.  dw0: the gradient of w0, to
 * which it adds. */
static void leave_chunk_bwd(struct rf_pass *p, int layer, const struct rf_fast *f,
                            const struct rf_fast_rows *x, const struct rf_fast_rows *dx, int at, int i,
                            rf_f32 w0, rf_f32 dw0)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	int position = p->position[at], C = f->c->chunk, room = room_at(t, position),
	    chunk = t->position.row[position] / C;
	struct rf_fast_rows made = *x;
	int n;

	made.y = NULL;
	n = leave_chunk_fwd(p, layer, f, &made, at, i, w0);
	for (int j = n - 1; j >= 0; j--) {
		int begins = room + j * C, ends = p->steps - begins > C ? begins + C : p->steps;
		struct rf_fast_mark mark = begun_mark(p, w, j),
				    from = j ? begun_mark(p, w, j - 1) : mark_of(t, layer, chunk);
		struct rf_fast_mark dmark = mark_at(f->c, w->dz, w->dp, NULL, j % 2, false);
		struct rf_fast_mark dfrom =
			j ? mark_at(f->c, w->dz, w->dp, NULL, (j + 1) % 2, false) : dmark_of(t, layer, chunk);
		rf_f32 now = rf_fast_weights(f, &mark, w->w[1]);

		if (j == n - 1) {
			zero_numbers(f, dmark.z, rf_fast_size(f->c));
			zero_numbers(f, dmark.p, rf_fast_size(f->c));
		}
		if (j) {
			zero_numbers(f, dfrom.z, rf_fast_size(f->c));
			zero_numbers(f, dfrom.p, rf_fast_size(f->c));
		}
		rf_fast_apply_bwd(f, steps_of(p, at, i, begins, ends), x, dx, now, w->dw[1], false);
		if (j < n - 1)
			rf_fast_learn_bwd(f, steps_of(p, at, i, begins, ends), x, dx, now, w->dsum, w->dw[1]);
		rf_fast_weights_bwd(f, &mark, w->dw[1], &dmark);
		rf_fast_update_bwd(f, &from, &dfrom, w->dsum, &mark, &dmark);
	}
	if (room)
		rf_fast_learn_bwd(f, steps_of(p, at, i, 0, room), x, dx, w0, w->dsum, dw0);
	copy_sum(f, w->dsum, position_dsum(t, layer, position), true);
}

void rf_lact_branch_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x,
                        const struct rf_fast_rows *dx)
{
	struct rf_tree *t = p->tree;
	struct rf_lact_work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	rf_f32 now = NULL;

	zero_unlearned(&f, dx, 0, (size_t)p->nb * (size_t)p->steps);
	for (int j = 0, before = -1; j < p->positions; j++) {
		int at = p->by_row[j], position = p->position[at],
		    chunk = t->position.row[position] / f.c->chunk, room = room_at(t, position);
		struct rf_fast_mark mark = mark_of(t, layer, chunk), dmark = dmark_of(t, layer, chunk);

		if (chunk != before)
			now = rf_fast_weights(&f, &mark, w->w[0]);
		before = chunk;
		if (room)
			rf_fast_apply_bwd(&f, steps_of(p, at, -1, 0, smaller(p->steps, room)), x, dx, now,
			                  w->dw[0], false);
		for (int i = 0; i < p->n && p->steps > room; i++)
			leave_chunk_bwd(p, layer, &f, x, dx, at, i, now, w->dw[0]);
		if (room)
			rf_fast_weights_bwd(&f, &mark, w->dw[0], &dmark);
	}
}
