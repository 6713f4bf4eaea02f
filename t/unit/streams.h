/* streams.h -- makes small streams in memory for the unit programs. */
#ifndef STREAMS_H
#define STREAMS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "stream/msg.h"
#include "stream/wire.h"

/* A stream in memory: its bytes, and where each frame begins. */
struct made {
	struct rf_buf bytes;
	size_t at[64]; /* offset of each frame; at[frames] is the length of the stream */
	int frames;
	XXH64_state_t *hash;
};

/* Appends a frame. */
static void made_frame(struct made *m, const void *msg, size_t n)
{
	size_t cap = ZSTD_compressBound(n), size;
	ZSTD_CCtx *z = ZSTD_createCCtx();
	unsigned char *out = malloc(cap);

	ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, 1);
	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	size = ZSTD_compress2(z, out, cap, msg, n);
	rf_buf_add(&m->bytes, out, size);
	m->at[++m->frames] = m->bytes.n;
	free(out);
	ZSTD_freeCCtx(z);
}

/* Appends a frame, and adds its message to the hash of the end record. */
static void made_message(struct made *m, const void *msg, size_t n)
{
	if (!m->hash)
		XXH64_reset(m->hash = XXH64_createState(), 0);
	XXH64_update(m->hash, msg, n);
	made_frame(m, msg, n);
}

/* Appends an end record with the right count and hash. */
static void made_end(struct made *m)
{
	struct rf_buf b = { 0 };

	rf_end_encode(&b, (uint64_t)m->frames,
	              &(struct rf_end){ (uint64_t)m->frames - 1, XXH64_digest(m->hash) });
	made_frame(m, b.p, b.n);
	rf_buf_free(&b);
}

static void made_free(struct made *m)
{
	rf_buf_free(&m->bytes);
	XXH64_freeState(m->hash);
	memset(m, 0, sizeof *m);
}

/* Returns the next of a fixed sequence of random numbers. */
static uint32_t noise(void)
{
	static uint32_t x = 2463534242;

	x ^= x << 13, x ^= x >> 17, x ^= x << 5;
	return x;
}

/* Allocates n random numbers from -1 to 1. */
static float *some_floats(struct rf_record *r, size_t n)
{
	float *f = rf_record_alloc(r, n, sizeof *f);

	for (size_t i = 0; i < n; i++)
		f[i] = (float)(noise() % 2000) / 1000 - 1;
	return f;
}

/* Allocates n random numbers from 0 to 1. */
static float *some_shares(struct rf_record *r, size_t n)
{
	float *f = some_floats(r, n);

	for (size_t i = 0; i < n; i++)
		f[i] = (1 + f[i]) / 2;
	return f;
}

/* Allocates n random integers of at least `from` and less than `below`. */
static int32_t *some_ints(struct rf_record *r, size_t n, uint32_t from, uint32_t below)
{
	int32_t *v = rf_record_alloc(r, n, sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = (int32_t)(from + noise() % (below - from));
	return v;
}

enum kind {
	TOKENS,
	ENTROPY,
	POSITIONS,
	ROLLOUT,
	REWARD,
	ADVANTAGE,
	GENERATION,
	CHOICE,
	PER_TOKEN,
	REFERENCE,
	KINDS
};
static const char *const kind_names[] = { "tokens",    "entropy",    "positions", "rollout",   "reward",
	                                  "advantage", "generation", "choice",    "per_token", "reference" };

/* Fills a record as the stage that adds values of this kind would write it. */
static void some_record(struct rf_record *r, enum kind kind, uint64_t id)
{
	enum { C = 2, N = 2, K = 2, D = 2 };
	size_t T = 7 + id % 3;

	rf_record_clear(r);
	r->id = id;
	r->T = (int)T;
	r->tokens = some_ints(r, T, 0, 40);
	r->source = "test";
	if (kind >= ENTROPY)
		r->entropy = some_floats(r, T);
	if (kind >= POSITIONS) {
		r->c = C;
		r->positions = some_ints(r, C, 1, 6);
	}
	if (kind >= ROLLOUT)
		r->rollout = (struct rf_rollout){
			/* clang-format off */
			.temperature = 0.8, .n = N, .k = K, .d = D, .tokens = some_ints(r, C * N * K, 0, 40),
			.logp = some_floats(r, C * N * K), .h_pred = some_floats(r, C * N * K * D),
			/* clang-format on */
			.h_gt = some_floats(r, C * K * D),
		};
	if (kind >= REWARD)
		r->reward = (struct rf_reward){
			.kind = "hybrid",
			.n = N,
			.total = some_floats(r, C * N),
			.parts = 4,
			.part = { { "cosine", some_floats(r, C * N) },
			          { "binary", some_floats(r, C * N) },
			          { "edit", some_floats(r, C * N) },
			          { "other", some_floats(r, C * N) } },
		};
	if (kind >= ADVANTAGE)
		r->advantage = some_floats(r, C * N);
	if (kind >= GENERATION) {
		static const char *stop[] = { "eos", "length" }, *text[] = { "a b", "" };

		r->response_len = 3;
		r->response = some_ints(r, 3, 0, 40);
		r->generation = (struct rf_generation){
			/* clang-format off */
			.temperature = 0, .n = 2, .m = 3, .tokens = some_ints(r, 6, 0, 40),
			.length = some_ints(r, 2, 1, 4), .stop = stop, .text = text,
			/* clang-format on */
		};
	}
	if (kind >= CHOICE) {
		r->choice = (struct rf_choice){
			/* clang-format off */
			.n = 2, .m = 3, .tokens = some_ints(r, 6, 0, 40), .length = some_ints(r, 2, 2, 4),
			.from = some_ints(r, 2, 0, 2), .logp = some_floats(r, 2),
			/* clang-format on */
			.greedy = some_ints(r, 2, 0, 2),
		};
	}
	if (kind >= PER_TOKEN) {
		r->rollout.length = some_ints(r, C * N, 1, K + 1);
		r->reward.per_token = some_floats(r, C * N * K);
		r->advantage = NULL;
		r->advantage_per_token = some_floats(r, C * N * K);
	}
	if (kind >= REFERENCE) {
		r->rollout.logp_ref = some_floats(r, C * N * K);
		r->rollout.kept = some_shares(r, C * N * K);
	}
}

/* Appends a head. */
static void some_head(struct made *m)
{
	struct rf_head h;
	struct rf_buf b = { 0 };

	rf_head_init(&h);
	h.vocab = 40;
	h.has_seed = true;
	rf_head_stage(&h, "rf-test", "0.1", NULL);
	rf_head_encode(&b, &h);
	made_message(m, b.p, b.n);
	rf_buf_free(&b);
	rf_head_free(&h);
}

/* Appends a whole stream: a head, records of this kind, and an end record. */
static inline void some_stream(struct made *m, enum kind kind, int records)
{
	struct rf_record r;
	struct rf_buf b = { 0 };

	rf_record_init(&r);
	some_head(m);
	for (int i = 0; i < records; i++) {
		some_record(&r, kind, (uint64_t)i);
		b.n = 0;
		rf_record_encode(&b, (uint64_t)i + 1, &r);
		made_message(m, b.p, b.n);
	}
	made_end(m);
	rf_buf_free(&b);
	rf_record_free(&r);
}

/* Appends a stream and the sentence with which it was refused ("" if it was read to its end) to the file that
 * the variable RF_KEEP names, each after its length.  t/helper/refusals.py reads them with another reader. */
static void keep_stream(const void *data, size_t n, const char *refusal)
{
	const char *path = getenv("RF_KEEP");
	FILE *f = path ? fopen(path, "ab") : NULL;
	const uint32_t sizes[2] = { (uint32_t)n, (uint32_t)strlen(refusal) };

	if (!path)
		return;
	if (!f || fwrite(sizes, sizeof sizes, 1, f) != 1 || fwrite(data, 1, n, f) != n ||
	    fwrite(refusal, 1, sizes[1], f) != sizes[1] || fclose(f))
		exit(2);
}

/* Reads a stream, and stores the hash of its head and of each record, up to `most` hashes.  Returns RF_EOF
 * if the stream was read to its end, otherwise an error. */
static enum rf_code read_hashes(const void *data, size_t n, uint64_t *hash, int most, int *count,
                                struct rf_err *e)
{
	struct rf_in *in;
	struct rf_record *r;
	struct rf_buf b = { 0 };
	enum rf_code rc = rf_in_open_bytes(&in, data, n, "<test>", 0, e);

	*count = 0;
	if (rc != RF_OK) {
		keep_stream(data, n, e->msg);
		return rc;
	}
	rf_head_encode(&b, rf_in_head(in));
	do {
		if (*count < most)
			hash[(*count)++] = XXH64(b.p, b.n, 0);
		if ((rc = rf_next(in, &r, e)) != RF_OK)
			break;
		b.n = 0;
		rf_record_encode(&b, 0, r);
	} while (rc == RF_OK);
	rf_buf_free(&b);
	rf_in_close(in);
	keep_stream(data, n, rc == RF_EOF ? "" : e->msg);
	return rc;
}

#endif
