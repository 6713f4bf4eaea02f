/* records -- writes streams for tests.
 *
 * make N D STEP    N records with entropies, 2 positions, 2 rollouts of 3 tokens and hidden states of width D
 *                  (0: none); the third of every four records has no positions; STEP is the model's step
 * reverse FILE     the records of FILE in reverse order */
#include <math.h>
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

static int make_stream(uint64_t n, int d, int64_t step)
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

static int reverse_stream(const char *path)
{
	struct rf_record *all = NULL, *r;
	struct rf_in *in;
	struct rf_out *out;
	enum rf_code rc;
	int n;

	must(rf_in_open(&in, path, 0, &err));
	for (n = 0; (rc = rf_next(in, &r, &err)) == RF_OK; n++) {
		if (!(all = realloc(all, ((size_t)n + 1) * sizeof *all)))
			abort();
		rf_record_init(&all[n]);
		must(rf_record_copy(&all[n], r, &err));
	}
	must(rc == RF_EOF ? RF_OK : rc);
	must(rf_out_open(&out, NULL, rf_in_head(in), &err));
	while (n-- > 0) {
		must(rf_put(out, &all[n], &err));
		rf_record_free(&all[n]);
	}
	must(rf_out_finish(out, &err));
	free(all);
	rf_in_close(in);
	return 0;
}

int main(int argc, char *argv[])
{
	if (argc == 5 && !strcmp(argv[1], "make"))
		return make_stream(strtoull(argv[2], NULL, 10), atoi(argv[3]), atoi(argv[4]));
	if (argc == 3 && !strcmp(argv[1], "reverse"))
		return reverse_stream(argv[2]);
	return 64;
}
