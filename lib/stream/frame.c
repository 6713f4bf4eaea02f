/* frame.c -- parses the headers of a zstd frame and of its blocks (RFC 8878, section 3.1.1).
 *
 * The sizes that a frame claims must be known before its content is read, and its end must be found without
 * decompressing it; the functions of libzstd for that are not part of its stable interface. */
#include "stream/wire.h"

/* Returns the unsigned number in n bytes, least significant first. */
static uint64_t little_endian(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

static const unsigned char dictionary_bytes[4] = { 0, 1, 2, 4 };

/* Returns how many bytes of a header state the content size. */
static size_t content_bytes(unsigned descriptor)
{
	static const unsigned char bytes[4] = { 0, 2, 4, 8 };

	/* a frame of a single segment has at least one byte */
	return descriptor >> 6 == 0 ? descriptor >> 5 & 1 : bytes[descriptor >> 6];
}

size_t rf_frame_header_size(const unsigned char p[5])
{
	bool single = p[4] >> 5 & 1;

	return 5 + (size_t)!single + dictionary_bytes[p[4] & 3] + content_bytes(p[4]);
}

enum rf_code rf_frame_header(struct rf_frame *f, const unsigned char *p, struct rf_err *e)
{
	unsigned d = p[4];
	bool single = d >> 5 & 1;
	size_t n = content_bytes(d);
	uint64_t window;

	if (little_endian(p, 4) != 0xfd2fb528)
		return rf_fail(e, RF_EDATA, "no zstd frame begins here (%02x %02x %02x %02x)", p[0], p[1],
		               p[2], p[3]);
	if (d >> 3 & 1)
		return rf_fail(e, RF_EDATA, "the frame has a reserved bit set");
	if (d & 3)
		return rf_fail(e, RF_EDATA, "the frame needs a dictionary");
	if (!n)
		return rf_fail(e, RF_EDATA,
		               "the zstd frame does not state its content size, which every frame of an rf "
		               "stream does (was the stream compressed again? use the original: each "
		               "record is a frame of its own)");
	if (!(d >> 2 & 1))
		return rf_fail(e, RF_EDATA,
		               "the zstd frame has no checksum, which every frame of an rf stream has");
	f->header = rf_frame_header_size(p);
	f->content = little_endian(p + f->header - n, n) + (n == 2 ? 256 : 0);
	window = single ? f->content : (UINT64_C(1) << (10 + (p[5] >> 3))) / 8 * (8 + (p[5] & 7));
	f->block_max = window < RF_BLOCK_MAX ? window : RF_BLOCK_MAX;
	f->window = window;
	return RF_OK;
}

enum rf_code rf_block_header(struct rf_block *b, const struct rf_frame *f, const unsigned char p[3],
                             struct rf_err *e)
{
	uint32_t h = (uint32_t)little_endian(p, 3), type = h >> 1 & 3;

	b->last = h & 1;
	b->wire = type == 1 ? 1 : h >> 3;
	b->most = type == 2 ? f->block_max : h >> 3;
	if (type == 3 || h >> 3 > f->block_max)
		return rf_fail(e, RF_EDATA, "the frame is damaged (it has an impossible block)");
	return RF_OK;
}
