/* bench -- what the machine's cores can do, and what the model's passes do of it, in one process and one run.
 *
 *     bench MODEL [T]      forward with entropies, forward + backward of the next-token loss, against oneDNN's product
 *
 * Floating-point operations are counted as matrix products only: per token 2 (L (4 d^2 + 3 d F + 3 K d) + d N), and
 * three times that for forward + backward. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "entropy.h"
#include "train.h"

extern void omp_set_num_threads(int);

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const struct rf_err *e)
{
	fprintf(stderr, "bench: %s\n", e->msg);
	exit(1);
}

/* ---- where the time goes: the table of operations with a clock around each ---- */

#define X(op) OP_##op,
enum { RF_OPS(X) OPS };
#undef X
#define X(op) #op,
static const char *const op_name[] = { RF_OPS(X) };
#undef X
static const struct rf_ops *real;
static double spent[OPS];

#define X(op) \
	static void timed_##op(struct rf_dev *d, const struct rf_##op *a) \
	{ \
		double t = now(); \
		real->op(d, a); \
		spent[OP_##op] += now() - t; \
	}
RF_OPS(X)
#undef X

static void time_operations(struct rf_dev *d)
{
	static struct rf_ops timed;

	timed = *(real = d->ops);
#define X(op) timed.op = timed_##op;
	RF_OPS(X)
#undef X
	d->ops = &timed;
}

static void show_operations(int passes)
{
	double all = 0;

	for (int i = 0; i < OPS; i++)
		all += spent[i];
	for (int i = 0; i < OPS; i++)
		if (spent[i] > 0.002 * all)
			printf("    %-12s %8.4f s  %5.1f %%\n", op_name[i], spent[i] / passes, 100 * spent[i] / all);
	memset(spent, 0, sizeof spent);
}

/* oneDNN's own float32 product on all threads, GFLOP/s */
static double product(int threads, int times)
{
	enum { N = 2048 };
	static float *a, *b, *c;
	double best = 1e9;

	if (!a) {
		a = aligned_alloc(64, N * N * 4);
		b = aligned_alloc(64, N * N * 4);
		c = aligned_alloc(64, N * N * 4);
		for (int i = 0; i < N * N; i++) {
			a[i] = (float)(i % 17) / 17;
			b[i] = (float)(i % 13) / 13;
		}
	}
	omp_set_num_threads(threads);
	for (int i = 0; i < times; i++) {
		double t = now();
		dnnl_sgemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N);
		t = now() - t;
		best = t < best ? t : best;
	}
	omp_set_num_threads(1);
	return 2. * N * N * N / best / 1e9;
}

int main(int argc, char **argv)
{
	struct rf_engine g = RF_ENGINE_DEFAULTS;
	struct rf_entropy pass = { .engine = &g };
	struct rf_train train = RF_TRAIN_DEFAULTS;
	struct rf_train_stats st;
	struct rf_record r, *batch = &r;
	struct rf_err e;
	int T = argc > 2 ? atoi(argv[2]) : 4096, repeat = argc > 3 ? atoi(argv[3]) : 4, only = argc > 4 ? atoi(argv[4]) : 0;
	double flops, rate, best[2] = { 1e9, 1e9 };
	const struct rf_config *c;

	if (argc < 2)
		return 2;
	g.path = argv[1];
	g.device = "cpu";
	g.math = getenv("BF16") != NULL;
	if (getenv("SEGMENT"))
		g.segment = atoi(getenv("SEGMENT"));
	if (rf_engine_open(&g, NULL, true, &e) != RF_OK)
		die(&e);
	c = &g.ckpt->cfg;
	if (getenv("PROFILE"))
		time_operations(&g.dev);
	train.engine = &g;
	train.rl_coef = 0;
	rf_record_init(&r);
	r.T = T;
	r.tokens = malloc((size_t)T * 4);
	for (int i = 0; i < T; i++)
		r.tokens[i] = (int32_t)(((uint32_t)i * 2654435761u >> 7) % (uint32_t)c->vocab);
	r.prompt_len = r.answers = -1;
	flops = T * 2. * (c->layers * (4. * c->d * c->d + 3. * c->d * c->ffn + 3. * c->K * c->d) + (double)c->d * c->vocab);
	rate = product(g.dev.threads, 8);
	for (int i = 0; i < repeat; i++) {
		double t, p;

		p = product(g.dev.threads, 2);
		rate = p > rate ? p : rate;
		if (only != 2) {
			t = now();
			if (rf_entropy_record(&pass, &r, &e) != RF_OK)
				die(&e);
			t = now() - t;
			best[0] = t < best[0] ? t : best[0];
		}
		if (only != 1) {
			t = now();
			if (rf_train_gradient(&train, &batch, 1, false, &st, &e) != RF_OK)
				die(&e);
			t = now() - t;
			best[1] = t < best[1] ? t : best[1];
		}
	}
	if (real)
		show_operations(repeat);
	printf("product             %8.1f GFLOP/s\n", rate);
	for (int i = 0; i < 2; i++)
		printf("%-19s %8.1f GFLOP/s  %5.1f %%  %8.0f tokens/s  %.3f s\n", i ? "forward + backward" : "forward", (i ? 3 : 1) * flops / best[i] / 1e9,
		       100 * (i ? 3 : 1) * flops / best[i] / 1e9 / rate, T / best[i], best[i]);
	return 0;
}
