/* run.c -- locks, repairs, begins, commits and prunes a run.
 *
 * A step appears when a complete and synced directory is renamed to step-N.  It disappears when it is renamed
 * back to a temporary name; only then are its files removed.  So a directory with the name step-N can be read
 * at any instant, and after a power loss (T. S. Pillai et al. 2014, "All file systems are not created
 * equal"). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt_internal.h"
#include "ckpt/manifest.h"
#include "ckpt/writer.h"
#include "io/file.h"
#include "io/tempfile.h"

/* ---- what is in a run ---------------------------------------------------------------------- */

/* Returns whether a name belongs to a step, to the link `latest` or to the manifest, which only the holder of
 * the run's lock writes, or to a test of rf-doctor.  The holder removes those that a killed program left. */
static bool needs_lock(const char *name)
{
	return !strncmp(name, "step-", 5) || !strncmp(name, "latest.", 7) ||
	       !strncmp(name, RF_MANIFEST, strlen(RF_MANIFEST)) || !strncmp(name, "rf-doctor.", 10);
}

/* Makes PATH/latest point to the step, by rename. */
static enum rf_code point_latest(const char *path, int64_t step, struct rf_err *e)
{
	char latest[4096], temp[4096], name[32];
	enum rf_code rc;

	rf_step_name(name, step);
	if ((rc = rf_file_join(latest, path, "latest", e)) != RF_OK ||
	    (rc = rf_tempfile_name(temp, latest, e)) != RF_OK)
		return rc;
	if (symlink(name, temp) < 0)
		return rf_fail(e, RF_EIO, "%s: create: %s", temp, strerror(errno));
	return rf_tempfile_publish(temp, latest, NULL, e);
}

static enum rf_code repair_latest(const char *path, int64_t newest, struct rf_err *e)
{
	char latest[4096], target[64] = "", name[32];
	enum rf_code rc;

	rf_step_name(name, newest);
	if ((rc = rf_file_join(latest, path, "latest", e)) != RF_OK)
		return rc;
	if (readlink(latest, target, sizeof target - 1) >= 0 && !strcmp(target, name))
		return RF_OK;
	return point_latest(path, newest, e);
}

/* ---- opening ------------------------------------------------------------------------------- */

enum rf_code rf_run_lock(const char *run, int *lock, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc;

	if ((rc = rf_file_join(path, run, ".lock", e)) != RF_OK)
		return rc;
	if ((*lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	if ((rc = rf_file_lock(*lock, path, e)) == RF_OK)
		return RF_OK;
	if (rc == RF_EBUSY)
		rf_fail(e, RF_EBUSY, "%s: another program is training this run; try again when it has ended",
		        run);
	close(*lock);
	*lock = -1;
	return rc;
}

/* Checks that path is a run, and finds its newest step, without the lock. */
static enum rf_code find_run(struct rf_run *r, const char *path, int64_t *newest, struct rf_err *e)
{
	char config[4096];
	enum rf_code rc;
	struct stat st;
	int n;

	*r = (struct rf_run){ .lock = -1 };
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return rf_fail(e, RF_EMODEL,
		               "%s: not a directory (a run is a directory); start a run with: rf-init "
		               "--from CHECKPOINT RUN",
		               path);
	if ((rc = rf_file_join(config, path, "config.json", e)) != RF_OK)
		return rc;
	strcpy(r->path, path);
	if (stat(config, &st) == 0 && (n = rf_run_of_step(path)))
		return rf_fail(e, RF_EUSAGE,
		               "%s: a step of a run, and the run itself is what is trained: -m %.*s", path, n,
		               path);
	if (stat(config, &st) == 0)
		return rf_fail(e, RF_EUSAGE,
		               "%s: a checkpoint, not a run; begin a run with: rf-init --from %s RUN", path,
		               path);
	return rf_step_newest(path, newest, e);
}

/* Opens the newest step by its own name, because the link `latest` may be old after a kill. */
static enum rf_code open_newest(struct rf_run *r, int64_t newest, struct rf_err *e)
{
	char dir[4096], state[4096], name[32];
	enum rf_code rc;
	struct stat st;

	rf_step_name(name, newest);
	if ((rc = rf_file_join(dir, r->path, name, e)) != RF_OK ||
	    (rc = rf_file_join(state, dir, "state.json", e)) != RF_OK)
		return rc;
	if (stat(state, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return rf_fail(e, RF_EMODEL,
		               "%s: the step is damaged: it has no state.json (remove the step to continue "
		               "from the one before)",
		               dir);
	if ((rc = rf_ckpt_open(&r->at, dir, e)) == RF_OK && r->at.step != newest) {
		rc = rf_fail(e, RF_EMODEL,
		             "%s: its state.json belongs to step %lld (remove the step to continue from the "
		             "one before)",
		             dir, (long long)r->at.step);
		rf_ckpt_close(&r->at);
	}
	return rc;
}

enum rf_code rf_run_open(struct rf_run *r, const char *path, struct rf_err *e)
{
	char dir[4096], lost[RF_STEP_LOST];
	int64_t newest;
	enum rf_code rc;

	/* first, because the lock would make its file in any directory */
	if ((rc = find_run(r, path, &newest, e)) != RF_OK)
		return rc;
	if ((rc = rf_run_lock(path, &r->lock, e)) != RF_OK ||
	    (rc = rf_tempfile_sweep(path, needs_lock, e)) != RF_OK ||
	    (rc = rf_step_newest(path, &newest, e)) != RF_OK ||
	    (rc = rf_step_latest(path, dir, lost, e)) != RF_OK || (rc = open_newest(r, newest, e)) != RF_OK ||
	    (rc = repair_latest(path, newest, e)) != RF_OK)
		rf_run_close(r);
	else if (*lost)
		rf_ckpt_lost(&r->at, lost);
	return rc;
}

enum rf_code rf_run_look(struct rf_run *r, const char *path, struct rf_err *e)
{
	char dir[4096], lost[RF_STEP_LOST];
	int64_t newest;
	enum rf_code rc;

	*r = (struct rf_run){ .lock = -1 };
	if (rf_is_config(path))
		return rf_ckpt_of_config(&r->at, path, e);
	if ((rc = find_run(r, path, &newest, e)) != RF_OK ||
	    (rc = rf_step_latest(path, dir, lost, e)) != RF_OK)
		return rc;
	/* a trainer may have committed a step and removed this one meanwhile */
	while ((rc = open_newest(r, newest, e)) != RF_OK) {
		int64_t before = newest;

		if (rf_step_newest(path, &newest, NULL) != RF_OK || newest == before)
			return rc;
	}
	if (*lost)
		rf_ckpt_lost(&r->at, lost);
	return rc;
}

void rf_run_close(struct rf_run *r)
{
	rf_ckpt_close(&r->at);
	if (r->lock >= 0)
		close(r->lock);
	r->lock = -1;
}

/* ---- committing ---------------------------------------------------------------------------- */

/* Removes the steps that are neither among the `keep` newest nor multiples of keep_every.  Each gets a
 * temporary name first, except a folder in the lower layer of an overlay, which cannot be renamed. */
static enum rf_code prune_steps(const char *path, int keep, int keep_every, struct rf_err *e)
{
	char name[32], step[4096], temp[4096];
	enum rf_code rc;
	int64_t *steps;
	int n;

	rc = rf_step_list(path, &steps, &n, e);
	for (int i = 0; rc == RF_OK && i < n - keep; i++) {
		if (keep_every && steps[i] % keep_every == 0)
			continue;
		rf_step_name(name, steps[i]);
		if ((rc = rf_file_join(step, path, name, e)) != RF_OK ||
		    (rc = rf_tempfile_name(temp, step, e)) != RF_OK)
			break;
		if (rename(step, temp) == 0)
			rc = rf_file_remove(temp, e);
		else if (errno == EXDEV)
			rc = rf_file_remove(step, e);
		else
			rc = rf_fail(e, RF_EIO, "%s: rename: %s", step, strerror(errno));
	}
	free(steps);
	return rc;
}

/* Returns the state of the step that follows `at`. */
static struct rf_state next_state(const struct rf_ckpt *at, const struct rf_commit *c)
{
	struct rf_state s = { .step = c->step,
		              .parent = at->step,
		              .updates = c->updates,
		              .commits = at->commits + (c->batches ? c->batches : 1),
		              .data_next = c->data_hash ? c->data_next : at->data_next,
		              .has_reward_mean = c->has_reward_mean || at->has_reward_mean,
		              .reward_mean = c->has_reward_mean ? c->reward_mean : at->reward_mean };

	s.past_count = at->past_count < RF_HASH_HISTORY ? at->past_count : RF_HASH_HISTORY;
	memcpy(s.past, at->past, sizeof s.past);
	strcpy(s.data_hash, c->data_hash ? c->data_hash : at->data_hash);
	return s;
}

/* Moves `at` to the step with this state. */
static void set_state(struct rf_ckpt *at, const struct rf_state *s, const char *weights)
{
	at->step = s->step;
	at->parent = s->parent;
	at->commits = s->commits;
	at->updates = s->updates;
	strcpy(at->weights, weights);
	strcpy(at->past[0], weights);
	memcpy(at->past + 1, s->past, sizeof s->past);
	at->past_count = s->past_count + 1;
	strcpy(at->data_hash, s->data_hash);
	at->data_next = s->data_next;
	at->has_reward_mean = s->has_reward_mean;
	at->reward_mean = s->reward_mean;
}

/* Opens the tensors of the new step instead of the old ones.  The table of parameters and the config stay,
 * because the program points into them. */
static enum rf_code reopen_tensors(struct rf_ckpt *at, const char *dir, const char *moments, struct rf_err *e)
{
	struct rf_tensors t;
	enum rf_code rc;

	if ((rc = rf_tensors_open_dir(&t, dir, e)) != RF_OK)
		return rc;
	rf_tensors_close(&at->tensors);
	at->tensors = t;
	strcpy(at->dir, dir);
	strcpy(at->moments, moments);
	return RF_OK;
}

/* Prunes the run and looks at the free room of the disk.  Problems do not make the commit fail: they go into
 * r->warning. */
static void tidy_up(struct rf_run *r, const struct rf_commit *c, uint64_t bytes)
{
	struct rf_err e;
	uint64_t room;

	*r->warning = 0;
	if (prune_steps(r->path, c->keep, c->keep_every, &e) != RF_OK)
		snprintf(r->warning, sizeof r->warning, "old steps could not be removed: %.200s", e.msg);
	else if (rf_file_space(r->path, &room, NULL) == RF_OK && room / 3 < bytes)
		snprintf(r->warning, sizeof r->warning,
		         "the disk is nearly full: %llu bytes are free, and a step needs %llu",
		         (unsigned long long)room, (unsigned long long)bytes);
}

uint64_t rf_run_step_bytes(const struct rf_run *r)
{
	struct rf_ckpt_writer w = RF_CKPT_WRITER(&r->at);

	w.with_moments = true;
	return rf_ckpt_bytes(&w);
}

enum rf_code rf_run_can_commit(const struct rf_run *r, struct rf_err *e)
{
	const uint64_t want = rf_run_step_bytes(r);
	uint64_t room;
	enum rf_code rc;

	if (access(r->path, W_OK | X_OK))
		return rf_fail(e, RF_EIO, "%s: no step can be written there: %s", r->path, strerror(errno));
	if ((rc = rf_file_space(r->path, &room, e)) == RF_OK && room < want)
		rc = rf_fail(e, RF_EIO, "%s: a step needs %llu bytes, but only %llu are free", r->path,
		             (unsigned long long)want, (unsigned long long)room);
	return rc;
}

enum rf_code rf_commit_begin(const struct rf_run *r, const struct rf_commit *c, struct rf_ckpt_writer *w,
                             struct rf_err *e)
{
	char dir[4096], name[32];
	enum rf_code rc;

	if (c->step <= r->at.step || c->keep < 1)
		return rf_fail(e, RF_ENUMERIC, "%s: step %lld cannot be committed after step %lld", r->path,
		               (long long)c->step, (long long)r->at.step);
	rf_step_name(name, c->step);
	rc = rf_file_join(dir, r->path, name, e);
	return rc == RF_OK ? rf_ckpt_begin(w, dir, e) : rc;
}

enum rf_code rf_commit_finish(struct rf_run *r, const struct rf_commit *c, struct rf_ckpt_writer *w,
                              struct rf_err *e)
{
	const struct rf_state s = next_state(&r->at, c);
	const uint64_t bytes = rf_ckpt_bytes(w);
	enum rf_code rc;

	if ((rc = rf_ckpt_finish(w, &s, e)) != RF_OK)
		return rc;
	set_state(&r->at, &s, w->weights);
	if ((rc = point_latest(r->path, s.step, e)) != RF_OK ||
	    (rc = reopen_tensors(&r->at, w->to, w->moments, e)) != RF_OK)
		return rf_blame(e, "step %lld was committed, but something after it failed",
		                (long long)s.step);
	tidy_up(r, c, bytes);
	return RF_OK;
}

void rf_run_follow(struct rf_run *r, const struct rf_commit *c, const char weights[17])
{
	const struct rf_state s = next_state(&r->at, c);

	set_state(&r->at, &s, weights);
}

/* ---- beginning ----------------------------------------------------------------------------- */

static enum rf_code check_new(const char *run, struct rf_err *e)
{
	const struct dirent *d;
	struct stat st;
	DIR *dir = opendir(run);
	bool empty = true;

	if (dir && lstat(run, &st) == 0 && S_ISLNK(st.st_mode)) {
		closedir(dir);
		return rf_fail(e, RF_EUSAGE, "%s is a symbolic link: name its target", run);
	}
	if (!dir)
		return errno == ENOENT ? RF_OK
		                       : rf_fail(e, errno == ENOTDIR ? RF_EUSAGE : RF_EIO, "%s: %s", run,
		                                 strerror(errno));
	while (empty && (d = readdir(dir)))
		empty = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
	closedir(dir);
	return empty ? RF_OK : rf_fail(e, RF_EUSAGE, "%s: exists already and is not empty", run);
}

/* Reads the weights of the first step of a run, and with `m` also its moments. */
static enum rf_code load_step(const struct rf_ckpt *from, float *flat, float *m, float *v, struct rf_err *e)
{
	bool there = true;
	enum rf_code rc = rf_ckpt_load(from, flat, e);

	if (rc == RF_OK && m)
		rc = rf_ckpt_load_moments(from, m, v, &there, e);
	if (rc == RF_OK && !there)
		rc = rf_fail(e, RF_EMODEL, "%s: there are no moments: only a step that was trained has some",
		             from->dir);
	return rc;
}

static enum rf_code write_step(struct rf_ckpt_writer *w, const char *path, const struct rf_state *s,
                               const float *flat, const float *m, const float *v, struct rf_err *e)
{
	enum rf_code rc;

	if ((rc = rf_ckpt_begin(w, path, e)) != RF_OK || (rc = rf_ckpt_put_weights(w, flat, e)) != RF_OK ||
	    (m && (rc = rf_ckpt_put_moments(w, m, v, e)) != RF_OK))
		return rc;
	return rf_ckpt_finish(w, s, e);
}

/* Makes a temporary folder with the first step and the link `latest`, and renames the folder to RUN. */
static enum rf_code write_run(struct rf_ckpt_writer *w, const char *run, const struct rf_state *s,
                              const float *flat, const float *m, const float *v, struct rf_err *e)
{
	char temp[4096], step[4096], name[32];
	enum rf_code rc;

	rf_step_name(name, s->step);
	if ((rc = rf_tempfile_name(temp, run, e)) != RF_OK ||
	    (rc = rf_file_join(step, temp, name, e)) != RF_OK)
		return rc;
	if (mkdir(temp, 0777) < 0)
		return rf_fail(e, RF_EIO, "%s: create: %s", run, strerror(errno));
	if ((rc = write_step(w, step, s, flat, m, v, e)) == RF_OK &&
	    (rc = point_latest(temp, s->step, e)) == RF_OK)
		return rf_tempfile_publish(temp, run, w->stop, e);
	rf_file_remove(temp, NULL);
	return rc;
}

enum rf_code rf_run_begin(const struct rf_ckpt *from, const char *run, bool moments,
                          const volatile sig_atomic_t *stop, struct rf_err *e)
{
	const size_t n = from->params.total;
	const struct rf_state s = { .parent = -1,
		                    .step = moments ? from->step : 0,
		                    .updates = moments ? from->updates : 0,
		                    .has_reward_mean = moments && from->has_reward_mean,
		                    .reward_mean = from->reward_mean };
	struct rf_ckpt_writer w = RF_CKPT_WRITER(from);
	char temp[4096];
	float *flat, *m, *v;
	enum rf_code rc;

	w.with_moments = moments;
	w.stop = stop;
	if ((rc = rf_tempfile_name(temp, run, e)) != RF_OK || (rc = check_new(run, e)) != RF_OK)
		return rc;
	if (!(flat = malloc((moments ? 3 : 1) * n * sizeof *flat)))
		return rf_fail(e, RF_ENOMEM, "%s: out of memory (%zu weights)", from->dir, n);
	m = moments ? flat + n : NULL;
	v = moments ? flat + 2 * n : NULL;
	if ((rc = load_step(from, flat, m, v, e)) == RF_OK)
		rc = write_run(&w, run, &s, flat, m, v, e);
	free(flat);
	return rc;
}
