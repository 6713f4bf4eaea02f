/* conv.cu -- short convolution, activation and head norm in one pass over the rows, forward and backward.
 *
 * All kernels are bound by memory.  At T = 16384, d = 2048 a matrix is 134 MB, 45 us at 3 TB/s.  Forward
 * reads one and writes one; backward reads x and dy and writes dx, 135 us; the multiplications and silu of
 * each number take a third of that.  So each number should be read once.  A warp owns a run of steps of one
 * sequence and the columns of one head.  It goes step by step and holds the last w rows of x in registers,
 * every 32nd column in one lane, so a head's sum is one reduction in the warp.  Backward it also holds the
 * last w rows of dz, so dx of a step needs no later step.  It computes the w-1 steps of dz before its run
 * again, 3 of 16 or 32, whose data the neighbouring warp has just read into the cache.
 *
 * A warp's registers cannot hold a head of more than WIDEST columns: a separate pass (factors) computes the
 * factors of its norms, and the head is then cut like rows without a norm.  For a width w other than 1 or 4
 * the windows are in local memory.
 *
 * For dweight each warp sums over its own rows.  That makes at most PARTS partial sums, whose number depends
 * only on the shape, and they are added in order: 17 MB at this size, 8 % of the traffic. */
#include "cuda/sweep.h"

enum { WARPS = 8, PARTS = 512, WIDEST = 256, CUT = 128, LONGEST = 64 };

/* Columns of x that have one weight: `heads` heads of `head` columns each; a head is cut into `pieces` pieces
 * of `width` columns. */
struct side {
	int at, d, heads, head, pieces, width;
	enum rf_act act;
	enum rf_norm norm;
	float scale;
	const float *weight, *dy;
	const float2 *factor; /* (R, heads); NULL: no norm, or the warp computes the factors */
	float *y, *dweight;
	unsigned end; /* the block after the side's last block */
};

struct conv {
	int nb, steps, ldx, w, sides, d; /* d: columns of all sides */
	int run, runs, parts;
	size_t each, tasks; /* a task is a run of one sequence; each: tasks of a part */
	const float *x;
	float *dx, *part; /* part (parts, w, d) */
	struct side side[RF_SIDE];
};

static __device__ __forceinline__ float activate(enum rf_act kind, float z)
{
	switch (kind) {
	case RF_ACT_SILU: return z * sigmoid(z);
	case RF_ACT_RELU:
		return z < 0 ? 0 : z; /* a NaN stays */
	/* clang-format off */
	case RF_ACT_ELU:  return z > 0 ? z + 1 : expf(z);
	default:          return z;
		/* clang-format on */
	}
}

static __device__ __forceinline__ float act_slope(enum rf_act kind, float z)
{
	float s;

	switch (kind) {
	case RF_ACT_SILU: s = sigmoid(z); return s * (1 + z * (1 - s));
	case RF_ACT_RELU: return z > 0 ? 1 : 0;
	/* clang-format off */
	case RF_ACT_ELU:  return z > 0 ? 1 : expf(z);
	default:          return 1;
		/* clang-format on */
	}
}

/* Returns a head's norm as two numbers.  s: the sum of a^2 (L2) or of a; t: the sum of a dy.  x: the factor f
 * by which a is multiplied; y: m of
 *
 *     L2:   da = f (dy - m a)
 *     sum:  da = f (dy - m) */
static __device__ __forceinline__ float2 norm_of(const struct side &c, float s, float t)
{
	if (c.norm == RF_NORM_NONE)
		return make_float2(c.scale, 0);
	if (c.norm == RF_NORM_SUM)
		return make_float2(c.scale / s, t / s);
	return make_float2(c.scale / sqrtf(s + 1e-6f), t / (s + 1e-6f));
}

/* Computes the norms' factors, one warp for each row and head. */
static __global__ void factors(const struct conv v, const struct side a, float2 *to)
{
	const size_t unit = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, row = unit / a.heads;
	const int h = (int)(unit % a.heads);
	float s = 0, t = 0;

	if (row >= (size_t)v.steps * v.nb)
		return;
	for (int k = threadIdx.x % 32; k < a.head; k += 32) {
		const int c = h * a.head + k;
		float z = 0, y;

		for (int i = 0; i < v.w; i++)
			z += (a.weight ? a.weight[(size_t)c * v.w + i] : 1) *
			     v.x[(row + (size_t)i * v.nb) * v.ldx + a.at + c];
		y = activate(a.act, z);
		s += a.norm == RF_NORM_L2 ? y * y : y;
		if (a.dy)
			t += y * a.dy[row * a.d + c];
	}
	s = warp_sum(s);
	t = warp_sum(t);
	if (threadIdx.x % 32 == 0)
		to[unit] = norm_of(a, s, t);
}

/* Returns the side that the warp belongs to.  *task: the warp's run or part of this side; *group: its piece
 * of columns. */
static __device__ __forceinline__ const struct side &side_of(const struct conv &v, size_t *task, int *group)
{
	int i = 0;

	while (blockIdx.x >= v.side[i].end)
		i++;
	const struct side &a = v.side[i];
	const size_t warp = (size_t)(blockIdx.x - (i ? v.side[i - 1].end : 0)) * WARPS + threadIdx.x / 32;

	*task = warp / (a.heads * a.pieces);
	*group = (int)(warp % (a.heads * a.pieces));
	return a;
}

/* Returns the first column of a warp, and in *n the number of its columns. */
static __device__ __forceinline__ int columns_of(const struct side &a, int group, int *n)
{
	const int h = group / a.pieces, piece = group % a.pieces, left = a.head - piece * a.width;

	*n = left < a.width ? left : a.width;
	return h * a.head + piece * a.width;
}

/* Sets to[k] = p[32 k + lane] for n numbers; the others become 0. */
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

/* The last w rows that a warp has read; x[i] is the row that tap i reads. */
template <int W, int C> struct window {
	float x[W][C];
};

template <int W, int C>
static __device__ __forceinline__ void load_taps(const struct side &a, int w, int c, int n,
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
static __device__ __forceinline__ void shift_in(struct window<W, C> &v, int w, const float (&x)[C])
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

/* Computes y.  W: w, or LONGEST for any w.  The next row is loaded while a row is computed. */
template <int W, int C>
static __global__ void __launch_bounds__(32 * WARPS, 1) conv_rows(const __grid_constant__ struct conv u)
{
	size_t task;
	int group;
	const struct side &a = side_of(u, &task, &group);
	const int lane = threadIdx.x % 32, w = W < LONGEST ? W : u.w;
	struct window<W, C> tap, v;
	float x[C], z[C];
	int n;

	if (task >= u.tasks)
		return;
	const int c = columns_of(a, group, &n), first = (int)(task / u.nb) * u.run,
		  last = first + u.run < u.steps ? first + u.run : u.steps;
	const size_t b = task % u.nb, stride = (size_t)u.nb * u.ldx;
	const float *from = u.x + (first * (size_t)u.nb + b) * u.ldx + a.at + c;

	load_taps(a, w, c, n, tap);
	for (int i = 0; i + 1 < w; i++)
		load(v.x[i + 1], from + i * stride, n);
	from += (w - 1) * stride;
	load(x, from, first < last ? n : 0);
	for (int j = first; j < last; j++) {
		const size_t row = j * (size_t)u.nb + b;
		float2 f = make_float2(a.scale, 0);

		shift_in(v, w, x);
		from += stride;
		if (j + 1 < last)
			load(x, from, n);
		convolve(tap, v, w, z);
		for (int k = 0; k < C; k++)
			z[k] = activate(a.act, z[k]);
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

/* Computes dx of row e, which tap i of row e - i nb has read: dz.x[i] is the dz of that row. */
template <int W, int C>
static __device__ __forceinline__ void store_dx(const struct window<W, C> &tap, struct window<W, C> &dz,
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

template <int W, int C>
static __global__ void __launch_bounds__(32 * WARPS, 1) conv_rows_back(const __grid_constant__ struct conv u)
{
	size_t part;
	int group;
	const struct side &a = side_of(u, &part, &group);
	const int lane = threadIdx.x % 32, w = W < LONGEST ? W : u.w;
	struct window<W, C> tap, v, dz, sum;
	float x[C], dy[C], g[C], z[C];
	int n;

	if (part >= (size_t)u.parts)
		return;
	const int c = columns_of(a, group, &n);
	const size_t stride = (size_t)u.nb * u.ldx,
		     end = (part + 1) * u.each < u.tasks ? (part + 1) * u.each : u.tasks;

	load_taps(a, w, c, n, tap);
	for (int i = 0; i < w; i++)
		for (int k = 0; k < C; k++)
			sum.x[i][k] = 0;
	for (size_t task = part * u.each; task < end; task++) {
		const int own = (int)(task / u.nb) * u.run,
			  last = own + u.run < u.steps ? own + u.run : u.steps;
		const int first = own > w - 1 ? own - (w - 1) : 0;
		const size_t b = task % u.nb;
		const float *from = u.x + (first * (size_t)u.nb + b) * u.ldx + a.at + c,
			    *back = a.dy + (first * (size_t)u.nb + b) * a.d + c;

		for (int i = 0; i < w; i++)
			for (int k = 0; k < C; k++)
				dz.x[i][k] = 0;
		for (int i = 0; i + 1 < w; i++)
			load(v.x[i + 1], from + i * stride, n);
		from += (w - 1) * stride;
		load(x, from, first < last ? n : 0);
		load(dy, back, first < last ? n : 0);
		for (int j = first; j < last; j++) {
			const size_t row = j * (size_t)u.nb + b;
			float2 f = make_float2(a.scale, 0);

			shift_in(v, w, x);
			for (int k = 0; k < C; k++)
				g[k] = dy[k];
			from += stride;
			back += (size_t)u.nb * a.d;
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
						const float y = activate(a.act, z[k]);

						s += a.norm == RF_NORM_L2 ? y * y : y;
						t += y * g[k];
					}
				s = warp_sum(s);
				f = norm_of(a, s, warp_sum(t));
			}
			for (int k = 0; k < C; k++) {
				if (a.norm == RF_NORM_L2)
					g[k] -= f.y * activate(a.act, z[k]);
				else if (a.norm == RF_NORM_SUM)
					g[k] -= f.y;
				g[k] *= f.x * act_slope(a.act, z[k]);
			}
			for (int i = 0; j >= own && i < w; i++)
				for (int k = 0; k < C; k++)
					sum.x[i][k] += g[k] * v.x[i][k];
			store_dx(tap, dz, w, g, u.dx + row * u.ldx + a.at + c, n, j >= own);
		}
		for (int k = 0; k < C; k++)
			g[k] = 0;
		for (int j = u.steps; last == u.steps && j < u.steps + w - 1; j++)
			store_dx(tap, dz, w, g, u.dx + (j * (size_t)u.nb + b) * u.ldx + a.at + c, n, true);
	}
	for (int i = 0; u.part && i < w; i++)
		store(u.part + (part * w + i) * u.d + a.at + c, sum.x[i], n);
}

/* Adds the sum of the parts to dweight (d, w) of each side.  A block has 32 columns and one tap, with eight
 * threads per column. */
static __global__ void sum_parts(const __grid_constant__ struct conv u)
{
	SHARED(scratch);
	float *sum = scratch.take<float>(8 * 32);
	const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, c = blockIdx.x / u.w * 32 + lane,
		  i = blockIdx.x % u.w;
	float s = 0;

	for (int p = slice; c < u.d && p < u.parts; p += 8)
		s += u.part[((size_t)p * u.w + i) * u.d + c];
	sum[slice * 32 + lane] = s;
	__syncthreads();
	if (slice || c >= u.d)
		return;
	for (int k = 1; k < 8; k++)
		s += sum[k * 32 + lane];
	for (int k = 0; k < u.sides; k++)
		if (c >= u.side[k].at && c < u.side[k].at + u.side[k].d)
			u.side[k].dweight[(size_t)(c - u.side[k].at) * u.w + i] += s;
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

/* Returns the columns of a warp in the kernel for heads of this width. */
static int class_of(int width) { return width <= 64 ? 64 : width <= CUT ? CUT : WIDEST; }

/* Returns the width to which sides without a norm are cut: that of the other sides' kernel, since one kernel
 * computes all sides. */
static int width_of(const struct rf_conv_part *part, int parts)
{
	int widest = 0;

	for (int i = 0; i < parts; i++) {
		const int head = part[i].head ? part[i].head : part[i].d;

		if (part[i].norm != RF_NORM_NONE)
			widest = max(widest, class_of(head <= WIDEST ? head : CUT));
	}
	return widest ? widest : CUT;
}

/* Decides how the columns of a side are cut into pieces. */
static void divide_columns(struct side *a, int w, int width)
{
	const bool wide = a->norm != RF_NORM_NONE && a->head > WIDEST;

	if (a->norm == RF_NORM_NONE || !a->head)
		a->head = a->d;
	a->heads = a->d / a->head;
	a->width = wide ? CUT : a->norm == RF_NORM_NONE ? width : a->head;
	if (w != 1 && w != 4)
		a->width = 32;
	if (a->width > a->head)
		a->width = a->head;
	a->pieces = (a->head + a->width - 1) / a->width;
}

/* Sets the sides and how their steps are cut.  Returns false if there is nothing to do. */
static bool set_sides(struct conv *v, int nb, int steps, int ldx, int w, int parts,
                      const struct rf_conv_part *part, bool back)
{
	v->nb = nb, v->steps = steps, v->w = w, v->sides = parts;
	for (int i = 0; i < parts; i++) {
		const struct rf_conv_part *p = &part[i];
		struct side *a = &v->side[i];

		a->at = v->d;
		v->d += p->d;
		a->d = p->d, a->head = p->head, a->act = p->act, a->norm = p->norm, a->scale = p->scale;
		a->weight = f32(p->weight), a->dweight = f32(p->dweight);
		a->y = f32(p->y), a->dy = back ? f32(p->dy) : NULL;
		if (a->d)
			divide_columns(a, w, width_of(part, parts));
	}
	v->ldx = ldx ? ldx : v->d;
	v->run = w > 4 ? 4 * w : run_of(steps, back);
	v->runs = steps ? (steps + v->run - 1) / v->run : 1;
	v->tasks = (size_t)v->runs * nb;
	v->each = 1;
	return nb && v->d;
}

/* Tells whether a separate pass must compute the factors of heads, since several warps share a head. */
static bool needs_factors(const struct side *a) { return a->norm != RF_NORM_NONE && a->pieces > 1; }

static size_t factors_size(const struct conv *v)
{
	size_t n = 0;

	for (int i = 0; i < v->sides; i++)
		if (needs_factors(&v->side[i]))
			n += shared_size((size_t)v->steps * v->nb * v->side[i].heads, sizeof(float2));
	return n;
}

static void find_factors(struct rf_dev *d, struct conv *v, char *scratch)
{
	const size_t rows = (size_t)v->steps * v->nb;

	for (int i = 0; i < v->sides; i++) {
		struct side *a = &v->side[i];

		if (!needs_factors(a))
			continue;
		LAUNCH(d, factors, blocks_of(rows * a->heads), 32 * WARPS, 0, *v, *a, (float2 *)scratch);
		a->factor = (const float2 *)scratch;
		scratch += shared_size(rows * a->heads, sizeof(float2));
	}
}

/* Assigns blocks to each side, for `tasks` tasks or parts.  Returns the number of all blocks. */
static unsigned assign_blocks(struct conv *v, size_t tasks)
{
	unsigned n = 0;

	for (int i = 0; i < v->sides; i++)
		n = v->side[i].end = n + blocks_of(tasks * v->side[i].heads * v->side[i].pieces);
	return n;
}

static int widest(const struct conv &v)
{
	int n = 0;

	for (int i = 0; i < v.sides; i++)
		n = v.side[i].width > n ? v.side[i].width : n;
	return n;
}

#define CONV_KERNEL(kernel, W) \
	(widest(v) <= 64 ? (kernel<W, 2>) : widest(v) <= 128 ? (kernel<W, 4>) : (kernel<W, 8>))
#define CONV(kernel) \
	(v.w == 1 ? CONV_KERNEL(kernel, 1) : v.w == 4 ? CONV_KERNEL(kernel, 4) : (kernel<LONGEST, 1>))

void rf_cuda_conv_fwd(struct rf_dev *d, const struct rf_conv_fwd *x)
{
	struct conv v = {};
	char *scratch = NULL;

	if (!set_sides(&v, x->nb, x->steps, x->ldx, x->w, x->parts, x->part, false) || !x->steps)
		return;
	v.x = f32(x->x);
	if (factors_size(&v) && !(scratch = (char *)rf_cuda_scratch(d, factors_size(&v))))
		return;
	find_factors(d, &v, scratch);
	const unsigned blocks = assign_blocks(&v, v.tasks);
	for (int i = 0; i < x->parts; i++)
		rf_cuda_rounded_wrote(d, f32(x->part[i].y), (size_t)x->steps * x->nb * x->part[i].d);
	LAUNCH(d, CONV(conv_rows), blocks, 32 * WARPS, 0, v);
}

void rf_cuda_conv_bwd(struct rf_dev *d, const struct rf_conv_bwd *x)
{
	struct conv v = {};
	char *scratch = NULL;
	size_t sums = 0;

	if (!set_sides(&v, x->nb, x->steps, x->ldx, x->w, x->parts, x->part, true))
		return;
	v.x = f32(x->x), v.dx = f32(x->dx);
	const bool weights = v.side[0].weight;
	if (weights)
		v.each = (v.tasks + PARTS - 1) / PARTS;
	v.parts = (int)((v.tasks + v.each - 1) / v.each);
	if (weights)
		sums = shared_size((size_t)v.parts * v.w * v.d, 4);
	if (sums + factors_size(&v) && !(scratch = (char *)rf_cuda_scratch(d, sums + factors_size(&v))))
		return;
	find_factors(d, &v, scratch + sums);
	if (weights)
		v.part = (float *)scratch;
	const unsigned blocks = assign_blocks(&v, (size_t)v.parts);
	rf_cuda_rounded_wrote(d, v.dx, ((size_t)(v.w - 1 + v.steps) * v.nb - 1) * v.ldx + v.d);
	LAUNCH(d, CONV(conv_rows_back), blocks, 32 * WARPS, 0, v);
	for (int i = 0; i < x->parts; i++)
		rf_cuda_rounded_wrote(d, f32(x->part[i].dweight), (size_t)x->part[i].d * v.w);
	if (weights)
		LAUNCH(d, sum_parts, (unsigned)((v.d + 31) / 32 * v.w), 256, shared_size(8 * 32, 4), v);
}
