/* chars.c -- texts as characters.  utf8proc has the properties of characters; the missing ones are here. */
#include <string.h>

#include <utf8proc.h>

#include "base/err.h"
#include "base/utf8.h"
#include "score/chars.h"

enum { SHORT = 16 }; /* a text of at most this length is compared at every place */

static const char nul[] = "\xc0\x80"; /* the bytes that stand for a NUL */
enum { NUL_BYTES = sizeof nul - 1 };

char *rf_chars_text(struct rf_region *p, const char *s, size_t n)
{
	size_t nuls = 0, at = 0;
	char *to;

	for (size_t i = 0; i < n; i++)
		nuls += !s[i];
	if (!(to = rf_region_alloc(p, n + nuls * (NUL_BYTES - 1) + 1, 1)))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (s[i]) {
			to[at++] = s[i];
		} else {
			memcpy(to + at, nul, NUL_BYTES);
			at += NUL_BYTES;
		}
	to[at] = 0;
	return to;
}

char *rf_chars_quote(char *buf, size_t size, const char *s)
{
	char plain[200];
	size_t n = 0;

	for (; *s && n < sizeof plain; s++)
		if (!strncmp(s, nul, NUL_BYTES)) {
			plain[n++] = 0;
			s += NUL_BYTES - 1;
		} else {
			plain[n++] = *s;
		}
	return rf_quote(buf, size, plain, n);
}

bool rf_chars_of(struct rf_chars *to, struct rf_region *p, const char *s)
{
	size_t n = strlen(s);
	int32_t *c = rf_region_alloc(p, n, sizeof *c);

	*to = (struct rf_chars){ c, 0 };
	if (!c)
		return false;
	for (size_t i = 0; i < n; to->n++) {
		if (!strncmp(s + i, nul, NUL_BYTES)) {
			c[to->n] = 0;
			i += NUL_BYTES;
			continue;
		}
		i += rf_utf8_next(s + i, n - i, &c[to->n]);
		if (c[to->n] < 0)
			c[to->n] = 0xFFFD;
	}
	return true;
}

bool rf_char_word(int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_NO: return true;
	default: return c == '_';
	}
}

bool rf_char_digit(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }

/* ---- lower case ---------------------------------------------------------------------------- */

/* Returns whether c has Unicode's property Cased: letters of a case, and signs made of such letters. */
static bool cased(int32_t c)
{
	static const struct {
		int32_t from, to;
	} signs[] = {
		{ 0xAA, 0xAA },       { 0xBA, 0xBA },       { 0x2160, 0x217F },   { 0x24B6, 0x24E9 },
		{ 0x1F130, 0x1F149 }, { 0x1F150, 0x1F169 }, { 0x1F170, 0x1F189 },
	};

	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (c >= signs[i].from && c <= signs[i].to)
			return true;
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT: return true;
	default: return false;
	}
}

/* Returns whether c has Unicode's property Case_Ignorable: marks, formats, modifiers, and punctuation that
 * may occur within a word. */
static bool case_ignorable(int32_t c)
{
	static const int32_t within[] = { '\'',   '.',    ':',    0xB7,   0x387,  0x55F,
		                          0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
		                          0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A };

	for (size_t i = 0; i < sizeof within / sizeof *within; i++)
		if (c == within[i])
			return true;
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_SK: return true;
	default: return false;
	}
}

/* Returns whether the sigma at i ends a word (Unicode, Final_Sigma). */
static bool ends_word(struct rf_chars s, size_t i)
{
	size_t before = i, behind = i + 1;

	while (before > 0 && case_ignorable(s.c[before - 1]))
		before--;
	while (behind < s.n && case_ignorable(s.c[behind]))
		behind++;
	return before > 0 && cased(s.c[before - 1]) && !(behind < s.n && cased(s.c[behind]));
}

bool rf_chars_lower(struct rf_chars *to, struct rf_region *p, struct rf_chars s)
{
	int32_t *c = rf_region_alloc(p, s.n, 2 * sizeof *c);

	*to = (struct rf_chars){ c, 0 };
	if (!c)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.c[i] == 0x3A3)
			c[to->n++] = ends_word(s, i) ? 0x3C2 : 0x3C3;
		else if (s.c[i] == 0x130) {
			c[to->n++] = 'i';
			c[to->n++] = 0x307;
		} else
			c[to->n++] = utf8proc_tolower(s.c[i]);
	}
	return true;
}

/* ---- pieces -------------------------------------------------------------------------------- */

bool rf_chars_words(struct rf_words *to, struct rf_region *p, struct rf_chars s)
{
	struct rf_chars *word = rf_region_alloc(p, s.n / 2 + 1, sizeof *word);
	size_t i = 0, from;

	*to = (struct rf_words){ word, 0 };
	if (!word)
		return false;
	for (;;) {
		while (i < s.n && rf_utf8_blank(s.c[i]))
			i++;
		if (i == s.n)
			return true;
		for (from = i; i < s.n && !rf_utf8_blank(s.c[i]);)
			i++;
		word[to->n++] = (struct rf_chars){ s.c + from, i - from };
	}
}

struct rf_chars rf_chars_strip(struct rf_chars s)
{
	while (s.n && rf_utf8_blank(s.c[s.n - 1]))
		s.n--;
	while (s.n && rf_utf8_blank(*s.c)) {
		s.c++;
		s.n--;
	}
	return s;
}

struct rf_chars rf_chars_skip(struct rf_chars s, int32_t c)
{
	while (s.n && *s.c == c) {
		s.c++;
		s.n--;
	}
	return s;
}

struct rf_chars rf_chars_until(struct rf_chars s, int32_t c, struct rf_chars *rest)
{
	size_t n = 0;

	while (n < s.n && s.c[n] != c)
		n++;
	if (rest)
		*rest = n < s.n ? (struct rf_chars){ s.c + n + 1, s.n - n - 1 }
		                : (struct rf_chars){ NULL, 0 };
	return (struct rf_chars){ s.c, n };
}

bool rf_chars_equal(struct rf_chars a, struct rf_chars b)
{
	return a.n == b.n && (!a.n || !memcmp(a.c, b.c, a.n * sizeof *a.c));
}

/* Searches by Knuth, Morris and Pratt (SIAM J. Comput. 6, 1977): in linear time. */
static bool search(struct rf_region *p, struct rf_chars what, struct rf_chars s, bool *in)
{
	/* back[i]: the length of the longest proper prefix of `what` that is also a suffix of its first i
	   characters */
	size_t *back = rf_region_alloc(p, what.n + 1, sizeof *back), k = 0;

	if (!back)
		return false;
	back[0] = back[1] = 0;
	for (size_t i = 1; i < what.n; i++) {
		while (k && what.c[i] != what.c[k])
			k = back[k];
		back[i + 1] = k += what.c[i] == what.c[k];
	}
	k = 0;
	for (size_t i = 0; i < s.n && k < what.n; i++) {
		while (k && s.c[i] != what.c[k])
			k = back[k];
		k += s.c[i] == what.c[k];
	}
	*in = k == what.n;
	return true;
}

bool rf_chars_in(struct rf_region *p, struct rf_chars what, struct rf_chars s, bool *in)
{
	*in = !what.n;
	if (what.n > SHORT)
		return search(p, what, s, in);
	for (; s.n >= what.n && !*in; s.c++, s.n--)
		*in = *s.c == *what.c && !memcmp(s.c, what.c, what.n * sizeof *s.c);
	return true;
}
