/* frame_in.c -- reads the frames of a stream.
 *
 * The reader follows the block headers of a frame as its bytes arrive, and so finds the frame's end.  It
 * accepts the size that the frame claims only if the blocks can contain that much and --max-record allows
 * it.  Then the frame is decompressed in one piece, and libzstd verifies its checksum.  So memory is bounded
 * by the bytes that arrived and by the limit, and a frame can be skipped without decompressing it. */
#include <stdlib.h>

#include "io/magic.h"
#include "stream/frame_in.h"
#include "stream/wire.h"

enum rf_code rf_frame_in_init(struct rf_frame_in *in, uint64_t max_record, struct rf_err *e)
{
	in->max_record = max_record ? max_record : RF_MAX_RECORD;
	return (in->zstd = ZSTD_createDCtx()) ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");
}

void rf_frame_in_free(struct rf_frame_in *in)
{
	rf_bytes_close(&in->from);
	free(in->msg);
	ZSTD_freeDCtx(in->zstd);
}

static enum rf_code frame_truncated(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "the frame is truncated (the stream was cut, or its writer died)");
}

enum rf_code rf_frame_in_pass_skippable(struct rf_frame_in *in, struct rf_err *e)
{
	enum { HEADER = 8 };
	struct rf_bytes *from = &in->from;
	enum rf_code rc = RF_OK;

	/* waits only for as many bytes as each frame of a stream has */
	while ((rc = rf_bytes_fill(from, 1, e)) == RF_OK && !rf_bytes_fewer(from, 1) &&
	       *rf_bytes_next(from) >> 4 == 5 && (rc = rf_bytes_fill(from, HEADER, e)) == RF_OK &&
	       !rf_bytes_fewer(from, 4) && rf_magic_skippable(rf_bytes_next(from))) {
		const unsigned char *p = rf_bytes_next(from) + 4;
		size_t left;

		if (rf_bytes_fewer(from, HEADER))
			return frame_truncated(e);
		left = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
		rf_bytes_take(from, HEADER);
		while (left && (rc = rf_bytes_fill(from, 1, e)) == RF_OK && !rf_bytes_fewer(from, 1)) {
			size_t n = rf_bytes_left(from) < left ? rf_bytes_left(from) : left;

			rf_bytes_take(from, n);
			left -= n;
		}
		if (rc != RF_OK || left)
			return rc != RF_OK ? rc : frame_truncated(e);
	}
	return rc;
}

/* Reads the header of the next frame, and checks it against the limits. */
static enum rf_code read_frame_header(struct rf_frame_in *in, struct rf_frame *f, struct rf_err *e)
{
	enum rf_code rc = rf_bytes_fill(&in->from, 5, e);
	size_t n;

	if (rc != RF_OK)
		return rc;
	if (rf_bytes_fewer(&in->from, 5))
		return frame_truncated(e);
	n = rf_frame_header_size(rf_bytes_next(&in->from));
	if ((rc = rf_bytes_fill(&in->from, n, e)) != RF_OK)
		return rc;
	if (rf_bytes_fewer(&in->from, n))
		return frame_truncated(e);
	if ((rc = rf_frame_header(f, rf_bytes_next(&in->from), e)) != RF_OK)
		return rc;
	if (f->content > in->max_record)
		return rf_fail(e, RF_EDATA,
		               "the record claims %llu bytes, more than the limit of %llu (raise "
		               "--max-record)",
		               (unsigned long long)f->content, (unsigned long long)in->max_record);
	if (f->window > RF_WINDOW_MAX)
		return rf_fail(e, RF_EDATA, "the frame has a window of %llu bytes, more than 8 MiB",
		               (unsigned long long)f->window);
	return RF_OK;
}

/* Makes a whole frame of *n bytes available in in->from. */
static enum rf_code read_frame(struct rf_frame_in *in, struct rf_frame *f, size_t *n, struct rf_err *e)
{
	enum rf_code rc = read_frame_header(in, f, e);
	uint64_t most = 0;
	struct rf_block b = { 0 };

	*n = f->header;
	while (rc == RF_OK && !b.last) {
		if ((rc = rf_bytes_fill(&in->from, *n + 3, e)) != RF_OK)
			return rc;
		if (rf_bytes_fewer(&in->from, *n + 3))
			return frame_truncated(e);
		if ((rc = rf_block_header(&b, f, rf_bytes_next(&in->from) + *n, e)) != RF_OK)
			return rc;
		*n += 3 + b.wire + (b.last ? 4 : 0);
		most += b.most;
		if (*n > ZSTD_COMPRESSBOUND(in->max_record))
			return rf_fail(e, RF_EDATA,
			               "the frame has more bytes than --max-record allows for a record");
		if ((rc = rf_bytes_fill(&in->from, *n, e)) != RF_OK)
			return rc;
		if (rf_bytes_fewer(&in->from, *n))
			return frame_truncated(e);
	}
	if (rc == RF_OK && f->content > most)
		return rf_fail(e, RF_EDATA, "the record claims %llu bytes, but its blocks hold at most %llu",
		               (unsigned long long)f->content, (unsigned long long)most);
	return rc;
}

enum rf_code rf_frame_in_decompress(struct rf_frame_in *in, const void *frame, size_t n, uint64_t content,
                                    struct rf_err *e)
{
	size_t got;

	if (content > in->msg_cap || !in->msg) {
		size_t cap = content < 4096 ? 4096 : (size_t)content;
		free(in->msg);
		in->msg_cap = 0;
		if (!(in->msg = malloc(cap)))
			return rf_fail(e, RF_ENOMEM, "out of memory (a record of %llu bytes)",
			               (unsigned long long)content);
		in->msg_cap = cap;
	}
	got = ZSTD_decompressDCtx(in->zstd, in->msg, in->msg_cap, frame, n);
	if (ZSTD_isError(got))
		return rf_fail(e, RF_EDATA, "the frame is damaged (%s)", ZSTD_getErrorName(got));
	if (got != content)
		return rf_fail(e, RF_EDATA, "the frame is damaged (it holds %zu bytes, not %llu)", got,
		               (unsigned long long)content);
	in->msg_n = got;
	return RF_OK;
}

enum rf_code rf_frame_in_next(struct rf_frame_in *in, bool first, struct rf_err *e)
{
	struct rf_frame f;
	enum rf_code rc;
	size_t n;

	rc = rf_frame_in_pass_skippable(in, e);
	in->offset = in->from.offset;
	if (rc != RF_OK || (rc = rf_bytes_fill(&in->from, 1, e)) != RF_OK)
		return rc;
	if (rf_bytes_fewer(&in->from, 1) && first)
		return rf_fail(e, RF_EDATA, "the stream is empty");
	if (rf_bytes_fewer(&in->from, 1))
		return rf_fail(e, RF_EDATA,
		               "the end record is missing (the stream is truncated, or its writer died)");
	if ((rc = read_frame(in, &f, &n, e)) != RF_OK)
		return rc;
	if ((rc = rf_frame_in_decompress(in, rf_bytes_next(&in->from), n, f.content, e)) != RF_OK)
		return rc;
	rf_bytes_take(&in->from, n);
	in->size = n;
	return RF_OK;
}

enum rf_code rf_frame_in_pass(struct rf_frame_in *in, struct rf_err *e)
{
	struct rf_block b = { 0 };
	struct rf_frame f;
	bool cut = false;
	enum rf_code rc = read_frame_header(in, &f, e);

	if (rc == RF_OK)
		rc = rf_bytes_pass(&in->from, f.header, &cut, e);
	while (rc == RF_OK && !b.last) {
		if ((rc = rf_bytes_fill(&in->from, 3, e)) != RF_OK)
			return rc;
		if (cut || rf_bytes_fewer(&in->from, 3))
			return frame_truncated(e);
		if ((rc = rf_block_header(&b, &f, rf_bytes_next(&in->from), e)) == RF_OK)
			rc = rf_bytes_pass(&in->from, 3 + b.wire + (b.last ? 4 : 0), &cut, e);
	}
	return rc == RF_OK && cut ? frame_truncated(e) : rc;
}

size_t rf_frame_in_peek(struct rf_frame_in *in, unsigned char *out, size_t size)
{
	/* this decoder needs neither a content size nor a checksum; the window that it may have bounds its
	 * memory */
	ZSTD_DStream *zstd = ZSTD_createDStream();
	ZSTD_outBuffer to = { out, size, 0 };
	struct rf_err unused;

	if (zstd && rf_bytes_fill(&in->from, RF_FRAME_HEADER_MAX + 3 + RF_BLOCK_MAX, &unused) == RF_OK &&
	    !ZSTD_isError(ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, 23))) {
		ZSTD_inBuffer from = { rf_bytes_next(&in->from), rf_bytes_left(&in->from), 0 };
		if (ZSTD_isError(ZSTD_decompressStream(zstd, &to, &from)))
			to.pos = 0;
	}
	ZSTD_freeDStream(zstd);
	return to.pos;
}
