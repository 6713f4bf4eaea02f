/* progress.c -- shows progress.  A thread of its own writes the lines, because the program may spend minutes
 * in one matrix product or one read(); the working thread only advances counters.  So a stopped terminal
 * does not stop the work, only the end of the program. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/progress.h"

#define TICK 0.25 /* seconds */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rf_progress *current; /* the progress that is shown */
static bool hushed;

void rf_progress_options(struct rf_progress *p, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_FLAG("progress", &p->asked,
		         "show progress from the start, even if stderr is not a terminal",
		         .noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

/* ---- a line -------------------------------------------------------------------------------- */

/* Returns an estimate of the part of all work that is done: the part of the input that was read, times the
 * part of the read records that is done; 0: unknown. */
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

static int describe_progress(const struct rf_progress *p, bool last, char *text, size_t size)
{
	uint64_t done = p->meter.done, records = p->meter.records, tokens = p->meter.tokens;
	double spent = rf_now() - p->from, part;
	char of[32] = "", losses[120], rate[80] = "", left[40] = "";

	if (records < done) /* both counters advance between the two reads */
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

/* Writes a line.  Without --progress only a program in the foreground of its terminal writes lines: a line
 * from the background would appear in the middle of another program's output, and a terminal with tostop
 * would stop the program. */
static void show_line(struct rf_progress *p, bool last)
{
	char text[400];
	int n;

	if (hushed || (!p->asked && tcgetpgrp(STDERR_FILENO) != getpgrp()))
		return;
	n = describe_progress(p, last, text, sizeof text - 1);
	text[n++] = '\n';
	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		return; /* the work goes on if the terminal is gone */
	p->shown = true;
}

/* Returns the seconds until the next line.  Without --progress the first line comes after five seconds, and
 * a program that runs for an hour writes about 20 lines. */
static double interval(const struct rf_progress *p, double spent)
{
	return p->asked ? fmax(TICK, spent / 10) : fmax(5, spent * 0.4);
}

/* Writes lines until p is no longer shown. */
static void *keep_showing(void *arg)
{
	const struct timespec tick = { .tv_nsec = (long)(TICK * 1e9) };
	struct rf_progress *p = arg;
	double next = interval(p, 0), spent;

	pthread_mutex_lock(&lock);
	while (current == p) {
		if ((spent = rf_now() - p->from) >= next) {
			show_line(p, false);
			next = spent + interval(p, spent);
		}
		pthread_mutex_unlock(&lock);
		nanosleep(&tick, NULL);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- begin and end ------------------------------------------------------------------------- */

/* Returns the number of bytes of all inputs if all are regular files; 0: unknown. */
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

void rf_progress_hush(void)
{
	pthread_mutex_lock(&lock);
	hushed = true;
	pthread_mutex_unlock(&lock);
}

void rf_progress_begin(struct rf_progress *p, const char *name, char *const *paths, int n)
{
	pthread_t thread;
	sigset_t all, old;

	if (hushed || (!p->asked && !isatty(STDERR_FILENO)))
		return;
	p->name = name;
	p->doing = "waiting for input";
	p->size = size_of(paths, n);
	p->from = rf_now();
	current = p;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* the working thread gets all signals */
	if (!pthread_create(&thread, NULL, keep_showing, p))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void rf_progress_doing(struct rf_progress *p, const char *what)
{
	p->doing = what; /* without the lock, because a stopped terminal must not stop the work */
}

void rf_progress_end(struct rf_progress *p)
{
	pthread_mutex_lock(&lock);
	if (p == current && (p->asked || p->shown))
		show_line(p, true);
	current = NULL;
	pthread_mutex_unlock(&lock);
}
