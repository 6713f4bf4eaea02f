/* print.c -- text in a growing buffer, and UTF-8 that is safe to show.
 *
 * The strings of a stream are untrusted: one escape sequence can change a terminal's title, clear what stood
 * above or make a line read backwards.  So all of them go through rf_print_safe(), which passes whole
 * harmless characters and writes out the others as escapes (utf8.h); each piece that cannot be a character
 * becomes one U+FFFD.  A message is made safe as a whole by rf_print_line(), right before it is written, so
 * that no name in it can be forgotten. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/print.h"
#include "base/shortest.h"
#include "base/utf8.h"

void rf_print_text(struct rf_buf *p, const char *s) { rf_buf_add(p, s, strlen(s)); }

static void print_v(struct rf_buf *p, const char *fmt, va_list ap)
{
	char line[512], *long_line;
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(line, sizeof line, fmt, ap);
	if (n >= (int)sizeof line) {
		if ((long_line = malloc((size_t)n + 1))) {
			vsnprintf(long_line, (size_t)n + 1, fmt, again);
			rf_buf_add(p, long_line, (size_t)n);
		}
		p->failed |= !long_line;
		free(long_line);
	} else if (n > 0) {
		rf_buf_add(p, line, (size_t)n);
	}
	va_end(again);
}

void rf_print(struct rf_buf *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_v(p, fmt, ap);
	va_end(ap);
}

/* Appends a number that is given in the form "-1.25e-07", as the format %.*g writes it: without an exponent,
 * unless the exponent is below -4 or not below the precision.  The precision is `least` or the number of
 * digits, whichever is larger. */
static void print_general(struct rf_buf *p, const char *s, size_t n, int least)
{
	static const char zeros[] = "0.000";
	const char *e = memchr(s, 'e', n), *sign = *s == '-' ? s++ : NULL;
	const int exponent = atoi(e + 1), digits = e - s > 1 ? (int)(e - s) - 1 : 1;
	const int behind = digits > 1 ? digits - 1 : 0;

	if (sign)
		rf_print_text(p, "-");
	if (exponent < -4 || exponent >= (digits > least ? digits : least)) {
		rf_buf_add(p, s, n - (sign != NULL));
		return;
	}
	if (exponent < 0) {
		rf_buf_add(p, zeros, (size_t)(1 - exponent));
		rf_buf_add(p, s, 1);
		rf_buf_add(p, s + 2, (size_t)behind);
		return;
	}
	rf_buf_add(p, s, 1);
	rf_buf_add(p, s + 2, (size_t)(behind < exponent ? behind : exponent));
	rf_print_fill(p, '0', (size_t)(behind < exponent ? exponent - behind : 0));
	if (behind > exponent) {
		rf_print_text(p, ".");
		rf_buf_add(p, s + 2 + exponent, (size_t)(behind - exponent));
	}
}

void rf_print_real(struct rf_buf *p, double x)
{
	char text[RF_SHORTEST];

	if (x == 0)
		rf_print_text(p, signbit(x) ? "-0.0" : "0");
	else
		print_general(p, text, rf_shortest_double(text, x), DBL_DIG);
}

void rf_print_float(struct rf_buf *p, double x)
{
	const size_t at = p->n;

	rf_print_real(p, x);
	if (!p->failed && !memchr(p->p + at, '.', p->n - at) && !memchr(p->p + at, 'e', p->n - at))
		rf_print_text(p, ".0");
}

void rf_print_single(struct rf_buf *p, float x)
{
	char text[RF_SHORTEST];
	size_t n = rf_shortest_single(text, x);

	if (x == 0) {
		rf_print_text(p, signbit(x) ? "-0.0" : "0");
		return;
	}
	/* a decimal close to the midpoint of two float32s may be read as exactly the midpoint in double
	 * precision, and then rounded to the other float32 */
	if ((float)rf_shortest_read(text, n) != x)
		for (int digits = 1; digits <= FLT_DECIMAL_DIG; digits++) {
			n = (size_t)snprintf(text, sizeof text, "%.*e", digits - 1, (double)x);
			if ((float)rf_shortest_read(text, n) == x && strtof(text, NULL) == x)
				break;
		}
	print_general(p, text, n, FLT_DIG);
}

void rf_print_fill(struct rf_buf *p, char c, size_t n)
{
	while (n--)
		rf_buf_add(p, &c, 1);
}

void rf_print_clear(struct rf_buf *p)
{
	p->n = 0;
	p->failed = false;
}

/* ---- characters ---------------------------------------------------------------------------- */

/* Returns the columns that a character takes on a terminal.  Latin letters, and U+FFFD for invalid bytes,
 * take one. */
static int width_of(int32_t c) { return c < 0x300 ? 1 : utf8proc_charwidth(c); }

/* Writes a character, or an invalid piece (c negative), in its safe form.  Returns the length. */
static size_t show(char to[20], const unsigned char *u, size_t len, int32_t c)
{
	size_t w = 0;

	if (c == '\t' || c == '\n' || c == '\r')
		return (size_t)snprintf(to, 20, "\\%c", c == '\t' ? 't' : c == '\n' ? 'n' : 'r');
	if (c >= 0x80 && rf_utf8_unsafe(c))
		return (size_t)snprintf(to, 20, c > 0xFFFF ? "\\U%08x" : "\\u%04x", (unsigned)c);
	if (c >= 0x20 && c != 0x7F) {
		memcpy(to, u, len);
		return len;
	}
	for (size_t i = 0; i < len; i++)
		w += (size_t)snprintf(to + w, 20 - w, "\\x%02x", u[i]);
	return w;
}

void rf_print_safe(struct rf_buf *p, const void *s, size_t n, bool quotes)
{
	const unsigned char *u = s;
	char one[20];
	size_t len;
	int32_t c;

	for (size_t i = 0; i < n; i += len) {
		len = rf_utf8_next(u + i, n - i, &c);
		if (c < 0)
			rf_print_text(p, "\xEF\xBF\xBD");
		else if (c == '\\' || (c == '"' && quotes))
			rf_print(p, "\\%c", (int)c);
		else
			rf_buf_add(p, one, show(one, u + i, len, c));
	}
}

size_t rf_print_line(char *to, size_t size, const void *s, size_t n)
{
	const unsigned char *u = s;
	size_t w = 0, fits = 0, len, k;
	char one[20];
	int32_t c;

	for (size_t i = 0; i < n; i += len) {
		len = rf_utf8_next(u + i, n - i, &c);
		k = show(one, u + i, len, c);
		if (w + k >= size) {
			w = size < sizeof "..." ? 0 : fits + (size_t)snprintf(to + fits, size - fits, "...");
			break;
		}
		memcpy(to + w, one, k);
		w += k;
		if (w + sizeof "..." <= size)
			fits = w;
	}
	to[w] = 0;
	return w;
}

void rf_print_json(struct rf_buf *p, const char *text)
{
	const unsigned char *u = (const unsigned char *)text;
	size_t n = strlen(text), len;
	int32_t c;

	for (size_t i = 0; i < n; i += len) {
		len = rf_utf8_next(u + i, n - i, &c);
		if (c != 0x7F && (c < 0x80 || !rf_utf8_unsafe(c)))
			rf_buf_add(p, u + i, len);
		else if (c > 0xFFFF)
			rf_print(p, "\\u%04x\\u%04x", 0xD7C0u + ((unsigned)c >> 10),
			         0xDC00u + ((unsigned)c & 0x3FF));
		else
			rf_print(p, "\\u%04x", (unsigned)c);
	}
}

void rf_print_string(struct rf_buf *p, const void *text, size_t n)
{
	const unsigned char *s = text;
	size_t from = 0, len;
	int32_t c;

	rf_buf_add(p, "\"", 1);
	for (size_t i = 0; i < n; i += len) {
		len = 1;
		if (s[i] >= 32 && s[i] < 127 && s[i] != '"' && s[i] != '\\')
			continue;
		len = rf_utf8_next(s + i, n - i, &c);
		if (c >= 0x80 && !rf_utf8_unsafe(c))
			continue;
		rf_buf_add(p, s + from, i - from);
		if (c == '"' || c == '\\')
			rf_print(p, "\\%c", (int)c);
		else if (c == '\n')
			rf_print_text(p, "\\n");
		else if (c < 0)
			rf_print_text(p, "\xEF\xBF\xBD");
		else if (c > 0xFFFF)
			rf_print(p, "\\u%04x\\u%04x", 0xD7C0u + ((unsigned)c >> 10),
			         0xDC00u + ((unsigned)c & 0x3FF));
		else
			rf_print(p, "\\u%04x", (unsigned)c);
		from = i + len;
	}
	rf_buf_add(p, s + from, n - from);
	rf_buf_add(p, "\"", 1);
}

int rf_columns(const void *s, size_t n)
{
	const unsigned char *u = s;
	int32_t c;
	int w = 0;

	for (size_t i = 0; i < n;) {
		i += rf_utf8_next(u + i, n - i, &c);
		w += width_of(c);
	}
	return w;
}

size_t rf_columns_head(const void *s, size_t n, int columns)
{
	const unsigned char *u = s;
	size_t i = 0, len;
	int32_t c;

	for (; i < n; i += len) {
		len = rf_utf8_next(u + i, n - i, &c);
		if ((columns -= width_of(c)) < 0)
			break;
	}
	return i;
}

size_t rf_columns_tail(const void *s, size_t n, int columns)
{
	const unsigned char *u = s;
	size_t i = n;
	int32_t c;

	while (i > 0) {
		size_t at = i - 1;
		while (at > 0 && (u[at] & 0xC0) == 0x80)
			at--;
		rf_utf8_next(u + at, n - at, &c);
		if ((columns -= width_of(c)) < 0)
			break;
		i = at;
	}
	return n - i;
}

/* ---- layout -------------------------------------------------------------------------------- */

void rf_flow_begin(struct rf_flow *f, struct rf_buf *p, const char *label, int indent, int width,
                   int max_lines)
{
	*f = (struct rf_flow){ .p = p, .indent = indent, .width = width, .max_lines = max_lines };
	if (label) {
		rf_print(p, "%-*s", indent, label);
		f->column = indent;
		f->lines = 1;
	}
}

void rf_flow_item(struct rf_flow *f, const void *item, size_t n, const char *paint)
{
	int w = rf_columns(item, n);

	if (f->left_out || (f->column > f->indent && f->column + 2 + w > f->width)) {
		if (f->left_out || (f->max_lines && f->lines == f->max_lines)) {
			f->left_out++;
			return;
		}
		rf_print_text(f->p, "\n");
		f->column = 0;
	}
	if (!f->column) {
		rf_print_fill(f->p, ' ', (size_t)f->indent);
		f->column = f->indent;
		f->lines++;
	} else if (f->column > f->indent) {
		rf_print_text(f->p, "  ");
		f->column += 2;
	}
	if (paint)
		rf_print(f->p, "\033[%sm", paint);
	rf_buf_add(f->p, item, n);
	if (paint)
		rf_print_text(f->p, "\033[m");
	f->column += w;
}

void rf_flow_printf(struct rf_flow *f, const char *paint, const char *fmt, ...)
{
	struct rf_buf item = { 0 };
	va_list ap;

	va_start(ap, fmt);
	print_v(&item, fmt, ap);
	va_end(ap);
	rf_flow_item(f, item.p, item.n, paint);
	f->p->failed |= item.failed;
	rf_buf_free(&item);
}

void rf_flow_end(struct rf_flow *f)
{
	if (f->left_out)
		rf_print(f->p, "  ... and %d more", f->left_out);
	if (!f->column)
		return;
	while (f->p->n && f->p->p[f->p->n - 1] == ' ')
		f->p->n--;
	rf_print_text(f->p, "\n");
}
