/* bench -- measures a machine's products, and how much of that speed a model's passes reach, in one process.
 *
 *     bench MODEL pass T [REPEAT]     forward with entropies, and forward + backward of the next-token loss,
 *                                     compared with oneDNN's float32 product (2048^3) on the same threads,
 *                                     which is measured in between; the best of REPEAT rounds after a round
 *                                     that warms up (0: only that round)
 *     bench MODEL forward|both T      one of these passes, once, without a product for comparison
 *     bench MODEL step T RECORDS [T2 RECORDS2]
 *                                     one ReFINE step, first stage by stage, then in the order of rf-step:
 *                                     8 positions, k 5, one mini-batch or mini-batches of BENCH_MINI records;
 *                                     with T2, steps of a second size take turns with those of the first
 *     bench MODEL token STEPS T RECORDS T2 RECORDS2
 *                                     a token of rf-generate, for RECORDS records decoded together, after
 *                                     prompts of T tokens, taking turns with those of a second size
 *     bench - delta T HEADS KxV       the delta rule: forward, and forward and backward
 *     bench - products D F N ROWS...  a layer's products of width D, MLP F and vocabulary N, a square one of
 *                                     8192 (or of the last ROWS, if that is less), and a copy
 *     bench levels                    this processor's levels of the instruction set, named as for RF_ISA,
 *                                     the highest first
 *     bench run N COMMAND ...         a command N times: least seconds, and its peak memory in MiB
 *
 * Floating-point operations are those of rf_model_flops(), which counts matrix products and the computations
 * of mixers between rows; forward + backward counts three times as many.  On another device (RF_DEVICE) the
 * product is the device's product of T rows at the model's width, with operands that are already rounded: on
 * a GPU, the product of cuBLAS.  BENCH_DTYPE=f32|bf16, BENCH_SEGMENT=rows (2048), BENCH_RECOMPUTE=1,
 * BENCH_SUM=plain, BENCH_ROLLOUTS=n at each position; BENCH_OPS=1 shows the time of each operation.
 *
 * BENCH_VALUES=file gets each token's entropy and the norm of each weight's gradient that a pass computed;
 * `forward` then also prints the loss.  BENCH_FRESH=1: MODEL is a config, and random weights are made, in
 * much less time than reading takes.  BENCH_FRESH=zeros: the weights are zeros, for a device that only
 * estimates times. */
#include <dnnl.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/half.h"
#include "ckpt/init.h"
#include "cpu/device_cpu.h"
#include "refine/advantage.h"
#include "refine/entropy.h"
#include "refine/reward.h"
#include "refine/rollout.h"
#include "refine/select.h"
#include "train/step.h"
#include "train/adamw.h"
#include "train/batch.h"

extern void omp_set_num_threads(int);

static void die(const struct rf_err *e)
{
	fprintf(stderr, "bench: %s\n", e->msg);
	exit(1);
}

/* ---- the time of each operation: a table of operations that measures each call ---- */

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
		double t = rf_now(); \
		real->op(d, a); \
		real->sync(d); \
		spent[OP_##op] += rf_now() - t; \
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
			printf("    %-12s %8.4f s  %5.1f %%\n", op_name[i], spent[i] / passes,
			       100 * spent[i] / all);
	memset(spent, 0, sizeof spent);
}

/* The engine of the trainer, and as in a pipeline one for each earlier stage that has a model.  Memory is
 * allocated once and kept. */
static struct rf_engine g = RF_ENGINE_DEFAULTS, reader = RF_ENGINE_DEFAULTS, roller = RF_ENGINE_DEFAULTS;
static struct rf_train training = RF_TRAIN_DEFAULTS;
static struct rf_step fused = RF_STEP_DEFAULTS;
static struct rf_rollout_settings rollouts = RF_ROLLOUT_DEFAULTS;
static struct rf_work g_work, reader_work, roller_work;
static struct rf_err e;

/* Waits for the device, and returns the time. */
static double synced_time(void)
{
	if (rf_dev_sync(&g.dev, &e) != RF_OK)
		die(&e);
	return rf_now();
}

/* Allocates device memory, and fills it with numbers between -1 and 1. */
static rf_f32 alloc_numbers(size_t n, uint32_t seed)
{
	float *x = malloc(n * 4);
	rf_f32 p = g.dev.ops->alloc(&g.dev, n * 4);

	for (size_t i = 0; x && i < n; i++)
		x[i] = (float)((uint32_t)(i + seed) * 2654435761u >> 8) / (1 << 23) - 1;
	if (x && p)
		g.dev.ops->upload(&g.dev, p, x, n * 4);
	synced_time();
	free(x);
	return p;
}

/* oneDNN exports this function as well as dnnl_sgemm, but no header declares it. */
extern dnnl_status_t dnnl_gemm_bf16bf16f32(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float,
                                           const uint16_t *, dnnl_dim_t, const uint16_t *, dnnl_dim_t, float,
                                           float *, dnnl_dim_t) __attribute__((weak));

/* Returns the GFLOP/s of the device's own product: T rows times a square of the model's width.  It is
 * repeated often enough to show the clock rate that a GPU keeps.  Under RF_PROFILE it is 0, so that the
 * table of launches has only the model's passes. */
static double device_product(int T)
{
	enum { TIMES = 20, ROUNDS = 5 };
	const int width = g.ckpt->cfg.d;
	const size_t n = (size_t)T * (size_t)width;

	if (getenv("RF_PROFILE"))
		return 0;
	rf_f32 a = alloc_numbers(n, 1), b = alloc_numbers((size_t)width * (size_t)width, 2),
	       c = g.dev.ops->alloc(&g.dev, n * 4);
	double best = 1e9;

	for (int i = 0; i <= ROUNDS; i++) { /* the first rounds the operands */
		double t = synced_time();
		for (int k = 0; k < TIMES; k++)
			RF_RUN(&g.dev, gemm, .m = T, .n = width, .k = width, .tb = true, .weight = true,
			       .a = a, .lda = width, .b = b, .ldb = width, .c = c, .ldc = width);
		t = (synced_time() - t) / TIMES;
		best = i && t < best ? t : best;
	}
	g.dev.ops->release(&g.dev, a);
	g.dev.ops->release(&g.dev, b);
	g.dev.ops->release(&g.dev, c);
	return 2. * (double)n * width / best / 1e9;
}

/* Returns the GFLOP/s of oneDNN's product on all threads, of float32 or bf16 operands; 0: oneDNN has none. */
static double onednn_product(int threads, int times, bool bf16)
{
	enum { N = 2048 };
	static float *a, *b, *c;
	static uint16_t *a16, *b16;
	double best = 1e9;

	if (bf16 && !dnnl_gemm_bf16bf16f32)
		return 0;
	if (!a) {
		a = rf_cpu_memory(N * N * 4);
		b = rf_cpu_memory(N * N * 4);
		c = rf_cpu_memory(N * N * 4);
		a16 = rf_cpu_memory(N * N * 2);
		b16 = rf_cpu_memory(N * N * 2);
		for (int i = 0; i < N * N; i++) {
			a16[i] = rf_f32_bf16(a[i] = (float)(i % 17) / 17);
			b16[i] = rf_f32_bf16(b[i] = (float)(i % 13) / 13);
		}
	}
	omp_set_num_threads(threads);
	for (int i = 0; i < times; i++) {
		double t = rf_now();
		if ((bf16 ? dnnl_gemm_bf16bf16f32('N', 'N', N, N, N, 1, a16, N, b16, N, 0, c, N)
		          : dnnl_sgemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N)) != dnnl_success)
			return 0;
		t = rf_now() - t;
		best = t < best ? t : best;
	}
	omp_set_num_threads(1);
	return 2. * N * N * N / best / 1e9;
}

static void make_record(struct rf_record *r, uint64_t id, int T)
{
	rf_record_init(r);
	r->id = id;
	r->T = T;
	r->tokens = rf_record_alloc(r, (size_t)T, 4);
	for (int i = 0; i < T; i++)
		r->tokens[i] = (int32_t)((((uint32_t)i + 77u * (uint32_t)id) * 2654435761u >> 7) %
		                         (uint32_t)g.ckpt->cfg.vocab);
	r->prompt_len = r->answers = -1;
}

static void show_rate(const char *name, double work, double seconds, int T, double product)
{
	printf("%-20s %8.1f GFLOP/s  ", name, work / seconds / 1e9);
	if (product > 0)
		printf("%5.1f %% of the product  ", 100 * work / seconds / 1e9 / product);
	printf("%8.0f tokens/s  %.3f s\n", T / seconds, seconds);
}

/* Prepares training in the memory of rf-step, or without rollouts in the memory of a trainer. */
static void prepare_training(bool rolls)
{
	const char *n = getenv("BENCH_ROLLOUTS");

	training.engine = &g;
	training.work = &g_work;
	training.recompute = getenv("BENCH_RECOMPUTE") ? RF_RECOMPUTE_SEGMENT : RF_RECOMPUTE_NONE;
	training.sum = getenv("BENCH_SUM") ? RF_SUM_PLAIN : RF_SUM_EXACT;
	if (!rolls)
		training.rl_coef = 0;
	fused.train = &training;
	fused.rollouts.n = n ? atoi(n) : 1;
	rollouts = fused.rollouts;
	rf_work_init(&g_work, &g, rf_step_use(&fused, &g_work, rf_train_use(&training)));
}

/* The loss of the last forward + backward. */
static double loss;

/* Runs forward, or with `both` forward + backward, and returns the seconds. */
static double run_pass(bool both, struct rf_entropy *forward, struct rf_train *train, struct rf_record *r)
{
	struct rf_train_stats st;
	double t = rf_now();

	if ((both ? rf_train_gradient(train, &r, 1, NULL, &st, &e) : rf_entropy_record(forward, r, &e)) !=
	    RF_OK)
		die(&e);
	t = rf_now() - t;
	if (both)
		loss = st.loss_ntp;
	return t;
}

/* ---- the results of a pass, to check that they are right --------------------------------------- */

/* Prints the mean entropy of a pass, which is a little less than ln N for fresh weights, and the loss if the
 * pass computed it; writes each token's entropy to the file of values. */
static void show_entropy(const struct rf_record *r, FILE *values)
{
	double sum = 0, nll = 0;

	for (int t = 0; t < r->T; t++)
		sum += (double)r->entropy[t];
	for (int t = 0; r->nll && t < r->T - 1; t++)
		nll += (double)r->nll[t];
	for (int t = 0; values && t < r->T; t++)
		fprintf(values, "entropy\t%d\t%.5f\n", t, (double)r->entropy[t]);
	printf("%-20s %10.5f nats, ln N %.5f\n", "entropy", sum / r->T, log((double)g.ckpt->cfg.vocab));
	if (r->nll)
		printf("%-20s %10.5f nats\n", "loss", nll / (r->T - 1));
}

/* Prints the loss of a backward pass and the norm of its gradient, and writes the norm of each weight's
 * gradient to the file of values. */
static void show_gradient(struct rf_train *train, FILE *values)
{
	const struct rf_params *all = &g.ckpt->params;
	double sum = 0, one;

	for (int i = 0; i < all->n; i++) {
		const struct rf_param *p = &all->p[i];

		if (rf_train_square(train, rf_at(g.model.g, p->offset), p->count, &one, &e) != RF_OK)
			die(&e);
		sum += one;
		if (values)
			fprintf(values, "gradient\t%s\t%.6e\n", p->name, sqrt(one));
	}
	printf("%-20s %10.5f nats\n%-20s %10.5f\n", "loss", loss, "gradient norm", sqrt(sum));
}

static FILE *open_values(void)
{
	const char *path = getenv("BENCH_VALUES");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (path && !f) {
		perror(path);
		exit(1);
	}
	return f;
}

static void close_values(FILE *f)
{
	if (f && fclose(f)) {
		perror("bench: BENCH_VALUES");
		exit(1);
	}
}

/* Runs one pass without a product for comparison, for a device that estimates the times of its launches. */
static void run_single_pass(int T, bool both)
{
	struct rf_entropy pass = { .work = &reader_work, .nll = getenv("BENCH_VALUES") };
	FILE *values = open_values();
	struct rf_record r;

	prepare_training(false);
	rf_work_init(&reader_work, &reader, rf_entropy_use(&pass));
	make_record(&r, 0, T);
	const double t = run_pass(both, &pass, &training, &r);
	printf("%-20s %8.1f GFLOP/s  %8.4f s\n", both ? "forward + backward" : "forward",
	       rf_model_flops(&g.model, T, T) * (both ? 3 : 1) / t / 1e9, t);
	if (!both)
		show_entropy(&r, values);
	close_values(values);
	rf_train_close(&training);
	rf_record_free(&r);
}

static void measure_passes(int T, int repeat)
{
	struct rf_entropy pass = { .work = &reader_work };
	struct rf_record r;
	double flops = rf_model_flops(&g.model, T, T);
	FILE *values = open_values();
	const bool cpu = !strcmp(g.dev.ops->name, "cpu");
	double best[2] = { 1e9, 1e9 }, low = 0, t,
	       top = cpu ? onednn_product(g.dev.threads, 8, false) : device_product(T);

	prepare_training(false);
	rf_work_init(&reader_work, &reader, rf_entropy_use(&pass));
	make_record(&r, 0, T);
	for (int i = 0; i <= repeat; i++) /* the first warms up */
		for (int k = 0; k < 2; k++) {
			t = cpu ? onednn_product(g.dev.threads, 3, false) : device_product(T);
			top = t > top ? t : top;
			t = cpu && g.math == RF_MATH_BF16 ? onednn_product(g.dev.threads, 8, true) : 0;
			low = t > low ? t : low;
			t = run_pass(k, &pass, &training, &r);
			if (i || !repeat)
				best[k] = t < best[k] ? t : best[k];
		}
	if (real)
		show_operations(repeat + 1);
	if (cpu)
		printf("%-20s %8.1f GFLOP/s, float32, %d threads, %s\n", "product", top, g.dev.threads,
		       rf_cpu_level());
	else if (top > 0)
		printf("%-20s %8.1f GFLOP/s, %s, (%d, %d) times (%d, %d), %s\n", "product", top,
		       g.math == RF_MATH_BF16 ? "bf16" : "float32", T, g.ckpt->cfg.d, g.ckpt->cfg.d,
		       g.ckpt->cfg.d, g.dev.model);
	if (low > 0)
		printf("%-20s %8.1f GFLOP/s, %.2f times float32\n", "product, bf16", low, low / top);
	show_rate("forward", flops, best[0], T, top);
	show_rate("forward + backward", 3 * flops, best[1], T, top);
	show_entropy(&r, values);
	show_gradient(&training, values);
	close_values(values);
	rf_train_close(&training);
	rf_record_free(&r);
}

enum { STAGES = 6 };
struct size {
	int T, n;
};

static void must(enum rf_code rc)
{
	if (rc != RF_OK)
		die(&e);
}

static struct rf_record **make_batch(const struct size *x)
{
	struct rf_record **batch = malloc((size_t)x->n * sizeof *batch);

	for (int i = 0; i < x->n; i++)
		make_record(batch[i] = malloc(sizeof **batch), (uint64_t)i, x->T);
	return batch;
}

static void free_batch(struct rf_record **batch, int n)
{
	for (int i = 0; i < n; i++) {
		rf_record_free(batch[i]);
		free(batch[i]);
	}
	free(batch);
}

static int mini_of(const struct size *x)
{
	const char *mini = getenv("BENCH_MINI");

	return mini ? atoi(mini) : x->n;
}

/* Makes the optimizer steps of a batch; adds the seconds of gradients and of AdamW. */
static void optimize(struct rf_record **batch, const struct size *x, double *gradient, double *adamw)
{
	struct rf_train_stats st;

	for (int i = 0, mini = mini_of(x); i < x->n; i += mini) {
		double t = rf_now();

		must(rf_train_gradient(&training, batch + i, x->n - i < mini ? x->n - i : mini, NULL, &st,
		                       &e));
		*gradient += rf_now() - t;
		t = rf_now();
		must(rf_train_step(&training, 0, i, &st, &e));
		*adamw += synced_time() - t;
	}
}

/* Makes one ReFINE step on x->n records of x->T tokens, stage by stage; sets part to the seconds of each. */
static void step_once(const struct size *x, double part[STAGES])
{
	struct rf_entropy entropy = { .work = &reader_work };
	struct rf_record **batch = make_batch(x);
	bool skip;

	memset(part, 0, STAGES * sizeof *part);
	reader_work.use = rf_entropy_use(&entropy);
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < x->n; i++) {
			double t = rf_now();

			must(k == 0   ? rf_entropy_record(&entropy, batch[i], &e)
			     : k == 1 ? rf_select_record(&fused.select, 0, batch[i], &skip, &e)
			     : k == 2 ? rf_rollout_record(&rollouts, batch[i], &e)
			              : rf_reward_record(&fused.reward, 0, batch[i], NULL, &e));
			part[k] += rf_now() - t;
		}
	for (int i = 0; i < x->n; i++)
		must(rf_advantage_record(&training.advantage, batch[i], NULL, &e));
	optimize(batch, x, &part[4], &part[5]);
	free_batch(batch, x->n);
}

/* Makes the same step in the order of rf-step, and returns its seconds. */
static double fused_once(const struct size *x)
{
	struct rf_record **batch = make_batch(x);
	struct rf_totals first;
	const double from = rf_now();
	double gradient = 0, adamw = 0, t;

	rf_step_totals(&fused, batch, mini_of(x) < x->n ? mini_of(x) : x->n, &first);
	must(rf_step_begin(&fused, 0, &first, &e));
	for (int i = 0; i < x->n; i++) {
		struct rf_record *r = batch[i];

		must(rf_step_entropy(&fused, r, i < mini_of(x), &e));
		must(rf_step_select(&fused, r, &e));
		must(rf_step_rollout(&fused, r, &e));
		must(rf_step_reward(&fused, r, &e));
		must(rf_step_advantage(&fused, r, &e));
		must(rf_step_gradient(&fused, r, &e));
	}
	optimize(batch, x, &gradient, &adamw);
	t = rf_now() - from;
	free_batch(batch, x->n);
	return t;
}

static void show_step(const char *name, const struct size *x, double seconds, double forward)
{
	printf("%-20s %8.3f s  %5.2f forward passes, %.3f us per token, %d x %d tokens\n", name, seconds,
	       seconds / forward, 1e6 * seconds / ((double)x->n * x->T), x->n, x->T);
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts n numbers, and returns their median. */
static double median(double *x, int n)
{
	qsort(x, (size_t)n, sizeof *x, by_size);
	return (x[n / 2] + x[(n - 1) / 2]) / 2;
}

/* Prints medians over rounds, without the first round, which also allocates memory: only a process that makes
 * a single step pays for that.  Both orders, and both sizes, take turns, so that other load on the machine
 * slows all of them equally. */
static void measure_step(const struct size *x, int sizes)
{
	static const char *const names[STAGES] = { "entropy (forward)", "select",   "rollout", "reward",
		                                   "gradient",          "optimizer" };
	enum { ROUNDS = 4 };
	double part[2][STAGES][ROUNDS], all[2][ROUNDS], at_once[2][ROUNDS], one[STAGES];
	double first = 0, forward[2];

	prepare_training(true);
	rollouts.work = &roller_work;
	rf_work_init(&reader_work, &reader, (struct rf_use){ .stage = NULL });
	rf_work_init(&roller_work, &roller, rf_rollout_use(&rollouts));
	for (int i = 0; i < ROUNDS; i++)
		for (int j = 0; j < sizes; j++) {
			step_once(&x[j], one);
			all[j][i] = 0;
			for (int k = 0; k < STAGES; k++)
				all[j][i] += part[j][k][i] = one[k];
			first = i || j ? first : all[j][i];
			if (!i)
				memset(spent, 0, sizeof spent);
			at_once[j][i] = fused_once(&x[j]);
		}
	for (int j = 0; j < sizes; j++)
		forward[j] = median(part[j][0] + 1, ROUNDS - 1);
	for (int k = 0; k < STAGES; k++) {
		const double t = k ? median(part[0][k] + 1, ROUNDS - 1) : forward[0];

		printf("%-20s %8.3f s  %5.2f forward passes\n", names[k], t, t / forward[0]);
	}
	if (real && sizes == 1)
		show_operations(ROUNDS - 1);
	for (int j = 0; j < sizes; j++) {
		show_step("step", &x[j], median(all[j] + 1, ROUNDS - 1), forward[j]);
		show_step("step in one program", &x[j], median(at_once[j] + 1, ROUNDS - 1), forward[j]);
	}
	printf("%-20s %8.3f s\n", "first step", first);
	rf_train_close(&training);
}

/* Records that are decoded together. */
struct decoded {
	struct size x;
	struct rf_tree *tree;
	rf_f32 h;     /* (n, d): the prompts' last rows */
	rf_f32 sure;  /* (n) */
	rf_i32 token; /* (n): the newest */
	double best;  /* seconds of a step, which decodes n tokens */
};

static void choose_tokens(const struct decoded *a, rf_f32 h)
{
	const struct rf_config *c = &g.ckpt->cfg;
	int32_t token;

	RF_RUN(&g.dev, head_fwd, .rows = a->x.n, .d = c->d, .N = c->vocab, .inv_temp = 1, .h = h,
	       .w = rf_w(&g.model, g.model.head), .entropy = a->sure, .top = a->token);
	g.dev.ops->download(&g.dev, &token, a->token, sizeof token);
	synced_time();
}

/* Runs the prompts, as rf-generate does. */
static void run_prompts(struct decoded *a, int k)
{
	/* clang-format off */
	const struct rf_plan plan = { .max_len = a->x.T, .segment = g.segment, .positions = a->x.n, .n = 1,
	                              .k = k, .decode = true, .apart = true };
	/* clang-format on */
	const size_t d = (size_t)g.ckpt->cfg.d, n = (size_t)a->x.n;

	a->h = g.dev.ops->alloc(&g.dev, n * d * 4);
	a->sure = g.dev.ops->alloc(&g.dev, n * 4);
	a->token = g.dev.ops->alloc(&g.dev, n * 4);
	if (rf_tree_new(&a->tree, &g.model, &plan, &e) != RF_OK)
		die(&e);
	rf_tree_clear(a->tree);
	for (int i = 0; i < a->x.n; i++) {
		struct rf_record r;
		rf_f32 h = NULL;
		int last;

		make_record(&r, (uint64_t)i, a->x.T);
		rf_tree_add(a->tree, r.tokens, a->x.T);
		for (int j = 0; j < a->tree->segments; j++)
			h = rf_tree_forward(a->tree, j);
		last = rf_tree_rows(a->tree, a->tree->segments - 1) - 1;
		RF_RUN(&g.dev, rows, .n = 1, .d = (int)d, .from = rf_at(h, (size_t)last * d),
		       .to = rf_at(a->h, (size_t)i * d));
		rf_record_free(&r);
	}
	rf_tree_decode_begin(a->tree, 1);
	choose_tokens(a, a->h);
}

/* Prints the least time of a step for each size, since other load on the machine slows some of the steps. */
static void measure_token(int steps, struct decoded a[2])
{
	for (int i = 0; i < 2; i++)
		run_prompts(&a[i], steps);
	memset(spent, 0, sizeof spent);
	for (int j = 0; j < steps; j++)
		for (int i = 0; i < 2; i++) {
			double t;

			/* as in a process that decodes only this size */
			g.dev.ops->prepare(&g.dev, &(struct rf_workspace){ .decode = true,
			                                                   .now = { a[i].x.n, steps } });
			t = rf_now();
			choose_tokens(&a[i], rf_tree_decode(a[i].tree, a[i].token));
			t = rf_now() - t;
			a[i].best = !j || t < a[i].best ? t : a[i].best;
		}
	if (real) /* one step of each size */
		show_operations(steps);
	for (int i = 0; i < 2; i++) {
		printf("token, %d x %-8d %8.3f ms\n", a[i].x.n, a[i].x.T, 1e3 * a[i].best / a[i].x.n);
		rf_tree_free(a[i].tree);
		g.dev.ops->release(&g.dev, a[i].h);
		g.dev.ops->release(&g.dev, a[i].sure);
		g.dev.ops->release(&g.dev, a[i].token);
	}
}

/* Measures the delta rule; q and k are (T, H, K), and v, u and o are (T, H, V). */
static void measure_delta(int T, int H, int K, int V)
{
	enum { TIMES = 10, ROUNDS = 5 };
	struct rf_dev *d = &g.dev;
	const int R = T * H;
	const size_t n = (size_t)R * (size_t)K, m = (size_t)R * (size_t)V,
		     states = (size_t)H * (size_t)K * (size_t)V;
	rf_f32 q = alloc_numbers(n, 1), k = alloc_numbers(n, 2), v = alloc_numbers(m, 3),
	       b = alloc_numbers((size_t)R, 4), d_o = alloc_numbers(m, 5), S = alloc_numbers(states, 6),
	       dS = alloc_numbers(states, 7);
	rf_f32 u = alloc_numbers(m, 9), o = alloc_numbers(m, 10), dq = alloc_numbers(n, 11),
	       dk = alloc_numbers(n, 12), dv = alloc_numbers(m, 13);
	rf_f32 db = alloc_numbers((size_t)R, 14), x = alloc_numbers(n, 15);
	double best[2] = { 1e9, 1e9 };

	d->ops->zero(d, S, states * 4);
	d->ops->zero(d, dS, states * 4);
	/* rows of k have the length 1, as in models */
	/* clang-format off */
	RF_RUN(d, conv_fwd, .nb = 1, .steps = R, .w = 1, .parts = 1, .x = k,
	       .part = { { .d = K, .head = K, .act = RF_ACT_IDENTITY, .norm = RF_NORM_L2, .scale = 1,
	                   .y = x } });
	/* clang-format on */
	for (int i = 0; i <= ROUNDS; i++)
		for (int back = 0; back < 2; back++) {
			double t = synced_time();
			for (int j = 0; j < TIMES; j++) {
				RF_RUN(d, delta_fwd, .nb = 1, .steps = T, .n = 1, .H = H, .G = H, .K = K,
				       .V = V, .beta_scale = 1, .q = q, .k = x, .v = v, .b = b, .u = u,
				       .o = o, .S = S);
				if (back)
					RF_RUN(d, delta_bwd, .nb = 1, .steps = T, .n = 1, .H = H, .G = H,
					       .K = K, .V = V, .beta_scale = 1, .q = q, .k = x, .v = v,
					       .b = b, .u = u, .d_o = d_o, .dq = dq, .dk = dk, .dv = dv,
					       .db = db, .S = S, .dS = dS);
			}
			t = (synced_time() - t) / TIMES;
			best[back] = i && t < best[back] ? t : best[back];
		}
	printf("%-20s %8.3f ms\n%-20s %8.3f ms\n", "delta rule", 1e3 * best[0], "delta rule and back",
	       1e3 * best[1]);
	const rf_f32 all[] = { q, k, v, b, d_o, S, dS, u, o, dq, dk, dv, db, x };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		d->ops->release(d, all[i]);
}

/* ---- products ---- */

/* Returns the seconds of f, the least of some rounds. */
static double least_time(void (*f)(const void *), const void *arg, int times)
{
	enum { ROUNDS = 4 };
	double best = 1e9;

	for (int i = 0; i <= ROUNDS; i++) { /* the first prepares */
		double t = synced_time();

		for (int k = 0; k < times; k++)
			f(arg);
		t = (synced_time() - t) / times;
		best = i && t < best ? t : best;
	}
	return best;
}

static void run_gemm(const void *a) { g.dev.ops->gemm(&g.dev, a); }
static void run_gemms(const void *a) { g.dev.ops->gemms(&g.dev, a); }
static void run_axpy(const void *a) { g.dev.ops->axpy(&g.dev, a); }

static void show_product(const char *name, int m, int n, int k, double seconds)
{
	printf("%-24s %6d x %6d x %6d %10.1f us %8.1f TFLOP/s\n", name, m, n, k, 1e6 * seconds,
	       2. * m * n * k / seconds / 1e12);
}

/* Measures the products of a layer for R rows, with the model's arguments; x has room for each operand. */
static void measure_layer_products(int R, int d, int f, rf_f32 x, rf_f32 w, rf_f32 y)
{
	const size_t part = (size_t)d * (size_t)(d > f ? d : f);
	const struct {
		const char *name;
		struct rf_gemm of;
	} one[] = {
		{ "q", { .m = R, .n = d, .k = d, .tb = true, .weight = true } },
		{ "o, added", { .m = R, .n = d, .k = d, .tb = true, .weight = true, .add = true } },
		{ "gate", { .m = R, .n = f, .k = d, .tb = true, .weight = true } },
		{ "down, added", { .m = R, .n = d, .k = f, .tb = true, .weight = true, .add = true } },
		{ "down back", { .m = R, .n = f, .k = d, .weight = true } },
		{ "gradient of q", { .m = d, .n = d, .k = R, .ta = true, .add = true } },
		{ "gradient of gate", { .m = f, .n = d, .k = R, .ta = true, .add = true } },
		{ "gradient of down", { .m = d, .n = f, .k = R, .ta = true, .add = true } },
	};
	struct rf_gemms side = {
		.m = R, .k = d, .a = x, .c = y, .b = { w, rf_at(w, part), rf_at(w, 2 * part) }
	};

	for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
		struct rf_gemm a = one[i].of;

		a.a = x;
		a.b = a.weight ? w : rf_at(x, 1); /* otherwise it is the same operand */
		a.c = y;
		a.lda = a.ta ? a.m : a.k;
		a.ldb = a.tb ? a.k : a.n;
		a.ldc = a.n;
		show_product(one[i].name, a.m, a.n, a.k, least_time(run_gemm, &a, 10));
	}
	for (int back = 0; back < 2; back++)
		for (int parts = 3; parts > 1; parts--) {
			const int n = parts == 3 ? d : f;
			const char *const names[] = { "gate, up", "gate, up back", "q, k, v",
				                      "q, k, v back" };

			side.parts = parts;
			side.back = back;
			side.lda = back ? parts * n : d;
			side.ldc = back ? d : parts * n;
			for (int i = 0; i < parts; i++)
				side.n[i] = n;
			show_product(names[2 * (parts == 3) + back], R, back ? d : parts * n,
			             back ? parts * n : d, least_time(run_gemms, &side, 10));
		}
}

static void measure_products(int d, int f, int N, const char *const *rows)
{
	struct rf_dev *v = &g.dev;
	const int widest = 3 * d > 2 * f ? 3 * d : 2 * f;
	int last = 0;

	for (int i = 0; rows[i]; i++)
		last = atoi(rows[i]) > last ? atoi(rows[i]) : last;
	const int square = last < 8192 ? last : 8192, head = last < 2048 ? last : 2048;
	const size_t sq = (size_t)square * (size_t)square, n = (size_t)last * (size_t)widest + sq,
		     weights = 3 * (size_t)d * (size_t)(d > f ? d : f) + sq + (size_t)N * (size_t)d;
	rf_f32 x = alloc_numbers(n, 1), w = alloc_numbers(weights, 2),
	       y = alloc_numbers(n + (size_t)head * (size_t)N, 3);
	/* clang-format off */
	struct rf_gemm a = { .m = square, .n = square, .k = square, .tb = true, .weight = true,
	                     .a = x, .b = w, .c = y, .lda = square, .ldb = square, .ldc = square };
	/* clang-format on */
	const struct rf_axpy copy = { .n = n, .scale = 1, .x = x, .y = y };
	double t = least_time(run_axpy, &copy, 5);

	printf("%-20s %8.3f TB/s, %zu MiB each way, %s\n", "copy", 8. * (double)n / t / 1e12, n * 4 >> 20,
	       *v->model ? v->model : v->ops->name);
	show_product("square", square, square, square, least_time(run_gemm, &a, 5));
	a.m = head, a.n = a.ldc = N, a.k = a.lda = a.ldb = d;
	show_product("head", head, N, d, least_time(run_gemm, &a, 5));
	for (int i = 0; rows[i]; i++)
		measure_layer_products(atoi(rows[i]), d, f, x, w, y);
	v->ops->release(v, x);
	v->ops->release(v, w);
	v->ops->release(v, y);
}

/* ---- */

/* Returns PIECE normal numbers of standard deviation 1, drawn once. */
enum { PIECE = 2 * 524287 }; /* twice a prime: rows of a weight differ */
static const float *normals(void)
{
	static float *unit;
	struct rf_param one = { .init = RF_INIT_NORMAL, .count = PIECE, .scale = 1 };

	if (!unit && (unit = malloc(PIECE * sizeof *unit)))
		rf_init_weights(&(struct rf_params){ .p = &one, .n = 1, .total = PIECE }, 1, unit);
	return unit;
}

/* Writes the first PIECE numbers of weight i, or all if it has fewer, to `piece`.  A normal distribution
 * takes its numbers from normals(), scaled, from number 7919 i on. */
static void first_piece(const struct rf_param *p, int i, const float *unit, float *piece)
{
	const size_t n = p->count < PIECE ? p->count : PIECE;
	struct rf_param first = *p;

	first.count = n;
	first.offset = 0;
	if (p->init != RF_INIT_NORMAL) {
		rf_init_weights(&(struct rf_params){ .p = &first, .n = 1, .total = n }, 1, piece);
		return;
	}
	for (size_t j = 0, from = (size_t)i * 7919 % PIECE; j < n; j++) {
		piece[j] = unit[from] * (float)p->scale;
		from = from + 1 < PIECE ? from + 1 : 0;
	}
}

/* Makes random weights: the host makes the first piece of each weight, and the device repeats it. */
static void make_weights(struct rf_engine *x)
{
	const struct rf_params *all = &x->ckpt->params;
	const struct rf_ops *ops = x->dev.ops;
	const struct rf_model *m = &x->model;
	const float *unit = normals();
	float *piece = calloc(PIECE, sizeof *piece);
	rf_f32 from = ops->alloc(&x->dev, PIECE * sizeof *piece);

	if (!unit || !piece) {
		fputs("bench: out of memory\n", stderr);
		exit(1);
	}
	for (int i = 0; from && i < all->n; i++) {
		const struct rf_param *p = &all->p[i];
		const bool half = m->halved && p->product;
		const size_t size = half ? 2 : 4, bytes = p->count * size,
			     most = bytes < PIECE * size ? bytes : PIECE * size;
		rf_f32 to =
			half ? rf_at(m->half, p->place / 2) : rf_at(m->w, m->halved ? p->place : p->offset);

		first_piece(p, i, unit, piece);
		for (size_t j = 0; half && j < PIECE; j++)
			((uint16_t *)piece)[j] = rf_f32_bf16(piece[j]);
		ops->upload(&x->dev, from, piece, most);
		for (size_t at = 0; at < bytes; at += most) {
			const size_t n = bytes - at < most ? bytes - at : most;

			RF_RUN(&x->dev, rows, .n = 1, .d = (int)((n + 3) / 4), .from = from,
			       .to = rf_at(to, at / 4));
		}
	}
	ops->release(&x->dev, from);
	free(piece);
}

static void open_engine(struct rf_engine *x, bool train)
{
	const char *fresh = getenv("BENCH_FRESH");

	x->dry_run = fresh; /* then a config is enough, and no weights are read */
	if (rf_engine_open(x, NULL, train, &e) != RF_OK)
		die(&e);
	x->dry_run = false;
	if (fresh) {
		const struct rf_span part = rf_params_part(&x->ckpt->params, 0, 1);

		if (rf_model_init(&x->model, &x->dev, &x->ckpt->cfg, &x->ckpt->params, train ? &part : NULL,
		                  &e) != RF_OK)
			die(&e);
		rf_model_clear(&x->model);
		if (train) {
			x->dev.ops->zero(&x->dev, x->model.m, part.n * 4);
			x->dev.ops->zero(&x->dev, x->model.v, part.n * 4);
		}
		if (strcmp(fresh, "zeros"))
			make_weights(x);
		if (rf_dev_sync(&x->dev, &e) != RF_OK)
			die(&e);
	}
	if (getenv("BENCH_OPS"))
		time_operations(&x->dev);
}

/* Runs a command n times without its standard output; prints its least wall time and largest peak memory. */
static int run_command(int n, char **command)
{
	double best = 1e9, t;
	struct rusage use;
	long peak = 0;
	int status;
	pid_t pid;

	for (int i = 0; i < n; i++) {
		t = rf_now();
		if ((pid = fork()) == 0) {
			int null = open("/dev/null", O_WRONLY);
			dup2(null, STDOUT_FILENO);
			execvp(*command, command);
			_exit(127);
		}
		if (wait4(pid, &status, 0, &use) != pid || status) {
			fprintf(stderr, "bench: %s: status %d\n", *command, status);
			return 1;
		}
		t = rf_now() - t;
		best = t < best ? t : best;
		peak = use.ru_maxrss > peak ? use.ru_maxrss : peak;
	}
	printf("%.4f %ld\n", best, peak >> 10);
	return 0;
}

/* Prints the levels of the instruction set.  The first is `auto` if the processor has more than the highest
 * level with a name. */
static int print_levels(void)
{
	const char *name;

	if (rf_cpu_isa("auto", &e) != RF_OK)
		die(&e);
	if (strcmp(rf_cpu_level(), rf_cpu_has(0)))
		puts("auto");
	for (int i = 0; (name = rf_cpu_has(i)); i++)
		puts(name);
	return 0;
}

int main(int argc, char **argv)
{
	const char *device = getenv("RF_DEVICE"), *dtype = getenv("BENCH_DTYPE");
	struct rf_engine *const stages[] = { &reader, &roller, &g };
	bool rolls, reads;
	struct rusage use;

	if (argc > 3 && !strcmp(argv[1], "run"))
		return run_command(atoi(argv[2]), argv + 3);
	if (argc == 2 && !strcmp(argv[1], "levels"))
		return print_levels();
	if (argc < 4)
		return 2;
	g.path = argv[1];
	g.device = device && *device ? device : "cpu";
	g.math = !dtype ? RF_MATH_AUTO : strcmp(dtype, "bf16") ? RF_MATH_F32 : RF_MATH_BF16;
	if (getenv("BENCH_SEGMENT"))
		g.segment = atoi(getenv("BENCH_SEGMENT"));
	if (argc > 5 && (!strcmp(argv[2], "delta") || !strcmp(argv[2], "products"))) {
		if (rf_dev_open(&g.dev, g.device, 0, (enum rf_math)g.math, &g.note, &e) != RF_OK)
			die(&e);
		int K, V;

		if (!strcmp(argv[2], "delta") && sscanf(argv[5], "%dx%d", &K, &V) == 2)
			measure_delta(atoi(argv[3]), atoi(argv[4]), K, V);
		else if (!strcmp(argv[2], "delta"))
			measure_delta(atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[5]));
		else
			measure_products(atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
			                 (const char *const *)argv + 6);
		rf_dev_close(&g.dev);
		return 0;
	}
	reads = strcmp(argv[2], "token");
	rolls = !strcmp(argv[2], "step");
	for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
		if (stages[i] == &g ? false : stages[i] == &roller ? !rolls : !reads)
			continue;
		*stages[i] = g;
		open_engine(stages[i], stages[i] == &g);
	}
	if (!strcmp(argv[2], "forward") || !strcmp(argv[2], "both")) {
		run_single_pass(atoi(argv[3]), !strcmp(argv[2], "both"));
	} else if (!strcmp(argv[2], "pass")) {
		measure_passes(atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 3);
	} else if (!strcmp(argv[2], "token") && argc > 7) {
		measure_token(atoi(argv[3]), (struct decoded[]){ { .x = { atoi(argv[4]), atoi(argv[5]) } },
		                                                 { .x = { atoi(argv[6]), atoi(argv[7]) } } });
	} else {
		struct size x[2];
		int sizes = argc > 5 ? 2 : 1;

		for (int i = 0; i < sizes; i++)
			x[i] = (struct size){ atoi(argv[3 + 2 * i]),
				              argc > 4 + 2 * i ? atoi(argv[4 + 2 * i]) : 8 };
		measure_step(x, sizes);
	}
	for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
		if (stages[i]->ckpt)
			rf_engine_close(stages[i]);
	getrusage(RUSAGE_SELF, &use);
	printf("%-20s %8ld MiB\n", "peak memory", use.ru_maxrss >> 10);
	if (*g.dev.model)
		printf("%-20s %8zu MiB\n", "of the GPU", g.dev.peak >> 20);
	return 0;
}
