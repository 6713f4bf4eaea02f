/* tensors.h -- safetensors files: read with the checks of the reference implementation, written
 * whole or not at all.
 *
 * Header <= 16 MiB; tensors tile the buffer exactly; every product is checked; no duplicate keys. */
#ifndef RF_TENSORS_H
#define RF_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum rf_dtype { RF_F32, RF_F16, RF_BF16, RF_F64, RF_I8, RF_I16, RF_I32, RF_I64, RF_U8, RF_U16, RF_U32, RF_U64,
	RF_BOOL };
enum { RF_MAX_DIMS = 8 };

/* How to reach memory that host code cannot, a device's: copies between it and the host's. */
struct rf_transfer {
	void *arg;
	enum rf_code (*get)(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e);
	enum rf_code (*put)(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e);
};

struct rf_tensor {
	const char *name;
	enum rf_dtype dtype;
	int ndim;
	int64_t shape[RF_MAX_DIMS];
	uint64_t count;           /* elements */
	uint64_t bytes;
	const void *data;         /* in the caller's memory, unaligned: memcpy out of it; NULL: in a file */
	const int *fd;            /* that file, for rf_tensor_read(); NULL: there is none */
	uint64_t at;              /* its place in that file */
	const struct rf_transfer *reach; /* what reads data that is not in the host's memory; NULL: it is */
};

/* One file, or the shards that DIR/model.safetensors.index.json names: a table in order of name (strcmp). */
struct rf_tensors {
	struct rf_tensor *t;
	int n;
	void *impl;
};

const char *rf_dtype_name(enum rf_dtype t);     /* "F32" ... as in the file */
int rf_dtype_size(enum rf_dtype t);

/* Parses a whole file in memory (for fuzzing and tests); *out points into buf. */
enum rf_code rf_tensors_parse(struct rf_tensors *out, const void *buf, size_t n, struct rf_err *e);
enum rf_code rf_tensors_open(struct rf_tensors *out, const char *path, struct rf_err *e);
/* DIR/model.safetensors, or the sharded form by its index (names in it are plain file names). */
enum rf_code rf_tensors_open_dir(struct rf_tensors *out, const char *dir, struct rf_err *e);
void rf_tensors_close(struct rf_tensors *t);
const struct rf_tensor *rf_tensors_find(const struct rf_tensors *t, const char *name);
/* What __metadata__ of the (first) file says, or NULL. */
const char *rf_tensors_meta(const struct rf_tensors *t, const char *key);
/* n bytes of the tensor, from byte `from` on, read then: a file that was cut short since it was
 * opened is RF_EIO. */
enum rf_code rf_tensor_read(const struct rf_tensor *t, uint64_t from, void *out, size_t n, struct rf_err *e);
/* F32, F16, BF16, F64 elements as float32; another dtype is RF_EMODEL.  The second: n of them, from element
 * `first` on. */
enum rf_code rf_tensor_f32(const struct rf_tensor *t, float *out, struct rf_err *e);
enum rf_code rf_tensor_f32_part(const struct rf_tensor *t, uint64_t first, size_t n, float *out,
                                struct rf_err *e);

/* XXH64 (seed 0), 16 hex digits, over all tensors in order of name: name, dtype, shape in decimal ("40,16")
 * and bytes; with arch_of != NULL over arch_of first, then the same without the bytes. */
enum rf_code rf_tensors_hash(const struct rf_tensor *t, int n, const char *arch_of, char hex[17],
                             struct rf_err *e);

/* Writes a file with __metadata__ {"format":"pt"} and the given extra pairs (key, value, key,
 * value, NULL; may be NULL); the tensors must be in order of name.  fsynced; on failure the file is
 * gone.  path must not exist. */
enum rf_code rf_tensors_write(const char *path, const struct rf_tensor *t, int n, const char *const *extra,
                              struct rf_err *e);
/* The same into a file that the caller creates and finishes. */
struct rf_tempfile;
enum rf_code rf_tensors_put(struct rf_tempfile *f, const struct rf_tensor *t, int n, const char *const *extra,
                            struct rf_err *e);

#endif
