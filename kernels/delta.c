/* delta.c -- the gated delta rule in chunks of C = 64 rows, forward and backward, one head at a time.
 *
 *     u_t = beta_t (v_t - a_t S_{t-1}' k_t),  S_t = a_t S_{t-1} + k_t u_t',  o_t = S_t' q_t
 *
 * Yang et al. 2024, arXiv:2406.06484, section 3.2; with the decay a_t = exp(g_t), arXiv:2412.06464, section
 * 3.3.  For a chunk that begins with state S, let c_t be the sum of g up to row t, e_t = exp(c_t),
 * D_ts = exp(c_t - c_s) for s <= t, and f_s = exp(c_m - c_s) with the last row m; without decay all of these
 * are 1.  No exponent is positive.  The asterisk multiplies element by element.  In matrices of m rows:
 *
 *     (I + A) U = diag(beta) (V - diag(e) K S),   A = strict lower triangle of diag(beta) D * K K'
 *     O = diag(e) Q S + P U,                      P = lower triangle of D * Q K'
 *     S <- e_m S + K' diag(f) U
 *
 * The papers' W = (I + A)^-1 diag(beta) K is never formed: the triangular system is solved for U itself, in
 * blocks of 16 rows.  A row of U and O depends only on earlier rows of the chunk, and each sum is computed in
 * the same order for any number of rows.  So if the k, u and g of a chunk's first rows are known, the rows
 * after them get the same bits as in a pass over the whole chunk.
 *
 * Backward, with dO and the gradient dS of the state after the chunk, and W = diag(beta) dR:
 *
 *     dU = P' dO + diag(f) K dS,   (I + A)' dR = dU,   X = lower dO U',   Z = - strict lower W U'
 *     dV = W,  beta dbeta = rows of dR . U
 *     dQ = diag(e) dO S' + (D * X) K
 *     dK = diag(f) U dS' + (D * X)' Q - diag(e) W S' + (D * Z + (D * Z)') K
 *     dS <- e_m dS + Q' diag(e) dO - K' diag(e) W
 *
 * So the forward pass keeps only U; the states at the chunks' first rows are computed again from K and U.  A
 * term that has a factor exp(c_t - c_s) adds its product with its gradient to dc_t, and subtracts it from
 * dc_s; dg_t = dc_t + dc_{t+1} + ... to the end of the chunk.  (The diagonals of D are left out: they would
 * cancel, but for their rounding.) */
#include "cpu/cpu.h"
#include "cpu/product.h"

/* C: rows of a chunk.  BLOCK: rows of a block of its triangles, and the multiple to which widths are rounded
 * up */
enum { C = 64, BLOCK = 16 };

/* Calls prod() without transposing.  Inlined at each call, prod() would take a hundred kilobytes of code. */
static void product(int m, int n, int kd, const float *a, int lda, const float *b, int ldb, float *c, int ldc,
                    enum prod_mode mode)
{
	prod(false, m, n, kd, a, lda, b, ldb, c, ldc, mode);
}

/* Transposes x (m, n) to t (n, ldt).  m is a multiple of 4, and n is rounded up to a multiple of 4: beyond n
 * both matrices have padding.  Exchanges halves of 4 x 4 squares, which is faster than single numbers. */
static void transpose(const float *x, int m, int n, int ldx, float *t, int ldt)
{
	typedef float v4 __attribute__((vector_size(16)));
	typedef float v4u __attribute__((vector_size(16), aligned(4), may_alias));

	for (int i = 0; i < m; i += 4)
		for (int j = 0; j < n; j += 4) {
			const float *p = x + i * ldx + j;
			float *q = t + j * ldt + i;
			v4 a = *(const v4u *)p, b = *(const v4u *)(p + ldx), c = *(const v4u *)(p + 2 * ldx),
			   d = *(const v4u *)(p + 3 * ldx);
			v4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
			   cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);

			*(v4u *)q = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
			*(v4u *)(q + ldt) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
			ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
			cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
			*(v4u *)(q + 2 * ldt) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
			*(v4u *)(q + 3 * ldt) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
		}
}

/* The memory for one head of one chunk.  KP, VP: widths rounded up to a multiple of 16; the padding is
 * zero. */
struct chunk {
	int K, V, KP, VP, m, mp; /* m: rows; mp: m rounded up to a multiple of 16 */
	int known;               /* rows whose k and u are known */
	bool from_log;           /* kt, u and g begin with the log's rows, which precede a
	                                      rollout */
	bool decay;
	float *q, *k, *kt, *qt; /* (C, KP), (C, KP), (KP, C), (KP, C) */
	float *u, *o, *S;       /* (C, VP), (C, VP), (KP, VP) */
	float *Sn;              /* (KP, VP): a state within the chunk, or its gradient */
	float *A, *P;           /* (C, C) */
	float *beta, *sig;      /* (C): beta, and sigmoid(b) */
	/* (C): c = hi + lo, which keeps differences of large sums exact; e = exp(c) */
	float *g, *hi, *lo, *e;
	/* backward */
	float *d_o, *du, *dv, *ut, *dq, *dk, *dS, *ST, *dST, *X, *Y, *T;
	float *states; /* the states at the chunks' first rows, (KP, VP) each */
};

static float *take_floats(float **at, size_t n)
{
	float *p = *at;
	*at += (n + BLOCK - 1) / BLOCK * BLOCK;
	return p;
}

/* Places a chunk's arrays in memory at `at` and returns their size in floats; at NULL: only counts.  chunks:
 * the number of chunks whose first state is kept. */
static size_t place_chunk(struct chunk *c, int K, int V, bool back, int chunks, float *at)
{
	float *p = at;

	c->K = K;
	c->V = V;
	c->KP = (K + BLOCK - 1) / BLOCK * BLOCK;
	c->VP = (V + BLOCK - 1) / BLOCK * BLOCK;
	size_t ck = (size_t)C * (size_t)c->KP, cv = (size_t)C * (size_t)c->VP,
	       kv = (size_t)c->KP * (size_t)c->VP;

	c->q = take_floats(&p, ck);
	c->k = take_floats(&p, ck);
	c->kt = take_floats(&p, ck);
	c->u = take_floats(&p, cv);
	c->o = take_floats(&p, cv);
	c->S = take_floats(&p, kv);
	c->Sn = take_floats(&p, kv);
	c->A = take_floats(&p, C * C);
	c->P = take_floats(&p, C * C);
	c->beta = take_floats(&p, C);
	c->sig = take_floats(&p, C);
	c->g = take_floats(&p, C);
	c->hi = take_floats(&p, C);
	c->lo = take_floats(&p, C);
	c->e = take_floats(&p, C);
	if (back) {
		c->qt = take_floats(&p, ck);
		c->d_o = take_floats(&p, cv);
		c->du = take_floats(&p, cv);
		c->dv = take_floats(&p, cv);
		c->ut = take_floats(&p, cv);
		c->dq = take_floats(&p, ck);
		c->dk = take_floats(&p, ck);
		c->dS = take_floats(&p, kv);
		c->ST = take_floats(&p, kv);
		c->dST = take_floats(&p, kv);
		c->X = take_floats(&p, C * C);
		c->Y = take_floats(&p, C * C);
		c->T = take_floats(&p, ck);
		c->states = take_floats(&p, kv * (size_t)chunks);
	}
	return (size_t)(p - at);
}

/* Returns where row j of head h of sequence b begins in an array (rows, H, w): it is row j nb + b. */
static size_t row_offset(int w, int H, int h, int nb, int b, int j)
{
	return (((size_t)j * (size_t)nb + (size_t)b) * (size_t)H + (size_t)h) * (size_t)w;
}

/* Copies m rows from row j on, of head h of sequence b, from an array (rows, H, w) into `to` (m, wp), padded
 * with zeros. */
static void copy_in(float *to, int wp, int m, const float *from, int w, int H, int h, int nb, int b, int j)
{
	for (int i = 0; i < m; i++) {
		const float *row = from + row_offset(w, H, h, nb, b, j + i);

		for (int l = 0; l < wp; l += VL)
			vstore(to + i * wp + l, l < w ? vget(row, l, w) : vset(0));
	}
}

static void copy_out(float *to, int w, int H, int h, int nb, int b, int j, int m, const float *from, int wp,
                     bool add)
{
	for (int i = 0; i < m; i++) {
		float *row = to + row_offset(w, H, h, nb, b, j + i);

		for (int l = 0; l < w; l += VL)
			vput(row, l, w,
			     add ? vget(row, l, w) + vload(from + i * wp + l) : vload(from + i * wp + l));
	}
}

static void clear_rows(float *x, int wp, int from, int to)
{
	if (from < to)
		memset(x + from * wp, 0, (size_t)(to - from) * (size_t)wp * 4);
}

static void load_state(float *to, int VP, const float *from, int K, int V)
{
	for (int i = 0; i < K; i++) {
		memcpy(to + i * VP, from + i * V, (size_t)V * 4);
		memset(to + i * VP + V, 0, (size_t)(VP - V) * 4);
	}
}

static void store_state(float *to, int V, const float *from, int K, int VP)
{
	for (int i = 0; i < K; i++)
		memcpy(to + i * V, from + i * VP, (size_t)V * 4);
}

/* Copies rows from .. to - 1 of k to columns of kt. */
static void transpose_keys(struct chunk *c, int from, int to)
{
	while (from < to)
		if (from % BLOCK == 0 && from + BLOCK <= to) {
			transpose(c->k + from * c->KP, BLOCK, c->K, c->KP, c->kt + from, C);
			from += BLOCK;
		} else {
			for (int j = 0; j < c->K; j++)
				c->kt[j * C + from] = c->k[from * c->KP + j];
			from++;
		}
}

/* ---- the decay ----------------------------------------------------------------------------- */

/* Returns e^x, but 0 for x < -70, since products with numbers near 1e-38 are slow. */
INLINE vf fade(vf x) { return vpick(vless(x, vset(-70.f)), vset(0), vexp(x)); }

/* Return exp(c_t - c_s).  decay_since: for a vector of s from s on.  decay_until: for a vector of t from t
 * on. */
INLINE vf decay_since(const struct chunk *c, int t, int s)
{
	return fade(c->hi[t] - vload(c->hi + s) + (c->lo[t] - vload(c->lo + s)));
}
INLINE vf decay_until(const struct chunk *c, int t, int s)
{
	return fade(vload(c->hi + t) - c->hi[s] + (vload(c->lo + t) - c->lo[s]));
}

/* Computes c and e of all rows from g of the first m rows. */
static void sum_decays(struct chunk *c)
{
	double sum = 0;

	if (!c->decay)
		return;
	for (int j = 0; j < C; j++) {
		sum += j < c->m ? (double)c->g[j] : 0;
		c->hi[j] = (float)sum;
		c->lo[j] = (float)(sum - (double)c->hi[j]);
	}
	for (int j = 0; j < C; j += VL)
		vstore(c->e + j, fade(vload(c->hi + j) + vload(c->lo + j)));
}

/* scale_rows: multiplies each row from .. to - 1 of x (., n) by its factor.  set_decays_to: sets f to the
 * decay from each row to row `last`, and 0 after it. */
static void scale_rows(float *x, int n, int from, int to, const float *f)
{
	for (int i = from; i < to; i++)
		for (int j = 0; j < n; j += VL)
			vstore(x + i * n + j, f[i] * vload(x + i * n + j));
}

static void set_decays_to(const struct chunk *c, int last, float f[C])
{
	for (int s = 0; s < C; s += VL)
		vstore(f + s, s <= last ? decay_since(c, last, s) : vset(0));
}

/* ---- triangles ----------------------------------------------------------------------------- */

/* Computes x = a b' for a (., w) and bt = b' (w, .): rows from .. to - 1, columns up to the end of the
 * diagonal block of 16. */
static void prod_lower(int from, int to, int w, const float *a, int lda, const float *bt, float *x)
{
	for (int i = from, next; i < to; i = next) {
		int left = i / BLOCK * BLOCK;
		next = left + BLOCK < to ? left + BLOCK : to;
		product(next - i, left + BLOCK, w, a + i * lda, lda, bt, C, x + i * C, C, SET);
	}
}

/* Makes x a lower triangle (strict: without the diagonal), rows from .. to - 1, columns up to the end of the
 * diagonal block: multiplies by D and, unless f is NULL, each row by its f, and sets zeros above. */
static void make_lower(const struct chunk *c, float *x, int from, int to, bool strict, const float *f)
{
	for (int i = from; i < to; i++)
		for (int j = 0; j < i / BLOCK * BLOCK + BLOCK; j += VL) {
			vf y = vload(x + i * C + j);
			if (f)
				y *= f[i];
			if (c->decay)
				y *= decay_since(c, i, j);
			vstore(x + i * C + j, vpick(vless(__builtin_convertvector(vcount(), vf) + (float)j,
			                                  vset((float)(strict ? i : i + 1))),
			                            y, vset(0)));
		}
}

/* Does the same for x', which is upper: columns from the diagonal block on; f multiplies columns. */
static void make_upper(const struct chunk *c, float *x, bool strict, const float *f)
{
	for (int i = 0; i < c->mp; i++)
		for (int j = i / BLOCK * BLOCK; j < c->mp; j += VL) {
			vf y = vload(x + i * C + j);
			if (f)
				y *= vload(f + j);
			if (c->decay)
				y *= decay_until(c, j, i);
			vstore(x + i * C + j, vpick(vless(vset((float)(strict ? i : i - 1)),
			                                  __builtin_convertvector(vcount(), vf) + (float)j),
			                            y, vset(0)));
		}
}

/* Subtracts from row (n) the sum over rows from .. to - 1 of x, each times its number in a; n is a multiple
 * of 16. */
static void subtract_rows(const float *a, int from, int to, const float *x, int n, float *row)
{
	enum { NV = 4 };
	int j = 0;

	for (; j + NV * VL <= n; j += NV * VL) {
		vf r[NV];

		for (int v = 0; v < NV; v++)
			r[v] = vload(row + j + v * VL);
		for (int p = from; p < to; p++)
			for (int v = 0; v < NV; v++)
				r[v] -= a[p] * vload(x + p * n + j + v * VL);
		for (int v = 0; v < NV; v++)
			vstore(row + j + v * VL, r[v]);
	}
	for (; j < n; j += VL) {
		vf r = vload(row + j);

		for (int p = from; p < to; p++)
			r -= a[p] * vload(x + p * n + j);
		vstore(row + j, r);
	}
}

/* Solves (I + A) X = X in place for rows known .. m - 1, given the rows before them, block by block.  A is
 * strictly lower; X has n columns. */
static void solve_lower(const float *A, float *x, int n, int known, int m)
{
	for (int g = known / BLOCK * BLOCK; g < m; g += BLOCK) {
		int from = known > g ? known - g : 0, to = m - g < BLOCK ? m - g : BLOCK,
		    from4 = from / 4 * 4;

		if (g) /* A is 0 for the known rows */
			product((to + 3) / 4 * 4 - from4, n, g, A + (g + from4) * C, C, x, n,
			        x + (g + from4) * n, n, SUB);
		for (int i = from; i < to; i++)
			subtract_rows(A + (g + i) * C + g, 0, i, x + g * n, n, x + (g + i) * n);
	}
}

/* Solves (I + A') X = X in place, given AT = A' (strictly upper). */
static void solve_upper(const float *AT, float *x, int mp, int n)
{
	for (int g = mp - BLOCK; g >= 0; g -= BLOCK) {
		if (g + BLOCK < mp)
			product(BLOCK, n, mp - g - BLOCK, AT + g * C + g + BLOCK, C, x + (g + BLOCK) * n, n,
			        x + g * n, n, SUB);
		for (int i = BLOCK - 2; i >= 0; i--)
			subtract_rows(AT + (g + i) * C + g, i + 1, BLOCK, x + g * n, n, x + (g + i) * n);
	}
}

struct job {
	struct rf_dev *d;
	int nb, steps, decoded, n, H, G, K, V;
	float beta_scale;
	const float *q, *k, *v, *b, *g, *d_o;
	float *u, *o, *S, *open, *dq, *dk, *dv, *db, *dg, *dS;
	const int32_t *start, *open_rows, *cap_row, *cap_slot;
	int captures, log_from, chunks;
	struct {
		float *S, *k, *u, *g;
	} log;
};

static size_t slot_offset(const struct job *a, int s, int h)
{
	return ((size_t)s * (size_t)a->H + (size_t)h) * (size_t)a->K * (size_t)a->V;
}

static int key_head(const struct job *a, int h) { return h * a->G / a->H; }

/* Sets beta of rows from .. to - 1 of the chunk; they are rows j and following of b. */
static void load_beta(const struct job *a, struct chunk *c, int from, int to, int h, int b, int j)
{
	for (int i = from; i < to; i++) {
		vf s = vsigmoid(
			vset(a->b && i < c->m ? a->b[row_offset(1, a->H, h, a->nb, b, j + i - from)] : 0));

		c->sig[i] = s[0];
		c->beta[i] = i >= c->m ? 0 : a->b ? a->beta_scale * s[0] : a->beta_scale;
	}
}

/* Sets S to the state after row n-1 of the chunk; overwrites c->o. */
static void advance_state(struct chunk *c, float *S, int n)
{
	int K4 = (c->K + 3) / 4 * 4, VP = c->VP; /* rows of kt beyond K are never read back */
	const float *u = c->u;
	float f[C];

	if (c->decay) {
		set_decays_to(c, n - 1, f);
		for (int i = 0; i < n; i++)
			for (int j = 0; j < VP; j += VL)
				vstore(c->o + i * VP + j, f[i] * vload(c->u + i * VP + j));
		for (int i = 0; i < K4 * VP; i += VL)
			vstore(S + i, c->e[n - 1] * vload(S + i));
		u = c->o;
	}
	product(K4, VP, n, c->kt, C, u, VP, S, VP, ADD);
}

/* ---- forward ------------------------------------------------------------------------------- */

/* Loads the rows of a chunk that begins at row j0 of a sequence.  The first `open_rows` rows of the first
 * chunk come from slot ls of the log. */
static void load_rows(const struct job *a, struct chunk *c, int b, int h, int j0, int open_rows, int ls)
{
	int kh = key_head(a, h), before = j0 ? 0 : open_rows, own = j0 + before - open_rows,
	    fresh = j0 + c->known - open_rows - a->decoded;
	int from4 = c->known / 4 * 4, m4 = (c->m + 3) / 4 * 4;

	if (before && !c->from_log) {
		copy_in(c->k, c->KP, open_rows, a->log.k, a->K, a->G, kh, 1, 0, ls * C);
		copy_in(c->u, c->VP, open_rows, a->log.u, a->V, a->H, h, 1, 0, ls * C);
		transpose_keys(c, 0, open_rows);
		for (int i = 0; c->decay && i < open_rows; i++)
			c->g[i] = a->log.g[row_offset(1, a->H, h, 1, 0, ls * C + i)];
	}
	c->from_log = before > 0;
	copy_in(c->k + before * c->KP, c->KP, c->m - before, a->k, a->K, a->G, kh, a->nb, b, own);
	clear_rows(c->k, c->KP, c->m, m4);
	transpose_keys(c, before, c->m);
	copy_in(c->u + before * c->VP, c->VP, c->known - before, a->u, a->V, a->H, h, a->nb, b, own);
	for (int i = before; c->decay && i < c->m; i++)
		c->g[i] = a->g[row_offset(1, a->H, h, a->nb, b, own + i - before)];
	sum_decays(c);
	if (c->known == c->m)
		return;
	clear_rows(c->q, c->KP, from4, c->known);
	copy_in(c->q + c->known * c->KP, c->KP, c->m - c->known, a->q, a->K, a->G, kh, a->nb, b, fresh);
	clear_rows(c->q, c->KP, c->m, m4);
	load_beta(a, c, c->known, m4, h, b, fresh);
	for (int i = from4; i < c->known; i++)
		c->beta[i] = 0;
}

/* Computes rows known .. m - 1 of u and o; the first of these rows is row j of v and o. */
static void forward_rows(const struct job *a, struct chunk *c, const float *S, int b, int h, int j)
{
	int VP = c->VP, KP = c->KP, known = c->known, from = known / 4 * 4, to = (c->m + 3) / 4 * 4;

	prod_lower(from, to, c->K, c->k, KP, c->kt, c->A);
	prod_lower(from, to, c->K, c->q, KP, c->kt, c->P);
	make_lower(c, c->A, from, to, true, c->beta);
	make_lower(c, c->P, from, to, false, NULL);
	product(to - from, VP, c->K, c->k + from * KP, KP, S, VP, c->o + from * VP, VP, SET);
	for (int i = known; i < c->m; i++) {
		const float *v = a->v + row_offset(c->V, a->H, h, a->nb, b, j + i - known);
		float e = c->decay ? c->e[i] : 1;

		for (int l = 0; l < VP; l += VL)
			vstore(c->u + i * VP + l, c->beta[i] * ((l < c->V ? vget(v, l, c->V) : vset(0)) -
			                                        e * vload(c->o + i * VP + l)));
	}
	clear_rows(c->u, VP, c->m, to);
	product(to - from, VP, c->K, c->q + from * KP, KP, S, VP, c->o + from * VP, VP, SET);
	if (c->decay)
		scale_rows(c->o, VP, from, to, c->e);
	solve_lower(c->A, c->u, VP, known, c->m);
	for (int i = from, next; i < to; i = next) {
		next = i / BLOCK * BLOCK + BLOCK < to ? i / BLOCK * BLOCK + BLOCK : to;
		product(next - i, VP, next, c->P + i * C, C, c->u, VP, c->o + i * VP, VP, ADD);
	}
	copy_out(a->u, a->V, a->H, h, a->nb, b, a->decoded + j, c->m - known, c->u + known * VP, VP, false);
	copy_out(a->o, a->V, a->H, h, a->nb, b, j, c->m - known, c->o + known * VP, VP, false);
}

/* Copies the open chunk, as it is after its first n rows, to slot ls of the log. */
static void keep_log(const struct job *a, const struct chunk *c, const float *S, int ls, int h, int n)
{
	int kh = key_head(a, h);

	store_state(a->log.S + slot_offset(a, ls, h), a->V, S, a->K, c->VP);
	copy_out(a->log.u, a->V, a->H, h, 1, 0, ls * C, n, c->u, c->VP, false);
	if (!h || key_head(a, h - 1) != kh) /* the first of its heads */
		copy_out(a->log.k, a->K, a->G, kh, 1, 0, ls * C, n, c->k, c->KP, false);
	for (int i = 0; c->decay && i < n; i++)
		a->log.g[row_offset(1, a->H, h, 1, 0, ls * C + i)] = c->g[i];
}

/* Stores the state after n rows of the chunk, without changing the chunk. */
static void keep_state(const struct job *a, struct chunk *c, const float *S, float *to, int n)
{
	memcpy(c->Sn, S, (size_t)c->K * (size_t)c->VP * 4);
	advance_state(c, c->Sn, n);
	store_state(to, a->V, c->Sn, a->K, c->VP);
}

/* Computes one sequence, from the state S0 at the first row of its chunk. */
static void forward_sequence(const struct job *a, struct chunk *c, const float *S0, int b, int h,
                             int open_rows, int ls)
{
	/* rows of the sequence, counted from its chunk's first row: before: those before the new ones; end:
	 * all */
	int before = open_rows + a->decoded, end = before + a->steps, next = 0;
	int first = before > C ? (before - 1) / C * C : 0; /* the chunks before this row were filled */
	float *open = a->open ? a->open + slot_offset(a, b, h) : NULL;
	const float *S = open && first ? open : S0;

	if (a->V != c->VP) {
		load_state(c->S, c->VP, S, a->K, a->V);
		S = c->S;
	}
	for (int j0 = open ? first : 0; j0 < end; j0 += C) {
		c->m = end - j0 < C ? end - j0 : C;
		c->known = before < j0 ? 0 : before - j0 < c->m ? before - j0 : c->m;
		load_rows(a, c, b, h, j0, open_rows, ls);
		if (c->known < c->m)
			forward_rows(a, c, S, b, h, j0 + c->known - before);
		for (int i = next; i < a->captures && a->cap_row[i] < j0 + c->m; i++)
			if (a->log.S && a->cap_slot[i] >= a->log_from && (a->cap_row[i] + 1) % C)
				keep_log(a, c, S, a->cap_slot[i] - a->log_from, h, a->cap_row[i] + 1 - j0);
		for (; next < a->captures && a->cap_row[next] < j0 + c->m - 1; next++)
			keep_state(a, c, S, a->S + slot_offset(a, a->cap_slot[next], h),
			           a->cap_row[next] + 1 - j0);
		if (j0 + C >= end && next == a->captures)
			break;
		if (S != c->S)
			memcpy(c->S, S, (size_t)a->K * (size_t)a->V * 4);
		S = c->S;
		advance_state(c, c->S, c->m);
		if (open && c->known == C)
			store_state(open, a->V, S, a->K, c->VP);
		for (; next < a->captures && a->cap_row[next] == j0 + c->m - 1; next++)
			store_state(a->S + slot_offset(a, a->cap_slot[next], h), a->V, S, a->K, c->VP);
	}
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	int h = tile % a->H, group = tile / a->H;
	int s = a->start ? a->start[group] : 0, open_rows = a->open_rows ? a->open_rows[group] : 0;
	const float *S0 =
		open_rows ? a->log.S + slot_offset(a, s - a->log_from, h) : a->S + slot_offset(a, s, h);
	struct chunk c = { .decay = a->g };
	float *mem = rf_cpu_scratch(a->d, thread, place_chunk(&c, a->K, a->V, false, 0, NULL) * 4);

	if (!mem)
		return;
	place_chunk(&c, a->K, a->V, false, 0, mem);
	clear_rows(c.kt, C, a->K, c.KP);
	for (int b = group * a->n; b < (group + 1) * a->n && b < a->nb; b++)
		forward_sequence(a, &c, S0, b, h, open_rows, s - a->log_from);
}

/* ---- backward ------------------------------------------------------------------------------ */

/* Adds f times a slot's gradient to dS. */
static void add_state(float *dS, int VP, const float *from, int K, int V, float f)
{
	for (int i = 0; i < K; i++)
		for (int j = 0; j < V; j += VL)
			vstore(dS + i * VP + j,
			       vload(dS + i * VP + j) + f * vload_n(from + i * V + j, LEFT(j, V), 0));
}

static float row_dot(const float *x, const float *y, int n)
{
	vf s = vset(0);

	for (int j = 0; j < n; j += VL)
		s += vload(x + j) * vload(y + j);
	return vsum(s);
}

/* Adds the contribution of a state that was captured after n rows, with gradient `from`, to du, dk and dc;
 * overwrites dv, T and dST. */
static void back_capture(struct chunk *c, const float *from, int n, double *dc)
{
	int VP = c->VP, KP = c->KP, n4 = (n + 3) / 4 * 4;
	float f[C];

	load_state(c->Sn, VP, from, c->K, c->V);
	transpose(c->Sn, KP, c->V, VP, c->dST, KP);
	/* S_n = e S + sum over rows < n of f k u' */
	product(n4, VP, c->K, c->k, KP, c->Sn, VP, c->dv, VP, SET);
	product(n4, KP, c->V, c->u, VP, c->dST, KP, c->T, KP, SET);
	if (c->decay) {
		set_decays_to(c, n - 1, f);
		scale_rows(c->dv, VP, 0, n, f);
		scale_rows(c->T, KP, 0, n, f);
		for (int r = 0; r < n; r++) {
			double z = (double)row_dot(c->u + r * VP, c->dv + r * VP, VP);
			dc[r] -= z;
			dc[n - 1] += z;
		}
		for (int i = 0; i < c->K; i++)
			dc[n - 1] += (double)(c->e[n - 1] * row_dot(c->S + i * VP, c->Sn + i * VP, VP));
	}
	for (int i = 0; i < n * VP; i += VL)
		vstore(c->du + i, vload(c->du + i) + vload(c->dv + i));
	for (int i = 0; i < n * KP; i += VL)
		vstore(c->dk + i, vload(c->dk + i) + vload(c->T + i));
}

/* Adds to dc the contribution of D: x and y are upper triangles, one holding elements that have the factor
 * D_ts and the other their gradients. */
static void back_decay(const struct chunk *c, const float *x, const float *y, double sign, double *dc)
{
	vf column[C / VL] = { 0 };

	for (int s = 0; s < c->mp; s++) {
		vf row = vset(0);
		for (int t = s / VL * VL; t < c->mp; t += VL) {
			vf z = vpick(vless(vset((float)s), __builtin_convertvector(vcount(), vf) + (float)t),
			             vload(x + s * C + t) * vload(y + s * C + t), vset(0));
			row += z;
			column[t / VL] += z;
		}
		dc[s] -= sign * (double)vsum(row);
	}
	for (int t = 0; t < c->mp; t++)
		dc[t] += sign * (double)column[t / VL][t % VL];
}

/* The backward pass of a chunk: one function for each line of the equations above.  The table says what each
 * buffer holds after each step; a blank: the buffer does not change.  W = diag(beta) dR; with a decay, e and
 * D differ from 1.
 *
 *           back_update      solve_dR   back_output    back_keys                back_state
 *     A     A', upper
 *     P     P', upper
 *     du    dU               dR
 *     dv    scratch          W          diag(e) W
 *     d_o                               diag(e) dO
 *     dq                                dQ
 *     dk    diag(f) U dS'               + (D * X)' Q   dK
 *     X                                 D * X          - (D * Z + (D * Z)')
 *     Y                                 (D * X)'       - (D * Z)'
 *     T     scratch                                    diag(e) W S'
 *     dS                                                                        of the first state
 *
 * dc: the gradient of c, to which each step adds. */

/* Computes dU = P' dO + diag(f) K dS and begins with dK = diag(f) U dS' + ...; both have the terms of
 * captures.  next: the last capture before the chunk's last row; becomes the last capture before the
 * chunk. */
static void back_update(const struct job *a, struct chunk *c, int h, int j0, int *next, double *dc)
{
	int mp = c->mp, VP = c->VP, KP = c->KP;
	float f[C];

	transpose(c->q, mp, c->K, KP, c->qt, C);
	transpose(c->u, mp, c->V, VP, c->ut, C);
	transpose(c->S, KP, c->V, VP, c->ST, KP);
	transpose(c->dS, KP, c->V, VP, c->dST, KP);

	/* A' and P' are upper: A[j][i] = k_j . k_i beta_i for i > j; a block of rows has the columns from its
	 * diagonal on */
	for (int i = 0; i < mp; i += BLOCK) {
		product(BLOCK, mp - i, c->K, c->k + i * KP, KP, c->kt + i, C, c->A + i * C + i, C, SET);
		product(BLOCK, mp - i, c->K, c->k + i * KP, KP, c->qt + i, C, c->P + i * C + i, C, SET);
	}
	make_upper(c, c->A, true, c->beta);
	make_upper(c, c->P, false, NULL);
	product(mp, VP, c->K, c->k, KP, c->dS, VP, c->du, VP, SET);
	product(mp, KP, c->V, c->u, VP, c->dST, KP, c->dk, KP, SET);
	if (c->decay) {
		set_decays_to(c, c->m - 1, f);
		scale_rows(c->du, VP, 0, mp, f);
		scale_rows(c->dk, KP, 0, mp, f);
		for (int i = 0; i < c->m; i++) {
			double z = (double)row_dot(c->k + i * KP, c->dk + i * KP, KP);
			dc[i] -= z;
			dc[c->m - 1] += z;
		}
		for (int i = 0; i < a->K; i++)
			dc[c->m - 1] += (double)(c->e[c->m - 1] * row_dot(c->S + i * VP, c->dS + i * VP, VP));
	}
	for (int i = 0; i < mp; i += BLOCK)
		product(BLOCK, VP, mp - i, c->P + i * C + i, C, c->d_o + i * VP, VP, c->du + i * VP, VP, ADD);
	for (; *next >= 0 && a->cap_row[*next] >= j0; (*next)--)
		back_capture(c, a->dS + slot_offset(a, a->cap_slot[*next], h), a->cap_row[*next] - j0 + 1,
		             dc);
}

/* Solves (I + A)' dR = dU; stores dV = W and the gradient of b. */
static void solve_dR(const struct job *a, struct chunk *c, int b, int h, int j0)
{
	int mp = c->mp, VP = c->VP;

	solve_upper(c->A, c->du, mp, VP);
	for (int i = 0; i < mp; i++) {
		vf s = vset(0);
		for (int j = 0; j < VP; j += VL) {
			vf r = vload(c->du + i * VP + j);
			s += r * vload(c->u + i * VP + j);
			vstore(c->dv + i * VP + j, c->beta[i] * r);
		}
		if (a->db && i < c->m) /* dbeta / db = beta (1 - sigmoid(b)) */
			a->db[row_offset(1, a->H, h, a->nb, b, j0 + i)] = vsum(s) * (1 - c->sig[i]);
	}
	copy_out(a->dv, a->V, a->H, h, a->nb, b, j0, c->m, c->dv, VP, false);
}

/* Computes X = lower dO U', dQ = diag(e) dO S' + (D * X) K and the second term of dK, (D * X)' Q. */
static void back_output(struct chunk *c, double *dc)
{
	int mp = c->mp, VP = c->VP, KP = c->KP;

	prod_lower(0, mp, c->V, c->d_o, VP, c->ut, c->X);
	transpose(c->X, mp, mp, C, c->Y, C);
	if (c->decay) {
		back_decay(c, c->Y, c->P, 1, dc);
		scale_rows(c->d_o, VP, 0, mp, c->e);
		scale_rows(c->dv, VP, 0, mp, c->e);
	}
	make_lower(c, c->X, 0, mp, false, NULL);
	make_upper(c, c->Y, false, NULL);
	product(mp, KP, c->V, c->d_o, VP, c->ST, KP, c->dq, KP, SET);
	for (int i = 0; c->decay && i < mp; i++)
		dc[i] += (double)row_dot(c->q + i * KP, c->dq + i * KP, KP);
	for (int i = 0; i < mp; i += BLOCK)
		product(BLOCK, KP, i + BLOCK, c->X + i * C, C, c->k, KP, c->dq + i * KP, KP, ADD);
	for (int i = 0; i < mp; i += BLOCK)
		product(BLOCK, KP, mp - i, c->Y + i * C + i, C, c->q + i * KP, KP, c->dk + i * KP, KP, ADD);
}

/* Computes Z and the last terms of dK: - diag(e) W S' + (D * Z + (D * Z)') K. */
static void back_keys(struct chunk *c, double *dc)
{
	int mp = c->mp, VP = c->VP, KP = c->KP;

	if (c->decay) {
		product(mp, KP, c->V, c->dv, VP, c->ST, KP, c->T, KP, SET);
		for (int i = 0; i < mp; i++) {
			dc[i] -= (double)row_dot(c->k + i * KP, c->T + i * KP, KP);
			for (int j = 0; j < KP; j += VL)
				vstore(c->dk + i * KP + j,
				       vload(c->dk + i * KP + j) - vload(c->T + i * KP + j));
		}
	} else {
		product(mp, KP, c->V, c->dv, VP, c->ST, KP, c->dk, KP, SUB);
	}
	prod_lower(0, mp, c->V, c->du, VP, c->ut, c->X); /* - Z, still without beta and D */
	transpose(c->X, mp, mp, C, c->Y, C);
	if (c->decay)
		back_decay(c, c->Y, c->A, -1, dc);
	make_lower(c, c->X, 0, mp, true, c->beta);
	make_upper(c, c->Y, true, c->beta);
	for (int i = 0; i < mp; i++) /* - (Z + Z'), both triangles */
		for (int j = i / VL * VL; j < mp; j += VL)
			vstore(c->X + i * C + j, j > i ? vload(c->Y + i * C + j)
			                               : vload(c->X + i * C + j) + vload(c->Y + i * C + j));
	product(mp, KP, mp, c->X, C, c->k, KP, c->dk, KP, SUB);
}

/* Computes dS <- e_m dS + Q' diag(e) dO - K' diag(e) W, including the chunk's captures: those after
 * `before`, up to `last`. */
static void back_state(const struct job *a, struct chunk *c, int h, int j0, int before, int last)
{
	int mp = c->mp, VP = c->VP, K4 = (c->K + 3) / 4 * 4;

	for (int i = 0; c->decay && i < K4 * VP; i += VL)
		vstore(c->dS + i, c->e[c->m - 1] * vload(c->dS + i));
	product(K4, VP, mp, c->qt, C, c->d_o, VP, c->dS, VP, ADD);
	product(K4, VP, mp, c->kt, C, c->dv, VP, c->dS, VP, SUB);
	for (int i = last; i > before; i--)
		add_state(c->dS, VP, a->dS + slot_offset(a, a->cap_slot[i], h), a->K, a->V,
		          c->decay ? c->e[a->cap_row[i] - j0] : 1);
}

/* Computes the gradients of a chunk.  c->dS: the gradient of the state after the chunk; becomes that of the
 * state at its first row.  next: the last capture that is not after the chunk; becomes the last capture
 * before the chunk. */
static void backward_chunk(const struct job *a, struct chunk *c, int b, int h, int j0, int *next)
{
	int last, kh = key_head(a, h);
	bool shared = h && key_head(a, h - 1) == kh; /* dq and dk are sums over the heads of v */
	double dc[C] = { 0 };

	for (; *next >= 0 && a->cap_row[*next] == j0 + c->m - 1; (*next)--)
		add_state(c->dS, c->VP, a->dS + slot_offset(a, a->cap_slot[*next], h), a->K, a->V, 1);
	last = *next;
	back_update(a, c, h, j0, next, dc);
	solve_dR(a, c, b, h, j0);
	back_output(c, dc);
	back_keys(c, dc);
	back_state(a, c, h, j0, *next, last);
	copy_out(a->dq, a->K, a->G, kh, a->nb, b, j0, c->m, c->dq, c->KP, shared);
	copy_out(a->dk, a->K, a->G, kh, a->nb, b, j0, c->m, c->dk, c->KP, shared);
	if (c->decay)
		for (int i = c->m - 1; i >= 0; i--) {
			if (i < c->m - 1)
				dc[i] += dc[i + 1];
			a->dg[row_offset(1, a->H, h, a->nb, b, j0 + i)] = (float)dc[i];
		}
}

/* Loads the arrays that the backward pass of a chunk reads.  only_keys: loads only k, u and g. */
static void load_back_rows(const struct job *a, struct chunk *c, int b, int h, int j0, bool only_keys)
{
	int kh = key_head(a, h);

	c->m = a->steps - j0 < C ? a->steps - j0 : C;
	c->mp = (c->m + BLOCK - 1) / BLOCK * BLOCK;
	copy_in(c->k, c->KP, c->m, a->k, a->K, a->G, kh, a->nb, b, j0);
	copy_in(c->u, c->VP, c->m, a->u, a->V, a->H, h, a->nb, b, j0);
	clear_rows(c->k, c->KP, c->m, c->mp);
	clear_rows(c->u, c->VP, c->m, c->mp);
	transpose(c->k, c->mp, c->K, c->KP, c->kt, C);
	for (int i = 0; c->decay && i < c->m; i++)
		c->g[i] = a->g[row_offset(1, a->H, h, a->nb, b, j0 + i)];
	sum_decays(c);
	if (only_keys)
		return;
	copy_in(c->q, c->KP, c->m, a->q, a->K, a->G, kh, a->nb, b, j0);
	copy_in(c->d_o, c->VP, c->m, a->d_o, a->V, a->H, h, a->nb, b, j0);
	clear_rows(c->q, c->KP, c->m, c->mp);
	clear_rows(c->d_o, c->VP, c->m, c->mp);
	load_beta(a, c, 0, c->mp, h, b, j0);
}

/* Computes the gradients of one head and all sequences of a group. */
static void backward_group(const struct job *a, struct chunk *c, int group, int h)
{
	size_t s0 = slot_offset(a, a->start ? a->start[group] : 0, h), kv = (size_t)c->KP * (size_t)c->VP;
	int next = a->captures - 1;

	for (int b = group * a->n; b < (group + 1) * a->n && b < a->nb; b++) {
		load_state(c->states, c->VP, a->S + s0, a->K, a->V);
		for (int i = 0; i + 1 < a->chunks; i++) {
			float *S = c->states + (size_t)(i + 1) * kv;

			load_back_rows(a, c, b, h, i * C, true);
			memcpy(S, S - kv, kv * 4);
			advance_state(c, S, C);
		}
		memset(c->dS, 0, kv * 4);
		for (int i = a->chunks - 1; i >= 0; i--) {
			c->S = c->states + (size_t)i * kv;
			load_back_rows(a, c, b, h, i * C, false);
			backward_chunk(a, c, b, h, i * C, &next);
		}
		for (int i = 0; i < a->K; i++)
			for (int j = 0; j < a->V; j++)
				a->dS[s0 + (size_t)i * (size_t)a->V + (size_t)j] += c->dS[i * c->VP + j];
	}
}

/* Computes one head of q and k and the heads of v that share it, in order. */
static void bwd_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	int kh = tile % a->G, group = tile / a->G;
	struct chunk c = { .decay = a->g };
	float *mem = rf_cpu_scratch(a->d, thread, place_chunk(&c, a->K, a->V, true, a->chunks, NULL) * 4);

	if (!mem)
		return;
	place_chunk(&c, a->K, a->V, true, a->chunks, mem);
	clear_rows(c.kt, C, a->K, c.KP);
	clear_rows(c.qt, C, a->K, c.KP);
	clear_rows(c.states, c.VP, a->K, c.KP);
	clear_rows(c.Sn, c.VP, a->K, c.KP);
	for (int h = kh * (a->H / a->G); h < (kh + 1) * (a->H / a->G); h++)
		backward_group(a, &c, group, h);
}

void KERNEL(delta_fwd)(struct rf_dev *d, const struct rf_delta_fwd *x)
{
	int n = x->n ? x->n : 1;
	struct job a = {
		/* clang-format off */
		.d = d, .nb = x->nb, .steps = x->steps, .decoded = x->decoded, .n = n, .H = x->H, .G = x->G,
		.K = x->K, .V = x->V,
		.beta_scale = x->beta_scale, .q = cpu_f32(d, x->q), .k = cpu_f32(d, x->k),
		/* clang-format on */
		.v = cpu_f32(d, x->v),
		.b = cpu_f32(d, x->b),
		.g = cpu_f32(d, x->g),
		.u = cpu_f32(d, x->u),
		.o = cpu_f32(d, x->o),
		.S = cpu_f32(d, x->S),
		.open = cpu_f32(d, x->open),
		.start = cpu_i32(d, x->start),
		.open_rows = cpu_i32(d, x->open_rows),
		.captures = x->captures,
		.log_from = x->log_from,
		.cap_row = cpu_i32(d, x->cap_row),
		.cap_slot = cpu_i32(d, x->cap_slot),
		.log = { cpu_f32(d, x->log.S), cpu_f32(d, x->log.k), cpu_f32(d, x->log.u),
		         cpu_f32(d, x->log.g) },
	};

	cpu_tiles(d, (x->nb + n - 1) / n * x->H, fwd_tile, &a);
}

void KERNEL(delta_bwd)(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	int n = x->n ? x->n : 1;
	struct job a = {
		/* clang-format off */
		.d = d, .nb = x->nb, .steps = x->steps, .n = n, .H = x->H, .G = x->G, .K = x->K,
		.V = x->V,
		.beta_scale = x->beta_scale, .q = cpu_f32(d, x->q), .k = cpu_f32(d, x->k),
		.v = cpu_f32(d, x->v),
		.b = cpu_f32(d, x->b), .g = cpu_f32(d, x->g), .u = cpu_f32(d, x->u),
		.d_o = cpu_f32(d, x->d_o), .S = cpu_f32(d, x->S),
		.dq = cpu_f32(d, x->dq), .dk = cpu_f32(d, x->dk), .dv = cpu_f32(d, x->dv),
		/* clang-format on */
		.db = cpu_f32(d, x->db),
		.dg = cpu_f32(d, x->dg),
		.dS = cpu_f32(d, x->dS),
		.start = cpu_i32(d, x->start),
		.captures = x->captures,
		.cap_row = cpu_i32(d, x->cap_row),
		.cap_slot = cpu_i32(d, x->cap_slot),
		.chunks = (x->steps + C - 1) / C,
	};

	cpu_tiles(d, (x->nb + n - 1) / n * x->G, bwd_tile, &a);
}
