/* text -- tests the way from text to ids: the byte tokenizer, the JSON scanner (compared with jansson), the
 * reader of lines and of compressed files, and the cutting of documents.  Prints TAP; writes files in the
 * current folder. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/print.h"
#include "base/utf8.h"
#include "io/jscan.h"
#include "io/lines.h"
#include "io/words.h"
#include "stream/stream.h"
#include "unit/tap.h"
#include "text/sequences.h"
#include "text/text.h"
#include "tokenizer/tokenizer.h"

static struct rf_err err;

static void put_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(p, 1, n, f) != n || fclose(f)) {
		perror(path);
		exit(1);
	}
}

/* ---- the byte tokenizer -------------------------------------------------------------------- */

/* Checks the text of ids that a model generated, and how many bytes of the text are final. */
static void test_text(const struct rf_tokenizer *t)
{
	static const struct {
		const char *bytes, *text;
		size_t n, final;
	} cases[] = {
		{ "", "", 0, 0 },
		{ "ab", "ab", 2, 2 },
		{ "a\0b",
		  "a\xEF\xBF\xBD"
		  "b",
		  3, 5 },
		{ "a\xC3", "a\xEF\xBF\xBD", 2, 1 },
		{ "a\xC3\xA9", "a\xC3\xA9", 3, 3 },
		{ "a\xE2\x82", "a\xEF\xBF\xBD", 3, 1 },
		{ "a\xE2\x82z", "a\xEF\xBF\xBDz", 4, 5 },
		{ "a\xF0\x9F\x98", "a\xEF\xBF\xBD", 4, 1 },
		{ "a\xF0\x9F\x98\x80", "a\xF0\x9F\x98\x80", 5, 5 },
		{ "a\xFF", "a\xEF\xBF\xBD", 2, 4 },
		{ "a\x80", "a\xEF\xBF\xBD", 2, 4 },
		{ "a\xC0\xAF", "a\xEF\xBF\xBD\xEF\xBF\xBD", 3, 7 },
		{ "a\xE2\xE2", "a\xEF\xBF\xBD\xEF\xBF\xBD", 3, 4 },
		/* the first bytes of a surrogate */
		{ "a\xED\xA0", "a\xEF\xBF\xBD\xEF\xBF\xBD", 3, 7 },
	};
	int32_t special[] = { 0, 'a' + 3, 1, 2, 0xC3 + 3, 383, 0xA9 + 3, 1, 259 };
	int32_t ids[8], bad[] = { 'a' + 3, 384 };
	size_t n, final;
	char *text;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (size_t k = 0; k < cases[i].n; k++)
			ids[k] = (unsigned char)cases[i].bytes[k] + 3;
		ok(rf_tokenizer_text(t, ids, cases[i].n, &text, &n, &final, &err) == RF_OK &&
		           n == strlen(cases[i].text) && !strcmp(text, cases[i].text) &&
		           final == cases[i].final,
		   "case %zu has the expected text and number of final bytes", i);
		free(text);
	}
	ok(rf_tokenizer_text(t, special, 9, &text, &n, &final, &err) == RF_OK && n == 3 && final == 3 &&
	           !strcmp(text, "a\xC3\xA9"),
	   "special tokens are left out, also between the bytes of a character");
	free(text);
	ok(rf_tokenizer_text(t, bad, 2, &text, &n, &final, &err) == RF_EDATA &&
	           !strcmp(err.msg, "token id 384 is not in the vocabulary of 384"),
	   "an id outside the vocabulary is refused");
}

static void test_bytes(void)
{
	struct rf_tokenizer *t;
	char all[256], hash[17], *text;
	struct rf_id_list ids = { 0 };
	int32_t special[] = { 0, 1, 2, 3 + 'x', 259, 383 }, bad[] = { -1, 384, INT32_MIN, INT32_MAX };
	size_t n;
	bool good = true;

	ok(rf_tokenizer_bytes(&t, &err) == RF_OK, "the byte tokenizer opens");
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH64("bytes", 5, 0));
	ok(!strcmp(rf_tokenizer_kind(t), "bytes") && rf_tokenizer_vocab(t) == 384 &&
	           rf_tokenizer_eos(t) == 1 && !strcmp(rf_tokenizer_hash(t), hash),
	   "the kind, vocabulary, end token and hash are those of bytes");
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	for (int i = 0; i < 3; i++)
		good = good && rf_tokenizer_encode(t, all, sizeof all, &ids, &err) == RF_OK &&
		       ids.n == 256u * (unsigned)(i + 1);
	for (size_t i = 0; i < ids.n; i++)
		good = good && ids.p[i] == (int32_t)(i % 256) + 3;
	ok(good, "the id of a byte is its value + 3, and encoding appends to the list");
	good = rf_tokenizer_decode(t, ids.p + 256, 256, &text, &n, &err) == RF_OK && n == 256 &&
	       !memcmp(text, all, 256);
	ok(good, "decoding the ids gives back every byte");
	free(text);
	good = rf_tokenizer_decode(t, special, 6, &text, &n, &err) == RF_OK &&
	       !strcmp(text, "<pad><eos><unk>x<extra_id_0><extra_id_124>") && n == strlen(text);
	ok(good, "special tokens are decoded as their names");
	free(text);
	good = rf_tokenizer_decode(t, NULL, 0, &text, &n, &err) == RF_OK && n == 0;
	ok(good, "an empty list of ids gives an empty text");
	free(text);
	test_text(t);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(rf_tokenizer_decode(t, &bad[i], 1, &text, &n, &err) == RF_EDATA,
		   "id %d, outside the vocabulary, is refused", (int)bad[i]);
	free(ids.p);
	rf_tokenizer_free(t);
}

/* ---- the JSON scanner ---------------------------------------------------------------------- */

static void test_grammar(void)
{
	static const char *const good[] = {
		"{}",
		" { } ",
		"[]",
		"[1,2,3]",
		"[ 1 , 2 ]\r\n",
		"\"\"",
		"0",
		"-0",
		"-1.5e+10",
		"1E5",
		"0.0",
		"true",
		"false",
		"null",
		"{\"a\":{\"b\":[{},[],null]}}",
		"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
		"\"\\u00e9\\uFFFF\\ud83d\\ude00\"",
		"\"\\u0000\"",
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\"",
		"\"\x7f\"",
		"{\"\":0}",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
	};
	static const char *const bad[] = {
		"",
		" ",
		"{",
		"}",
		"[",
		"]",
		"[1,]",
		"[,1]",
		"[1 2]",
		"[1",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{a:1}",
		"{'a':1}",
		"{\"a\" 1}",
		"{1:1}",
		"[1}",
		"{\"a\":1]",
		"01",
		"-",
		"+1",
		"1.",
		".5",
		"1e",
		"1e+",
		"-a",
		"0x1",
		"1 1",
		"nan",
		"Inf",
		"-infinity",
		"-Inf",
		"NaNs",
		"+Infinity",
		"tru",
		"True",
		"nul",
		"\"",
		"\"a",
		"\"\\\"",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\n\"",
		"\"\x01\"",
		"\"\x80\"",
		"\"\xc0\xaf\"",
		"\"\xc3\"",
		"\"\xe0\x80\xaf\"",
		"\"\xed\xa0\x80\"",
		"\"\xf0\x80\x80\xaf\"",
		"\"\xf4\x90\x80\x80\"",
		"\"\xf5\x80\x80\x80\"",
		"\"\xff\"",
		"\xef\xbb\xbf{}",
		"{}x",
		"[] []",
		"/**/1",
		"\"\\",
		"\"\\u",
		"[\"a\",\n4\n,1,",
	};
	/* values that only Python's json writes */
	static const struct {
		const char *text, *kind;
	} lenient[] = {
		{ "NaN", "NaN" },
		{ "Infinity", "Infinity" },
		{ " -Infinity ", "-Infinity" },
		{ "[NaN,1]", "a list" },
		{ "{\"a\":[-Infinity,{\"b\":Infinity}]}", "an object" },
		{ "\"\\ud800\"", "a broken string (an unpaired surrogate)" },
		{ "\"\\udc00\"", "a broken string (an unpaired surrogate)" },
		{ "\"a\\ud800\\u0041\"", "a broken string (an unpaired surrogate)" },
		{ "\"\\ud83d\\ud83d\\ude00\"", "a broken string (an unpaired surrogate)" },
		{ "\"\\ud83d\\ue000\"", "a broken string (an unpaired surrogate)" },
		{ "\"\\\\ \\udbff\"", "a broken string (an unpaired surrogate)" },
		{ "{\"\\udfff\":1}", "an object" },
	};
	char buf[200];
	struct rf_jvalue v;
	json_t *j;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		size_t n = strlen(good[i]);
		memcpy(buf, good[i], n);
		j = json_loadb(good[i], n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		ok(rf_jscan_check(buf, n, &v, &err) == RF_OK && j &&
		           rf_jscan_check_strict(buf, n, &v, &err) == RF_OK,
		   "is accepted as JSON: %s", rf_quote((char[100]){ 0 }, 100, good[i], n));
		json_decref(j);
	}
	for (size_t i = 0; i < sizeof lenient / sizeof *lenient; i++) {
		size_t n = strlen(lenient[i].text);
		memcpy(buf, lenient[i].text, n);
		ok(rf_jscan_check(buf, n, &v, &err) == RF_OK && !strcmp(rf_jscan_kind(&v), lenient[i].kind) &&
		           !rf_jscan_is_string(&v) && rf_jscan_check_strict(buf, n, &v, &err) == RF_EDATA,
		   "only the lenient check accepts what Python writes: %s", lenient[i].text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		size_t n = strlen(bad[i]);
		memcpy(buf, bad[i], n);
		j = json_loadb(bad[i], n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		ok(rf_jscan_check(buf, n, &v, &err) == RF_EDATA && !j, "is refused as not JSON: %s",
		   rf_quote((char[100]){ 0 }, 100, bad[i], n));
		json_decref(j);
	}
	memset(buf, '[', 65);
	memset(buf + 65, ']', 65);
	ok(rf_jscan_check(buf, 130, &v, &err) == RF_EDATA && strstr(err.msg, "byte 65"),
	   "65 nested lists are refused");
	ok(rf_jscan_check(buf + 1, 128, &v, &err) == RF_OK, "64 nested lists are accepted");
}

static void test_values(void)
{
	static const struct {
		const char *in, *out;
		size_t n;
	} strings[] = {
		{ "\"\"", "", 0 },
		{ "\"a\\nb\\tc\"", "a\nb\tc", 5 },
		{ "\"\\\"\\\\\\/\\b\\f\\r\"", "\"\\/\b\f\r", 6 },
		{ "\"x\\u0000y\"", "x\0y", 3 },
		{ "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00z\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", 11 },
		{ "\"plain\"", "plain", 5 },
		{ "\"\\uFFFF\\u007f\\u0080\\u07ff\\u0800\"", "\xef\xbf\xbf\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80",
		  11 },
	};
	static const struct {
		const char *in;
		bool is_int, is_uint;
		int64_t i;
	} numbers[] = {
		{ "0", true, true, 0 },
		{ "-0", true, true, 0 },
		{ "12", true, true, 12 },
		{ "-12", true, false, -12 },
		{ "9223372036854775807", true, true, INT64_MAX },
		{ "9223372036854775808", false, true, 0 },
		{ "-9223372036854775808", true, false, INT64_MIN },
		{ "-9223372036854775809", false, false, 0 },
		{ "18446744073709551615", false, true, 0 },
		{ "18446744073709551616", false, false, 0 },
		{ "1.0", false, false, 0 },
		{ "1e2", false, false, 0 },
		{ "\"1\"", false, false, 0 },
		{ "[1]", false, false, 0 },
		{ "null", false, false, 0 },
		{ "NaN", false, false, 0 },
		{ "-Infinity", false, false, 0 },
	};
	char buf[100];
	struct rf_jvalue v, k, each = { NULL, 0 };
	int64_t i;
	uint64_t u;
	double x;
	size_t n;

	for (size_t s = 0; s < sizeof strings / sizeof *strings; s++) {
		strcpy(buf, strings[s].in);
		bool good = rf_jscan_check(buf, strlen(buf), &v, &err) == RF_OK;
		if (strlen(strings[s].out) == strings[s].n)
			good = good && rf_jscan_equals(&v, strings[s].out);
		good = good && !rf_jscan_equals(&v, "A") && !rf_jscan_equals(&v, "plainly") &&
		       !rf_jscan_equals(&v, "plai");
		good = good && !memcmp(rf_jscan_text(&v, &n), strings[s].out, strings[s].n + 1) &&
		       n == strings[s].n;
		ok(good, "the string %s has the expected text", strings[s].in);
	}
	for (size_t s = 0; s < sizeof numbers / sizeof *numbers; s++) {
		strcpy(buf, numbers[s].in);
		bool good = rf_jscan_check(buf, strlen(buf), &v, &err) == RF_OK;
		good = good && rf_jscan_int(&v, &i) == numbers[s].is_int &&
		       (!numbers[s].is_int || i == numbers[s].i);
		good = good && rf_jscan_uint(&v, &u) == numbers[s].is_uint &&
		       (!numbers[s].is_uint || u == strtoull(buf + (*buf == '-'), NULL, 10));
		ok(good, "the number %s is read as an integer if it is one", numbers[s].in);
	}
	for (int s = 0; s < 3; s++) {
		strcpy(buf, (const char *[]){ "NaN", "Infinity", "-Infinity" }[s]);
		ok(rf_jscan_check(buf, strlen(buf), &v, &err) == RF_OK && !rf_jscan_real(&v, &x),
		   "%s is not read as a number", buf);
	}
	strcpy(buf, "{\"\\ud800\":1,\"a\":\"\\udc00\",\"b\":2}");
	rf_jscan_check(buf, strlen(buf), &v, &err);
	ok(rf_jscan_get(&v, "b", &k, &err) == RF_OK && rf_jscan_int(&k, &i) && i == 2 &&
	           rf_jscan_get(&v, "a", &k, &err) == RF_OK && rf_jscan_text(&k, &n) && n == 3 &&
	           !rf_utf8(k.s, n),
	   "an object with unpaired surrogates is read, and their text is not UTF-8");
	strcpy(buf, "[1.5,-2e-3,1e999,7,\"1\"]");
	rf_jscan_check(buf, strlen(buf), &v, &err);
	ok(rf_jscan_next(&v, NULL, &each) && rf_jscan_real(&each, &x) && x == 1.5 &&
	           rf_jscan_next(&v, NULL, &each) && rf_jscan_real(&each, &x) && x == -2e-3 &&
	           rf_jscan_next(&v, NULL, &each) && !rf_jscan_real(&each, &x) &&
	           rf_jscan_next(&v, NULL, &each) && rf_jscan_real(&each, &x) && x == 7 &&
	           rf_jscan_next(&v, NULL, &each) && !rf_jscan_real(&each, &x) &&
	           !rf_jscan_next(&v, NULL, &each),
	   "the elements of a list come in order; infinity and strings are not read as numbers");
	strcpy(buf, " { \"a\" : [ { \"a\" : 1 } ] , \"\\u0062\" : 2 , \"c\":3,\"c\":4} ");
	rf_jscan_check(buf, strlen(buf), &v, &err);
	ok(rf_jscan_get(&v, "a", &k, &err) == RF_OK && k.n == 15 && rf_jscan_is_list(&k),
	   "the value of a key is found whole, with all nested values");
	ok(rf_jscan_get(&v, "b", &k, &err) == RF_OK && rf_jscan_int(&k, &i) && i == 2,
	   "a key that is written with an escape is found");
	ok(rf_jscan_get(&v, "c", &k, &err) == RF_EDATA && !strcmp(err.msg, "the key 'c' occurs twice"),
	   "a key that occurs twice is refused");
	ok(rf_jscan_get(&v, "d", &k, &err) == RF_EDATA && !strcmp(err.msg, "the key 'd' is missing") && !k.s,
	   "a missing key is refused");
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Returns the lines of a file with '|' after each.  If reading fails, '!' and the exit status follow, as in
 * "a|!65". */
static char *lines_of(const char *path, size_t max, char *out)
{
	struct rf_lines *l;
	char *line, *o = out;
	size_t n;
	enum rf_code rc = rf_lines_open(&l, path, max, &err);

	while (rc == RF_OK && (rc = rf_lines_next(l, &line, &n, &err)) == RF_OK) {
		memcpy(o, line, n);
		o += n;
		*o++ = '|';
	}
	*o = 0;
	if (rc != RF_EOF)
		sprintf(o, "!%d", rf_exit_status(rc));
	if (rc == RF_EOF || rc == RF_EDATA || rc == RF_EIO)
		rf_lines_close(l);
	return out;
}

static void test_lines(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },
		{ "\n", "|" },
		{ "a", "a|" },
		{ "a\n", "a|" },
		{ "a\nb", "a|b|" },
		{ "\n\na\n", "||a|" },
		{ "a\r\nb\r\n", "a\r|b\r|" },
		{ "\x28\xb5\x2f", "\x28\xb5\x2f|" },
	};
	static char big[200000], out[400000], packed[400000];
	struct rf_lines *l;
	size_t n, m;
	char *text;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		n = strlen(cases[i].in);
		put_file("f", cases[i].in, n);
		ok(!strcmp(lines_of("f", 0, out), cases[i].out), "the lines of '%s' are read",
		   rf_quote((char[80]){ 0 }, 80, cases[i].in, n));
		n = ZSTD_compress(packed, sizeof packed, cases[i].in, n, 1);
		put_file("f.zst", packed, n);
		ok(!strcmp(lines_of("f.zst", 0, out), cases[i].out),
		   "the same lines are read from a compressed file");
		put_file("f", packed, n);
		ok(!strcmp(lines_of("f", 0, out), cases[i].out),
		   "a compressed file without .zst is known by its magic number");
	}
	ok(!strcmp(lines_of("missing", 0, out), "!66") && !strcmp(lines_of(".", 0, out), "!66"),
	   "a missing file and a folder cannot be read");

	/* The bound is 100000 bytes.  Lines of that length, and of one byte more, begin at several positions
	 * in the buffer. */
	for (size_t before = 0; before < 3; before++) {
		memset(big, 'x', sizeof big);
		for (size_t i = 0; i < before; i++)
			memcpy(big + 2 * i, "a\n", 2);
		m = 2 * before + 100000;
		big[m] = '\n';
		put_file("f", big, m + 3);
		n = strlen(lines_of("f", 100000, out));
		ok(n == m + 4 && !strcmp(out + m, "|xx|"), "a line as long as the bound is read");
		put_file("f", big, m);
		ok(strlen(lines_of("f", 100000, out)) == m + 1,
		   "a line as long as the bound, without its newline, is read");
		big[m] = 'x';
		big[m + 1] = '\n';
		put_file("f", big, m + 2);
		ok(!strcmp(lines_of("f", 100000, out), &"a|a|!65"[4 - 2 * before]) &&
		           !strcmp(strstr(err.msg, "longer"), "longer than 100000 bytes"),
		   "a line of one byte more is refused");
		put_file("f", big, m + 1);
		ok(!strcmp(lines_of("f", 100000, out), &"a|a|!65"[4 - 2 * before]),
		   "a line of one byte more, without its newline, is refused");
	}
	put_file("f", big, 100000);
	ok(rf_lines_open(&l, "f", 100000, &err) == RF_OK && rf_lines_rest(l, &text, &n, &err) == RF_OK &&
	           n == 100000 && !memcmp(text, big, n),
	   "a file as long as the bound is read whole");
	ok(rf_lines_rest(l, &text, &n, &err) == RF_OK && n == 0, "the rest after the whole file is empty");
	rf_lines_close(l);
	put_file("f", big, 100001);
	ok(rf_lines_open(&l, "f", 100000, &err) == RF_OK && rf_lines_rest(l, &text, &n, &err) == RF_EDATA,
	   "a file of one byte more is refused");
	rf_lines_close(l);
}

static void test_zstd(void)
{
	static char plain[3000], packed[10000], out[10000];
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t n, m = 0;
	bool good = true;

	for (size_t i = 0; i < sizeof plain; i++)
		plain[i] = i % 37 == 36 ? '\n' : (char)('a' + XXH64(&i, sizeof i, 0) % 26);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	n = ZSTD_compress2(c, packed, sizeof packed, plain, sizeof plain);
	for (size_t cut = 0; cut < n && good; cut++) {
		put_file("f.zst", packed, cut);
		lines_of("f.zst", 0, out);
		good = strlen(out) >= 3 && !strcmp(out + strlen(out) - 3, "!65");
	}
	ok(good, "a .zst file that is cut off at any byte is refused");
	for (size_t bit = 0; bit < 8 * n && good; bit += 7) {
		packed[bit / 8] ^= (char)(1 << bit % 8);
		put_file("f.zst", packed, n);
		packed[bit / 8] ^= (char)(1 << bit % 8);
		lines_of("f.zst", 0, out);
		/* a flipped bit of the frame's header may change nothing in its meaning */
		good = !strcmp(out + strlen(out) - 3, "!65") || strlen(out) == sizeof plain + 1;
	}
	ok(good, "a .zst file with a flipped bit is refused, or gives all of its lines");

	/* the frames are "a\nb", an empty one, a skippable one, and "c" */
	static const unsigned char skip[] = { 0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3 };
	m = ZSTD_compress(packed, sizeof packed, "a\nb", 3, 1);
	m += ZSTD_compress(packed + m, sizeof packed - m, "", 0, 1);
	memcpy(packed + m, skip, sizeof skip);
	m += sizeof skip;
	m += ZSTD_compress(packed + m, sizeof packed - m, "c", 1, 1);
	put_file("f.zst", packed, m);
	ok(!strcmp(lines_of("f.zst", 0, out), "a|bc|"), "the frames of a .zst file are read as one text");
	memmove(packed + sizeof skip, packed, m);
	memcpy(packed, skip, sizeof skip);
	memcpy(packed + sizeof skip + m, skip, sizeof skip);
	put_file("f", packed, m + 2 * sizeof skip);
	ok(!strcmp(lines_of("f", 0, out), "a|bc|"),
	   "skippable frames at the beginning and the end are skipped, also without .zst");
	put_file("f", packed, m + 2 * sizeof skip - 1);
	ok(strstr(lines_of("f", 0, out), "!65"), "a skippable frame that is cut off is refused");
	put_file("f", packed, sizeof skip);
	ok(!strcmp(lines_of("f", 0, out), ""), "a file with only a skippable frame has no lines");
	memmove(packed, packed + sizeof skip, m);
	packed[m] = 'x';
	put_file("f.zst", packed, m + 1);
	ok(strstr(lines_of("f.zst", 0, out), "!65"), "bytes after the last frame are refused");
	put_file("f.zst", "text\n", 5);
	ok(!strcmp(lines_of("f.zst", 0, out), "!65"), "a .zst file that is not compressed is refused");
	ZSTD_freeCCtx(c);
}

/* ---- cutting documents --------------------------------------------------------------------- */

/* Returns the sequences of a text of the n bytes 'a', 'b', ..., in the form "abc.|de|": '.' is the end
 * token.  An error adds '!' and the exit status, and a record with wrong fields adds '?'. */
static char *cut_letters(int n, struct rf_sequences_options *o, char summary[400], char *out)
{
	static char name[] = "cut.txt", *const paths[] = { name };
	struct rf_text_options text_options = RF_TEXT_DEFAULTS;
	struct rf_tokenizer *tok;
	struct rf_text *text;
	struct rf_sequences *s;
	const struct rf_record *r;
	char letters[26], *p = out;
	uint64_t id = 0;
	enum rf_code rc;

	for (int i = 0; i < 26; i++)
		letters[i] = (char)('a' + i);
	put_file(name, letters, (size_t)n);
	if (rf_tokenizer_bytes(&tok, &err) != RF_OK ||
	    rf_text_open(&text, &text_options, paths, 1, &err) != RF_OK ||
	    rf_sequences_open(&s, o, tok, text, text_options.max_record, &err) != RF_OK)
		exit(1);
	while ((rc = rf_sequences_next(s, &r, &err)) == RF_OK) {
		if (r->id != id++ || rf_record_check(r, 384, &err) != RF_OK || r->prompt_len != -1 ||
		    r->answers != -1)
			p += sprintf(p, "?");
		for (int i = 0; i < r->T; i++)
			*p++ = r->tokens[i] == 1 ? '.' : (char)(r->tokens[i] - 3);
		*p++ = '|';
	}
	*p = 0;
	if (rc != RF_EOF)
		sprintf(p, "!%d", rf_exit_status(rc));
	rf_sequences_summary(s, summary, 400);
	rf_sequences_close(s);
	rf_text_close(text);
	rf_tokenizer_free(tok);
	return out;
}

static void test_cuts(void)
{
	const enum rf_truncate E = RF_TRUNCATE_ERROR, L = RF_TRUNCATE_LEFT, R = RF_TRUNCATE_RIGHT,
			       S = RF_TRUNCATE_SPLIT;
	/* n: bytes of the document; cut: documents that are cut or split; left_out: tokens */
	const struct {
		int n, max, min;
		enum rf_truncate truncate;
		int no_eos;
		const char *out;
		int kept, cut, dropped, left_out;
	} cases[] = {
		{ 3, 0, 1, E, 0, "abc.|", 1, 0, 0, 0 },
		{ 0, 0, 1, E, 0, ".|", 1, 0, 0, 0 },
		{ 0, 0, 1, E, 1, "", 0, 0, 1, 0 },
		{ 3, 4, 1, E, 0, "abc.|", 1, 0, 0, 0 },
		{ 4, 4, 1, E, 0, "!65", 0, 0, 0, 0 },
		{ 4, 4, 1, E, 1, "abcd|", 1, 0, 0, 0 },
		{ 3, 4, 1, L, 0, "abc.|", 1, 0, 0, 0 },
		{ 4, 4, 1, L, 0, "bcd.|", 1, 1, 0, 1 },
		{ 9, 4, 1, L, 0, "ghi.|", 1, 1, 0, 6 },
		{ 9, 4, 1, L, 1, "fghi|", 1, 1, 0, 5 },
		{ 3, 4, 1, R, 0, "abc.|", 1, 0, 0, 0 },
		{ 4, 4, 1, R, 0, "abcd|", 1, 1, 0, 1 },
		{ 9, 4, 1, R, 0, "abcd|", 1, 1, 0, 6 },
		{ 3, 4, 1, S, 0, "abc.|", 1, 0, 0, 0 },
		{ 4, 4, 1, S, 0, "abcd|.|", 1, 1, 0, 0 },
		{ 7, 4, 1, S, 0, "abcd|efg.|", 1, 1, 0, 0 },
		{ 8, 4, 1, S, 0, "abcd|efgh|.|", 1, 1, 0, 0 },
		{ 8, 4, 2, S, 0, "abcd|efgh|", 1, 1, 0, 1 },
		{ 9, 4, 2, S, 0, "abcd|efgh|i.|", 1, 1, 0, 0 },
		{ 9, 4, 3, S, 0, "abcd|efgh|", 1, 1, 0, 2 },
		{ 4, 4, 4, S, 0, "abcd|", 1, 1, 0, 1 },
		{ 3, 1, 1, S, 0, "a|b|c|.|", 1, 1, 0, 0 },
		{ 3, 0, 4, E, 0, "abc.|", 1, 0, 0, 0 },
		{ 3, 0, 5, E, 0, "", 0, 0, 1, 4 },
		{ 3, 5, 5, S, 0, "", 0, 0, 1, 4 },
		{ 3, 4, 4, R, 0, "abc.|", 1, 0, 0, 0 },
	};
	static const char *const modes[] = { "error", "left", "right", "split" }; /* by enum rf_truncate */
	char out[200], summary[400], want[400], what[80];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rf_sequences_options o = {
			.max_len = cases[i].max,
			.min_len = cases[i].min,
			.truncate = cases[i].truncate,
			.documents = { .no_eos = cases[i].no_eos, .threads = 1 + (int)(i % 2) },
		};
		int sequences = 0, tokens = 0;

		cut_letters(cases[i].n, &o, summary, out);
		for (const char *c = cases[i].out; *c; c++)
			*c == '|' ? sequences++ : tokens++;
		/* a document that lost tokens and gave one sequence was cut, but not split */
		if (cases[i].truncate != S)
			snprintf(what, sizeof what, "%d of them cut", cases[i].cut);
		else if (cases[i].cut && cases[i].left_out)
			snprintf(what, sizeof what, "%d of them split, 1 of them cut", sequences > 1);
		else
			snprintf(what, sizeof what, "%d of them split", cases[i].cut);
		snprintf(want, sizeof want,
		         "1 document: %d kept (%s), %d dropped; "
		         "%d sequence%s of %d token%s, %d left out",
		         cases[i].kept, what, cases[i].dropped, sequences, sequences == 1 ? "" : "s", tokens,
		         tokens == 1 ? "" : "s", cases[i].left_out);
		ok(!strcmp(out, cases[i].out) && (*out == '!' || !strcmp(summary, want)),
		   "%d bytes%s, --min-len %d, --max-len %d, --truncate %s: %s", cases[i].n,
		   cases[i].no_eos ? "" : " and an end token", cases[i].min, cases[i].max,
		   modes[cases[i].truncate], out);
	}
}

/* ---- strings and words --------------------------------------------------------------------- */

static void test_strings(void)
{
	static const struct {
		const char *bytes, *json;
	} cases[] = {
		{ "a\"\\\n\x01", "\"a\\\"\\\\\\n\\u0001\"" },
		{ "\xC3\xA9", "\"\xC3\xA9\"" },
		{ "a\xC3", "\"a\xEF\xBF\xBD\"" },
		{ "\xFFz\xE2\x82", "\"\xEF\xBF\xBDz\xEF\xBF\xBD\"" },
		{ "\xE2\x80\xAE", "\"\\u202e\"" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rf_buf b = { 0 };

		rf_print_string(&b, cases[i].bytes, strlen(cases[i].bytes));
		rf_buf_add(&b, "", 1);
		ok(!strcmp((char *)b.p, cases[i].json), "a string is printed as JSON: %s", (char *)b.p);
		rf_buf_free(&b);
	}
}

/* Checks that two lines count as the same if only the --lr of a trainer's command differs. */
static void test_words(void)
{
	static const struct {
		const char *a, *b, *was, *now;
		bool same;
	} cases[] = {
		{ "rf-ntp --lr 1e-3", "rf-ntp --lr 1e-4", "1e-3", "1e-4", true },
		{ "bin/rf-grpo --lr=1e-3 | y", "bin/rf-grpo --lr=1e-4 | y", "1e-3", "1e-4", true },
		{ "x |\nrf-ntp --lr 1e-3", "x |\nrf-ntp --lr 1e-4", "1e-3", "1e-4", true },
		{ "rf-ntp \\\n--lr 1e-3\ny", "rf-ntp \\\n--lr 1e-4\ny", "1e-3", "1e-4", true },
		{ "rf-ntp --lr \\\n 1e-3 \\\n z", "rf-ntp --lr \\\n 1e-4 \\\n z", "1e-3", "1e-4", true },
		{ "rf-ntp --lr 1e-3\\\n", "rf-ntp --lr 1e-4\\\n", "1e-3", "1e-4", true },
		{ "x\n\trf-ntp\t--lr\t1e-3", "x\n\trf-ntp\t--lr\t1e-4", "1e-3", "1e-4", true },
		{ "if a; then rf-ntp --lr 1; fi", "if a; then rf-ntp --lr 2; fi", "1", "2", true },
		{ "A=1 rf-ntp -m \"$RUN\" --lr 1|b", "A=1 rf-ntp -m \"$RUN\" --lr 2|b", "1", "2", true },
		{ "rf-ntp $((A * (B + 1))) --lr 1", "rf-ntp $((A * (B + 1))) --lr 2", "1", "2", true },
		{ "rf-ntp --lr 1 | rf-ntp --lr 2", "rf-ntp --lr 1 | rf-ntp --lr 3", "2", "3", true },
		{ "rf-ntp >log --lr 1", "rf-ntp >log --lr 2", "1", "2", true },
		{ "rf-ntp --lr '1 2'", "rf-ntp --lr '1 3'", "'1 2'", "'1 3'", true },
		{ "rf-ntp --lr 1e-3\ny", "rf-ntp --lr 1e-4\nz", NULL, NULL, false },
		{ "rf-ntp --lrs 1\n", "rf-ntp --lrs 2\n", NULL, NULL, false },
		{ "rf-ntp x--lr 1\n", "rf-ntp x--lr 2\n", NULL, NULL, false },
		{ "rf-ntp --lr", "rf-ntp --lr", NULL, NULL, true },
		{ "judge --lr 1 | rf-ntp --lr 1", "judge --lr 2 | rf-ntp --lr 1", NULL, NULL, false },
		{ "rf-ntp | judge --lr 1", "rf-ntp | judge --lr 2", NULL, NULL, false },
		{ "rf-ntp -a\njudge --lr 1", "rf-ntp -a\njudge --lr 2", NULL, NULL, false },
		{ "x --exec 'rf-ntp --lr 1'", "x --exec 'rf-ntp --lr 2'", NULL, NULL, false },
		{ "rf-ntp --x \"$(j --lr 1)\"", "rf-ntp --x \"$(j --lr 2)\"", NULL, NULL, false },
		{ "rf-ntp --x $(j --lr 1)", "rf-ntp --x $(j --lr 2)", NULL, NULL, false },
		{ "rf-ntp --x \"a\\\" --lr 1\"", "rf-ntp --x \"a\\\" --lr 2\"", NULL, NULL, false },
		{ "rf-ntp2 --lr 1", "rf-ntp2 --lr 2", NULL, NULL, false },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rf_buf a = { 0 }, b = { 0 };
		char *was, *now;
		bool same;

		for (int k = 0; k < 2; k++) {
			struct rf_buf *words = k ? &b : &a;

			rf_words_add(words, "seed", "1");
			rf_words_add(words, "line", k ? cases[i].b : cases[i].a);
			rf_words_add(words, "other", "x --lr 5");
		}
		same = rf_words_same_but(&a, &b, "late", "line", "--lr", "rf-grpo rf-ntp", &was, &now);
		ok(same == cases[i].same && !was == !cases[i].was && (!was || !strcmp(was, cases[i].was)) &&
		           !now == !cases[i].now && (!now || !strcmp(now, cases[i].now)),
		   "case %zu: the lines are the same except for --lr: %s, from %s to %s", i,
		   same ? "yes" : "no", was ? was : "-", now ? now : "-");
		free(was);
		free(now);
		rf_buf_free(&a);
		rf_buf_free(&b);
	}
}

int main(void)
{
	test_bytes();
	test_grammar();
	test_values();
	test_lines();
	test_zstd();
	test_cuts();
	test_strings();
	test_words();
	return tap_end();
}
