/* tensors.h -- reads safetensors files with the checks of the reference implementation, and writes them whole
 * or not at all.
 *
 * The header has at most 16 MiB; tensors cover the data without gaps or overlaps; every product of sizes is
 * checked for overflow; no key appears twice. */
#ifndef RF_TENSORS_H
#define RF_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* RF_OTHER: a type whose values are never read, such as F8_E4M3; its tensors are copied as bytes. */
enum rf_dtype {
	RF_F32,
	RF_F16,
	RF_BF16,
	RF_F64,
	RF_I8,
	RF_I16,
	RF_I32,
	RF_I64,
	RF_U8,
	RF_U16,
	RF_U32,
	RF_U64,
	RF_BOOL,
	RF_OTHER
};
enum { RF_MAX_DIMS = 8 };

/* How to access memory that host code cannot, such as the memory of a device: get copies from it to the host,
 * put from the host to it.  get NULL: it does not have the bytes that were written. */
struct rf_transfer {
	void *arg;
	enum rf_code (*get)(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e);
	enum rf_code (*put)(void *arg, void *to, const void *from, size_t bytes, struct rf_err *e);
	size_t block; /* a good number of bytes for one copy, a multiple of 8 */
};

struct rf_tensor {
	const char *name;
	enum rf_dtype dtype;
	const char *type; /* for RF_OTHER: the name of the type in the file; else NULL */
	int ndim;
	int64_t shape[RF_MAX_DIMS];
	uint64_t count; /* elements */
	uint64_t bytes;
	const void *data; /* in the caller's memory, unaligned: copy with memcpy; NULL: in a file */
	const int *fd;    /* the file, for rf_tensor_read(); NULL: none */
	uint64_t at;      /* byte offset in the file */
	const struct rf_transfer *transfer; /* for data that is not in host memory; NULL: the data is */
};

/* A disagreement between an index and its shards about one tensor. */
enum rf_shard_fault {
	RF_SHARD_NO_TENSOR, /* the index names the tensor, but the file does not have it */
	RF_SHARD_NO_FILE,   /* the index names the tensor, but the file does not exist */
	RF_SHARD_UNLISTED,  /* the file has the tensor, but the index does not place it there */
	RF_SHARD_TWICE,     /* the file has the tensor, and so has another shard */
};
struct rf_misplaced {
	const char *name, *file;
	enum rf_shard_fault fault;
};

/* The tensors of one file, or of the shards that DIR/model.safetensors.index.json names, sorted by name
 * (strcmp), each name once. */
struct rf_tensors {
	struct rf_tensor *t;
	int n;
	/* disagreements between the index and the shards, for the caller, who knows the model's tensors.  If
	   two shards have a tensor, t holds the one that the index places, or else either */
	struct rf_misplaced *misplaced;
	int misplaced_count;
	bool index_ignored; /* there is an index next to model.safetensors, which was read instead */
	void *impl;
};

const char *rf_dtype_name(enum rf_dtype t); /* as in the file: "F32" ...; RF_OTHER: "?" */
int rf_dtype_size(enum rf_dtype t);         /* RF_OTHER: 0 */
/* Returns the name of a tensor's type as the file has it. */
const char *rf_tensor_type(const struct rf_tensor *t);

/* Parses a whole file in memory (for fuzzing and tests); *out points into buf. */
enum rf_code rf_tensors_parse(struct rf_tensors *out, const void *buf, size_t n, struct rf_err *e);
enum rf_code rf_tensors_open(struct rf_tensors *out, const char *path, struct rf_err *e);
/* Opens DIR/model.safetensors or else the shards in its index, where names must be plain file names.  A shard
 * that does not exist, and tensors that are not where the index says, are no errors: they are in `misplaced`.
 * Errors: RF_ENOINPUT: there is neither file; RF_EMODEL: the index or a shard is malformed. */
enum rf_code rf_tensors_open_dir(struct rf_tensors *out, const char *dir, struct rf_err *e);
void rf_tensors_close(struct rf_tensors *t);
const struct rf_tensor *rf_tensors_find(const struct rf_tensors *t, const char *name);
/* Returns whether a shard has a tensor of this name, or the index names one. */
bool rf_tensors_named(const struct rf_tensors *t, const char *name);
/* Stores RF_EMODEL and the sentence about t->misplaced[i] in e. */
enum rf_code rf_tensors_refuse(const struct rf_tensors *t, int i, struct rf_err *e);
/* Returns the value of a key in __metadata__ of the (first) file, or NULL. */
const char *rf_tensors_meta(const struct rf_tensors *t, const char *key);
/* Reads n bytes of the tensor, beginning with byte `from`.  Errors: RF_EIO, also if the file has become
 * shorter since it was opened. */
enum rf_code rf_tensor_read(const struct rf_tensor *t, uint64_t from, void *out, size_t n, struct rf_err *e);
/* Converts n F32, F16, BF16 or F64 elements, beginning with element `first`, to float32.  Errors: RF_EMODEL:
 * another dtype. */
enum rf_code rf_tensor_f32_part(const struct rf_tensor *t, uint64_t first, size_t n, float *out,
                                struct rf_err *e);

/* Computes XXH64 (seed 0), as 16 hex digits, over all tensors in the given order (by name): name, dtype,
 * shape in decimal ("40,16"), bytes.  If arch_of is not NULL: over arch_of, and then over the tensors without
 * their bytes. */
enum rf_code rf_tensors_hash(const struct rf_tensor *t, int n, const char *arch_of, char hex[17],
                             struct rf_err *e);

/* Writes and fsyncs a file with __metadata__ {"format":"pt"} and the pairs in `extra` (key, value, key,
 * value, NULL; may be NULL).  The tensors must be sorted by name, and path must not exist.  After a failure
 * the file is gone. */
enum rf_code rf_tensors_write(const char *path, const struct rf_tensor *t, int n, const char *const *extra,
                              struct rf_err *e);
/* Both write into a file that the caller creates and finishes.  rf_tensors_put() writes the whole file,
 * rf_tensors_begin() only the header; *size: the bytes of the whole file. */
struct rf_tempfile;
enum rf_code rf_tensors_begin(struct rf_tempfile *f, const struct rf_tensor *t, int n,
                              const char *const *extra, uint64_t *size, struct rf_err *e);
enum rf_code rf_tensors_put(struct rf_tempfile *f, const struct rf_tensor *t, int n, const char *const *extra,
                            struct rf_err *e);

#endif
