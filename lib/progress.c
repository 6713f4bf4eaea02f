#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

void rf_progress_options(struct rf_progress *p, struct rf_opt *opts)
{
	const struct rf_opt table[] = {
		{ "progress", 0, RF_OPT_FLAG, &p->asked, 0, 0, NULL, "show progress even where stderr is no terminal", false },
		{ .name = NULL },
	};

	memcpy(opts, table, sizeof table);
}

static void line(struct rf_progress *p, const struct rf_in *in, const char *what)
{
	char text[200], left[40] = "";
	double t = now(), spent = t - p->from;
	struct stat st;
	int n;

	if (!p->on || t - p->last < 0.5)
		return;
	p->last = t;
	/* only a regular file says how much there is */
	if (!stat(rf_in_name(in), &st) && S_ISREG(st.st_mode) && rf_in_bytes(in) && (uint64_t)st.st_size > rf_in_bytes(in))
		snprintf(left, sizeof left, ", %.0f s left", spent * ((double)st.st_size / (double)rf_in_bytes(in) - 1));
	n = snprintf(text, sizeof text, "\r%" PRIu64 " records, %" PRIu64 " tokens, %.0f tokens/s%s, %s\033[K", rf_in_count(in), p->tokens,
	             spent > 0 ? (double)p->tokens / spent : 0, left, what);
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) > 0)
		p->shown = true;
}

enum rf_code rf_progress_next(struct rf_progress *p, struct rf_in *in, struct rf_record **r, struct rf_err *e)
{
	enum rf_code rc;

	if (p->from == 0) {
		p->from = now();
		p->on = p->asked || isatty(STDERR_FILENO);
	}
	line(p, in, "waiting for input");
	if ((rc = rf_next(in, r, e)) == RF_OK) {
		line(p, in, "computing");
		p->tokens += (uint64_t)(*r)->T;
	}
	return rc;
}

void rf_progress_end(struct rf_progress *p)
{
	if (p->shown && write(STDERR_FILENO, "\r\033[K", 4) < 0)
		p->on = false;
}
