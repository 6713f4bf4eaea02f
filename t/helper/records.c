/* records -- streams for tests.
 *
 * make N D STEP    N records with entropies; 2 positions, 2 rollouts of 3 tokens, hidden states of width D
 *                  (0: none); the third of every four has no positions; the model's step
 * reverse FILE     the same records, last one first
 * show FILE        id, positions, the reward's kind and total, the advantage: one line per record
 * same FILE FILE   fails unless the rewards of the first, with their parts, are those of the second to 1e-6,
 *                  whatever else differs */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "unit/must.h"
#include "stream/stream.h"

enum { C = 2, N = 2, K = 3, VOCAB = 40 };

static double noise(uint64_t id, uint32_t j)
{
	return rf_draw(rf_draw_key(0, RF_DRAW_WEIGHTS, 0, id, 0, 0), j);
}

static void make_record(struct rf_record *r, uint64_t id, int d)
{
	size_t rolls = C * N * K, width = (size_t)d;
	uint32_t j = 0;

	rf_record_init(r);
	r->id = id;
	r->T = 60 + (int)(id % 7);
	r->tokens = rf_record_alloc(r, (size_t)r->T, sizeof *r->tokens);
	r->entropy = rf_record_alloc(r, (size_t)r->T, sizeof *r->entropy);
	for (int t = 0; t < r->T; t++) {
		r->tokens[t] = (int32_t)(VOCAB * noise(id, j++));
		r->entropy[t] = (float)(3 * noise(id, j++));
	}
	if (id % 4 == 2)
		return;
	r->c = C;
	r->positions = rf_record_alloc(r, C, sizeof *r->positions);
	r->positions[0] = 7;
	r->positions[1] = r->T - K;
	r->rollout.temperature = 1;
	r->rollout.n = N;
	r->rollout.k = K;
	r->rollout.d = d;
	r->rollout.tokens = rf_record_alloc(r, rolls, sizeof *r->rollout.tokens);
	r->rollout.logp = rf_record_alloc(r, rolls, sizeof *r->rollout.logp);
	if (d) {
		r->rollout.h_pred = rf_record_alloc(r, rolls * width, sizeof *r->rollout.h_pred);
		r->rollout.h_gt = rf_record_alloc(r, C * K * width, sizeof *r->rollout.h_gt);
	}
	for (size_t i = 0; i < rolls; i++) {
		r->rollout.tokens[i] = (int32_t)(VOCAB * noise(id, j++));
		r->rollout.logp[i] = (float)log(noise(id, j++) + 1e-9);
	}
	for (size_t i = 0; i < rolls * width; i++)
		r->rollout.h_pred[i] = (float)(noise(id, j++) - 0.4);
	for (size_t i = 0; i < C * K * width; i++)
		r->rollout.h_gt[i] = (float)(noise(id, j++) - 0.4);
}

static int make(uint64_t n, int d, int64_t step)
{
	struct rf_head head;
	struct rf_out *out;

	rf_head_init(&head);
	head.vocab = VOCAB;
	head.step = step;
	strcpy(head.arch, "0123456789abcdef");
	strcpy(head.weights, "fedcba9876543210");
	must(rf_out_open(&out, NULL, &head, &err));
	for (uint64_t id = 0; id < n; id++) {
		struct rf_record r;

		make_record(&r, id, d);
		must(rf_put(out, &r, &err));
		rf_record_free(&r);
	}
	must(rf_out_finish(out, &err));
	rf_head_free(&head);
	return 0;
}

/* All records of a stream. */
static struct rf_record *slurp(const char *path, struct rf_in **in, int *n)
{
	struct rf_record *all = NULL, *r;
	enum rf_code rc;

	must(rf_in_open(in, path, 0, &err));
	for (*n = 0; (rc = rf_next(*in, &r, &err)) == RF_OK; ++*n) {
		if (!(all = realloc(all, ((size_t)*n + 1) * sizeof *all)))
			abort();
		rf_record_init(&all[*n]);
		must(rf_record_copy(&all[*n], r, &err));
	}
	must(rc == RF_EOF ? RF_OK : rc);
	return all;
}

static void drop(struct rf_record *all, int n, struct rf_in *in)
{
	for (int i = 0; i < n; i++)
		rf_record_free(&all[i]);
	free(all);
	rf_in_close(in);
}

static int reverse(const char *path)
{
	struct rf_in *in;
	struct rf_out *out;
	int n;
	struct rf_record *all = slurp(path, &in, &n);

	must(rf_out_open(&out, NULL, rf_in_head(in), &err));
	for (int i = n - 1; i >= 0; i--)
		must(rf_put(out, &all[i], &err));
	must(rf_out_finish(out, &err));
	drop(all, n, in);
	return 0;
}

static int show(const char *path)
{
	struct rf_in *in;
	int n;
	struct rf_record *all = slurp(path, &in, &n);

	for (int i = 0; i < n; i++) {
		const struct rf_record *r = &all[i];

		printf("%llu:", (unsigned long long)r->id);
		for (int j = 0; j < r->c; j++)
			printf(" %d", r->positions[j]);
		if (r->reward.kind)
			printf(" %s", r->reward.kind);
		for (int j = 0; r->reward.kind && j < r->c * r->reward.n; j++)
			printf(" %.9g", (double)r->reward.total[j]);
		printf("%s\n", r->advantage ? " advantage" : "");
	}
	drop(all, n, in);
	return 0;
}

static bool off(const float *a, const float *b, int n)
{
	for (int i = 0; i < n; i++)
		if (!(fabs((double)a[i] - b[i]) <= 1e-6))
			return true;
	return false;
}

static int same(const char *a, const char *b)
{
	struct rf_in *in[2];
	int n, m, differ;
	struct rf_record *x = slurp(a, &in[0], &n), *y = slurp(b, &in[1], &m);

	differ = n != m;
	for (int i = 0; i < n && !differ; i++) {
		const struct rf_reward *p = &x[i].reward, *q = &y[i].reward;
		int G = x[i].c * p->n;

		differ = x[i].id != y[i].id || x[i].c != y[i].c || p->n != q->n || !p->kind != !q->kind;
		if (!differ && p->kind)
			differ = strcmp(p->kind, q->kind) || off(p->total, q->total, G);
		for (int j = 0; !differ && p->kind && j < p->parts; j++)
			differ = !rf_part(q, p->part[j].name) ||
			         off(p->part[j].value, rf_part(q, p->part[j].name), G);
		if (differ)
			printf("record %d differs\n", i);
	}
	drop(x, n, in[0]);
	drop(y, m, in[1]);
	return differ;
}

int main(int argc, char *argv[])
{
	if (argc == 5 && !strcmp(argv[1], "make"))
		return make(strtoull(argv[2], NULL, 10), atoi(argv[3]), atoi(argv[4]));
	if (argc == 3 && !strcmp(argv[1], "reverse"))
		return reverse(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "show"))
		return show(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "same"))
		return same(argv[2], argv[3]);
	return 64;
}
