/* words.c -- a run's words.  Lines are compared as a set, so a list of files that has grown by one file
 * differs in one line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "io/file.h"
#include "io/words.h"

void rf_words_add(struct rf_buf *words, const char *name, const char *value)
{
	rf_print(words, "%s=", name);
	for (const char *p = value ? value : ""; *p; p++) {
		rf_buf_add(words, p, 1);
		if (*p == '\n')
			rf_buf_add(words, " ", 1);
	}
	rf_buf_add(words, "\n", 1);
}

enum rf_code rf_words_read(struct rf_buf *words, const char *path, bool *there, struct rf_err *e)
{
	enum rf_code rc;
	char *text;
	size_t n;

	rf_print_clear(words);
	rc = rf_file_read(path, RF_MOST_WORDS, &text, &n, e);
	*there = rc == RF_OK;
	if (rc != RF_OK)
		return rc == RF_ENOINPUT ? RF_OK : rc;
	rf_buf_add(words, text, n);
	free(text);
	return words->failed ? rf_fail(e, RF_ENOMEM, "out of memory") : RF_OK;
}

/* Returns the next line of [*p, end) and advances *p past it. */
static const char *next_line(const char **p, const char *end, size_t *n)
{
	const char *line = *p, *stop;

	if (line == end)
		return NULL;
	stop = memchr(line, '\n', (size_t)(end - line));
	*n = (size_t)((stop ? stop : end) - line);
	*p = stop ? stop + 1 : end;
	return line;
}

/* Returns where the line of a word begins; the end of all lines if there is no such word. */
static const char *word_start(const struct rf_buf *words, const char *name)
{
	const char *p = (const char *)words->p, *end = p + words->n, *line;
	size_t n, size = strlen(name);

	while ((line = next_line(&p, end, &n)))
		if (n > size && !memcmp(line, name, size) && line[size] == '=')
			return line;
	return end;
}

const char *rf_words_find(const struct rf_buf *words, const char *name, size_t *n)
{
	const char *line = word_start(words, name), *p = line;

	*n = 0;
	next_line(&p, (const char *)words->p + words->n, n);
	return line;
}

static bool has_line(const char *from, const char *end, const char *line, size_t n)
{
	const char *other;
	size_t m;

	while ((other = next_line(&from, end, &m)))
		if (m == n && !memcmp(line, other, n))
			return true;
	return false;
}

/* Reports the lines of [a, a_end) that are missing in [b, b_end). */
static bool report_missing(const char *a, const char *a_end, const char *b, const char *b_end, char side,
                           rf_words_fn *differ, void *arg)
{
	const char *line;
	bool any = false;
	size_t n;

	while ((line = next_line(&a, a_end, &n)))
		if (!has_line(b, b_end, line, n)) {
			differ(arg, side, line, n);
			any = true;
		}
	return any;
}

#define IN_ORDER "the same lines, in another order or number"

bool rf_words_same(const struct rf_buf *a, const struct rf_buf *b, const char *late, rf_words_fn *differ,
                   void *arg)
{
	const char *from_a = (const char *)a->p, *end_a = from_a + a->n;
	const char *from_b = (const char *)b->p, *end_b = from_b + b->n;
	const char *late_a = word_start(a, late), *late_b = word_start(b, late);
	bool other;

	if (late_a == end_a || late_b == end_b) {
		end_a = late_a;
		end_b = late_b;
	}
	if (end_a - from_a == end_b - from_b && !memcmp(from_a, from_b, (size_t)(end_a - from_a)))
		return true;
	other = report_missing(from_a, end_a, from_b, end_b, '<', differ, arg);
	if (!report_missing(from_b, end_b, from_a, end_a, '>', differ, arg) && !other)
		differ(arg, '>', IN_ORDER, strlen(IN_ORDER));
	return false;
}

static void ignore_line(void *arg, char side, const char *line, size_t n)
{
	(void)arg, (void)side, (void)line, (void)n;
}

/* Returns where the value of a word begins; *end is its end, after the lines that continue it.  If the word
 * does not exist, the two are equal. */
static const char *value_of(const struct rf_buf *words, const char *name, const char **end)
{
	const char *const stop = (const char *)words->p + words->n;
	const char *const line = word_start(words, name), *p = line;
	size_t n;

	while (p < stop && (p == line || *p == ' '))
		next_line(&p, stop, &n);
	*end = p;
	return line == stop ? stop : line + strlen(name) + 1;
}

bool rf_words_same_word(const struct rf_buf *a, const struct rf_buf *b, const char *name)
{
	const char *a_end, *b_end, *x = value_of(a, name, &a_end), *y = value_of(b, name, &b_end);

	return a_end - x == b_end - y && !memcmp(x, y, (size_t)(a_end - x));
}

/* A walk through the words of a shell's commands. */
struct walk {
	const char *p, *end;
	const char *option, *programs; /* as in rf_words_same_but() */
	bool inside;                   /* p is after the name of the command's program */
	bool counts;                   /* the program is one of those whose option counts */
};

/* Returns the end of the shell word at p.  Quotations, $(...) and `...` belong to the word as a whole. */
static const char *word_end(const char *p, const char *end)
{
	char quote = 0;
	int depth = 0;

	for (; p < end; p++) {
		if (*p == '\\' && quote != '\'' && end - p > 1) {
			if (p[1] == '\n' && !quote && !depth)
				break;
			p++;
		} else if (quote) {
			quote = *p == quote ? 0 : quote;
		} else if (strchr("'\"`", *p)) {
			quote = *p;
		} else if (*p == '$' && end - p > 1 && p[1] == '(') {
			depth++;
			p++;
		} else if (depth) {
			depth += (*p == '(') - (*p == ')');
		} else if (strchr(" \t\n|;&()<>", *p)) {
			break;
		}
	}
	return p;
}

/* Returns whether the n bytes at s, without the folder before the last slash, are one word of the list. */
static bool is_listed(const char *s, size_t n, const char *list)
{
	for (const char *slash; (slash = memchr(s, '/', n)); s = slash + 1)
		n -= (size_t)(slash + 1 - s);
	for (size_t m; *list; list += m + (list[m] == ' ')) {
		m = strcspn(list, " ");
		if (m == n && !memcmp(list, s, n))
			return true;
	}
	return false;
}

/* Skips blanks and operators between two words.  A command ends at an operator or at the end of a line. */
static void skip_gap(struct walk *w)
{
	for (; w->p < w->end && strchr(" \t\n|;&()<>\\", *w->p); w->p++) {
		if (*w->p == '\\') {
			if (w->end - w->p < 2 || w->p[1] != '\n')
				return;
			w->p++;
		} else if (strchr("\n|;&()", *w->p)) {
			w->inside = false;
		}
	}
}

/* Returns the next value of the option in a command of one of the programs, of *n bytes; NULL: there is
 * none. */
static const char *next_value(struct walk *w, size_t *n)
{
	static const char before[] = "then do else elif if while until ! { time exec";
	const size_t size = strlen(w->option);
	const char *s;
	bool value = false;

	for (skip_gap(w); w->p < w->end; skip_gap(w)) {
		s = w->p;
		w->p = word_end(s, w->end);
		*n = (size_t)(w->p - s);
		if (!w->inside) {
			value = false;
			w->inside = !is_listed(s, *n, before) && !memchr(s, '=', *n);
			w->counts = is_listed(s, *n, w->programs);
		} else if (value) {
			return s;
		} else if (w->counts && *n > size && !memcmp(s, w->option, size) && s[size] == '=') {
			*n -= size + 1;
			return s + size + 1;
		} else {
			value = w->counts && *n == size && !memcmp(s, w->option, size);
		}
	}
	return NULL;
}

/* Copies all words, with '*' in place of the option's values in the walk's word. */
static void copy_masked(const struct rf_buf *from, struct walk w, struct rf_buf *to)
{
	const char *p = (const char *)from->p, *value;
	size_t n;

	while ((value = next_value(&w, &n))) {
		rf_buf_add(to, p, (size_t)(value - p));
		rf_buf_add(to, "*", 1);
		p = value + n;
	}
	rf_buf_add(to, p, (size_t)((const char *)from->p + from->n - p));
}

bool rf_words_same_but(const struct rf_buf *a, const struct rf_buf *b, const char *late, const char *name,
                       const char *option, const char *programs, char **was, char **now)
{
	struct rf_buf x = { 0 }, y = { 0 };
	struct walk v = { .option = option, .programs = programs }, w = v;
	const char *p, *q;
	size_t n, m;
	bool same;

	*was = *now = NULL;
	v.p = value_of(a, name, &v.end);
	w.p = value_of(b, name, &w.end);
	copy_masked(a, v, &x);
	copy_masked(b, w, &y);
	same = !x.failed && !y.failed && rf_words_same(&x, &y, late, ignore_line, NULL);
	while (same && (p = next_value(&v, &n)) && (q = next_value(&w, &m)))
		if (n != m || memcmp(p, q, n)) {
			*was = strndup(p, n);
			*now = strndup(q, m);
			break;
		}
	rf_buf_free(&x);
	rf_buf_free(&y);
	return same;
}
