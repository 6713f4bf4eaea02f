/* loop_run.c -- the run as its loop sees it: its files, its commands, its batches. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/print.h"
#include "ckpt/ckpt.h"
#include "io/file.h"
#include "io/steps.h"
#include "io/tempfile.h"
#include "loop/loop.h"
#include "loop/loop_internal.h"

/* ---- files --------------------------------------------------------------------------------- */

void rf_loop_say(const struct rf_loop *l, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	l->set.say(l, text);
}

enum rf_code rf_loop_file(const struct rf_loop *l, const char *name, char *out, struct rf_err *e)
{
	return rf_file_join(out, l->path, name, e);
}

enum rf_code rf_loop_begun(const struct rf_loop *l, bool *begun, struct rf_err *e)
{
	int64_t newest;
	enum rf_code rc = rf_step_newest(l->path, &newest, e);

	*begun = rc == RF_OK;
	return rc == RF_ENOINPUT ? RF_OK : rc;
}

bool rf_loop_has_steps(const struct rf_loop *l)
{
	bool begun;

	if (l->set.count == RF_LOOP_COMMITS || l->set.from)
		return true;
	/* true if the folder cannot be read: rf_loop_look() reports that */
	return rf_loop_begun(l, &begun, NULL) != RF_OK || begun;
}

enum rf_code rf_loop_output(const struct rf_loop *l, int64_t batch, char path[4096], struct rf_err *e)
{
	char name[4096];

	snprintf(name, sizeof name, "%.3000s/batch-%06" PRId64 ".rf", l->set.outputs, batch);
	return rf_loop_file(l, name, path, e);
}

static enum rf_code count_outputs(struct rf_loop *l, int64_t before, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = RF_OK;

	/* count again from 0 if the last output that was counted is gone */
	if (before && (rc = rf_loop_output(l, before - 1, path, e)) == RF_OK && !access(path, F_OK))
		l->done = before;
	while (rc == RF_OK && (rc = rf_loop_output(l, l->done, path, e)) == RF_OK && !access(path, F_OK))
		l->done++;
	return rc;
}

enum rf_code rf_loop_look(struct rf_loop *l, struct rf_err *e)
{
	const int64_t before = l->done;
	struct rf_run run;
	enum rf_code rc;
	bool begun;

	l->at = l->done = 0;
	if (!rf_loop_has_steps(l))
		return count_outputs(l, before, e);
	if ((rc = rf_loop_begun(l, &begun, e)) != RF_OK || !begun)
		return rc;
	if ((rc = rf_run_look(&run, l->path, e)) != RF_OK)
		return rc;
	l->at = run.at.step;
	l->done = run.at.commits;
	if (*run.at.warning)
		rf_loop_say(l, "%s", run.at.warning);
	rf_run_close(&run);
	if (l->set.count == RF_LOOP_COMMITS)
		return RF_OK;
	if (l->done)
		return rf_fail(e, RF_EDATA,
		               "the run has commits, but its batches are counted by their outputs: use "
		               "another run");
	return count_outputs(l, before, e);
}

enum rf_code rf_loop_note(const struct rf_loop *l, const char *name, const char *text, struct rf_err *e)
{
	struct rf_buf b = { 0 };
	char path[4096];
	enum rf_code rc = rf_loop_file(l, name, path, e);

	rf_print_text(&b, text);
	if (rc == RF_OK)
		rc = rf_tempfile_save(&b, path, e);
	rf_buf_free(&b);
	return rc;
}

char *rf_loop_noted(const struct rf_loop *l, const char *name)
{
	char path[4096], *text;
	size_t n;

	if (rf_loop_file(l, name, path, NULL) != RF_OK ||
	    rf_file_read(path, 64 << 20, &text, &n, NULL) != RF_OK)
		return NULL;
	return text;
}

bool rf_loop_is_order(const char *name)
{
	size_t n;

	if (strncmp(name, "epoch-", 6) || !(n = strspn(name + 6, "0123456789")))
		return false;
	return !strcmp(name + 6 + n, ".rf");
}

static int by_order(const struct dirent *d) { return rf_loop_is_order(d->d_name); }

int rf_loop_orders(const struct rf_loop *l, struct dirent ***list, struct rf_err *e)
{
	char data[4096];
	int n = -1;

	*list = NULL;
	if (rf_loop_file(l, "data", data, e) == RF_OK && (n = scandir(data, list, by_order, alphasort)) < 0)
		rf_fail(e, RF_EIO, "%s: %s", data, strerror(errno));
	return n;
}

void rf_loop_free_orders(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* ---- commands ------------------------------------------------------------------------------ */

enum rf_code rf_loop_go_on(struct rf_loop *l, double seconds, struct rf_err *e)
{
	if (!rf_child_pause(&l->child, seconds))
		return RF_OK;
	l->status = 128 + l->child.signal;
	return rf_fail(e, RF_EIO, "interrupted: the same command continues from here");
}

enum rf_code rf_loop_run(struct rf_loop *l, char *const argv[], const char *what, struct rf_err *e)
{
	enum rf_code rc;
	int status;

	if ((rc = rf_child_run(&l->child, argv, &status, e)) != RF_OK ||
	    (rc = rf_loop_go_on(l, 0, e)) != RF_OK)
		return rc;
	if (!status)
		return RF_OK;
	l->status = status;
	if (l->child.asked)
		return rf_fail(e, RF_EDATA,
		               "%s tried to read from the terminal, which no command may: give it its input "
		               "in a file or in the environment",
		               what);
	return rf_fail(e, RF_EDATA, "%s failed with status %d%s", what, status,
	               status == 127 ? ": a command was not found (is it on PATH?)" : "");
}

enum rf_code rf_loop_shell(struct rf_loop *l, const char *line, const char *what, struct rf_err *e)
{
	char *const argv[] = { (char *)"bash", (char *)"-o", (char *)"pipefail",
		               (char *)"-c",   (char *)line, NULL };

	return rf_loop_run(l, argv, what, e);
}

/* ---- batches ------------------------------------------------------------------------------- */

int64_t rf_loop_per_epoch(const struct rf_loop *l)
{
	const uint64_t batch = (uint64_t)l->set.batch;

	return (int64_t)((l->sequences + (l->set.rest ? batch - 1 : 0)) / batch);
}

bool rf_loop_line_may(const struct rf_loop *l)
{
	char *text = rf_loop_noted(l, "data/line");
	long long from, to;
	bool may = text && sscanf(text, "%lld %lld", &from, &to) == 2 && l->done > from && l->done <= to;

	free(text);
	return may;
}

enum rf_code rf_loop_drop_line(const struct rf_loop *l, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_loop_file(l, "data/line", path, e);

	return rc == RF_OK ? rf_file_remove(path, e) : rc;
}
