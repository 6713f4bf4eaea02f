/* utf8.c -- the only reader of UTF-8, so that checking, counting and showing text cannot disagree on where a
 * character ends.  From invalid bytes it takes the maximal subpart, as the Unicode standard recommends
 * (3.9). */
#include "base/utf8.h"

size_t rf_utf8_next(const void *bytes, size_t n, int32_t *c)
{
	const unsigned char *s = bytes;
	/* the second byte's range is narrower after E0, ED, F0, F4: overlong forms, surrogates,
	   beyond 10FFFF */
	unsigned lo = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
	unsigned hi = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
	size_t need = s[0] < 0x80                  ? 1
	              : s[0] < 0xC2 || s[0] > 0xF4 ? 0
	              : s[0] < 0xE0                ? 2
	              : s[0] < 0xF0                ? 3
	                                           : 4;

	*c = -1;
	if (need < 2) {
		if (need)
			*c = s[0];
		return 1;
	}
	int32_t v = s[0] & (0xFF >> (need + 1));
	for (size_t i = 1; i < need; i++, lo = 0x80, hi = 0xBF) {
		if (i == n || s[i] < lo || s[i] > hi)
			return i;
		v = v << 6 | (s[i] & 0x3F);
	}
	*c = v;
	return need;
}

bool rf_utf8(const void *s, size_t n)
{
	const unsigned char *p = s;
	int32_t c;

	for (size_t i = 0; i < n;) {
		i += rf_utf8_next(p + i, n - i, &c);
		if (c < 0)
			return false;
	}
	return true;
}

size_t rf_utf8_unfinished(const void *s, size_t n)
{
	int32_t c;

	for (size_t k = 1; k <= 3 && k <= n; k++) {
		const unsigned char *p = (const unsigned char *)s + (n - k);

		if ((*p & 0xC0) != 0x80) /* only the first byte of a character may be here */
			return *p >= 0xC2 && *p <= 0xF4 && rf_utf8_next(p, k, &c) == k && c < 0 ? k : 0;
	}
	return 0;
}

bool rf_utf8_unsafe(int32_t c)
{
	/* C1 controls, soft hyphen, marks and overrides of direction, line and paragraph separators, tags,
	   noncharacters */
	static const struct {
		int32_t first, last;
	} unsafe[] = {
		{ 0x80, 0x9F },     { 0xAD, 0xAD },     { 0x61C, 0x61C },   { 0x180E, 0x180E },
		{ 0x200B, 0x200B }, { 0x200E, 0x200F }, { 0x2028, 0x202E }, { 0x2060, 0x206F },
		{ 0xFEFF, 0xFEFF }, { 0xFFF0, 0xFFFB }, { 0xFFFE, 0xFFFF }, { 0xE0000, 0xE0FFF },
	};

	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
		if (c >= unsafe[i].first && c <= unsafe[i].last)
			return true;
	return false;
}

bool rf_utf8_blank(int32_t c)
{
	return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
	       c == 0x205F || c == 0x3000;
}
