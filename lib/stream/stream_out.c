/* stream_out.c -- writes a stream.  Each message is compressed to one frame, which is written immediately. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "io/tempfile.h"
#include "stream/msg.h"
#include "stream/wire.h"

enum { LEVEL = 1 };

struct rf_out {
	struct rf_tempfile file;
	ZSTD_CCtx *zstd;
	struct rf_buf msg; /* the message before compression */
	unsigned char *frame;
	size_t frame_cap;
	uint64_t seq; /* number of the next message */
	XXH64_state_t *hash;
	uint64_t most; /* largest number of bytes in a message */
	int vocab;
	bool ended;
};

static void free_out(struct rf_out *out)
{
	ZSTD_freeCCtx(out->zstd);
	XXH64_freeState(out->hash);
	rf_buf_free(&out->msg);
	free(out->frame);
	free(out);
}

void rf_out_abandon(struct rf_out *out)
{
	if (!out)
		return;
	rf_tempfile_abandon(&out->file);
	free_out(out);
}

static enum rf_code no_memory(const struct rf_out *out, struct rf_err *e)
{
	return rf_fail(e, RF_ENOMEM, "%s: out of memory (message %llu)", out->file.name,
	               (unsigned long long)out->seq);
}

/* Compresses msg and writes it. */
static enum rf_code write_message(struct rf_out *out, struct rf_err *e)
{
	size_t bound, n;

	if (out->msg.failed)
		return no_memory(out, e);
	if (out->msg.n > out->most)
		return rf_fail(e, RF_EDATA,
		               "%s: record %llu would have %zu bytes, more than the limit of %llu (raise "
		               "--max-record, also of the programs that read the stream, or use shorter "
		               "sequences or fewer rollouts)",
		               out->file.name, (unsigned long long)out->seq, out->msg.n,
		               (unsigned long long)out->most);
	bound = ZSTD_compressBound(out->msg.n);
	if (bound > out->frame_cap) {
		free(out->frame);
		out->frame_cap = 0;
		if (!(out->frame = malloc(bound)))
			return no_memory(out, e);
		out->frame_cap = bound;
	}
	n = ZSTD_compress2(out->zstd, out->frame, out->frame_cap, out->msg.p, out->msg.n);
	if (ZSTD_isError(n))
		return rf_fail(e, RF_ENOMEM, "%s: out of memory (message %llu; zstd: %s)", out->file.name,
		               (unsigned long long)out->seq, ZSTD_getErrorName(n));
	XXH64_update(out->hash, out->msg.p, out->msg.n);
	out->seq++;
	return rf_tempfile_write(&out->file, out->frame, n, e);
}

enum rf_code rf_out_open_messages(struct rf_out **to, const char *path, struct rf_err *e)
{
	struct rf_out *out = calloc(1, sizeof *out);
	enum rf_code rc;

	*to = NULL;
	if (!out)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	out->file.fd = -1;
	out->most = RF_MAX_RECORD;
	out->zstd = ZSTD_createCCtx();
	out->hash = XXH64_createState();
	if (!out->zstd || !out->hash) {
		free_out(out);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	XXH64_reset(out->hash, 0);
	ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_contentSizeFlag, 1);
	ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_checksumFlag, 1);
	if ((rc = rf_tempfile_open(&out->file, path, NULL, e)) != RF_OK) {
		free_out(out);
		return rc;
	}
	if (isatty(out->file.fd)) {
		rf_fail(e, RF_EUSAGE, "%s: is a terminal, and a stream is binary: use -o, a pipe, or rf-dump",
		        out->file.name);
		rf_out_abandon(out);
		return RF_EUSAGE;
	}
	*to = out;
	return RF_OK;
}

enum rf_code rf_out_open(struct rf_out **to, const char *path, const struct rf_head *head, struct rf_err *e)
{
	enum rf_code rc = rf_out_open_messages(to, path, e);

	if (rc != RF_OK)
		return rc;
	(*to)->vocab = head->vocab;
	rf_head_encode(&(*to)->msg, head);
	if ((rc = write_message(*to, e)) != RF_OK) {
		rf_out_abandon(*to);
		*to = NULL;
	}
	return rc;
}

void rf_out_limit(struct rf_out *out, uint64_t max_record)
{
	out->most = max_record < UINT32_MAX ? max_record : UINT32_MAX; /* msgpack counts bytes in 32 bits */
}

enum rf_code rf_put(struct rf_out *out, const struct rf_record *rec, struct rf_err *e)
{
	enum rf_code rc = rf_record_check(rec, out->vocab, e);

	if (rc == RF_EDATA) /* the stage computed wrong numbers */
		rc = e->code = RF_ENUMERIC;
	if (rc == RF_OK) {
		out->msg.n = 0;
		rf_record_encode(&out->msg, out->seq, rec);
		if (!out->msg.failed)
			rc = rf_msg_check(out->msg.p, out->msg.n, e);
	}
	if (rc != RF_OK)
		return rf_blame(e, "%s: record %llu", out->file.name, (unsigned long long)out->seq);
	return write_message(out, e);
}

/* Writes the end record. */
static enum rf_code put_end(struct rf_out *out, struct rf_err *e)
{
	struct rf_end end = { out->seq - 1, XXH64_digest(out->hash) };

	out->msg.n = 0;
	rf_end_encode(&out->msg, out->seq, &end);
	return write_message(out, e);
}

/* Closes the output, whose file appears only if rc is RF_OK, and frees it. */
static enum rf_code close_output(struct rf_out *out, enum rf_code rc, struct rf_err *e)
{
	if (rc == RF_OK)
		rc = rf_tempfile_commit(&out->file, NULL, e);
	else
		rf_tempfile_abandon(&out->file);
	free_out(out);
	return rc;
}

enum rf_code rf_out_finish(struct rf_out *out, struct rf_err *e)
{
	return close_output(out, put_end(out, e), e);
}

/* ---- messages as they are ------------------------------------------------------------------ */

enum rf_code rf_put_message(struct rf_out *out, const void *msg, size_t n, struct rf_err *e)
{
	struct rf_end end;
	struct rf_msg m;
	enum rf_code rc = rf_msg_check(msg, n, e);

	if (rc == RF_OK)
		rc = rf_msg_open(&m, msg, n, e);
	if (rc != RF_OK)
		return rc;
	if (out->ended)
		return rf_fail(e, RF_EDATA, "a message follows the end record");
	if ((rc = rf_msg_expect(&m, out->seq, e)) != RF_OK)
		return rc;
	if (m.type == RF_MSG_END) {
		if ((rc = rf_end_decode(&end, m.body, e)) != RF_OK)
			return rc;
		if (end.count != out->seq - 1)
			return rf_fail(e, RF_EDATA, "the end record counts %llu records, but there are %llu",
			               (unsigned long long)end.count, (unsigned long long)out->seq - 1);
		out->ended = true;
		return put_end(out, e);
	}
	out->msg.n = 0;
	rf_buf_add(&out->msg, msg, n);
	return write_message(out, e);
}

enum rf_code rf_out_close_messages(struct rf_out *out, struct rf_err *e)
{
	enum rf_code rc =
		out->ended ? RF_OK : rf_fail(e, RF_EDATA, "%s: the end record is missing", out->file.name);

	return close_output(out, rc, e);
}
