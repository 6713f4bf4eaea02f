#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ckpt/ckpt_internal.h"
#include "ckpt/live.h"
#include "io/file.h"
#include "io/lock.h"

/* ---- the trainer --------------------------------------------------------------------------- */

static bool is_ours(const char *name)
{
	return !strcmp(name, ".lock") || !strcmp(name, "trainer") || !strcmp(name, "latest") ||
	       !strncmp(name, ".latest.", 8) || rf_step_number(name + (*name == '.')) >= 0 ||
	       !strncmp(name, ".step-", 6);
}

/* Other people's folders are not taken: they could lead anywhere. */
static enum rf_code make_folder(const char *path, struct rf_err *e)
{
	const struct dirent *d;
	struct stat st;
	DIR *dir;
	enum rf_code rc = RF_OK;

	if (mkdir(path, 0700) == 0)
		return RF_OK;
	if (errno != EEXIST)
		return rf_fail(e, RF_EIO, "%s: create: %s", path, strerror(errno));
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return rf_fail(e, RF_EUSAGE,
		               "%s: not a folder of yours, so no weights are published there (--live)",
		               path);
	if (!(dir = opendir(path)))
		return rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	while (rc == RF_OK && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..") && !is_ours(d->d_name))
			rc = rf_fail(e, RF_EUSAGE,
			             "%s: it holds '%.100s', which no trainer has published: name another "
			             "folder for --live",
			             path, d->d_name);
	closedir(dir);
	return rc;
}

/* Removes all but the lock; first the note, so that nobody takes what a dead trainer left for ours. */
static enum rf_code clean(const char *path, struct rf_err *e)
{
	char name[4096];
	struct dirent **list;
	enum rf_code rc = rf_file_join(name, path, "trainer", e);
	int n;

	if (rc != RF_OK || (rc = rf_file_remove(name, e)) != RF_OK)
		return rc;
	if ((n = scandir(path, &list, NULL, alphasort)) < 0)
		return rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (rc == RF_OK && strcmp(list[i]->d_name, ".") && strcmp(list[i]->d_name, "..") &&
		    strcmp(list[i]->d_name, ".lock") &&
		    (rc = rf_file_join(name, path, list[i]->d_name, e)) == RF_OK)
			rc = rf_file_remove(name, e);
		free(list[i]);
	}
	free(list);
	return rc;
}

static enum rf_code lock(struct rf_live *l, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_file_join(path, l->run.path, ".lock", e);

	if (rc != RF_OK)
		return rc;
	if ((l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	if ((rc = rf_file_lock(l->lock, path, e)) == RF_OK)
		return RF_OK;
	close(l->lock);
	l->lock = -1;
	return rc == RF_EBUSY ? rf_fail(e, rc, "%s: another trainer publishes its weights there", l->run.path)
	                      : rc;
}

static enum rf_code note(const struct rf_live *l, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_file_join(path, l->run.path, "trainer", e);
	int fd;

	if (rc != RF_OK)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || !rf_process_note(fd))
		rc = rf_fail(e, RF_EIO, "%s: write: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

enum rf_code rf_live_open(struct rf_live *l, const char *path, const struct rf_ckpt *at, const float *weights,
                          const struct rf_transfer *transfer, struct rf_err *e)
{
	struct rf_state s;
	struct rf_ckpt_contents p = {
		.from = at, .cfg = &at->cfg, .params = &at->params, .weights = weights, .dtype = RF_F32,
		.transfer = transfer, .state = &s,
	};
	char dir[4096], name[32];
	enum rf_code rc;

	if (strlen(path) >= sizeof l->run.path)
		return rf_fail(e, RF_EUSAGE, "--live: the path is too long");
	strcpy(l->run.path, path);
	rf_state_of(at, &s);
	rf_step_name(name, at->step);
	if ((rc = make_folder(path, e)) != RF_OK || (rc = lock(l, e)) != RF_OK ||
	    (rc = clean(path, e)) != RF_OK || (rc = rf_file_join(dir, path, name, e)) != RF_OK ||
	    (rc = rf_ckpt_contents_write(&p, dir, NULL, NULL, e)) != RF_OK ||
	    (rc = rf_run_point(path, at->step, e)) != RF_OK ||
	    (rc = rf_ckpt_open(&l->run.at, dir, e)) != RF_OK)
		return rc;
	return note(l, e);
}

enum rf_code rf_live_publish(struct rf_live *l, const struct rf_commit *c, struct rf_err *e)
{
	struct rf_commit bare = *c;

	bare.m = bare.v = NULL;
	bare.keep_every = 0;
	return rf_run_commit(&l->run, &bare, e);
}

void rf_live_close(struct rf_live *l)
{
	if (l->lock < 0)
		return;
	rf_ckpt_close(&l->run.at);
	rf_file_remove(l->run.path, NULL);
	close(l->lock);
	l->lock = -1;
}

/* ---- who waits for it ---------------------------------------------------------------------- */

/* Opens the oldest step after so many commits; RF_EOF: there is none.  One that the trainer removes meanwhile
 * does not count. */
static enum rf_code find(struct rf_ckpt *c, const char *path, int64_t commits, struct rf_err *e)
{
	char dir[4096], name[32];
	enum rf_code rc;
	int64_t *steps;
	bool found = false;
	int n;

	if ((rc = rf_step_list(path, &steps, &n, e)) != RF_OK)
		return rc;
	for (int i = 0; i < n && rc == RF_OK && !found; i++) {
		rf_step_name(name, steps[i]);
		if ((rc = rf_file_join(dir, path, name, e)) != RF_OK)
			break;
		if ((rc = rf_ckpt_open(c, dir, e)) == RF_OK && !(found = c->commits >= commits))
			rf_ckpt_close(c);
		else if (rc != RF_OK && access(dir, F_OK))
			rc = RF_OK;
	}
	free(steps);
	return rc == RF_OK && !found ? RF_EOF : rc;
}

enum rf_code rf_live_wait(struct rf_ckpt *c, const char *path, int64_t commits, double patience, int watched,
                          struct rf_err *e)
{
	const double began = rf_now();
	int64_t newest, looked = -1;
	double pause = 5e-4;
	char trainer[4096];
	bool came = false;
	enum rf_code rc;

	if ((rc = rf_file_join(trainer, path, "trainer", e)) != RF_OK)
		return rc;
	for (;;) {
		const bool lives = rf_process_lives(trainer);

		/* opening one only to see that it is too old would be much to do each time */
		if (lives && rf_step_newest(path, &newest, NULL) == RF_OK && newest != looked) {
			looked = newest;
			if ((rc = find(c, path, commits, e)) != RF_EOF)
				return rc;
		}
		if (came && !lives)
			return rf_fail(e, RF_EBUSY, "%s: the trainer that published weights there is gone",
			               path);
		came |= lives;
		if (rf_file_abandoned(watched))
			return rf_fail(e, RF_EBUSY, "%s: nobody waits for what they are for any more", path);
		if (patience > 0 && rf_now() - began > patience)
			return rf_fail(e, RF_EBUSY,
			               came ? "%s: the weights after %lld commits were not published within "
			                      "%.0f s (--follow-timeout): the trainer stands still"
			                    : "%s: no trainer has published weights there, after %lld "
			                      "commits, within %.0f s (--follow-timeout): it must have "
			                      "--live",
			               path, (long long)commits, patience);
		nanosleep(&(struct timespec){ 0, (long)(pause * 1e9) }, NULL);
		pause = pause < 1e-2 ? pause * 1.1 : pause;
	}
}
