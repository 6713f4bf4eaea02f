/* tensors.c -- safetensors.  A file is 8 bytes with the length of the header, the header, which is a JSON
 * object {name: {dtype, shape, data_offsets}}, and the data.  The rules are those of the reference
 * implementation (huggingface/safetensors, SafeTensors::deserialize) or stricter, so every file that is
 * accepted here is accepted there, apart from types that neither knows.
 *
 * Published files hold tensors and types that no program here reads.  So a file is not refused for a type, or
 * for an index that disagrees with its shards.  The caller that reads a tensor's values checks its type, and
 * the caller that knows the model's tensors checks its place. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/half.h"
#include "ckpt/tensors.h"
#include "io/file.h"
#include "io/json.h"
#include "io/tempfile.h"

enum { MAX_SHARDS = 1024, BLOCK = 1 << 16 };

static const struct {
	const char *name;
	int size;
} dtypes[] = {
	[RF_F32] = { "F32", 4 },   [RF_F16] = { "F16", 2 }, [RF_BF16] = { "BF16", 2 },
	[RF_F64] = { "F64", 8 },   [RF_I8] = { "I8", 1 },   [RF_I16] = { "I16", 2 },
	[RF_I32] = { "I32", 4 },   [RF_I64] = { "I64", 8 }, [RF_U8] = { "U8", 1 },
	[RF_U16] = { "U16", 2 },   [RF_U32] = { "U32", 4 }, [RF_U64] = { "U64", 8 },
	[RF_BOOL] = { "BOOL", 1 }, [RF_OTHER] = { "?", 0 },
};

/* Types of the format whose values are not read here, so that their sizes can be checked. */
static const struct {
	const char *name;
	unsigned bits;
} unread[] = {
	{ "F4", 4 },      { "F6_E2M3", 6 },     { "F6_E3M2", 6 },     { "F8_E5M2", 8 }, { "F8_E4M3", 8 },
	{ "F8_E8M0", 8 }, { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "C64", 64 },
};

/* One file.  The names of its tensors point into its header. */
struct shard {
	json_t *header;
	const char *file; /* its name in the index */
	int fd;
	const char *bytes; /* the file in memory, if there is no fd */
};

struct files {
	json_t *index; /* NULL: there is only one file */
	json_t *order; /* the files of the index, each once: {file: true} */
	int n;
	struct shard s[];
};

const char *rf_dtype_name(enum rf_dtype t) { return dtypes[t].name; }

int rf_dtype_size(enum rf_dtype t) { return dtypes[t].size; }

const char *rf_tensor_type(const struct rf_tensor *t) { return t->type ? t->type : dtypes[t->dtype].name; }

/* ---- the header ---------------------------------------------------------------------------- */

static bool get_size(const json_t *v, uint64_t *to)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*to = (uint64_t)json_integer_value(v);
	return true;
}

/* Sets t->dtype, and t->type for a type whose values are not read. */
static void read_type(struct rf_tensor *t, const char *dtype)
{
	int i = 0;

	while (i < RF_OTHER && strcmp(dtype, dtypes[i].name))
		i++;
	t->dtype = (enum rf_dtype)i;
	t->type = i == RF_OTHER ? dtype : NULL;
}

/* Sets t->bytes to the bytes that shape and type need, or to `given` for a type whose size is not known. */
static enum rf_code need_bytes(struct rf_tensor *t, uint64_t given, const char *q, struct rf_err *e)
{
	uint64_t bits = 8 * (uint64_t)rf_dtype_size(t->dtype);

	for (size_t i = 0; t->type && i < sizeof unread / sizeof *unread; i++)
		if (!strcmp(t->type, unread[i].name))
			bits = unread[i].bits;
	t->bytes = given;
	if (!bits)
		return RF_OK;
	if (bits % 8 == 0 && !__builtin_mul_overflow(t->count, bits / 8, &t->bytes))
		return RF_OK;
	if (bits % 8 == 0 || __builtin_mul_overflow(t->count, bits, &t->bytes))
		return rf_fail(e, RF_EMODEL, "'%s' has more bytes than 64 bits can count", q);
	if (t->bytes % 8)
		return rf_fail(e, RF_EMODEL, "'%s' ends in the middle of a byte", q);
	t->bytes /= 8;
	return RF_OK;
}

/* Reads one entry of the header.  room: the bytes of the file's data. */
static enum rf_code read_entry(struct rf_tensor *t, const char *name, const json_t *v, uint64_t room,
                               struct rf_err *e)
{
	const char *dtype = json_string_value(json_object_get(v, "dtype"));
	const json_t *shape = json_object_get(v, "shape"), *offsets = json_object_get(v, "data_offsets");
	uint64_t begin, end, dim;
	enum rf_code rc;
	char q[120];
	size_t i;

	*t = (struct rf_tensor){ .name = name, .count = 1 };
	rf_quote(q, sizeof q, name, strlen(name));
	if (!dtype || !json_is_array(shape) || !json_is_array(offsets) || json_object_size(v) != 3)
		return rf_fail(e, RF_EMODEL,
		               "'%s' does not have exactly the keys dtype, shape and data_offsets", q);
	read_type(t, dtype);

	if (json_array_size(shape) > RF_MAX_DIMS)
		return rf_fail(e, RF_EMODEL, "'%s' has %zu dimensions, more than the limit of %d", q,
		               json_array_size(shape), RF_MAX_DIMS);
	for (i = 0; i < json_array_size(shape); i++) {
		if (!get_size(json_array_get(shape, i), &dim))
			return rf_fail(e, RF_EMODEL, "'%s': its shape is not made of whole numbers", q);
		if (__builtin_mul_overflow(t->count, dim, &t->count))
			return rf_fail(e, RF_EMODEL, "'%s' has more elements than 64 bits can count", q);
		t->shape[t->ndim++] = (int64_t)dim;
	}
	if (json_array_size(offsets) != 2 || !get_size(json_array_get(offsets, 0), &begin) ||
	    !get_size(json_array_get(offsets, 1), &end))
		return rf_fail(e, RF_EMODEL, "'%s': data_offsets are not two whole numbers", q);
	if (begin > end || end > room)
		return rf_fail(e, RF_EMODEL, "'%s' claims bytes %llu to %llu of %llu", q,
		               (unsigned long long)begin, (unsigned long long)end, (unsigned long long)room);
	if ((rc = need_bytes(t, end - begin, q, e)) != RF_OK)
		return rc;
	if (end - begin != t->bytes)
		return rf_fail(e, RF_EMODEL, "'%s' has %llu bytes, but its shape and dtype need %llu", q,
		               (unsigned long long)(end - begin), (unsigned long long)t->bytes);
	t->at = begin;
	return RF_OK;
}

static int by_place(const void *a, const void *b)
{
	const struct rf_tensor *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

/* Returns whether a header has a number with a minus sign, which no valid header has.  The reference
 * implementation reads "-0" as a float, and jansson as an integer. */
static bool has_minus(const char *s, size_t n)
{
	bool in = false;

	for (size_t i = 0; i < n; i++)
		if (in && s[i] == '\\')
			i++;
		else if (s[i] == '"')
			in = !in;
		else if (!in && s[i] == '-')
			return true;
	return false;
}

/* Appends the tensors of one file.  text: its header; its data begin at byte `base` and have `room` bytes. */
static enum rf_code read_header(struct rf_tensors *out, struct shard *s, const char *text, size_t n,
                                uint64_t base, uint64_t room, struct rf_err *e)
{
	struct rf_tensor *t;
	const char *key, *k;
	json_t *v, *pair;
	enum rf_code rc;
	uint64_t place = 0;
	int first = out->n;
	char q[120];

	if (!n || *text != '{')
		return rf_fail(e, RF_EMODEL, "the header does not begin with {");
	if (has_minus(text, n))
		return rf_fail(e, RF_EMODEL, "the header has a negative number");
	if ((rc = rf_json_parse(&s->header, text, n, 3, e)) != RF_OK)
		return rf_blame(e, "header");
	if (!(t = realloc(out->t, ((size_t)out->n + json_object_size(s->header) + 1) * sizeof *t)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	out->t = t;
	json_object_foreach (s->header, key, v) {
		if (strcmp(key, "__metadata__")) {
			if ((rc = read_entry(&out->t[out->n], key, v, room, e)) != RF_OK)
				return rc;
			out->t[out->n++].fd = s->fd < 0 ? NULL : &s->fd;
			continue;
		}
		if (!json_is_object(v) && !json_is_null(v))
			return rf_fail(e, RF_EMODEL, "__metadata__ is not an object");
		json_object_foreach (v, k, pair)
			if (!json_is_string(pair))
				return rf_fail(e, RF_EMODEL, "__metadata__ has a value that is not a string");
	}

	qsort(out->t + first, (size_t)(out->n - first), sizeof *t, by_place);
	for (t = out->t + first; t < out->t + out->n; t++) {
		if (t->at != place) {
			rf_quote(q, sizeof q, t->name, strlen(t->name));
			return rf_fail(e, RF_EMODEL,
			               "'%s' begins at byte %llu of the data, but the tensor before it ends "
			               "at %llu",
			               q, (unsigned long long)t->at, (unsigned long long)place);
		}
		place += t->bytes;
		t->at += base;
		t->data = s->bytes ? s->bytes + t->at : NULL;
	}
	if (place != room)
		return rf_fail(e, RF_EMODEL, "the tensors end at byte %llu of %llu",
		               (unsigned long long)place, (unsigned long long)room);
	return RF_OK;
}

/* Reads the length of the header from the first 8 bytes of a file that has `size` bytes. */
static enum rf_code header_length(const unsigned char b[8], uint64_t size, uint64_t *n, struct rf_err *e)
{
	*n = 0;
	for (int i = 7; i >= 0; i--)
		*n = *n << 8 | b[i];
	if (*n > RF_MOST_HEADER)
		return rf_fail(e, RF_EMODEL,
		               "not a safetensors file, or its header of %llu bytes is over the limit of "
		               "%d",
		               (unsigned long long)*n, RF_MOST_HEADER);
	if (*n > size - 8)
		return rf_fail(e, RF_EMODEL, "truncated: a file of %llu bytes cannot hold a header of %llu",
		               (unsigned long long)size, (unsigned long long)*n);
	return RF_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

static struct files *add_files(struct rf_tensors *out, int n)
{
	struct files *f = calloc(1, sizeof *f + (size_t)n * sizeof f->s[0]);

	*out = (struct rf_tensors){ .impl = f };
	if (f)
		f->n = n;
	for (int i = 0; f && i < n; i++)
		f->s[i].fd = -1;
	return f;
}

enum rf_code rf_tensors_parse(struct rf_tensors *out, const void *buf, size_t n, struct rf_err *e)
{
	struct files *f = add_files(out, 1);
	enum rf_code rc;
	uint64_t len;

	if (!f)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	f->s[0].bytes = buf;
	if (n < 8)
		rc = rf_fail(e, RF_EMODEL, "truncated: the file has only %zu bytes", n);
	else if ((rc = header_length(buf, n, &len, e)) == RF_OK)
		rc = read_header(out, &f->s[0], (const char *)buf + 8, (size_t)len, 8 + len, n - 8 - len, e);
	if (rc == RF_OK)
		qsort(out->t, (size_t)out->n, sizeof *out->t, by_name);
	else
		rf_tensors_close(out);
	return rc;
}

static enum rf_code open_shard(struct rf_tensors *out, struct shard *s, const char *path, struct rf_err *e)
{
	unsigned char b[8];
	char *text = NULL;
	enum rf_code rc;
	uint64_t size, n;

	if ((rc = rf_file_open(path, &s->fd, &size, e)) != RF_OK)
		return rc;
	if (size < 8 || size > SIZE_MAX / 2)
		rc = rf_fail(e, RF_EMODEL, "truncated: the file has only %llu bytes",
		             (unsigned long long)size);
	else if ((rc = rf_file_pread(s->fd, b, 8, 0, e)) != RF_OK ||
	         (rc = header_length(b, size, &n, e)) != RF_OK)
		;
	else if (!(text = malloc((size_t)n + 1)))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	else if ((rc = rf_file_pread(s->fd, text, (size_t)n, 8, e)) == RF_OK)
		rc = read_header(out, s, text, (size_t)n, 8 + n, size - 8 - n, e);
	free(text);
	return rc == RF_OK ? RF_OK : rf_blame(e, "%s", path);
}

enum rf_code rf_tensors_open(struct rf_tensors *out, const char *path, struct rf_err *e)
{
	struct files *f = add_files(out, 1);
	enum rf_code rc;

	if (!f)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = open_shard(out, &f->s[0], path, e)) == RF_OK)
		qsort(out->t, (size_t)out->n, sizeof *out->t, by_name);
	else
		rf_tensors_close(out);
	return rc;
}

static bool add_misplaced(struct rf_tensors *out, const char *name, const char *file,
                          enum rf_shard_fault fault)
{
	const size_t n = (size_t)out->misplaced_count;
	struct rf_misplaced *more = out->misplaced;

	if (n % 64 == 0 && !(more = realloc(more, (n + 64) * sizeof *more)))
		return false;
	out->misplaced = more;
	out->misplaced[out->misplaced_count++] = (struct rf_misplaced){ name, file, fault };
	return true;
}

static const char *file_of(const struct rf_tensor *t)
{
	return ((const struct shard *)((const char *)t->fd - offsetof(struct shard, fd)))->file;
}

static const char *indexed_file(const json_t *map, const char *name)
{
	return json_string_value(json_object_get(map, name));
}

/* Sorts the tensors of all shards, leaves each name once, and notes the disagreements with the index. */
static bool settle_places(struct rf_tensors *out, const json_t *map)
{
	const char *name, *file;
	bool fits = true;
	int n = 0;
	json_t *v;

	qsort(out->t, (size_t)out->n, sizeof *out->t, by_name);
	for (int i = 0; i < out->n; i++) {
		struct rf_tensor *t = &out->t[i], *kept = n ? &out->t[n - 1] : NULL;

		if (!kept || strcmp(kept->name, t->name)) {
			out->t[n++] = *t;
			continue;
		}
		if ((file = indexed_file(map, t->name)) && !strcmp(file, file_of(t))) {
			const struct rf_tensor listed = *t;

			*t = *kept;
			*kept = listed;
		}
		fits = fits && add_misplaced(out, t->name, file_of(t), RF_SHARD_TWICE);
	}
	out->n = n;
	for (int i = 0; i < out->n; i++)
		if (!(file = indexed_file(map, out->t[i].name)) || strcmp(file, file_of(&out->t[i])))
			fits = fits &&
			       add_misplaced(out, out->t[i].name, file_of(&out->t[i]), RF_SHARD_UNLISTED);
	json_object_foreach ((json_t *)(uintptr_t)map, name, v) {
		const struct files *f = out->impl;
		bool there = false;

		if (rf_tensors_find(out, name))
			continue;
		for (int i = 0; i < f->n && !there; i++)
			there = f->s[i].header && !strcmp(f->s[i].file, json_string_value(v));
		fits = fits && add_misplaced(out, name, json_string_value(v),
		                             there ? RF_SHARD_NO_TENSOR : RF_SHARD_NO_FILE);
	}
	return fits;
}

/* Returns the shards that weight_map {tensor: file} names, each once: {file: true}; NULL: failure. */
static json_t *list_shards(const json_t *map, struct rf_err *e)
{
	json_t *order = json_object(), *v;
	const char *name;
	char q[120];

	if (!order)
		rf_fail(e, RF_ENOMEM, "out of memory");
	json_object_foreach ((json_t *)(uintptr_t)map, name, v) {
		if (order && (!json_is_string(v) || !rf_file_plain(json_string_value(v)))) {
			rf_fail(e, RF_EMODEL, "the file of '%s' is not a plain file name",
			        rf_quote(q, sizeof q, name, strlen(name)));
			json_decref(order);
			return NULL;
		}
		json_object_set_new(order, json_string_value(v), json_true());
	}
	if (json_object_size(order) > MAX_SHARDS) {
		rf_fail(e, RF_EMODEL, "the index lists %zu shards, more than the limit of %d",
		        json_object_size(order), MAX_SHARDS);
		json_decref(order);
		order = NULL;
	}
	return order;
}

/* Opens the shards of an index, whose names stay in use.  A shard that does not exist has no header. */
static enum rf_code open_shards(struct rf_tensors *out, const char *dir, json_t *index, struct rf_err *e)
{
	const json_t *map = json_object_get(index, "weight_map");
	json_t *order, *v;
	const char *file;
	char path[4096];
	struct files *f;
	enum rf_code rc = RF_OK;
	int i = 0;

	if (!json_object_size(map))
		return rf_fail(e, RF_EMODEL, "the index has no weight_map");
	if (!(order = list_shards(map, e)))
		return e ? e->code : RF_EMODEL;
	if (!(f = add_files(out, (int)json_object_size(order)))) {
		json_decref(order);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	f->order = order;
	f->index = json_incref(index);
	json_object_foreach (order, file, v) {
		f->s[i].file = file;
		if ((rc = rf_file_join(path, dir, file, e)) == RF_OK &&
		    (rc = open_shard(out, &f->s[i++], path, e)) == RF_ENOINPUT)
			rc = RF_OK;
		if (rc != RF_OK)
			return rc;
	}
	return settle_places(out, map) ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");
}

enum rf_code rf_tensors_open_dir(struct rf_tensors *out, const char *dir, struct rf_err *e)
{
	char path[4096], index[4096], *text;
	json_t *root;
	enum rf_code rc;
	size_t n;

	*out = (struct rf_tensors){ .t = NULL };
	if ((rc = rf_file_join(path, dir, "model.safetensors", e)) != RF_OK ||
	    (rc = rf_file_join(index, dir, "model.safetensors.index.json", e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_open(out, path, e)) == RF_OK)
		out->index_ignored = access(index, F_OK) == 0;
	if (rc != RF_ENOINPUT)
		return rc;
	if ((rc = rf_file_read(index, RF_MOST_HEADER, &text, &n, e)) == RF_ENOINPUT)
		return rf_fail(e, RF_ENOINPUT,
		               "%s: neither model.safetensors nor model.safetensors.index.json exists here",
		               dir);
	if (rc != RF_OK)
		return rc;
	rc = rf_json_parse(&root, text, n, 8, e);
	free(text);
	if (rc == RF_OK) {
		rc = open_shards(out, dir, root, e);
		json_decref(root);
	}
	if (rc != RF_OK) {
		rf_tensors_close(out);
		rf_blame(e, "%s", index);
	}
	return rc;
}

enum rf_code rf_tensors_refuse(const struct rf_tensors *t, int i, struct rf_err *e)
{
	static const char *const what[] = {
		[RF_SHARD_NO_TENSOR] = "the index places it in %s, which does not have it",
		[RF_SHARD_NO_FILE] = "the index places it in %s, which does not exist",
		[RF_SHARD_UNLISTED] = "it is in %s, where the index does not place it",
		[RF_SHARD_TWICE] = "it is in %s and in another shard: a checkpoint has each tensor once",
	};
	const struct rf_misplaced *m = &t->misplaced[i];
	char q[120], file[300], why[400];

	rf_quote(q, sizeof q, m->name, strlen(m->name));
	snprintf(why, sizeof why, what[m->fault], rf_quote(file, sizeof file, m->file, strlen(m->file)));
	return rf_fail(e, RF_EMODEL, "'%s': %s", q, why);
}

void rf_tensors_close(struct rf_tensors *t)
{
	struct files *f = t->impl;

	for (int i = 0; f && i < f->n; i++) {
		json_decref(f->s[i].header);
		if (f->s[i].fd >= 0)
			close(f->s[i].fd);
	}
	if (f) {
		json_decref(f->index);
		json_decref(f->order);
	}
	free(f);
	free(t->t);
	free(t->misplaced);
	*t = (struct rf_tensors){ .t = NULL };
}

const struct rf_tensor *rf_tensors_find(const struct rf_tensors *t, const char *name)
{
	struct rf_tensor key = { .name = name };

	return t->n ? bsearch(&key, t->t, (size_t)t->n, sizeof *t->t, by_name) : NULL;
}

bool rf_tensors_named(const struct rf_tensors *t, const char *name)
{
	for (int i = 0; i < t->misplaced_count; i++)
		if (!strcmp(t->misplaced[i].name, name))
			return true;
	return rf_tensors_find(t, name);
}

const char *rf_tensors_meta(const struct rf_tensors *t, const char *key)
{
	const struct files *f = t->impl;

	if (!f || !f->n)
		return NULL;
	return json_string_value(json_object_get(json_object_get(f->s[0].header, "__metadata__"), key));
}

/* ---- values -------------------------------------------------------------------------------- */

enum rf_code rf_tensor_read(const struct rf_tensor *t, uint64_t from, void *out, size_t n, struct rf_err *e)
{
	char q[120];

	if (!n)
		return RF_OK;
	if (t->transfer)
		return t->transfer->get(t->transfer->arg, out, (const char *)t->data + from, n, e);
	if (!t->fd) {
		memcpy(out, (const char *)t->data + from, n);
		return RF_OK;
	}
	if (rf_file_pread(*t->fd, out, n, t->at + from, e) == RF_OK)
		return RF_OK;
	return rf_blame(e, "'%s'", rf_quote(q, sizeof q, t->name, strlen(t->name)));
}

enum rf_code rf_tensor_f32_part(const struct rf_tensor *t, uint64_t first, size_t n, float *out,
                                struct rf_err *e)
{
	unsigned char buf[BLOCK];
	enum rf_code rc;
	uint16_t h;
	double x;
	char q[120], type[40];
	const size_t size = (size_t)rf_dtype_size(t->dtype);

	if (t->dtype == RF_F32)
		return rf_tensor_read(t, first * size, out, n * size, e);
	if (t->dtype != RF_F16 && t->dtype != RF_BF16 && t->dtype != RF_F64)
		return rf_fail(e, RF_EMODEL, "'%s' has dtype %s, which is not a type for weights",
		               rf_quote(q, sizeof q, t->name, strlen(t->name)),
		               rf_quote(type, sizeof type, rf_tensor_type(t), strlen(rf_tensor_type(t))));
	for (size_t i = 0; i < n;) {
		size_t some = n - i < BLOCK / size ? n - i : BLOCK / size;
		if ((rc = rf_tensor_read(t, (first + i) * size, buf, some * size, e)) != RF_OK)
			return rc;
		for (size_t k = 0; k < some; k++, i++)
			if (t->dtype == RF_F64) {
				memcpy(&x, buf + k * size, size);
				out[i] = (float)x;
			} else {
				memcpy(&h, buf + k * size, size);
				out[i] = t->dtype == RF_F16 ? rf_f16_f32(h) : rf_bf16_f32(h);
			}
	}
	return RF_OK;
}

/* Allocates memory for pieces of the tensors that are not in host memory, *size bytes; NULL: out of
 * memory. */
static unsigned char *allocate_pieces(const struct rf_tensor *t, int n, size_t *size)
{
	*size = BLOCK;
	for (int i = 0; i < n; i++)
		if (t[i].transfer && t[i].transfer->block > *size)
			*size = t[i].transfer->block;
	return malloc(*size);
}

enum rf_code rf_tensors_hash(const struct rf_tensor *t, int n, const char *arch_of, char hex[17],
                             struct rf_err *e)
{
	XXH64_state_t *h = XXH64_createState();
	size_t most;
	unsigned char *buf = allocate_pieces(t, n, &most);
	enum rf_code rc = RF_OK;

	if (!h || !buf) {
		XXH64_freeState(h);
		free(buf);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	XXH64_reset(h, 0);
	if (arch_of)
		XXH64_update(h, arch_of, strlen(arch_of));
	for (int i = 0; rc == RF_OK && i < n; i++) {
		XXH64_update(h, t[i].name, strlen(t[i].name));
		XXH64_update(h, rf_tensor_type(&t[i]), strlen(rf_tensor_type(&t[i])));
		for (int d = 0; d < t[i].ndim; d++) {
			char dim[24];
			int len = snprintf(dim, sizeof dim, "%s%lld", d ? "," : "", (long long)t[i].shape[d]);
			XXH64_update(h, dim, (size_t)len);
		}
		const bool here = !t[i].fd && !t[i].transfer;

		if (!arch_of && here && t[i].bytes)
			XXH64_update(h, t[i].data, (size_t)t[i].bytes);
		for (uint64_t at = 0; !arch_of && !here && at < t[i].bytes && rc == RF_OK; at += most) {
			size_t len = t[i].bytes - at < most ? (size_t)(t[i].bytes - at) : most;
			if ((rc = rf_tensor_read(&t[i], at, buf, len, e)) == RF_OK)
				XXH64_update(h, buf, len);
		}
	}
	snprintf(hex, 17, "%016llx", (unsigned long long)XXH64_digest(h));
	XXH64_freeState(h);
	free(buf);
	return rc;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Returns the header as text, padded with spaces so that the data begin at a multiple of 8; NULL: out of
 * memory. */
static char *make_header(const struct rf_tensor *t, int n, const char *const *extra, size_t *len)
{
	json_t *head = json_object(), *meta = json_pack("{s:s}", "format", "pt");
	char *text, *padded = NULL;
	uint64_t place = 0;

	for (; extra && *extra; extra += 2)
		json_object_set_new(meta, extra[0], json_string(extra[1]));
	json_object_set_new(head, "__metadata__", meta);
	for (int i = 0; i < n; i++) {
		json_t *shape = json_array();
		for (int d = 0; d < t[i].ndim; d++)
			json_array_append_new(shape, json_integer(t[i].shape[d]));
		json_object_set_new(head, t[i].name,
		                    json_pack("{s:s, s:o, s:[I, I]}", "dtype", rf_tensor_type(&t[i]), "shape",
		                              shape, "data_offsets", (json_int_t)place,
		                              (json_int_t)(place + t[i].bytes)));
		place += t[i].bytes;
	}
	text = json_object_size(head) == (size_t)n + 1 ? json_dumps(head, JSON_COMPACT) : NULL;
	json_decref(head);
	if (text && (padded = malloc(strlen(text) + 8))) {
		*len = strlen(text);
		memcpy(padded, text, *len);
		while (*len % 8)
			padded[(*len)++] = ' ';
	}
	free(text);
	return padded;
}

enum rf_code rf_tensors_begin(struct rf_tempfile *f, const struct rf_tensor *t, int n,
                              const char *const *extra, uint64_t *size, struct rf_err *e)
{
	unsigned char length[8];
	enum rf_code rc;
	size_t len;
	char *head = make_header(t, n, extra, &len);

	if (!head)
		return rf_fail(e, RF_ENOMEM, "%s: out of memory", f->name);
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)((uint64_t)len >> 8 * i);
	if (len > RF_MOST_HEADER)
		rc = rf_fail(e, RF_EMODEL, "%s: its header of %zu bytes would be over the limit of %d",
		             f->name, len, RF_MOST_HEADER);
	else if ((rc = rf_tempfile_write(f, length, sizeof length, e)) == RF_OK)
		rc = rf_tempfile_write(f, head, len, e);
	free(head);
	*size = sizeof length + len;
	for (int i = 0; i < n; i++)
		*size += t[i].bytes;
	return rc;
}

enum rf_code rf_tensors_put(struct rf_tempfile *f, const struct rf_tensor *t, int n, const char *const *extra,
                            struct rf_err *e)
{
	size_t most;
	unsigned char *buf = allocate_pieces(t, n, &most);
	uint64_t size;
	enum rf_code rc =
		buf ? rf_tensors_begin(f, t, n, extra, &size, e) : rf_fail(e, RF_ENOMEM, "out of memory");

	for (int i = 0; rc == RF_OK && i < n; i++) {
		const bool here = !t[i].fd && !t[i].transfer;

		if (here)
			rc = rf_tempfile_write(f, t[i].data, (size_t)t[i].bytes, e);
		for (uint64_t at = 0; !here && at < t[i].bytes && rc == RF_OK; at += most) {
			size_t k = t[i].bytes - at < most ? (size_t)(t[i].bytes - at) : most;
			if ((rc = rf_tensor_read(&t[i], at, buf, k, e)) == RF_OK)
				rc = rf_tempfile_write(f, buf, k, e);
		}
	}
	free(buf);
	return rc;
}

enum rf_code rf_tensors_write(const char *path, const struct rf_tensor *t, int n, const char *const *extra,
                              struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;

	if ((rc = rf_tempfile_create(&f, path, NULL, e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_put(&f, t, n, extra, e)) != RF_OK) {
		rf_tempfile_abandon(&f);
		return rc;
	}
	return rf_tempfile_commit(&f, NULL, e);
}
