/* tensors GOLDEN -- tests safetensors: malformed files, one rule at a time; round trips; shards; 16-bit
 * floats; the hash.  Works in the current directory.
 *
 * tensors --corpus DIR writes the malformed files as seeds for the fuzzer. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/half.h"
#include "ckpt/tensors.h"
#include "unit/tap.h"

/* ---- malformed headers --------------------------------------------------------------------- */

#define T(name, dtype, shape, offsets) \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* clang-format off */
static const struct vector {
	const char *name, *header;
	size_t data;              /* bytes after the header */
	const char *says;         /* words of the error; NULL: the file is valid */
} vectors[] = {
	{ "one", "{" T("a", "F32", "[2]", "[0,8]") "}", 8, NULL },
	{ "two-swapped", "{" T("b", "U8", "[2]", "[1,3]") "," T("a", "U8", "[1]", "[0,1]") "}", 3, NULL },
	{ "two-reversed", "{" T("b", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2, NULL },
	{ "none", "{}", 0, NULL },
	{ "metadata", "{\"__metadata__\":{\"format\":\"pt\"}," T("a", "U8", "[1]", "[0,1]") "}", 1, NULL },
	{ "padded", "{" T("a", "U8", "[1]", "[0,1]") "}       ", 1, NULL },
	{ "rank-0", "{" T("a", "F32", "[]", "[0,4]") "}", 4, NULL },
	{ "empty-tensor", "{" T("a", "F32", "[0,7]", "[0,0]") "," T("b", "U8", "[1]", "[0,1]") "}", 1, NULL },
	{ "empty-at-end", "{" T("a", "U8", "[1]", "[0,1]") "," T("b", "F32", "[0]", "[1,1]") "}", 1, NULL },
	{ "misaligned", "{" T("a", "U8", "[1]", "[0,1]") "," T("b", "F32", "[1]", "[1,5]") "}", 5, NULL },
	{ "utf8-name", "{" T("\xc3\xa4", "U8", "[1]", "[0,1]") "}", 1, NULL },
	{ "escaped-name", "{" T("\\u00e4\\n", "U8", "[1]", "[0,1]") "}", 1, NULL },
	{ "every-dtype",
         "{" T("a", "BOOL", "[1]", "[0,1]") "," T("b", "U16", "[1]",
                                                  "[1,3]") "," T("c", "I64", "[1]",
                                                                 "[3,11]") "," T("d", "BF16", "[1]",
                                                                                 "[11,13]") "}",
         13, NULL },
	{ "metadata-null", "{\"__metadata__\":null," T("a", "U8", "[1]", "[0,1]") "}", 1, NULL },
	{ "dtype-unread", "{" T("a", "F8_E4M3", "[3]", "[0,3]") "," T("b", "C64", "[2]", "[3,19]") ","
	  T("c", "F4", "[2,3]", "[19,22]") "}", 22, NULL },
	{ "dtype-unknown", "{" T("a", "Q7", "[5]", "[0,3]") "," T("b", "f32", "[1]", "[3,4]") "}", 4, NULL },
	{ "eight-dims", "{" T("a", "U8", "[1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, NULL },
	{ "sign-in-name", "{" T("-1\\\"-", "U8", "[1]", "[0,1]") "}", 1, NULL },

	{ "empty-header", "", 0, "does not begin with {" },
	{ "array", "[]", 0, "does not begin with {" },
	{ "string", "\"a\"", 0, "does not begin with {" },
	{ "space-first", " {}", 0, "does not begin with {" },
	{ "bom", "\xef\xbb\xbf{}", 0, "does not begin with {" },
	{ "pickle", "\x80\x02}q\x01.", 0, "does not begin with {" },
	{ "unclosed", "{" T("a", "U8", "[1]", "[0,1]"), 1, "header: bad JSON at byte" },
	{ "open-string", "{\"a", 0, "header: bad JSON at byte" },
	{ "open-escape", "{\"a\\", 0, "header: bad JSON at byte" },
	{ "trailing", "{}x", 0, "header: bad JSON at byte" },
	{ "second-object", "{}{}", 0, "header: bad JSON at byte" },
	{ "comma-at-end", "{" T("a", "U8", "[1]", "[0,1]") ",}", 1, "header: bad JSON at byte" },
	{ "single-quotes", "{'a':1}", 0, "header: bad JSON at byte" },
	{ "comment", "{/*a*/}", 0, "header: bad JSON at byte" },
	{ "nan", "{" T("a", "U8", "[NaN]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "leading-zero", "{" T("a", "U8", "[01]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "hex", "{" T("a", "U8", "[0x1]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "too-big", "{" T("a", "U8", "[18446744073709551617]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "bad-utf8", "{" T("\xff", "U8", "[1]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "overlong-utf8", "{" T("\xc0\x80", "U8", "[1]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "lone-surrogate", "{" T("\\ud800", "U8", "[1]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "nul-in-name", "{" T("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "control-in-name", "{" T("a\nb", "U8", "[1]", "[0,1]") "}", 1, "header: bad JSON at byte" },
	{ "twice", "{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2, "duplicate" },
	{ "twice-escaped", "{" T("a", "U8", "[1]", "[0,1]") "," T("\\u0061", "U8", "[1]", "[1,2]") "}", 2,
         "duplicate" },
	{ "twice-dtype", "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
	  1, "duplicate" },
	{ "twice-metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate" },
	{ "deep", "{\"a\":{\"dtype\":[[[1]]]}}", 0, "is nested more than" },
	{ "metadata-string", "{\"__metadata__\":\"pt\"}", 0, "__metadata__ is not an object" },
	{ "metadata-number", "{\"__metadata__\":{\"format\":1}}", 0, "not a string" },
	{ "metadata-nested", "{\"__metadata__\":{\"format\":{}}}", 0, "not a string" },
	{ "entry-null", "{\"a\":null}", 0, "does not have exactly the keys" },
	{ "entry-list", "{\"a\":[\"U8\",[1],[0,1]]}", 1, "does not have exactly the keys" },
	{ "no-dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
	  "does not have exactly the keys" },
	{ "no-shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1,
	  "does not have exactly the keys" },
	{ "no-offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "does not have exactly the keys" },
	{ "fourth-key", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1,
         "does not have exactly the keys" },
	{ "dtype-number", "{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
	  "does not have exactly the keys" },
	{ "shape-number", "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1,
	  "does not have exactly the keys" },
	{ "dtype-too-few", "{" T("a", "F8_E4M3", "[3]", "[0,2]") "}", 2, "has 2 bytes" },
	{ "dtype-half", "{" T("a", "F4", "[3]", "[0,1]") "}", 1, "in the middle of a byte" },
	{ "dtype-overflow", "{" T("a", "F6_E2M3", "[4611686018427387904]", "[0,0]") "}", 0, "more bytes" },
	{ "nine-dims", "{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "9 dimensions" },
	{ "shape-negative", "{" T("a", "U8", "[-1]", "[0,1]") "}", 1, "negative" },
	{ "shape-minus-0", "{" T("a", "U8", "[-0]", "[0,0]") "}", 0, "negative" },
	{ "shape-float", "{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, "not made of whole numbers" },
	{ "shape-exponent", "{" T("a", "U8", "[1e3]", "[0,1000]") "}", 1000, "not made of whole numbers" },
	{ "shape-string", "{" T("a", "U8", "[\"1\"]", "[0,1]") "}", 1, "not made of whole numbers" },
	{ "shape-true", "{" T("a", "U8", "[true]", "[0,1]") "}", 1, "not made of whole numbers" },
	{ "shape-null", "{" T("a", "U8", "[null]", "[0,1]") "}", 1, "not made of whole numbers" },
	{ "shape-overflow", "{" T("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "more elements" },
	{ "shape-overflow-0", "{" T("a", "U8", "[4294967296,4294967296,0]", "[0,0]") "}", 0,
	  "more elements" },
	{ "bytes-overflow", "{" T("a", "F64", "[4611686018427387904]", "[0,0]") "}", 0, "more bytes" },
	{ "one-offset", "{" T("a", "U8", "[1]", "[0]") "}", 1, "not two whole numbers" },
	{ "three-offsets", "{" T("a", "U8", "[1]", "[0,1,1]") "}", 1, "not two whole numbers" },
	{ "offset-float", "{" T("a", "U8", "[1]", "[0,1.0]") "}", 1, "not two whole numbers" },
	{ "offset-exponent", "{" T("a", "U8", "[1000]", "[0,1e3]") "}", 1000, "not two whole numbers" },
	{ "offset-negative", "{" T("a", "U8", "[1]", "[-1,0]") "}", 1, "negative" },
	{ "offset-2^53+1", "{" T("a", "U8", "[9007199254740993]", "[0,9007199254740993]") "}", 1, "of 1" },
	{ "begin-after-end", "{" T("a", "U8", "[1]", "[2,1]") "}", 3, "claims bytes 2 to 1" },
	{ "past-the-end", "{" T("a", "U8", "[2]", "[0,2]") "}", 1, "claims bytes 0 to 2 of 1" },
	{ "far-past-the-end", "{" T("a", "U8", "[1]", "[9223372036854775806,9223372036854775807]") "}", 1,
         "claims bytes" },
	{ "too-few-bytes", "{" T("a", "F32", "[2]", "[0,7]") "}", 7, "has 7 bytes" },
	{ "too-many-bytes", "{" T("a", "F32", "[2]", "[0,9]") "}", 9, "has 9 bytes" },
	{ "empty-with-bytes", "{" T("a", "F32", "[0]", "[0,4]") "}", 4, "has 4 bytes" },
	{ "hole-at-start", "{" T("a", "U8", "[1]", "[1,2]") "}", 2, "begins at byte 1" },
	{ "hole", "{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[1]", "[2,3]") "}", 3,
         "begins at byte 2" },
	{ "overlap", "{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[1,3]") "}", 3,
         "begins at byte 1" },
	{ "same-place", "{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[1]", "[0,1]") "}", 1,
         "begins at byte 0" },
	{ "empty-inside", "{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[0]", "[1,1]") "}", 2,
         "begins at byte 1" },
	{ "bytes-after", "{" T("a", "U8", "[1]", "[0,1]") "}", 2, "end at byte 1 of 2" },
	{ "bytes-of-none", "{}", 1, "end at byte 0 of 1" },
};
/* clang-format on */

/* Makes a file in memory of exactly its size. */
static unsigned char *make_file(const char *header, size_t data, uint64_t length, size_t *n)
{
	size_t h = strlen(header);
	unsigned char *p;

	*n = 8 + h + data;
	p = malloc(*n);
	for (int i = 0; i < 8; i++)
		p[i] = (unsigned char)(length >> 8 * i);
	memcpy(p + 8, header, h);
	memset(p + 8 + h, 0, data);
	return p;
}

static void save_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(p, 1, n, f) != n || fclose(f))
		abort();
}

static void try_file(const char *name, const unsigned char *p, size_t n, const char *says)
{
	struct rf_err e = { RF_OK, "" }, e2 = { RF_OK, "" };
	struct rf_tensors t;
	enum rf_code rc = rf_tensors_parse(&t, p, n, &e), rc2;

	for (int i = 1; rc == RF_OK && i < t.n; i++)
		if (strcmp(t.t[i - 1].name, t.t[i].name) >= 0)
			ok(false, "malformed: the tensors of %s are in order of name", name);
	if (rc == RF_OK)
		rf_tensors_close(&t);
	save_file("v.safetensors", p, n);
	if ((rc2 = rf_tensors_open(&t, "v.safetensors", &e2)) == RF_OK)
		rf_tensors_close(&t);
	if (says)
		ok(rc == RF_EMODEL && rc2 == RF_EMODEL && strstr(e.msg, says) && strstr(e2.msg, says) &&
		           strstr(e2.msg, "v.safetensors"),
		   "malformed: the error of %s has the words '%s' (%s)", name, says, e.msg);
	else
		ok(rc == RF_OK && rc2 == RF_OK, "a valid file is read: %s (%s)", name, e.msg);
}

static void test_vectors(void)
{
	const char *good = vectors[0].header;
	unsigned char *p;
	size_t n;

	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
		p = make_file(vectors[i].header, vectors[i].data, strlen(vectors[i].header), &n);
		try_file(vectors[i].name, p, n, vectors[i].says);
		free(p);
	}
	static const struct {
		const char *name;
		uint64_t length;
		const char *says;
	} lengths[] = {
		{ "header length 0", 0, "does not begin with {" },
		{ "header of 1 byte", 1, "header: bad JSON at byte" },
		{ "header longer than the file", 200, "truncated" },
		{ "header one byte too long", 0, "truncated" },
		{ "header of 16 MiB + 1", (16 << 20) + 1, "over the limit" },
		{ "header of 100,000,001", 100000001, "over the limit" },
		{ "header of 2^63", UINT64_C(1) << 63, "over the limit" },
		{ "header of 2^64 - 1", UINT64_MAX, "over the limit" },
		{ "header of 2^64 - 8", UINT64_MAX - 7, "over the limit" },
	};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		p = make_file(good, 8, i == 3 ? strlen(good) + 9 : lengths[i].length, &n);
		try_file(lengths[i].name, p, n, lengths[i].says);
		free(p);
	}
	p = make_file(good, 8, strlen(good), &n);
	for (size_t cut = 0; cut < n; cut++) {
		unsigned char *q = malloc(cut + !cut);
		struct rf_tensors t;
		struct rf_err e;
		memcpy(q, p, cut);
		if (rf_tensors_parse(&t, q, cut, &e) != RF_EMODEL)
			ok(false, "malformed: a file that ends at byte %zu is refused", cut);
		free(q);
	}
	ok(true, "malformed: a file that ends at any byte is refused");
	free(p);

	size_t many = 3 << 20;
	char *h = malloc(many + 1);
	for (size_t i = 0; i < many; i++)
		h[i] = "[],"[i % 3];
	memcpy(h, "{\"a\":[", 6);
	h[many] = 0;
	p = make_file(h, 0, many, &n);
	try_file("a million lists", p, n, "or has more than 1000000 values");
	free(p);
	free(h);
}

static void write_corpus(const char *dir)
{
	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
		char path[500];
		size_t n;
		unsigned char *p =
			make_file(vectors[i].header, vectors[i].data, strlen(vectors[i].header), &n);

		snprintf(path, sizeof path, "%s/%s", dir, vectors[i].name);
		save_file(path, p, n);
		free(p);
	}
}

/* ---- 16-bit floats ------------------------------------------------------------------------- */

static void test_half(void)
{
	bool there = true, back = true, nan = true, nearest = true;

	for (int h = 0; h < 65536; h++) {
		int exponent = h >> 10 & 31, fraction = h & 1023;
		double x = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
		float f = rf_f16_f32((uint16_t)h), b = rf_bf16_f32((uint16_t)h);

		if (exponent == 31 && fraction) {
			nan &= isnan(f) && isnan(rf_f16_f32(rf_f32_f16(f)));
		} else {
			there &= (double)f == (h & 0x8000 ? -1 : 1) * (exponent == 31 ? INFINITY : x) &&
			         !signbit(f) == !(h & 0x8000);
			back &= rf_f32_f16(f) == h;
		}
		if (isnan(b))
			nan &= isnan(rf_bf16_f32(rf_f32_bf16(b)));
		else
			back &= rf_f32_bf16(b) == h;
	}
	ok(there, "every f16 has its value as float32");
	ok(back, "every f16 and bf16 stays the same through float32");
	ok(nan, "a NaN of 16 bits stays a NaN");
	/* a value halfway between two neighbours is rounded to the even one, any other value to the nearer
	   one */
	for (int h = 0; h < 0x7bff; h++) {
		float mid = (rf_f16_f32((uint16_t)h) + rf_f16_f32((uint16_t)(h + 1))) / 2;
		nearest &= rf_f32_f16(mid) == h + (h & 1) && rf_f32_f16(nextafterf(mid, 0)) == h &&
		           rf_f32_f16(nextafterf(mid, 1e9f)) == h + 1;
	}
	for (uint32_t h = 0; h < 0x7f7f; h++) {
		float mid = rf_bits_f32(h << 16 | 0x8000);
		nearest &= rf_f32_bf16(mid) == h + (h & 1) && rf_f32_bf16(nextafterf(mid, 0)) == h &&
		           rf_f32_bf16(nextafterf(mid, INFINITY)) == h + 1;
	}
	ok(nearest, "float32 is rounded to the nearest value of 16 bits, ties to even");
	ok(rf_f32_f16(65519.996f) == 0x7bff && rf_f32_f16(65520) == 0x7c00 && rf_f32_f16(-1e30f) == 0xfc00 &&
	           rf_f32_bf16(3.4e38f) == 0x7f80,
	   "a float32 that is too large becomes an infinity");
}

/* ---- round trips --------------------------------------------------------------------------- */

static enum rf_code read_floats(const struct rf_tensors *t, const char *name, float *x, struct rf_err *e)
{
	const struct rf_tensor *of = rf_tensors_find(t, name);

	return rf_tensor_f32_part(of, 0, of->count, x, e);
}

static void test_round_trip(void)
{
	static const float f32[6] = { 0, -0.0f, 1.5f, 1e-40f, INFINITY, -3 };
	static const double f64[3] = { 1e300, -2.5, 1e-50 };
	static const uint16_t f16[4] = { 0x0001, 0x3c00, 0xfbff, 0x8000 }, bf16[2] = { 0x0001, 0xbf80 };
	static const int64_t i64[2] = { -1, INT64_MAX };
	const struct rf_tensor in[] = {
		/* clang-format off */
		{ .name = "a.bf16", .dtype = RF_BF16, .ndim = 1, .shape = { 2 }, .count = 2, .bytes = 4,
		  .data = bf16 },
		{ .name = "b.empty", .dtype = RF_F32, .ndim = 2, .shape = { 3, 0 }, .count = 0, .bytes = 0 },
		{ .name = "c.f16", .dtype = RF_F16, .ndim = 2, .shape = { 2, 2 }, .count = 4, .bytes = 8,
		  .data = f16 },
		{ .name = "d.f32", .dtype = RF_F32, .ndim = 3, .shape = { 1, 2, 3 }, .count = 6, .bytes = 24,
		  .data = f32 },
		{ .name = "e.f64", .dtype = RF_F64, .ndim = 1, .shape = { 3 }, .count = 3, .bytes = 24,
		  .data = f64 },
		{ .name = "f.i64", .dtype = RF_I64, .ndim = 1, .shape = { 2 }, .count = 2, .bytes = 16,
		  .data = i64 },
		{ .name = "g.\"\xc3\xa4\n", .dtype = RF_F32, .ndim = 0, .count = 1, .bytes = 4,
		  /* clang-format on */
		  .data = f32 + 2 },
	};
	const int n = sizeof in / sizeof *in;
	const char *const extra[] = { "weights", "0123456789abcdef", NULL };
	struct rf_tensors t;
	struct rf_err e = { RF_OK, "" };
	char one[17], two[17];
	float x[6];
	bool same = true;

	ok(rf_tensors_write("r.safetensors", in, n, extra, &e) == RF_OK,
	   "tensors of every kind are written (%s)", e.msg);
	ok(rf_tensors_write("r.safetensors", in, n, extra, &e) == RF_EIO &&
	           access("r.safetensors", F_OK) == 0,
	   "an existing file is not overwritten");
	if (!ok(rf_tensors_open(&t, "r.safetensors", &e) == RF_OK && t.n == n,
	        "the written tensors are read (%s)", e.msg))
		return;
	for (int i = 0; i < n; i++) {
		const struct rf_tensor *y = rf_tensors_find(&t, in[i].name);
		unsigned char buf[64];
		same &= y == &t.t[i] && y->dtype == in[i].dtype && y->ndim == in[i].ndim &&
		        y->count == in[i].count && y->bytes == in[i].bytes &&
		        !memcmp(y->shape, in[i].shape, sizeof y->shape) && !y->data &&
		        rf_tensor_read(y, 0, buf, y->bytes, &e) == RF_OK &&
		        (!y->bytes || !memcmp(buf, in[i].data, y->bytes));
	}
	ok(same, "a round trip keeps names, shapes and bytes");
	ok(!rf_tensors_find(&t, "") && !rf_tensors_find(&t, "z"), "an unknown name is not found");
	ok(!strcmp(rf_tensors_meta(&t, "format"), "pt") &&
	           !strcmp(rf_tensors_meta(&t, "weights"), extra[1]) && !rf_tensors_meta(&t, "x"),
	   "a round trip keeps the metadata");
	ok(read_floats(&t, "c.f16", x, &e) == RF_OK && x[0] == 0x1p-24f && x[1] == 1 && x[2] == -65504 &&
	           signbit(x[3]),
	   "f16 is converted to float32");
	ok(read_floats(&t, "a.bf16", x, &e) == RF_OK && x[0] == 0x1p-133f && x[1] == -1,
	   "bf16 is converted to float32");
	ok(read_floats(&t, "e.f64", x, &e) == RF_OK && isinf(x[0]) && x[1] == -2.5f && x[2] == 0,
	   "f64 is converted to float32");
	ok(read_floats(&t, "d.f32", x, &e) == RF_OK && !memcmp(x, f32, sizeof f32), "f32 stays as it is");
	ok(read_floats(&t, "f.i64", x, &e) == RF_EMODEL && strstr(e.msg, "I64"),
	   "integers are not converted to float32");

	/* the hash of these bytes, as the header specifies it */
	unsigned char all[256];
	size_t k = 0;
#define PUT(p, size) (memcpy(all + k, p, size), k += (size))
	PUT("a.bf16BF162", 11);
	PUT(bf16, 4);
	PUT("b.emptyF323,0", 13);
	PUT("c.f16F162,2", 11);
	PUT(f16, 8);
	PUT("d.f32F321,2,3", 13);
	PUT(f32, 24);
	PUT("e.f64F643", 9);
	PUT(f64, 24);
	PUT("f.i64I642", 9);
	PUT(i64, 16);
	PUT("g.\"\xc3\xa4\nF32", 9);
	PUT(f32 + 2, 4);
	snprintf(one, sizeof one, "%016llx", (unsigned long long)XXH64(all, k, 0));
	ok(rf_tensors_hash(t.t, t.n, NULL, two, &e) == RF_OK && !strcmp(one, two),
	   "the hash covers names, types, shapes and bytes (%s %s)", one, two);
	ok(rf_tensors_hash(in, n, NULL, two, &e) == RF_OK && !strcmp(one, two),
	   "tensors in memory have the same hash");
	snprintf(one, sizeof one, "%016llx", (unsigned long long)XXH64("delta_netd.f32F321,2,3", 22, 0));
	ok(rf_tensors_hash(in + 3, 1, "delta_net", two, &e) == RF_OK && !strcmp(one, two),
	   "the hash of the architecture covers model_type, but no bytes");

	ok(truncate("r.safetensors", 700) == 0 && read_floats(&t, "c.f16", x, &e) != RF_ENOMEM,
	   "an open file can be truncated");
	ok(truncate("r.safetensors", 8) == 0 && read_floats(&t, "d.f32", x, &e) == RF_EIO &&
	           strstr(e.msg, "shortened") && rf_tensors_hash(t.t, t.n, NULL, two, &e) == RF_EIO &&
	           rf_tensors_write("s.safetensors", t.t, t.n, NULL, &e) == RF_EIO &&
	           access("s.safetensors", F_OK) < 0,
	   "reading a truncated file is RF_EIO, and writing from it leaves no file");
	rf_tensors_close(&t);

	ok(rf_tensors_open(&t, "nowhere", &e) == RF_ENOINPUT, "a missing file is RF_ENOINPUT");
	mkdir("d", 0777);
	ok(rf_tensors_open(&t, "d", &e) == RF_EMODEL && strstr(e.msg, "not a regular file"),
	   "a directory is refused");
	ok(mkfifo("fifo", 0666) == 0 && rf_tensors_open(&t, "fifo", &e) == RF_EMODEL,
	   "a FIFO is refused without waiting");
}

/* ---- shards -------------------------------------------------------------------------------- */

static void try_index(const char *name, const char *json, enum rf_code code, const char *says)
{
	struct rf_err e = { RF_OK, "" };
	struct rf_tensors t;
	enum rf_code rc;

	save_file("m/model.safetensors.index.json", json, strlen(json));
	if ((rc = rf_tensors_open_dir(&t, "m", &e)) == RF_OK)
		rf_tensors_close(&t);
	ok(rc == code && (!says || strstr(e.msg, says)), "index: %s (%s)", name, e.msg);
}

/* Tests an index with which the shards disagree about one tensor, x. */
static void try_places(const char *name, const char *json, enum rf_shard_fault fault, const char *says)
{
	struct rf_err e = { RF_OK, "" };
	struct rf_tensors t;

	save_file("m/model.safetensors.index.json", json, strlen(json));
	if (!ok(rf_tensors_open_dir(&t, "m", &e) == RF_OK, "index: shards are opened with %s (%s)", name,
	        e.msg))
		return;
	ok(t.misplaced_count == 1 && t.misplaced[0].fault == fault &&
	           rf_tensors_named(&t, t.misplaced[0].name) && rf_tensors_refuse(&t, 0, &e) == RF_EMODEL &&
	           strstr(e.msg, says),
	   "the disagreement is noted (%d: %s)", t.misplaced_count, e.msg);
	rf_tensors_close(&t);
}

static void test_shards(const char *golden)
{
	struct rf_tensors whole, parts;
	struct rf_err e = { RF_OK, "" };
	char path[500], one[17] = "", two[17] = "",
			index[9000] = "{\"metadata\":{\"total_size\":24576},\"weight_map\":{";
	size_t k = strlen(index);
	int cut;

	snprintf(path, sizeof path, "%s/delta/model.safetensors", golden);
	mkdir("m", 0777);
	if (!ok(rf_tensors_open(&whole, path, &e) == RF_OK, "the reference checkpoint is read (%s)", e.msg))
		return;
	cut = whole.n / 3;
	rf_tensors_write("m/model-00002-of-00002.safetensors", whole.t, cut, NULL, &e);
	rf_tensors_write("elsewhere", whole.t + cut, whole.n - cut, NULL, &e);
	ok(symlink("../elsewhere", "m/model-00001-of-00002.safetensors") == 0,
	   "one shard is a link to another folder, as in a cache of models");
	for (int i = 0; i < whole.n; i++)
		k += (size_t)snprintf(index + k, sizeof index - k,
		                      "%s\"%s\":\"model-0000%d-of-00002.safetensors\"", i ? "," : "",
		                      whole.t[i].name, i < cut ? 2 : 1);
	snprintf(index + k, sizeof index - k, "}}");
	save_file("m/model.safetensors.index.json", index, strlen(index));
	if (ok(rf_tensors_open_dir(&parts, "m", &e) == RF_OK && parts.n == whole.n,
	       "two shards make one table (%s)", e.msg)) {
		rf_tensors_hash(whole.t, whole.n, NULL, one, &e);
		rf_tensors_hash(parts.t, parts.n, NULL, two, &e);
		ok(!strcmp(one, two), "the shards have the hash of the single file");
		rf_tensors_close(&parts);
	}
	const int n = whole.n;
	rf_tensors_close(&whole);

	const char *map = strstr(index, "weight_map") + 13;
	char other[9500];
#define INDEX(first) (snprintf(other, sizeof other, "{\"weight_map\":{%s,%s", first, map), other)
	try_places("a name in no shard", INDEX("\"x\":\"model-00001-of-00002.safetensors\""),
	           RF_SHARD_NO_TENSOR,
	           "'x': the index places it in model-00001-of-00002.safetensors, which does not have it");
	try_places("a shard that is missing", INDEX("\"x\":\"model-3.safetensors\""), RF_SHARD_NO_FILE,
	           "'x': the index places it in model-3.safetensors, which does not exist");
	try_index("a tensor listed twice", INDEX("\"lm_head.weight\":\"model-00002-of-00002.safetensors\""),
	          RF_EMODEL, "duplicate");
	try_index("a path upwards", INDEX("\"x\":\"../elsewhere\""), RF_EMODEL, "not a plain file name");
	try_index("an absolute path", INDEX("\"x\":\"/etc/passwd\""), RF_EMODEL, "not a plain file name");
	try_index("a path downwards", INDEX("\"x\":\"a/b\""), RF_EMODEL, "not a plain file name");
	try_index("the directory", INDEX("\"x\":\".\""), RF_EMODEL, "not a plain file name");
	try_index("its parent", INDEX("\"x\":\"..\""), RF_EMODEL, "not a plain file name");
	try_index("a hidden file", INDEX("\"x\":\".ssh\""), RF_EMODEL, "not a plain file name");
	try_index("an option", INDEX("\"x\":\"-rf\""), RF_EMODEL, "not a plain file name");
	try_index("no name", INDEX("\"x\":\"\""), RF_EMODEL, "not a plain file name");
	try_index("a NUL in the name", INDEX("\"x\":\"a\\u0000b\""), RF_EMODEL, "byte");
	try_index("a number for a name", INDEX("\"x\":1"), RF_EMODEL, "not a plain file name");
	try_index("no weight_map", "{\"metadata\":{}}", RF_EMODEL, "the index has no weight_map");
	try_index("an empty weight_map", "{\"weight_map\":{}}", RF_EMODEL, "the index has no weight_map");
	try_index("a list for a weight_map", "{\"weight_map\":[]}", RF_EMODEL, "the index has no weight_map");
	try_index("not an object", "[]", RF_EMODEL, "not a JSON object");
	try_index("not JSON", "weights", RF_EMODEL, "byte");
	snprintf(other, sizeof other, "{\"weight_map\":{%s", strchr(map, ',') + 1);
	try_places("a shard with a tensor that the index does not know", other, RF_SHARD_UNLISTED,
	           "'lm_head.weight': it is in model-00002-of-00002.safetensors, where the index does not");
	ok(link("m/model-00002-of-00002.safetensors", "m/more.safetensors") == 0,
	   "one shard gets a second name");
	map = INDEX("\"x\":\"more.safetensors\"");
	save_file("m/model.safetensors.index.json", map, strlen(map));
	ok(rf_tensors_open_dir(&parts, "m", &e) == RF_OK && parts.n == n &&
	           parts.misplaced_count == cut + 1 && parts.misplaced[0].fault == RF_SHARD_TWICE &&
	           !strcmp(parts.misplaced[0].file, "more.safetensors") &&
	           rf_tensors_refuse(&parts, 0, &e) == RF_EMODEL && strstr(e.msg, "and in another shard"),
	   "if two shards have a tensor, the one that the index places is used (%s)", e.msg);
	rf_tensors_close(&parts);
	unlink("m/more.safetensors");
	ok(rename("elsewhere", "gone") == 0, "the target of a link is removed");
	save_file("m/model.safetensors.index.json", index, strlen(index));
	ok(rf_tensors_open_dir(&parts, "m", &e) == RF_EMODEL && strstr(e.msg, "link"),
	   "a shard that is a dangling link is refused (%s)", e.msg);
	unlink("m/model.safetensors.index.json");
	ok(rf_tensors_open_dir(&parts, "m", &e) == RF_ENOINPUT,
	   "a directory without a file or an index is RF_ENOINPUT");
}

int main(int argc, char *argv[])
{
	if (argc == 3 && !strcmp(argv[1], "--corpus")) {
		write_corpus(argv[2]);
		return 0;
	}
	test_vectors();
	test_half();
	test_round_trip();
	test_shards(argc == 2 ? argv[1] : "t/golden");
	return tap_end();
}
