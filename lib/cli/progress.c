/* progress.c -- the line is drawn by a thread of its own, because the work it tells of sits for minutes in
 * one product of matrices or one read(): all that the work does is turn counters.
 *
 * Programs of a pipe share a terminal and know nothing of one another.  Each takes the first row that is free
 * below the cursor, and holds it by a lock of one byte of the terminal's file: byte 0 is the cursor's own
 * row, byte 1 the next.  A line goes out in one write: down, the text, up again, so that the cursor is always
 * found where it was. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/print.h"
#include "cli/progress.h"

enum { ROWS = 8 };
#define FRAME 0.25 /* seconds */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change;
static struct rf_progress *current; /* the one that is shown */

void rf_progress_options(struct rf_progress *p, struct rf_opt opts[RF_PROGRESS_OPTS])
{
	const struct rf_opt table[] = {
		{ "progress", 0, RF_OPT_FLAG, &p->asked, 0, 0, NULL,
		  "show progress even if stderr is not a terminal", RF_OPT_OF_BATCH },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_PROGRESS_OPTS);
}

/* ---- the line ------------------------------------------------------------------------------ */

/* How much of all there is to do is done, as far as one can know: the part that was read, times the part of
 * it that is done; 0: unknown. */
static double part_done(const struct rf_progress *p, uint64_t done, uint64_t records)
{
	uint64_t bytes = p->meter.bytes;

	if (!done || !p->size || bytes > p->size)
		return 0;
	return (double)done / (double)records * ((double)bytes / (double)p->size);
}

/* Writes the losses of a trainer's last step, and at the end also the loss of its first step. */
static void describe_losses(const struct rf_meter *m, bool last, char *text, size_t size)
{
	double ntp = m->ntp, rl = m->rl, first = m->first_ntp;
	int n;

	*text = 0;
	if (!m->steps)
		return;
	n = snprintf(text, size, ", %" PRIu64 " step%s", m->steps, m->steps == 1 ? "" : "s");
	if (!isnan(ntp))
		n += snprintf(text + n, size - (size_t)n, ", loss/ntp %.5g", ntp);
	if (!isnan(ntp) && last && m->steps > 1 && !isnan(first))
		n += snprintf(text + n, size - (size_t)n, " (first %.5g)", first);
	if (!isnan(rl))
		snprintf(text + n, size - (size_t)n, ", loss/rl %.3g", rl);
}

static int describe(const struct rf_progress *p, bool last, char *text, size_t size)
{
	uint64_t done = p->meter.done, records = p->meter.records, tokens = p->meter.tokens;
	double spent = rf_now() - p->from, part;
	char of[32] = "", losses[120], rate[80] = "", left[40] = "";

	if (records < done) /* both turn while we look */
		records = done;
	if (done != records)
		snprintf(of, sizeof of, " of %" PRIu64, records);
	if (tokens)
		snprintf(rate, sizeof rate, ", %" PRIu64 " tokens, %.0f tokens/s", tokens,
		         spent > 0 ? (double)tokens / spent : 0);
	describe_losses(&p->meter, last, losses, sizeof losses);
	part = part_done(p, done, records);
	if (last)
		snprintf(left, sizeof left, ", %.1f s", spent);
	else if (part > 0 && part < 1)
		snprintf(left, sizeof left, ", %.0f s left", spent * (1 / part - 1));
	return snprintf(text, size, "%s: %" PRIu64 "%s records%s%s%s, %s", p->name, done, of, losses, rate,
	                left, last ? "ended" : p->doing);
}

static int columns(void)
{
	struct winsize w;

	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

/* Puts text, or nothing, on the program's row of the terminal. */
static void place(const struct rf_progress *p, const char *text, int n)
{
	char out[400];
	int w = 0, max = columns() - 1;

	for (int i = 0; i < p->row; i++)
		out[w++] = '\n';
	w += snprintf(out + w, sizeof out - (size_t)w, "\r%.*s\033[K", n < max ? n : max, text);
	if (p->row)
		w += snprintf(out + w, sizeof out - (size_t)w, "\033[%dA", p->row);
	out[w++] = '\r';
	if (write(STDERR_FILENO, out, (size_t)w) < 0)
		return; /* a terminal that is gone ends no work */
}

static void draw(struct rf_progress *p, bool last)
{
	char text[300];
	int n;

	if (p->quiet)
		return;
	if (p->row >= 0 && last && p->shown)
		place(p, "", 0);
	if (p->row >= 0 && last && !p->asked) {
		p->shown = false;
		return;
	}
	n = describe(p, last, text, sizeof text - 1);
	if (p->row >= 0 && !last) {
		place(p, text, n);
	} else {
		text[n++] = '\n';
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			return;
	}
	p->shown = !last;
}

/* Draws until it is over.  The first line comes after a while: what is done by then needs none. */
static void *keep_drawing(void *arg)
{
	struct rf_progress *p = arg;

	pthread_mutex_lock(&lock);
	while (!p->over) {
		double spent = rf_now() - p->from,
		       wait = p->row >= 0 || spent < 10 * FRAME ? FRAME : spent / 10;
		double until = rf_now() + wait;
		struct timespec t = { .tv_sec = (time_t)until,
		                      .tv_nsec = (long)((until - (double)(time_t)until) * 1e9) };

		while (!p->over && pthread_cond_timedwait(&change, &lock, &t) != ETIMEDOUT)
			;
		if (!p->over)
			draw(p, false);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- a bar --------------------------------------------------------------------------------- */

enum { CELLS = 24 };
static char bar[400]; /* what is shown; "": nothing */

static bool is_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb");
}

static void draw_bar(const char *text)
{
	const size_t fits = rf_columns_head(text, strlen(text), columns() - 1);
	char line[500];
	int n = snprintf(line, sizeof line, "\r%.*s\033[K\r", (int)fits, text);

	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

bool rf_progress_bar(int64_t done, int64_t of, const char *text)
{
	struct flock row = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	int full = of > 0 ? (int)(done * CELLS / of) : 0;
	char safe[300];

	if (!is_terminal())
		return false;
	if (!of) {
		if (*bar && write(STDERR_FILENO, "\n", 1) < 0)
			return true;
		*bar = 0;
		return true;
	}
	fcntl(STDERR_FILENO, F_SETLK, &row);
	rf_print_line(safe, sizeof safe, text, strlen(text)); /* it has a name of the user's */
	snprintf(bar, sizeof bar, "[%.*s%.*s] %s", full, "########################", CELLS - full,
	         "........................", safe);
	draw_bar(bar);
	return true;
}

/* ---- begin and end ------------------------------------------------------------------------- */

/* The first free row; where rows cannot be locked, the cursor's. */
static int take_row(void)
{
	for (int row = 0; row < ROWS; row++) {
		struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = row, .l_len = 1 };

		if (!fcntl(STDERR_FILENO, F_SETLK, &f))
			return row;
	}
	return 0;
}

/* Bytes of all inputs, if all are regular files. */
static uint64_t size_of(char *const *paths, int n)
{
	uint64_t sum = 0;
	struct stat st;

	for (int i = 0; i < (n ? n : 1); i++) {
		bool standard = !n || !paths[i] || !strcmp(paths[i], "-");

		if ((standard ? fstat(STDIN_FILENO, &st) : stat(paths[i], &st)) || !S_ISREG(st.st_mode))
			return 0;
		sum += (uint64_t)st.st_size;
	}
	return sum;
}

static bool hushed;

void rf_progress_hush(void)
{
	hushed = true;
}

void rf_progress_begin(struct rf_progress *p, const char *name, char *const *paths, int n)
{
	bool terminal = is_terminal();
	pthread_condattr_t monotonic;
	sigset_t all, old;

	if (hushed || (!terminal && !p->asked))
		return;
	p->name = name;
	p->doing = "waiting for input";
	p->size = size_of(paths, n);
	p->from = rf_now();
	p->row = terminal ? take_row() : -1;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&change, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the thread that works */
	if (!pthread_create(&p->thread, NULL, keep_drawing, p))
		current = p;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void rf_progress_doing(struct rf_progress *p, const char *what)
{
	p->doing = what; /* without the lock: a terminal that stands still must not stop the work */
}

void rf_progress_end(struct rf_progress *p)
{
	if (p != current)
		return;
	pthread_mutex_lock(&lock);
	draw(p, true);
	p->over = true;
	pthread_cond_signal(&change);
	pthread_mutex_unlock(&lock);
	pthread_join(p->thread, NULL);
	current = NULL;
}

void rf_progress_pause(void)
{
	if (*bar)
		draw_bar("");
	if (!current)
		return;
	pthread_mutex_lock(&lock);
	rf_progress_wipe();
	current->quiet = true;
	pthread_mutex_unlock(&lock);
}

void rf_progress_resume(void)
{
	if (*bar)
		draw_bar(bar);
	if (!current)
		return;
	pthread_mutex_lock(&lock);
	current->quiet = false;
	pthread_mutex_unlock(&lock);
}

void rf_progress_wipe(void)
{
	static const char down[ROWS + 1] = "\n\n\n\n\n\n\n\n";
	char up[] = "\r\033[K\033[0A\r";
	struct rf_progress *p = current;

	if (!p || !p->shown || p->row < 0)
		return;
	up[6] = (char)('0' + p->row);
	if (write(STDERR_FILENO, down, (size_t)p->row) < 0 ||
	    write(STDERR_FILENO, up + 0, p->row ? sizeof up - 1 : 4) < 0)
		return;
	p->shown = false;
}
