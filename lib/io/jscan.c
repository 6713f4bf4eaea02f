/* jscan.c -- a recursive descent parser for the grammar of RFC 8259 that stores nothing except its place.
 *
 * The same parser checks a text and later skips over its values.  A cursor is only a pointer and a length, so
 * finding an element means scanning the elements before it again. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/number.h"
#include "base/utf8.h"
#include "io/jscan.h"

struct scan {
	const unsigned char *s;
	size_t n, i;
	const char *wrong; /* the sentence about the error at i */
	size_t left;       /* number of values that are still allowed */
	bool over;         /* the text has more values, or is nested deeper */
	bool strict;       /* only RFC 8259, without the additions of Python's json */
};

static bool fail_at(struct scan *c, const char *what)
{
	if (!c->wrong)
		c->wrong = what;
	return false;
}

static void skip_space(struct scan *c)
{
	while (c->i < c->n &&
	       (c->s[c->i] == ' ' || c->s[c->i] == '\n' || c->s[c->i] == '\r' || c->s[c->i] == '\t'))
		c->i++;
}

static bool is_at(const struct scan *c, char what)
{
	return c->i < c->n && c->s[c->i] == (unsigned char)what;
}

static bool accept(struct scan *c, char what)
{
	if (!is_at(c, what))
		return false;
	c->i++;
	return true;
}

static bool scan_digits(struct scan *c)
{
	size_t start = c->i;

	while (c->i < c->n && c->s[c->i] >= '0' && c->s[c->i] <= '9')
		c->i++;
	return c->i > start || fail_at(c, "a digit");
}

static bool scan_number(struct scan *c)
{
	accept(c, '-');
	if (!accept(c, '0') && !scan_digits(c))
		return false;
	if (accept(c, '.') && !scan_digits(c))
		return false;
	if (accept(c, 'e') || accept(c, 'E')) {
		if (!accept(c, '+'))
			accept(c, '-');
		return scan_digits(c);
	}
	return true;
}

/* Returns the number in the four hex digits after "\u"; -1: they are missing. */
static long read_unit(const unsigned char *s, size_t n)
{
	char digits[5] = { 0 };

	for (size_t i = 0; i < 4; i++)
		if (i == n || !isxdigit(s[i]))
			return -1;
	return strtol(memcpy(digits, s, 4), NULL, 16);
}

/* Reads one escape (s[0] is the backslash) into at most 4 bytes of out; returns its length, 0 for a bad one.
 * An unpaired surrogate is read like a character; is_half() recognizes it. */
static size_t read_escape(const unsigned char *s, size_t n, char *out, size_t *written)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;
	size_t length = 6;
	long u, low;

	*written = 1;
	if (n < 2 || !s[1])
		return 0;
	*out = 0;
	if ((name = strchr(names, s[1]))) {
		*out = values[name - names];
		return 2;
	}
	if (s[1] != 'u' || (u = read_unit(s + 2, n - 2)) < 0)
		return 0;
	if (u >= 0xd800 && u < 0xdc00 && n >= 12 && s[6] == '\\' && s[7] == 'u' &&
	    (low = read_unit(s + 8, n - 8)) >= 0xdc00 && low < 0xe000) {
		u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
		length = 12;
	}
	*written = (size_t)utf8proc_encode_char((int32_t)u, (unsigned char *)out);
	return length;
}

/* Returns whether the bytes that read_escape() wrote are an unpaired surrogate, which is not UTF-8. */
static bool is_half(const char out[4])
{
	return (unsigned char)out[0] == 0xed && (unsigned char)out[1] >= 0xa0;
}

static bool scan_string(struct scan *c)
{
	char out[4];
	size_t len, written;
	int32_t code;

	if (!accept(c, '"'))
		return fail_at(c, "a string");
	while (c->i < c->n) {
		unsigned char b = c->s[c->i];
		if (b == '"') {
			c->i++;
			return true;
		}
		if (b < 0x20)
			return fail_at(c, "an escaped control character");
		if (b == '\\') {
			if (!(len = read_escape(c->s + c->i, c->n - c->i, out, &written)))
				return fail_at(c, "a JSON escape");
			if (c->strict && is_half(out))
				return fail_at(c, "a whole surrogate pair");
		} else if (b < 0x80) {
			len = 1;
		} else if (len = rf_utf8_next(c->s + c->i, c->n - c->i, &code), code < 0) {
			return fail_at(c, "UTF-8");
		}
		c->i += len;
	}
	return fail_at(c, "the end of the string");
}

static bool scan_word(struct scan *c, const char *w)
{
	size_t n = strlen(w);

	if (c->n - c->i < n || memcmp(c->s + c->i, w, n))
		return fail_at(c, "a value");
	c->i += n;
	return true;
}

static bool scan_value(struct scan *c, int depth);

static bool scan_container(struct scan *c, int depth)
{
	bool object = is_at(c, '{');
	char close = object ? '}' : ']';

	if (depth == 0) {
		c->over = true;
		return fail_at(c, "shallower nesting");
	}
	c->i++;
	skip_space(c);
	if (accept(c, close))
		return true;
	do {
		skip_space(c);
		if (object) {
			if (!is_at(c, '"'))
				return fail_at(c, "a key in quotes");
			if (!scan_string(c))
				return false;
			skip_space(c);
			if (!accept(c, ':'))
				return fail_at(c, "':'");
			skip_space(c);
		}
		if (!scan_value(c, depth - 1))
			return false;
		skip_space(c);
	} while (accept(c, ','));
	return accept(c, close) || fail_at(c, object ? "',' or '}'" : "',' or ']'");
}

static bool scan_value(struct scan *c, int depth)
{
	if (c->i == c->n)
		return fail_at(c, "a value");
	if (!c->left--) {
		c->over = true;
		return false;
	}
	switch (c->s[c->i]) {
	case '{':
	case '[': return scan_container(c, depth);
	case '"': return scan_string(c);
	case 't': return scan_word(c, "true");
	case 'f': return scan_word(c, "false");
	case 'n': return scan_word(c, "null");
	case 'N': return c->strict ? fail_at(c, "a value") : scan_word(c, "NaN");
	case 'I': return c->strict ? fail_at(c, "a value") : scan_word(c, "Infinity");
	case '-':
		if (!c->strict && c->i + 1 < c->n && c->s[c->i + 1] == 'I')
			return scan_word(c, "-Infinity");
		return scan_number(c);
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9': return scan_number(c);
	default: return fail_at(c, "a value");
	}
}

static enum rf_code check_text(char *s, size_t n, bool strict, struct rf_jvalue *v, struct rf_err *e)
{
	struct scan c = { .s = (unsigned char *)s, .n = n, .left = SIZE_MAX, .strict = strict };
	size_t start;

	skip_space(&c);
	start = c.i;
	if (scan_value(&c, RF_JSCAN_DEPTH)) {
		*v = (struct rf_jvalue){ s + start, c.i - start };
		skip_space(&c);
		if (c.i == n)
			return RF_OK;
		fail_at(&c, "the end");
	}
	*v = (struct rf_jvalue){ NULL, 0 };
	if (!c.i && n >= 3 && !memcmp(s, "\xef\xbb\xbf", 3))
		return rf_fail(e, RF_EDATA,
		               "not JSON: it begins with a byte order mark (remove its three bytes)");
	if (c.i == n && c.i == start)
		return rf_fail(e, RF_EDATA, "not JSON: it is empty");
	if (c.i == n)
		return rf_fail(e, RF_EDATA, "not JSON: it ends at byte %zu, where %s was expected", n + 1,
		               c.wrong);
	return rf_fail(e, RF_EDATA, "not JSON: byte %zu is '%s', where %s was expected", c.i + 1,
	               rf_quote((char[8]){ 0 }, 8, s + c.i, 1), c.wrong);
}

enum rf_code rf_jscan_check(char *s, size_t n, struct rf_jvalue *v, struct rf_err *e)
{
	return check_text(s, n, false, v, e);
}

enum rf_code rf_jscan_check_strict(char *s, size_t n, struct rf_jvalue *v, struct rf_err *e)
{
	return check_text(s, n, true, v, e);
}

bool rf_jscan_within(const char *s, size_t n, int depth, size_t values)
{
	struct scan c = { .s = (const unsigned char *)s, .n = n, .left = values };

	skip_space(&c);
	scan_value(&c, depth);
	return !c.over;
}

/* Returns whether a string has an unpaired surrogate. */
static bool is_broken(const struct rf_jvalue *v)
{
	const unsigned char *s = (unsigned char *)v->s, *at = s + 1, *end = s + v->n - 1;
	char out[4] = { 0 };
	size_t written;

	while ((at = memchr(at, '\\', (size_t)(end - at)))) {
		at += read_escape(at, (size_t)(end - at), out, &written);
		if (is_half(out))
			return true;
	}
	return false;
}

bool rf_jscan_is_string(const struct rf_jvalue *v) { return v->s[0] == '"' && !is_broken(v); }
bool rf_jscan_is_list(const struct rf_jvalue *v) { return v->s[0] == '['; }
bool rf_jscan_is_object(const struct rf_jvalue *v) { return v->s[0] == '{'; }

const char *rf_jscan_kind(const struct rf_jvalue *v)
{
	switch (v->s[0]) {
	case '{': return "an object";
	case '[': return "a list";
	case '"': return is_broken(v) ? "a broken string (an unpaired surrogate)" : "a string";
	case 'N': return "NaN";
	case 'I': return "Infinity";
	case '-': return v->n > 1 && v->s[1] == 'I' ? "-Infinity" : "a number";
	case 't': return "true";
	case 'f': return "false";
	case 'n': return "null";
	default: return "a number";
	}
}

bool rf_jscan_next(const struct rf_jvalue *of, struct rf_jvalue *key, struct rf_jvalue *v)
{
	struct scan c = { .s = (unsigned char *)of->s, .n = of->n, .i = 1, .left = SIZE_MAX };

	if (v->s)
		c.i = (size_t)(v->s + v->n - of->s);
	skip_space(&c);
	accept(&c, ',');
	skip_space(&c);
	if (is_at(&c, ']') || is_at(&c, '}'))
		return false;
	if (key) {
		key->s = of->s + c.i;
		scan_string(&c);
		key->n = (size_t)(of->s + c.i - key->s);
		skip_space(&c);
		accept(&c, ':');
		skip_space(&c);
	}
	v->s = of->s + c.i;
	scan_value(&c, RF_JSCAN_DEPTH);
	v->n = (size_t)(of->s + c.i - v->s);
	return true;
}

enum rf_code rf_jscan_pick(const struct rf_jvalue *object, const char *const *keys, int n,
                           struct rf_jvalue *values, struct rf_err *e)
{
	struct rf_jvalue k, each = { NULL, 0 };
	char q[80];

	for (int i = 0; i < n; i++)
		values[i] = each;
	while (rf_jscan_next(object, &k, &each))
		for (int i = 0; i < n; i++) {
			if (!rf_jscan_equals(&k, keys[i]))
				continue;
			if (values[i].s)
				return rf_fail(e, RF_EDATA, "the key '%s' occurs twice",
				               rf_quote(q, sizeof q, keys[i], strlen(keys[i])));
			values[i] = each;
		}
	return RF_OK;
}

enum rf_code rf_jscan_get(const struct rf_jvalue *object, const char *key, struct rf_jvalue *v,
                          struct rf_err *e)
{
	enum rf_code rc = rf_jscan_pick(object, &key, 1, v, e);
	char q[80];

	if (rc != RF_OK)
		return rc;
	if (!v->s)
		return rf_fail(e, RF_EDATA, "the key '%s' is missing",
		               rf_quote(q, sizeof q, key, strlen(key)));
	return RF_OK;
}

bool rf_jscan_equals(const struct rf_jvalue *v, const char *w)
{
	const unsigned char *s = (unsigned char *)v->s;
	size_t n = strlen(w), have = 0;
	char out[4] = { 0 };

	for (size_t i = 1, len, written; i < v->n - 1; i += len) {
		if (s[i] == '\\') {
			len = read_escape(s + i, v->n - 1 - i, out, &written);
		} else {
			len = written = 1;
			out[0] = (char)s[i];
		}
		if (n - have < written || memcmp(w + have, out, written))
			return false;
		have += written;
	}
	return have == n;
}

char *rf_jscan_text(struct rf_jvalue *v, size_t *n)
{
	const unsigned char *s = (unsigned char *)v->s;
	char *to = v->s, out[4];
	size_t i = 1;

	while (i < v->n - 1) {
		const void *next = memchr(s + i, '\\', v->n - 1 - i);
		size_t plain = (next ? (size_t)((const unsigned char *)next - s) : v->n - 1) - i, written;

		memmove(to, s + i, plain);
		to += plain;
		i += plain;
		if (!next)
			break;
		i += read_escape(s + i, v->n - 1 - i, out, &written);
		memcpy(to, out, written);
		to += written;
	}
	*to = 0;
	*n = (size_t)(to - v->s);
	return v->s;
}

/* Reads the digits of a whole number.  Returns false if it has a fraction or an exponent, or does not fit. */
static bool read_whole(const struct rf_jvalue *v, bool *negative, uint64_t *u)
{
	*negative = v->s[0] == '-';
	return rf_number(v->s + *negative, v->n - *negative, u);
}

bool rf_jscan_int(const struct rf_jvalue *v, int64_t *i)
{
	bool negative;
	uint64_t u;

	if (!read_whole(v, &negative, &u) || u > (uint64_t)INT64_MAX + negative)
		return false;
	*i = negative ? -(int64_t)(u - (u > 0)) - (u > 0) : (int64_t)u;
	return true;
}

bool rf_jscan_uint(const struct rf_jvalue *v, uint64_t *u)
{
	bool negative;

	return read_whole(v, &negative, u) && (!negative || *u == 0);
}

bool rf_jscan_real(const struct rf_jvalue *v, double *x)
{
	char buf[400], *end;
	bool negative;
	uint64_t u;

	/* no double needs more digits than this */
	if ((v->s[0] != '-' && (v->s[0] < '0' || v->s[0] > '9')) || v->n >= sizeof buf)
		return false;
	memcpy(buf, v->s, v->n);
	buf[v->n] = 0;
	if (!buf[strcspn(buf, ".eE")] && !read_whole(v, &negative, &u))
		return false;
	*x = strtod(buf, &end);
	return *end == 0 && isfinite(*x);
}
