/* rows.cu -- operations on whole rows: embeddings, gathering and scattering, the rows before a sequence, sums
 * of columns.
 *
 * All kernels are bound by memory: 8 bytes per number moved, 12 per number added, 4 per number of a column's
 * sum.  At T 16384 and d 2048, 134 MB a matrix, that is 0.09, 0.13 and 0.05 ms.
 *
 * Rows are added to targets that occur several times (a gradient of embeddings) without sorting and without
 * atomics.  For each row, a warp searches backwards for the nearest row with the same target, which makes
 * chains.  Then a block starts at each chain's first row, follows the chain, and adds in the order of the
 * rows, as the CPU does, with the same bits.  The search ends soon for a row of a frequent token; the first
 * row of a chain reads all indices before it.  The total, the sum over rows of min(T, 1 / frequency), is
 * about T times the number of distinct tokens, 4 bytes each from the cache: 0.26 GB and 0.1 ms for T 16384
 * with 4000 distinct tokens, 130 GB and 30 ms of a pass of 20 s for T 2^20 with 30000.  The longest chain is
 * that of the most frequent token, 5 % of T: at 0.3 us per link 0.25 ms and 15 ms, in one block per 512
 * columns, while other blocks follow the other chains. */
#include "cuda/sweep.h"

/* ---- moving -------------------------------------------------------------------------------- */

struct moves {
	size_t lf, lt;
	bool add;
	const float *from;
	float *to;
	const int32_t *fi, *ti;

	template <int W> __device__ void at(size_t i, size_t j) const
	{
		numbers<W> x = load_numbers<W>(from + (fi ? (size_t)fi[i] : i) * lf + j);
		float *p = to + (ti ? (size_t)ti[i] : i) * lt + j;

		if (add) {
			const numbers<W> y = load_numbers<W>(p);

			for (int k = 0; k < W; k++)
				x[k] = y[k] + x[k];
		}
		store_numbers<W>(p, x);
	}
};

/* ---- adding to targets that occur several times -------------------------------------------- */

enum { LOOK = 4, WALK = 4, LINKERS = 256, WALKERS = 128 };

/* Links rows with the same target.  first[i]: no row before i has the same target.  next[i]: the next row
 * with the same target; stays -1 if there is no such row. */
static __global__ void __launch_bounds__(LINKERS)
	link_rows(const int32_t *ti, int n, int32_t *next, int32_t *first)
{
	const int i = blockIdx.x * (LINKERS / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
	int before = -1, place;

	if (i >= n)
		return;
	place = ti[i];
	for (int end = i; end > 0 && before < 0; end -= 32 * LOOK) {
		bool same[LOOK]; /* all are loaded before the first is compared */

		for (int k = 0; k < LOOK; k++) {
			const int at = end - 1 - 32 * k - lane;

			same[k] = at >= 0 && ti[at] == place;
		}
		for (int k = 0; k < LOOK; k++) {
			const unsigned who = __ballot_sync(~0u, same[k]);

			if (who && before < 0)
				before = end - 1 - 32 * k - (__ffs((int)who) - 1);
		}
	}
	if (lane)
		return;
	first[i] = before < 0;
	if (before >= 0)
		next[before] = i;
}

/* Adds rows along chains.  A block has one row and 4 WALKERS columns; it follows a chain if the row is the
 * chain's first. */
template <bool WIDE>
static __global__ void __launch_bounds__(WALKERS)
	add_chain(struct moves m, size_t d, const int32_t *next, const int32_t *first)
{
	const size_t j = ((size_t)blockIdx.y * WALKERS + threadIdx.x) * 4;
	const int row = (int)blockIdx.x;

	if (!first[row] || j >= d)
		return;
	float *to = m.to + (size_t)m.ti[row] * m.lt + j;
	numbers<4> sum = load_four<WIDE>(to, d - j);

	for (int at = row; at >= 0;) {
		int link[WALK];
		numbers<4> x[WALK];

		for (int k = 0; k < WALK; k++) {
			link[k] = at;
			at = at >= 0 ? next[at] : at;
		}
		for (int k = 0; k < WALK; k++)
			if (link[k] >= 0) {
				const size_t from = (size_t)(m.fi ? m.fi[link[k]] : link[k]);

				x[k] = load_four<WIDE>(m.from + from * m.lf + j, d - j);
			}
		for (int k = 0; k < WALK; k++)
			for (int l = 0; l < 4; l++)
				sum[l] = link[k] >= 0 ? sum[l] + x[k][l] : sum[l];
	}
	store_four<WIDE>(to, d - j, sum);
}

/* Moves n rows of width `width`.  The caller has told rounded.cu where they are written.  links: memory for 2
 * n indices, if rows are added to targets that may occur several times. */
static void move_rows(struct rf_dev *d, const char *name, int n, int width, const struct moves &m,
                      int32_t *links)
{
	const bool wide = aligned(m.from, m.to) && width % 4 == 0 && m.lf % 4 == 0 && m.lt % 4 == 0;

	if (!n || !width)
		return;
	if (!m.add || !m.ti) {
		sweep(d, name, (size_t)n, (size_t)width, wide, m);
		return;
	}
	const dim3 grid((unsigned)n, (unsigned)((width + 4 * WALKERS - 1) / (4 * WALKERS)));

	if (!links || !rf_cuda_ok(d, cudaMemsetAsync(links, 0xff, (size_t)n * 4, cuda_of(d)->stream), name))
		return;
	LAUNCH(d, link_rows, (n + LINKERS / 32 - 1) / (LINKERS / 32), LINKERS, 0, m.ti, n, links, links + n);
	if (wide)
		LAUNCH(d, add_chain<true>, grid, WALKERS, 0, m, (size_t)width, links, links + n);
	else
		LAUNCH(d, add_chain<false>, grid, WALKERS, 0, m, (size_t)width, links, links + n);
}

static size_t or_width(int ld, int d) { return (size_t)(ld ? ld : d); }

void rf_cuda_rows(struct rf_dev *d, const struct rf_rows *a)
{
	const struct moves m = { or_width(a->lf, a->d),
		                 or_width(a->lt, a->d),
		                 a->add,
		                 f32(a->from),
		                 f32(a->to),
		                 i32(a->fi),
		                 i32(a->ti) };

	if (!a->n || !a->d)
		return;
	if (a->ti)
		rf_cuda_rounded_stale(d);
	else
		rf_cuda_rounded_wrote(d, m.to, (size_t)(a->n - 1) * m.lt + (size_t)a->d);
	move_rows(d, "rows", a->n, a->d, m,
	          a->add && a->ti ? (int32_t *)rf_cuda_scratch(d, (size_t)a->n * 8) : NULL);
}

void rf_cuda_embed_fwd(struct rf_dev *d, const struct rf_embed_fwd *a)
{
	const struct moves m = {
		(size_t)a->d, (size_t)a->d, false, f32(a->w), f32(a->y), i32(a->tokens), NULL
	};

	rf_cuda_rounded_restart(d);
	move_rows(d, "embed_fwd", a->rows, a->d, m, NULL);
}

void rf_cuda_embed_bwd(struct rf_dev *d, const struct rf_embed_bwd *a)
{
	const struct moves m = { (size_t)a->d, (size_t)a->d, true,          f32(a->dy),
		                 f32(a->dw),   NULL,         i32(a->tokens) };

	if (!a->rows || !a->d)
		return;
	rf_cuda_rounded_stale(d);
	move_rows(d, "embed_bwd", a->rows, a->d, m, (int32_t *)rf_cuda_scratch(d, (size_t)a->rows * 8));
}

/* ---- the rows before a sequence ------------------------------------------------------------ */

/* Finds the row of x and the row of the slots for the p-th row that moves. */
struct tails {
	int w, nb, n;
	bool keep;
	const int32_t *row, *slot;
	int32_t *of_x, *of_slots;

	template <int W> __device__ void at(size_t p, size_t) const
	{
		const int i = (int)(p / w), j = (int)(p % w);

		of_x[p] = keep ? row[i] + 1 + j : j * nb + i;
		of_slots[p] = (slot ? slot[keep ? i : i / n] : 0) * w + j;
	}
};

static void move_tails(struct rf_dev *d, const char *name, int n, int width, bool back, float *x,
                       float *slots, struct tails t)
{
	const size_t rows = (size_t)n * t.w;
	const bool out = t.keep != back; /* from x to the slots */
	struct moves m = { (size_t)width, (size_t)width, back, out ? x : slots, out ? slots : x, NULL, NULL };

	if (!rows || !width || !(t.of_x = (int32_t *)rf_cuda_scratch(d, rows * 16)))
		return;
	t.of_slots = t.of_x + rows;
	m.fi = out ? t.of_x : t.of_slots;
	m.ti = out ? t.of_slots : t.of_x;
	sweep_by<1>(d, name, rows, 1, t);
	/* no product multiplies slots */
	if (!out && t.keep)
		rf_cuda_rounded_stale(d);
	else if (!out)
		rf_cuda_rounded_wrote(d, x, rows * (size_t)width);
	move_rows(d, name, (int)rows, width, m, t.of_slots + rows);
}

void rf_cuda_tail_load(struct rf_dev *d, const struct rf_tail_load *a)
{
	move_tails(d, "tail_load", a->nb, a->d, a->back, f32(a->x), f32(a->slots),
	           { a->w, a->nb, a->n ? a->n : 1, false, NULL, i32(a->slot), NULL, NULL });
}

void rf_cuda_tail_keep(struct rf_dev *d, const struct rf_tail_keep *a)
{
	move_tails(d, "tail_keep", a->n, a->d, a->back, f32(a->x), f32(a->slots),
	           { a->w, 1, 1, true, i32(a->row), i32(a->slot), NULL, NULL });
}

/* ---- sums of columns ----------------------------------------------------------------------- */

/* Sums columns in double, since a sum over many rows may be far smaller than its terms.  A block has 32
 * columns and `per` rows, and reads eight rows at a time.  The same kernel adds up the sums of the strips. */
enum { COLS = 32, SIDE = 8, STRIP = 256, AHEAD = 4 };

template <class T>
static __global__ void __launch_bounds__(COLS *SIDE)
	sum_columns(const T *x, int rows, size_t cols, size_t ldx, int per, double *part, float *y,
                    size_t step)
{
	SHARED(s);
	double *side = s.take<double>(COLS * SIDE), sum = 0;
	const size_t c = (size_t)blockIdx.x * COLS + threadIdx.x;
	const int last = (int)blockIdx.y * per + per < rows ? (int)blockIdx.y * per + per : rows;
	int i = blockIdx.y * per + threadIdx.y;

	if (c < cols) {
		for (; i + (AHEAD - 1) * SIDE < last; i += AHEAD * SIDE) {
			T v[AHEAD];

			for (int k = 0; k < AHEAD; k++)
				v[k] = x[(size_t)(i + k * SIDE) * ldx + c];
			for (int k = 0; k < AHEAD; k++)
				sum += (double)v[k];
		}
		for (; i < last; i += SIDE)
			sum += (double)x[(size_t)i * ldx + c];
	}
	side[threadIdx.y * COLS + threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y || c >= cols)
		return;
	for (int i = 1; i < SIDE; i++)
		sum += side[i * COLS + threadIdx.x];
	if (part)
		part[blockIdx.y * cols + c] = sum;
	else
		y[c * step] = (float)((double)y[c * step] + sum);
}

/* Sums columns.  part NULL: all rows are one strip. */
template <class T>
static void sum_strips(struct rf_dev *d, const T *x, int rows, size_t cols, size_t ldx, int per, double *part,
                       float *y, size_t step)
{
	const dim3 grid((unsigned)((cols + COLS - 1) / COLS), (unsigned)((rows + per - 1) / per));

	if (y)
		rf_cuda_rounded_wrote(d, y, (cols - 1) * step + 1);
	LAUNCH(d, sum_columns<T>, grid, dim3(COLS, SIDE), shared_size(COLS * SIDE, sizeof(double)), x, rows,
	       cols, ldx, per, part, y, step);
}

void rf_cuda_add_strips(struct rf_dev *d, const float *x, int strips, size_t cols, size_t ldx, float *y,
                        size_t step)
{
	sum_strips(d, x, strips, cols, ldx, strips, nullptr, y, step);
}

void rf_cuda_add_strips(struct rf_dev *d, const double *x, int strips, size_t cols, size_t ldx, float *y,
                        size_t step)
{
	sum_strips(d, x, strips, cols, ldx, strips, nullptr, y, step);
}

void rf_cuda_add_many(struct rf_dev *d, const float *x, int strips, size_t cols, double *scratch, float *y)
{
	const int sums = (int)(rf_cuda_many_room(strips, cols) / cols);

	sum_strips(d, x, strips, cols, cols, 32, scratch, NULL, 0);
	rf_cuda_add_strips(d, scratch, sums, cols, cols, y, 1);
}

void rf_cuda_colsum(struct rf_dev *d, const struct rf_colsum *a)
{
	const size_t cols = (size_t)a->d, ldx = or_width(a->ldx, a->d);
	const int per = strip_rows(a->rows, STRIP), strips = (a->rows + per - 1) / per;
	double *part;

	if (!a->rows || !cols)
		return;
	if (strips == 1) {
		rf_cuda_add_strips(d, f32(a->x), a->rows, cols, ldx, f32(a->y), 1);
		return;
	}
	if (!(part = (double *)rf_cuda_scratch(d, (size_t)strips * cols * sizeof *part)))
		return;
	sum_strips(d, f32(a->x), a->rows, cols, ldx, per, part, NULL, 0);
	rf_cuda_add_strips(d, part, strips, cols, cols, f32(a->y), 1);
}
