/* loop_report.c -- the times of batches, and the lines that report them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/print.h"
#include "io/file.h"
#include "io/json.h"
#include "loop/loop.h"
#include "loop/loop_internal.h"

/* ---- times --------------------------------------------------------------------------------- */

enum { RECENT = 9 }; /* number of batches from whose times the time left is estimated */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum rf_code rf_loop_note_time(const struct rf_loop *l, int64_t batch, double seconds, struct rf_err *e)
{
	char path[4096], line[100];
	enum rf_code rc = rf_loop_file(l, "data/times.tsv", path, e);
	int n = snprintf(line, sizeof line, "%" PRId64 "\t%" PRId64 "\t%.0f\n", batch, l->at, seconds * 1e6);

	return rc == RF_OK ? rf_file_append(path, line, (size_t)n, e) : rc;
}

/* Returns the median of the seconds of the last batches, including batches of earlier loops.  One slow batch
 * does not move the median. */
static double usual_time(const struct rf_loop *l)
{
	double recent[RECENT], seconds;
	char *text = rf_loop_noted(l, "data/times.tsv");
	int n = 0;

	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%*d\t%*d\t%lf", &seconds) == 1 && seconds > 0)
			recent[n++ % RECENT] = seconds / 1e6;
	}
	free(text);
	n = n < RECENT ? n : RECENT;
	qsort(recent, (size_t)n, sizeof *recent, by_size);
	return n ? (recent[n / 2] + recent[(n - 1) / 2]) / 2 : 0;
}

enum rf_code rf_loop_mend_history(const struct rf_loop *l, bool cut, struct rf_err *e)
{
	char *text = rf_loop_noted(l, "data/times.tsv");
	long long batch, step, last = 0, last_step = 0;

	/* the file also has lines of steps that were removed later */
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%lld\t%lld", &batch, &step) == 2 && step <= l->at && batch > last) {
			last = batch;
			last_step = step;
		}
	}
	free(text);
	if (l->done <= last)
		return RF_OK;
	if (cut && (l->done == last + 1 || rf_loop_line_may(l)))
		return rf_loop_note_time(l, l->done, 0, e);
	if (l->set.count == RF_LOOP_OUTPUTS)
		return RF_OK;
	return rf_fail(e, RF_EDATA,
	               "another program has committed to the run: it has %" PRId64 " commits, and the loop "
	               "made only the first %lld, up to step %lld: remove the steps after that one, or use "
	               "another run",
	               l->done, last, last_step);
}

int64_t rf_loop_after_done(const struct rf_loop *l, double *seconds)
{
	char *text = rf_loop_noted(l, "data/after");
	long long commits = 0;

	*seconds = 0;
	if (text)
		sscanf(text, "%lld %lf", &commits, seconds);
	free(text);
	*seconds /= 1e6;
	return commits;
}

/* ---- progress ------------------------------------------------------------------------------ */

/* The mean of a figure over lines of the log. */
struct figure {
	const char *key, *name;
	double sum;
	int n;
};

static void add_figure(struct figure *f, const json_t *line)
{
	const json_t *v = json_object_get(line, f->key);

	if (json_is_number(v)) {
		f->sum += json_number_value(v);
		f->n++;
	}
}

/* Cuts the last line off a text and parses it.  Skips a line that is not JSON, which a crash may leave.
 * Returns NULL if there is no line of JSON. */
static json_t *last_line(char *text, uint64_t *n)
{
	json_t *figures = NULL;
	char *line;

	while (*n && !figures) {
		while (*n && text[*n - 1] == '\n')
			--*n;
		text[*n] = 0;
		for (line = text + *n; line > text && line[-1] != '\n'; line--)
			;
		*n = (uint64_t)(line - text);
		if (rf_json_parse(&figures, line, strlen(line), 16, NULL) != RF_OK)
			figures = NULL;
	}
	return figures;
}

enum { LAST_LINES = 4 << 20 };

/* Adds the figures of the steps since the last report: means over their mini-batches.  A step on responses
 * has its own loss.  The lines are read backwards from the last one, because a batch that was trained again
 * after a kill also has older lines for the same steps. */
static void add_figures(const struct rf_loop *l, struct rf_buf *p)
{
	struct figure figure[] = { { "loss/ntp", "loss", 0, 0 },
		                   { "reward/mean", "reward", 0, 0 },
		                   { "actor/sft_loss", "loss of responses", 0, 0 } };
	struct figure all = { "group/count", NULL, 0, 0 }, equal = { "group/spread_free", NULL, 0, 0 };
	const int figures = sizeof figure / sizeof *figure;
	char path[4096], *text = NULL;
	uint64_t size, n;
	int64_t next = l->at - 1;
	json_t *line;
	int fd;

	if (rf_loop_file(l, "log.jsonl", path, NULL) != RF_OK ||
	    rf_file_open(path, &fd, &size, NULL) != RF_OK)
		return;
	n = size < LAST_LINES ? size : LAST_LINES;
	if ((text = malloc((size_t)n + 1)) && rf_file_pread(fd, text, (size_t)n, size - n, NULL) == RF_OK)
		while (next >= l->since && (line = last_line(text, &n))) {
			const bool ours = json_integer_value(json_object_get(line, "step")) == next--;

			for (int i = 0; i < figures && ours; i++)
				add_figure(&figure[i], line);
			if (ours) {
				add_figure(&all, line);
				add_figure(&equal, line);
			}
			json_decref(line);
			if (!ours)
				break;
		}
	close(fd);
	free(text);
	for (int i = 0; i < figures; i++)
		if (figure[i].n)
			rf_print(p, ", %s %.4g", figure[i].name, figure[i].sum / figure[i].n);
	if (equal.sum > 0 && 2 * equal.sum >= all.sum)
		rf_print(p, ", nothing to learn in %.0f of %.0f groups, whose rewards are equal", equal.sum,
		         all.sum);
}

static void add_time(struct rf_buf *p, double seconds)
{
	if (seconds < 100)
		rf_print(p, ", %.0f s left", seconds);
	else if (seconds < 100 * 60)
		rf_print(p, ", %.0f min left", seconds / 60);
	else
		rf_print(p, ", %.0f h %.0f min left", floor(seconds / 3600), floor(fmod(seconds, 3600) / 60));
}

void rf_loop_report(const struct rf_loop *l)
{
	struct rf_buf p = { 0 };
	double after = 0;

	if (l->set.after)
		rf_loop_after_done(l, &after);
	rf_print(&p, "batch %" PRId64 " of %d", l->done, l->set.batches);
	if (rf_loop_has_steps(l))
		rf_print(&p, ", step %" PRId64, l->at);
	add_figures(l, &p);
	add_time(&p, (usual_time(l) + after) * (double)(l->set.batches - l->done));
	rf_buf_add(&p, "", 1);
	if (!p.failed)
		l->set.say(l, (char *)p.p);
	rf_buf_free(&p);
}
