/* json -- tests the JSON form of messages: every value, also of a kind that JSON lacks, comes back as the
 * same bytes.  Prints TAP. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "stream/msg.h"
#include "stream/wire.h"
#include "unit/tap.h"

/* Converts a message to JSON, which is stored in *line, and back.  Returns NULL, or why this failed. */
static const char *round_trip(const void *msg, size_t n, char **line)
{
	static struct rf_err e;
	void *back = NULL;
	size_t len, m = 0;
	bool same;

	free(*line);
	*line = NULL;
	if (rf_msg_to_json(msg, n, line, &len, &e) != RF_OK ||
	    rf_msg_from_json(*line, len, &back, &m, &e) != RF_OK)
		return e.msg;
	same = len == strlen(*line) && m == n && !memcmp(msg, back, n);
	free(back);
	return same ? NULL : "other bytes";
}

/* ---- single values ------------------------------------------------------------------------- */

static struct rf_buf buf;
static msgpack_packer pk;

/* Begins a message with the body {"x": VALUE}.  The caller packs the value next. */
static void begin_value(void)
{
	buf.n = 0;
	rf_pack_init(&pk, &buf);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, 7);
	rf_pack_text(&pk, "seq");
	msgpack_pack_map(&pk, 1);
	rf_pack_text(&pk, "x");
}

/* Checks that the value packed since begin_value() is written as `want` (NULL: any text), and is the same
 * when it is read again. */
static void check_value(const char *name, const char *want)
{
	char *line = NULL, *x;
	const char *why = round_trip(buf.p, buf.n, &line);

	if (!why && want) {
		x = strstr(line, "\"x\":") + 4;
		x[strlen(x) - 2] = 0;
		if (strcmp(x, want))
			why = x;
	}
	ok(!why, "%s is %s, and comes back: %s", name, want ? want : "written", why ? why : "yes");
	free(line);
}

static void test_integers(void)
{
	static const int64_t some[] = {
		0,
		1,
		127,
		128,
		255,
		256,
		65535,
		65536,
		4294967295,
		4294967296,
		INT64_C(1) << 53,
		(INT64_C(1) << 53) + 1,
		INT64_MAX,
		-1,
		-32,
		-33,
		-128,
		-129,
		-32768,
		-32769,
		-2147483648,
		-2147483649,
		-(INT64_C(1) << 53),
		-(INT64_C(1) << 53) - 1,
		INT64_MIN,
	};
	char name[60];

	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		begin_value();
		msgpack_pack_int64(&pk, some[i]);
		snprintf(name, sizeof name, "integer %lld", (long long)some[i]);
		check_value(name, NULL);
	}
	begin_value();
	msgpack_pack_uint64(&pk, UINT64_MAX);
	check_value("2^64-1", "\"18446744073709551615\"");
	begin_value();
	msgpack_pack_int64(&pk, (INT64_C(1) << 53) + 1);
	check_value("2^53+1", "\"9007199254740993\"");
	begin_value();
	msgpack_pack_int64(&pk, INT64_C(1) << 53);
	check_value("2^53", "9007199254740992");
}

static void test_reals(void)
{
	static const struct {
		double v;
		const char *text;
	} some[] = {
		{ 1, "1.0" },
		{ -0.0, "-0.0" },
		{ 0, "0.0" },
		{ 0.1, "0.1" },
		{ 1e300, "1e+300" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 5e-324, "5e-324" },
		{ 0.166667, "0.166667" },
		{ 2.2250738585072014e-308, "2.2250738585072014e-308" },
		{ 1e15, "1e+15" },
		{ 123456, "123456.0" },
		{ 1e22, "1e+22" },
		{ 123456789012345678.0, "1.2345678901234568e+17" },
		{ 0.8, "0.8" },
	};
	uint64_t x = 88172645463325252, bad = 0;
	char *line = NULL;

	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		begin_value();
		msgpack_pack_double(&pk, some[i].v);
		check_value("float", some[i].text);
	}
	for (int i = 0; i < 20000; i++) {
		double v;
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		memcpy(&v, &x, 8);
		if (!isfinite(v))
			continue;
		begin_value();
		msgpack_pack_double(&pk, v);
		bad += round_trip(buf.p, buf.n, &line) != NULL;
	}
	free(line);
	ok(!bad, "all of 20000 random doubles come back: %d do not", (int)bad);
}

/* Returns whether a text has the fewest digits from which both ways of reading get the number back.  A
 * number that needs fewer than six digits is written as with six: 922330 instead of 9.2233e+05. */
static bool is_shortest(const char *text, float f)
{
	char fewest[40];
	int digits = 0;

	do
		snprintf(fewest, sizeof fewest, "%.*g", ++digits, (double)f);
	while (digits < 9 && (strtof(fewest, NULL) != f || (float)strtod(fewest, NULL) != f));
	if (digits < 6 && fabsf(f) >= FLT_MIN)
		snprintf(fewest, sizeof fewest, "%.6g", (double)f);
	return !strcmp(text, fewest) && strtof(text, NULL) == f && (float)strtod(text, NULL) == f;
}

static void test_singles(void)
{
	static const struct {
		float v;
		const char *text;
	} some[] = {
		{ 1, "1" },
		{ -0.0f, "-0.0" },
		{ 0, "0" },
		{ 0.1f, "0.1" },
		{ 0.166667f, "0.166667" },
		{ 1.0f / 3, "0.33333334" },
		{ 1e-45f, "1e-45" },
		{ 16777216, "16777216" },
		{ 3.4028235e38f, "3.4028235e+38" },
		/* the text 7.038531e-26 is shorter, but read as a double it lies in the middle of two
		 * float32s, and is rounded to the other one */
		{ 7.038531e-26f, "7.0385307e-26" },
	};
	uint64_t x = 88172645463325252, bad = 0, longer = 0;
	struct rf_buf b = { 0 };
	char *line = NULL;

	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		b.n = 0;
		rf_print_single(&b, some[i].v);
		rf_buf_add(&b, "", 1);
		ok(!strcmp((char *)b.p, some[i].text), "the float32 %s is printed as %s", some[i].text,
		   (char *)b.p);
		begin_value();
		msgpack_pack_map(&pk, 3);
		rf_pack_text(&pk, "dtype");
		rf_pack_text(&pk, "<f4");
		rf_pack_text(&pk, "shape");
		msgpack_pack_array(&pk, 1);
		msgpack_pack_uint64(&pk, 1);
		rf_pack_text(&pk, "data");
		rf_pack_bin(&pk, &some[i].v, 4);
		bad += round_trip(buf.p, buf.n, &line) != NULL;
	}
	ok(!bad, "all float32s in an array come back: %d do not", (int)bad);
	for (int i = 0; i < 20000; i++) {
		float v;
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		memcpy(&v, &x, 4);
		if (!isfinite(v))
			continue;
		b.n = 0;
		rf_print_single(&b, v);
		rf_buf_add(&b, "", 1);
		longer += !is_shortest((char *)b.p, v);
	}
	ok(!longer, "all of 20000 random float32s are printed with the fewest digits: %d are not",
	   (int)longer);
	rf_buf_free(&b);
	free(line);
}

static void test_strings(void)
{
	static const struct {
		const char *s;
		size_t n;
		const char *json;
	} some[] = {
		{ "", 0, "\"\"" },
		{ "a\"b\\c\n\t\x7f", 8, "\"a\\\"b\\\\c\\n\\u0009\\u007f\"" },
		{ "\0x", 2, "\"\\u0000x\"" },
		{ "\xc3\xbc\xf0\x9f\x98\x80", 6, "\"\xc3\xbc\xf0\x9f\x98\x80\"" },
		{ "\xc2\x9b[2J", 5, "\"\\u009b[2J\"" },
		{ "\xc2\xa0", 2, "\"\xc2\xa0\"" },
		{ "12", 2, "\"12\"" },
		{ "9007199254740992", 16, "\"9007199254740992\"" },
		{ "9007199254740993", 16, "{\"literal\":\"9007199254740993\"}" },
		{ "-9007199254740993", 17, "{\"literal\":\"-9007199254740993\"}" },
		{ "18446744073709551615", 20, "{\"literal\":\"18446744073709551615\"}" },
		{ "18446744073709551616", 20, "\"18446744073709551616\"" },
		{ "09007199254740993", 17, "\"09007199254740993\"" },
		{ "-9223372036854775809", 20, "\"-9223372036854775809\"" },
		{ "9007199254740993 ", 17, "\"9007199254740993 \"" },
		{ "-", 1, "\"-\"" },
	};

	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		begin_value();
		rf_pack_str(&pk, some[i].s, some[i].n);
		check_value("string", some[i].json);
	}
}

static void test_other_values(void)
{
	unsigned char bytes[256];

	begin_value(), msgpack_pack_nil(&pk), check_value("nil", "null");
	begin_value(), msgpack_pack_true(&pk), check_value("true", "true");
	begin_value(), msgpack_pack_map(&pk, 0), check_value("empty map", "{}");
	begin_value(), msgpack_pack_array(&pk, 0), check_value("empty list", "[]");
	begin_value(), rf_pack_bin(&pk, "", 0), check_value("no bytes", "{\"base64\":\"\"}");
	begin_value(), rf_pack_bin(&pk, "f", 1), check_value("1 byte", "{\"base64\":\"Zg==\"}");
	begin_value(), rf_pack_bin(&pk, "fo", 2), check_value("2 bytes", "{\"base64\":\"Zm8=\"}");
	begin_value(), rf_pack_bin(&pk, "foo", 3), check_value("3 bytes", "{\"base64\":\"Zm9v\"}");
	for (int i = 0; i < 256; i++)
		bytes[i] = (unsigned char)(i * 7);
	begin_value(), rf_pack_bin(&pk, bytes, 256), check_value("256 bytes", NULL);

	begin_value(), msgpack_pack_map(&pk, 1), rf_pack_text(&pk, "base64"), rf_pack_text(&pk, "Zg==");
	check_value("a map {base64}", "{\"literal\":{\"base64\":\"Zg==\"}}");
	begin_value(), msgpack_pack_map(&pk, 1), rf_pack_text(&pk, "literal"), msgpack_pack_map(&pk, 1),
		rf_pack_text(&pk, "literal"), rf_pack_text(&pk, "9007199254740993");
	check_value("a map {literal}", "{\"literal\":{\"literal\":{\"literal\":{\"literal\":"
	                               "{\"literal\":\"9007199254740993\"}}}}}");
	begin_value(), msgpack_pack_map(&pk, 3);
	rf_pack_text(&pk, "data"), msgpack_pack_array(&pk, 1), msgpack_pack_int(&pk, 1);
	rf_pack_text(&pk, "dtype"), rf_pack_text(&pk, "<f4"), rf_pack_text(&pk, "shape"),
		msgpack_pack_array(&pk, 1), msgpack_pack_int(&pk, 1);
	check_value("a map like an array", "{\"literal\":{\"data\":[1],\"dtype\":\"<f4\",\"shape\":[1]}}");
}

static void test_arrays(void)
{
	static const float f4[] = { 1, -0.0f, 0.1f, 1e-45f, 3.4028235e38f, 16777217.0f };
	static const int32_t i4[] = { 0, -1, INT32_MAX, INT32_MIN };
	static const int64_t i8[] = { 0, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1 };
	static const uint16_t f2[] = { 0x3c00, 0x8000, 0x0001, 0x7bff, 0x03ff, 0x0400, 0xc000 };
	static const float nan[] = { NAN, 1 };
	uint32_t x = 2463534242, bad = 0;
	uint16_t all[63488];
	float random[2000];
	char *line = NULL;

	begin_value(), rf_pack_array(&pk, "<f4", 1, (int[]){ 6 }, f4, sizeof f4);
	check_value("<f4",
	            "{\"dtype\":\"<f4\",\"shape\":[6],\"data\":[1,-0.0,0.1,1e-45,3.4028235e+38,16777216]}");
	begin_value(), rf_pack_array(&pk, "<i4", 2, (int[]){ 2, 2 }, i4, sizeof i4);
	check_value("<i4", "{\"dtype\":\"<i4\",\"shape\":[2,2],\"data\":[0,-1,2147483647,-2147483648]}");
	begin_value(), rf_pack_array(&pk, "<i8", 1, (int[]){ 4 }, i8, sizeof i8);
	check_value("<i8", "{\"dtype\":\"<i8\",\"shape\":[4],\"data\":[0,\"9223372036854775807\",\"-"
	                   "9223372036854775808\",\"9007199254740993\"]}");
	begin_value(), rf_pack_array(&pk, "<f2", 1, (int[]){ 7 }, f2, sizeof f2);
	check_value("<f2", "{\"dtype\":\"<f2\",\"shape\":[7],\"data\":[1,-0.0,5.9604645e-08,65504,"
	                   "6.097555e-05,6.1035156e-05,-2]}");
	begin_value(), rf_pack_array(&pk, "|u1", 1, (int[]){ 3 }, "\0\x7f\xff", 3);
	check_value("|u1", "{\"dtype\":\"|u1\",\"shape\":[3],\"data\":[0,127,255]}");
	begin_value(), rf_pack_array(&pk, "<f4", 1, (int[]){ 0 }, NULL, 0);
	check_value("an empty array", "{\"dtype\":\"<f4\",\"shape\":[0],\"data\":[]}");
	begin_value(), rf_pack_array(&pk, "<f4", 1, (int[]){ 2 }, nan, sizeof nan);
	check_value("an array with a NaN",
	            "{\"dtype\":\"<f4\",\"shape\":[2],\"data\":{\"base64\":\"AADAfwAAgD8=\"}}");
	begin_value(), rf_pack_array(&pk, "<f8", 1, (int[]){ 1 }, "\0\0\0\0\0\0\xf0\x3f", 8);
	check_value("an unknown dtype",
	            "{\"dtype\":\"<f8\",\"shape\":[1],\"data\":{\"base64\":\"AAAAAAAA8D8=\"}}");
	begin_value(), rf_pack_array(&pk, "<f4", 1, (int[]){ 3 }, f4, 8);
	check_value("a shape that does not fit the bytes",
	            "{\"dtype\":\"<f4\",\"shape\":[3],\"data\":{\"base64\":\"AACAPwAAAIA=\"}}");

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 2000; i++)
			do {
				x ^= x << 13, x ^= x >> 17, x ^= x << 5;
				memcpy(&random[i], &x, 4);
			} while (!isfinite(random[i]));
		begin_value(), rf_pack_array(&pk, "<f4", 1, (int[]){ 2000 }, random, sizeof random);
		bad += round_trip(buf.p, buf.n, &line) != NULL;
	}
	ok(!bad, "100000 random float32s come back");
	for (uint32_t i = 0, n = 0; i < 65536; i++)
		if ((i >> 10 & 31) != 31)
			all[n++] = (uint16_t)i;
	begin_value(), rf_pack_array(&pk, "<f2", 1, (int[]){ 63488 }, all, sizeof all);
	ok(!round_trip(buf.p, buf.n, &line), "all %zu finite float16s come back", sizeof all / sizeof *all);
	free(line);
}

/* ---- wrong lines --------------------------------------------------------------------------- */

static void test_wrong_lines(void)
{
	static const char *const bodies[] = {
		"{\"base64\":1}",
		"{\"base64\":\"Zg=\"}",
		"{\"base64\":\"Z===\"}",
		"{\"base64\":\"Zg==Zg==\"}",
		"{\"base64\":\"Z!==\"}",
		"{\"literal\":1}",
		"{\"literal\":[]}",
		"{\"dtype\":\"<f4\",\"shape\":[2],\"data\":[1]}",
		"{\"dtype\":\"<f4\",\"shape\":[-1],\"data\":[1]}",
		"{\"dtype\":\"<f4\",\"shape\":2,\"data\":[1]}",
		"{\"dtype\":\"<f9\",\"shape\":[1],\"data\":[1]}",
		"{\"dtype\":\"<i4\",\"shape\":[1],\"data\":[2147483648]}",
		"{\"dtype\":\"<i4\",\"shape\":[1],\"data\":[1.5]}",
		"{\"dtype\":\"<f4\",\"shape\":[1],\"data\":[1e39]}",
		"{\"dtype\":\"<f4\",\"shape\":[1],\"data\":[null]}",
		"{\"dtype\":\"|u1\",\"shape\":[1],\"data\":[256]}",
		"{\"dtype\":\"<f2\",\"shape\":[1],\"data\":[65520]}",
		"{\"dtype\":\"<i4\",\"shape\":[4294967296,4294967296],\"data\":[]}",
		"{\"dtype\":\"<i8\",\"shape\":[1],\"data\":[\"9223372036854775808\"]}",
		"{\"a\":1,\"a\":2}",
		"{\"base64\":\"\",\"base64\":\"\"}",
		"1e999",
		"[[[[[[[[[1]]]]]]]]]",
		"{\"a\\u0000\":1}",
		"\"\\ud800\"",
		"\"\xff\"",
		"01",
		"nan",
		"[1,]",
	};
	static const char *const lines[] = {
		"",
		"[]",
		"1",
		"null",
		"{}",
		"{\"seq\":0,\"type\":\"head\"}",
		"{\"seq\":-1,\"type\":\"head\",\"body\":{}}",
		"{\"seq\":0,\"type\":1,\"body\":{}}",
		"{\"seq\":0,\"type\":\"head\",\"body\":[]}",
		"{\"seq\":0,\"type\":\"head\",\"body\":{},\"more\":1}",
		"{\"seq\":0,\"seq\":0,\"type\":\"head\",\"body\":{}}",
		"{\"seq\":0.0,\"type\":\"head\",\"body\":{}}",
		"{\"seq\":0,\"type\":\"head\",\"body\":{}} x",
		"{\"seq\":0,\"type\":\"head\",\"body\":{}",
	};
	struct rf_err e;
	char line[400];
	void *msg = NULL;
	size_t n;

	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		snprintf(line, sizeof line, "{\"seq\":1,\"type\":\"seq\",\"body\":{\"x\":%s}}", bodies[i]);
		ok(rf_msg_from_json(line, strlen(line), &msg, &n, &e) == RF_EDATA, "%s is refused: %s",
		   bodies[i], e.msg);
	}
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		ok(rf_msg_from_json(lines[i], strlen(lines[i]), &msg, &n, &e) == RF_EDATA,
		   "'%s' is refused: %s", lines[i], e.msg);
	strcpy(line, "{\"type\":\"seq\", \"body\":{\"x\":{\"data\":[1],\"shape\":[1],\"dtype\":\"<i4\"}} "
	             ",\"seq\":1}\r");
	ok(rf_msg_from_json(line, strlen(line), &msg, &n, &e) == RF_OK,
	   "a line with its keys in another order, and with blanks, is accepted");
	free(msg);
}

int main(void)
{
	test_integers();
	test_reals();
	test_singles();
	test_strings();
	test_other_values();
	test_arrays();
	test_wrong_lines();
	rf_buf_free(&buf);
	return tap_end();
}
