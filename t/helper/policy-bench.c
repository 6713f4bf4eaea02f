/* policy-bench MODEL ROUNDS -- times the gradient of a sequence and its rollouts with each variant of the
 * policy loss.  Prints a line for each: the time over that of the default, the seconds that it adds, the
 * seconds of the default, and the options.
 *
 * A variant costs time only for the tokens of rollouts.  So the added seconds are measured where they are the
 * largest part, in a sequence of 64 tokens, in turns with the default, and compared with the time for a
 * sequence of 1024 tokens with the same 16 rollouts of 5.  The least processor time of all rounds counts,
 * with one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "train/batch.h"
#include "unit/must.h"

enum { SHORT = 64, LONG = 1024, C = 4, N = 4, K = 5 };

static const struct {
	const char *options;
	struct rf_policy policy;
	struct rf_advantage advantage;
} variants[] = {
#define POLICY(...) \
	{ \
		.clip = 0.2, .clip_high = NAN, .dual_clip = 3, .kl = RF_KL_K3, __VA_ARGS__ \
	}
	{ "the default", RF_POLICY_DEFAULTS, { 0 } },
	{ "the default again", RF_POLICY_DEFAULTS, { 0 } },
	{ "--rl-mean rollouts", POLICY(.mean = RF_RL_MEAN_ROLLOUTS), { 0 } },
	{ "--ratio sequence", POLICY(.ratio = RF_RATIO_SEQUENCE), { 0 } },
	{ "--objective cispo", POLICY(.objective = RF_OBJECTIVE_CISPO), { 0 } },
	{ "--kl-coef 0.1", POLICY(.kl_coef = 0.1), { 0 } },
	{ "--entropy-coef 0.01", POLICY(.entropy_coef = 0.01), { 0 } },
	{ "--zero-spread drop", RF_POLICY_DEFAULTS, { .zero_spread = RF_ZERO_SPREAD_DROP } },
#undef POLICY
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static struct rf_engine engine = RF_ENGINE_DEFAULTS;
static struct rf_work work;
static struct rf_train train = RF_TRAIN_DEFAULTS;

static double noise(uint64_t i) { return rf_draw(7, (uint32_t)i); }

/* Makes a record with random tokens, log-probabilities, rewards and advantages. */
static void make_record(struct rf_record *r, int T)
{
	const size_t rollouts = C * N, tokens = rollouts * K;
	struct rf_rollout *o = &r->rollout;

	rf_record_init(r);
	r->T = T;
	r->c = C;
	*o = (struct rf_rollout){ .temperature = 1, .n = N, .k = K };
	r->reward = (struct rf_reward){ .kind = "random", .n = N };
	r->tokens = rf_record_alloc(r, (size_t)T, sizeof *r->tokens);
	r->positions = rf_record_alloc(r, C, sizeof *r->positions);
	o->tokens = rf_record_alloc(r, tokens, sizeof *o->tokens);
	o->logp = rf_record_alloc(r, tokens, sizeof *o->logp);
	o->logp_ref = rf_record_alloc(r, tokens, sizeof *o->logp_ref);
	r->reward.total = rf_record_alloc(r, rollouts, sizeof *r->reward.total);
	r->advantage = rf_record_alloc(r, rollouts, sizeof *r->advantage);
	for (int i = 0; i < T; i++)
		r->tokens[i] = (int32_t)(noise((uint64_t)i) * engine.ckpt->cfg.vocab);
	for (int i = 0; i < C; i++)
		r->positions[i] = 8 + 12 * i;
	for (size_t i = 0; i < tokens; i++) {
		o->tokens[i] = (int32_t)(noise(i + 100) * engine.ckpt->cfg.vocab);
		o->logp[i] = (float)-log(engine.ckpt->cfg.vocab);
		o->logp_ref[i] = o->logp[i] - 0.1f;
	}
	for (size_t i = 0; i < rollouts; i++) {
		r->reward.total[i] = (float)noise(i + 1000);
		r->advantage[i] = r->reward.total[i] - 0.5f;
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the time of the gradient with a variant. */
static double measure(int variant, struct rf_record *r)
{
	struct rf_train_stats st;
	double from;

	train.policy = variants[variant].policy;
	train.advantage = variants[variant].advantage;
	rf_work_forget(&work);
	rf_work_init(&work, &engine, rf_train_use(&train));
	must(rf_work_reserve(&work, &(struct rf_shape){ r->T, C, N, K }, &err));
	from = seconds();
	must(rf_train_gradient(&train, &r, 1, NULL, &st, &err));
	return seconds() - from;
}

int main(int argc, char *argv[])
{
	double least[VARIANTS], whole = INFINITY;
	struct rf_record part, all;
	int rounds;

	if (argc != 3 || (rounds = atoi(argv[2])) < 1)
		return 2;
	engine.path = argv[1];
	engine.threads = 1;
	train.engine = &engine;
	train.work = &work;
	rf_work_init(&work, &engine, rf_train_use(&train));
	must(rf_engine_open(&engine, NULL, true, &err));
	make_record(&part, SHORT);
	make_record(&all, LONG);
	for (int v = 0; v < VARIANTS; v++)
		least[v] = INFINITY;
	for (int i = 0; i < rounds; i++) {
		for (int v = 0; v < VARIANTS; v++)
			least[v] = fmin(least[v], measure(v, &part));
		if (i < 5)
			whole = fmin(whole, measure(0, &all));
	}
	for (int v = 1; v < VARIANTS; v++)
		printf("%.4f %.5f %.4f %s\n", 1 + (least[v] - *least) / whole, least[v] - *least, whole,
		       variants[v].options);
	rf_record_free(&part);
	rf_record_free(&all);
	rf_train_close(&train);
	rf_engine_close(&engine);
	return 0;
}
