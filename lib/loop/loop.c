/* loop.c -- trains a run on a corpus, batch after batch.
 *
 * Between two batches the loop remembers nothing: it reads from the run which batch is next.  The command
 * line reads the number of its batch from the environment, so all batches have the same line.  The run
 * records the line. */
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
#include "base/print.h"
#include "ckpt/ckpt.h"
#include "io/file.h"
#include "io/steps.h"
#include "io/tempfile.h"
#include "loop/loop.h"
#include "loop/loop_internal.h"
#include "stream/stream.h"

/* ---- the batch ----------------------------------------------------------------------------- */

/* Sets a variable in the environment of commands.  Returns whether that failed. */
static bool set_variable(const char *name, const char *value) { return setenv(name, value, 1) != 0; }

static bool set_number(const char *name, int64_t n)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRId64, n);
	return set_variable(name, text);
}

/* Removes the variables that only the line gets. */
static void unset_line(void)
{
	unsetenv("STREAM");
	unsetenv("SHARD");
	unsetenv("RANKS");
	unsetenv("SIZE");
	unsetenv("BATCHES");
	unsetenv("COMMIT_EVERY");
}

static enum rf_code check_set(bool failed, struct rf_err *e)
{
	return failed ? rf_fail(e, RF_ENOMEM, "out of memory (the environment)") : RF_OK;
}

/* Sets the variables that both the line and --after get: the newest step and its number, which are empty if
 * there are no steps, and the batch. */
static enum rf_code set_step(const struct rf_loop *l, int64_t batch, struct rf_err *e)
{
	char name[32], step[4096] = "", at[32] = "";
	enum rf_code rc = RF_OK;

	if (rf_loop_has_steps(l)) {
		rf_step_name(name, l->at);
		rc = rf_loop_file(l, name, step, e);
		snprintf(at, sizeof at, "%" PRId64, l->at);
	}
	if (rc != RF_OK)
		return rc;
	return check_set(set_variable("STEP", step) || set_variable("AT", at) || set_number("BATCH", batch),
	                 e);
}

/* Removes the orders of epochs, except the one called `spared`, such as data/epoch-0.rf. */
static enum rf_code drop_orders(const struct rf_loop *l, const char *spared, struct rf_err *e)
{
	struct dirent **list;
	int n = rf_loop_orders(l, &list, e);
	enum rf_code rc = n < 0 ? RF_EIO : RF_OK;

	for (int i = 0; i < n && rc == RF_OK; i++) {
		char name[300], path[4096];

		snprintf(name, sizeof name, "data/%s", list[i]->d_name);
		if (strcmp(name, spared) && (rc = rf_loop_file(l, name, path, e)) == RF_OK)
			rc = rf_file_remove(path, e);
	}
	rf_loop_free_orders(list, n);
	return rc;
}

/* Sets `order` to the path of the file that lists the data in the order of this epoch.  Draws the order if
 * the file is missing, and removes the orders of other epochs.  With --order file the path is that of the
 * data. */
static enum rf_code draw_order(struct rf_loop *l, int64_t epoch, char order[4096], struct rf_err *e)
{
	char name[64], seed[32], number[32];
	char *const command[] = { (char *)"rf-cat",  (char *)"--shuffle",
		                  (char *)"--seed",  seed,
		                  (char *)"--epoch", number,
		                  (char *)"-o",      order,
		                  l->corpus,         NULL };
	enum rf_code rc;

	snprintf(seed, sizeof seed, "%" PRIu64, l->set.seed);
	snprintf(number, sizeof number, "%" PRId64, epoch);
	snprintf(name, sizeof name, "data/epoch-%" PRId64 ".rf", epoch);
	if (l->set.order == RF_LOOP_FILE) {
		snprintf(order, 4096, "%s", l->corpus);
		return rf_loop_same_data(l, e);
	}
	if ((rc = rf_loop_file(l, name, order, e)) != RF_OK || (rc = drop_orders(l, name, e)) != RF_OK ||
	    !access(order, F_OK) || (rc = rf_loop_same_data(l, e)) != RF_OK)
		return rc;
	return rf_loop_run(l, command, "rf-cat --shuffle", e);
}

/* Sets the variables for the batches from `batch` to `end`: the file and the range of their records, and the
 * file for the output. */
static enum rf_code set_range(struct rf_loop *l, int64_t batch, int64_t end, struct rf_err *e)
{
	int64_t from = batch % rf_loop_per_epoch(l) * l->set.batch, to = from + (end - batch) * l->set.batch;
	char order[4096], output[4096] = "";
	enum rf_code rc;

	to = to < (int64_t)l->sequences ? to : (int64_t)l->sequences;
	if ((rc = draw_order(l, batch / rf_loop_per_epoch(l), order, e)) != RF_OK ||
	    (l->set.outputs && (rc = rf_loop_output(l, batch, output, e)) != RF_OK))
		return rc;
	return check_set(set_variable("ORDER", order) || set_number("FROM", from) || set_number("TO", to) ||
	                         set_variable("OUTPUT", output),
	                 e);
}

/* Sets all variables that the line gets.  A line for many batches gets the folder for their streams, and
 * another line gets the file for its stream. */
static enum rf_code set_batch(struct rf_loop *l, struct rf_err *e)
{
	char name[64], step[32], stream[4096] = "";
	enum rf_code rc = set_range(l, l->done, l->end, e);

	rf_step_name(step, l->at);
	snprintf(name, sizeof name, l->set.many ? "streams" : "streams/%s.rf", step);
	if (rc != RF_OK || (l->set.keep_streams && (rc = rf_loop_file(l, name, stream, e)) != RF_OK) ||
	    (rc = check_set(set_variable("STREAM", stream) ||
	                            set_variable("SHARD", l->set.launch ? "--shard auto" : "") ||
	                            set_variable("RANKS", l->set.launch ? "--ranks mpi" : "") ||
	                            set_number("SIZE", l->set.batch) ||
	                            set_number("BATCHES", l->set.batches) ||
	                            set_variable("COMMIT_EVERY", l->set.commit_every),
	                    e)) != RF_OK)
		return rc;
	return set_step(l, l->done, e);
}

/* Records that l->done batches are done, with the mean time of the batches after the first `noted`.  If
 * outputs count, the line made only the first of these batches, and the outputs of the others existed. */
static enum rf_code note_batches(struct rf_loop *l, int64_t noted, struct rf_err *e)
{
	const bool one = l->set.count == RF_LOOP_OUTPUTS;
	const double now = rf_now(), each = (now - l->seen) / (double)(one ? 1 : l->done - noted);

	l->seen = now;
	return rf_loop_note_time(l, one ? noted + 1 : l->done, each, e);
}

/* Finds out which batches a line has finished, and records them in data/times.tsv if they are missing
 * there. */
static enum rf_code note_line(struct rf_loop *l, struct rf_err *e)
{
	const int64_t noted = l->done;
	const enum rf_code rc = rf_loop_look(l, e);
	const bool ours = l->done <= l->end || l->set.count == RF_LOOP_OUTPUTS; /* later outputs may exist */

	return rc == RF_OK && l->done > noted && ours ? note_batches(l, noted, e) : rc;
}

/* Runs the line in a shell; with --launch the launcher starts this shell on every rank.  mpirun does not pass
 * variables to other hosts, so the shell's text declares the variables of the batch.  When a rank fails, the
 * launcher sends SIGTERM to the other ranks, and their programs end. */
#define VARIABLES \
	"RUN DATA STEP AT BATCH BATCHES ORDER FROM TO STREAM OUTPUT SHARD RANKS SIZE " \
	"COMMIT_EVERY COMPUTE TRAIN_OPTIONS KEEP_OPTIONS PATH RF_WORDS"
static enum rf_code run_line(struct rf_loop *l, const char *what, struct rf_err *e)
{
	static const char shell[] = " bash -o pipefail -c \"$(declare -p " VARIABLES " 2>/dev/null)\n"
				    "trap : TERM\n$0\"";
	struct rf_buf text = { 0 };
	enum rf_code rc;

	if (!l->set.launch)
		return rf_loop_shell(l, l->set.line, what, e);
	rf_print_text(&text, l->set.launch);
	rf_buf_add(&text, shell, sizeof shell);
	if (text.failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory (the line)");
	else
		rc = rf_loop_run(l,
		                 (char *const[]){ (char *)"bash", (char *)"-c", (char *)text.p,
		                                  (char *)l->set.line, NULL },
		                 what, e);
	rf_buf_free(&text);
	return rc;
}

/* ---- lines for many batches ---------------------------------------------------------------- */

/* Reads --commit-every. */
static enum rf_code read_every(struct rf_loop *l, struct rf_err *e)
{
	uint64_t every = 0;

	if (rf_number(l->set.commit_every, strlen(l->set.commit_every), &every) && every)
		l->every = every < INT_MAX ? (int64_t)every : INT_MAX;
	if (l->set.many && !l->every && l->set.after)
		return rf_fail(e, RF_EUSAGE,
		               "--after and --many require --commit-every to be a number of batches: a line "
		               "ends after this number");
	return RF_OK;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the number of batches that are done when the next line has ended. */
static int64_t next_end(const struct rf_loop *l)
{
	const int64_t epoch = rf_loop_per_epoch(l);
	int64_t end = l->done + 1;

	if (l->set.many)
		end = smaller(l->set.batches, (l->done / epoch + 1) * epoch);
	if (l->set.many && l->set.after)
		end = smaller(end, (l->done / l->every + 1) * l->every);
	return end;
}

/* Looks for a commit of the line while the line works, and records and reports its batches.  The last batch
 * is reported after the line has ended. */
static void watch_line(void *arg)
{
	struct rf_loop *l = arg;
	const int64_t noted = l->done;
	struct rf_run run;
	int64_t newest;

	if (rf_step_newest(l->path, &newest, NULL) != RF_OK || newest <= l->at ||
	    rf_run_look(&run, l->path, NULL) != RF_OK)
		return; /* the next commit may remove this step meanwhile */
	if (run.at.commits > noted && run.at.commits < l->end) {
		l->at = run.at.step;
		l->done = run.at.commits;
		note_batches(l, noted, NULL);
		rf_loop_report(l);
		l->since = l->at;
	}
	rf_run_close(&run);
}

/* Records which batches the line may commit, and begins to watch the line. */
static enum rf_code begin_line(struct rf_loop *l, struct rf_err *e)
{
	char text[80];

	l->since = l->at;
	l->seen = rf_now(); /* now, because drawing an epoch's order is not part of a batch's time */
	if (!l->set.many)
		return RF_OK;
	snprintf(text, sizeof text, "%" PRId64 "\t%" PRId64 "\n", l->done, l->end);
	l->child.tick = watch_line;
	l->child.arg = l;
	return rf_loop_note(l, "data/line", text, e);
}

/* Reports a first batch whose sequences have fewer tokens on average than half of l->set.len.  If they
 * cannot be read, nothing is reported: the line reads them next, and its error says why. */
static void say_short(const struct rf_loop *l)
{
	const char *order = getenv("ORDER");
	struct rf_record *rec;
	struct rf_in *in;
	struct rf_err none;
	double tokens = 0;
	int n = 0;
	enum rf_code rc = RF_OK;

	if (!l->set.len || !order || rf_in_open(&in, order, UINT64_C(1) << 40, &none) != RF_OK)
		return;
	for (; n < l->set.batch && (rc = rf_next(in, &rec, &none)) == RF_OK; n++)
		tokens += rec->T + rec->response_len;
	rf_in_close(in);
	if (n && (rc == RF_OK || rc == RF_EOF) && tokens / n < l->set.len / 2.0)
		rf_loop_say(l,
		            "the sequences of the first batch have %.0f tokens on average, less than half "
		            "of %d%s%s%s",
		            tokens / n, l->set.len, l->set.len_advice ? " (" : "",
		            l->set.len_advice ? l->set.len_advice : "", l->set.len_advice ? ")" : "");
}

/* Runs the line for its batches.  Fails unless the line made exactly the commits of these batches or, with
 * --count outputs, at least one output. */
static enum rf_code run_batches(struct rf_loop *l, struct rf_err *e)
{
	const int64_t before = l->done;
	char what[80];
	enum rf_code rc, noted;

	l->end = next_end(l);
	snprintf(what, sizeof what, "batch %" PRId64 ": a stage", before + 1);
	if ((rc = rf_loop_same_scripts(l, e)) != RF_OK || (rc = set_batch(l, e)) != RF_OK)
		return rc;
	if (!before)
		say_short(l);
	if ((rc = begin_line(l, e)) != RF_OK)
		return rc;
	rc = run_line(l, what, e);
	l->child.tick = NULL;
	/* a line may have failed, or been ended, after a commit */
	noted = note_line(l, rc == RF_OK ? e : NULL);
	if (rc == RF_OK)
		rc = noted;
	if (noted == RF_OK && l->set.many)
		rf_loop_drop_line(l, NULL);
	if (rc != RF_OK || l->done == l->end)
		return rc;
	if (l->set.many)
		return rf_fail(e, RF_ENUMERIC,
		               "no stage failed, but the line, which had batches %" PRId64 " to %" PRId64
		               " (rf-step --batch $SIZE), trained %" PRId64 " of them",
		               before + 1, l->end, l->done - before);
	if (l->set.count == RF_LOOP_OUTPUTS && l->done > before) /* later outputs existed already */
		return RF_OK;
	if (l->done != before)
		return rf_fail(e, RF_ENUMERIC,
		               "batch %" PRId64 ": more than one commit was made, or a step was removed",
		               before + 1);
	return rf_fail(e, RF_ENUMERIC, "batch %" PRId64 ": no stage failed, but the line did not %s",
	               before + 1, l->set.count == RF_LOOP_OUTPUTS ? "write $OUTPUT" : "train the run");
}

/* ---- after a commit ------------------------------------------------------------------------ */

static enum rf_code make_folder(const struct rf_loop *l, const char *name, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_loop_file(l, name, path, e);

	if (rc == RF_OK && mkdir(path, 0777) < 0 && errno != EEXIST)
		rc = rf_fail(e, RF_EIO, "%s: create: %s", path, strerror(errno));
	return rc;
}

/* Makes the folder of --outputs, and removes the unfinished files that a killed program left there.  Only
 * programs that this loop starts write there, and none of them runs between two batches. */
static enum rf_code make_outputs(const struct rf_loop *l, struct rf_err *e)
{
	char folder[4096];
	enum rf_code rc;

	if (!l->set.outputs)
		return RF_OK;
	if ((rc = make_folder(l, l->set.outputs, e)) != RF_OK ||
	    (rc = rf_loop_file(l, l->set.outputs, folder, e)) != RF_OK)
		return rc;
	return rf_tempfile_sweep(folder, NULL, e);
}

/* Returns whether the output of the newest batch exists, or the loop has no outputs.  Outputs of older
 * batches cannot be made again. */
static bool has_output(const struct rf_loop *l)
{
	char output[4096];

	return !l->set.outputs || rf_loop_output(l, l->done - 1, output, NULL) != RF_OK ||
	       !access(output, F_OK);
}

static enum rf_code do_after(struct rf_loop *l, struct rf_err *e)
{
	int64_t done = l->done;
	double began = rf_now(), before;
	char text[80], what[160];
	enum rf_code rc;

	if (!l->set.after || !done || !rf_loop_per_epoch(l) ||
	    (rf_loop_after_done(l, &before) == done && has_output(l)))
		return RF_OK;
	unset_line();
	snprintf(what, sizeof what,
	         "batch %" PRId64 " is done, but the command after it (--after, EVAL or AFTER of a pipeline)",
	         done);
	if ((rc = make_outputs(l, e)) != RF_OK || (rc = set_range(l, done - 1, done, e)) != RF_OK ||
	    (rc = set_step(l, done - 1, e)) != RF_OK ||
	    (rc = rf_loop_shell(l, l->set.after, what, e)) != RF_OK || (rc = rf_loop_look(l, e)) != RF_OK)
		return rc;
	if (l->done < done)
		return rf_fail(e, RF_EDATA,
		               "batch %" PRId64 " was done, but the command after it (--after) removed what "
		               "it had made: %s is %s now",
		               done, l->set.run,
		               l->done ? "at an earlier batch" : "as before the first batch");
	if (l->done > done)
		return rf_fail(e, RF_ENUMERIC,
		               "batch %" PRId64 " is done, but the command after it (--after) committed to "
		               "the run, which only the line may do",
		               done);
	snprintf(text, sizeof text, "%" PRId64 "\t%.0f\n", done, (rf_now() - began) * 1e6);
	return rf_loop_note(l, "data/after", text, e);
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Copies the path, with "./" before a path that begins with a dash, so that commands do not take it for an
 * option. */
static enum rf_code plain_path(char out[4096], const char *path, struct rf_err *e)
{
	if (snprintf(out, 4096, "%s%s", *path == '-' ? "./" : "", path) >= 4096)
		return rf_fail(e, RF_EUSAGE, "%.100s...: the path is too long", path);
	return RF_OK;
}

/* Reports the start in one line: the words that the user typed for a pipeline, or else the loop's line.
 * RUN/data/words has the whole line. */
static void say_line(const struct rf_loop *l)
{
	const char *typed = getenv("RF_WORDS"), *text = typed && *typed ? typed : l->set.line;
	struct rf_buf p = { 0 };

	rf_print(&p, "batches %" PRId64 " to %d of %d sequences each: ", l->done + 1, l->set.batches,
	         l->set.batch);
	if (text == typed && !strncmp(text, "PIPELINE=", 9))
		text += 9;
	for (; *text; text++)
		rf_buf_add(&p, *text == '\n' ? " " : text, 1);
	while (p.n && p.p[p.n - 1] == ' ')
		p.n--;
	rf_buf_add(&p, "", 1);
	if (!p.failed)
		l->set.say(l, (char *)p.p);
	rf_buf_free(&p);
}

/* Ends the loop if RUN/stop exists.  Errors: RF_EBUSY: it exists. */
static enum rf_code obey_stop(struct rf_loop *l, struct rf_err *e)
{
	bool there;
	enum rf_code rc = rf_loop_take_stop(l, &there, e);

	l->stopped = rc == RF_OK && there;
	return rc != RF_OK || !there
	               ? rc
	               : rf_fail(e, RF_EBUSY,
	                         "%" PRId64 " of %d batches are done: stopped, as the run's file 'stop' "
	                         "asked: the same command continues from here",
	                         l->done, l->set.batches);
}

/* Trains the batches that are left, one line after another. */
static enum rf_code advance(struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc = l->set.keep_streams ? make_folder(l, "streams", e) : RF_OK;
	struct rf_err stop;

	if (rc == RF_OK)
		rc = make_outputs(l, e);
	if (rc == RF_OK)
		say_line(l);
	while (rc == RF_OK && l->done < l->set.batches) {
		if ((rc = obey_stop(l, e)) != RF_OK)
			return rc;
		/* a line for many batches looks for RUN/stop itself, and fails with this status */
		if ((rc = run_batches(l, e)) != RF_OK)
			return l->set.many && l->status == EX_TEMPFAIL && obey_stop(l, &stop) == RF_EBUSY
			               ? rf_fail(e, RF_EBUSY, "%s", stop.msg)
			               : rc;
		rf_loop_report(l);
		rc = do_after(l, e);
	}
	return rc;
}

/* Points `latest` to the newest step, as a trainer does when it opens the run.  A trainer that was killed
 * after its commit may have left `latest` at the step before, and after the last batch no trainer
 * follows. */
static void update_latest(const struct rf_loop *l)
{
	struct rf_run run;

	if (rf_run_open(&run, l->path, NULL) == RF_OK)
		rf_run_close(&run);
}

static enum rf_code run_loop(struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc;
	int64_t all;

	unsetenv("ORDER");
	unsetenv("FROM");
	unsetenv("TO");
	unset_line();
	unsetenv("OUTPUT");
	if ((rc = read_every(l, e)) != RF_OK ||
	    (rc = check_set(set_variable("RUN", l->path) || set_variable("DATA", l->corpus), e)) != RF_OK ||
	    (rc = rf_loop_begin(l, e)) != RF_OK || (rc = do_after(l, e)) != RF_OK)
		return rc;
	all = l->set.epochs * rf_loop_per_epoch(l);
	if (!rf_loop_per_epoch(l) && (l->set.epochs || l->done < l->set.batches))
		return rf_fail(e, RF_EDATA,
		               "%s has %" PRIu64 " sequences, fewer than a batch of %d (--batch): give more "
		               "text, a smaller batch (BATCH of a pipeline), or options that leave out less "
		               "text (a smaller LEN with LONG=1, a larger MAX_PROMPT with TRUNCATE=drop)",
		               l->corpus, l->sequences, l->set.batch);
	if (l->set.epochs)
		l->set.batches = all > INT_MAX ? INT_MAX : (int)all;
	if (l->done > l->set.batches)
		rf_loop_say(l, "%" PRId64 " batches are done, more than the %d asked for", l->done,
		            l->set.batches);
	else if (l->done == l->set.batches)
		rf_loop_say(l, "%" PRId64 " of %d batches are done", l->done, l->set.batches);
	if (l->done >= l->set.batches)
		update_latest(l);
	return l->done < l->set.batches ? advance(l, e) : RF_OK;
}

/* Records in data/status how the loop ended, unless another loop works on the run. */
static void note_end(struct rf_loop *l, int status, const struct rf_err *e)
{
	struct rf_buf text = { 0 };

	if (!l->lock.held)
		return;
	rf_print(&text, "%d", status);
	if (status) {
		rf_print_text(&text, "\t");
		rf_print_text(&text, e->msg);
	}
	rf_buf_add(&text, "\n", 2);
	if (!text.failed)
		rf_loop_note(l, "data/status", (char *)text.p, NULL);
	rf_buf_free(&text);
}

int rf_loop(struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc;
	int status;

	if ((rc = plain_path(l->path, l->set.run, e)) != RF_OK ||
	    (rc = plain_path(l->corpus, l->set.data, e)) != RF_OK ||
	    (rc = rf_child_open(&l->child, e)) != RF_OK)
		return rf_exit_status(rc);
	rc = run_loop(l, e);
	status = rc == RF_OK ? 0 : l->status ? l->status : rf_exit_status(rc);
	note_end(l, status, e);
	rf_child_close(&l->child);
	rf_buf_free(&l->noted);
	rf_lock_release(&l->lock);
	return status;
}
