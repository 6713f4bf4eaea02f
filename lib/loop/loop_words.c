/* loop_words.c -- the words of a run: gathers them, writes them, and refuses a start with other words. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/print.h"
#include "ckpt/manifest.h"
#include "io/file.h"
#include "io/tempfile.h"
#include "io/words.h"
#include "loop/loop.h"
#include "loop/loop_internal.h"

/* ---- gathering ------------------------------------------------------------------------------ */

#define LATE "sequences" /* the first word that is known only when the data exist */

/* Writes a name of the data that does not depend on the directory in which the next loop is started: an
 * absolute path or, for data inside the run, RUN/ and the path from there, because a run may be moved. */
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

enum rf_code rf_loop_note_scripts(const struct rf_loop *l, struct rf_buf *words, struct rf_err *e)
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

/* Copies to `name` the file of the first new word (side '>'). */
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
	enum rf_code rc = rf_loop_note_scripts(l, &now, e);

	if (rc == RF_OK && !rf_words_same(&l->noted, &now, "", name_changed, name))
		rc = rf_fail(e, RF_EDATA,
		             "%s: the script has changed since the run was begun: put it back as it was, or "
		             "begin another run with this one's weights (--from %s, MODEL=%s)",
		             name, l->set.run, l->set.run);
	rf_buf_free(&now);
	return rc;
}

static void gather_words(const struct rf_loop *l, struct rf_buf *words)
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
	/* the other words are written only if they are not the default */
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
	bool words_said; /* the pipeline's words that differ were reported */
	bool shown;      /* a line was reported */
};

enum { SHOWN_WHOLE = 100 }; /* two values that share at most this many bytes are shown in full */

/* Reports a line that only one of the lists has.  If the other list has a different value of the same name,
 * and both values share more than SHOWN_WHOLE bytes, only the stages of the pipe that differ are shown. */
static void say_line(void *arg, char side, const char *line, size_t n)
{
	struct difference *d = arg;
	const char *equals = memchr(line, '=', n), *other;
	size_t m = 0, from = 0, to = 0;
	char name[64];

	if (equals && (size_t)(equals - line) < sizeof name) {
		snprintf(name, sizeof name, "%.*s", (int)(equals - line), line);
		other = rf_words_find(side == '<' ? d->now : d->told, name, &m);
		/* the pipeline's words, which were reported, show the same change */
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

/* Returns whether this word of a pipeline may change within a run. */
static bool is_free(const char *word)
{
	static const char *const names[] = { "RUN",   "BATCHES",    "STEPS",     "EPOCHS",
		                             "PHASE", "COMPUTE",    "LAUNCH",    "COMMIT_EVERY",
		                             "KEEP",  "KEEP_STEPS", "KEEP_BEST", "NO_ROLLOUTS",
		                             "EVAL",  "EVERY",      "AFTER",     NULL };

	for (const char *const *name = names; *name; name++)
		if (!strcmp(word, *name))
			return true;
	return false;
}

/* Adds "NAME old -> new" for each word of a whose value in b differs.  swapped: a has the new values; then
 * only words that b lacks are added. */
static void add_changes(struct rf_buf *p, const json_t *a, const json_t *b, bool swapped)
{
	static const char none[] = "(not given)";
	const json_t *value;
	const char *name;

	json_object_foreach ((json_t *)a, name, value) {
		const char *here = json_string_value(value);
		const char *there = json_string_value(json_object_get(b, name));

		if (here && !is_free(name) && (there ? !swapped && strcmp(here, there) : true))
			rf_print(p, "%s%s %s -> %s", p->n ? ", " : "", name, swapped ? none : here,
			         swapped ? here
			         : there ? there
			                 : none);
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

/* Counts the commits or outputs of a run without words as batches.  Refuses a run with drawn orders, because
 * no word tells to which data they belong. */
static enum rf_code adopt_batches(struct rf_loop *l, struct rf_err *e)
{
	struct dirent **list;
	int n = rf_loop_orders(l, &list, e);
	enum rf_code rc = n < 0 ? RF_EIO : RF_OK;

	if (n > 0)
		rc = rf_fail(e, RF_EDATA,
		             "%s/data/%s: RUN/data/words, which says to which data this file belongs, is "
		             "missing: move the file away",
		             l->path, list[0]->d_name);
	rf_loop_free_orders(list, n);
	if (rc != RF_OK || !l->done)
		return rc;
	rf_loop_say(l,
	            l->done == 1 ? "the run has %" PRId64 " %s that no loop made: it counts as a batch"
	                         : "the run has %" PRId64 " %ss that no loop made: they count as batches",
	            l->done, l->set.count == RF_LOOP_OUTPUTS ? "output" : "commit");
	return rf_loop_note_time(l, l->done, 0, e);
}

/* Reads --from from the run's words, so that the user need not repeat it for an existing run. */
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
	const bool changed =
		rf_words_same_but(told, words, LATE, "line", "--lr", "rf-grpo rf-ntp rf-step", &was, &now) &&
		was && now;

	if (changed && l->measured)
		rf_loop_say(l, "the learning rate changes from %s to %s after %" PRId64 " batch%s", was, now,
		            l->done, l->done == 1 ? "" : "es");
	free(was);
	free(now);
	return changed;
}

/* Refuses words that differ from those of the run, and reports what differs. */
static enum rf_code refuse_words(const struct rf_loop *l, const struct rf_buf *told,
                                 const struct rf_buf *words, const char *path, struct rf_err *e)
{
	struct difference d = { l, told, words, say_changes(l), false };

	rf_words_same(told, words, LATE, say_line, &d);
	if (!rf_loop_has_steps(l))
		return rf_fail(
			e, RF_EDATA,
			"%s: the run was started with other settings or data%s: use the same, or another "
			"run, or remove %s completely",
			path, d.shown ? " (<) than now (>)" : "", l->path);
	return rf_fail(e, RF_EDATA,
	               "%s: the run was started with other settings or data%s: use the same, or remove %s "
	               "completely, or begin another run with this one's weights (--from %s, MODEL=%s; it "
	               "reads the data from the beginning, with another seed in another order)",
	               path, d.shown ? " (<) than now (>)" : "", l->path, l->path, l->path);
}

/* Returns whether both lists prepare the same data, order and first step. */
static bool prepare_same(const struct rf_buf *a, const struct rf_buf *b)
{
	static const char *const names[] = { "from", "data", "make", "seed", "order", NULL };

	for (const char *const *name = names; *name; name++)
		if (!rf_words_same_word(a, b, *name))
			return false;
	return true;
}

/* Returns whether a batch was done, even if its step was removed by hand. */
static bool has_history(const struct rf_loop *l)
{
	char path[4096];

	return l->done || rf_loop_file(l, "data/times.tsv", path, NULL) != RF_OK || !access(path, F_OK);
}

/* Returns whether other words may replace those of the run: no batch was done, and nothing that was prepared
 * depends on the words that differ. */
static bool may_change(const struct rf_loop *l, const struct rf_buf *told, const struct rf_buf *words,
                       bool begun)
{
	return !has_history(l) && ((!begun && !l->measured) || prepare_same(told, words));
}

enum rf_code rf_loop_settle_words(struct rf_loop *l, struct rf_buf *words, struct rf_buf *told,
                                  struct rf_err *e)
{
	char path[4096];
	enum rf_code rc;
	bool there, begun, same;

	if ((rc = rf_loop_file(l, "data/words", path, e)) != RF_OK ||
	    (rc = rf_words_read(told, path, &there, e)) != RF_OK ||
	    (rc = rf_loop_begun(l, &begun, e)) != RF_OK)
		return rc;
	if (!l->set.from && there)
		take_from(l, told);
	if (!there && (rc = adopt_batches(l, e)) != RF_OK)
		return rc;
	gather_words(l, words);
	if (there && takes_rate(l, told, words))
		return l->measured ? rf_tempfile_save(words, path, e) : RF_OK;
	same = there && rf_words_same(told, words, LATE, say_nothing, NULL);
	if (there && !same && !may_change(l, told, words, begun))
		return refuse_words(l, told, words, path, e);
	return same && told->n >= words->n ? RF_OK : rf_tempfile_save(words, path, e);
}
