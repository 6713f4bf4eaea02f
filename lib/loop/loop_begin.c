/* loop_begin.c -- prepares a run before its first batch.
 *
 * A run is begun by its words, which RUN/data/words keeps: a start with other words is refused.  All of this
 * happens under the loop's lock, which commands inherit: if a command of a killed loop still runs, its
 * commit comes first.
 *
 * The order of the steps makes a kill at any moment harmless: the words are written before the data and the
 * first step are made, and the first step appears by the rename of its folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt.h"
#include "io/file.h"
#include "io/steps.h"
#include "io/tempfile.h"
#include "loop/loop.h"
#include "loop/loop_internal.h"
#include "stream/stream.h"

/* ---- folders ------------------------------------------------------------------------------- */

/* Returns whether a folder holds any entry except `data`, which a loop makes first. */
static bool is_foreign(const char *path)
{
	struct dirent **list;
	bool foreign = false;
	int n = scandir(path, &list, NULL, NULL);

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		foreign |= strcmp(name, ".") && strcmp(name, "..") && strcmp(name, "data");
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return foreign || (n < 0 && errno == ENOTDIR);
}

/* ---- checks before any file is made -------------------------------------------------------- */

static enum rf_code check_from(const struct rf_loop *l, struct rf_err *e)
{
	struct rf_ckpt c;
	enum rf_code rc;

	if (!rf_loop_has_steps(l))
		return RF_OK;
	if (!l->set.from)
		return rf_fail(e, RF_EUSAGE,
		               "missing option: --from model, since the run does not exist yet");
	if ((rc = rf_ckpt_open(&c, l->set.from, e)) == RF_OK)
		rf_ckpt_close(&c);
	return rc;
}

/* Checks that the data, if they exist, are a stream that the model can read; model NULL: any stream. */
static enum rf_code check_fit(const struct rf_loop *l, const char *model, struct rf_err *e)
{
	struct rf_ckpt c;
	enum rf_code rc;
	struct rf_in *in;

	if (access(l->corpus, F_OK) < 0 && errno == ENOENT)
		return RF_OK;
	if ((rc = rf_in_open(&in, l->corpus, UINT64_C(1) << 40, e)) != RF_OK)
		return rc;
	if (model && (rc = rf_ckpt_open(&c, model, e)) == RF_OK) {
		if ((rc = rf_ckpt_check_head(&c, rf_in_head(in), e)) != RF_OK)
			rc = rf_blame(e, "%s does not fit %s", l->corpus, model);
		rf_ckpt_close(&c);
	}
	rf_in_close(in);
	return rc;
}

/* Checks that the data are a regular file, or missing, and do not have the name of a file that the loop
 * replaces. */
static enum rf_code check_data(const struct rf_loop *l, struct rf_err *e)
{
	char folder[4096], data[4096];
	enum rf_code rc;
	struct stat st;

	if (stat(l->corpus, &st) == 0 && !S_ISREG(st.st_mode))
		return rf_fail(e, RF_EUSAGE,
		               "%s: --data must be a regular file, which is read again for each epoch",
		               l->corpus);
	if ((rc = rf_loop_file(l, "data", data, e)) != RF_OK ||
	    (rc = rf_file_directory(folder, l->corpus, e)) != RF_OK)
		return rc;
	if (rf_loop_is_order(rf_file_name(l->corpus)) && rf_file_inside(folder, data))
		return rf_fail(e, RF_EUSAGE,
		               "%s: data of this name are the loop's own in RUN/data: give them another",
		               l->corpus);
	return RF_OK;
}

static enum rf_code check_settings(const struct rf_loop *l, struct rf_err *e)
{
	char lock[4096];
	enum rf_code rc = rf_loop_file(l, "data/.lock", lock, e);
	bool begun;

	if (rc != RF_OK)
		return rc;
	if (!l->set.make && access(l->corpus, R_OK) < 0)
		return rf_fail(e, RF_ENOINPUT, "%s: %s", l->corpus, strerror(errno));
	if ((rc = check_data(l, e)) != RF_OK)
		return rc;
	if ((rc = rf_loop_begun(l, &begun, e)) != RF_OK || begun)
		return rc;
	if (rf_loop_has_steps(l) && access(lock, F_OK) < 0 && is_foreign(l->path)) {
		int run = rf_run_of_step(l->path);

		return run ? rf_fail(e, RF_EUSAGE,
		                     "%s: a step of a run, and the run itself is what is trained: -m %.*s",
		                     l->path, run, l->path)
		           : rf_fail(e, RF_EDATA, "%s: it exists but is not a run: name a new directory",
		                     l->path);
	}
	/* data of --make are checked after the words were compared */
	return (rc = check_from(l, e)) == RF_OK && !l->set.make ? check_fit(l, l->set.from, e) : rc;
}

/* ---- the lock ------------------------------------------------------------------------------ */

/* Takes the loop's lock, and with --wait waits for it.  At the first try a holder may have taken the lock but
 * not yet written its process number, so the first try is not reported. */
static enum rf_code take_lock(struct rf_loop *l, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_loop_file(l, "data/.lock", path, e);

	for (int tries = 0; rc == RF_OK; tries++) {
		if ((rc = rf_lock_try(&l->lock, path, e)) != RF_EBUSY)
			return rc;
		if (l->lock.holder && !l->set.wait)
			return rf_fail(e, RF_EBUSY,
			               "another loop, process %ld, is working on the run: try again "
			               "when it has ended (rf-loop --wait waits)",
			               (long)l->lock.holder);
		if (l->lock.away && !l->set.wait)
			return rf_fail(e, RF_EBUSY,
			               "a loop on another machine or in another container is working on the "
			               "run or left processes behind: try again when they have ended "
			               "(rf-loop --wait waits)");
		if (tries == 1 && l->lock.holder)
			rf_loop_say(l,
			            "another loop, process %ld, is working on the run: waiting until it "
			            "ends",
			            (long)l->lock.holder);
		else if (tries == 1 && l->lock.away)
			rf_loop_say(l, "a loop elsewhere is working on the run: waiting until it ends");
		else if (tries == 1)
			rf_loop_say(l, "a loop that has ended left processes behind: waiting until they end");
		rc = rf_loop_go_on(l, 0.2, e);
	}
	return rc;
}

/* ---- data ---------------------------------------------------------------------------------- */

enum { SKIPPED = 4096 }; /* records between two checks for a signal */

/* Counts the records of the data without reading them.  l->measured becomes whether the data exist. */
static enum rf_code count_data(struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc;
	struct rf_in *in;

	l->measured = false;
	if (access(l->corpus, F_OK) < 0 && errno == ENOENT)
		return RF_OK;
	if ((rc = rf_in_open(&in, l->corpus, UINT64_C(1) << 40, e)) != RF_OK)
		return rc;
	while ((rc = rf_skip(in, SKIPPED, e)) == RF_OK && (rc = rf_loop_go_on(l, 0, e)) == RF_OK)
		;
	l->measured = rc == RF_EOF;
	l->sequences = rf_in_count(in);
	l->hash = rf_in_claimed(in);
	rf_in_close(in);
	return rc == RF_EOF ? RF_OK : rc;
}

enum rf_code rf_loop_same_data(struct rf_loop *l, struct rf_err *e)
{
	const uint64_t sequences = l->sequences, hash = l->hash;
	enum rf_code rc = count_data(l, e);

	if (rc == RF_OK && !l->measured)
		return rf_fail(e, RF_ENOINPUT, "%s: the data file no longer exists", l->corpus);
	if (rc == RF_OK && (l->sequences != sequences || l->hash != hash))
		return rf_fail(e, RF_EDATA, "%s: the data has changed since the run was started", l->corpus);
	return rc;
}

/* ---- begin --------------------------------------------------------------------------------- */

static enum rf_code move_entry(const struct rf_loop *l, const char *from, const char *to, struct rf_err *e)
{
	char old[4096], new[4096];
	enum rf_code rc;

	if ((rc = rf_loop_file(l, from, old, e)) != RF_OK || (rc = rf_loop_file(l, to, new, e)) != RF_OK)
		return rc;
	return rename(old, new) < 0 ? rf_fail(e, RF_EIO, "%s: rename: %s", new, strerror(errno)) : RF_OK;
}

static enum rf_code begin_run(struct rf_loop *l, struct rf_err *e)
{
	char begun[4096];
	char *const command[] = { (char *)"rf-init", (char *)"--from", (char *)l->set.from, begun, NULL };
	enum rf_code rc;
	bool there;

	if ((rc = rf_loop_begun(l, &there, e)) != RF_OK || there || !rf_loop_has_steps(l))
		return rc;
	if ((rc = rf_loop_file(l, "data/begun", begun, e)) != RF_OK ||
	    (rc = rf_file_remove(begun, e)) != RF_OK ||
	    (rc = rf_loop_run(l, command, "rf-init", e)) != RF_OK ||
	    (rc = move_entry(l, "data/begun/latest", "latest", e)) != RF_OK ||
	    (rc = move_entry(l, "data/begun/step-000000", "step-000000", e)) != RF_OK ||
	    (rc = rf_file_remove(begun, e)) != RF_OK)
		return rc;
	return rf_file_sync_dir(l->path, e);
}

/* Checks that the data fit the model that the run begins with.  Messages name the model as the user did. */
static enum rf_code check_start(const struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc;
	bool there;

	if (!l->measured || l->done)
		return RF_OK;
	rc = rf_loop_begun(l, &there, e);
	there = there && (!l->set.from || access(l->set.from, F_OK) < 0);
	return rc == RF_OK ? check_fit(l, there ? l->path : l->set.from, e) : rc;
}

static enum rf_code make_data(struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc;

	if (!l->set.make)
		return rf_fail(e, RF_ENOINPUT, "%s: the data file no longer exists", l->corpus);
	rf_loop_say(l, "%s", l->set.make);
	rc = rf_loop_shell(l, l->set.make, "making the data (--make, TOKENIZE of a pipeline)", e);
	if (rc == RF_OK && access(l->corpus, F_OK) < 0)
		rc = rf_fail(e, RF_ENOINPUT,
		             "%s: the command of --make succeeded but did not create this file", l->corpus);
	return rc;
}

/* Prepares the words, the data and the first step, in this order.  If the data were missing, a second pass
 * checks the data that were made and writes the words that depend on them. */
static enum rf_code prepare_run(struct rf_loop *l, struct rf_buf *words, struct rf_buf *told,
                                struct rf_err *e)
{
	enum rf_code rc;

	if ((rc = rf_loop_look(l, e)) != RF_OK || (rc = count_data(l, e)) != RF_OK ||
	    (rc = rf_loop_settle_words(l, words, told, e)) != RF_OK)
		return rc;
	if (!l->measured && ((rc = make_data(l, e)) != RF_OK || (rc = count_data(l, e)) != RF_OK ||
	                     (rc = rf_loop_settle_words(l, words, told, e)) != RF_OK))
		return rc;
	if ((rc = check_start(l, e)) != RF_OK || (rc = begin_run(l, e)) != RF_OK)
		return rc;
	return rf_loop_look(l, e);
}

enum rf_code rf_loop_take_stop(const struct rf_loop *l, bool *there, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_loop_file(l, "stop", path, e);

	*there = rc == RF_OK && !access(path, F_OK);
	return *there ? rf_file_remove(path, e) : rc;
}

enum rf_code rf_loop_begin(struct rf_loop *l, struct rf_err *e)
{
	struct rf_buf words = { 0 }, told = { 0 };
	char path[4096];
	bool cut = false, asked = false;
	enum rf_code rc;

	if ((rc = check_settings(l, e)) != RF_OK || (rc = rf_loop_note_scripts(l, &l->noted, e)) != RF_OK ||
	    (rc = rf_loop_file(l, "data", path, e)) != RF_OK ||
	    (rc = rf_file_make_folders(path, e)) != RF_OK || (rc = take_lock(l, e)) != RF_OK ||
	    (rc = rf_tempfile_sweep(path, NULL, e)) != RF_OK ||
	    (rc = rf_loop_take_stop(l, &asked, e)) != RF_OK)
		return rc;
	/* An earlier job may have left the file.  A file that is made from now on, such as while --make
	   works, stops this loop. */
	if (asked)
		rf_loop_say(l, "the run's file 'stop' is older than this start and was removed: the loop "
		               "goes on");
	if ((rc = rf_loop_file(l, "data/status", path, e)) == RF_OK) {
		/* without a status the last loop was killed, perhaps between a commit and its line in
		   times.tsv */
		cut = access(path, F_OK) < 0;
		rc = rf_file_remove(path, e);
	}
	/* This comes before words are refused: a refusal writes data/status, after which no later start can
	   tell that the last loop was killed. */
	if (rc == RF_OK && (rc = rf_loop_look(l, e)) == RF_OK &&
	    (rc = rf_loop_file(l, "data/words", path, e)) == RF_OK && !access(path, F_OK))
		rc = rf_loop_mend_history(l, cut, e);
	if (rc == RF_OK)
		rc = rf_loop_drop_line(l, e);
	if (rc == RF_OK)
		rc = prepare_run(l, &words, &told, e);
	rf_buf_free(&words);
	rf_buf_free(&told);
	return rc;
}
