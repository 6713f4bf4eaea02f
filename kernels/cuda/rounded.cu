/* rounded.cu -- bf16 copies of products' operands.
 *
 * Rounding an operand before a product moves 6 bytes per number, for which the product itself has 2 n
 * operations: at n = 2048, 1000 TFLOP/s and 3 TB/s rounding takes half as long as the product.  So the copy
 * of a weight is kept until the weight changes.  Copies of other operands, such as x, which q, k and v share,
 * are kept in a ring of memory.  Such a copy is dropped if a kernel writes to the operand, if a kernel runs
 * that did not announce its output, or if the ring needs the memory.  And a kernel whose result products read
 * also writes a rounded copy, which takes a third of the bytes. */
#include <climits>
#include <cstdlib>
#include <cstring>

#include "cuda/rounded.h"
#include "cuda/sweep.h"

/* A weight's copy.  stale: the weight has changed since; own: the copy's memory is not part of `kept`. */
struct kept {
	struct side of;
	bf16 *to;
	struct kept *next;
	bool stale, own;
};
/* A copy of other numbers, and its place in the ring: n numbers from `at` on.  of.p NULL: unused. */
struct recent {
	struct stored of;
	size_t at, n;
};

/* ROUND: the ring holds the largest operand ROUND times.  A product has two operands, and a kernel writes at
 * most three times the largest of its copies, so these never overwrite each other.  Each copy begins at a
 * multiple of ALIGN numbers, like an allocation; SLACK: room for that. */
enum { RECENT = 64, ROUND = 4, ALIGN = 128, SLACK = 8 * ALIGN, SLOTS = 1 << 10 };
struct rf_cuda_rounded {
	struct kept *weight[SLOTS];  /* hashed by address */
	bf16 *kept;                  /* memory for weights, allocated in advance */
	size_t kept_size, kept_used; /* size and used part of `kept`, in numbers */
	struct recent recent[RECENT];
	int turn;          /* the next of them */
	bf16 *ring;        /* memory for `recent`, used as a ring */
	size_t size, next; /* size of the ring; where the next copy begins */
};

static const char operands[] = " for operands in bf16";

/* Returns the device's copies; NULL: the device does not round, or there was too little memory. */
static struct rf_cuda_rounded *rounded_of(struct rf_dev *d)
{
	struct rf_cuda *c = cuda_of(d);

	if (!c->rounded && d->math == RF_MATH_BF16)
		c->rounded = (struct rf_cuda_rounded *)calloc(1, sizeof *c->rounded);
	return c->rounded;
}

static size_t aligned_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- rounding ------------------------------------------------------------------------------ */

/* Rounds row i, counted over a whole batch.  One division by `rows` serves W numbers, so memory stays the
 * limit. */
struct rounding {
	const float *from;
	bf16 *to;
	unsigned rows;
	size_t cols, ld, stride;

	template <int W> __device__ void at(size_t i, size_t j) const
	{
		store_numbers_bf16<W>(to + i * cols + j, load_numbers<W>(from + (unsigned)i / rows * stride +
		                                                         (unsigned)i % rows * ld + j));
	}
};

/* Tells whether rows follow each other without gaps. */
static bool is_whole(const struct stored *s)
{
	return s->ld == s->cols && (s->batch == 1 || s->stride == (size_t)s->rows * s->cols);
}

static void round_now(struct rf_dev *d, const struct stored *s, bf16 *to)
{
	const bool whole = is_whole(s);
	const size_t rows = whole ? 1 : (size_t)s->rows * s->batch,
		     cols = whole ? rf_numbers(s) : (size_t)s->cols;
	const struct rounding f = { s->p, to, whole ? 1 : (unsigned)s->rows, cols, (size_t)s->ld, s->stride };

	if (aligned(s->p, to) && cols % 4 == 0 && (whole || (s->ld % 4 == 0 && s->stride % 4 == 0)))
		sweep_by<4>(d, "rounding", rows, cols / 4, f);
	else
		sweep_by<1>(d, "rounding", rows, cols, f);
}

/* ---- weights ------------------------------------------------------------------------------- */

/* Tells whether a weight has numbers in [p, p + bytes). */
static bool touches(const struct kept *w, const void *p, size_t bytes)
{
	bool any = false;

	for (int i = 0; i < w->of.parts; i++) {
		const char *first = (const char *)w->of.p[i],
			   *end = first + (size_t)w->of.rows[i] * (size_t)w->of.cols * 4;

		any |= end > (const char *)p && first < (const char *)p + bytes;
	}
	return any;
}

/* Drops the copies of weights with numbers in [p, p + bytes), or of all weights.  Their own memory is
 * released; memory in `kept` is released together with `kept`. */
static void drop_weights(struct rf_dev *d, struct rf_cuda_rounded *c, const void *p, size_t bytes, bool all)
{
	for (int i = 0; i < SLOTS; i++)
		for (struct kept **at = &c->weight[i]; *at;) {
			struct kept *w = *at;

			if (!all && !touches(w, p, bytes)) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			if (w->own)
				rf_cuda_free(d, w->to);
			free(w);
		}
}

/* Allocates memory for a weight's n numbers, from the memory that was allocated in advance if enough is
 * left. */
static bool alloc_weight(struct rf_dev *d, struct rf_cuda_rounded *c, struct kept *w, size_t n)
{
	n = aligned_up(n);
	w->own = n > c->kept_size - c->kept_used;
	if (w->own)
		return (w->to = (bf16 *)rf_cuda_alloc(d, n * 2, operands));
	w->to = c->kept + c->kept_used;
	c->kept_used += n;
	return true;
}

static bool same_weights(const struct side *a, const struct side *b)
{
	bool all = a->parts == b->parts && a->cols == b->cols;

	for (int i = 0; i < a->parts && all; i++)
		all = a->p[i] == b->p[i] && a->rows[i] == b->rows[i];
	return all;
}

const bf16 *rf_cuda_rounded_side(struct rf_dev *d, const struct side *s)
{
	struct rf_cuda_rounded *c = rounded_of(d);
	struct kept **at, *w;
	size_t n = 0;

	if (!c) {
		rf_dev_fail(d, RF_ENOMEM, "out of memory%s", operands);
		return NULL;
	}
	for (w = *(at = &c->weight[(uintptr_t)s->p[0] / 256 % SLOTS]); w && !same_weights(&w->of, s);)
		w = w->next;
	for (int i = 0; i < s->parts; i++)
		n += (size_t)s->rows[i] * s->cols;
	if (!w) {
		if (!(w = (struct kept *)calloc(1, sizeof *w)) || !alloc_weight(d, c, w, n)) {
			free(w);
			return NULL;
		}
		*w = { *s, w->to, *at, true, w->own };
		*at = w;
	}
	n = 0;
	for (int i = 0; i < s->parts && w->stale; i++) {
		const struct stored part = { s->p[i], s->rows[i], s->cols, s->cols, 1, 0 };

		round_now(d, &part, w->to + n);
		n += rf_numbers(&part);
	}
	w->stale = false;
	return w->to;
}

const bf16 *rf_cuda_rounded_weight(struct rf_dev *d, rf_f32 w, int rows, int cols)
{
	const struct side s = { 1, cols, { f32(w) }, { rows } };

	return d->err.code == RF_OK ? rf_cuda_rounded_side(d, &s) : NULL;
}

/* ---- other operands ------------------------------------------------------------------------ */

bool rf_cuda_rounded_room(struct rf_dev *d, size_t n)
{
	struct rf_cuda_rounded *c = rounded_of(d);
	const size_t size = ROUND * n + SLACK;

	if (!c) {
		rf_dev_fail(d, RF_ENOMEM, "out of memory%s", operands);
		return false;
	}
	if (size <= c->size)
		return true;
	rf_cuda_rounded_stale(d);
	c->size = c->next = 0;
	/* queued kernels may still read the old memory */
	if (!rf_cuda_ok(d, cudaStreamSynchronize(cuda_of(d)->stream), "a kernel before") ||
	    !rf_cuda_free(d, c->ring) || !(c->ring = (bf16 *)rf_cuda_alloc(d, size * 2, operands)))
		return false;
	c->size = size;
	return true;
}

/* Takes a place in the ring for a copy; earlier copies in that place are dropped.  keep: a copy that must
 * stay, whose place is skipped; NULL: none. */
static struct recent *take_place(struct rf_cuda_rounded *c, const struct stored *s, const struct recent *keep)
{
	const size_t n = aligned_up(rf_numbers(s));
	size_t at = c->next + n <= c->size ? c->next : 0;
	struct recent *r = &c->recent[c->turn];

	if (keep && at < keep->at + keep->n && keep->at < at + n)
		at = keep->at + keep->n + n <= c->size ? keep->at + keep->n : 0;
	for (int i = 0; i < RECENT; i++)
		if (c->recent[i].at < at + n && at < c->recent[i].at + c->recent[i].n)
			c->recent[i].of.p = NULL;
	if (r == keep)
		r = &c->recent[c->turn = (c->turn + 1) % RECENT];
	c->turn = (c->turn + 1) % RECENT;
	c->next = at + n;
	*r = { *s, at, n };
	return r;
}

/* Turns a batch of heads that are adjacent in rows into one matrix, of which other products may use other
 * heads or rows. */
static struct stored flattened(struct stored s)
{
	if (s.batch > 1 && s.stride == (size_t)s.cols && (size_t)s.ld >= s.stride * s.batch &&
	    s.stride * s.batch <= INT_MAX)
		s.cols *= s.batch, s.batch = 1;
	return s;
}

/* Tells whether a matrix (flat) is part of a matrix that is rounded: the same numbers in rows of another
 * width; columns of it, in all rows or in rows of constant distance; or a whole batch with gaps.  *to is then
 * its copy. */
static bool is_inside(const struct recent *r, const struct stored *s, const bf16 *ring, struct copy *to)
{
	const struct stored *of = &r->of;

	if (!of->p || s->p < of->p)
		return false;
	const size_t at = (size_t)(s->p - of->p), row = at / of->ld, col = at % of->ld;
	const int step = s->rows > 1 ? s->ld / of->ld : 0;

	if (is_whole(s) && is_whole(of)) {
		*to = { ring + r->at + at, s->cols, (size_t)s->rows * s->cols };
		return at + rf_numbers(s) <= rf_numbers(of);
	}
	if (of->batch == 1 && s->batch == 1) {
		*to = { ring + r->at + row * of->cols + col, s->rows > 1 ? step * of->cols : s->cols, 0 };
		return (step * of->ld == s->ld || s->rows == 1) && col + s->cols <= (size_t)of->cols &&
		       row + (size_t)(s->rows - 1) * step < (size_t)of->rows;
	}
	*to = { ring + r->at + at, s->cols, (size_t)s->rows * s->cols };
	return !at && s->rows == of->rows && s->cols == of->cols && s->ld == of->ld &&
	       s->batch == of->batch && s->stride == of->stride;
}

/* For the emulator, where the host sees the device's memory: checks that a copy still equals its original. If
 * not, a kernel did not announce its output. */
static bool is_current(const struct stored *s, const struct copy *to)
{
	for (int b = 0; RF_HOST_SEES && b < s->batch; b++)
		for (int i = 0; i < s->rows; i++)
			for (int j = 0; j < s->cols; j++) {
				const bf16 as = __float2bfloat16(s->p[b * s->stride + (size_t)i * s->ld + j]);

				if (memcmp(&as, to->p + b * to->stride + (size_t)i * to->ld + j, sizeof as))
					return false;
			}
	return true;
}

static const struct recent *place_of(const struct rf_cuda_rounded *c, const struct copy *of)
{
	const size_t at = of ? (size_t)(of->p - c->ring) : 0;

	for (int i = 0; of && i < RECENT; i++)
		if (c->recent[i].of.p && at >= c->recent[i].at && at < c->recent[i].at + c->recent[i].n)
			return &c->recent[i];
	return NULL;
}

bool rf_cuda_rounded(struct rf_dev *d, const struct stored *s, const struct copy *keep, struct copy *to)
{
	struct rf_cuda_rounded *c = rounded_of(d);
	const struct stored all = flattened(*s);
	bool found = false;

	for (int i = 0; i < RECENT && !found; i++)
		found = is_inside(&c->recent[i], &all, c->ring, to);
	if (found && !is_current(&all, to)) {
		if (rf_cuda_ok(d, cudaStreamSynchronize(cuda_of(d)->stream), "a kernel before"))
			rf_dev_fail(d, RF_EDEVICE, "a rounded operand is not what it was made of");
		return false;
	}
	if (!found) {
		*to = { c->ring + take_place(c, &all, place_of(c, keep))->at, all.cols,
			(size_t)all.rows * all.cols };
		round_now(d, &all, (bf16 *)to->p);
	}
	if (all.batch != s->batch)
		to->stride = s->stride;
	return d->err.code == RF_OK;
}

bf16 *rf_cuda_rounded_copy(struct rf_dev *d, const float *p, size_t rows, size_t cols, size_t ld, bool wanted)
{
	const struct stored s = { p, (int)rows, (int)cols, (int)ld, 1, 0 };

	if (d->err.code != RF_OK || !rows || !cols)
		return NULL;
	rf_cuda_rounded_wrote(d, p, (rows - 1) * ld + cols);
	if (!wanted || d->math != RF_MATH_BF16 || rows > INT_MAX || cols > INT_MAX || ld > INT_MAX ||
	    !rf_cuda_rounded_room(d, rows * cols))
		return NULL;
	return rounded_of(d)->ring + take_place(rounded_of(d), &s, NULL)->at;
}

/* ---- announcements of output --------------------------------------------------------------- */

void rf_cuda_rounded_stale(struct rf_dev *d)
{
	struct rf_cuda_rounded *c = cuda_of(d)->rounded;

	for (int i = 0; c && i < RECENT; i++)
		c->recent[i].of.p = NULL;
}

void rf_cuda_rounded_restart(struct rf_dev *d)
{
	struct rf_cuda_rounded *c = cuda_of(d)->rounded;

	rf_cuda_rounded_stale(d);
	if (c)
		c->turn = 0, c->next = 0;
}

void rf_cuda_rounded_wrote(struct rf_dev *d, const float *p, size_t n)
{
	struct rf_cuda_rounded *c = cuda_of(d)->rounded;

	for (int i = 0; c && p && i < RECENT; i++) {
		struct stored *s = &c->recent[i].of;

		if (s->p && s->p < p + n &&
		    s->p + (s->batch - 1) * s->stride + (size_t)(s->rows - 1) * s->ld + s->cols > p)
			s->p = NULL;
	}
}

void rf_cuda_rounded_changed(struct rf_dev *d, const void *p, size_t bytes)
{
	struct rf_cuda_rounded *c = cuda_of(d)->rounded;

	rf_cuda_rounded_wrote(d, (const float *)p, (bytes + 3) / 4);
	for (int i = 0; c && i < SLOTS; i++)
		for (struct kept *w = c->weight[i]; w; w = w->next)
			w->stale |= touches(w, p, bytes);
}

void rf_cuda_rounded_forget(struct rf_dev *d, const void *p, size_t bytes)
{
	struct rf_cuda_rounded *c = cuda_of(d)->rounded;

	rf_cuda_rounded_wrote(d, (const float *)p, (bytes + 3) / 4);
	if (c && !cuda_of(d)->dead)
		drop_weights(d, c, p, bytes, false);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Returns the numbers of the largest operand that is not a weight: rows of an MLP, a block of logits, or a
 * batch of products. */
static size_t largest_operand(const struct rf_workspace *need)
{
	const size_t z = need->train ? (size_t)rf_cuda_logit_rows(need->vocab) * need->vocab : 0;
	size_t n = (size_t)need->rows * need->widest;

	n = n > z ? n : z;
	return n > need->operands ? n : need->operands;
}

/* Returns the numbers that copies of all weights take, with the padding between them. */
static size_t size_of_weights(const struct rf_workspace *need)
{
	return need->matrices + ALIGN * (size_t)need->weights;
}

size_t rf_cuda_rounded_workspace(const struct rf_workspace *need)
{
	return (size_of_weights(need) + ROUND * largest_operand(need) + SLACK) * 2;
}

void rf_cuda_rounded_prepare(struct rf_dev *d, const struct rf_workspace *need)
{
	struct rf_cuda_rounded *c;

	if (d->err.code != RF_OK || !rf_cuda_rounded_room(d, largest_operand(need)))
		return;
	c = rounded_of(d);
	if (!c->kept && (c->kept = (bf16 *)rf_cuda_alloc(d, size_of_weights(need) * 2, operands)))
		c->kept_size = size_of_weights(need);
}

void rf_cuda_rounded_close(struct rf_dev *d)
{
	struct rf_cuda_rounded *c = cuda_of(d)->rounded;

	if (!c)
		return;
	drop_weights(d, c, NULL, 0, true);
	rf_cuda_free(d, c->ring);
	rf_cuda_free(d, c->kept);
	free(c);
	cuda_of(d)->rounded = NULL;
}
