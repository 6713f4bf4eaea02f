/* fast_weights.c -- the products, sums and updates of LaCT's fast weights (fast_weights.h).
 *
 * The heads are column ranges of the rows.  So each product is a batch over heads with strided operands, and
 * no data is copied. */
#include "mixers/fast_weights.h"

static const float EPS = 1e-5f, EPS_MUON = 1e-7f;

/* One of the two stacks of a block: w0 and w2 (i = 0), or w1 (i = 1). */
struct stack {
	int mats, rows, cols;
	size_t at;
};

static struct stack stack_of(const struct rf_lact_config *c, int i)
{
	if (!i)
		return (struct stack){ 2 * c->heads, c->E, c->D, 0 };
	return (struct stack){ c->heads, c->D, c->E, 2 * (size_t)c->heads * (size_t)c->E * (size_t)c->D };
}

static size_t matrix_size(const struct stack *s) { return (size_t)s->rows * (size_t)s->cols; }

size_t rf_fast_size(const struct rf_lact_config *c)
{
	return 3 * (size_t)c->heads * (size_t)c->D * (size_t)c->E;
}

size_t rf_fast_lengths(const struct rf_lact_config *c)
{
	return (size_t)c->heads * (2 * (size_t)c->E + (size_t)c->D);
}

size_t rf_fast_operands(const struct rf_lact_config *c, size_t rows)
{
	size_t H = (size_t)c->heads, D = (size_t)c->D, E = (size_t)c->E, learn = rows * H * (2 * E + D),
	       read = 2 * H * E * (rows + D);

	return learn > read ? learn : read;
}

void rf_fast_work(const struct rf_lact_config *c, struct rf_arena *a, size_t rows, bool train,
                  struct rf_fast_work *w)
{
	size_t E = (size_t)c->heads * (size_t)c->E, side = (size_t)(c->D < c->E ? c->D : c->E);

	w->gu = rf_arena_f32(a, rows * 2 * E);
	w->e = rf_arena_f32(a, rows * E);
	if (train) {
		w->dgu = rf_arena_f32(a, rows * 2 * E);
		w->de = rf_arena_f32(a, rows * E);
	}
	for (int i = 0; c->muon && i < (train ? 7 : 2); i++)
		w->x[i] = rf_arena_f32(a, rf_fast_size(c));
	for (int i = 0; c->muon && i < (train ? 4 : 2); i++)
		w->gram[i] = rf_arena_f32(a, 2 * (size_t)c->heads * side * side);
}

void rf_fast_copy(const struct rf_fast *f, size_t n, rf_f32 from, rf_f32 to, bool add)
{
	RF_RUN(f->dev, axpy, .n = n, .scale = 1, .add = add, .x = from, .y = to);
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* One product per head: the heads are columns of the rows, width() numbers in all. */
#define HEADS(f) .batch = (f)->c->heads
static size_t width(const struct rf_fast *f) { return (size_t)f->c->heads * (size_t)f->c->D; }

/* Returns where the piece begins in rows of `each` numbers. */
static rf_f32 at(struct rf_fast_piece p, rf_f32 x, size_t each) { return rf_at(x, p.first * each); }
static int stride(const struct rf_fast *f, struct rf_fast_piece p) { return p.every * f->c->heads * f->c->D; }

/* Computes gu = x [w0; w2]'. */
static void make_gu(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 x, rf_f32 w, rf_f32 gu)
{
	int D = f->c->D, E = f->c->E;

	RF_RUN(f->dev, gemm, HEADS(f), .m = p.n, .n = 2 * E, .k = D, .tb = true, .a = at(p, x, width(f)),
	       .lda = stride(f, p), .sa = (size_t)D, .b = w, .ldb = D, .sb = 2 * (size_t)E * (size_t)D,
	       .c = gu, .ldc = 2 * E * f->c->heads, .sc = 2 * (size_t)E);
}

/* Computes h = x w1, E columns a head; with dy for x, the gradient of silu(g) u. */
static void h_from_x(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 x, rf_f32 w1, rf_f32 h)
{
	int D = f->c->D, E = f->c->E;

	RF_RUN(f->dev, gemm, HEADS(f), .m = p.n, .n = E, .k = D, .a = at(p, x, width(f)), .lda = stride(f, p),
	       .sa = (size_t)D, .b = w1, .ldb = E, .sb = (size_t)D * (size_t)E, .c = h,
	       .ldc = E * f->c->heads, .sc = (size_t)E);
}

/* Computes y = (add: +=) h w1'. */
static void y_from_h(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 h, rf_f32 w1, rf_f32 y, bool add)
{
	int D = f->c->D, E = f->c->E;

	RF_RUN(f->dev, gemm, HEADS(f), .m = p.n, .n = D, .k = E, .tb = true, .add = add, .a = h,
	       .lda = E * f->c->heads, .sa = (size_t)E, .b = w1, .ldb = E, .sb = (size_t)D * (size_t)E,
	       .c = at(p, y, width(f)), .ldc = stride(f, p), .sc = (size_t)D);
}

/* Computes x = (add: +=) gu [w0; w2]. */
static void x_from_gu(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 gu, rf_f32 w, rf_f32 x,
                      bool add)
{
	int D = f->c->D, E = f->c->E;

	RF_RUN(f->dev, gemm, HEADS(f), .m = p.n, .n = D, .k = 2 * E, .add = add, .a = gu,
	       .lda = 2 * E * f->c->heads, .sa = 2 * (size_t)E, .b = w, .ldb = D,
	       .sb = 2 * (size_t)E * (size_t)D, .c = at(p, x, width(f)), .ldc = stride(f, p),
	       .sc = (size_t)D);
}

/* Computes [w0; w2] = (add: +=) gu' x. */
static void w02_from_gu(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 gu, rf_f32 x, rf_f32 w,
                        bool add)
{
	int D = f->c->D, E = f->c->E;

	RF_RUN(f->dev, gemm, HEADS(f), .m = 2 * E, .n = D, .k = p.n, .ta = true, .add = add, .a = gu,
	       .lda = 2 * E * f->c->heads, .sa = 2 * (size_t)E, .b = at(p, x, width(f)), .ldb = stride(f, p),
	       .sb = (size_t)D, .c = w, .ldc = D, .sc = 2 * (size_t)E * (size_t)D);
}

/* Computes w1 = (add: +=) y' h. */
static void w1_from_y(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 y, rf_f32 h, rf_f32 w1,
                      bool add)
{
	int D = f->c->D, E = f->c->E;

	RF_RUN(f->dev, gemm, HEADS(f), .m = D, .n = E, .k = p.n, .ta = true, .add = add,
	       .a = at(p, y, width(f)), .lda = stride(f, p), .sa = (size_t)D, .b = h, .ldb = E * f->c->heads,
	       .sb = (size_t)E, .c = w1, .ldc = E, .sc = (size_t)D * (size_t)E);
}

static rf_f32 w1_of(const struct rf_fast *f, rf_f32 w) { return rf_at(w, stack_of(f->c, 1).at); }

static size_t piece_size(const struct rf_fast *f, struct rf_fast_piece p)
{
	return (size_t)p.n * (size_t)f->c->heads * (size_t)f->c->E;
}

void rf_fast_apply(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x, rf_f32 w)
{
	struct rf_fast_work *k = f->work;
	size_t E = (size_t)f->c->E;

	make_gu(f, p, x->q, w, k->gu);
	RF_RUN(f->dev, swiglu_fwd, .n = piece_size(f, p), .d = f->c->E, .ld = 2 * f->c->E, .gate = k->gu,
	       .up = rf_at(k->gu, E), .y = k->e);
	y_from_h(f, p, k->e, w1_of(f, w), x->y, false);
}

void rf_fast_apply_bwd(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x,
                       const struct rf_fast_rows *dx, rf_f32 w, rf_f32 dw, bool add)
{
	struct rf_fast_work *k = f->work;
	size_t E = (size_t)f->c->E;

	make_gu(f, p, x->q, w, k->gu);
	h_from_x(f, p, dx->y, w1_of(f, w), k->de);
	RF_RUN(f->dev, swiglu_bwd, .n = piece_size(f, p), .d = f->c->E, .ld = 2 * f->c->E, .gate = k->gu,
	       .up = rf_at(k->gu, E), .dy = k->de, .dgate = k->gu, .dup = rf_at(k->gu, E), .y = k->e);
	x_from_gu(f, p, k->gu, w, dx->q, false);
	w02_from_gu(f, p, k->gu, x->q, dw, add);
	w1_from_y(f, p, dx->y, k->e, w1_of(f, dw), add);
}

static rf_f32 rates_of(const struct rf_fast *f, struct rf_fast_piece p, rf_f32 lr)
{
	return at(p, lr, 3 * (size_t)f->c->heads);
}

void rf_fast_learn(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x, rf_f32 w,
                   struct rf_fast_sum sum, bool add)
{
	struct rf_fast_work *k = f->work;
	int H = f->c->heads;

	make_gu(f, p, x->k, w, k->gu);
	h_from_x(f, p, x->v, w1_of(f, w), k->e);
	RF_RUN(f->dev, learn_fwd, .rows = p.n, .H = H, .E = f->c->E, .every = p.every, .gu = k->gu, .e = k->e,
	       .lr = rates_of(f, p, x->lr));
	w02_from_gu(f, p, k->gu, x->k, sum.w, add);
	w1_from_y(f, p, x->v, k->e, w1_of(f, sum.w), add);
	if (!x->m)
		return;
	if (!add)
		f->dev->ops->zero(f->dev, sum.m, (size_t)H * 4);
	RF_RUN(f->dev, colsum, .rows = p.n, .d = H, .ldx = p.every * H, .x = at(p, x->m, (size_t)H),
	       .y = sum.m);
}

void rf_fast_learn_bwd(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x,
                       const struct rf_fast_rows *dx, rf_f32 w, struct rf_fast_sum dsum, rf_f32 dw)
{
	struct rf_fast_work *k = f->work;
	int H = f->c->heads;
	rf_f32 w1 = w1_of(f, w), ds1 = w1_of(f, dsum.w);

	make_gu(f, p, x->k, w, k->gu);
	h_from_x(f, p, x->v, w1, k->e);
	make_gu(f, p, x->k, dsum.w, k->dgu);
	h_from_x(f, p, x->v, ds1, k->de);
	RF_RUN(f->dev, learn_bwd, .rows = p.n, .H = H, .E = f->c->E, .every = p.every, .gu = k->gu, .e = k->e,
	       .lr = rates_of(f, p, x->lr), .dgu = k->dgu, .de = k->de, .dlr = rates_of(f, p, dx->lr),
	       .dm = x->m ? at(p, dx->m, (size_t)H) : NULL, .dsum = x->m ? dsum.m : NULL);
	x_from_gu(f, p, k->gu, dsum.w, dx->k, false);
	x_from_gu(f, p, k->dgu, w, dx->k, true);
	y_from_h(f, p, k->e, ds1, dx->v, false);
	y_from_h(f, p, k->de, w1, dx->v, true);
	w02_from_gu(f, p, k->dgu, x->k, dw, true);
	w1_from_y(f, p, x->v, k->de, w1_of(f, dw), true);
}

/* ---- Newton-Schulz ------------------------------------------------------------------------- */

/* Five steps x <- (a + b G + c G G) x with G = x x'; from the right with G = x' x, if there are fewer
 * columns than rows.  The steps raise small singular values to 1, and with them rounding errors, so operands
 * stay float32. */
static const float muon[5][3] = {
	{ 4.0848f, -6.8946f, 2.9270f }, { 3.9505f, -6.3029f, 2.6377f }, { 3.7418f, -5.5913f, 2.3037f },
	{ 2.8769f, -3.1427f, 1.2046f }, { 2.8366f, -3.0525f, 1.2012f },
};

static int side_of(const struct stack *s) { return s->rows < s->cols ? s->rows : s->cols; }

/* Computes g = x y' from the left, or x' y from the right: a square matrix of the shorter side. */
static void make_gram(const struct rf_fast *f, const struct stack *s, rf_f32 x, rf_f32 y, rf_f32 g)
{
	bool left = s->rows <= s->cols;
	int n = side_of(s);

	RF_RUN(f->dev, gemm, .f32 = true, .batch = s->mats, .m = n, .n = n, .k = left ? s->cols : s->rows,
	       .ta = !left, .tb = left, .a = x, .lda = s->cols, .sa = matrix_size(s), .b = y, .ldb = s->cols,
	       .sb = matrix_size(s), .c = g, .ldc = n, .sc = (size_t)n * (size_t)n);
}

/* Computes y = (add: +=) g x or g' x from the left, or x g or x g' from the right. */
static void multiply(const struct rf_fast *f, const struct stack *s, rf_f32 g, bool transposed, rf_f32 x,
                     rf_f32 y, bool add)
{
	bool left = s->rows <= s->cols;
	int n = side_of(s);
	/* clang-format off */
	struct rf_gemm a = { .f32 = true, .batch = s->mats, .m = s->rows, .n = s->cols, .k = n, .add = add,
	                     .c = y, .ldc = s->cols, .sc = matrix_size(s) };
	/* clang-format on */

	a.a = left ? g : x;
	a.lda = left ? n : s->cols;
	a.sa = left ? (size_t)n * (size_t)n : matrix_size(s);
	a.ta = left && transposed;
	a.b = left ? x : g;
	a.ldb = left ? s->cols : n;
	a.sb = left ? matrix_size(s) : (size_t)n * (size_t)n;
	a.tb = !left && transposed;
	f->dev->ops->gemm(f->dev, &a);
}

/* Computes c = (add: +=) a b, all of them square. */
static void multiply_squares(const struct rf_fast *f, const struct stack *s, rf_f32 a, rf_f32 b, rf_f32 c,
                             bool add)
{
	int n = side_of(s);
	size_t each = (size_t)n * (size_t)n;

	RF_RUN(f->dev, gemm, .f32 = true, .batch = s->mats, .m = n, .n = n, .k = n, .add = add, .a = a,
	       .lda = n, .sa = each, .b = b, .ldb = n, .sb = each, .c = c, .ldc = n, .sc = each);
}

/* Computes G of x, and M = a + b G + c G G. */
static void make_polynomial(const struct rf_fast *f, const struct stack *s, const float abc[3], rf_f32 x,
                            rf_f32 G, rf_f32 M)
{
	int n = side_of(s);
	size_t each = (size_t)n * (size_t)n, all = (size_t)s->mats * each;

	make_gram(f, s, x, x, G);
	multiply_squares(f, s, G, G, M, false);
	RF_RUN(f->dev, axpy, .n = all, .scale = abc[2], .x = M, .y = M);
	RF_RUN(f->dev, axpy, .n = all, .scale = abc[1], .add = true, .x = G, .y = M);
	RF_RUN(f->dev, diagonal, .mats = s->mats, .rows = n, .cols = n, .stride = each, .value = abc[0],
	       .y = M);
}

/* Makes both stacks of g orthogonal.  Returns where the result is.  When training, all steps are kept. */
static rf_f32 make_orthogonal(const struct rf_fast *f, rf_f32 g)
{
	struct rf_fast_work *k = f->work;
	int places = k->x[5] ? 6 : 2;

	for (int i = 0; i < 2; i++) {
		struct stack s = stack_of(f->c, i);

		RF_RUN(f->dev, renorm_fwd, .rows = s.mats, .n = matrix_size(&s), .eps = EPS_MUON,
		       .x = rf_at(g, s.at), .y = rf_at(k->x[0], s.at));
		for (int j = 0; j < 5; j++) {
			rf_f32 x = rf_at(k->x[j % places], s.at);

			make_polynomial(f, &s, muon[j], x, k->gram[0], k->gram[1]);
			multiply(f, &s, k->gram[1], false, x, rf_at(k->x[(j + 1) % places], s.at), false);
		}
	}
	return k->x[5 % places];
}

/* Adds to dg the gradient from dy, which is not changed.
 *     x1 = M x:             dM = dx1 x', dx = M dx1
 *     M = a + b G + c G G:  dG = b dM + c (dM G + G dM)
 *     G = x x':             dx += (dG + dG') x */
static void orthogonal_bwd(const struct rf_fast *f, rf_f32 g, rf_f32 dy, rf_f32 dg)
{
	struct rf_fast_work *k = f->work;
	rf_f32 G = k->gram[0], M = k->gram[1], dM = k->gram[2], dG = k->gram[3];

	make_orthogonal(f, g);
	for (int i = 0; i < 2; i++) {
		struct stack s = stack_of(f->c, i);
		size_t all = (size_t)s.mats * (size_t)side_of(&s) * (size_t)side_of(&s);
		rf_f32 d = rf_at(dy, s.at);

		for (int j = 4; j >= 0; j--) {
			rf_f32 x = rf_at(k->x[j], s.at), dx = rf_at(k->x[5 + j % 2], s.at);
			bool left = s.rows <= s.cols;

			make_polynomial(f, &s, muon[j], x, G, M);
			make_gram(f, &s, left ? d : x, left ? x : d, dM);
			multiply(f, &s, M, false, d, dx, false);
			multiply_squares(f, &s, dM, G, dG, false);
			multiply_squares(f, &s, G, dM, dG, true);
			RF_RUN(f->dev, axpy, .n = all, .scale = muon[j][2], .x = dG, .y = dG);
			RF_RUN(f->dev, axpy, .n = all, .scale = muon[j][1], .add = true, .x = dM, .y = dG);
			multiply(f, &s, dG, false, x, dx, true);
			multiply(f, &s, dG, true, x, dx, true);
			d = dx;
		}
		RF_RUN(f->dev, renorm_bwd, .rows = s.mats, .n = matrix_size(&s), .eps = EPS_MUON,
		       .x = rf_at(g, s.at), .dy = d, .dx = rf_at(dg, s.at));
	}
}

/* ---- from chunk to chunk ------------------------------------------------------------------- */

rf_f32 rf_fast_weights(const struct rf_fast *f, const struct rf_fast_mark *mark, rf_f32 room)
{
	rf_f32 length = f->length;

	for (int i = 0; i < 2 && !mark->first; i++) {
		struct stack s = stack_of(f->c, i);

		RF_RUN(f->dev, renorm_fwd, .rows = s.mats * s.rows, .n = (size_t)s.cols, .eps = EPS,
		       .operand = true, .x = rf_at(mark->z, s.at), .length = length, .y = rf_at(room, s.at));
		length = rf_at(length, (size_t)s.mats * (size_t)s.rows);
	}
	return mark->first ? mark->z : room;
}

void rf_fast_weights_bwd(const struct rf_fast *f, const struct rf_fast_mark *mark, rf_f32 dw,
                         const struct rf_fast_mark *dmark)
{
	rf_f32 length = f->length, dlength = f->dlength;

	if (mark->first) {
		rf_fast_copy(f, rf_fast_size(f->c), dw, dmark->z, true);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct stack s = stack_of(f->c, i);
		size_t rows = (size_t)s.mats * (size_t)s.rows;

		RF_RUN(f->dev, renorm_bwd, .rows = (int)rows, .n = (size_t)s.cols, .eps = EPS,
		       .x = rf_at(mark->z, s.at), .length = length, .dy = rf_at(dw, s.at),
		       .dx = rf_at(dmark->z, s.at), .dlength = dlength);
		length = rf_at(length, rows);
		dlength = rf_at(dlength, rows);
	}
}

void rf_fast_update(const struct rf_fast *f, const struct rf_fast_mark *from, rf_f32 w,
                    struct rf_fast_sum sum, const struct rf_fast_mark *to)
{
	const struct rf_lact_config *c = f->c;
	size_t n = rf_fast_size(c);
	rf_f32 step = sum.w, base = c->prenorm ? from->z : w;

	for (int i = 0; i < 2 && c->momentum; i++) {
		struct stack s = stack_of(c, i);

		RF_RUN(f->dev, momentum_fwd, .H = c->heads,
		       .n = matrix_size(&s) * (size_t)(s.mats / c->heads), .factor = 1 / (float)c->chunk,
		       .x = rf_at(sum.w, s.at), .p = rf_at(from->p, s.at), .m = sum.m,
		       .y = rf_at(to->p, s.at));
	}
	if (c->momentum) {
		step = to->p;
		rf_fast_copy(f, (size_t)c->heads, sum.m, to->m, false);
	} else if (to->p) {
		rf_fast_copy(f, n, step = sum.w, to->p, false);
	}
	if (c->muon)
		step = make_orthogonal(f, step);
	if (base != to->z)
		rf_fast_copy(f, n, base, to->z, false);
	rf_fast_copy(f, n, step, to->z, true);
}

void rf_fast_update_bwd(const struct rf_fast *f, const struct rf_fast_mark *from,
                        const struct rf_fast_mark *dfrom, struct rf_fast_sum dsum,
                        const struct rf_fast_mark *to, const struct rf_fast_mark *dto)
{
	const struct rf_lact_config *c = f->c;
	size_t n = rf_fast_size(c);
	rf_f32 dstep = c->momentum ? dto->p : dsum.w; /* has the gradient from later chunks */

	if (!c->momentum)
		f->dev->ops->zero(f->dev, dsum.w, n * 4);
	if (c->muon)
		orthogonal_bwd(f, to->p, dto->z, dstep);
	else
		rf_fast_copy(f, n, dto->z, dstep, true);
	if (c->momentum) {
		rf_fast_copy(f, n, dstep, dsum.w, false);
		f->dev->ops->zero(f->dev, dsum.m, (size_t)c->heads * 4);
	}
	for (int i = 0; i < 2 && c->momentum; i++) {
		struct stack s = stack_of(c, i);

		RF_RUN(f->dev, momentum_bwd, .H = c->heads,
		       .n = matrix_size(&s) * (size_t)(s.mats / c->heads), .factor = 1 / (float)c->chunk,
		       .p = rf_at(from->p, s.at), .m = to->m, .dy = rf_at(dstep, s.at),
		       .dp = rf_at(dfrom->p, s.at), .dm = dsum.m);
	}
	if (c->prenorm)
		rf_fast_copy(f, n, dto->z, dfrom->z, true);
	else
		rf_fast_weights_bwd(f, from, dto->z, dfrom);
}
