/* head.cu -- the language model's head: entropies and log-probabilities without storing all logits, their
 * gradient, and drawing of tokens.
 *
 * Forward, the logits are computed piece by piece: at most logit_rows() rows, by as many columns as make
 * PIECE numbers, 32 MB.  The product writes the piece, and fold reads the piece from the second-level cache
 * (50 MB, 5.5 TB/s).  For 16384 rows, N = 32000 and d = 2048 the products take 2.7 ms at 800 TFLOP/s, and the
 * 2.1 GB of logits 0.4 ms from that cache; to memory and back they would take 1.4 ms more.  Since a piece has
 * 2048 rows, a product reads w once for all of them: 2 d N bytes against 4096 d N operations, at 3 TB/s an
 * eighth of its time.  A piece of the same size with 256 rows by all of a vocabulary of 250,000 would wait
 * for w half of the time.  w is rounded as one matrix, so that other products share the rounded copy; a piece
 * begins inside this copy.
 *
 * A row's columns are folded in parts of PART, by one warp each, all in registers: with m the part's largest
 * logit, s = sum e^(z-m) and t = sum e^(z-m) (z-m).  finish merges a row's parts in a fixed order, in double;
 * the entropy is log s - t / s.  The parts depend only on N, so results do not depend on how the pieces were
 * cut.  Gradient and drawing begin with the same two kernels.
 *
 * Drawing.  Equal probabilities give equal draws on every device because no sum is rounded: each p, divided
 * by the largest that may be drawn, is a whole number of units 1 / RF_DRAW_WHOLE, and sums of whole numbers
 * do not depend on their order (dev.h).  So the sum of every part is computed, and a warp finds the part that
 * contains u total, 32 at a time, and then the id in it; a serial sum over N = 250,000 would take 2 ms.
 * top_k and top_p become one threshold each.  The bits of floats that are not negative are ordered like the
 * floats.  So the k-th largest p is found digit by digit from counts, and the p that reaches top_p from sums,
 * in four passes of a block over its row.  The first pass takes 45 us at this N; later passes, which read few
 * probabilities, take a fourth of that. */
#include "cuda/rounded.h"

enum { WARPS = 8, LANE = 32, PART = 32 * LANE, PIECE = 8 << 20, SELECT = 1024, BINS = 256 };
typedef unsigned long long draw_units;

/* part: the folded logits of one part.  z, id: the largest logit, and the lowest id that has it; allowed: the
 * largest logit that may be drawn.  row: the folded logits of a row; mean: that of (z - the largest) inv_temp
 * under softmax. */
struct part {
	float s, t, z, allowed;
	int id;
};
struct row {
	double s, mean;
	float z, allowed;
};
/* The ids of a row that may be drawn: those whose p has larger bits than key, and those whose bits are equal
 * to key, up to id `last`. */
struct limit {
	unsigned key;
	int last;
};
struct ban {
	const int32_t *id;
	int n;
};

/* Returns bits: bit i is set if id first + 32 i + lane is banned. */
static __device__ __forceinline__ unsigned banned_here(struct ban ban, int first)
{
	unsigned mask = 0;

	for (int i = 0; i < ban.n; i++) {
		const int k = ban.id[i] - first;

		if (k >= 0 && k < PART && k % 32 == (int)(threadIdx.x % 32))
			mask |= 1u << k / 32;
	}
	return mask;
}

static __device__ __forceinline__ draw_units warp_add(draw_units x)
{
	for (int o = 16; o; o >>= 1)
		x += __shfl_xor_sync(~0u, x, o);
	return x;
}

/* ---- folding ------------------------------------------------------------------------------- */

/* Folds the `cols` columns of z, which are columns first.. of the logits, rows ld apart, into part (rows,
 * parts).  A NaN is never the largest logit, but it stays in s. */
static __global__ void __launch_bounds__(32 * WARPS)
	fold(const float *z, int ld, int rows, int first, int cols, int parts, float inv_temp,
             const int32_t *target, struct ban ban, struct part *part, float *target_z)
{
	const int lane = threadIdx.x % 32, here = (cols + PART - 1) / PART;
	const size_t unit = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, r = unit / here;
	const int j = (int)(unit % here) * PART, n = cols - j < PART ? cols - j : PART;
	float x[LANE], top = -INFINITY, allowed = -INFINITY, s = 0, t = 0;
	int id = lane;

	if (r >= (size_t)rows)
		return;
	z += r * ld + j;
	for (int i = 0; i < LANE; i++)
		x[i] = 32 * i + lane < n ? z[32 * i + lane] : -INFINITY;
	for (int i = 0; i < LANE; i++)
		if (x[i] > top) {
			top = x[i];
			id = 32 * i + lane;
		}
	allowed = top;
	if (ban.n) {
		const unsigned mask = banned_here(ban, first + j);

		allowed = -INFINITY;
		for (int i = 0; i < LANE; i++)
			if (!(mask >> i & 1) && x[i] > allowed)
				allowed = x[i];
	}
	for (int o = 16; o; o >>= 1) {
		const float other = __shfl_xor_sync(~0u, top, o),
			    other_allowed = __shfl_xor_sync(~0u, allowed, o);
		const int other_id = __shfl_xor_sync(~0u, id, o);

		if (other > top || (other == top && other_id < id)) {
			top = other;
			id = other_id;
		}
		allowed = other_allowed > allowed ? other_allowed : allowed;
	}
	for (int i = 0; i < LANE; i++)
		if (32 * i + lane < n) {
			float v = (x[i] - top) * inv_temp, e;

			v = v < -87 ? -87 : v; /* e^-87 is negligible, also times v */
			e = expf(v);
			s += e;
			t += e * v;
		}
	s = warp_sum(s);
	t = warp_sum(t);
	if (lane)
		return;
	part[r * parts + (first + j) / PART] = { s, t, top, allowed, first + j + id };
	if (target && target[r] >= first + j && target[r] < first + j + n)
		target_z[r] = z[target[r] - first - j];
}

/* The merged sums of some parts; id < 0: no part has been merged yet. */
struct sums {
	double s, t;
	float z, allowed;
	int id;
};

static __device__ __forceinline__ void merge(struct sums &a, const struct sums &b, float inv_temp)
{
	if (b.id < 0)
		return;
	if (a.id < 0) {
		a = b;
		return;
	}
	const double z = a.z > b.z ? a.z : b.z, da = (a.z - z) * inv_temp, db = (b.z - z) * inv_temp,
		     fa = exp(da), fb = exp(db);

	a.t = fa * (a.t + da * a.s) + fb * (b.t + db * b.s);
	a.s = fa * a.s + fb * b.s;
	if (b.z > a.z || (b.z == a.z && b.id < a.id)) {
		a.z = b.z;
		a.id = b.id;
	}
	a.allowed = b.allowed > a.allowed ? b.allowed : a.allowed;
}

/* The outputs of finish for each row; NULL: not wanted. */
struct results {
	float *entropy, *logp;
	int32_t *top;
	struct row *row;
};

/* Merges a row's parts, one warp per row. */
static __global__ void finish(const struct part *part, int rows, int parts, float inv_temp,
                              const int32_t *target, const float *target_z, struct results to)
{
	const int lane = threadIdx.x % 32;
	const size_t r = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
	struct sums x = { 0, 0, 0, 0, -1 };

	if (r >= (size_t)rows)
		return;
	for (int i = lane; i < parts; i += 32) {
		const struct part p = part[r * parts + i];

		merge(x, { p.s, p.t, p.z, p.allowed, p.id }, inv_temp);
	}
	for (int o = 16; o; o >>= 1) {
		struct sums y;

		y.s = __shfl_down_sync(~0u, x.s, o);
		y.t = __shfl_down_sync(~0u, x.t, o);
		y.z = __shfl_down_sync(~0u, x.z, o);
		y.allowed = __shfl_down_sync(~0u, x.allowed, o);
		y.id = __shfl_down_sync(~0u, x.id, o);
		merge(x, y, inv_temp);
	}
	if (lane)
		return;
	if (to.entropy) {
		const double H = log(x.s) - x.t / x.s;

		/* rounding may leave -1e-8 where the entropy is 0; NaN stays */
		to.entropy[r] = H < 0 ? 0 : (float)H;
	}
	if (to.logp)
		to.logp[r] = target && target[r] >= 0
		                     ? (float)(((double)target_z[r] - x.z) * inv_temp - log(x.s))
		                     : 0;
	if (to.top)
		to.top[r] = x.id;
	if (to.row)
		to.row[r] = { x.s, x.t / x.s, x.z, x.allowed };
}

static unsigned blocks_of(size_t warps) { return (unsigned)((warps + WARPS - 1) / WARPS); }
static int parts_of(int N) { return (N + PART - 1) / PART; }

/* ---- entropies, log-probabilities, and their gradient -------------------------------------- */

/* The size of the blocks in which logits are computed: `height` rows, and as many columns as fit.  Leading
 * dimensions are multiples of PART. */
struct blocks {
	int height, cols;
};
static struct blocks blocks_for(int rows, int N)
{
	const int tallest = rf_cuda_logit_rows(N), blocks = (rows + tallest - 1) / tallest,
		  height = blocks == 1 ? rows : ((rows + blocks - 1) / blocks + 127) / 128 * 128,
		  fit = PIECE / height / PART * PART, most = parts_of(N) * PART;

	return { height, fit < most ? fit : most };
}

/* One block of rows, and where its logits and sums are written. */
struct block {
	int n, d, N, cols, parts;
	float inv_temp;
	rf_f32 h, w;
	bool half; /* w is bf16, as in gemm */
	float *z;  /* all logits, or one piece of them */
	bool all;
	struct part *part;
	float *target_z;
	const int32_t *target;
	struct results to;
};

/* Computes the logits of a block and folds them. */
static bool fold_block(struct rf_dev *d, const struct block *b)
{
	const bool rounds = d->math == RF_MATH_BF16;
	const struct stored rows = { f32(b->h), b->n, b->d, b->d, 1, 0 };
	const int ldz = b->all ? b->N : b->cols;
	const bf16 *w = NULL;
	struct copy h;

	if (rounds && (!(w = b->half ? (const bf16 *)b->w : rf_cuda_rounded_weight(d, b->w, b->N, b->d)) ||
	               !rf_cuda_rounded(d, &rows, NULL, &h)))
		return false;
	for (int j = 0; j < b->N; j += b->cols) {
		const int m = b->N - j < b->cols ? b->N - j : b->cols;
		float *z = b->all ? b->z + j : b->z;
		struct rf_gemm g = {};

		g.m = b->n, g.n = m, g.k = b->d, g.tb = true, g.lda = rounds ? h.ld : b->d;
		g.ldb = b->d, g.ldc = ldz;
		g.a = b->h, g.b = rf_at(b->w, (size_t)j * b->d), g.c = (rf_f32)z;
		if (rounds)
			rf_cuda_gemm_bf16(d, &g, h.p, w + (size_t)j * b->d, z);
		else
			rf_cuda_gemm(d, &g);
		LAUNCH(d, fold, blocks_of((size_t)b->n * parts_of(m)), 32 * WARPS, 0, z, ldz, b->n, j, m,
		       b->parts, b->inv_temp, b->target, ban(), b->part, b->target_z);
	}
	LAUNCH(d, finish, blocks_of(b->n), 32 * WARPS, 0, b->part, b->n, b->parts, b->inv_temp, b->target,
	       b->target_z, b->to);
	return true;
}

void rf_cuda_head_fwd(struct rf_dev *d, const struct rf_head_fwd *x)
{
	const bool rounds = d->math == RF_MATH_BF16;
	const int parts = parts_of(x->N);

	if (!x->rows || !x->N || d->err.code != RF_OK)
		return;
	const struct blocks size = blocks_for(x->rows, x->N);
	const size_t z_size = shared_size((size_t)size.height * size.cols, 4),
		     part_size = shared_size((size_t)size.height * parts, sizeof(struct part));
	char *scratch = (char *)rf_cuda_scratch(d, z_size + part_size + shared_size(size.height, 4));

	if (!scratch || (rounds && !rf_cuda_rounded_room(d, (size_t)size.height * x->d)))
		return;
	for (int r = 0; r < x->rows; r += size.height) {
		const int n = x->rows - r < size.height ? x->rows - r : size.height;
		const struct block b = { n,
			                 x->d,
			                 x->N,
			                 size.cols,
			                 parts,
			                 x->inv_temp,
			                 rf_at(x->h, (size_t)r * x->d),
			                 x->w,
			                 x->half,
			                 (float *)scratch,
			                 false,
			                 (struct part *)(scratch + z_size),
			                 (float *)(scratch + z_size + part_size),
			                 x->target ? i32(x->target) + r : NULL,
			                 { x->entropy ? f32(x->entropy) + r : NULL,
			                   x->logp ? f32(x->logp) + r : NULL, x->top ? i32(x->top) + r : NULL,
			                   NULL } };

		if (!fold_block(d, &b))
			return;
	}
}

enum { CE_COLS = 2048, CE_THREADS = 256 };

/* Turns logits into their gradient.  half: a rounded copy of the gradient; NULL: not wanted.  Entropies:
 * whether entropy_coef is given.  Since log p + H = v - mean with v = (z - top) inv_temp, p is multiplied by
 * f + e v. */
template <bool Entropies>
static __global__ void ce_cols(float *z, bf16 *half, int N, float inv_temp, const struct row *row,
                               const int32_t *target, const float *coef, const float *entropy_coef)
{
	const int chunks = (N + CE_COLS - 1) / CE_COLS, j = (int)(blockIdx.x % chunks) * CE_COLS,
		  last = j + CE_COLS < N ? j + CE_COLS : N;
	const size_t r = blockIdx.x / chunks;
	const float factor = coef[r], top = row[r].z, more = Entropies ? entropy_coef[r] : 0,
		    e = (float)((double)more * inv_temp / row[r].s);
	const double both = Entropies ? factor - more * row[r].mean : factor;
	const float f = (float)(both * inv_temp / row[r].s);

	z += r * N;
	for (int i = j + threadIdx.x; i < last; i += CE_THREADS) {
		const float v = (z[i] - top) * inv_temp;
		/* as in fold, a logit of -inf has no infinite logarithm */
		const float by = Entropies ? f + e * (v < -87 ? -87 : v) : f;

		/* not 0 times a NaN: a row with coefficients of 0 must have no effect */
		z[i] = factor == 0 && more == 0 ? 0 : by * expf(v) - (i == target[r] ? factor * inv_temp : 0);
		if (half)
			half[r * N + i] = __float2bfloat16(z[i]);
	}
}

/* Uses the blocks of head_fwd: the products have the same sizes, and so the same bits. */
void rf_cuda_head_bwd(struct rf_dev *d, const struct rf_head_bwd *x)
{
	const int parts = parts_of(x->N), chunks = (x->N + CE_COLS - 1) / CE_COLS;

	if (!x->rows || !x->N)
		return;
	const struct blocks size = blocks_for(x->rows, x->N);
	const size_t part_size = shared_size((size_t)size.height * parts, sizeof(struct part)),
		     row_size = shared_size(size.height, sizeof(struct row));

	for (int r = 0; r < x->rows; r += size.height) {
		const int n = x->rows - r < size.height ? x->rows - r : size.height;
		const rf_f32 h = rf_at(x->h, (size_t)r * x->d);
		char *scratch =
			(char *)rf_cuda_scratch(d, part_size + row_size + shared_size(size.height, 4));
		struct row *row = (struct row *)(scratch + part_size);
		struct rf_gemm g = {};

		if (!scratch || d->err.code != RF_OK)
			return;
		const struct block b = { n,
			                 x->d,
			                 x->N,
			                 size.cols,
			                 parts,
			                 x->inv_temp,
			                 h,
			                 x->w,
			                 false,
			                 f32(x->z),
			                 true,
			                 (struct part *)scratch,
			                 (float *)(scratch + part_size + row_size),
			                 i32(x->target) + r,
			                 { x->entropy ? f32(x->entropy) + r : NULL,
			                   x->logp ? f32(x->logp) + r : NULL, x->top ? i32(x->top) + r : NULL,
			                   row } };

		if (!fold_block(d, &b))
			return;
		bf16 *half = rf_cuda_rounded_copy(d, f32(x->z), (size_t)n, (size_t)x->N, (size_t)x->N, true);
		const unsigned grid = (unsigned)(chunks * (size_t)n);

		if (x->entropy_coef)
			LAUNCH(d, ce_cols<true>, grid, CE_THREADS, 0, f32(x->z), half, x->N, x->inv_temp, row,
			       i32(x->target) + r, f32(x->coef) + r, f32(x->entropy_coef) + r);
		else
			LAUNCH(d, ce_cols<false>, grid, CE_THREADS, 0, f32(x->z), half, x->N, x->inv_temp,
			       row, i32(x->target) + r, f32(x->coef) + r, (const float *)NULL);
		g.m = x->N, g.n = x->d, g.k = n, g.ta = true, g.add = true;
		g.a = x->z, g.lda = x->N, g.b = h, g.ldb = x->d, g.c = x->dw, g.ldc = x->d;
		rf_cuda_gemm(d, &g);
		g = {};
		g.m = n, g.n = x->d, g.k = x->N, g.weight = true;
		g.a = x->z, g.lda = x->N, g.b = x->w, g.ldb = x->d;
		g.c = rf_at(x->dh, (size_t)r * x->d), g.ldc = x->d;
		rf_cuda_gemm(d, &g);
	}
}

/* ---- drawing ------------------------------------------------------------------------------- */

struct draw {
	int rows, n, N, parts;
	float inv_temp;
	const float *z;
	struct ban ban;
	const struct row *row;     /* (rows / n) */
	const struct limit *limit; /* (rows / n); NULL: all ids may be drawn */
	draw_units *mass;          /* (rows / n, parts) */
};

/* Returns p as a whole number of units; p was divided by the largest p that may be drawn. */
static __device__ __forceinline__ draw_units weight_of(float p)
{
	return p > 0 ? (draw_units)rintf(p * RF_DRAW_WHOLE) : 0;
}

/* Returns the whole number of units of id j, whose logit is z; 0 if the id may not be drawn. */
static __device__ __forceinline__ draw_units allowed_weight(const struct draw &a, size_t q, int j, float z,
                                                            bool banned)
{
	const float p = expf((z - a.row[q].allowed) * a.inv_temp);

	if (banned || !(p > 0))
		return 0;
	if (a.limit) {
		const unsigned key = (unsigned)__float_as_int(p);

		if (key < a.limit[q].key || (key == a.limit[q].key && j > a.limit[q].last))
			return 0;
	}
	return weight_of(p);
}

/* Sums the units of a part, one warp for each row of z and part. */
static __global__ void __launch_bounds__(32 * WARPS) weigh(struct draw a, int rows)
{
	const int lane = threadIdx.x % 32;
	const size_t unit = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, q = unit / a.parts;
	const int first = (int)(unit % a.parts) * PART;
	draw_units sum = 0;

	if (q >= (size_t)rows)
		return;
	const unsigned banned = banned_here(a.ban, first);

	for (int i = 0; i < LANE && first + 32 * i + lane < a.N; i++) {
		const int j = first + 32 * i + lane;

		sum += allowed_weight(a, q, j, a.z[q * a.N + j], banned >> i & 1);
	}
	sum = warp_add(sum);
	if (lane == 0)
		a.mass[unit] = sum;
}

/* A place among 32 weights, one in each lane.  at: the first lane at which the running sum exceeds x, else
 * the last lane whose weight is not 0 (-1: all are 0), which u = 1 needs.  over: the sum exceeds x there.
 * before: the sum of the weights before that lane. */
struct stop {
	int at;
	bool over;
	draw_units before;
};

static __device__ __forceinline__ struct stop find_stop(draw_units w, double x, draw_units *sum)
{
	const int lane = threadIdx.x % 32;
	const draw_units start = *sum;
	draw_units upto = w;

	for (int o = 1; o < 32; o *= 2) {
		const draw_units lower = __shfl_up_sync(~0u, upto, o);

		if (lane >= o)
			upto += lower;
	}
	const unsigned over = __ballot_sync(~0u, w && (double)(start + upto) > x),
		       some = __ballot_sync(~0u, w != 0);
	const int at = over ? __ffs((int)over) - 1 : some ? 31 - __clz((int)some) : -1;

	*sum = start + __shfl_sync(~0u, upto, 31);
	return { at, over != 0, start + __shfl_sync(~0u, upto - w, at < 0 ? 0 : at) };
}

/* Returns the probability of all ids of row q that may be drawn: `total` units of the probability of the
 * largest logit among them. */
static __device__ double kept_part(const struct draw &a, size_t q, draw_units total)
{
	const struct row &row = a.row[q];
	const double part =
		(double)total / RF_DRAW_WHOLE * exp(((double)row.allowed - row.z) * a.inv_temp) / row.s;

	if (!a.ban.n && !a.limit && part == part)
		return 1;
	return part > 1 ? 1 : part; /* NaN stays */
}

/* Draws a token.  One warp per row finds first the part, then the id. */
static __global__ void choose(struct draw a, const double *u, int32_t *token, float *logp, float *kept)
{
	const int lane = threadIdx.x % 32;
	const size_t r = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, q = r / a.n;
	draw_units total = 0, sum = 0, before = 0;
	struct stop stop = { -1, false, 0 };
	int part = -1, id = -1;

	if (r >= (size_t)a.rows)
		return;
	for (int i = lane; i < a.parts; i += 32)
		total += a.mass[q * a.parts + i];
	total = warp_add(total);
	const double x = u[r] * (double)total;

	for (int i = 0; i < a.parts && !stop.over; i += 32) {
		stop = find_stop(i + lane < a.parts ? a.mass[q * a.parts + i + lane] : 0, x, &sum);
		if (stop.at >= 0) {
			part = i + stop.at;
			before = stop.before;
		}
	}
	if (part >= 0) {
		const unsigned banned = banned_here(a.ban, part * PART);

		stop.over = false;
		for (int i = 0; i < LANE && !stop.over; i++) {
			const int first = part * PART + 32 * i, j = first + lane;

			stop = find_stop(j < a.N ? allowed_weight(a, q, j, a.z[q * a.N + j], banned >> i & 1)
			                         : 0,
			                 x, &before);
			id = stop.at < 0 ? id : first + stop.at;
		}
	}
	if (lane)
		return;
	token[r] = id < 0 ? 0 : id;
	if (logp) /* NaN if no id could be drawn */
		logp[r] = id < 0 ? NAN
		                 : (float)(((double)a.z[q * a.N + id] - a.row[q].z) * a.inv_temp -
		                           log(a.row[q].s));
	if (kept)
		kept[r] = (float)kept_part(a, q, total);
}

/* ---- what may be drawn --------------------------------------------------------------------- */

/* A threshold.  It keeps the ids whose p has larger bits than key, and `ties` of the ids whose bits are equal
 * to key. */
struct level {
	unsigned key, ties;
};

struct search {
	unsigned count[BINS];
	draw_units mass[BINS];
	unsigned prefix, above_count, ties; /* prefix: the digit's bin; above_*: sums of the bins above it */
	draw_units above_mass;
	double need;
	bool reached;
};

/* Finds the first bin, from the top, with which the count reaches k, or, with k 0, the mass reaches top_p of
 * the total. Lane l has the bins 8 (31 - l) ..+7, so that ascending lanes mean descending bins. */
static __device__ void find_bin(struct search *s, unsigned k, double top_p, bool first)
{
	const int lane = threadIdx.x % 32, low = BINS - 8 - 8 * lane;
	unsigned count = 0, n;
	draw_units mass = 0, m;
	unsigned hit;

	for (int i = 0; i < 8; i++) {
		count += s->count[low + i];
		mass += s->mass[low + i];
	}
	n = count, m = mass;
	for (int o = 1; o < 32; o *= 2) {
		const unsigned higher = __shfl_up_sync(~0u, n, o);
		const draw_units higher_mass = __shfl_up_sync(~0u, m, o);

		if (lane >= o) {
			n += higher;
			m += higher_mass;
		}
	}
	const double need = first ? top_p * (double)__shfl_sync(~0u, m, 31) : s->need;

	n += s->above_count;
	m += s->above_mass;
	hit = __ballot_sync(~0u, n && (k ? n >= k : (double)m >= need));
	__syncwarp(); /* one lane now overwrites numbers that the others have read */
	if (lane == (hit ? __ffs((int)hit) - 1 : 0)) {
		int bin = 7;

		n -= count;
		m -= mass;
		for (; hit && bin > 0; bin--) {
			const unsigned n1 = n + s->count[low + bin];
			const draw_units m1 = m + s->mass[low + bin];

			if (n1 && (k ? n1 >= k : (double)m1 >= need))
				break;
			n = n1;
			m = m1;
		}
		s->reached = hit;
		s->need = need;
		s->prefix = (unsigned)(low + bin);
		s->above_count = n;
		s->above_mass = m;
	}
}

/* Finds a threshold for row q.  With k: for the k most likely ids.  With k 0: for the most likely ids, as few
 * as possible, whose sum reaches top_p.  All threads of a block call it. */
static __device__ struct level find_threshold(const struct draw &a, size_t q, struct level kept, unsigned k,
                                              double top_p, struct search *s)
{
	static const int bits_of[4] = { 7, 8, 8, 7 }; /* the exponent, for p up to 1; then the mantissa */
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const float top = a.row[q].allowed;
	unsigned prefix = 0;
	int shift = 30;

	if (threadIdx.x == 0) {
		s->above_count = 0;
		s->above_mass = 0;
	}
	for (int digit = 0; digit < 4; digit++) {
		const int bits = bits_of[digit], above = shift;
		/* the p of a logit below `bottom`, which allows for expf's error, is not above `kept` or has
		 * another prefix */
		const unsigned least = prefix << above > kept.key ? prefix << above : kept.key;
		const float lowest = __int_as_float((int)least),
			    bottom = lowest > 1e-12f ? logf(lowest) - 0.01f : -28;

		shift -= bits;
		for (int i = threadIdx.x; i < BINS; i += SELECT) {
			s->count[i] = 0;
			s->mass[i] = 0;
		}
		__syncthreads();
		for (int part = warp; part < a.parts; part += SELECT / 32) {
			const unsigned banned = banned_here(a.ban, part * PART);

			for (int i = 0; i < LANE && part * PART + 32 * i + lane < a.N; i++) {
				const float v = (a.z[q * a.N + part * PART + 32 * i + lane] - top) *
				                a.inv_temp,
					    p = v < bottom || banned >> i & 1 ? 0 : expf(v);
				const unsigned key = p > 0 ? (unsigned)__float_as_int(p) : 0;

				if (key > kept.key && key >> above == prefix && weight_of(p)) {
					atomicAdd(&s->count[key >> shift & ((1 << bits) - 1)], 1u);
					atomicAdd(&s->mass[key >> shift & ((1 << bits) - 1)], weight_of(p));
				}
			}
		}
		__syncthreads();
		if (threadIdx.x == 0 && kept.ties && kept.key >> above == prefix) {
			s->count[kept.key >> shift & ((1 << bits) - 1)] += kept.ties;
			s->mass[kept.key >> shift & ((1 << bits) - 1)] +=
				kept.ties * weight_of(__int_as_float((int)kept.key));
		}
		__syncthreads();
		if (warp == 0)
			find_bin(s, k, top_p, digit == 0);
		__syncthreads();
		if (!s->reached) /* there are fewer than k ids: all are kept */
			return kept;
		prefix = prefix << bits | s->prefix;
	}
	if (threadIdx.x == 0) {
		const draw_units w = weight_of(__int_as_float((int)prefix));
		unsigned low = 1, high = s->count[s->prefix];

		if (k)
			low = high = k - s->above_count;
		while (low < high) { /* the smallest number that reaches it */
			const unsigned middle = low + (high - low) / 2;

			if ((double)(s->above_mass + middle * w) >= s->need)
				high = middle;
			else
				low = middle + 1;
		}
		s->ties = low;
	}
	__syncthreads();
	kept.key = prefix;
	kept.ties = s->ties;
	return kept;
}

/* Finds the limits of the ids that may be drawn, one block for each row of z. */
static __global__ void __launch_bounds__(SELECT, 1)
	select_rows(struct draw a, unsigned top_k, double top_p, struct limit *limit)
{
	SHARED(scratch);
	struct search *s = scratch.take<struct search>(1);
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
		  each = (a.parts + SELECT / 32 - 1) / (SELECT / 32);
	const int first = warp * each, end = first + each < a.parts ? first + each : a.parts;
	const size_t q = blockIdx.x;
	struct level kept = { 0, 0 };
	unsigned ties = 0, before = 0;

	if (top_k)
		kept = find_threshold(a, q, kept, top_k, 1, s);
	if (top_p < 1)
		kept = find_threshold(a, q, kept, 0, top_p, s);
	if (threadIdx.x == 0)
		limit[q] = { kept.key, -1 };
	/* finds the last of the ties: each warp counts the ties in its part of the row, then one warp finds
	 * the last */
	for (int pass = 0; pass < 2; pass++) {
		for (int part = first;
		     part < end && (pass == 0 || (before < kept.ties && kept.ties <= before + ties));
		     part++) {
			const unsigned banned = banned_here(a.ban, part * PART);

			for (int i = 0; i < LANE; i++) {
				const int j = part * PART + 32 * i + lane;
				const float p =
					j < a.N && !(banned >> i & 1)
						? expf((a.z[q * a.N + j] - a.row[q].allowed) * a.inv_temp)
						: 0;
				const bool tie = p > 0 && (unsigned)__float_as_int(p) == kept.key;
				const unsigned same = __ballot_sync(~0u, tie), n = (unsigned)__popc(same);

				if (pass == 0)
					ties += n;
				else if (before < kept.ties && kept.ties <= before + n) {
					if ((same >> lane & 1) &&
					    before + (unsigned)__popc(same & ((1u << lane) - 1)) + 1 ==
					            kept.ties)
						limit[q].last = j;
					before = kept.ties;
				} else
					before += n;
			}
		}
		if (pass)
			break;
		__syncthreads();
		if (lane == 0)
			s->count[warp] = ties;
		__syncthreads();
		for (int i = 0; i < warp; i++)
			before += s->count[i];
	}
}

void rf_cuda_sample(struct rf_dev *d, const struct rf_sample *x)
{
	const bool cut = x->top_k || x->top_p < 1;
	struct draw a = {};

	a.rows = x->rows, a.n = x->n > 1 ? x->n : 1, a.N = x->N, a.parts = parts_of(x->N),
	a.inv_temp = x->inv_temp, a.z = f32(x->z);
	a.ban = { i32(x->banned_ids), x->banned };
	const int rows = (a.rows + a.n - 1) / a.n;
	const size_t units = (size_t)rows * a.parts, part_size = shared_size(units, sizeof(struct part)),
		     mass_size = shared_size(units, sizeof(draw_units));
	const size_t row_size = shared_size(rows, sizeof(struct row));
	char *scratch;

	if (!x->rows || !x->N ||
	    !(scratch = (char *)rf_cuda_scratch(d, part_size + mass_size + row_size +
	                                                   (cut ? rows * sizeof(struct limit) : 0))))
		return;
	struct part *part = (struct part *)scratch;
	struct row *row = (struct row *)(scratch + part_size + mass_size);
	struct limit *limit = (struct limit *)(scratch + part_size + mass_size + row_size);
	const struct results to = { NULL, NULL, NULL, row };

	a.mass = (draw_units *)(scratch + part_size);
	a.row = row;
	rf_cuda_rounded_wrote(d, f32(x->logp), (size_t)x->rows);
	rf_cuda_rounded_wrote(d, f32(x->kept), (size_t)x->rows);
	LAUNCH(d, fold, blocks_of(units), 32 * WARPS, 0, a.z, a.N, rows, 0, a.N, a.parts, a.inv_temp,
	       (const int32_t *)NULL, a.ban, part, (float *)NULL);
	LAUNCH(d, finish, blocks_of(rows), 32 * WARPS, 0, part, rows, a.parts, a.inv_temp,
	       (const int32_t *)NULL, (const float *)NULL, to);
	if (cut) {
		LAUNCH(d, select_rows, rows, SELECT, shared_size(1, sizeof(struct search)), a,
		       (unsigned)x->top_k, x->top_p, limit);
		a.limit = limit;
	}
	LAUNCH(d, weigh, blocks_of(units), 32 * WARPS, 0, a, rows);
	LAUNCH(d, choose, blocks_of(a.rows), 32 * WARPS, 0, a, f64(x->u), i32(x->token), f32(x->logp),
	       f32(x->kept));
}
