/* opt.c -- the value of an option, for whoever shows or records it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/opt.h"

/* The word of an ENUM whose index is i. */
static const char *word(const char *words, int i, size_t *n)
{
	while (i--)
		words = strchr(words, '|') + 1;
	*n = strcspn(words, "|");
	return words;
}

/* Whether a word is among others that blanks separate. */
static bool among(const char *words, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = words; *at && (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

void rf_opt_leave_out(struct rf_opt *table, const char *names)
{
	struct rf_opt *to = table;

	for (const struct rf_opt *o = table; o->name; o++)
		if (!among(names, o->name))
			*to++ = *o;
	to->name = NULL;
}

int rf_opt_index(const char *words, const char *s)
{
	size_t n;

	for (int i = 0;; i++, words += n + 1) {
		n = strcspn(words, "|");
		if (strlen(s) == n && !memcmp(words, s, n))
			return i;
		if (!words[n])
			return -1;
	}
}

const char *rf_opt_value(const struct rf_opt *o, int digits, char buf[RF_OPT_VALUE], size_t *n)
{
	const double *x = o->to;
	const char *text = buf;

	switch (o->kind) {
	case RF_OPT_FLAG: text = *(const bool *)o->to ? "yes" : "no"; break;
	case RF_OPT_INT:  snprintf(buf, RF_OPT_VALUE, "%d", *(const int *)o->to); break;
	case RF_OPT_U64:
	case RF_OPT_SIZE: snprintf(buf, RF_OPT_VALUE, "%" PRIu64, *(const uint64_t *)o->to); break;
	case RF_OPT_REAL:
		if (isnan(*x))
			return NULL;
		snprintf(buf, RF_OPT_VALUE, "%.*g", digits, *x);
		break;
	case RF_OPT_PAIR: snprintf(buf, RF_OPT_VALUE, "%.*g,%.*g", digits, x[0], digits, x[1]); break;
	case RF_OPT_TEXT: text = *(const char *const *)o->to; break;
	case RF_OPT_LIST: return NULL;
	case RF_OPT_ENUM: return *(const int *)o->to < 0 ? NULL : word(o->arg, *(const int *)o->to, n);
	}
	*n = text ? strlen(text) : 0;
	return text;
}
