/* findings.c -- findings as lines of text: a letter for the kind, the text, and for a fact its name before a
 * tab. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/print.h"
#include "doctor/findings.h"
#include "io/file.h"

enum { MOST_FILE = 4 << 20, MOST_LINE = 4096, MOST_NAME = 200 };

/* ---- telling -------------------------------------------------------------------------------- */

static void tell(const struct rf_findings *f, char kind, const char *name, const char *fmt, va_list ap)
{
	char line[MOST_LINE];
	int n = snprintf(line, sizeof line, "%c%.*s%s", kind, MOST_NAME, name ? name : "", name ? "\t" : "");
	size_t length;

	vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	for (char *p = line; *p; p++)
		if (*p == '\n')
			*p = ' ';
	length = strlen(line);
	line[length++] = '\n';
	for (size_t at = 0; at < length;) {
		const ssize_t k = write(f->fd, line + at, length - at);

		if (k < 0 && errno != EINTR)
			return;
		at += k > 0 ? (size_t)k : 0;
	}
}

static void tell_text(const struct rf_findings *f, char kind, const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(f, kind, name, fmt, ap);
	va_end(ap);
}

void rf_found_part(const struct rf_findings *f, const char *heading)
{
	tell_text(f, 'p', NULL, "%s", heading);
}

void rf_found(const struct rf_findings *f, const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(f, 'f', name, fmt, ap);
	va_end(ap);
}

void rf_found_wrong(const struct rf_findings *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(f, 'w', NULL, fmt, ap);
	va_end(ap);
}

void rf_found_waits(const struct rf_findings *f, const char *whom, const char *advice)
{
	tell_text(f, 'd', whom, "%s", advice);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void add_wrong(struct rf_buf *wrong, const char *s, size_t n)
{
	rf_print_text(wrong, "  ");
	rf_print_safe(wrong, s, n, false);
	rf_print_text(wrong, "\n");
}

static void add_fact(struct rf_buf *facts, const char *s, size_t n)
{
	const char *tab = memchr(s, '\t', n);
	const size_t name = tab ? (size_t)(tab - s) : n;

	rf_print_text(facts, "  ");
	rf_print_safe(facts, s, name, false);
	rf_print_fill(facts, ' ', name < 16 ? 16 - name : 1);
	if (tab)
		rf_print_safe(facts, tab + 1, n - name - 1, false);
	rf_print_text(facts, "\n");
}

/* Tells that a section has not ended, or that it crashed.  waits: the last line of this kind, up to `end`;
 * wrong NULL: it is not a problem. */
static void add_end(const char *waits, const char *end, int status, double limit, struct rf_buf *facts,
                    struct rf_buf *wrong)
{
	const char *tab = waits ? memchr(waits, '\t', (size_t)(end - waits)) : NULL;
	const char *whom = tab ? waits : "this part of the report";
	const int n = tab ? (int)(tab - waits) : (int)strlen(whom);
	char text[MOST_LINE + 100], why[60];

	if (status < 0)
		snprintf(why, sizeof why, "did not answer within %g s", limit);
	else
		snprintf(why, sizeof why, "ended with status %d", status);
	snprintf(text, sizeof text, "no answer\t%.*s %s%s%.*s%s", n, whom, why, tab ? " (" : "",
	         tab ? (int)(end - tab - 1) : 0, tab ? tab + 1 : "", tab ? ")" : "");
	add_fact(facts, text, strlen(text));
	if (wrong)
		add_wrong(wrong, strchr(text, '\t') + 1, strlen(strchr(text, '\t') + 1));
}

int rf_findings_read(const struct rf_buf *found, int status, double limit, bool may_be_slow,
                     struct rf_buf *facts, struct rf_buf *wrong)
{
	const char *at = (char *)found->p, *const end = at + found->n, *waits = NULL, *waits_end = NULL,
		   *stop;
	int n = 0;

	for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
		const size_t length = (size_t)(stop - at) - 1;

		switch (*at) {
		case 'p': rf_print(facts, "\n%.*s\n", (int)length, at + 1); break;
		case 'f': add_fact(facts, at + 1, length); break;
		case 'd':
			waits = at + 1;
			waits_end = stop;
			break;
		case 'w': add_wrong(wrong, at + 1, length); n++;
		}
	}
	if (!status)
		return n;
	add_end(waits, waits_end, status, limit, facts, status < 0 && may_be_slow ? NULL : wrong);
	return n + !(status < 0 && may_be_slow);
}

/* ---- files ---------------------------------------------------------------------------------- */

bool rf_found_file(const struct rf_findings *f, const char *path, struct rf_buf *b)
{
	char at[4096], part[16384];
	const int length = snprintf(at, sizeof at, "%s%s", f->root, path);
	int fd = length < (int)sizeof at ? open(at, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	ssize_t n = -1;

	*b = (struct rf_buf){ 0 };
	while (fd >= 0 && b->n < MOST_FILE && (n = rf_file_read_some(fd, part, sizeof part)) > 0)
		rf_buf_add(b, part, (size_t)n);
	if (fd >= 0)
		close(fd);
	rf_buf_add(b, "", 1);
	if (b->failed || n < 0)
		return false;
	b->n--;
	return true;
}

const char *rf_found_value(const char *text, const char *key)
{
	const size_t n = strlen(key);

	while (text && strncmp(text, key, n))
		text = (text = strchr(text, '\n')) ? text + 1 : NULL;
	if (!text)
		return NULL;
	text += n;
	return text + strspn(text, " \t:");
}

const char *rf_found_line(const char *s, char *to, size_t size)
{
	snprintf(to, size, "%.*s", (int)strcspn(s, "\n"), s);
	return to;
}

const char *rf_cuda_text(int version, char text[RF_SIZE_TEXT])
{
	snprintf(text, RF_SIZE_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
	return text;
}

bool rf_found_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

const char *rf_size_text(uint64_t bytes, char text[RF_SIZE_TEXT])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double x = (double)bytes;
	int i = 0;

	for (; x >= 1024 && i < 5; i++)
		x /= 1024;
	snprintf(text, RF_SIZE_TEXT, i && x < 100 ? "%.1f %s" : "%.0f %s", x, units[i]);
	return text;
}
