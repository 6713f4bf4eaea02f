/* u-golden -- between the reference cases and the programs.
 *
 *     u-golden stream CASE         the case as a stream: tokens, positions, rollouts with logp_old, hybrid rewards
 *     u-golden values CASE FILE    a stream's values against expected.safetensors: those that it has
 *     u-golden grads CASE KEY FILE gradients in a safetensors file against KEY.NAME
 *     u-golden step CASE DIR       weights in a checkpoint against step.weight.NAME
 *     u-golden log CASE FILE N     loss, reward or norm of the first N lines of a log
 *
 * Prints the worst difference for each key, largest difference over largest value, and fails beyond 1e-5 (values),
 * 1e-4 (gradients), 1e-2 (change of all weights over its norm). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "stream.h"
#include "tensors.h"

static struct rf_tensors want;
static int failures;

static void die(const struct rf_err *e)
{
	fprintf(stderr, "u-golden: %s\n", e->msg);
	exit(2);
}

static float *f32(const struct rf_tensors *t, const char *name, size_t *n)
{
	const struct rf_tensor *x = rf_tensors_find(t, name);
	struct rf_err e;
	float *p;

	*n = 0;
	if (!x)
		return NULL;
	*n = x->count;
	p = malloc((x->count + 1) * 4);
	if (rf_tensor_f32(x, p, &e) != RF_OK)
		die(&e);
	return p;
}

static int32_t *i32(const char *name, size_t *n)
{
	const struct rf_tensor *x = rf_tensors_find(&want, name);
	int32_t *p = malloc(x->bytes + 4);

	memcpy(p, x->data, x->bytes);
	*n = x->count;
	return p;
}

static void compare(const char *name, const float *have, const float *expect, size_t n, double limit)
{
	double worst = 0, top = 0;

	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)have[i] - (double)expect[i]);
		worst = d > worst || isnan(d) ? d : worst;
		top = fabs((double)expect[i]) > top ? fabs((double)expect[i]) : top;
	}
	worst /= top > 1e-12 ? top : 1e-12;
	printf("%s - %s %.1e\n", worst <= limit ? "ok" : "not ok", name, worst);
	failures += !(worst <= limit);
}

static void against(const char *name, const float *have, size_t n, double limit)
{
	size_t m;
	float *e = f32(&want, name, &m);

	if (!e || !have)
		return;
	if (m != n) {
		printf("not ok - %s has %zu numbers, expected %zu\n", name, n, m);
		failures++;
	} else {
		compare(name, have, e, n, limit);
	}
	free(e);
}

static void make_stream(void)
{
	struct rf_record r;
	struct rf_head head;
	struct rf_out *out;
	struct rf_err e;
	size_t n, M, k;
	float *binary;

	rf_record_init(&r);
	rf_head_init(&head);
	head.vocab = 40;
	r.tokens = i32("tokens", &n);
	r.T = (int)n;
	r.positions = i32("rollout.start", &M);
	r.c = (int)M;
	r.rollout.tokens = i32("rollout.tokens", &k);
	r.rollout.n = 1;
	r.rollout.k = (int)(k / M);
	r.rollout.temperature = 1;
	r.rollout.logp = f32(&want, "rollout.logp_old", &n);
	r.reward.kind = "hybrid";
	r.reward.n = 1;
	r.reward.cosine = f32(&want, "reward.cosine", &n);
	r.reward.binary = f32(&want, "reward.binary", &n);
	r.reward.edit = f32(&want, "reward.edit", &n);
	r.reward.total = f32(&want, "reward.cosine", &n);
	binary = r.reward.binary;
	for (size_t i = 0; i < M; i++)
		r.reward.total[i] += binary[i];
	if (rf_out_open(&out, NULL, &head, &e) != RF_OK || rf_put(out, &r, &e) != RF_OK || rf_out_finish(out, &e) != RF_OK)
		die(&e);
}

static void values(const char *path)
{
	struct rf_in *in;
	struct rf_record *r;
	struct rf_err e;
	size_t T, R, d;

	if (rf_in_open(&in, path, 0, &e) != RF_OK || rf_next(in, &r, &e) != RF_OK)
		die(&e);
	T = (size_t)r->T;
	d = (size_t)r->rollout.d;
	R = (size_t)r->c * (size_t)r->rollout.n;
	against("entropy", r->entropy, T, 1e-5);
	against("nll", r->nll, T - 1, 1e-5);
	against("hidden", r->hidden, T * (size_t)r->d, 1e-5);
	against("logits", r->logits, T * (size_t)r->N, 1e-5);
	against("rollout.logp", r->rollout.h_pred ? r->rollout.logp : NULL, R * (size_t)r->rollout.k, 1e-5);
	against("rollout.h_pred", r->rollout.h_pred, R * (size_t)r->rollout.k * d, 1e-5);
	against("rollout.h_gt", r->rollout.h_gt, (size_t)(r->c * r->rollout.k) * d, 1e-5);
	against("reward.cosine", r->reward.cosine, R, 1e-5);
	against("reward.binary", r->reward.binary, R, 1e-6);
	against("reward.edit", r->reward.edit, R, 1e-6);
	against("advantage", r->advantage, R, 1e-5);
}

static void gradients(const char *key, const char *path)
{
	struct rf_tensors have;
	struct rf_err e;
	char name[200];

	if (rf_tensors_open(&have, path, &e) != RF_OK)
		die(&e);
	for (int i = 0; i < have.n; i++) {
		size_t n;
		float *x = f32(&have, have.t[i].name, &n);

		snprintf(name, sizeof name, "%s.%s", key, have.t[i].name);
		if (!rf_tensors_find(&want, name)) {
			printf("not ok - %s is not expected\n", name);
			failures++;
		}
		against(name, x, n, 1e-4);
		free(x);
	}
}

static void step(const char *dir, const char *first)
{
	struct rf_tensors have, from;
	struct rf_err e;
	char name[200];
	double diff = 0, norm = 0;

	if (rf_tensors_open_dir(&have, dir, &e) != RF_OK || rf_tensors_open_dir(&from, first, &e) != RF_OK)
		die(&e);
	for (int i = 0; i < have.n; i++) {
		size_t n, m;
		float *x = f32(&have, have.t[i].name, &n), *w = f32(&from, have.t[i].name, &m), *y;

		snprintf(name, sizeof name, "step.weight.%s", have.t[i].name);
		y = f32(&want, name, &m);
		for (size_t j = 0; j < n; j++) {
			diff += pow((double)x[j] - (double)y[j], 2);
			norm += pow((double)y[j] - (double)w[j], 2);
		}
	}
	diff = sqrt(diff / norm);
	printf("%s - step.weight %.1e\n", diff <= 1e-2 ? "ok" : "not ok", diff);
	failures += !(diff <= 1e-2);
}

static void log_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[8192];
	size_t n;
	float *norm = f32(&want, "step.grad_norm", &n);

	for (size_t i = 0; f && fgets(line, sizeof line, f); i++) {
		json_t *o = json_loads(line, 0, NULL);
		float rl = (float)json_number_value(json_object_get(o, "loss/rl")), ntp = (float)json_number_value(json_object_get(o, "loss/ntp"));
		float g = (float)json_number_value(json_object_get(o, "actor/grad_norm_ttt"));

		if (!i) {
			against("loss.rl", &rl, 1, 1e-5);
			against("loss.ntp", &ntp, 1, 1e-5);
		}
		if (i < n)
			compare("step.grad_norm", &g, norm + i, 1, 1e-3);
		json_decref(o);
	}
}

int main(int argc, char **argv)
{
	char path[1000];
	struct rf_err e;

	if (argc < 3)
		return 2;
	snprintf(path, sizeof path, "%s/expected.safetensors", argv[2]);
	if (rf_tensors_open(&want, path, &e) != RF_OK)
		die(&e);
	if (!strcmp(argv[1], "stream"))
		make_stream();
	else if (!strcmp(argv[1], "values") && argc == 4)
		values(argv[3]);
	else if (!strcmp(argv[1], "grads") && argc == 5)
		gradients(argv[3], argv[4]);
	else if (!strcmp(argv[1], "step") && argc == 4)
		step(argv[3], argv[2]);
	else if (!strcmp(argv[1], "log") && argc == 4)
		log_lines(argv[3]);
	else
		return 2;
	return failures != 0;
}
