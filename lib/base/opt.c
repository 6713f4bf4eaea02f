/* opt.c -- tables of options, and the value of an option as text. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/opt.h"

/* Returns the word of an ENUM whose index is i. */
static const char *word_at(const char *words, int i, size_t *n)
{
	while (i--)
		words = strchr(words, '|') + 1;
	*n = strcspn(words, "|");
	return words;
}

/* Returns whether a word is in a list of words separated by blanks. */
static bool has_word(const char *words, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = words; *at && (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

void rf_opts_add(struct rf_opts *opts, const struct rf_opt *rows)
{
	while (rows->name) {
		assert(opts->n < RF_OPTS_MOST);
		opts->row[opts->n++] = *rows++;
	}
	opts->row[opts->n] = (struct rf_opt)OPT_END;
}

struct rf_opt *rf_opts_find(struct rf_opts *opts, const char *name)
{
	int i = 0;

	while (strcmp(opts->row[i].name, name)) {
		i++;
		assert(i < opts->n);
	}
	return &opts->row[i];
}

void rf_opts_remove(struct rf_opts *opts, const char *names)
{
	int n = 0;

	for (int i = 0; i < opts->n; i++)
		if (!has_word(names, opts->row[i].name))
			opts->row[n++] = opts->row[i];
	opts->n = n;
	opts->row[n] = (struct rf_opt)OPT_END;
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
	case RF_OPT_INT: snprintf(buf, RF_OPT_VALUE, "%d", *(const int *)o->to); break;
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
	case RF_OPT_ENUM: return *(const int *)o->to < 0 ? NULL : word_at(o->arg, *(const int *)o->to, n);
	}
	*n = text ? strlen(text) : 0;
	return text;
}
