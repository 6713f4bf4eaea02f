/* ops.h -- functions that the tests of a device's operations share.
 *
 * A case is a function that fills inputs from a fixed seed, calls operations on `dev`, and passes every
 * output to values() with the expected numbers in double precision.  It runs once on each device: the outputs
 * of the first device are compared with the reference, those of the other devices with the first device's
 * bits.
 *
 * The reference of an operation is written once, forward, on a tape: every number is a node that knows its
 * inputs and the derivatives, so that a pass backwards over the tape gives the exact gradient in double
 * precision. */
#ifndef RF_T_OPS_H
#define RF_T_OPS_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "device/dev.h"
#include "model/config.h"

#define UNUSED   __attribute__((unused))
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static UNUSED void *need(size_t n, size_t size)
{
	void *p = calloc(n + !n, size);

	if (!p) {
		puts("Bail out! no memory");
		exit(1);
	}
	return p;
}

/* sizes around which loops begin, end and are divided */
static UNUSED const int rows_of[] = { 1, 3, 64, 65, 300 }, widths[] = { 1, 7, 16, 17, 40, 512 },
			vocabs[] = { 40, 384, 1000 };

static bool bf16; /* whether the devices round the operands of products */

/* Returns a number as products read it; a product of rounded numbers is as exact as any product. */
static UNUSED double operand(float x, bool rounded) { return rounded ? rf_bf16_f32(rf_f32_bf16(x)) : x; }

/* ---- results ------------------------------------------------------------------------------- */

#define VALUE    1e-5 /* limits of an error, divided by the largest number */
#define GRADIENT 1e-4

static struct {
	char name[48];
	double limit, worst;
	int bad, bits;
} line[100];
static int lines;
static char label[200];
static struct rf_dev *dev;
static const char *dev_name;
static const char *case_name = ""; /* the function of the current case */
static bool first;                 /* the device whose outputs are compared with the reference */

static UNUSED int find_line(const char *name, double limit)
{
	for (int i = 0; i < lines; i++)
		if (!strcmp(line[i].name, name))
			return i;
	if (lines == sizeof line / sizeof *line || strlen(name) >= sizeof line[lines].name) {
		printf("Bail out! too many results, or too long a name: %s\n", name);
		exit(1);
	}
	strcpy(line[lines].name, name);
	line[lines].limit = limit;
	return lines++;
}

/* Judges one error of `name`; `label` is the current case. */
static UNUSED void judge(const char *name, double error, double limit)
{
	int l = find_line(name, limit);

	if (!(error <= line[l].worst))
		line[l].worst = error;
	if (!(error <= limit) && line[l].bad++ < 5)
		printf("# %s: %s: error %.2e, limit %.0e\n", name, label, error, limit);
}

/* Prints a line for each name that was judged; returns how many are not ok. */
static UNUSED int print_lines(void)
{
	int bad = 0;

	for (int i = 0; i < lines; i++) {
		bool ok = !line[i].bad && !line[i].bits;
		printf("%s %d - %s  # worst %.1e of %.0e%s\n", ok ? "ok" : "not ok", i + 1, line[i].name,
		       line[i].worst, line[i].limit, line[i].bits ? ", bits differ" : "");
		bad += !ok;
	}
	return bad;
}

/* Prints the lines so far and the reason, and ends the program, since a failed device computes nothing
 * more. */
static UNUSED void bail_out(const char *why)
{
	print_lines();
	printf("Bail out! %s: %s: %s: %s (RF_NOT=%s leaves this case out)\n", dev_name, case_name, label, why,
	       case_name);
	exit(1);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* n numbers on the host and on the device; on the device FENCE numbers follow that no operation may
 * change. */
enum { BUFS = 64, FENCE = 16 };
struct buf {
	size_t n;
	float *h;
	rf_f32 m;
};
static struct buf bufs[BUFS];
static rf_i32 ints[BUFS];
static rf_f64 reals[BUFS];
static int nbufs, nints, nreals;
static size_t shift; /* arrays begin this many numbers after an allocation's first byte */
static unsigned long long seed;

static UNUSED float uniform(float lo, float hi)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return lo + (hi - lo) * (float)(seed >> 40) / 16777216;
}

static void *on_device(const void *p, size_t bytes)
{
	void *m = dev->ops->alloc(dev, bytes + !bytes);

	if (!m)
		bail_out(dev->err.msg);
	dev->ops->upload(dev, m, p, bytes);
	return m;
}

static UNUSED struct buf of(float *h, size_t n)
{
	struct buf b = { n, h, dev->ops->alloc(dev, (shift + n + FENCE) * sizeof *h) };

	if (!b.m)
		bail_out(dev->err.msg);
	for (size_t i = n; i < n + FENCE; i++)
		h[i] = 12345;
	bufs[nbufs++] = b;
	b.m = rf_at(b.m, shift);
	dev->ops->upload(dev, b.m, h, (n + FENCE) * sizeof *h);
	return b;
}

/* in: n numbers, uniform in [lo, hi).  out: n numbers that an operation must write: NaN until then. */
static UNUSED struct buf in(size_t n, float lo, float hi)
{
	float *h = need(n + FENCE, sizeof *h);

	for (size_t i = 0; i < n; i++)
		h[i] = uniform(lo, hi);
	return of(h, n);
}

static UNUSED struct buf out(size_t n)
{
	float *h = need(n + FENCE, sizeof *h);

	for (size_t i = 0; i < n; i++)
		h[i] = NAN;
	return of(h, n);
}

static UNUSED rf_i32 in_i32(const int32_t *x, int n)
{
	return ints[nints++] = on_device(x, (size_t)n * sizeof *x);
}

/* Draws n indices from 0 to below - 1. */
static UNUSED rf_i32 some_indices(int32_t *x, int n, int below)
{
	for (int i = 0; i < n; i++)
		x[i] = (int32_t)uniform(0, (float)below);
	return in_i32(x, n);
}

static UNUSED rf_f64 in_f64(const double *x, int n)
{
	return reals[nreals++] = on_device(x, (size_t)n * sizeof *x);
}

static UNUSED float *get(struct buf b)
{
	float *h = need(b.n + FENCE, sizeof *h);

	dev->ops->download(dev, h, b.m, (b.n + FENCE) * sizeof *h);
	if (dev->err.code != RF_OK)
		bail_out(dev->err.msg); /* the downloaded numbers are invalid */
	for (size_t i = b.n; i < b.n + FENCE; i++)
		if (h[i] != 12345) {
			judge("writes past an array", 1, 0);
			break;
		}
	return h;
}

/* The outputs of the first device, in order. */
enum { KEPT = 64 };
static struct {
	void *p;
	size_t bytes;
} kept[KEPT];
static int nkept, next;
static unsigned long long all_bits = 14695981039346656037ull; /* FNV-1a of its outputs in all cases */

static UNUSED void same_bits(const char *name, void *p, size_t bytes)
{
	if (first) {
		for (size_t i = 0; i < bytes; i++)
			all_bits = (all_bits ^ ((unsigned char *)p)[i]) * 1099511628211ull;
		kept[nkept++].p = p, kept[nkept - 1].bytes = bytes;
	} else {
		int l = find_line(name, 0);
		if ((kept[next].bytes != bytes || memcmp(kept[next].p, p, bytes)) && line[l].bits++ < 3)
			printf("# %s: %s: on %s other bits\n", name, label, dev_name);
		next++;
		free(p);
	}
}

/* Returns the limit for products of operands that are rounded to bf16 or not: a GPU's matrix units truncate
 * sums where float32 rounds them.  It is neither VALUE nor GRADIENT, so limit_on_device() leaves it as it
 * is. */
static UNUSED double limit_of_product(bool rounded)
{
	return rounded && !strcmp(dev->ops->name, "cuda") ? 1.5e-4 : VALUE;
}

/* Returns the limit on this device.  On a GPU the limits of elementwise operations, norms, sums of long rows
 * and gradients are tighter. */
static UNUSED double limit_on_device(const char *name, double limit)
{
	static const char *const sums[] = { "gemm", "delta", "attn", "head" };
	bool sum = limit == GRADIENT;

	if (strcmp(dev->ops->name, "cuda") || (limit != VALUE && limit != GRADIENT))
		return limit;
	for (int i = 0; i < COUNT(sums); i++)
		sum |= !strncmp(name, sums[i], strlen(sums[i]));
	return sum ? 1e-5 : 1e-6;
}

/* Compares b with ref (which is computed only on the first device): judges the largest difference, divided by
 * the largest number, or by 1/100 if all numbers are smaller (the inputs are around 1; results that cancel
 * get no tighter limit). */
static UNUSED void values(const char *name, struct buf b, const double *ref, double limit)
{
	float *h = get(b);
	double part = limit_on_device(name, limit), diff = 0, most = part > 0 ? 1e-2 * limit / part : 1e-2;

	for (size_t i = 0; first && i < b.n && !isnan(diff); i++) { /* a NaN stays the worst difference */
		double x = fabs(h[i] - ref[i]);
		if (!(x <= diff))
			diff = x;
		most = fabs(ref[i]) > most ? fabs(ref[i]) : most;
	}
	if (first)
		judge(name, diff / most, part);
	same_bits(name, h, b.n * sizeof *h);
}

/* Checks that a NaN among the inputs shows in b: an operation that hides a NaN turns a broken model into a
 * plausible result. */
static UNUSED void keeps_nan(const char *op, struct buf b)
{
	float *h = get(b);
	bool found = false;

	for (size_t i = 0; i < b.n; i++)
		found |= isnan(h[i]) != 0;
	snprintf(label, sizeof label, "%s", op);
	judge("a NaN that goes in comes out", !found, 0);
	free(h);
}

/* ---- the tape ------------------------------------------------------------------------------ */

typedef int num; /* a number on the tape */
static struct {
	num from;
	double by;
} * edge;
static double *val, *adj;
static size_t *edges_before, nedge, edge_room;
static int nnum, num_room;

static UNUSED num put(double x)
{
	if (nnum + 1 >= num_room) {
		num_room = 2 * num_room + 1000;
		val = realloc(val, (size_t)num_room * sizeof *val);
		edges_before = realloc(edges_before, ((size_t)num_room + 1) * sizeof *edges_before);
	}
	val[nnum] = x;
	edges_before[nnum] = edges_before[nnum + 1] = nedge;
	return nnum++;
}

/* Records that the newest number depends on `from` with derivative `by`. */
static UNUSED void depends(num from, double by)
{
	if (nedge == edge_room) {
		edge_room = 2 * edge_room + 1000;
		edge = realloc(edge, edge_room * sizeof *edge);
	}
	edge[nedge].from = from;
	edge[nedge++].by = by;
	edges_before[nnum] = nedge;
}

static UNUSED num un(num a, double value, double slope)
{
	num y = put(value);
	depends(a, slope);
	return y;
}

static UNUSED num scaled(num a, double s) { return un(a, val[a] * s, s); }

static UNUSED num mul(num a, num b)
{
	num y = put(val[a] * val[b]);
	depends(a, val[b]);
	depends(b, val[a]);
	return y;
}

/* Returns a x + b y + c. */
static UNUSED num lin(double a, num x, double b, num y, double c)
{
	num z = put(a * val[x] + b * val[y] + c);
	depends(x, a);
	depends(y, b);
	return z;
}

/* Returns a + b c. */
static UNUSED num fused(num a, num b, num c)
{
	num y = put(val[a] + val[b] * val[c]);
	depends(a, 1);
	depends(b, val[c]);
	depends(c, val[b]);
	return y;
}

static UNUSED num dot(int n, const num *a, int sa, const num *b, int sb)
{
	double sum = 0;
	num y;

	for (int i = 0; i < n; i++)
		sum += val[a[i * sa]] * val[b[i * sb]];
	y = put(sum);
	for (int i = 0; i < n; i++) {
		depends(a[i * sa], val[b[i * sb]]);
		depends(b[i * sb], val[a[i * sa]]);
	}
	return y;
}

static UNUSED num sum(int n, const num *a, int sa)
{
	double s = 0;
	num y;

	for (int i = 0; i < n; i++)
		s += val[a[i * sa]];
	y = put(s);
	for (int i = 0; i < n; i++)
		depends(a[i * sa], 1);
	return y;
}

static UNUSED num inverse(num a) { return un(a, 1 / val[a], -1 / (val[a] * val[a])); }
static UNUSED num exponential(num a) { return un(a, exp(val[a]), exp(val[a])); }
static UNUSED num logarithm(num a) { return un(a, log(val[a]), 1 / val[a]); }

static UNUSED num sigmoid(num a)
{
	double s = 1 / (1 + exp(-val[a]));
	return un(a, s, s * (1 - s));
}

static UNUSED num silu(num a)
{
	double s = 1 / (1 + exp(-val[a]));
	return un(a, val[a] * s, s * (1 + val[a] * (1 - s)));
}

/* A case's arrays of numbers, which are freed with its tape. */
static void *case_mem[400];
static int ncase_mem;

static UNUSED void *keep(size_t n, size_t size)
{
	if (ncase_mem == sizeof case_mem / sizeof *case_mem) {
		printf("Bail out! too many arrays in a case\n");
		exit(1);
	}
	return case_mem[ncase_mem++] = need(n, size);
}

static UNUSED num *nums(struct buf b)
{
	num *x = keep(b.n, sizeof *x);

	for (size_t i = 0; i < b.n; i++)
		x[i] = put(b.h[i]);
	return x;
}

static UNUSED num *room(size_t n) { return keep(n, sizeof(num)); }

static UNUSED double *values_of(const num *x, size_t n)
{
	double *v = keep(n, sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = val[x[i]];
	return v;
}

/* Starts the derivative of sum dy . y; call it once for each of several outputs. */
static UNUSED void seed_back(const num *y, struct buf dy)
{
	if (!adj)
		adj = need((size_t)nnum, sizeof *adj);
	for (size_t i = 0; i < dy.n; i++)
		adj[y[i]] += dy.h[i];
}

static UNUSED void back_propagate(void)
{
	for (int i = nnum; i-- > 0;)
		for (size_t j = edges_before[i]; adj[i] != 0 && j < edges_before[i + 1]; j++)
			adj[edge[j].from] += adj[i] * edge[j].by;
}

/* Returns the gradients of x, added to the numbers in `to` (NULL: 0). */
static UNUSED double *gradients(const num *x, size_t n, const float *to)
{
	double *g = keep(n, sizeof *g);

	for (size_t i = 0; i < n; i++)
		g[i] = adj[x[i]] + (to ? to[i] : 0);
	return g;
}

/* Returns c after a product, or a batch of products; numbers between c's rows do not change. */
static UNUSED double *gemm_ref(const struct rf_gemm *g, const float *a, const float *b, struct buf c,
                               const float *bias)
{
	const bool rounded = bf16 && !g->f32;
	double *ref = keep(c.n, sizeof *ref);

	for (size_t i = 0; i < c.n; i++)
		ref[i] = c.h[i];
	for (size_t o = 0; o < (size_t)(g->batch ? g->batch : 1); o++)
		for (int i = 0; i < g->m; i++)
			for (int j = 0; j < g->n; j++) {
				const float *A = a + o * g->sa, *B = b + o * g->sb;
				double *to = &ref[o * g->sc + (size_t)(i * g->ldc + j)];

				*to = (g->add ? *to : 0) + (bias ? bias[j] : 0);
				for (int l = 0; l < g->k; l++)
					*to += operand(A[g->ta ? l * g->lda + i : i * g->lda + l], rounded) *
					       operand(B[g->tb ? j * g->ldb + l : l * g->ldb + j], rounded);
			}
	return ref;
}

/* ---- the devices --------------------------------------------------------------------------- */

struct device {
	const char *name;
	int threads;
	char title[40];
	struct rf_dev d;
};
static struct device device[16];
static int devices;

static UNUSED void close_devices(void)
{
	while (devices)
		rf_dev_close(&device[--devices].d);
}

static UNUSED void open_devices(int argc, char *argv[], enum rf_math math)
{
	static const struct device standard[] = { { .name = "cpu", .threads = 1 },
		                                  { .name = "cpu", .threads = 2 },
		                                  { .name = "cpu", .threads = 3 },
		                                  { .name = "check", .threads = 2 } };
	struct rf_err e;

	for (int i = 0; i < (argc > 1 ? argc - 1 : COUNT(standard)) && i < COUNT(device); i++) {
		struct device *d = &device[devices];

		*d = argc > 1 ? (struct device){ .name = argv[i + 1], .threads = 2 } : standard[i];
		snprintf(d->title, sizeof d->title, "%s with %d threads", d->name, d->threads);
		if (rf_dev_open(&d->d, d->name, d->threads, math, NULL, &e) != RF_OK) {
			printf("Bail out! %s: %s\n", d->name, e.msg);
			exit(1);
		}
		devices++;
	}
}

/* Checks whether `word` is in `list`, whose words are separated by commas; a list may be NULL. */
static bool has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
		if (!strncmp(p, word, n) && (!p[n] || p[n] == ','))
			return true;
	return false;
}

/* Returns n of RF_EVERY=n, or 1. */
static UNUSED unsigned one_in(void)
{
	const char *s = getenv("RF_EVERY");

	return s ? (unsigned)atoi(s) : 1;
}

/* Checks whether a case of this function is left out.  RF_NOT=function,function leaves out all cases of these
 * functions.  RF_EVERY=n, for slow devices, keeps the first case of each function and one in n of the
 * others. */
static bool left_out(const char *function)
{
	static struct {
		const char *name;
		unsigned cases;
	} of[100];
	const unsigned every = one_in();
	unsigned at;
	int i = 0;

	if (has_word(getenv("RF_NOT"), function))
		return true;
	while (of[i].name && strcmp(of[i].name, function))
		i++;
	of[i].name = function;
	at = of[i].cases++;
	return every > 1 && at && (at * 2654435761u >> 16) % every; /* scattered, because flags alternate */
}

/* for (EACH_DEVICE): the body is a case, which runs on each of the devices in turn. */
#define EACH_DEVICE \
	int i_ = 0; \
	i_ < devices &&begin_case(i_, __func__); \
	end_case(), i_++

static UNUSED bool begin_case(int i, const char *function)
{
	if (i == 0 && left_out(function))
		return false;
	dev = &device[i].d;
	dev_name = device[i].title;
	case_name = function;
	first = i == 0;
	seed = 12345;
	next = 0;
	return true;
}

static UNUSED void free_case(void)
{
	while (nbufs) {
		dev->ops->release(dev, bufs[--nbufs].m);
		free(bufs[nbufs].h);
	}
	while (nints)
		dev->ops->release(dev, ints[--nints]);
	while (nreals)
		dev->ops->release(dev, reals[--nreals]);
	while (ncase_mem)
		free(case_mem[--ncase_mem]);
	free(adj);
	adj = NULL;
	nnum = 0;
	nedge = 0;
}

static UNUSED void end_case(void)
{
	struct rf_err e;

	if (rf_dev_sync(dev, &e) != RF_OK)
		bail_out(e.msg);
	free_case();
	if (dev == &device[devices - 1].d)
		while (nkept)
			free(kept[--nkept].p);
}

/* Judges results of rounded products, which have a higher limit, on a separate line. */
static UNUSED void product_values(const char *what, struct buf b, const double *ref, double limit)
{
	char name[60];
	bool rounds = dev->math == RF_MATH_BF16;

	snprintf(name, sizeof name, "%s%s", what, rounds ? " in bf16" : "");
	values(name, b, ref, rounds ? 1e-2 : limit);
}

/* Prints the results; returns the exit status. */
static UNUSED int finish(void)
{
	const int bad = print_lines();

	printf("# bits of all outputs: %016llx\n", all_bits);
	printf("1..%d\n", lines);
	close_devices();
	free(val);
	free(edge);
	free(edges_before);
	return bad != 0;
}

/* Runs cases() on devices that multiply in bf16. */
static UNUSED void in_bf16(int argc, char *argv[], void (*cases)(void))
{
	open_devices(argc, argv, RF_MATH_BF16);
	bf16 = true;
	cases();
	bf16 = false;
	close_devices();
}

#endif
