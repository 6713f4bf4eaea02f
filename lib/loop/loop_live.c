#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "ckpt/ckpt.h"
#include "ckpt/live.h"
#include "io/file.h"
#include "io/lock.h"
#include "io/steps.h"
#include "loop/loop_begin.h"

enum { GRACE = 10 }; /* seconds in which a line ends when its trainer has */

/* Removes the folders that killed trainers of the run left, in which none publishes now.  Their names begin
 * with `base`. */
static void discard_leftovers(const char *base)
{
	const char *name = rf_file_name(base);
	char folder[4096], path[4096];
	struct dirent **list;
	bool left;
	int n;

	if (rf_file_directory(folder, base, NULL) != RF_OK ||
	    (n = scandir(folder, &list, NULL, alphasort)) < 0)
		return;
	for (int i = 0; i < n; i++) {
		/* without the mark it may be a folder that another loop has just made */
		if (!strncmp(list[i]->d_name, name, strlen(name)) &&
		    rf_file_join(path, folder, list[i]->d_name, NULL) == RF_OK &&
		    rf_live_look(path, &left, NULL) == RF_OK && left)
			rf_live_discard(path);
		free(list[i]);
	}
	free(list);
}

enum rf_code rf_loop_live_folder(struct rf_loop *l, struct rf_err *e)
{
	char real[PATH_MAX], hash[17];

	if (!l->live || strcmp(l->live, "auto"))
		return RF_OK;
	if (!realpath(l->path, real))
		return rf_fail(e, RF_EIO, "%s: %s", l->path, strerror(errno));
	rf_file_hash(real, strlen(real), hash);
	snprintf(l->weights, sizeof l->weights, "%s/rf-%ld-%s",
	         access("/dev/shm", W_OK | X_OK) ? "/tmp" : "/dev/shm", (long)geteuid(), hash);
	discard_leftovers(l->weights);
	if (mkdir(l->weights, 0700) == 0)
		return RF_OK;
	strcat(l->weights, "-XXXXXX");
	if (errno != EEXIST || !mkdtemp(l->weights))
		return rf_fail(e, RF_EIO, "%s: create: %s", l->weights, strerror(errno));
	return RF_OK;
}

enum rf_code rf_loop_live_open(struct rf_loop *l, struct rf_err *e)
{
	uint64_t every = 0;

	if (!l->live)
		return RF_OK;
	if (rf_number(l->commit_every, strlen(l->commit_every), &every) && every)
		l->every = every < INT_MAX ? (int64_t)every : INT_MAX;
	if (!l->every && l->after)
		return rf_fail(e, RF_EUSAGE,
		               "--after and --live require --commit-every to be a number of batches: a line "
		               "ends after so many");
	if (l->count == RF_LOOP_OUTPUTS)
		return rf_fail(e, RF_EUSAGE, "--live cannot be combined with --count outputs");
	if (snprintf(l->weights, sizeof l->weights, "%s", l->live) >= (int)sizeof l->weights)
		return rf_fail(e, RF_EUSAGE, "--live: the path is too long");
	return RF_OK;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t rf_loop_live_span(const struct rf_loop *l)
{
	const int64_t epoch = rf_loop_per_epoch(l);
	const int64_t most = smaller(l->batches - l->done, epoch - l->done % epoch);

	return l->after ? smaller(most, l->every - l->done % l->every) : most;
}

/* Looks for a step that the trainer has published since the last look, and notes and reports its batches. */
static void look(struct rf_loop *l)
{
	const int64_t before = l->done;
	char dir[4096], name[32];
	struct rf_ckpt c;
	int64_t newest;

	if (rf_step_newest(l->weights, &newest, NULL) != RF_OK || newest <= l->at)
		return;
	rf_step_name(name, newest);
	if (rf_file_join(dir, l->weights, name, NULL) != RF_OK || rf_ckpt_open(&c, dir, NULL) != RF_OK)
		return; /* it has gone further */
	l->at = c.step;
	l->done = c.commits;
	rf_ckpt_close(&c);
	if (l->done <= before)
		return;
	rf_loop_note_time(l, (rf_now() - l->lived) / (double)(l->done - before), NULL);
	l->lived = rf_now();
	/* the last one is reported when it is committed */
	if (l->done < l->batches) {
		rf_loop_report(l);
		l->since = l->at;
	}
}

/* Watches the trainer, once a second.  Returns whether the line must be ended: its trainer was gone for
 * longer than GRACE. */
static bool watch(void *arg)
{
	struct rf_loop *l = arg;
	char trainer[4096];

	if (rf_file_join(trainer, l->weights, "trainer", NULL) != RF_OK)
		return false;
	if (rf_process_lives(trainer)) {
		l->missed = 0;
		look(l);
	} else if (l->missed == 0) {
		l->missed = rf_now();
	} else if (l->missed > 0 && rf_now() - l->missed > GRACE) {
		l->missed = rf_now();
		return true;
	}
	return false;
}

enum rf_code rf_loop_live_begin(struct rf_loop *l, struct rf_err *e)
{
	char text[80];

	if (!l->live)
		return RF_OK;
	snprintf(text, sizeof text, "%" PRId64 "\t%" PRId64 "\n", l->done, l->done + l->span);
	l->lived = rf_now();
	l->missed = -1; /* it has not come yet */
	l->child.tick = watch;
	l->child.arg = l;
	return rf_loop_note(l, "data/line", text, e);
}

enum rf_code rf_loop_live_end(struct rf_loop *l, enum rf_code rc, struct rf_err *e)
{
	char path[4096];

	if (!l->live)
		return rc;
	l->child.tick = NULL;
	if (!strcmp(l->live, "auto")) /* the trainer removes it, unless it was killed or did not begin */
		rf_live_discard(l->weights);
	if (rc != RF_OK && l->child.ended && !l->child.signal) {
		l->status = EX_TEMPFAIL;
		rf_fail(e, RF_EBUSY,
		        "batch %" PRId64 ": the trainer has ended, and a stage before it stood still: the "
		        "line was ended",
		        l->done + 1);
	}
	if (rf_loop_file(l, "data/line", path, NULL) == RF_OK)
		rf_file_remove(path, NULL);
	return rc;
}

bool rf_loop_live_may(const struct rf_loop *l)
{
	char *text = rf_loop_noted(l, "data/line");
	long long from, to;
	bool may = text && sscanf(text, "%lld %lld", &from, &to) == 2 && l->done > from && l->done <= to;

	free(text);
	return may;
}
