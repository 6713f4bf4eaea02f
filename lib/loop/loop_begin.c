/* loop_begin.c -- all that comes before a run's first batch.
 *
 * A run is begun by its words, which RUN/data/words keeps: a start with other words is refused.  All of this
 * happens under the loop's lock, which commands inherit: if a killed loop left a command behind, the
 * command's commit comes first.
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

#include "base/print.h"
#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "io/file.h"
#include "io/steps.h"
#include "io/tempfile.h"
#include "io/words.h"
#include "loop/loop_begin.h"
#include "stream/stream.h"

/* ---- folders ------------------------------------------------------------------------------- */

static enum rf_code make_folders(const char *path, struct rf_err *e)
{
	char part[4096];

	for (size_t n = strcspn(path, "/"); ; n += strcspn(path + n, "/")) {
		snprintf(part, sizeof part, "%.*s", (int)n, path);
		if (*part && mkdir(part, 0777) < 0 && errno != EEXIST)
			return rf_fail(e, RF_EIO, "%s: create: %s", part, strerror(errno));
		if (!path[n])
			return RF_OK;
		n++;
	}
}

/* Returns whether a folder holds anything but the folder that a loop makes first. */
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

/* ---- what can be told at once -------------------------------------------------------------- */

static enum rf_code check_from(const struct rf_loop *l, struct rf_err *e)
{
	struct rf_ckpt c;
	enum rf_code rc;

	if (!l->set.from)
		return rf_fail(e, RF_EUSAGE,
		               "missing option: --from model, since the run does not exist yet");
	if ((rc = rf_ckpt_open(&c, l->set.from, e)) == RF_OK)
		rf_ckpt_close(&c);
	return rc;
}

/* Checks that the data, if they exist, are a stream that the model can read. */
static enum rf_code check_fit(const struct rf_loop *l, const char *model, struct rf_err *e)
{
	struct rf_ckpt c;
	enum rf_code rc;
	struct rf_in *in;

	if (access(l->corpus, F_OK) < 0 && errno == ENOENT)
		return RF_OK;
	if ((rc = rf_in_open(&in, l->corpus, UINT64_C(1) << 40, e)) != RF_OK)
		return rc;
	if ((rc = rf_ckpt_open(&c, model, e)) == RF_OK) {
		if ((rc = rf_ckpt_check_head(&c, rf_in_head(in), e)) != RF_OK)
			rc = rf_blame(e, "%s does not fit %s", l->corpus, model);
		rf_ckpt_close(&c);
	}
	rf_in_close(in);
	return rc;
}

/* Checks that the data are a regular file, or missing, and that no order of the loop's would replace them. */
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

static enum rf_code check(const struct rf_loop *l, struct rf_err *e)
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
	if (access(lock, F_OK) < 0 && is_foreign(l->path)) {
		int run = rf_run_of_step(l->path);

		return run ? rf_fail(e, RF_EUSAGE,
		                     "%s: a step of a run, and the run itself is what is trained: -m %.*s",
		                     l->path, run, l->path)
		           : rf_fail(e, RF_EDATA,
		                     "%s: it exists but is not a run: name a new directory", l->path);
	}
	/* data that --make made may be made again for this model */
	return (rc = check_from(l, e)) == RF_OK && !l->set.make ? check_fit(l, l->set.from, e) : rc;
}

/* ---- one at a time ------------------------------------------------------------------------- */

/* Takes the loop's lock, and with --wait waits for it.  The first try may come after a holder took the
 * lock and before it wrote its process id, so the first try is not reported. */
static enum rf_code take_turn(struct rf_loop *l, struct rf_err *e)
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

enum { AT_ONCE = 4096 }; /* records between two looks for a signal */

/* Counts the records of the data without reading them, and notes in l->measured whether the data exist. */
static enum rf_code measure(struct rf_loop *l, struct rf_err *e)
{
	enum rf_code rc;
	struct rf_in *in;

	l->measured = false;
	if (access(l->corpus, F_OK) < 0 && errno == ENOENT)
		return RF_OK;
	if ((rc = rf_in_open(&in, l->corpus, UINT64_C(1) << 40, e)) != RF_OK)
		return rc;
	while ((rc = rf_skip(in, AT_ONCE, e)) == RF_OK && (rc = rf_loop_go_on(l, 0, e)) == RF_OK)
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
	enum rf_code rc = measure(l, e);

	if (rc == RF_OK && !l->measured)
		return rf_fail(e, RF_ENOINPUT, "%s: the data file no longer exists", l->corpus);
	if (rc == RF_OK && (l->sequences != sequences || l->hash != hash))
		return rf_fail(e, RF_EDATA, "%s: the data has changed since the run was started", l->corpus);
	return rc;
}

/* ---- words --------------------------------------------------------------------------------- */

#define LATE "sequences" /* known only when the data are there */

/* Writes a name of the data that does not depend on where the next loop is started: an absolute path or,
 * for data inside the run, RUN/ and the path from there, because a run may be moved. */
static enum rf_code data_name(const struct rf_loop *l, char out[4096], struct rf_err *e)
{
	char folder[4096], way[4096], below[4100], real[PATH_MAX];
	enum rf_code rc = rf_file_directory(folder, l->corpus, e);

	if (rc != RF_OK)
		return rc;
	if (rf_file_way(way, folder, l->path)) {
		snprintf(below, sizeof below, "RUN%s", way);
		return rf_file_join(out, below, rf_file_name(l->corpus), e);
	}
	if (!realpath(folder, real))
		return rf_fail(e, RF_EIO, "%s: %s", folder, strerror(errno));
	return rf_file_join(out, real, rf_file_name(l->corpus), e);
}

/* Returns the word `data`: the path as it was given or, for data inside the run, the name above. */
static const char *data_word(const struct rf_loop *l, char name[4096])
{
	return data_name(l, name, NULL) == RF_OK && !strncmp(name, "RUN/", 4) ? name : l->set.data;
}

/* Appends a word for each script, with its size and hash. */
static enum rf_code note_scripts(const struct rf_loop *l, struct rf_buf *words, struct rf_err *e)
{
	char name[4096], value[4200], hex[17];
	enum rf_code rc;
	struct stat st;
	size_t n;

	for (const char *p = l->set.scripts ? l->set.scripts : ""; *p; p += n + (p[n] == '\n')) {
		if (!(n = strcspn(p, "\n")))
			continue;
		if (n >= sizeof name)
			return rf_fail(e, RF_EUSAGE, "--scripts: the path of a file is too long");
		snprintf(name, sizeof name, "%.*s", (int)n, p);
		if (stat(name, &st) < 0)
			return rf_fail(e, RF_ENOINPUT, "%s: %s (--scripts)", name, strerror(errno));
		if ((rc = rf_file_hash_file(name, UINT64_MAX, hex, e)) != RF_OK)
			return rc;
		snprintf(value, sizeof value, "%lld bytes, xxh64 %s: %s", (long long)st.st_size, hex, name);
		rf_words_add(words, "script", value);
	}
	return words->failed ? rf_fail(e, RF_ENOMEM, "out of memory") : RF_OK;
}

/* Copies to `name` the file of the first word that only `now` has. */
static void name_changed(void *name, char side, const char *line, size_t n)
{
	const char *file = memchr(line, ':', n);

	if (side == '>' && file && !*(char *)name)
		snprintf(name, 4096, "%.*s", (int)(line + n - file - 2), file + 2);
}

enum rf_code rf_loop_same_scripts(const struct rf_loop *l, struct rf_err *e)
{
	struct rf_buf now = { 0 };
	char name[4096] = "";
	enum rf_code rc = note_scripts(l, &now, e);

	if (rc == RF_OK && !rf_words_same(&l->noted, &now, "", name_changed, name))
		rc = rf_fail(e, RF_EDATA,
		             "%s: the script has changed since the run was begun: put it back as it was, or "
		             "begin another run with this one's weights (--from %s, MODEL=%s)",
		             name, l->set.run, l->set.run);
	rf_buf_free(&now);
	return rc;
}

static void gather(const struct rf_loop *l, struct rf_buf *words)
{
	char number[32], name[4096];

	rf_print_clear(words);
	rf_words_add(words, "line", l->set.line);
	rf_words_add(words, "from", l->set.from);
	rf_words_add(words, "data", data_word(l, name));
	rf_words_add(words, "make", l->set.make);
	rf_words_add(words, "words", l->set.words);
	rf_buf_add(words, l->noted.p, l->noted.n);
	snprintf(number, sizeof number, "%d", l->set.batch);
	rf_words_add(words, "batch", number);
	snprintf(number, sizeof number, "%" PRIu64, l->set.seed);
	rf_words_add(words, "seed", number);
	/* the other words are written only where they are not the default */
	if (l->set.order == RF_LOOP_FILE)
		rf_words_add(words, "order", "file");
	if (l->set.rest)
		rf_words_add(words, "rest", "yes");
	if (l->set.outputs)
		rf_words_add(words, "outputs", l->set.outputs);
	if (l->set.count == RF_LOOP_OUTPUTS)
		rf_words_add(words, "count", "outputs");
	if (!l->measured)
		return;
	snprintf(number, sizeof number, "%" PRIu64, l->sequences);
	rf_words_add(words, LATE, number);
	snprintf(number, sizeof number, "%016" PRIx64, l->hash);
	rf_words_add(words, "hash", number);
}

/* Two lists of words that differ: those of the run, and those of this call. */
struct difference {
	const struct rf_loop *l;
	const struct rf_buf *told, *now;
	bool words_said, shown; /* the words that were typed were reported, and a line was */
};

enum { SHOWN_WHOLE = 100 }; /* bytes that two values may share and still be shown in full */

/* Reports a line that the other words lack.  If they have another value of the same name, and both values
 * share more than SHOWN_WHOLE bytes, only the stages of the pipe that differ are shown. */
static void say_line(void *arg, char side, const char *line, size_t n)
{
	struct difference *d = arg;
	const char *equals = memchr(line, '=', n), *other;
	size_t m = 0, from = 0, to = 0;
	char name[64];

	if (equals && (size_t)(equals - line) < sizeof name) {
		snprintf(name, sizeof name, "%.*s", (int)(equals - line), line);
		other = rf_words_find(side == '<' ? d->now : d->told, name, &m);
		/* the words that were typed say it shorter */
		if (m && d->words_said && (!strcmp(name, "line") || !strcmp(name, "make")))
			return;
		while (from < n && from < m && line[from] == other[from])
			from++;
		while (to < n - from && m > from + to && line[n - 1 - to] == other[m - 1 - to])
			to++;
		while (from && line[from - 1] != '|')
			from--;
		while (to && line[n - to] != '|')
			to--;
	}
	d->shown = true;
	if (from + to <= SHOWN_WHOLE)
		rf_loop_say(d->l, "%c %.*s", side, (int)n, line);
	else
		rf_loop_say(d->l, "%c %s=%s%.*s%s", side, name, from ? "... |" : "", (int)(n - from - to),
		            line + from, to ? "| ..." : "");
}

/* Returns whether a change of this word of a pipeline is never a reason to refuse a run. */
static bool is_free(const char *word)
{
	static const char *const names[] = { "RUN", "BATCHES", "STEPS", "EPOCHS", "PHASE", "COMPUTE",
		                             "LAUNCH", "COMMIT_EVERY", "KEEP", "KEEP_STEPS", "KEEP_BEST",
		                             "NO_ROLLOUTS", "EVAL", "EVERY", "AFTER", NULL };

	for (const char *const *name = names; *name; name++)
		if (!strcmp(word, *name))
			return true;
	return false;
}

/* Adds "NAME old -> new" for each word of a whose value in b is another one; swapped: a has the new values.
 * Words that both have are added only if a has the old values. */
static void add_changes(struct rf_buf *p, const json_t *a, const json_t *b, bool swapped)
{
	static const char none[] = "(not given)";
	const json_t *value;
	const char *name;

	json_object_foreach((json_t *)a, name, value) {
		const char *here = json_string_value(value);
		const char *there = json_string_value(json_object_get(b, name));

		if (here && !is_free(name) && (there ? !swapped && strcmp(here, there) : true))
			rf_print(p, "%s%s %s -> %s", p->n ? ", " : "", name, swapped ? none : here,
			         swapped ? here : there ? there : none);
	}
}

/* Reports which words of the pipeline differ from those that the run's manifest has.  Returns false if it
 * reported nothing: the words are the same, or the pipeline or the manifest has no words. */
static bool say_changes(const struct rf_loop *l)
{
	const char *text = getenv("RF_WORDS");
	json_t *lines = NULL, *newest = NULL, *now = NULL, *told;
	struct rf_buf p = { 0 };
	bool said;

	if (text && *text && rf_manifest_typed(text, &now, NULL) == RF_OK &&
	    rf_manifest_read(l->path, &lines, NULL) == RF_OK && (newest = rf_manifest_newest(lines)) &&
	    (told = json_object_get(newest, "words"))) {
		add_changes(&p, told, now, false);
		add_changes(&p, now, told, true);
	}
	rf_buf_add(&p, "", 1);
	said = !p.failed && p.n > 1;
	if (said)
		rf_loop_say(l, "changed since the last batch: %s", (char *)p.p);
	json_decref(lines);
	json_decref(newest);
	json_decref(now);
	rf_buf_free(&p);
	return said;
}

static void say_nothing(void *arg, char side, const char *line, size_t n)
{
	(void)arg, (void)side, (void)line, (void)n;
}

/* ---- the run's words ------------------------------------------------------------------------ */

/* Takes over a run without words: its commits count as batches.  Refuses a run with drawn orders, because
 * no word tells to which data they belong. */
static enum rf_code take_over(struct rf_loop *l, struct rf_err *e)
{
	struct dirent **list;
	int n = rf_loop_orders(l, &list, e);
	enum rf_code rc = n < 0 ? RF_EIO : RF_OK;

	if (n > 0)
		rc = rf_fail(e, RF_EDATA,
		             "%s/data/%s: RUN/data/words, which says to which data this file belongs, is "
		             "missing: move the file away", l->path,
		             list[0]->d_name);
	rf_loop_free_orders(list, n);
	if (rc != RF_OK || !l->done)
		return rc;
	rf_loop_say(l, l->done == 1
	               ? "the run has %" PRId64 " commit that no loop made: it counts as a batch"
	               : "the run has %" PRId64 " commits that no loop made: they count as batches",
	            l->done);
	return rf_loop_note_time(l, 0, e);
}

/* Takes --from out of the run's words, so that the user need not repeat it for an existing run. */
static void take_from(struct rf_loop *l, const struct rf_buf *told)
{
	size_t n, name = strlen("from=");
	const char *line = rf_words_find(told, "from", &n);

	if (n > name && n - name < sizeof l->begun_from) {
		memcpy(l->begun_from, line + name, n - name);
		l->begun_from[n - name] = 0;
		l->set.from = l->begun_from;
	}
}

/* Returns whether only the trainer's learning rate has changed.  It may change within a run, and the manifest
 * has the step at which it changed. */
static bool takes_rate(const struct rf_loop *l, const struct rf_buf *told, const struct rf_buf *words)
{
	char *was, *now;
	const bool changed = rf_words_same_but(told, words, LATE, "line", "--lr", "rf-grpo rf-ntp rf-step",
	                                       &was,
	                                       &now) && was && now;

	if (changed && l->measured)
		rf_loop_say(l, "the learning rate changes from %s to %s after %" PRId64 " batch%s", was, now,
		            l->done, l->done == 1 ? "" : "es");
	free(was);
	free(now);
	return changed;
}

/* Refuses words that differ from those of the run, and reports what differs. */
static enum rf_code refuse(const struct rf_loop *l, const struct rf_buf *told, const struct rf_buf *words,
                           const char *path, struct rf_err *e)
{
	struct difference d = { l, told, words, say_changes(l), false };

	rf_words_same(told, words, LATE, say_line, &d);
	return rf_fail(e, RF_EDATA,
	               "%s: the run was started with other settings or data%s: use the same, or remove %s "
	               "completely, or begin another run with this one's weights (--from %s, MODEL=%s; it "
	               "reads the data from the beginning, with another seed in another order)",
	               path, d.shown ? " (<) than now (>)" : "", l->path, l->path, l->path);
}

/* Compares the run's words with those of this call, and writes the new ones.  Errors: RF_EDATA: they differ,
 * and data or a step were made by the old ones. */
static enum rf_code settle(struct rf_loop *l, struct rf_buf *words, struct rf_buf *told, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc;
	bool there, begun;

	if ((rc = rf_loop_file(l, "data/words", path, e)) != RF_OK ||
	    (rc = rf_words_read(told, path, &there, e)) != RF_OK ||
	    (rc = rf_loop_begun(l, &begun, e)) != RF_OK)
		return rc;
	if (!l->set.from && there)
		take_from(l, told);
	if (!there && (rc = take_over(l, e)) != RF_OK)
		return rc;
	gather(l, words);
	if (there && takes_rate(l, told, words))
		return l->measured ? rf_tempfile_save(words, path, e) : RF_OK;
	if (there && (begun || l->measured) && !rf_words_same(told, words, LATE, say_nothing, NULL))
		return refuse(l, told, words, path, e);
	if (there && told->n >= words->n && rf_words_same(told, words, LATE, say_nothing, NULL))
		return RF_OK;
	return rf_tempfile_save(words, path, e);
}

/* ---- begin --------------------------------------------------------------------------------- */

static enum rf_code move(const struct rf_loop *l, const char *from, const char *to, struct rf_err *e)
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

	if ((rc = rf_loop_begun(l, &there, e)) != RF_OK || there)
		return rc;
	if ((rc = rf_loop_file(l, "data/begun", begun, e)) != RF_OK ||
	    (rc = rf_file_remove(begun, e)) != RF_OK ||
	    (rc = rf_loop_run(l, command, "rf-init", e)) != RF_OK ||
	    (rc = move(l, "data/begun/latest", "latest", e)) != RF_OK ||
	    (rc = move(l, "data/begun/step-000000", "step-000000", e)) != RF_OK ||
	    (rc = rf_file_remove(begun, e)) != RF_OK)
		return rc;
	return rf_file_sync_dir(l->path, e);
}

/* Checks the data against the model that the run begins with, by the name that the user gave. */
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
static enum rf_code prepare(struct rf_loop *l, struct rf_buf *words, struct rf_buf *told, struct rf_err *e)
{
	enum rf_code rc;

	if ((rc = rf_loop_look(l, e)) != RF_OK || (rc = measure(l, e)) != RF_OK ||
	    (rc = settle(l, words, told, e)) != RF_OK)
		return rc;
	if (!l->measured && ((rc = make_data(l, e)) != RF_OK || (rc = measure(l, e)) != RF_OK ||
	                     (rc = settle(l, words, told, e)) != RF_OK))
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

	if ((rc = check(l, e)) != RF_OK || (rc = note_scripts(l, &l->noted, e)) != RF_OK ||
	    (rc = rf_loop_file(l, "data", path, e)) != RF_OK ||
	    (rc = make_folders(path, e)) != RF_OK || (rc = take_turn(l, e)) != RF_OK ||
	    (rc = rf_loop_take_stop(l, &asked, e)) != RF_OK)
		return rc;
	/* An earlier job may have left the file.  One that is made from now on, such as while --make works,
	   is meant for this loop. */
	if (asked)
		rf_loop_say(l, "the run's file 'stop' is older than this start and was removed: the loop "
		               "goes on");
	if ((rc = rf_loop_file(l, "data/status", path, e)) == RF_OK) {
		/* the last loop was killed, perhaps between a commit and its line in times.tsv */
		cut = access(path, F_OK) < 0;
		rc = rf_file_remove(path, e);
	}
	/* before words are refused, which is noted as this loop's end, and hides that the last one was cut */
	if (rc == RF_OK && (rc = rf_loop_look(l, e)) == RF_OK &&
	    (rc = rf_loop_file(l, "data/words", path, e)) == RF_OK && !access(path, F_OK))
		rc = rf_loop_mend_history(l, cut, e);
	if (rc == RF_OK)
		rc = rf_loop_drop_line(l, e);
	if (rc == RF_OK)
		rc = prepare(l, &words, &told, e);
	rf_buf_free(&words);
	rf_buf_free(&told);
	return rc;
}
