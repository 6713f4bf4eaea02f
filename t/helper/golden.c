/* golden -- compares the programs with the reference cases.  A CASE is a directory with
 * expected.safetensors.
 *
 *     golden stream CASE            writes the case as a stream: tokens, positions, rollouts with logp_old,
 *                                     hybrid rewards
 *     golden values CASE FILE KEY...
 *                                     compares a stream's values with KEY of the case, or with ID.KEY if the
 *                                     case has several records
 *     golden grads CASE KEY FILE    compares all gradients in a safetensors file with KEY.NAME
 *     golden step CASE DIR          compares weights in a checkpoint with step.weight.NAME
 *     golden log CASE FILE KEY...   compares loss.rl and loss.ntp of a log's first line, and step.grad_norm
 *                                     of the first lines
 *     golden variant CASE NAME GRADIENT LOG STREAM
 *                                     compares a variant of the policy loss: all gradients with NAME.WEIGHT,
 *                                     the log's first line with NAME.loss, and the stream's advantages
 *     golden adamw CASE             compares the optimizer, on the case's gradients, with double precision
 *     golden change A B FROM        compares the changes of two checkpoints since a third: their difference
 *                                     over their norm
 *
 * Prints the worst difference for each key, as largest difference over largest value.  The limits are 1e-5
 * for values, 1e-4 for gradients, 5e-7 of the largest advantage for loss.rl, and 1e-2 of the norm for the
 * change of all weights, or 1e-6 between two of our own checkpoints.  With Muon, whose steps magnify
 * rounding, the limits are 5e-5 for values and 5e-3 for gradients.  On a GPU, the gradient of LaCT's
 * ttt_scale_proj.bias is compared with the largest number of its weight's gradient. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "ckpt/tensors.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "unit/must.h"
#include "stream/stream.h"
#include "unit/tap.h"
#include "unit/values.h"

/* The program reads a few files and exits: its memory is not freed before. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static struct rf_tensors want;
static double value_limit = 1e-5, gradient_limit = 1e-4;
static float *read_f32(const struct rf_tensors *t, const char *name, size_t *n)
{
	const struct rf_tensor *x = rf_tensors_find(t, name);
	float *p;

	*n = 0;
	if (!x)
		return NULL;
	*n = x->count;
	p = room(x->count, sizeof *p);
	must(rf_tensor_f32_part(x, 0, x->count, p, &err));
	return p;
}

static int32_t *read_i32(const char *name, size_t *n)
{
	const struct rf_tensor *x = rf_tensors_find(&want, name);
	int32_t *p = room(x ? x->count : 0, sizeof *p);

	*n = x ? x->count : 0;
	if (x)
		must(rf_tensor_read(x, 0, p, x->bytes, &err));
	return p;
}

/* Compares n numbers.  top: the value by which differences are divided. */
static void compare(const char *name, const float *have, const float *expect, size_t n, double top,
                    double limit)
{
	const double worst = difference(have, expect, n);

	ok(worst <= limit * top, "%s %.1e", name, worst / top);
}

/* Returns, on a GPU and for the gradient of the bias of LaCT's ttt_scale_proj, the largest number of its
 * weight's gradient; otherwise 0.  Both are sums of the same terms, which cancel in the bias to a hundredth,
 * and a GPU's exponentials and quotients are off by 2^-22. */
static double scale_of(const char *name)
{
	const char *device = getenv("RF_DEVICE"), *last = strrchr(name, '.');
	char weight[250];
	double top = 0;
	float *x;
	size_t n;

	if (!device || strcmp(device, "cuda") || !last || !strstr(name, ".ttt_scale_proj.bias"))
		return 0;
	snprintf(weight, sizeof weight, "%.*s.weight", (int)(last - name), name);
	if ((x = read_f32(&want, weight, &n)))
		top = largest(x, n);
	free(x);
	return top;
}

/* Compares n numbers with those of this name in the case, which must have as many. */
static void compare_with_case(const char *name, const float *have, size_t n, double limit)
{
	size_t m;
	float *e = read_f32(&want, name, &m);

	if (!have || !e)
		ok(false, "%s: %s", name, have ? "not in the case" : e ? "missing" : "on neither side");
	else if (m != n)
		ok(false, "%s has %zu numbers, expected %zu", name, n, m);
	else
		compare(name, have, e, n, fmax(largest(e, n), scale_of(name)), limit);
	free(e);
}

/* ---- streams ------------------------------------------------------------------------------- */

static void make_stream(void)
{
	struct rf_record r;
	struct rf_head head;
	struct rf_out *out;
	size_t n, M, k;

	rf_record_init(&r);
	rf_head_init(&head);
	head.vocab = 40;
	r.tokens = read_i32("tokens", &n);
	r.T = (int)n;
	r.positions = read_i32("rollout.start", &M);
	r.c = (int)M;
	r.rollout.tokens = read_i32("rollout.tokens", &k);
	r.rollout.n = 1;
	r.rollout.k = (int)(k / M);
	r.rollout.temperature = 1;
	r.rollout.logp = read_f32(&want, "rollout.logp_old", &n);
	r.reward.kind = "hybrid";
	r.reward.n = 1;
	r.reward.parts = 3;
	r.reward.part[0] = (struct rf_part){ "cosine", read_f32(&want, "reward.cosine", &n) };
	r.reward.part[1] = (struct rf_part){ "binary", read_f32(&want, "reward.binary", &n) };
	r.reward.part[2] = (struct rf_part){ "edit", read_f32(&want, "reward.edit", &n) };
	r.reward.total = read_f32(&want, "reward.cosine", &n);
	for (size_t i = 0; i < M; i++)
		r.reward.total[i] += r.reward.part[1].value[i];
	must(rf_out_open(&out, NULL, &head, &err));
	must(rf_put(out, &r, &err));
	must(rf_out_finish(out, &err));
}

static void compare_values(const char *path, char **keys)
{
	struct rf_in *in;
	struct rf_record *r;
	enum rf_code rc;
	bool several = !rf_tensors_find(&want, "tokens");
	char name[100];

	must(rf_in_open(&in, path, 0, &err));
	while ((rc = rf_next(in, &r, &err)) == RF_OK)
		for (char **k = keys; *k; k++) {
			size_t n;
			const float *p = value(r, *k, &n);

			snprintf(name, sizeof name, several ? "%llu.%s" : "%.0llu%s",
			         several ? (unsigned long long)r->id : 0, *k);
			/* a record without positions has no advantages */
			if (p || !several || rf_tensors_find(&want, name))
				compare_with_case(name, p, n,
				                  !strcmp(*k, "reward.binary") || !strcmp(*k, "reward.edit")
				                          ? 1e-6
				                          : value_limit);
		}
	must(rc == RF_EOF ? RF_OK : rc);
}

/* ---- gradients and steps ------------------------------------------------------------------- */

static void compare_gradients(const char *key, const char *path)
{
	struct rf_tensors have;
	char name[200];
	int expected = 0;

	must(rf_tensors_open(&have, path, &err));
	for (int i = 0; i < want.n; i++)
		expected += !strncmp(want.t[i].name, key, strlen(key)) && want.t[i].name[strlen(key)] == '.';
	ok(have.n == expected, "%d gradients, %d expected", have.n, expected);
	for (int i = 0; i < have.n; i++) {
		size_t n;
		float *x = read_f32(&have, have.t[i].name, &n);

		snprintf(name, sizeof name, "%s.%s", key, have.t[i].name);
		compare_with_case(name, x, n, gradient_limit);
		free(x);
	}
}

/* Returns |change - expected change| / |expected change| over all weights.  The expected weights are those in
 * `other`, named prefix NAME. */
static double change_error(const char *dir, const char *first, const struct rf_tensors *other,
                           const char *prefix)
{
	struct rf_tensors have, from;
	char name[200];
	double diff = 0, norm = 0;

	must(rf_tensors_open_dir(&have, dir, &err));
	must(rf_tensors_open_dir(&from, first, &err));
	for (int i = 0; i < have.n; i++) {
		size_t n, m;
		float *x = read_f32(&have, have.t[i].name, &n), *w = read_f32(&from, have.t[i].name, &m), *y;

		snprintf(name, sizeof name, "%s%s", prefix, have.t[i].name);
		if (!(y = read_f32(other, name, &m)))
			return NAN;
		for (size_t j = 0; j < n; j++) {
			diff += pow((double)x[j] - (double)y[j], 2);
			norm += pow((double)y[j] - (double)w[j], 2);
		}
		free(x);
		free(w);
		free(y);
	}
	return norm > 0 ? sqrt(diff / norm) : NAN;
}

static void compare_step(const char *dir, const char *first)
{
	double d = change_error(dir, first, &want, "step.weight.");

	ok(d <= 1e-2, "step.weight %.1e", d);
}

static void compare_changes(const char *a, const char *b, const char *first)
{
	struct rf_tensors other;
	double d;

	must(rf_tensors_open_dir(&other, b, &err));
	d = change_error(a, first, &other, "");
	ok(d <= 1e-6, "difference of the changes %.1e", d);
}

/* Compares the policy loss.  Its terms are as large as the advantages and cancel, so the difference is
 * divided by the largest advantage of all records. */
static void compare_policy_loss(const char *key, double loss)
{
	double top = 0, expected;
	size_t n, m;
	float *e = read_f32(&want, key, &m), *a;

	for (int i = 0; i < want.n; i++)
		if (strstr(want.t[i].name, "advantage"))
			for (a = read_f32(&want, want.t[i].name, &n); n-- > 0;)
				top = fmax(top, fabs((double)a[n]));
	expected = m == 1 ? (double)*e : NAN;
	ok(fabs(loss - expected) <= 5e-7 * top, "%s %.1e of the largest advantage, %.1e of itself", key,
	   fabs(loss - expected) / top, fabs(loss / expected - 1));
	free(e);
}

static void compare_log(const char *path, char **keys)
{
	FILE *f = fopen(path, "r");
	char line[8192];
	size_t n, lines = 0;
	float *norm = read_f32(&want, "step.grad_norm", &n);

	for (; f && fgets(line, sizeof line, f); lines++) {
		json_t *o = json_loads(line, 0, NULL);

		for (char **k = keys; *k; k++) {
			bool is_norm = !strcmp(*k, "step.grad_norm");
			const char *key = is_norm                  ? "actor/grad_norm_ttt"
			                  : !strcmp(*k, "loss.rl") ? "loss/rl"
			                                           : "loss/ntp";
			float x = (float)json_number_value(json_object_get(o, key));

			if (!json_is_number(json_object_get(o, key)))
				ok(false, "line %zu has no %s", lines, key);
			else if (is_norm && lines < n)
				/* Adam's first step magnifies noise */
				compare(*k, &x, norm + lines, 1, largest(norm + lines, 1),
				        lines ? 1e-3 : gradient_limit / 10);
			else if (!is_norm && !lines && !strcmp(*k, "loss.rl"))
				compare_policy_loss(*k, (double)x);
			else if (!is_norm && !lines)
				compare_with_case(*k, &x, 1, value_limit);
		}
		json_decref(o);
	}
	ok(lines > 0, "%s has lines", path);
}

/* ---- variants of the policy loss ------------------------------------------------------------ */

/* Compares the first line of a log with the means of l, of the divergence and of the entropy.  The terms of
 * each mean may cancel, so the difference is divided by the largest advantage, or by 1. */
static void compare_losses(const char *variant, const char *path, double top)
{
	static const char *const keys[] = { "loss/rl", "actor/kl_loss", "actor/entropy_loss" };
	json_t *line;
	char name[100];
	FILE *f = fopen(path, "r");
	size_t n;
	float *expect;

	snprintf(name, sizeof name, "%s.loss", variant);
	expect = read_f32(&want, name, &n);
	line = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	for (size_t i = 0; i < 3 && n == 4; i++) {
		const double have = json_number_value(json_object_get(line, keys[i])),
			     off = fabs(have - (double)expect[i]) / fmax(1, i ? 0 : top);

		ok(off <= 5e-7, "%s %s %.1e", variant, keys[i], off);
	}
	ok(line && n == 4, "%s has a line", path);
}

static void compare_variant(const char *variant, const char *gradient, const char *log, const char *stream)
{
	struct rf_tensors have;
	struct rf_record *r;
	struct rf_in *in;
	char name[200];
	double top = 0, worst = 0;
	size_t n, m;

	must(rf_tensors_open(&have, gradient, &err));
	ok(have.n > 20, "%s: %d gradients", variant, have.n);
	for (int i = 0; i < have.n; i++) {
		float *x = read_f32(&have, have.t[i].name, &n);

		snprintf(name, sizeof name, "%s.%s", variant, have.t[i].name);
		compare_with_case(name, x, n, gradient_limit);
		free(x);
	}
	must(rf_in_open(&in, stream, 0, &err));
	while (rf_next(in, &r, &err) == RF_OK) {
		const float *A = value(r, "advantage", &n);
		float *expect;

		snprintf(name, sizeof name, "%s.advantage.%llu", variant, (unsigned long long)r->id);
		expect = read_f32(&want, name, &m);
		ok(A && n == m, "%s has %zu numbers", name, m);
		worst = fmax(worst, A && n == m ? difference(A, expect, n) : NAN);
		top = fmax(top, largest(expect, m));
	}
	ok(worst <= 1e-6 * top, "%s.advantage %.1e", variant, worst / top);
	compare_losses(variant, log, top);
}

/* ---- the optimizer ------------------------------------------------------------------------- */

/* Makes two steps with the gradient 0.2 grad_rl + grad_ntp, and a third one with a gradient that is so much
 * smaller that nothing is clipped. */
static void compare_adamw(const char *dir)
{
	struct rf_engine g = RF_ENGINE_DEFAULTS;
	struct rf_train t = RF_TRAIN_DEFAULTS;
	struct rf_train_stats st;
	size_t n, m, norms;
	float *grad, *have, *norm = read_f32(&want, "step.grad_norm", &norms), top_w = 0;
	double *w, *mm, *v, worst_w = 0, worst_m = 0, worst_v = 0, top_m = 0, top_v = 0;

	g.path = dir;
	t.engine = &g;
	t.adamw.lr = 0.01;
	t.adamw.weight_decay = 0.1;
	must(rf_engine_open(&g, NULL, true, &err));
	n = g.ckpt->params.total;
	grad = room(n, sizeof *grad);
	have = room(3 * n, sizeof *have);
	w = room(3 * n, sizeof *w);
	mm = w + n;
	v = mm + n;
	must(rf_ckpt_load(g.ckpt, have, &err));
	for (size_t i = 0; i < n; i++)
		w[i] = (double)have[i];
	for (int i = 0; i < g.ckpt->params.n; i++) {
		const struct rf_param *p = &g.ckpt->params.p[i];
		char name[200];
		float *rl, *ntp;

		snprintf(name, sizeof name, "grad_rl.%s", p->name);
		rl = read_f32(&want, name, &m);
		snprintf(name, sizeof name, "grad_ntp.%s", p->name);
		ntp = read_f32(&want, name, &m);
		for (size_t j = 0; j < m; j++)
			grad[p->offset + j] = (float)(0.2 * (double)rl[j] + (double)ntp[j]);
		free(rl);
		free(ntp);
	}
	for (int s = 0; s < 3; s++) {
		double sum = 0, scale, c1 = 1 - pow(0.9, s + 1), c2 = 1 - pow(0.999, s + 1);

		for (size_t i = 0; s == 2 && i < n; i++)
			grad[i] *= 1e-3f;
		for (size_t i = 0; i < n; i++)
			sum += (double)grad[i] * (double)grad[i];
		scale = fmin(1, 0.2 / (sqrt(sum) + 1e-6));
		g.dev.ops->upload(&g.dev, g.model.g, grad, n * 4);
		must(rf_train_step(&t, s, s, &st, &err));
		ok(fabs(st.grad_norm - sqrt(sum)) <= 1e-9 * sqrt(sum), "norm before clipping %.9g",
		   st.grad_norm);
		if (!s)
			ok(fabs(st.grad_norm - (double)norm[0]) <= 1e-5 * (double)norm[0],
			   "the norm equals that of the case, %.9g", (double)norm[0]);
		ok(s == 2 ? scale == 1 : scale < 1, "clipped by %g", scale);
		for (size_t i = 0; i < n; i++) {
			double d = (double)grad[i] * scale;

			mm[i] = 0.9 * mm[i] + 0.1 * d;
			v[i] = 0.999 * v[i] + 0.001 * d * d;
			w[i] -= 0.01 * (0.1 * w[i] + mm[i] / c1 / (sqrt(v[i] / c2) + 1e-8));
		}
	}
	g.dev.ops->download(&g.dev, have, g.model.w, n * 4);
	g.dev.ops->download(&g.dev, have + n, g.model.m, n * 4);
	g.dev.ops->download(&g.dev, have + 2 * n, g.model.v, n * 4);
	must(rf_dev_sync(&g.dev, &err));
	for (size_t i = 0; i < n; i++) {
		worst_w = fmax(worst_w, fabs((double)have[i] - w[i]));
		worst_m = fmax(worst_m, fabs((double)have[n + i] - mm[i]));
		worst_v = fmax(worst_v, fabs((double)have[2 * n + i] - v[i]));
		top_w = fmaxf(top_w, (float)fabs(w[i]));
		top_m = fmax(top_m, fabs(mm[i]));
		top_v = fmax(top_v, v[i]);
	}
	ok(worst_w <= 1e-6 * (double)top_w, "weights %.1e", worst_w / (double)top_w);
	ok(worst_m <= 1e-6 * top_m && worst_v <= 1e-6 * top_v, "moments %.1e %.1e", worst_m / top_m,
	   worst_v / top_v);
	rf_train_close(&t);
	rf_engine_close(&g);
}

int main(int argc, char **argv)
{
	struct rf_config cfg;
	char path[1000];

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "change") && argc == 5) {
		compare_changes(argv[2], argv[3], argv[4]);
		return tap_end();
	}
	snprintf(path, sizeof path, "%s/expected.safetensors", argv[2]);
	must(rf_tensors_open(&want, path, &err));
	snprintf(path, sizeof path, "%s/config.json", argv[2]);
	if (rf_config_read(&cfg, path, &err) == RF_OK && cfg.lact.muon) {
		value_limit = 5e-5;
		gradient_limit = 5e-3;
	}
	rf_config_free(&cfg);
	if (!strcmp(argv[1], "stream")) {
		make_stream();
		return 0;
	}
	if (!strcmp(argv[1], "values") && argc > 4)
		compare_values(argv[3], argv + 4);
	else if (!strcmp(argv[1], "grads") && argc == 5)
		compare_gradients(argv[3], argv[4]);
	else if (!strcmp(argv[1], "step") && argc == 4)
		compare_step(argv[3], argv[2]);
	else if (!strcmp(argv[1], "log") && argc > 4)
		compare_log(argv[3], argv + 4);
	else if (!strcmp(argv[1], "variant") && argc == 7)
		compare_variant(argv[3], argv[4], argv[5], argv[6]);
	else if (!strcmp(argv[1], "adamw") && argc == 3)
		compare_adamw(argv[2]);
	else
		return 2;
	return tap_end();
}
