/* delta.c -- the delta rule in chunks of C = 64 rows, forward and backward, one head at a time.
 *
 *     u_t = beta_t (v_t - S_{t-1}' k_t),  S_t = S_{t-1} + k_t u_t',  o_t = S_t' q_t
 *
 * Yang et al. 2024, arXiv:2406.06484, section 3.2.  Within a chunk that begins with state S, in matrices of m rows:
 *
 *     (I + A) U = diag(beta) (V - K S),   A = strict lower triangle of diag(beta) K K'
 *     O = Q S + P U,                      P = lower triangle of Q K'
 *     S <- S + K' U
 *
 * The paper's W = (I + A)^-1 diag(beta) K is never formed: the triangular system is solved for U itself, by blocks of
 * 16 rows.  Going back, with dO and the gradient dS of the chunk's last state:
 *
 *     dU = P' dO + K dS,   (I + A)' dR = dU,   G = - strict lower triangle of diag(beta) dR U'
 *     dV = diag(beta) dR,  beta dbeta = rows of dR . U
 *     dQ = dO S' + (lower dO U') K
 *     dK = U dS' + (lower dO U')' Q - dV S' + (G + G') K
 *     dS <- dS + Q' dO - K' dV
 *
 * so the forward pass keeps U and nothing else; the chunks' first states are summed up again from K and U. */
#include "cpu.h"
#include "vec.h"

enum { C = 64 };

#if defined(__AVX512F__)
enum { NZ = 4 };  /* 4 x 4 accumulators, 4 columns of B: half the registers are left for the rest */
#else
enum { NZ = 2 };
#endif

enum mode { SET, ADD, SUB };

/* C (4, 16 nz) = or += or -= A (4, kd) B (kd, 16 nz); nz is a constant where this is inlined. */
INLINE void block(int kd, int nz, const float *a, int lda, const float *b, int ldb, float *c, int ldc, enum mode mode)
{
	vf s[4][NZ];

	for (int i = 0; i < 4; i++)
		for (int j = 0; j < nz; j++)
			s[i][j] = vset(0);
	for (int p = 0; p < kd; p++, b += ldb)
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
			for (int j = 0; j < nz; j++)
				s[i][j] += a[i * lda + p] * vload(b + VL * j);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < nz; j++) {
			float *q = c + i * ldc + VL * j;
			vstore(q, mode == SET ? s[i][j] : mode == ADD ? vload(q) + s[i][j] : vload(q) - s[i][j]);
		}
}

/* C (m, n) = or += or -= A (m, kd) B (kd, n); m a multiple of 4, n of 16. */
static void prod(int m, int n, int kd, const float *a, int lda, const float *b, int ldb, float *c, int ldc, enum mode mode)
{
	int j = 0;

	for (; j + VL * NZ <= n; j += VL * NZ)
		for (int i = 0; i < m; i += 4)
			block(kd, NZ, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, mode);
	for (; j < n; j += VL)
		for (int i = 0; i < m; i += 4)
			block(kd, 1, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, mode);
}

/* t (n, ldt) = x' for x (m, n), m and n multiples of 16 */
static void transpose(const float *x, int m, int n, int ldx, float *t, int ldt)
{
	for (int i = 0; i < m; i += VL)
		for (int j = 0; j < n; j++) {
			vf y;
			for (int l = 0; l < VL; l++)
				y[l] = x[(i + l) * ldx + j];
			vstore(t + j * ldt + i, y);
		}
}

/* What one head of one chunk needs; KP, VP: widths rounded up to 16, the rest zeros. */
struct chunk {
	int K, V, KP, VP, m, mp;           /* m rows, rounded up to 16: mp */
	float *q, *k, *kt, *qt;            /* (C, KP), (C, KP), (KP, C), (KP, C) */
	float *u, *o, *S;                  /* (C, VP), (C, VP), (KP, VP) */
	float *A, *P;                      /* (C, C) */
	float *beta, *sig;                 /* (C): beta, and sigmoid(b) */
	/* backward */
	float *d_o, *du, *dv, *ut, *dq, *dk, *dS, *ST, *dST, *X, *Y;
	float *states;                     /* the first states of the chunks, (KP, VP) each */
};

static float *take(float **at, size_t n)
{
	float *p = *at;
	*at += (n + VL - 1) / VL * VL;
	return p;
}

/* Lays a chunk out in memory (at NULL: only counts); returns floats.  chunks: first states to keep. */
static size_t layout(struct chunk *c, int K, int V, bool back, int chunks, float *at)
{
	float *p = at;

	c->K = K;
	c->V = V;
	c->KP = (K + VL - 1) / VL * VL;
	c->VP = (V + VL - 1) / VL * VL;
	size_t ck = (size_t)C * (size_t)c->KP, cv = (size_t)C * (size_t)c->VP, kv = (size_t)c->KP * (size_t)c->VP;

	c->q = take(&p, ck);
	c->k = take(&p, ck);
	c->kt = take(&p, ck);
	c->u = take(&p, cv);
	c->o = take(&p, cv);
	c->S = take(&p, kv);
	c->A = take(&p, C * C);
	c->P = take(&p, C * C);
	c->beta = take(&p, C);
	c->sig = take(&p, C);
	if (back) {
		c->qt = take(&p, ck);
		c->d_o = take(&p, cv);
		c->du = take(&p, cv);
		c->dv = take(&p, cv);
		c->ut = take(&p, cv);
		c->dq = take(&p, ck);
		c->dk = take(&p, ck);
		c->dS = take(&p, kv);
		c->ST = take(&p, kv);
		c->dST = take(&p, kv);
		c->X = take(&p, C * C);
		c->Y = take(&p, C * C);
		c->states = take(&p, kv * (size_t)chunks);
	}
	return (size_t)(p - at);
}

/* Rows j0 .. j0+m of head h of sequence b: from (R, H, w) into (mp, wp), zeros around. */
static void load(float *to, int wp, int mp, const float *from, int w, int H, int h, int nb, int b, int j0, int m)
{
	for (int j = 0; j < m; j++) {
		memcpy(to + j * wp, from + ((size_t)(j0 + j) * (size_t)nb + (size_t)b) * (size_t)H * (size_t)w + (size_t)h * (size_t)w, (size_t)w * 4);
		memset(to + j * wp + w, 0, (size_t)(wp - w) * 4);
	}
	memset(to + m * wp, 0, (size_t)(mp - m) * (size_t)wp * 4);
}

static void store(float *to, int w, int H, int h, int nb, int b, int j0, int m, const float *from, int wp)
{
	for (int j = 0; j < m; j++)
		memcpy(to + ((size_t)(j0 + j) * (size_t)nb + (size_t)b) * (size_t)H * (size_t)w + (size_t)h * (size_t)w, from + j * wp, (size_t)w * 4);
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

static void load_beta(struct chunk *c, const float *b, float scale, int H, int h, int nb, int seq, int j0)
{
	for (int j = 0; j < c->mp; j++) {
		float x = j < c->m && b ? b[((size_t)(j0 + j) * (size_t)nb + (size_t)seq) * (size_t)H + (size_t)h] : 0;
		vf s = vsigmoid(vset(x));
		c->sig[j] = s[0];
		c->beta[j] = j >= c->m ? 0 : b ? scale * s[0] : scale;
	}
}

/* x (mp, mp): rows i keep columns j <= i (or < i), times row factor f if given; zeros beyond, up to the diagonal block. */
static void lower(float *x, int mp, bool strict, const float *f)
{
	for (int i = 0; i < mp; i++)
		for (int j = 0; j < (i / VL + 1) * VL; j++)
			x[i * C + j] = (strict ? j < i : j <= i) ? (f ? f[i] : 1) * x[i * C + j] : 0;
}

/* x (mp, up to the diagonal block of 16 columns) = a (mp, w) bt (w, mp), the part that a lower triangle needs */
static void prod_lower(int mp, int w, const float *a, int lda, const float *bt, float *x, enum mode mode)
{
	for (int i = 0; i < mp; i += VL)
		prod(VL, i + VL, w, a + i * lda, lda, bt, C, x + i * C, C, mode);
}

/* Solves (I + A) X = X in place, A strictly lower, 16 rows at a time; n columns. */
static void solve_lower(const float *A, float *x, int mp, int n)
{
	for (int g = 0; g < mp; g += VL) {
		if (g)
			prod(VL, n, g, A + g * C, C, x, n, x + g * n, n, SUB);
		for (int j = 0; j < n; j += VL) {
			vf r[VL];
#pragma GCC unroll 16
			for (int i = 0; i < VL; i++) {
				r[i] = vload(x + (g + i) * n + j);
#pragma GCC unroll 16
				for (int p = 0; p < i; p++)
					r[i] -= A[(g + i) * C + g + p] * r[p];
				vstore(x + (g + i) * n + j, r[i]);
			}
		}
	}
}

/* Solves (I + A') X = X in place, given AT = A' (strictly upper). */
static void solve_upper(const float *AT, float *x, int mp, int n)
{
	for (int g = mp - VL; g >= 0; g -= VL) {
		if (g + VL < mp)
			prod(VL, n, mp - g - VL, AT + g * C + g + VL, C, x + (g + VL) * n, n, x + g * n, n, SUB);
		for (int j = 0; j < n; j += VL) {
			vf r[VL];
#pragma GCC unroll 16
			for (int i = VL - 1; i >= 0; i--) {
				r[i] = vload(x + (g + i) * n + j);
#pragma GCC unroll 16
				for (int p = VL - 1; p > i; p--)
					r[i] -= AT[(g + i) * C + g + p] * r[p];
				vstore(x + (g + i) * n + j, r[i]);
			}
		}
	}
}

struct job {
	struct rf_dev *d;
	int nb, steps, given, per, H, K, V;
	float beta_scale;
	const float *q, *k, *v, *b, *d_o;
	float *u, *o, *S, *dq, *dk, *dv, *db, *dS;
	const int32_t *start, *cap_row, *cap_slot;
	int captures, chunks;
};

static size_t slot(const struct job *a, int s, int h)
{
	return ((size_t)s * (size_t)a->H + (size_t)h) * (size_t)a->K * (size_t)a->V;
}

/* One new row of a rollout whose first `given` rows are there: the state before it is S + sum k u', which is applied
 * without being formed.  In double, since errors of one row go into all that follow. */
static void step(const struct job *a, int b, int h, const float *S, int thread)
{
	int K = a->K, V = a->V;
	size_t H = (size_t)a->H, now = (size_t)b * H + (size_t)h, row = now + (size_t)a->given * (size_t)a->nb * H;
	const float *q = a->q + now * (size_t)K, *k = a->k + row * (size_t)K, *v = a->v + now * (size_t)V;
	float *u = a->u + row * (size_t)V, *o = a->o + now * (size_t)V;
	double *x = rf_cpu_scratch(a->d, thread, (size_t)V * 2 * sizeof *x), *y = x + V, beta = (double)a->beta_scale, qk = 0;

	if (!x)
		return;
	if (a->b) {
		vf s = vsigmoid(vset(a->b[now]));
		beta *= (double)s[0];
	}
	memset(x, 0, (size_t)V * 2 * sizeof *x);
	for (int i = 0; i < K; i++) {
		for (int j = 0; j < V; j++) {
			x[j] += (double)k[i] * (double)S[i * V + j];
			y[j] += (double)q[i] * (double)S[i * V + j];
		}
		qk += (double)q[i] * (double)k[i];
	}
	for (int g = 0; g < a->given; g++) {
		size_t r = ((size_t)g * (size_t)a->nb + (size_t)b) * H + (size_t)h;
		const float *kg = a->k + r * (size_t)K, *ug = a->u + r * (size_t)V;
		double kk = 0, qg = 0;

		for (int i = 0; i < K; i++) {
			kk += (double)k[i] * (double)kg[i];
			qg += (double)q[i] * (double)kg[i];
		}
		for (int j = 0; j < V; j++) {
			x[j] += kk * (double)ug[j];
			y[j] += qg * (double)ug[j];
		}
	}
	for (int j = 0; j < V; j++) {
		u[j] = (float)(beta * ((double)v[j] - x[j]));
		o[j] = (float)(y[j] + qk * (double)u[j]);
	}
}

static void load_chunk(const struct job *a, struct chunk *c, int b, int h, int j0)
{
	c->m = a->steps - j0 < C ? a->steps - j0 : C;
	c->mp = (c->m + VL - 1) / VL * VL;
	load(c->q, c->KP, c->mp, a->q, a->K, a->H, h, a->nb, b, j0, c->m);
	load(c->k, c->KP, c->mp, a->k, a->K, a->H, h, a->nb, b, j0, c->m);
	transpose(c->k, c->mp, c->K, c->KP, c->kt, C);
	load_beta(c, a->b, a->beta_scale, a->H, h, a->nb, b, j0);
}

/* S += k' u over the first n rows of the chunk */
static void advance(const struct chunk *c, float *S, int n)
{
	int K4 = (c->K + 3) / 4 * 4;  /* rows of kt beyond K are never read back */

	prod(K4, c->VP, n, c->kt, C, c->u, c->VP, S, c->VP, ADD);
}

static void forward_chunk(const struct job *a, struct chunk *c, int b, int h, int j0)
{
	int mp = c->mp, VP = c->VP;

	prod_lower(mp, c->K, c->k, c->KP, c->kt, c->A, SET);
	prod_lower(mp, c->K, c->q, c->KP, c->kt, c->P, SET);
	lower(c->A, mp, true, c->beta);
	lower(c->P, mp, false, NULL);
	load(c->u, VP, mp, a->v, a->V, a->H, h, a->nb, b, j0, c->m);
	prod(mp, VP, c->K, c->k, c->KP, c->S, VP, c->u, VP, SUB);
	prod(mp, VP, c->K, c->q, c->KP, c->S, VP, c->o, VP, SET);
	for (int i = 0; i < mp; i++)
		for (int j = 0; j < VP; j += VL)
			vstore(c->u + i * VP + j, c->beta[i] * vload(c->u + i * VP + j));
	solve_lower(c->A, c->u, mp, VP);
	for (int i = 0; i < mp; i += VL)
		prod(VL, VP, i + VL, c->P + i * C, C, c->u, VP, c->o + i * VP, VP, ADD);
	store(a->u, a->V, a->H, h, a->nb, b, j0, c->m, c->u, VP);
	store(a->o, a->V, a->H, h, a->nb, b, j0, c->m, c->o, VP);
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	int h = tile % a->H, group = tile / a->H, next = 0;
	const float *S0 = a->S + slot(a, a->start ? a->start[group] : 0, h);
	struct chunk c;
	float *mem;

	if (a->given) {
		for (int b = group * a->per; b < (group + 1) * a->per && b < a->nb; b++)
			step(a, b, h, S0, thread);
		return;
	}
	if (!(mem = rf_cpu_scratch(a->d, thread, layout(&c, a->K, a->V, false, 0, NULL) * 4)))
		return;
	layout(&c, a->K, a->V, false, 0, mem);
	memset(c.kt, 0, (size_t)c.KP * C * 4);
	for (int b = group * a->per; b < (group + 1) * a->per && b < a->nb; b++) {
		load_state(c.S, c.VP, S0, a->K, a->V);
		for (int j0 = 0; j0 < a->steps; j0 += C) {
			load_chunk(a, &c, b, h, j0);
			forward_chunk(a, &c, b, h, j0);
			for (; next < a->captures && a->cap_row[next] < j0 + c.m - 1; next++) {
				float *to = a->S + slot(a, a->cap_slot[next], h);
				int g = a->cap_row[next] - j0 + 1;

				for (int i = 0; i < a->K; i++)
					for (int j = 0; j < a->V; j += VL) {
						vf s = vload(c.S + i * c.VP + j);
						for (int r = 0; r < g; r++)
							s += c.kt[i * C + r] * vload(c.u + r * c.VP + j);
						vstore_n(to + i * a->V + j, s, LEFT(j, a->V));
					}
			}
			advance(&c, c.S, c.m);
			for (; next < a->captures && a->cap_row[next] == j0 + c.m - 1; next++)
				store_state(a->S + slot(a, a->cap_slot[next], h), a->V, c.S, a->K, c.VP);
		}
	}
}

/* dS += a slot's gradient */
static void add_state(float *dS, int VP, const float *from, int K, int V)
{
	for (int i = 0; i < K; i++)
		for (int j = 0; j < V; j += VL)
			vstore(dS + i * VP + j, vload(dS + i * VP + j) + vload_n(from + i * V + j, LEFT(j, V), 0));
}

static void backward_chunk(const struct job *a, struct chunk *c, int b, int h, int j0, int *next)
{
	int mp = c->mp, VP = c->VP, KP = c->KP, K4 = (c->K + 3) / 4 * 4, last;

	for (; *next >= 0 && a->cap_row[*next] == j0 + c->m - 1; (*next)--)
		add_state(c->dS, VP, a->dS + slot(a, a->cap_slot[*next], h), a->K, a->V);
	last = *next;

	transpose(c->q, mp, c->K, KP, c->qt, C);
	load(c->u, VP, mp, a->u, a->V, a->H, h, a->nb, b, j0, c->m);
	transpose(c->u, mp, c->V, VP, c->ut, C);
	load(c->d_o, VP, mp, a->d_o, a->V, a->H, h, a->nb, b, j0, c->m);
	transpose(c->S, KP, c->V, VP, c->ST, KP);
	transpose(c->dS, KP, c->V, VP, c->dST, KP);

	/* A' and P' are upper: A[j][i] = k_j . k_i beta_i for i > j; row blocks take the columns from their diagonal on */
	for (int i = 0; i < mp; i += VL) {
		prod(VL, mp - i, c->K, c->k + i * KP, KP, c->kt + i, C, c->A + i * C + i, C, SET);
		prod(VL, mp - i, c->K, c->k + i * KP, KP, c->qt + i, C, c->P + i * C + i, C, SET);
		for (int j = i; j < i + VL; j++)
			for (int l = i; l < mp; l++) {
				c->A[j * C + l] = l > j ? c->beta[l] * c->A[j * C + l] : 0;
				c->P[j * C + l] = l >= j ? c->P[j * C + l] : 0;
			}
	}
	prod(mp, VP, c->K, c->k, KP, c->dS, VP, c->du, VP, SET);
	for (int i = 0; i < mp; i += VL)
		prod(VL, VP, mp - i, c->P + i * C + i, C, c->d_o + i * VP, VP, c->du + i * VP, VP, ADD);
	prod(mp, KP, c->V, c->u, VP, c->dST, KP, c->dk, KP, SET);

	for (; *next >= 0 && a->cap_row[*next] >= j0; (*next)--) { /* S_g = S + sum over rows < g of k u' */
		const float *from = a->dS + slot(a, a->cap_slot[*next], h);
		int g = a->cap_row[*next] - j0 + 1;

		for (int r = 0; r < g; r++) {
			for (int j = 0; j < a->V; j += VL) {
				vf s = vload(c->du + r * VP + j);
				for (int i = 0; i < a->K; i++)
					s += c->k[r * KP + i] * vload_n(from + i * a->V + j, LEFT(j, a->V), 0);
				vstore(c->du + r * VP + j, s);
			}
			for (int i = 0; i < a->K; i++) {
				vf s = vset(0);
				for (int j = 0; j < a->V; j += VL)
					s += vload(c->u + r * VP + j) * vload_n(from + i * a->V + j, LEFT(j, a->V), 0);
				c->dk[r * KP + i] += vsum(s);
			}
		}
	}

	solve_upper(c->A, c->du, mp, VP);  /* du is dR from here on */
	for (int i = 0; i < mp; i++) {
		vf s = vset(0);
		for (int j = 0; j < VP; j += VL) {
			vf r = vload(c->du + i * VP + j);
			s += r * vload(c->u + i * VP + j);
			vstore(c->dv + i * VP + j, c->beta[i] * r);
		}
		if (a->db && i < c->m) /* dbeta / db = beta (1 - sigmoid(b)) */
			a->db[((size_t)(j0 + i) * (size_t)a->nb + (size_t)b) * (size_t)a->H + (size_t)h] = vsum(s) * (1 - c->sig[i]);
	}

	prod_lower(mp, c->V, c->d_o, VP, c->ut, c->X, SET);
	lower(c->X, mp, false, NULL);
	prod(mp, KP, c->V, c->d_o, VP, c->ST, KP, c->dq, KP, SET);
	for (int i = 0; i < mp; i += VL)
		prod(VL, KP, i + VL, c->X + i * C, C, c->k, KP, c->dq + i * KP, KP, ADD);

	transpose(c->X, mp, mp, C, c->Y, C);
	for (int i = 0; i < mp; i += VL)
		prod(VL, KP, mp - i, c->Y + i * C + i, C, c->q + i * KP, KP, c->dk + i * KP, KP, ADD);
	prod(mp, KP, c->V, c->dv, VP, c->ST, KP, c->dk, KP, SUB);
	prod_lower(mp, c->V, c->dv, VP, c->ut, c->X, SET);  /* - G */
	lower(c->X, mp, true, NULL);
	for (int i = 0; i < mp; i++)                        /* - (G + G'), whole */
		for (int j = 0; j < i; j++)
			c->X[j * C + i] = c->X[i * C + j];
	prod(mp, KP, mp, c->X, C, c->k, KP, c->dk, KP, SUB);

	prod(K4, VP, mp, c->qt, C, c->d_o, VP, c->dS, VP, ADD);
	prod(K4, VP, mp, c->kt, C, c->dv, VP, c->dS, VP, SUB);
	for (int i = last; i > *next; i--)
		add_state(c->dS, VP, a->dS + slot(a, a->cap_slot[i], h), a->K, a->V);
	store(a->dq, a->K, a->H, h, a->nb, b, j0, c->m, c->dq, KP);
	store(a->dk, a->K, a->H, h, a->nb, b, j0, c->m, c->dk, KP);
	store(a->dv, a->V, a->H, h, a->nb, b, j0, c->m, c->dv, VP);
}

static void bwd_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	int h = tile % a->H, group = tile / a->H, next = a->captures - 1;
	size_t s0 = slot(a, a->start ? a->start[group] : 0, h), kv;
	struct chunk c;
	float *mem = rf_cpu_scratch(a->d, thread, layout(&c, a->K, a->V, true, a->chunks, NULL) * 4);

	if (!mem)
		return;
	layout(&c, a->K, a->V, true, a->chunks, mem);
	kv = (size_t)c.KP * (size_t)c.VP;
	memset(c.kt, 0, (size_t)c.KP * C * 4);
	memset(c.qt, 0, (size_t)c.KP * C * 4);
	memset(c.states, 0, kv * 4);
	for (int b = group * a->per; b < (group + 1) * a->per && b < a->nb; b++) {
		load_state(c.states, c.VP, a->S + s0, a->K, a->V);
		for (int i = 0; i + 1 < a->chunks; i++) {
			float *S = c.states + (size_t)(i + 1) * kv;

			c.m = c.mp = C;
			load(c.k, c.KP, C, a->k, a->K, a->H, h, a->nb, b, i * C, C);
			transpose(c.k, C, c.K, c.KP, c.kt, C);
			load(c.u, c.VP, C, a->u, a->V, a->H, h, a->nb, b, i * C, C);
			memcpy(S, S - kv, kv * 4);
			advance(&c, S, C);
		}
		memset(c.dS, 0, kv * 4);
		for (int i = a->chunks - 1; i >= 0; i--) {
			c.S = c.states + (size_t)i * kv;
			load_chunk(a, &c, b, h, i * C);
			backward_chunk(a, &c, b, h, i * C, &next);
		}
		for (int i = 0; i < a->K; i++)
			for (int j = 0; j < a->V; j++)
				a->dS[s0 + (size_t)i * (size_t)a->V + (size_t)j] += c.dS[i * c.VP + j];
	}
}

void KERNEL(delta_fwd)(struct rf_dev *d, const struct rf_delta_fwd *x)
{
	int per = x->per ? x->per : 1;
	struct job a = {
		.d = d, .nb = x->nb, .steps = x->steps, .given = x->given, .per = per, .H = x->H, .K = x->K, .V = x->V,
		.beta_scale = x->beta_scale, .q = cpu_f32(d, x->q), .k = cpu_f32(d, x->k), .v = cpu_f32(d, x->v),
		.b = cpu_f32(d, x->b), .u = cpu_f32(d, x->u), .o = cpu_f32(d, x->o), .S = cpu_f32(d, x->S),
		.start = cpu_i32(d, x->start), .captures = x->captures, .cap_row = cpu_i32(d, x->cap_row),
		.cap_slot = cpu_i32(d, x->cap_slot),
	};

	cpu_tiles(d, (x->nb + per - 1) / per * x->H, fwd_tile, &a);
}

void KERNEL(delta_bwd)(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	int per = x->per ? x->per : 1;
	struct job a = {
		.d = d, .nb = x->nb, .steps = x->steps, .per = per, .H = x->H, .K = x->K, .V = x->V,
		.beta_scale = x->beta_scale, .q = cpu_f32(d, x->q), .k = cpu_f32(d, x->k), .v = cpu_f32(d, x->v),
		.b = cpu_f32(d, x->b), .u = cpu_f32(d, x->u), .d_o = cpu_f32(d, x->d_o), .S = cpu_f32(d, x->S),
		.dq = cpu_f32(d, x->dq), .dk = cpu_f32(d, x->dk), .dv = cpu_f32(d, x->dv), .db = cpu_f32(d, x->db),
		.dS = cpu_f32(d, x->dS), .start = cpu_i32(d, x->start), .captures = x->captures,
		.cap_row = cpu_i32(d, x->cap_row), .cap_slot = cpu_i32(d, x->cap_slot), .chunks = (x->steps + C - 1) / C,
	};

	cpu_tiles(d, (x->nb + per - 1) / per * x->H, bwd_tile, &a);
}
