/* run -- opens a run like a trainer, for tests that disturb a trainer from outside.
 *
 * run commit RUN STEP [KEEP]  opens the run, changes every weight and moment, and commits; keeps KEEP steps
 * (2) run tidy RUN                opens and closes the run run hold RUN                opens the run, prints
 * "held", and closes the run when standard input ends run check RUN               reads all of the newest
 * step like a filter, and prints its number and hash
 *
 * Exit statuses and messages are those of the programs. */
#include <stdio.h>

#include "unit/small_trainer.h"

static volatile sig_atomic_t stop;

static int report_error(const struct rf_err *e)
{
	fprintf(stderr, "run: %s\n", e->msg);
	return stop ? 128 + stop : rf_exit_status(e->code);
}

static void on_signal(int sig) { stop = sig; }

static int commit_step(const char *path, int64_t step, int keep)
{
	const struct rf_commit how = { .data_hash = "00000000000000aa", .data_next = step, .keep = keep };
	struct rf_run r;
	struct rf_err e;

	signal(SIGTERM, on_signal);
	if (rf_run_open(&r, path, &e) != RF_OK)
		return report_error(&e);
	if (train(&r, step, &how, &stop, &e) != RF_OK) {
		rf_run_close(&r);
		return report_error(&e);
	}
	rf_run_close(&r);
	return 0;
}

static int open_run(const char *path, bool hold)
{
	struct rf_run r;
	struct rf_err e;

	if (rf_run_open(&r, path, &e) != RF_OK)
		return report_error(&e);
	if (hold) {
		puts("held");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	rf_run_close(&r);
	return 0;
}

static int check_run(const char *path)
{
	char weights[17];
	struct rf_err e;
	int64_t step;

	if (read_whole(path, &step, weights, &e) != RF_OK)
		return report_error(&e);
	printf("%lld %s\n", (long long)step, weights);
	return 0;
}

int main(int argc, char *argv[])
{
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "commit"))
		return commit_step(argv[2], atoll(argv[3]), argc == 5 ? atoi(argv[4]) : 2);
	if (argc == 3 && !strcmp(argv[1], "tidy"))
		return open_run(argv[2], false);
	if (argc == 3 && !strcmp(argv[1], "hold"))
		return open_run(argv[2], true);
	if (argc == 3 && !strcmp(argv[1], "check"))
		return check_run(argv[2]);
	return 64;
}
