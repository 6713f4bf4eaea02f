/* haystack.c -- reads and copies units of haystack: the words of an essay, or lines. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "io/file.h"
#include "needle/task.h"
#include "text/text.h"

void rf_units_add(struct rf_units *u, const void *s, size_t n)
{
	u->failed = u->failed || !rf_grow(&u->end, u->n, &u->cap, sizeof *u->end);
	if (u->failed)
		return;
	if (u->n)
		rf_buf_add(&u->text, &u->joint, 1);
	rf_buf_add(&u->text, s, n);
	u->end[u->n++] = u->text.n;
	u->failed = u->text.failed;
}

void rf_units_copy(const struct rf_units *u, size_t from, size_t to, struct rf_buf *out)
{
	while (from < to) {
		size_t i = from % u->n, n = u->n - i < to - from ? u->n - i : to - from;
		size_t begin = i ? u->end[i - 1] + 1 : 0;

		rf_buf_add(out, u->text.p + begin, u->end[i + n - 1] - begin);
		from += n;
		if (from < to)
			rf_buf_add(out, &u->joint, 1);
	}
}

/* Returns the length of the closing quotes and brackets at the end of a text. */
static size_t closing_length(const char *s, size_t n)
{
	static const char *const marks[] = { "\"", "'", ")", "]", "\xe2\x80\x99", "\xe2\x80\x9d" };

	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		size_t m = strlen(marks[i]);
		if (n > m && !memcmp(s + n - m, marks[i], m))
			return m;
	}
	return 0;
}

bool rf_units_stop(const struct rf_units *u, size_t i)
{
	size_t begin, n, mark;
	const char *s;

	i %= u->n;
	begin = i ? u->end[i - 1] + 1 : 0;
	n = u->end[i] - begin;
	s = (const char *)u->text.p + begin;
	while ((mark = closing_length(s, n)))
		n -= mark;
	return n && strchr(".!?", s[n - 1]);
}

void rf_units_free(struct rf_units *u)
{
	rf_buf_free(&u->text);
	free(u->end);
}

static void add_words(struct rf_units *u, const char *s, size_t n)
{
	static const char blank[] = { ' ', '\t', '\n', '\r', '\v', '\f' };
	size_t from = 0;

	for (size_t i = 0; i <= n; i++)
		if (i == n || memchr(blank, s[i], sizeof blank)) {
			if (i > from)
				rf_units_add(u, s + from, i - from);
			from = i + 1;
		}
}

/* Checks that words are separated by blanks.  A text without blanks, such as Chinese, would have only a few
 * units, each as long as a paragraph: too few for the lengths and depths of prompts. */
static enum rf_code check_words(const struct rf_units *u, const char *path, struct rf_err *e)
{
	enum { LONG = 60 }; /* mean bytes of a word; English has 6, and code seldom 20 */

	if (!u->n)
		return rf_fail(e, RF_EDATA, "%s: there are no words", path);
	if (u->text.n / u->n > LONG)
		return rf_fail(e, RF_EDATA,
		               "%s: its words have %zu bytes on average, so they are no words: put blanks "
		               "between them",
		               path, u->text.n / u->n);
	return RF_OK;
}

enum rf_code rf_units_read(struct rf_units *u, const char *path, struct rf_skip *skip, struct rf_err *e)
{
	struct rf_text_options o = RF_TEXT_DEFAULTS;
	const struct rf_doc *doc;
	struct rf_text *text;
	enum rf_code rc;
	char *paths[1];
	size_t n = strlen(path);

	memset(u, 0, sizeof *u);
	u->joint = ' ';
	n -= rf_file_ends(path, n, ".zst") ? 4 : 0;
	if (!rf_file_ends(path, n, ".jsonl") && !rf_file_ends(path, n, "ndjson"))
		o.format = RF_TEXT_PLAIN;
	if (!(paths[0] = strdup(path)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = rf_text_open(&text, &o, paths, 1, e)) == RF_OK) {
		while (rc == RF_OK) {
			if ((rc = rf_text_next(text, &doc, e)) == RF_EDATA && rf_text_goes_on(text)) {
				rc = rf_skip_line(skip, rc, e);
			} else if (rc == RF_OK && !rf_utf8(doc->text, doc->text_len)) {
				/* a text file, since JSON lines are checked when they are read */
				rf_fail(e, rc = RF_EDATA, "the text is not UTF-8");
				rf_doc_blame(doc, e);
			} else if (rc == RF_OK) {
				add_words(u, doc->text, doc->text_len);
			}
		}
		rf_text_close(text);
		if (rc == RF_EOF && u->failed)
			rc = rf_fail(e, RF_ENOMEM, "out of memory");
		else if (rc == RF_EOF)
			rc = check_words(u, path, e);
	}
	free(paths[0]);
	return rc;
}
