/* stream -- feeds any bytes to the reader of streams.  The first byte of the input decides how the rest is
 * read: as a stream, as messages of a stream, as one message, or as a line of JSON.  Messages get the right
 * checksums, because a fuzzer would not find these, and each message begins with its length in two bytes.  An
 * accepted input is written again, and must be the same when it is read. */
#include <msgpack.h>
#include <xxhash.h>
#include <zstd.h>

#include "fuzz/fuzz.h"
#include "stream/msg.h"
#include "stream/wire.h"

enum { LIMIT = 1 << 20 };

static bool same_bytes(const struct rf_buf *a, const struct rf_buf *b)
{
	return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

/* Checks that a record that was accepted keeps the rules, and is the same after it was written and read. */
static void check_record(const struct rf_record *r, int vocab)
{
	struct rf_buf a = { 0 }, b = { 0 };
	struct rf_record again;
	struct rf_err e;
	struct rf_msg m;

	rf_record_init(&again);
	insist(rf_record_check(r, vocab, &e) == RF_OK, "an accepted record breaks a rule");
	rf_record_encode(&a, 1, r);
	insist(rf_msg_check(a.p, a.n, &e) == RF_OK && rf_msg_open(&m, a.p, a.n, &e) == RF_OK,
	       "a written record is no message");
	insist(rf_record_decode(&again, m.body.p, (size_t)(m.body.end - m.body.p), vocab, &e) == RF_OK,
	       "a written record is refused");
	rf_record_encode(&b, 1, &again);
	insist(same_bytes(&a, &b), "a record written twice differs");
	rf_record_copy(&again, r, &e);
	b.n = 0;
	rf_record_encode(&b, 1, &again);
	insist(same_bytes(&a, &b), "a copy differs");
	rf_record_free(&again);
	rf_buf_free(&a);
	rf_buf_free(&b);
}

static void check_head(const struct rf_head *h)
{
	struct rf_buf a = { 0 }, b = { 0 };
	struct rf_head again;
	struct rf_err e;
	struct rf_msg m;

	rf_head_init(&again);
	rf_head_encode(&a, h);
	insist(rf_msg_check(a.p, a.n, &e) == RF_OK && rf_msg_open(&m, a.p, a.n, &e) == RF_OK,
	       "a written head is no message");
	insist(rf_head_decode(&again, m.body, &e) == RF_OK, "a written head is refused");
	rf_head_encode(&b, &again);
	insist(same_bytes(&a, &b), "a head written twice differs");
	rf_head_free(&again);
	rf_buf_free(&a);
	rf_buf_free(&b);
}

/* Reads a stream, and checks what is accepted. */
static void read_stream(const void *data, size_t n)
{
	struct rf_record *r;
	struct rf_in *in;
	struct rf_err e = { 0 };
	enum rf_code rc = rf_in_open_bytes(&in, data, n, "<fuzz>", LIMIT, &e);

	if (rc == RF_OK) {
		check_head(rf_in_head(in));
		while ((rc = rf_next(in, &r, &e)) == RF_OK)
			check_record(r, rf_in_head(in)->vocab);
		rf_in_close(in);
	}
	insist(rc == RF_EOF || (rc == RF_EDATA && !strncmp(e.msg, "<fuzz>: ", 8)),
	       "a stream fails with a wrong code or without its name in the message");
}

static void add_frame(struct rf_buf *b, const void *msg, size_t n)
{
	static ZSTD_CCtx *z;
	static unsigned char out[ZSTD_COMPRESSBOUND(70000)];

	if (!z) {
		z = ZSTD_createCCtx();
		ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, 1);
		ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	}
	rf_buf_add(b, out, ZSTD_compress2(z, out, sizeof out, msg, n));
}

/* Makes a stream of the messages, with an end record, and reads it. */
static void read_messages(const uint8_t *data, size_t size)
{
	struct rf_buf b = { 0 }, end = { 0 };
	uint64_t seq = 0, hash;
	XXH64_state_t *x = XXH64_createState();

	XXH64_reset(x, 0);
	while (size >= 2) {
		size_t n = (size_t)data[0] | (size_t)data[1] << 8;
		data += 2;
		size -= 2;
		if (n > size)
			n = size;
		add_frame(&b, data, n);
		XXH64_update(x, data, n);
		data += n;
		size -= n;
		seq++;
	}
	hash = XXH64_digest(x);
	rf_end_encode(&end, seq, &(struct rf_end){ seq - 1, hash });
	add_frame(&b, end.p, end.n);
	read_stream(b.p, b.n);
	rf_buf_free(&b);
	rf_buf_free(&end);
	XXH64_freeState(x);
}

/* Checks that a message converted to JSON and back twice is the same message both times. */
static void check_json(const void *msg, size_t n)
{
	struct rf_err e;
	char *line = NULL, *line2 = NULL;
	void *back = NULL, *back2 = NULL;
	size_t len, m, len2, m2;

	if (rf_msg_to_json(msg, n, &line, &len, &e) != RF_OK)
		return;
	insist(rf_msg_from_json(line, len, &back, &m, &e) == RF_OK, "written JSON is refused");
	insist(rf_msg_to_json(back, m, &line2, &len2, &e) == RF_OK && len == len2 &&
	               !memcmp(line, line2, len),
	       "JSON of a message differs after a round trip");
	insist(rf_msg_from_json(line2, len2, &back2, &m2, &e) == RF_OK && m == m2 && !memcmp(back, back2, m),
	       "a message differs after a round trip");
	free(line);
	free(line2);
	free(back);
	free(back2);
}

static void check_message(const uint8_t *data, size_t size)
{
	msgpack_unpacked result;
	struct rf_err e;
	size_t off = 0;

	if (rf_msg_check(data, size, &e) != RF_OK)
		return;
	msgpack_unpacked_init(&result);
	insist(msgpack_unpack_next(&result, (const char *)data, size, &off) == MSGPACK_UNPACK_SUCCESS &&
	               off == size,
	       "msgpack-c disagrees");
	msgpack_unpacked_destroy(&result);
	check_json(data, size);
}

static void read_line(const uint8_t *data, size_t size)
{
	struct rf_err e;
	void *msg = NULL;
	size_t n;

	if (rf_msg_from_json((const char *)data, size, &msg, &n, &e) != RF_OK)
		return;
	insist(rf_msg_check(msg, n, &e) == RF_OK, "accepted JSON makes bad msgpack");
	check_json(msg, n);
	free(msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > 65536)
		return 0;
	switch (data[0] & 3) {
	case 0: read_stream(data + 1, size - 1); break;
	case 1: read_messages(data + 1, size - 1); break;
	case 2: check_message(data + 1, size - 1); break;
	case 3: read_line(data + 1, size - 1);
	}
	return 0;
}
