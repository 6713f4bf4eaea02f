/* live.c -- the folder in which a trainer publishes its weights.
 *
 * A folder with a user's work must never be taken for one, and the folder must be known again after a kill at
 * any moment.  So its mark is written before the first step and removed after the last one, and every entry
 * of a folder with the mark is compared with what a trainer writes.  The mark is the note of the trainer:
 * `trainer` and, until the first step is published, `.trainer`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
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
#include "io/tempfile.h"

/* ---- what is in a folder ------------------------------------------------------------------- */

#define NOTE "trainer"
#define EARLY "." NOTE

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static enum rf_code foreign(const char *path, const char *name, struct rf_err *e)
{
	char shown[300];

	return rf_fail(e, RF_EUSAGE,
	               "%s: it holds '%s', which no trainer has published: name another folder for --live",
	               path, rf_quote(shown, sizeof shown, name, strlen(name)));
}

/* Returns the list of files in a step's state.json; NULL: there is none. */
static json_t *listed_files(const char *step)
{
	char path[4096], *text;
	json_t *root, *files;
	size_t n;

	if (rf_file_join(path, step, "state.json", NULL) != RF_OK ||
	    rf_file_read(path, RF_MOST_STATE, &text, &n, NULL) != RF_OK)
		return NULL;
	root = json_loadb(text, n, 0, NULL);
	files = json_incref(json_object_get(root, "files"));
	json_decref(root);
	free(text);
	return files;
}

/* Checks one file of a step.  files: those that its state.json lists; NULL: any. */
static enum rf_code check_file(const char *folder, const char *step, const char *name, const json_t *files,
                               struct rf_err *e)
{
	char inside[600], path[4096];
	enum rf_code rc;
	struct stat st;

	snprintf(inside, sizeof inside, "%.300s/%.255s", step, name);
	if (!strcmp(name, "optim.safetensors"))
		return rf_fail(e, RF_EUSAGE,
		               "%s: its %s has an optimizer's moments, so it is a run, and not weights that "
		               "--live has published: name another folder for --live",
		               folder, step);
	if ((rc = rf_file_join(path, folder, inside, e)) != RF_OK)
		return rc;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? RF_OK : rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (files && strcmp(name, "state.json") && !json_object_get(files, name)))
		return foreign(folder, inside, e);
	return RF_OK;
}

/* Checks that a step has only the files that a trainer wrote there.  One that is being written or removed has
 * a temporary name, and its list of files may be missing. */
static enum rf_code check_step(const char *folder, const char *step, struct rf_err *e)
{
	const bool whole = *step != '.';
	enum rf_code rc;
	struct dirent **list;
	json_t *files;
	char path[4096];
	struct stat st;
	int n;

	if ((rc = rf_file_join(path, folder, step, e)) != RF_OK)
		return rc;
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return foreign(folder, step, e);
	if ((n = scandir(path, &list, NULL, alphasort)) < 0)
		return rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	files = listed_files(path);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (rc == RF_OK && strcmp(name, ".") && strcmp(name, ".."))
			rc = whole && !files ? foreign(folder, step, e)
			                     : check_file(folder, step, name, files, e);
		free(list[i]);
	}
	free(list);
	json_decref(files);
	return rc;
}

/* Checks that an entry of the folder is one that a trainer writes. */
static enum rf_code check_entry(const char *folder, const char *name, struct rf_err *e)
{
	const bool link = !strcmp(name, "latest") || begins(name, ".latest.tmp-");
	enum rf_code rc;
	char path[4096];
	struct stat st;

	if (rf_step_number(name) >= 0 || (begins(name, ".step-") && strstr(name, ".tmp-")))
		return check_step(folder, name, e);
	if (!link && strcmp(name, ".lock") && strcmp(name, NOTE) && strcmp(name, EARLY))
		return foreign(folder, name, e);
	if ((rc = rf_file_join(path, folder, name, e)) != RF_OK)
		return rc;
	if (lstat(path, &st) < 0 || (link ? !S_ISLNK(st.st_mode) : !S_ISREG(st.st_mode)) ||
	    (!strcmp(name, ".lock") && st.st_size))
		return foreign(folder, name, e);
	return RF_OK;
}

static bool is_noted(const char *folder, const char *name)
{
	char path[4096];

	return rf_file_join(path, folder, name, NULL) == RF_OK && rf_process_noted(path);
}

/* Checks that the folder may be used.  *left: it holds what a trainer left there.  Without its mark it may
 * hold no more than is written before the mark. */
static enum rf_code look(const char *path, bool *left, struct rf_err *e)
{
	struct dirent **list;
	enum rf_code rc = RF_OK;
	int n;

	*left = is_noted(path, NOTE) || is_noted(path, EARLY);
	if ((n = scandir(path, &list, NULL, alphasort)) < 0)
		return rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (rc == RF_OK && strcmp(name, ".") && strcmp(name, "..") &&
		    (rc = check_entry(path, name, e)) == RF_OK && !*left && strcmp(name, ".lock") &&
		    strcmp(name, EARLY))
			rc = rf_fail(e, RF_EUSAGE,
			             "%s: it holds '%s', but not the file '" NOTE "' that --live writes, so "
			             "it may be a run: name another folder for --live",
			             path, name);
		free(list[i]);
	}
	free(list);
	return rc;
}

/* Other people's folders are not taken: they could lead anywhere. */
static enum rf_code is_own(const char *path, struct rf_err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return rf_fail(e, RF_EUSAGE,
		               "%s: not a folder of yours, so no weights are published there (--live)",
		               path);
	return RF_OK;
}

/* Copies a path without the slashes at its end, which would lead through a link. */
static enum rf_code plain_path(char to[4096], const char *path, struct rf_err *e)
{
	size_t name, n = rf_file_split(path, &name);

	if (n >= 4096)
		return rf_fail(e, RF_EUSAGE, "--live: the path is too long");
	snprintf(to, 4096, "%.*s", n ? (int)n : 1, n ? path : "/");
	return RF_OK;
}

/* ---- making and removing ------------------------------------------------------------------- */

/* Removes a step, or another entry.  The name of a step goes first, as when a run is pruned: a step that
 * keeps its name is complete. */
static enum rf_code remove_entry(const char *path, const char *entry, struct rf_err *e)
{
	char name[4096], temp[4096];
	enum rf_code rc = rf_file_join(name, path, entry, e);

	if (rc != RF_OK)
		return rc;
	if (rf_step_number(entry) < 0 || rf_tempfile_name(temp, name, NULL) != RF_OK ||
	    rename(name, temp) < 0)
		strcpy(temp, name);
	return rf_file_remove(temp, e);
}

/* Removes what a trainer writes, but neither the marks nor the lock; what came from elsewhere stays. */
static enum rf_code clean(const char *path, struct rf_err *e)
{
	struct dirent **list;
	enum rf_code rc = RF_OK;
	int n;

	if ((n = scandir(path, &list, NULL, alphasort)) < 0)
		return rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *entry = list[i]->d_name;

		if (rc == RF_OK && strcmp(entry, ".") && strcmp(entry, "..") && strcmp(entry, ".lock") &&
		    strcmp(entry, NOTE) && strcmp(entry, EARLY) && check_entry(path, entry, NULL) == RF_OK)
			rc = remove_entry(path, entry, e);
		free(list[i]);
	}
	free(list);
	return rc;
}

/* Removes the marks and the lock, and the folder if nothing is left in it and `whole` is set. */
static void remove_rest(const char *path, bool whole)
{
	static const char *const rest[] = { NOTE, EARLY, ".lock" };
	char name[4096];

	for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
		if (rf_file_join(name, path, rest[i], NULL) == RF_OK)
			unlink(name);
	if (whole)
		rmdir(path);
}

static enum rf_code lock(int *fd, const char *folder, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_file_join(path, folder, ".lock", e);

	if (rc != RF_OK)
		return rc;
	if ((*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	if ((rc = rf_file_lock(*fd, path, e)) == RF_OK)
		return RF_OK;
	close(*fd);
	*fd = -1;
	return rc == RF_EBUSY ? rf_fail(e, rc, "%s: another trainer publishes its weights there", folder)
	                      : rc;
}

enum rf_code rf_live_look(const char *folder, bool *left, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc;
	struct stat st;

	*left = false;
	if ((rc = plain_path(path, folder, e)) != RF_OK || (lstat(path, &st) < 0 && errno == ENOENT))
		return rc;
	return (rc = is_own(path, e)) == RF_OK ? look(path, left, e) : rc;
}

void rf_live_discard(const char *folder)
{
	char path[4096];
	bool left;
	int fd;

	if (plain_path(path, folder, NULL) != RF_OK || rf_live_look(path, &left, NULL) != RF_OK ||
	    rmdir(path) == 0 || lock(&fd, path, NULL) != RF_OK)
		return;
	if (look(path, &left, NULL) == RF_OK && clean(path, NULL) == RF_OK)
		remove_rest(path, true);
	close(fd);
}

/* ---- the trainer --------------------------------------------------------------------------- */

/* Makes the folder, or takes one that may be used, and marks it.  Nothing is written to a folder before it
 * was looked at, and nothing is removed from it before that was repeated under the lock. */
static enum rf_code take_folder(struct rf_live *l, struct rf_err *e)
{
	const char *path = l->run.path;
	char early[4096];
	enum rf_code rc;
	bool left;

	if (!(l->made = mkdir(path, 0700) == 0)) {
		if (errno != EEXIST)
			return rf_fail(e, RF_EIO, "%s: create: %s", path, strerror(errno));
		if ((rc = is_own(path, e)) != RF_OK || (rc = look(path, &left, e)) != RF_OK)
			return rc;
	}
	if ((rc = lock(&l->lock, path, e)) != RF_OK)
		return rc;
	if ((rc = look(path, &left, e)) != RF_OK) {
		close(l->lock); /* another program wrote to the folder meanwhile */
		l->lock = -1;
		return rc;
	}
	if ((rc = clean(path, e)) != RF_OK || (rc = rf_file_join(early, path, EARLY, e)) != RF_OK ||
	    (rc = rf_file_remove(early, e)) != RF_OK)
		return rc;
	return rf_process_note(early, &l->alive, e);
}

enum rf_code rf_live_open(struct rf_live *l, const char *path, const struct rf_ckpt *at, const float *weights,
                          const struct rf_transfer *transfer, struct rf_err *e)
{
	struct rf_state s;
	struct rf_ckpt_contents p = {
		.from = at, .cfg = &at->cfg, .params = &at->params, .weights = weights, .dtype = RF_F32,
		.transfer = transfer, .state = &s,
	};
	char dir[4096], temp[4096], early[4096], note[4096], name[32];
	enum rf_code rc;

	if ((rc = plain_path(l->run.path, path, e)) != RF_OK)
		return rc;
	rf_state_of(at, &s);
	rf_step_name(name, at->step);
	if ((rc = take_folder(l, e)) != RF_OK || (rc = rf_file_join(dir, l->run.path, name, e)) != RF_OK ||
	    (rc = rf_tempfile_name(temp, dir, e)) != RF_OK ||
	    (rc = rf_ckpt_contents_write(&p, temp, NULL, NULL, e)) != RF_OK ||
	    (rc = rf_tempfile_publish(temp, dir, NULL, e)) != RF_OK ||
	    (rc = rf_run_point(l->run.path, at->step, e)) != RF_OK ||
	    (rc = rf_ckpt_open(&l->run.at, dir, e)) != RF_OK ||
	    (rc = rf_file_join(early, l->run.path, EARLY, e)) != RF_OK ||
	    (rc = rf_file_join(note, l->run.path, NOTE, e)) != RF_OK)
		return rc;
	/* from now on the trainer counts as alive */
	return rename(early, note) == 0 ? RF_OK : rf_fail(e, RF_EIO, "%s: rename: %s", note, strerror(errno));
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
	if (l->alive >= 0)
		close(l->alive);
	if (clean(l->run.path, NULL) == RF_OK)
		remove_rest(l->run.path, l->made || l->begun);
	close(l->lock);
	l->alive = l->lock = -1;
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
