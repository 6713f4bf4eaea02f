/* lact.c -- the LaCT mixer (Zhang et al. 2025, arXiv:2505.23884): sliding-window attention and fast weights read the same
 * q, k, v, and are added.
 *
 * The text falls into chunks of lact_chunk_size rows, whatever its segments.  A chunk's rows read the weights that its first
 * row found; when a row follows a full chunk, the sums over all its rows make the next weights.  Sums are linear in the rows,
 * so the state after any row is of a fixed size: the weights and the momentum of its chunk (a mark, one per chunk), and the
 * sums so far.  A rollout that stays in its chunk needs the mark alone.  One that crosses its end adds rows of its own to the
 * sums at its site, which are therefore kept there, and makes weights of its own, again for each rollout and, where rollouts
 * grow, for each step: in memory that all layers share.
 *
 * Rollouts' rows are put in order of site, step, rollout: so rows that read the same weights lie together, and those of
 * one rollout evenly apart. */
#include <math.h>

#include "attend.h"
#include "fast_weights.h"

struct weights {
	struct rf_weight qkv, qkv_bias, norm[2], scale, offset, w[3], left[3], right[3]; /* of w0, w1, w2 */
	struct rf_weight lr, lr_bias, momentum, momentum_bias, ttt_scale, ttt_scale_bias, ttt_norm, o;
};

struct state {
	struct rf_attend_state attend;
	rf_f32 z, p, m, dz, dp;              /* (marks, ...): of all chunks, or of those below which rollouts hang and the open one */
	rf_f32 sum, msum, dsum, dmsum;       /* (slots, ...) */
	rf_f32 length, dlength;
};

struct save {
	struct rf_attend_save attend;
	rf_f32 q, k, y, lr, m, gate;         /* q, k as projected; y before its norm; (R, H, 3), (R, H), (R, H) */
	struct rf_fast_rows grown;           /* of rollouts that grow: k, v, lr and m of all steps */
};

struct work {
	struct rf_attend_work attend;
	struct rf_fast_work fast;
	rf_f32 norm[2], n, dgate;            /* q, k after their norm */
	struct rf_fast_rows x, dx;           /* in the order of the pass ... */
	struct rf_fast_rows group, dgroup;   /* ... and in that of the fast weights */
	rf_f32 w[2], dw[2];
	struct rf_fast_sum sum, dsum;        /* of one rollout */
	rf_f32 z, p, m, dz, dp;              /* its chunks' marks; the gradients of two */
};

static const struct rf_weight none;

/* ---- weights and memory ----------------------------------------------------------------------------------------- */

static void declare_fast(struct rf_params *t, const struct rf_config *cfg, int layer, struct weights *w)
{
	const struct rf_lact_config *c = &cfg->lact;
	const char *root = cfg->names.root;
	int H = c->heads, D = c->D, E = c->E;

	for (int i = 0; i < 3; i += 2)
		if (c->rank) {
			w->left[i] = rf_params_weight(t, RF_NORMAL(c->gain / sqrt(c->rank)), (int[4]){ H, E, c->rank }, "%slayers.%d.attn.w%d.w_left", root,
			                              layer, i);
			w->right[i] = rf_params_weight(t, RF_NORMAL(c->gain / sqrt(D)), (int[4]){ H, c->rank, D }, "%slayers.%d.attn.w%d.w_right", root,
			                               layer, i);
		} else {
			w->w[i] = rf_params_weight(t, RF_NORMAL(1 / sqrt(D)), (int[4]){ H, E, D }, "%slayers.%d.attn.w%d", root, layer, i);
		}
	w->w[1] = rf_params_weight(t, RF_NORMAL(1 / sqrt(E)), (int[4]){ H, D, E }, "%slayers.%d.attn.w1", root, layer);
}

static void declare(struct rf_params *t, const struct rf_config *cfg, int layer, void *weights)
{
	struct weights *w = weights;
	const struct rf_lact_config *c = &cfg->lact;
	const struct rf_begin normal = RF_NORMAL(cfg->initializer_range);
	const char *root = cfg->names.root;
	int d = cfg->d, H = c->heads;

	w->qkv = rf_params_weight(t, normal, (int[4]){ 3 * d, d }, "%slayers.%d.attn.qkv.weight", root, layer);
	if (cfg->attn.qkv_bias)
		w->qkv_bias = rf_params_weight(t, RF_ZERO, (int[4]){ 3 * d }, "%slayers.%d.attn.qkv.bias", root, layer);
	for (int i = 0; i < 2 && c->qk_norm; i++)
		w->norm[i] = rf_params_weight(t, RF_ONE, (int[4]){ d }, "%slayers.%d.attn.%c_norm.weight", root, layer, "qk"[i]);
	w->scale = rf_params_weight(t, RF_ONE, (int[4]){ d, 2 }, "%slayers.%d.attn.qk_scale", root, layer);
	w->offset = rf_params_weight(t, RF_ZERO, (int[4]){ d, 2 }, "%slayers.%d.attn.qk_offset", root, layer);
	declare_fast(t, cfg, layer, w);
	w->lr = rf_params_weight(t, normal, (int[4]){ 3 * H, d }, "%slayers.%d.attn.lr_proj.weight", root, layer);
	w->lr_bias = rf_params_weight(t, RF_ZERO, (int[4]){ 3 * H }, "%slayers.%d.attn.lr_proj.bias", root, layer);
	if (c->momentum) {
		w->momentum = rf_params_weight(t, normal, (int[4]){ H, d }, "%slayers.%d.attn.momentum_proj.0.weight", root, layer);
		w->momentum_bias = rf_params_weight(t, RF_ZERO, (int[4]){ H }, "%slayers.%d.attn.momentum_proj.0.bias", root, layer);
	}
	if (c->scale) {
		w->ttt_scale = rf_params_weight(t, normal, (int[4]){ H, d }, "%slayers.%d.attn.ttt_scale_proj.weight", root, layer);
		w->ttt_scale_bias = rf_params_weight(t, RF_ZERO, (int[4]){ H }, "%slayers.%d.attn.ttt_scale_proj.bias", root, layer);
	}
	w->ttt_norm = rf_params_weight(t, RF_ONE, (int[4]){ c->D }, "%slayers.%d.attn.ttt_norm.weight", root, layer);
	w->o = rf_params_weight(t, normal, (int[4]){ d, d }, "%slayers.%d.attn.o_proj.weight", root, layer);
}

static const struct rf_lact_config *config_of(const struct rf_tree *t) { return &t->model->cfg->lact; }

/* Muon's gradient wants the step that was made orthogonal, and with momentum that is p. */
static bool keeps_p(const struct rf_lact_config *c, bool train) { return c->momentum || (c->muon && train); }

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, void *state)
{
	const struct rf_lact_config *c = config_of(t);
	struct state *s = state;
	bool train = t->plan.train, p = keeps_p(c, train);
	int chunks = (t->plan.max_len - 1) / c->chunk + 1, sites = t->plan.sites < chunks ? t->plan.sites : chunks;
	size_t W = rf_fast_size(c), H = (size_t)c->heads, marks = (size_t)(train ? chunks : sites + 1), slots = (size_t)t->slots;

	(void)layer;
	rf_attend_state(t, &t->model->cfg->attn, a, &s->attend);
	s->z = rf_arena_f32(a, marks * W);
	s->p = p ? rf_arena_f32(a, marks * W) : NULL;
	s->m = c->momentum ? rf_arena_f32(a, marks * H) : NULL;
	s->sum = rf_arena_f32(a, slots * W);
	s->msum = c->momentum ? rf_arena_f32(a, slots * H) : NULL;
	s->length = rf_arena_f32(a, rf_fast_lengths(c));
	if (!train)
		return;
	s->dz = rf_arena_f32(a, marks * W);
	s->dp = p ? rf_arena_f32(a, marks * W) : NULL;
	s->dsum = rf_arena_f32(a, slots * W);
	s->dmsum = c->momentum ? rf_arena_f32(a, slots * H) : NULL;
	s->dlength = rf_arena_f32(a, rf_fast_lengths(c));
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, void *save)
{
	const struct rf_config *cfg = p->tree->model->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps, d = (size_t)cfg->d, H = (size_t)c->heads;
	struct save *s = save;

	(void)layer;
	rf_attend_save(p, &cfg->attn, a, &s->attend);
	s->q = rf_arena_f32(a, R * d);
	s->k = rf_arena_f32(a, R * d);
	s->y = rf_arena_f32(a, R * d);
	s->lr = rf_arena_f32(a, R * H * 3);
	s->m = c->momentum ? rf_arena_f32(a, R * H) : NULL;
	s->gate = c->scale ? rf_arena_f32(a, R * H) : NULL;
	if (p->grow)
		s->grown = (struct rf_fast_rows){ .k = rf_arena_f32(a, R * d), .v = rf_arena_f32(a, R * d), .lr = rf_arena_f32(a, R * H * 3),
		                                  .m = c->momentum ? rf_arena_f32(a, R * H) : NULL };
}

/* What one rollout that leaves its chunk needs. */
static void rollout_work(const struct rf_pass *p, struct rf_arena *a, struct work *w)
{
	const struct rf_lact_config *c = config_of(p->tree);
	size_t W = rf_fast_size(c), H = (size_t)c->heads, chunks = p->train ? (size_t)((p->max_steps - 1) / c->chunk + 1) : 1;
	bool keeps = keeps_p(c, p->train);

	w->w[1] = rf_arena_f32(a, W);
	w->sum = (struct rf_fast_sum){ rf_arena_f32(a, W), c->momentum ? rf_arena_f32(a, H) : NULL };
	w->z = rf_arena_f32(a, chunks * W);
	w->p = keeps ? rf_arena_f32(a, chunks * W) : NULL;
	w->m = c->momentum ? rf_arena_f32(a, chunks * H) : NULL;
	if (!p->train)
		return;
	w->dw[1] = rf_arena_f32(a, W);
	w->dsum = (struct rf_fast_sum){ rf_arena_f32(a, W), c->momentum ? rf_arena_f32(a, H) : NULL };
	w->dz = rf_arena_f32(a, 2 * W);
	w->dp = keeps ? rf_arena_f32(a, 2 * W) : NULL;
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, void *work)
{
	const struct rf_config *cfg = p->tree->model->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps, d = (size_t)cfg->d, H = (size_t)c->heads;
	const struct save *s = p->save[layer];
	struct work *w = work;

	rf_attend_work(p, &cfg->attn, a, &w->attend);
	rf_fast_work(c, a, R, p->train, &w->fast);
	for (int i = 0; i < 2 && c->qk_norm; i++)
		w->norm[i] = rf_arena_f32(a, R * d);
	w->n = rf_arena_f32(a, R * d);
	w->x = (struct rf_fast_rows){ rf_arena_f32(a, R * d), rf_arena_f32(a, R * d), c->v_silu ? rf_arena_f32(a, R * d) : NULL, s->y, s->lr, s->m };
	w->w[0] = rf_arena_f32(a, rf_fast_size(c));
	if (p->branch) {
		w->group = s->grown;
		w->group.q = rf_arena_f32(a, R * d);
		w->group.y = rf_arena_f32(a, R * d);
		if (!p->grow) {
			w->group.k = rf_arena_f32(a, R * d);
			w->group.v = rf_arena_f32(a, R * d);
			w->group.lr = rf_arena_f32(a, R * H * 3);
			w->group.m = c->momentum ? rf_arena_f32(a, R * H) : NULL;
		}
		rollout_work(p, a, w);
	}
	if (!p->train)
		return;
	w->dx = (struct rf_fast_rows){ rf_arena_f32(a, R * d), rf_arena_f32(a, R * d), rf_arena_f32(a, R * d), w->n, rf_arena_f32(a, R * H * 3),
	                               c->momentum ? rf_arena_f32(a, R * H) : NULL };
	w->dgate = c->scale ? rf_arena_f32(a, R * H) : NULL;
	w->dw[0] = rf_arena_f32(a, rf_fast_size(c));
	if (p->branch)
		w->dgroup = (struct rf_fast_rows){ rf_arena_f32(a, R * d), rf_arena_f32(a, R * d), rf_arena_f32(a, R * d), rf_arena_f32(a, R * d),
		                                   rf_arena_f32(a, R * H * 3), c->momentum ? rf_arena_f32(a, R * H) : NULL };
}

/* ---- chunks, marks, slots --------------------------------------------------------------------------------------- */

/* Rows that the open chunk below site s still takes; rollouts that are longer leave it. */
static int room_at(const struct rf_tree *t, int s)
{
	int chunk = config_of(t)->chunk;

	return chunk - 1 - t->site_row[s] % chunk;
}

static bool leaves(const struct rf_tree *t, int s) { return t->plan.steps > room_at(t, s); }

/* The row after the last one of the chunk from which something is learned. */
static int learned_until(const struct rf_tree *t, int chunk)
{
	int C = config_of(t)->chunk, until = chunk * C;

	if (t->T - until > C)
		return until + C;
	for (int s = 0; s < t->sites; s++)
		if (leaves(t, s) && t->site_row[s] / C == chunk && t->site_row[s] >= until)
			until = t->site_row[s] + 1;
	return until;
}

static struct rf_fast_mark mark_at(const struct rf_lact_config *c, rf_f32 z, rf_f32 p, rf_f32 m, int i, bool first)
{
	size_t W = rf_fast_size(c), n = (size_t)i;

	return (struct rf_fast_mark){ rf_at(z, n * W), rf_at(p, n * W), rf_at(m, n * (size_t)c->heads), first };
}

/* Where a chunk's mark lies.  Without a backward pass only those are kept below which rollouts hang; place 0 is that of
 * the chunk that the text has reached. */
static int place_of(const struct rf_tree *t, int chunk)
{
	int C = config_of(t)->chunk, before = 0, last = -1;

	if (t->plan.train)
		return chunk;
	for (int i = 0; i < t->sites; i++) {
		int at = t->site_row[t->order[i]] / C;
		if (at > chunk)
			break;
		before += at != last;
		last = at;
	}
	return last == chunk ? before : 0;
}

static struct rf_fast_mark mark_of(const struct rf_tree *t, int layer, int chunk)
{
	const struct state *s = t->state[layer];

	return mark_at(config_of(t), s->z, s->p, s->m, place_of(t, chunk), !chunk);
}

static struct rf_fast_mark dmark_of(const struct rf_tree *t, int layer, int chunk)
{
	const struct state *s = t->state[layer];

	return mark_at(config_of(t), s->dz, s->dp, NULL, chunk, !chunk);
}

static struct rf_fast_sum sum_at(const struct rf_lact_config *c, rf_f32 w, rf_f32 m, int slot)
{
	return (struct rf_fast_sum){ rf_at(w, (size_t)slot * rf_fast_size(c)), rf_at(m, (size_t)slot * (size_t)c->heads) };
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
	const struct state *s = p->tree->state[layer];
	struct work *w = p->work[layer];

	return (struct rf_fast){ p->tree->model->dev, config_of(p->tree), &w->fast, s->length, s->dlength };
}

/* ---- the first weights ------------------------------------------------------------------------------------------ */

static void begin(struct rf_pass *p, int layer, const struct rf_fast *f)
{
	const struct rf_model *m = p->tree->model;
	const struct weights *l = m->layer[layer].w;
	const struct rf_lact_config *c = f->c;
	rf_f32 z = mark_of(p->tree, layer, 0).z, length = f->length;
	size_t D = (size_t)c->D, E = (size_t)c->E, each = D * E, H = (size_t)c->heads, rank = (size_t)c->rank;

	for (int i = 0; i < 3; i += 2) {
		rf_f32 to = rf_at(z, i ? each : 0);

		for (size_t h = 0; h < H && !rank; h++)
			rf_fast_copy(f, each, rf_at(rf_w(m, l->w[i]), h * each), rf_at(to, 2 * h * each), false);
		if (rank)
			RF(f->dev, gemm, .batch = c->heads, .m = c->E, .n = c->D, .k = c->rank, .a = rf_w(m, l->left[i]), .lda = c->rank, .sa = E * rank,
			   .b = rf_w(m, l->right[i]), .ldb = c->D, .sb = rank * D, .c = to, .ldc = c->D, .sc = 2 * each);
	}
	if (rank)
		RF(f->dev, diagonal, .mats = 2 * c->heads, .rows = c->E, .cols = c->D, .apart = each, .by = 0.5f, .y = z);
	rf_fast_copy(f, H * each, rf_w(m, l->w[1]), rf_at(z, 2 * H * each), false);
	RF(f->dev, length_fwd, .rows = 2 * c->heads * c->E, .n = D, .x = z, .y = length);
	RF(f->dev, length_fwd, .rows = c->heads * c->D, .n = E, .x = rf_at(z, 2 * H * each), .y = rf_at(length, 2 * H * E));
}

static void begin_bwd(struct rf_pass *p, int layer, const struct rf_fast *f)
{
	const struct rf_model *m = p->tree->model;
	const struct weights *l = m->layer[layer].w;
	const struct rf_lact_config *c = f->c;
	rf_f32 z = mark_of(p->tree, layer, 0).z, dz = dmark_of(p->tree, layer, 0).z;
	size_t D = (size_t)c->D, E = (size_t)c->E, each = D * E, H = (size_t)c->heads, rank = (size_t)c->rank;

	RF(f->dev, length_bwd, .rows = 2 * c->heads * c->E, .n = D, .x = z, .y = f->length, .dy = f->dlength, .dx = dz);
	RF(f->dev, length_bwd, .rows = c->heads * c->D, .n = E, .x = rf_at(z, 2 * H * each), .y = rf_at(f->length, 2 * H * E),
	   .dy = rf_at(f->dlength, 2 * H * E), .dx = rf_at(dz, 2 * H * each));
	rf_fast_copy(f, H * each, rf_at(dz, 2 * H * each), rf_dw(m, l->w[1]), true);
	for (int i = 0; i < 3; i += 2) {
		rf_f32 from = rf_at(dz, i ? each : 0);

		for (size_t h = 0; h < H && !rank; h++)
			rf_fast_copy(f, each, rf_at(from, 2 * h * each), rf_at(rf_dw(m, l->w[i]), h * each), true);
		if (!rank)
			continue;
		RF(f->dev, gemm, .batch = c->heads, .m = c->E, .n = c->rank, .k = c->D, .tb = true, .add = true, .a = from, .lda = c->D, .sa = 2 * each,
		   .b = rf_w(m, l->right[i]), .ldb = c->D, .sb = rank * D, .c = rf_dw(m, l->left[i]), .ldc = c->rank, .sc = E * rank);
		RF(f->dev, gemm, .batch = c->heads, .m = c->rank, .n = c->D, .k = c->E, .ta = true, .add = true, .a = rf_w(m, l->left[i]), .lda = c->rank,
		   .sa = E * rank, .b = from, .ldb = c->D, .sb = 2 * each, .c = rf_dw(m, l->right[i]), .ldc = c->D, .sc = rank * D);
	}
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

/* Rows [from, to) of one chunk, after the last of which a chunk may end or rollouts hang that leave it. */
struct part { int chunk, from, to; bool opens, learns; };

static int earlier(int a, int b) { return a < b ? a : b; }
static int later(int a, int b) { return a > b ? a : b; }

/* The part of a pass's rows that row `at` is in. */
static struct part part_of(const struct rf_pass *p, int at)
{
	const struct rf_tree *t = p->tree;
	int C = config_of(t)->chunk, chunk = at / C, begins = chunk * C, end = p->pos + p->steps;
	struct part x = { .chunk = chunk, .from = later(p->pos, begins), .to = end - begins > C ? begins + C : end };

	for (int s = 0; s < t->sites; s++) {
		int cut = t->site_row[s] + 1;

		if (leaves(t, s) && cut <= at)
			x.from = later(x.from, cut);
		else if (leaves(t, s))
			x.to = earlier(x.to, cut);
	}
	x.opens = x.from == begins && chunk;
	x.learns = x.from < learned_until(t, chunk);
	return x;
}

static struct rf_fast_piece piece_of(const struct rf_pass *p, const struct part *x)
{
	return (struct rf_fast_piece){ (size_t)(x->from - p->pos), x->to - x->from, 1 };
}

static void text_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x)
{
	struct rf_tree *t = p->tree;
	struct state *s = t->state[layer];
	struct work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	int start = p->host.start[0], C = f.c->chunk;
	struct rf_fast_sum sum = sum_at(f.c, s->sum, s->msum, t->plan.train ? start + 1 : start);
	rf_f32 now = NULL;

	if (!p->pos)
		begin(p, layer, &f);
	copy_sum(&f, sum_at(f.c, s->sum, s->msum, start), sum, false);
	for (int row = p->pos; row < p->pos + p->steps;) {
		struct part a = part_of(p, row);
		struct rf_fast_mark mark = mark_of(t, layer, a.chunk);

		if (a.opens) {
			struct rf_fast_mark before = mark_of(t, layer, a.chunk - 1);

			rf_fast_update(&f, &before, now ? now : rf_fast_weights(&f, &before, w->w[0]), sum, &mark);
			now = NULL;
		}
		if (!now)
			now = rf_fast_weights(&f, &mark, w->w[0]);
		rf_fast_apply(&f, piece_of(p, &a), x, now);
		if (a.learns)
			rf_fast_learn(&f, piece_of(p, &a), x, now, sum, a.from % C);
		for (int i = 0; i < t->sites; i++)
			if (leaves(t, i) && t->site_row[i] == a.to - 1)
				copy_sum(&f, sum, sum_at(f.c, s->sum, s->msum, t->text_slots + i), false);
		row = a.to;
	}
}

static void zero(const struct rf_fast *f, rf_f32 x, size_t n)
{
	if (x && n)
		f->dev->ops->zero(f->dev, x, n * 4);
}

/* Rows from which nothing is learned get no gradient from there. */
static void unlearned(const struct rf_fast *f, const struct rf_fast_rows *dx, size_t first, size_t rows)
{
	size_t H = (size_t)f->c->heads, d = H * (size_t)f->c->D;

	zero(f, rf_at(dx->k, first * d), (rows - first) * d);
	zero(f, rf_at(dx->v, first * d), (rows - first) * d);
	zero(f, rf_at(dx->lr, first * H * 3), (rows - first) * H * 3);
	zero(f, rf_at(dx->m, first * H), (rows - first) * H);
}

static void text_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x, const struct rf_fast_rows *dx)
{
	struct rf_tree *t = p->tree;
	struct state *s = t->state[layer];
	struct work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	int start = p->host.start[0], end = p->pos + p->steps;
	struct rf_fast_sum dsum = sum_at(f.c, s->dsum, s->dmsum, start + 1);
	rf_f32 now = NULL;

	unlearned(&f, dx, (size_t)(earlier(end, later(p->pos, learned_until(t, (end - 1) / f.c->chunk))) - p->pos), (size_t)p->steps);
	for (int row = end - 1; row >= p->pos;) {
		struct part a = part_of(p, row);
		struct rf_fast_mark mark = mark_of(t, layer, a.chunk), dmark = dmark_of(t, layer, a.chunk);
		bool last = !now;

		for (int i = 0; i < t->sites; i++)
			if (leaves(t, i) && t->site_row[i] == a.to - 1)
				copy_sum(&f, sum_at(f.c, s->dsum, s->dmsum, t->text_slots + i), dsum, true);
		if (!now)
			now = rf_fast_weights(&f, &mark, w->w[0]);
		rf_fast_apply_bwd(&f, piece_of(p, &a), x, dx, now, w->dw[0], !last);
		if (a.learns)
			rf_fast_learn_bwd(&f, piece_of(p, &a), x, dx, now, dsum, w->dw[0]);
		if (a.opens || a.from == p->pos) {
			rf_fast_weights_bwd(&f, &mark, w->dw[0], &dmark);
			now = NULL;
		}
		if (a.opens) {
			struct rf_fast_mark before = mark_of(t, layer, a.chunk - 1), dbefore = dmark_of(t, layer, a.chunk - 1);

			rf_fast_update_bwd(&f, &before, &dbefore, dsum, &mark, &dmark);
		}
		row = a.from - 1;
	}
	copy_sum(&f, dsum, sum_at(f.c, s->dsum, s->dmsum, start), false);
	if (!p->pos)
		begin_bwd(p, layer, &f);
}

/* ---- rollouts --------------------------------------------------------------------------------------------------- */

/* Steps that there is room for in the order of the fast weights: site, step, rollout. */
static int steps_room(const struct rf_pass *p) { return p->grow ? p->max_steps : p->steps; }

/* Rows of `width` numbers from the pass's order to that of the fast weights, or back. */
static void regroup(const struct rf_pass *p, int width, rf_f32 pass, rf_f32 group, bool back)
{
	size_t each = (size_t)p->per * (size_t)width;
	int across = p->nb * width, along = p->per * width;

	for (int s = 0; s < p->tree->sites && pass; s++) {
		rf_f32 a = rf_at(pass, (size_t)s * each), b = rf_at(group, ((size_t)s * (size_t)steps_room(p) + (size_t)p->given) * each);

		RF(p->tree->model->dev, rows, .n = p->steps, .d = along, .from = back ? b : a, .lf = back ? along : across, .to = back ? a : b,
		   .lt = back ? across : along);
	}
}

/* Steps [from, to) of rollout i below a site, or (i < 0) of all of them. */
static struct rf_fast_piece steps_of(const struct rf_pass *p, int site, int i, int from, int to)
{
	size_t per = (size_t)p->per, first = ((size_t)site * (size_t)steps_room(p) + (size_t)from) * per;

	if (i < 0)
		return (struct rf_fast_piece){ first, (to - from) * p->per, 1 };
	return (struct rf_fast_piece){ first + (size_t)i, to - from, p->per };
}

/* The mark of the n-th chunk that a rollout begins; without a backward pass all take the same place. */
static struct rf_fast_mark own_mark(const struct rf_pass *p, const struct work *w, int n)
{
	return mark_at(config_of(p->tree), w->z, w->p, w->m, p->train ? n : 0, false);
}

/* One rollout's rows beyond its site's chunk: the chunks that it begins, and what its new rows read of them (x->y NULL:
 * only the former).  Returns their number. */
static int leave_fwd(struct rf_pass *p, int layer, const struct rf_fast *f, const struct rf_fast_rows *x, int site, int i, rf_f32 w0)
{
	struct rf_tree *t = p->tree;
	const struct state *s = t->state[layer];
	struct work *w = p->work[layer];
	int C = f->c->chunk, begins = room_at(t, site), to = p->given + p->steps, n = 0;
	struct rf_fast_mark from = mark_of(t, layer, t->site_row[site] / C);
	rf_f32 now = w0;

	copy_sum(f, sum_at(f->c, s->sum, s->msum, t->text_slots + site), w->sum, false);
	if (begins)
		rf_fast_learn(f, steps_of(p, site, i, 0, begins), x, w0, w->sum, true);
	while (begins < to) {
		struct rf_fast_mark mark = own_mark(p, w, n++);
		int ends = to - begins > C ? begins + C : to, first = later(begins, p->given);

		rf_fast_update(f, &from, now, w->sum, &mark);
		now = rf_fast_weights(f, &mark, w->w[1]);
		if (x->y && first < ends)
			rf_fast_apply(f, steps_of(p, site, i, first, ends), x, now);
		if (ends < to)
			rf_fast_learn(f, steps_of(p, site, i, begins, ends), x, now, w->sum, false);
		from = mark;
		begins = ends;
	}
	return n;
}

static void branch_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x)
{
	struct rf_tree *t = p->tree;
	struct work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);
	int to = p->given + p->steps;

	for (int s = 0; s < t->sites; s++) {
		struct rf_fast_mark mark = mark_of(t, layer, t->site_row[s] / f.c->chunk);
		rf_f32 now = rf_fast_weights(&f, &mark, w->w[0]);
		int room = room_at(t, s);

		if (p->given < room)
			rf_fast_apply(&f, steps_of(p, s, -1, p->given, earlier(to, room)), x, now);
		for (int i = 0; i < p->per && to > room; i++)
			leave_fwd(p, layer, &f, x, s, i, now);
	}
}

/* dw0: of the weights of the site's chunk. */
static void leave_bwd(struct rf_pass *p, int layer, const struct rf_fast *f, const struct rf_fast_rows *x, const struct rf_fast_rows *dx, int site,
                      int i, rf_f32 w0, rf_f32 dw0)
{
	struct rf_tree *t = p->tree;
	const struct state *s = t->state[layer];
	struct work *w = p->work[layer];
	int C = f->c->chunk, room = room_at(t, site), chunk = t->site_row[site] / C;
	struct rf_fast_rows made = *x;
	int n;

	made.y = NULL;
	n = leave_fwd(p, layer, f, &made, site, i, w0);
	for (int j = n - 1; j >= 0; j--) {
		int begins = room + j * C, ends = p->steps - begins > C ? begins + C : p->steps;
		struct rf_fast_mark mark = own_mark(p, w, j), from = j ? own_mark(p, w, j - 1) : mark_of(t, layer, chunk);
		struct rf_fast_mark dmark = mark_at(f->c, w->dz, w->dp, NULL, j % 2, false);
		struct rf_fast_mark dfrom = j ? mark_at(f->c, w->dz, w->dp, NULL, (j + 1) % 2, false) : dmark_of(t, layer, chunk);
		rf_f32 now = rf_fast_weights(f, &mark, w->w[1]);

		if (j == n - 1) {
			zero(f, dmark.z, rf_fast_size(f->c));
			zero(f, dmark.p, rf_fast_size(f->c));
		}
		if (j) {
			zero(f, dfrom.z, rf_fast_size(f->c));
			zero(f, dfrom.p, rf_fast_size(f->c));
		}
		rf_fast_apply_bwd(f, steps_of(p, site, i, begins, ends), x, dx, now, w->dw[1], false);
		if (j < n - 1)
			rf_fast_learn_bwd(f, steps_of(p, site, i, begins, ends), x, dx, now, w->dsum, w->dw[1]);
		rf_fast_weights_bwd(f, &mark, w->dw[1], &dmark);
		rf_fast_update_bwd(f, &from, &dfrom, w->dsum, &mark, &dmark);
	}
	if (room)
		rf_fast_learn_bwd(f, steps_of(p, site, i, 0, room), x, dx, w0, w->dsum, dw0);
	copy_sum(f, w->dsum, sum_at(f->c, s->dsum, s->dmsum, t->text_slots + site), true);
}

static void branch_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x, const struct rf_fast_rows *dx)
{
	struct rf_tree *t = p->tree;
	struct work *w = p->work[layer];
	const struct rf_fast f = fast_of(p, layer);

	unlearned(&f, dx, 0, (size_t)p->nb * (size_t)p->steps);
	for (int s = 0; s < t->sites; s++) {
		int chunk = t->site_row[s] / f.c->chunk, room = room_at(t, s);
		struct rf_fast_mark mark = mark_of(t, layer, chunk), dmark = dmark_of(t, layer, chunk);
		rf_f32 now = rf_fast_weights(&f, &mark, w->w[0]);

		if (room)
			rf_fast_apply_bwd(&f, steps_of(p, s, -1, 0, earlier(p->steps, room)), x, dx, now, w->dw[0], false);
		for (int i = 0; i < p->per && p->steps > room; i++)
			leave_bwd(p, layer, &f, x, dx, s, i, now, w->dw[0]);
		if (room)
			rf_fast_weights_bwd(&f, &mark, w->dw[0], &dmark);
	}
}

/* ---- the layer -------------------------------------------------------------------------------------------------- */

/* Rows i d .. of qkv's weight or bias: of q, k or v. */
static struct rf_weight third(struct rf_weight w, int d, int i)
{
	w.at += w.there ? (size_t)i * (size_t)d * (size_t)w.in : 0;
	w.out = d;
	return w;
}

static rf_f32 normed(const struct save *k, const struct work *w, int i)
{
	return w->norm[i] ? w->norm[i] : i ? k->k : k->q;
}

static void turn(const struct rf_pass *p, bool inverse, rf_f32 x)
{
	const struct rf_attn_config *c = &p->tree->model->cfg->attn;

	RF(p->tree->model->dev, rope, .nb = p->nb, .steps = p->steps, .heads = c->heads, .D = c->D, .from = p->given, .inverse = inverse,
	   .theta = c->theta, .past = p->past, .x = x, .y = x);
}

/* q and k after their norm. */
static void norms(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct weights *l = m->layer[layer].w;
	const struct save *k = p->save[layer];
	struct work *w = p->work[layer];

	for (int i = 0; i < 2 && w->norm[i]; i++)
		RF(m->dev, rmsnorm_fwd, .rows = p->nb * p->steps, .d = m->cfg->d, .eps = 1e-5f, .x = i ? k->k : k->q, .w = rf_w(m, l->norm[i]),
		   .y = w->norm[i]);
}

/* How the features of q, k (i = 0, 1) or v are made; forward and backward pass share it. */
#define FEATURE(p, c, l, i) \
	.rows = (p)->nb * (p)->steps, .H = (c)->heads, .D = (c)->D, .silu = (i) < 2 ? (c)->silu : (c)->v_silu, .unit = (i) < 2, .eps = 1e-5f, \
	.scale = (i) < 2 ? rf_at(rf_w((p)->tree->model, (l)->scale), (size_t)(i)) : NULL, \
	.offset = (i) < 2 ? rf_at(rf_w((p)->tree->model, (l)->offset), (size_t)(i)) : NULL

/* What the fast weights read; returns it in their order. */
static struct rf_fast_rows features(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct weights *l = m->layer[layer].w;
	const struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	struct rf_fast_rows x = w->x;

	RF(m->dev, feature_fwd, FEATURE(p, c, l, 0), .x = normed(k, w, 0), .y = x.q);
	RF(m->dev, feature_fwd, FEATURE(p, c, l, 1), .x = normed(k, w, 1), .y = x.k);
	if (c->v_silu)
		RF(m->dev, feature_fwd, FEATURE(p, c, l, 2), .x = rf_attend_v(p, &cfg->attn, &k->attend), .y = x.v);
	else
		x.v = rf_attend_v(p, &cfg->attn, &k->attend);
	if (c->turned) {
		turn(p, false, x.q);
		turn(p, false, x.k);
	}
	if (!p->branch)
		return x;
	regroup(p, cfg->d, x.q, w->group.q, false);
	regroup(p, cfg->d, x.k, w->group.k, false);
	regroup(p, cfg->d, x.v, w->group.v, false);
	regroup(p, 3 * c->heads, x.lr, w->group.lr, false);
	regroup(p, c->heads, x.m, w->group.m, false);
	return w->group;
}

/* The two readers' sum: y's norm, times its gate, and the attention's o. */
static void both(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_lact_config *c = &m->cfg->lact;
	const struct weights *l = m->layer[layer].w;
	const struct save *k = p->save[layer];
	const struct work *w = p->work[layer];
	int rows = p->nb * p->steps;

	RF(m->dev, rmsnorm_fwd, .rows = rows * c->heads, .d = c->D, .eps = 1e-5f, .row_gate = true, .x = k->y, .w = rf_w(m, l->ttt_norm),
	   .gate = k->gate, .y = w->n);
	RF(m->dev, axpy, .n = (size_t)rows * (size_t)m->cfg->d, .scale = 1, .add = true, .x = k->attend.o, .y = w->n);
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct weights *l = m->layer[layer].w;
	struct state *s = p->tree->state[layer];
	struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	int rows = p->nb * p->steps;
	rf_f32 y[3] = { k->q, k->k, rf_attend_v(p, &cfg->attn, &k->attend) };
	struct rf_fast_rows group;

	for (int i = 0; i < 3; i++)
		rf_linear_fwd(m, third(l->qkv, cfg->d, i), third(l->qkv_bias, cfg->d, i), rows, x, y[i], 0, false);
	rf_linear_fwd(m, l->lr, l->lr_bias, rows, x, k->lr, 0, false);
	if (c->momentum)
		rf_linear_fwd(m, l->momentum, l->momentum_bias, rows, x, k->m, 0, false);
	if (c->scale)
		rf_linear_fwd(m, l->ttt_scale, l->ttt_scale_bias, rows, x, k->gate, 0, false);
	RF(m->dev, rates_fwd, .rows = rows, .H = c->heads, .shift = (float)(0.001 + log(-expm1(-0.001))), .lr = k->lr, .m = k->m);
	norms(p, layer);
	k->attend.from_q = normed(k, w, 0);
	k->attend.from_k = normed(k, w, 1);
	rf_attend_fwd(p, &cfg->attn, &s->attend, &k->attend);
	group = features(p, layer);
	if (p->branch) {
		branch_fwd(p, layer, &group);
		regroup(p, cfg->d, k->y, group.y, true);
	} else {
		text_fwd(p, layer, &group);
	}
	both(p, layer);
	rf_linear_fwd(m, l->o, none, rows, w->n, h, 0, true);
}

/* From dx->y the gradients of the features, all in the pass's order. */
static void fast_bwd(struct rf_pass *p, int layer)
{
	const struct rf_config *cfg = p->tree->model->cfg;
	const struct rf_fast_rows x = features(p, layer);
	struct work *w = p->work[layer];
	const struct rf_fast_rows *dx = &w->dx, *dg = &w->dgroup;
	int H = cfg->lact.heads;

	if (!p->branch) {
		text_bwd(p, layer, &x, dx);
		return;
	}
	regroup(p, cfg->d, dx->y, dg->y, false);
	branch_bwd(p, layer, &x, dg);
	regroup(p, cfg->d, dx->q, dg->q, true);
	regroup(p, cfg->d, dx->k, dg->k, true);
	regroup(p, cfg->d, dx->v, dg->v, true);
	regroup(p, 3 * H, dx->lr, dg->lr, true);
	regroup(p, H, dx->m, dg->m, true);
}

/* The features' gradients to those of q, k, v, added to the attention's. */
static void features_bwd(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct weights *l = m->layer[layer].w;
	const struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	rf_f32 df[2] = { w->dx.q, w->dx.k }, dx[2] = { w->attend.dq, w->attend.dk };

	for (int i = 0; i < 2; i++) {
		if (c->turned)
			turn(p, true, df[i]);
		RF(m->dev, feature_bwd, FEATURE(p, c, l, i), .x = normed(k, w, i), .dy = df[i], .dx = dx[i],
		   .dscale = rf_at(rf_dw(m, l->scale), (size_t)i), .doffset = rf_at(rf_dw(m, l->offset), (size_t)i));
	}
	if (c->v_silu)
		RF(m->dev, feature_bwd, FEATURE(p, c, l, 2), .x = rf_attend_v(p, &cfg->attn, &k->attend), .dy = w->dx.v, .dx = w->attend.dv);
	else
		RF(m->dev, axpy, .n = (size_t)(p->nb * p->steps) * (size_t)cfg->d, .scale = 1, .add = true, .x = w->dx.v, .y = w->attend.dv);
}

static void bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct weights *l = m->layer[layer].w;
	struct state *s = p->tree->state[layer];
	struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	int rows = p->nb * p->steps;
	rf_f32 dy[3] = { w->attend.dq, w->attend.dk, w->attend.dv };

	both(p, layer);
	rf_linear_bwd(m, l->o, none, rows, w->n, dh, 0, w->attend.d_o, false);
	RF(m->dev, rmsnorm_bwd, .rows = rows * c->heads, .d = c->D, .eps = 1e-5f, .row_gate = true, .x = k->y, .w = rf_w(m, l->ttt_norm),
	   .gate = k->gate, .dy = w->attend.d_o, .dx = w->dx.y, .dw = rf_dw(m, l->ttt_norm), .dgate = w->dgate);
	rf_attend_bwd(p, &cfg->attn, &s->attend, &k->attend, &w->attend);
	norms(p, layer);
	fast_bwd(p, layer);
	features_bwd(p, layer);
	for (int i = 0; i < 2 && c->qk_norm; i++) { /* the features' gradients are used up: their place is free */
		rf_f32 to = i ? w->dx.k : w->dx.q;

		RF(m->dev, rmsnorm_bwd, .rows = rows, .d = cfg->d, .eps = 1e-5f, .x = i ? k->k : k->q, .w = rf_w(m, l->norm[i]), .dy = dy[i], .dx = to,
		   .dw = rf_dw(m, l->norm[i]));
		dy[i] = to;
	}
	for (int i = 0; i < 3; i++)
		rf_linear_bwd(m, third(l->qkv, cfg->d, i), third(l->qkv_bias, cfg->d, i), rows, x, dy[i], 0, dx, i > 0);
	RF(m->dev, rates_bwd, .rows = rows, .H = c->heads, .lr = k->lr, .m = k->m, .dlr = w->dx.lr, .dm = w->dx.m);
	rf_linear_bwd(m, l->lr, l->lr_bias, rows, x, w->dx.lr, 0, dx, true);
	if (c->momentum)
		rf_linear_bwd(m, l->momentum, l->momentum_bias, rows, x, w->dx.m, 0, dx, true);
	if (c->scale)
		rf_linear_bwd(m, l->ttt_scale, l->ttt_scale_bias, rows, x, w->dgate, 0, dx, true);
}

/* Beside attention's, in products with matrices of D E: three to apply, three for the gradients and three of outer products
 * in every chunk that a row follows, and what makes these orthogonal. */
static double flops(const struct rf_config *cfg, int T)
{
	const struct rf_lact_config *c = &cfg->lact;
	double D = c->D, E = c->E, least = D < E ? D : E, most = D < E ? E : D, updates = (T - 1) / c->chunk;
	double all = 3 * T * D * E + 6 * updates * c->chunk * D * E;

	if (c->muon)
		all += updates * 3 * 5 * (2 * least * least * most + least * least * least);
	return rf_attend_flops(&cfg->attn, T) + 2 * c->heads * all;
}

const struct rf_mixer rf_mixer_lact = {
	"lact", sizeof(struct weights), sizeof(struct state), sizeof(struct save), sizeof(struct work), declare, state, save, work, fwd, bwd, flops
};
