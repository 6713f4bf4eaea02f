/* rewards GOLDEN -- rewards and advantages of the reference cases, and of a stream that another
 * implementation wrote.  Prints TAP. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/tensors.h"
#include "method/advantage.h"
#include "method/reward.h"
#include "stream/stream.h"
#include "unit/tap.h"

static void die(const char *what, const struct rf_err *e)
{
	printf("Bail out! %s: %s\n", what, e->msg);
	exit(1);
}

static double worst(const float *a, const float *b, size_t n)
{
	double w = 0;

	for (size_t i = 0; i < n; i++)
		w = fmax(w, fabs((double)a[i] - b[i]));
	return w;
}

/* A tensor's elements in memory of the record's. */
static void *elements(const struct rf_tensors *file, const char *name, struct rf_record *r,
                      const struct rf_tensor **t)
{
	const struct rf_tensor *x = rf_tensors_find(file, name);
	void *copy = x ? rf_record_alloc(r, x->count, 4) : NULL;
	struct rf_err e = { RF_EDATA, "no such tensor of 32 bits" };

	if (!copy || x->bytes != 4 * x->count || rf_tensor_read(x, 0, copy, x->bytes, &e) != RF_OK)
		die(name, &e);
	*t = x;
	return copy;
}

static void test_case(const char *golden, const char *name)
{
	static const char *const kind[] = { "cosine", "binary", "edit" };
	const struct rf_tensor *t, *roll, *h;
	struct rf_advantage a = { .group = RF_GROUP_SEQUENCE };
	struct rf_tensors file;
	struct rf_record r;
	struct rf_err e;
	char path[4096];
	double off = 0;

	snprintf(path, sizeof path, "%s/%s/expected.safetensors", golden, name);
	if (rf_tensors_open(&file, path, &e) != RF_OK)
		die(path, &e);
	rf_record_init(&r);
	r.tokens = elements(&file, "tokens", &r, &t);
	r.T = (int)t->count;
	r.positions = elements(&file, "rollout.start", &r, &t);
	r.c = (int)t->count;
	r.rollout.tokens = elements(&file, "rollout.tokens", &r, &roll);
	r.rollout.h_pred = elements(&file, "rollout.h_pred", &r, &h);
	r.rollout.h_gt = elements(&file, "rollout.h_gt", &r, &h);
	r.rollout.n = 1;
	r.rollout.k = (int)roll->shape[1];
	r.rollout.d = (int)h->shape[2];
	if (rf_reward_record(&r, rf_reward_kind("hybrid"), 0, 0, 0, NULL, &e) != RF_OK ||
	    rf_advantage_record(&a, &r, NULL, &e) != RF_OK)
		die(name, &e);
	for (int i = 0; i < 3; i++) {
		char key[40];

		snprintf(key, sizeof key, "reward.%s", kind[i]);
		off = fmax(off, worst(rf_part(&r.reward, kind[i]), elements(&file, key, &r, &t),
		                      (size_t)r.c));
	}
	ok(off <= 1e-6 && t->count == (uint64_t)r.c, "%s: rewards, off by %.1e", name, off);
	off = worst(r.advantage, elements(&file, "advantage", &r, &t), (size_t)r.c);
	ok(off <= 1e-6, "%s: advantages of the hybrid reward, off by %.1e", name, off);
	rf_record_free(&r);
	rf_tensors_close(&file);
}

/* The stored parts are computed again, and the advantages that belong to them. */
static void test_stream(const char *golden)
{
	struct rf_advantage a = { .group = RF_GROUP_POSITION };
	struct rf_tensors file;
	struct rf_record *r, old;
	struct rf_in *in;
	struct rf_err e;
	char path[4096], key[40];
	int seen = 0;
	enum rf_code rc;

	snprintf(path, sizeof path, "%s/stream/expected.safetensors", golden);
	if (rf_tensors_open(&file, path, &e) != RF_OK)
		die(path, &e);
	snprintf(path, sizeof path, "%s/stream/rewarded.rf", golden);
	if (rf_in_open(&in, path, 0, &e) != RF_OK)
		die(path, &e);
	while ((rc = rf_next(in, &r, &e)) == RF_OK) {
		size_t G = (size_t)r->c * (size_t)r->rollout.n;
		const struct rf_tensor *t;
		double off, off_a;

		if (!r->rollout.tokens)
			continue;
		rf_record_init(&old);
		if (rf_record_copy(&old, r, &e) != RF_OK ||
		    rf_reward_record(r, rf_reward_kind(old.reward.kind), 0, 0, 0, NULL, &e) != RF_OK ||
		    rf_advantage_record(&a, r, NULL, &e) != RF_OK)
			die(path, &e);
		off = worst(r->reward.total, old.reward.total, G);
		ok(old.reward.parts == 3 && r->reward.parts >= 3, "stream: record %d: parts", (int)r->id);
		for (int i = 0; i < old.reward.parts; i++)
			off = fmax(off, worst(rf_part(&r->reward, old.reward.part[i].name),
			                      old.reward.part[i].value, G));
		ok(off <= 1e-6 && !strcmp(r->reward.kind, old.reward.kind),
		   "stream: record %d: %s rewards, off by %.1e", (int)r->id, old.reward.kind, off);
		snprintf(key, sizeof key, "%d.advantage", (int)r->id);
		off_a = worst(r->advantage, elements(&file, key, r, &t), G);
		ok(off_a <= 1e-6, "stream: record %d: advantages, off by %.1e", (int)r->id, off_a);
		rf_record_free(&old);
		seen++;
	}
	if (rc != RF_EOF)
		die(path, &e);
	ok(seen == 3, "stream: three records have rollouts");
	rf_in_close(in);
	rf_tensors_close(&file);
}

int main(int argc, char *argv[])
{
	const char *const delta[] = { "delta", "delta-gate-neg", "delta-hybrid", "delta-long", "delta-plain",
	                              "delta-relu-tied" };

	for (size_t i = 0; i < sizeof delta / sizeof *delta; i++)
		test_case(argc > 1 ? argv[1] : "t/golden", delta[i]);
	test_stream(argc > 1 ? argv[1] : "t/golden");
	return tap_end();
}
