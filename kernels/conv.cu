/* conv.cu -- short convolution, activation and head norm in one pass over the rows, forward and backward.
 *
 * All of it is bound by memory.  At T = 16384, d = 2048 a matrix is 134 MB, 45 us at 3 TB/s.  Forward reads
 * one and writes one; backward reads x and dy and writes dx, 135 us; the multiplications and silu of each
 * number take a third of that.  So each number should be read once.  A warp owns a run of steps of one
 * sequence and the columns of one head.  It walks down the steps and holds the last w rows of x in registers,
 * every 32nd column in one lane, so a head's sum is one reduction in the warp.  Backward it holds the last w
 * rows of dz as well, so dx of a step needs no later step.  It computes the w-1 steps of dz before its run
 * again, 3 of 16 or 32, whose data its neighbour has just read into the cache.
 *
 * What a warp's registers cannot hold: a head of more than WIDEST columns gets the factors of its norms from
 * a separate pass (factors), and is then cut like rows without a norm.  A width w other than 1 or 4 keeps its
 * windows in local memory.
 *
 * For dweight each warp sums over its own rows.  That makes at most PARTS partial sums, whose division
 * depends on the shape alone, and they are added in order: 17 MB at this size, 8 % of the traffic. */
#include "cuda.h"

#include <gpu/ptx.h>

enum { WARPS = 8, PARTS = 512, WIDEST = 256, CUT = 128, LONGEST = 64 };

/* The columns are `heads` of `head` each, and a head is cut into `pieces` of `width`. */
struct conv {
	int nb, steps, d, ldx, w, heads, head, pieces, width;
	int run, runs, parts;
	size_t each, tasks;           /* a task is a run of one sequence; a part has `each` tasks */
	enum rf_act act;
	enum rf_norm norm;
	float scale;
	const float *x, *weight, *dy;
	const float2 *factor;         /* (R, heads); NULL: no norm, or the warp computes it */
	float *y, *dx, *part;         /* part (parts, w, d) */
};

/* By the units for exp2 and 1 / x, to 3e-7 of itself for small z: a division as IEEE has it is a dozen
 * instructions and a branch, for each number of a kernel that instructions bind. */
static __device__ __forceinline__ float sigmoid(float z)
{
	return quotient(1, 1 + exp2_ftz(-1.4426950408889634f * z));
}

static __device__ __forceinline__ float act(enum rf_act kind, float z)
{
	switch (kind) {
	case RF_ACT_SILU: return z * sigmoid(z);
	case RF_ACT_RELU: return z < 0 ? 0 : z; /* a NaN stays */
	case RF_ACT_ELU:  return z > 0 ? z + 1 : expf(z);
	default:          return z;
	}
}

static __device__ __forceinline__ float act_slope(enum rf_act kind, float z)
{
	float s;

	switch (kind) {
	case RF_ACT_SILU:
		s = sigmoid(z);
		return s * (1 + z * (1 - s));
	case RF_ACT_RELU: return z > 0 ? 1 : 0;
	case RF_ACT_ELU:  return z > 0 ? 1 : expf(z);
	default:          return 1;
	}
}

/* The norm of a head a, from s, the sum of a^2 (L2) or of a, and t, the sum of a dy.  x: the factor f by
 * which a is multiplied; y: m of
 *
 *     L2:   da = f (dy - m a)
 *     sum:  da = f (dy - m) */
static __device__ __forceinline__ float2 norm_of(const struct conv &c, float s, float t)
{
	if (c.norm == RF_NORM_NONE)
		return make_float2(c.scale, 0);
	if (c.norm == RF_NORM_SUM)
		return make_float2(c.scale / s, t / s);
	return make_float2(c.scale / sqrtf(s + 1e-6f), t / (s + 1e-6f));
}

/* The norms' factors; one warp for each row and head. */
static __global__ void factors(struct conv a, float2 *to)
{
	const size_t unit = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, row = unit / a.heads;
	const int h = (int)(unit % a.heads);
	float s = 0, t = 0;

	if (row >= (size_t)a.steps * a.nb)
		return;
	for (int k = threadIdx.x % 32; k < a.head; k += 32) {
		const int c = h * a.head + k;
		float z = 0, y;

		for (int i = 0; i < a.w; i++)
			z += (a.weight ? a.weight[(size_t)c * a.w + i] : 1) *
			     a.x[(row + (size_t)i * a.nb) * a.ldx + c];
		y = act(a.act, z);
		s += a.norm == RF_NORM_L2 ? y * y : y;
		if (a.dy)
			t += y * a.dy[row * a.d + c];
	}
	s = warp_sum(s);
	t = warp_sum(t);
	if (threadIdx.x % 32 == 0)
		to[unit] = norm_of(a, s, t);
}

/* The first of a warp's columns, and in *n how many it has. */
static __device__ __forceinline__ int columns(const struct conv &a, int group, int *n)
{
	const int h = group / a.pieces, piece = group % a.pieces, left = a.head - piece * a.width;

	*n = left < a.width ? left : a.width;
	return h * a.head + piece * a.width;
}

/* to[k] = p[32 k + lane] for n numbers; the others become 0. */
template <int C> static __device__ __forceinline__ void load(float (&to)[C], const float *p, int n)
{
	const int lane = threadIdx.x % 32;

	for (int k = 0; k < C; k++)
		to[k] = 32 * k + lane < n ? p[32 * k + lane] : 0;
}

template <int C> static __device__ __forceinline__ void store(float *p, const float (&from)[C], int n)
{
	const int lane = threadIdx.x % 32;

	for (int k = 0; k < C; k++)
		if (32 * k + lane < n)
			p[32 * k + lane] = from[k];
}

/* The last w rows that a warp has seen; x[i] is the row that tap i reads. */
template <int W, int C> struct window { float x[W][C]; };

template <int W, int C>
static __device__ __forceinline__ void load_taps(const struct conv &a, int w, int c, int n,
                                                 struct window<W, C> &tap)
{
	const int lane = threadIdx.x % 32;

	for (int i = 0; i < w; i++)
		for (int k = 0; k < C; k++)
			tap.x[i][k] = 32 * k + lane >= n ? 0
			              : a.weight         ? a.weight[(size_t)(c + 32 * k + lane) * w + i]
			                                 : 1;
}

template <int W, int C>
static __device__ __forceinline__ void push(struct window<W, C> &v, int w, const float (&x)[C])
{
	for (int i = 0; i + 1 < w; i++)
		for (int k = 0; k < C; k++)
			v.x[i][k] = v.x[i + 1][k];
	for (int k = 0; k < C; k++)
		v.x[w - 1][k] = x[k];
}

template <int W, int C>
static __device__ __forceinline__ void convolve(const struct window<W, C> &tap, const struct window<W, C> &v,
                                                int w, float (&z)[C])
{
	for (int k = 0; k < C; k++) {
		z[k] = 0;
		for (int i = 0; i < w; i++)
			z[k] += tap.x[i][k] * v.x[i][k];
	}
}

/* W: w, or LONGEST for any w.  While one row is worked on, the next one is on its way. */
template <int W, int C> static __global__ void __launch_bounds__(32 * WARPS, 1) conv_rows(struct conv a)
{
	const size_t unit = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, task = unit / (a.heads * a.pieces);
	const int group = (int)(unit % (a.heads * a.pieces)), lane = threadIdx.x % 32,
		  w = W < LONGEST ? W : a.w;
	struct window<W, C> tap, v;
	float x[C], z[C];
	int n;

	if (task >= a.tasks)
		return;
	const int c = columns(a, group, &n), first = (int)(task / a.nb) * a.run,
		  last = first + a.run < a.steps ? first + a.run : a.steps;
	const size_t b = task % a.nb, apart = (size_t)a.nb * a.ldx;
	const float *from = a.x + (first * (size_t)a.nb + b) * a.ldx + c;

	load_taps(a, w, c, n, tap);
	for (int i = 0; i + 1 < w; i++)
		load(v.x[i + 1], from + i * apart, n);
	from += (w - 1) * apart;
	load(x, from, first < last ? n : 0);
	for (int j = first; j < last; j++) {
		const size_t row = j * (size_t)a.nb + b;
		float2 f = make_float2(a.scale, 0);

		push(v, w, x);
		from += apart;
		if (j + 1 < last)
			load(x, from, n);
		convolve(tap, v, w, z);
		for (int k = 0; k < C; k++)
			z[k] = act(a.act, z[k]);
		if (a.factor)
			f = a.factor[row * a.heads + group / a.pieces];
		else if (a.norm != RF_NORM_NONE) {
			float s = 0;

			for (int k = 0; k < C; k++)
				if (32 * k + lane < n) /* act(0) need not be 0 */
					s += a.norm == RF_NORM_L2 ? z[k] * z[k] : z[k];
			f = norm_of(a, warp_sum(s), 0);
		}
		for (int k = 0; k < C; k++)
			z[k] *= f.x;
		store(a.y + row * a.d + c, z, n);
	}
}

/* dx of row e, which tap i of row e - i nb has read: dz.x[i] is the dz of that row. */
template <int W, int C>
static __device__ __forceinline__ void give_back(const struct window<W, C> &tap, struct window<W, C> &dz,
                                                 int w, const float (&g)[C], float *dx, int n, bool write)
{
	float s[C];

	for (int i = w - 1; i > 0; i--)
		for (int k = 0; k < C; k++)
			dz.x[i][k] = dz.x[i - 1][k];
	for (int k = 0; k < C; k++)
		dz.x[0][k] = g[k];
	if (!write)
		return;
	convolve(tap, dz, w, s);
	store(dx, s, n);
}

template <int W, int C> static __global__ void __launch_bounds__(32 * WARPS, 1) conv_rows_back(struct conv a)
{
	const size_t unit = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, part = unit / (a.heads * a.pieces);
	const int group = (int)(unit % (a.heads * a.pieces)), lane = threadIdx.x % 32,
		  w = W < LONGEST ? W : a.w;
	struct window<W, C> tap, v, dz, sum;
	float x[C], dy[C], g[C], z[C];
	int n;

	if (part >= (size_t)a.parts)
		return;
	const int c = columns(a, group, &n);
	const size_t apart = (size_t)a.nb * a.ldx,
		     end = (part + 1) * a.each < a.tasks ? (part + 1) * a.each : a.tasks;

	load_taps(a, w, c, n, tap);
	for (int i = 0; i < w; i++)
		for (int k = 0; k < C; k++)
			sum.x[i][k] = 0;
	for (size_t task = part * a.each; task < end; task++) {
		const int own = (int)(task / a.nb) * a.run,
			  last = own + a.run < a.steps ? own + a.run : a.steps;
		const int first = own > w - 1 ? own - (w - 1) : 0;
		const size_t b = task % a.nb;
		const float *from = a.x + (first * (size_t)a.nb + b) * a.ldx + c,
			    *back = a.dy + (first * (size_t)a.nb + b) * a.d + c;

		for (int i = 0; i < w; i++)
			for (int k = 0; k < C; k++)
				dz.x[i][k] = 0;
		for (int i = 0; i + 1 < w; i++)
			load(v.x[i + 1], from + i * apart, n);
		from += (w - 1) * apart;
		load(x, from, first < last ? n : 0);
		load(dy, back, first < last ? n : 0);
		for (int j = first; j < last; j++) {
			const size_t row = j * (size_t)a.nb + b;
			float2 f = make_float2(a.scale, 0);

			push(v, w, x);
			for (int k = 0; k < C; k++)
				g[k] = dy[k];
			from += apart;
			back += (size_t)a.nb * a.d;
			if (j + 1 < last) {
				load(x, from, n);
				load(dy, back, n);
			}
			convolve(tap, v, w, z);
			if (a.factor)
				f = a.factor[row * a.heads + group / a.pieces];
			else if (a.norm != RF_NORM_NONE) {
				float s = 0, t = 0;

				for (int k = 0; k < C; k++)
					if (32 * k + lane < n) {
						const float y = act(a.act, z[k]);

						s += a.norm == RF_NORM_L2 ? y * y : y;
						t += y * g[k];
					}
				s = warp_sum(s);
				f = norm_of(a, s, warp_sum(t));
			}
			for (int k = 0; k < C; k++) {
				if (a.norm == RF_NORM_L2)
					g[k] -= f.y * act(a.act, z[k]);
				else if (a.norm == RF_NORM_SUM)
					g[k] -= f.y;
				g[k] *= f.x * act_slope(a.act, z[k]);
			}
			for (int i = 0; j >= own && i < w; i++)
				for (int k = 0; k < C; k++)
					sum.x[i][k] += g[k] * v.x[i][k];
			give_back(tap, dz, w, g, a.dx + row * a.ldx + c, n, j >= own);
		}
		for (int k = 0; k < C; k++)
			g[k] = 0;
		for (int j = a.steps; last == a.steps && j < a.steps + w - 1; j++)
			give_back(tap, dz, w, g, a.dx + (j * (size_t)a.nb + b) * a.ldx + c, n, true);
	}
	for (int i = 0; a.part && i < w; i++)
		store(a.part + (part * w + i) * a.d + c, sum.x[i], n);
}

/* dweight (d, w) += the sum of the parts.  A block has 32 columns and one tap, with eight threads per
 * column. */
static __global__ void sum_parts(const float *part, float *dweight, int parts, int d, int w)
{
	SHARED(room);
	float *sum = room.take<float>(8 * 32);
	const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, c = blockIdx.x / w * 32 + lane,
		  i = blockIdx.x % w;
	float s = 0;

	for (int p = slice; c < d && p < parts; p += 8)
		s += part[((size_t)p * w + i) * d + c];
	sum[slice * 32 + lane] = s;
	__syncthreads();
	if (slice || c >= d)
		return;
	for (int k = 1; k < 8; k++)
		s += sum[k * 32 + lane];
	dweight[(size_t)c * w + i] += s;
}

/* ---- the host's side ----------------------------------------------------------------------- */

static unsigned blocks_of(size_t warps) { return (unsigned)((warps + WARPS - 1) / WARPS); }

/* Steps of a run.  Where rows are few, long runs would leave most of the GPU idle: of 2048 rows and 16 heads
 * runs of 32 make 8 warps for each of 132 multiprocessors, which hide no latency.  Backward, w-1 steps of
 * each run are computed twice. */
static int run_of(int steps, bool back)
{
	const int run = steps <= 4096 ? 8 : steps <= 8192 ? 16 : 32;

	return back && run < 32 ? 2 * run : run;
}

/* Decides how columns and steps are cut. */
static void cut(struct conv *a, bool back)
{
	const bool wide = a->norm != RF_NORM_NONE && a->head > WIDEST;

	if (a->norm == RF_NORM_NONE || !a->head)
		a->head = a->d;
	a->heads = a->d / a->head;
	a->width = a->norm == RF_NORM_NONE || wide ? CUT : a->head;
	if (a->w != 1 && a->w != 4)
		a->width = 32;
	if (a->width > a->head)
		a->width = a->head;
	a->pieces = (a->head + a->width - 1) / a->width;
	a->run = a->w > 4 ? 4 * a->w : run_of(a->steps, back);
	a->runs = a->steps ? (a->steps + a->run - 1) / a->run : 1;
	a->tasks = (size_t)a->runs * a->nb;
	a->each = 1;
}

/* Whether the factors of heads must be computed by a separate pass, since several warps share a head. */
static bool apart(const struct conv *a) { return a->norm != RF_NORM_NONE && a->pieces > 1; }

#define CONV_KERNEL(kernel, W) \
	(a.width <= 64 ? (kernel<W, 2>) : a.width <= 128 ? (kernel<W, 4>) : (kernel<W, 8>))
#define CONV(kernel) \
	(a.w == 1 ? CONV_KERNEL(kernel, 1) : a.w == 4 ? CONV_KERNEL(kernel, 4) : (kernel<LONGEST, 1>))

void rf_cuda_conv_fwd(struct rf_dev *d, const struct rf_conv_fwd *x)
{
	struct conv a = {};
	const size_t rows = (size_t)x->steps * x->nb;
	float2 *factor = NULL;

	a.nb = x->nb, a.steps = x->steps, a.d = x->d, a.ldx = x->ldx ? x->ldx : x->d, a.w = x->w,
	a.head = x->head;
	a.act = x->act, a.norm = x->norm, a.scale = x->scale, a.x = f32(x->x), a.weight = f32(x->weight),
	a.y = f32(x->y);
	if (!rows || !x->d)
		return;
	cut(&a, false);
	if (apart(&a)) {
		if (!(factor = (float2 *)rf_cuda_scratch(d, rows * a.heads * sizeof *factor)))
			return;
		LAUNCH(d, factors, blocks_of(rows * a.heads), 32 * WARPS, 0, a, factor);
		a.factor = factor;
	}
	LAUNCH(d, CONV(conv_rows), blocks_of(a.tasks * a.heads * a.pieces), 32 * WARPS, 0, a);
}

void rf_cuda_conv_bwd(struct rf_dev *d, const struct rf_conv_bwd *x)
{
	struct conv a = {};
	const size_t rows = (size_t)x->steps * x->nb;
	size_t factor_size = 0;
	char *room = NULL;

	a.nb = x->nb, a.steps = x->steps, a.d = x->d, a.ldx = x->ldx ? x->ldx : x->d, a.w = x->w,
	a.head = x->head;
	a.act = x->act, a.norm = x->norm, a.scale = x->scale, a.x = f32(x->x), a.weight = f32(x->weight),
	a.dy = f32(x->dy), a.dx = f32(x->dx);
	if (!x->nb || !x->d)
		return;
	cut(&a, true);
	if (a.weight)
		a.each = (a.tasks + PARTS - 1) / PARTS;
	a.parts = (int)((a.tasks + a.each - 1) / a.each);
	if (apart(&a))
		factor_size = shared_size(rows * a.heads, sizeof *a.factor);
	if ((factor_size || a.weight) &&
	    !(room = (char *)rf_cuda_scratch(d,
	                                     factor_size + (a.weight ? (size_t)a.parts * a.w * a.d * 4 : 0))))
		return;
	if (factor_size) {
		LAUNCH(d, factors, blocks_of(rows * a.heads), 32 * WARPS, 0, a, (float2 *)room);
		a.factor = (float2 *)room;
	}
	if (a.weight)
		a.part = (float *)(room + factor_size);
	LAUNCH(d, CONV(conv_rows_back), blocks_of((size_t)a.parts * a.heads * a.pieces), 32 * WARPS, 0, a);
	if (a.weight)
		LAUNCH(d, sum_parts, (unsigned)((a.d + 31) / 32 * a.w), 256, shared_size(8 * 32, 4), a.part,
		       f32(x->dweight), a.parts, a.d, a.w);
}
