/* words.c -- a run's words.  They are compared line by line, wherever a line stands: a list of files that
 * has grown by one differs in one line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "io/file.h"
#include "io/tempfile.h"
#include "io/words.h"

enum { LIMIT = 64 << 20 };

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
	rc = rf_file_read(path, LIMIT, &text, &n, e);
	*there = rc == RF_OK;
	if (rc != RF_OK)
		return rc == RF_ENOINPUT ? RF_OK : rc;
	rf_buf_add(words, text, n);
	free(text);
	return words->failed ? rf_fail(e, RF_ENOMEM, "out of memory") : RF_OK;
}

enum rf_code rf_words_write(const struct rf_buf *words, const char *path, struct rf_err *e)
{
	struct rf_tempfile file;
	enum rf_code rc;

	if (words->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = rf_tempfile_open(&file, path, NULL, e)) != RF_OK)
		return rc;
	if ((rc = rf_tempfile_write(&file, words->p, words->n, e)) == RF_OK)
		return rf_tempfile_commit(&file, NULL, e);
	rf_tempfile_abandon(&file);
	return rc;
}

/* The next line of [*p, end), and *p behind it. */
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

/* Where a word begins, or the end of all. */
static const char *word(const struct rf_buf *words, const char *name)
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
	const char *line = word(words, name), *p = line;

	*n = 0;
	next_line(&p, (const char *)words->p + words->n, n);
	return line;
}

static bool has(const char *from, const char *end, const char *line, size_t n)
{
	const char *other;
	size_t m;

	while ((other = next_line(&from, end, &m)))
		if (m == n && !memcmp(line, other, n))
			return true;
	return false;
}

/* Lines of [a, a_end) that [b, b_end) has not. */
static bool lacks(const char *a, const char *a_end, const char *b, const char *b_end, char side,
                  rf_words_fn *differ, void *arg)
{
	const char *line;
	bool any = false;
	size_t n;

	while ((line = next_line(&a, a_end, &n)))
		if (!has(b, b_end, line, n)) {
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
	const char *late_a = word(a, late), *late_b = word(b, late);
	bool other;

	if (late_a == end_a || late_b == end_b) {
		end_a = late_a;
		end_b = late_b;
	}
	if (end_a - from_a == end_b - from_b && !memcmp(from_a, from_b, (size_t)(end_a - from_a)))
		return true;
	other = lacks(from_a, end_a, from_b, end_b, '<', differ, arg);
	if (!lacks(from_b, end_b, from_a, end_a, '>', differ, arg) && !other)
		differ(arg, '>', IN_ORDER, strlen(IN_ORDER));
	return false;
}

static void ignore(void *arg, char side, const char *line, size_t n)
{
	(void)arg, (void)side, (void)line, (void)n;
}

/* Returns where the value of a word begins; its end, after the lines that continue it, is *end.  Without
 * the word both are the same. */
static const char *value_of(const struct rf_buf *words, const char *name, const char **end)
{
	const char *const stop = (const char *)words->p + words->n;
	const char *const line = word(words, name), *p = line;
	size_t n;

	while (p < stop && (p == line || *p == ' '))
		next_line(&p, stop, &n);
	*end = p;
	return line == stop ? stop : line + strlen(name) + 1;
}

/* Returns the length of what separates two words of a shell's command at p; 0: nothing. */
static size_t separator(const char *p, const char *end)
{
	if (p < end && (*p == ' ' || *p == '\t'))
		return 1;
	return end - p > 1 && p[0] == '\\' && p[1] == '\n' ? 2 : 0;
}

/* Finds the next value of an option from p on, of *n bytes; NULL: there is none.  p[-1] exists. */
static const char *next_value(const char *p, const char *end, const char *option, size_t *n)
{
	const size_t size = strlen(option);
	size_t gap;

	for (; p + size < end; p++) {
		if (memcmp(p, option, size) || !separator(p - 1, p))
			continue;
		gap = p[size] == '=' ? 1 : separator(p + size, end);
		if (!gap)
			continue;
		for (p += size; gap; gap = separator(p, end))
			p += gap;
		for (*n = 0; p + *n < end && !separator(p + *n, end) && !strchr("\n|;&()<>", p[*n]); ++*n)
			;
		return p;
	}
	return NULL;
}

/* Copies words, and writes the values of the option in one word as '*'. */
static void mask(const struct rf_buf *from, const char *name, const char *option, struct rf_buf *to)
{
	const char *end, *at = value_of(from, name, &end), *p = (const char *)from->p, *value;
	size_t n;

	while ((value = next_value(at, end, option, &n))) {
		rf_buf_add(to, p, (size_t)(value - p));
		rf_buf_add(to, "*", 1);
		p = at = value + n;
	}
	rf_buf_add(to, p, (size_t)((const char *)from->p + from->n - p));
}

bool rf_words_same_but(const struct rf_buf *a, const struct rf_buf *b, const char *late, const char *name,
                       const char *option, char **was, char **now)
{
	struct rf_buf x = { 0 }, y = { 0 };
	const char *end, *stop, *p = value_of(a, name, &end), *q = value_of(b, name, &stop);
	size_t n, m;
	bool same;

	*was = *now = NULL;
	mask(a, name, option, &x);
	mask(b, name, option, &y);
	same = !x.failed && !y.failed && rf_words_same(&x, &y, late, ignore, NULL);
	for (; same && (p = next_value(p, end, option, &n)) &&
	     (q = next_value(q, stop, option, &m)); p += n, q += m)
		if (n != m || memcmp(p, q, n)) {
			*was = strndup(p, n);
			*now = strndup(q, m);
			break;
		}
	rf_buf_free(&x);
	rf_buf_free(&y);
	return same;
}
