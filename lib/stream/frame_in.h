/* frame_in.h -- reads the zstd frames of a stream, one message in each. */
#ifndef RF_FRAME_IN_H
#define RF_FRAME_IN_H

#include <zstd.h>

#include "stream/bytes.h"

struct rf_frame_in {
	struct rf_bytes from;
	uint64_t max_record; /* largest number of decompressed bytes in a frame */
	size_t size;         /* length of the frame read last, which ends where `from` is */
	uint64_t offset;     /* offset of the frame read last, or of the next one if that failed */
	ZSTD_DCtx *zstd;
	unsigned char *msg; /* message in the frame read last */
	size_t msg_n, msg_cap;
};

/* Prepares to read frames of at most max_record bytes (0: RF_MAX_RECORD).  The caller opens in->from.  To be
 * freed in any case.  Errors: RF_ENOMEM. */
enum rf_code rf_frame_in_init(struct rf_frame_in *in, uint64_t max_record, struct rf_err *e);
/* Frees the reader and closes in->from. */
void rf_frame_in_free(struct rf_frame_in *in);

/* Reads and decompresses the next frame to in->msg.  first: whether it is the first frame of the stream.
 * Errors: RF_EDATA: no valid frame follows; RF_EIO, RF_ENOMEM. */
enum rf_code rf_frame_in_next(struct rf_frame_in *in, bool first, struct rf_err *e);
/* Decompresses a frame of n bytes to in->msg.  content: the size that its header states. */
enum rf_code rf_frame_in_decompress(struct rf_frame_in *in, const void *frame, size_t n, uint64_t content,
                                    struct rf_err *e);
/* Moves past the next frame of a regular file without decompressing it. */
enum rf_code rf_frame_in_pass(struct rf_frame_in *in, struct rf_err *e);
/* Moves past skippable frames, which hold no message.  Other tools put them before, between and after the
 * frames of a stream. */
enum rf_code rf_frame_in_pass_skippable(struct rf_frame_in *in, struct rf_err *e);
/* Decompresses the start of a zstd frame that a stream cannot have, for rf_sniff().  Returns how many bytes
 * it has; 0 if it cannot be read. */
size_t rf_frame_in_peek(struct rf_frame_in *in, unsigned char *out, size_t size);

#endif
