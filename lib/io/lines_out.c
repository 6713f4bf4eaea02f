/* lines_out.c -- writes text to a temporary file (tempfile.h), as it is or as one zstd frame with a
 * checksum. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "io/file.h"
#include "io/lines_out.h"
#include "io/tempfile.h"

enum { LEVEL = 3, BLOCK = 1 << 17 };

struct rf_lines_out {
	struct rf_tempfile file;
	ZSTD_CCtx *zstd; /* NULL: plain text */
	unsigned char packed[BLOCK];
};

static void free_out(struct rf_lines_out *l)
{
	ZSTD_freeCCtx(l->zstd);
	free(l);
}

static enum rf_code write_packed(struct rf_lines_out *l, const void *data, size_t n, ZSTD_EndDirective how,
                                 struct rf_err *e)
{
	ZSTD_inBuffer in = { data, n, 0 };
	enum rf_code rc = RF_OK;
	size_t left;

	do {
		ZSTD_outBuffer out = { l->packed, sizeof l->packed, 0 };

		left = ZSTD_compressStream2(l->zstd, &out, &in, how);
		if (ZSTD_isError(left))
			return rf_fail(e, RF_ENOMEM, "%s: zstd: %s", l->file.name, ZSTD_getErrorName(left));
		rc = rf_tempfile_write(&l->file, l->packed, out.pos, e);
	} while (rc == RF_OK && (in.pos < in.size || (how == ZSTD_e_end && left)));
	return rc;
}

enum rf_code rf_lines_out_open(struct rf_lines_out **to, const char *path, struct rf_err *e)
{
	bool packed = path && rf_file_ends(path, strlen(path), ".zst");
	struct rf_lines_out *l = calloc(1, sizeof *l);
	enum rf_code rc;

	*to = NULL;
	if (!l || (packed && !(l->zstd = ZSTD_createCCtx()))) {
		free(l);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	if (packed) {
		ZSTD_CCtx_setParameter(l->zstd, ZSTD_c_compressionLevel, LEVEL);
		ZSTD_CCtx_setParameter(l->zstd, ZSTD_c_checksumFlag, 1);
	}
	if ((rc = rf_tempfile_open(&l->file, path, NULL, e)) != RF_OK) {
		free_out(l);
		return rc;
	}
	*to = l;
	return RF_OK;
}

enum rf_code rf_lines_out_put(struct rf_lines_out *l, const void *data, size_t n, struct rf_err *e)
{
	return l->zstd ? write_packed(l, data, n, ZSTD_e_continue, e)
	               : rf_tempfile_write(&l->file, data, n, e);
}

enum rf_code rf_lines_out_finish(struct rf_lines_out *l, struct rf_err *e)
{
	enum rf_code rc = l->zstd ? write_packed(l, NULL, 0, ZSTD_e_end, e) : RF_OK;

	if (rc == RF_OK)
		rc = rf_tempfile_commit(&l->file, NULL, e);
	else
		rf_tempfile_abandon(&l->file);
	free_out(l);
	return rc;
}
