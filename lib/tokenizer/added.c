/* added.c -- finds added tokens.  There are few of them, so a look at the first byte rules out most
 * places. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/added.h"
#include "tokenizer/pattern.h"

void rf_added_free(struct rf_added *a)
{
	for (int i = 0; i < a->n; i++) {
		free(a->t[i].text);
		free(a->t[i].match);
	}
	free(a->t);
	*a = (struct rf_added){ .n = 0 };
}

/* Returns whether c matches \w of Rust's regular expressions: alphabetic, marks, decimal digits, connectors,
 * joiners. */
static bool is_word(int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_PC: return true;
	default: break;
	}
	return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
	       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

static bool alone(const char *s, size_t n, size_t from, size_t end)
{
	size_t len;
	int32_t c;

	if (from && is_word(rf_character_before(s, from, &len)))
		return false;
	if (end == n)
		return true;
	rf_utf8_next(s + end, n - end, &c);
	return !is_word(c);
}

static const struct rf_added_token *longest_at(const struct rf_added *a, bool normalized, const char *s,
                                               size_t n)
{
	const struct rf_added_token *best = NULL;

	for (int i = 0; i < a->n; i++) {
		const struct rf_added_token *t = &a->t[i];

		if (t->normalized == normalized && t->match_n && t->match_n <= n && t->match[0] == s[0] &&
		    (!best || t->match_n > best->match_n) && !memcmp(t->match, s, t->match_n))
			best = t;
	}
	return best;
}

const struct rf_added_token *rf_added_find(const struct rf_added *a, bool normalized, const char *s, size_t n,
                                           size_t *scan, size_t done, size_t *from, size_t *end)
{
	bool begins[256] = { false };
	bool any = false;

	for (int i = 0; i < a->n; i++)
		if (a->t[i].normalized == normalized && a->t[i].match_n)
			any = begins[(unsigned char)a->t[i].match[0]] = true;
	for (size_t i = *scan; any && i < n; i++) {
		const struct rf_added_token *t;
		int32_t c;
		size_t len;

		if (!begins[(unsigned char)s[i]] || !(t = longest_at(a, normalized, s + i, n - i)))
			continue;
		*from = i;
		*scan = *end = i + t->match_n;
		if ((t->special && a->split) || (t->single_word && !alone(s, n, *from, *end))) {
			i = *end - 1;
			continue;
		}
		while (t->lstrip && *from > done && rf_is_white_space(rf_character_before(s, *from, &len)))
			*from -= len;
		if (*from < done)
			*from = done;
		while (t->rstrip && *end < n &&
		       (len = rf_utf8_next(s + *end, n - *end, &c), rf_is_white_space(c)))
			*end += len;
		/* a token of white space may lie entirely in the space that the token before it took */
		if (*from < *end || !t->lstrip)
			return t;
	}
	*scan = n;
	return NULL;
}
