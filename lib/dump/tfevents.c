/* tfevents.c -- copies lines of log.jsonl and eval.jsonl to event files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dump/tfevents.h"
#include "io/file.h"
#include "io/json.h"
#include "io/tempfile.h"

enum {
	PATH_BYTES = 4096,
	MOST_LEVELS = 8, /* of nesting in a line */
};

/* ---- records ------------------------------------------------------------------------------- */

/* Returns the CRC-32C of n bytes (polynomial 0x1EDC6F41, reflected), masked as the format asks. */
static uint32_t checksum(const void *data, size_t n)
{
	const unsigned char *s = data;
	uint32_t crc = 0xFFFFFFFF;

	for (size_t i = 0; i < n; i++) {
		crc ^= s[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

static void add_fixed(struct rf_buf *b, uint64_t x, int bytes)
{
	unsigned char s[8];

	for (int i = 0; i < bytes; i++)
		s[i] = (unsigned char)(x >> 8 * i);
	rf_buf_add(b, s, (size_t)bytes);
}

static void add_varint(struct rf_buf *b, uint64_t x)
{
	do {
		unsigned char s = (unsigned char)((x & 0x7F) | (x > 0x7F ? 0x80 : 0));

		rf_buf_add(b, &s, 1);
	} while (x >>= 7);
}

/* Appends the number of a field and the type of its value: 0 varint, 1 eight bytes, 2 bytes with a length,
 * 5 four bytes. */
static void add_field(struct rf_buf *b, unsigned field, unsigned type) { add_varint(b, field << 3 | type); }

static void add_bytes(struct rf_buf *b, unsigned field, const void *data, size_t n)
{
	add_field(b, field, 2);
	add_varint(b, n);
	rf_buf_add(b, data, n);
}

static void add_double(struct rf_buf *b, unsigned field, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	add_field(b, field, 1);
	add_fixed(b, bits, 8);
}

static void add_float(struct rf_buf *b, unsigned field, float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	add_field(b, field, 5);
	add_fixed(b, bits, 4);
}

/* Appends data as a record of a file. */
static void add_record(struct rf_buf *b, const struct rf_buf *data)
{
	struct rf_buf length = { 0 };

	add_fixed(&length, data->n, 8);
	rf_buf_add(b, length.p, length.n);
	add_fixed(b, length.failed ? 0 : checksum(length.p, length.n), 4);
	rf_buf_add(b, data->p, data->n);
	add_fixed(b, data->failed ? 0 : checksum(data->p, data->n), 4);
	b->failed |= data->failed || length.failed;
	rf_buf_free(&length);
}

/* Appends the record with which each file begins. */
static void add_version(struct rf_buf *b, double wall)
{
	static const char version[] = "brain.Event:2";
	struct rf_buf event = { 0 };

	add_double(&event, 1, wall);
	add_bytes(&event, 3, version, strlen(version));
	add_record(b, &event);
	rf_buf_free(&event);
}

/* Appends a line's numbers as one event. */
static void add_line(struct rf_buf *b, const json_t *line, int64_t step, double wall)
{
	struct rf_buf event = { 0 }, summary = { 0 }, value = { 0 };
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)line, key, v) {
		if (!json_is_number(v) || !strcmp(key, "step"))
			continue;
		value.n = 0;
		add_bytes(&value, 1, key, strlen(key));
		add_float(&value, 2, (float)json_number_value(v));
		add_bytes(&summary, 1, value.p, value.n);
	}
	add_double(&event, 1, wall);
	add_field(&event, 2, 0);
	add_varint(&event, (uint64_t)step);
	add_bytes(&event, 5, summary.p, summary.n);
	event.failed |= summary.failed || value.failed;
	add_record(b, &event);
	rf_buf_free(&value);
	rf_buf_free(&summary);
	rf_buf_free(&event);
}

/* Appends the event after which a reader forgets this step and all later ones. */
static void add_restart(struct rf_buf *b, int64_t step, double wall)
{
	static const unsigned char start[] = { 1 << 3, 1 }; /* the status START */
	struct rf_buf event = { 0 };

	add_double(&event, 1, wall);
	add_field(&event, 2, 0);
	add_varint(&event, (uint64_t)step);
	add_bytes(&event, 7, start, sizeof start);
	add_record(b, &event);
	rf_buf_free(&event);
}

/* ---- logs ---------------------------------------------------------------------------------- */

/* A line of a log. */
struct line {
	int64_t step;
	off_t at;       /* where it begins */
	double seconds; /* of the step, if the log has them */
	double wall;    /* when the step ended */
};

/* A file of lines that grows.  A step that was killed before its commit, or was evaluated again, has several
 * lines, of which the last one counts. */
struct log {
	char path[PATH_BYTES], events[PATH_BYTES]; /* the lines; the event file */
	ino_t file;                                /* the log that these lines are from */
	off_t size;                                /* bytes of the lines read so far */
	uint64_t lines;                            /* lines read so far */
	struct line *line;                         /* in the order of their steps, each step once */
	size_t n, room;
	size_t written; /* lines that the event file has */
};

struct run {
	struct log train, eval;
	double begun; /* seconds since 1970; 0: unknown, so times count from 0 */
};

/* Returns when a run began, by its manifest. */
static double time_of_begin(const char *dir)
{
	char path[PATH_BYTES + 20], *line = NULL;
	size_t room = 0;
	struct tm tm = { 0 };
	double wall = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof path, "%s/manifest.json", dir);
	if (!(f = fopen(path, "r")))
		return 0;
	if ((n = getline(&line, &room, f)) > 0) {
		json_t *first = NULL;
		const char *text;
		struct rf_err e;

		rf_json_parse(&first, line, (size_t)n, MOST_LEVELS, &e);
		text = json_string_value(json_object_get(first, "time"));
		if (text && sscanf(text, "%d-%d-%dT%d:%d:%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		                   &tm.tm_hour, &tm.tm_min, &tm.tm_sec) == 6) {
			tm.tm_year -= 1900;
			tm.tm_mon--;
			wall = (double)timegm(&tm);
		}
		json_decref(first);
	}
	free(line);
	fclose(f);
	return wall;
}

/* Returns the index of the first line whose step is not below `step`; l->n: there is none. */
static size_t index_of(const struct log *l, int64_t step)
{
	size_t from = 0, to = l->n;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (l->line[middle].step < step)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Inserts a line, or replaces the line of the same step. */
static enum rf_code insert(struct log *l, struct line line, struct rf_err *e)
{
	const size_t i = index_of(l, line.step);

	if (l->n == l->room) {
		const size_t room = l->room ? 2 * l->room : 256;
		struct line *more = realloc(l->line, room * sizeof *more);

		if (!more)
			return rf_fail(e, RF_ENOMEM, "out of memory");
		l->line = more;
		l->room = room;
	}
	if (i == l->n || l->line[i].step != line.step) {
		memmove(l->line + i + 1, l->line + i, (l->n - i) * sizeof *l->line);
		l->n++;
	}
	l->line[i] = line;
	l->written = l->written < i ? l->written : i;
	return RF_OK;
}

/* Adds the line that begins at `at` to the log. */
static enum rf_code meet_line(struct log *l, const char *text, size_t n, off_t at, struct rf_err *e)
{
	json_t *json = NULL;
	enum rf_code rc = rf_json_parse(&json, text, n, MOST_LEVELS, e);
	const json_t *number = json_object_get(json, "step");
	const struct line line = { .step = json_integer_value(number),
		                   .at = at,
		                   .seconds = json_number_value(json_object_get(json, "timing_s/step")) };

	if (rc == RF_OK && json_is_integer(number) && line.step >= 0)
		rc = insert(l, line, e);
	else if (rc != RF_ENOMEM)
		rc = rf_fail(e, RF_EDATA,
		             "%s: line %" PRIu64
		             ": not a JSON object with a step; if a kill cut it, remove it",
		             l->path, l->lines);
	json_decref(json);
	return rc;
}

/* Reads all complete lines that were not read yet. */
static enum rf_code read_lines(struct log *l, FILE *in, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	char *text = NULL;
	size_t room = 0;
	ssize_t n;

	if (fseeko(in, l->size, SEEK_SET))
		return rf_fail(e, RF_EIO, "%s: %s", l->path, strerror(errno));
	while (rc == RF_OK && (n = getline(&text, &room, in)) > 0 && text[n - 1] == '\n') {
		l->lines++;
		rc = meet_line(l, text, (size_t)n, l->size, e);
		l->size += n;
	}
	if (rc == RF_OK && ferror(in))
		rc = rf_fail(e, RF_EIO, "%s: %s", l->path, strerror(errno));
	free(text);
	return rc;
}

/* Sets the time of line i: for a step that was trained, the seconds of all steps up to it after the begin of
 * the run; for weights that were evaluated, the time at which their last step ended. */
static void set_time(struct run *r, struct log *l, size_t i)
{
	const struct log *train = &r->train;
	const size_t before = l == train ? i : index_of(train, l->line[i].step);

	l->line[i].wall =
		(before ? train->line[before - 1].wall : r->begun) + (l == train ? l->line[i].seconds : 0);
}

/* Appends the events of the lines from `from` on. */
static enum rf_code add_lines(struct run *r, struct log *l, size_t from, FILE *in, struct rf_buf *b,
                              struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	char *text = NULL;
	size_t room = 0;
	ssize_t n;

	for (size_t i = from; i < l->n && rc == RF_OK; i++) {
		json_t *json = NULL;

		set_time(r, l, i);
		if (fseeko(in, l->line[i].at, SEEK_SET) || (n = getline(&text, &room, in)) < 0)
			rc = rf_fail(e, RF_EIO, "%s: %s", l->path, strerror(errno));
		else if ((rc = rf_json_parse(&json, text, (size_t)n, MOST_LEVELS, e)) == RF_OK)
			add_line(b, json, l->line[i].step, l->line[i].wall);
		json_decref(json);
	}
	free(text);
	return rc;
}

static enum rf_code write_file(const char *path, const struct rf_buf *b, struct rf_err *e)
{
	char folder[4096];
	enum rf_code rc = rf_file_directory(folder, path, e);

	if (rc == RF_OK && (rc = rf_file_make_folders(folder, e)) == RF_OK)
		rc = rf_tempfile_save(b, path, e);
	return rc;
}

static enum rf_code append(const char *path, const struct rf_buf *b, struct rf_err *e)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	enum rf_code rc;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		rc = rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	else
		rc = rf_file_pwrite(fd, b->p, b->n, (uint64_t)st.st_size, e);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Removes the event file of an earlier call, because the log has no lines. */
static enum rf_code remove_events(const struct log *l, struct rf_err *e)
{
	return unlink(l->events) && errno != ENOENT && errno != ENOTDIR
	               ? rf_fail(e, RF_EIO, "%s: remove: %s", l->events, strerror(errno))
	               : RF_OK;
}

/* Writes the events of a log's new lines.  The event file is written the first time, and replaced if the
 * log is another file or has become shorter.  If the new lines are not all later than those
 * that the event file has, the events from the first new step on are repeated after a restart. */
static enum rf_code update(struct run *r, struct log *l, struct rf_err *e)
{
	struct rf_buf b = { 0 };
	struct stat st;
	FILE *in = fopen(l->path, "re");
	enum rf_code rc = RF_OK;
	size_t had = l->n;

	if (!in && errno != ENOENT)
		return rf_fail(e, RF_ENOINPUT, "%s: %s", l->path, strerror(errno));
	if (!in)
		return had ? RF_OK : remove_events(l, e);
	if (!fstat(fileno(in), &st) && (st.st_size < l->size || st.st_ino != l->file)) {
		l->size = 0, l->lines = 0, l->n = 0, l->written = 0, had = 0;
		l->file = st.st_ino;
	}
	rc = read_lines(l, in, e);
	if (rc == RF_OK && l->written < l->n) {
		if (!had)
			add_version(&b, r->begun);
		else if (l->written < had)
			add_restart(&b, l->line[l->written].step, r->begun);
		rc = add_lines(r, l, l->written, in, &b, e);
		if (rc == RF_OK && b.failed)
			rc = rf_fail(e, RF_ENOMEM, "out of memory");
		if (rc == RF_OK)
			rc = had ? append(l->events, &b, e) : write_file(l->events, &b, e);
		l->written = l->n;
	}
	if (rc == RF_OK && !l->n)
		rc = remove_events(l, e);
	rf_buf_free(&b);
	fclose(in);
	return rc;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Stores the paths of a log and of its event file. */
static enum rf_code open_log(struct log *l, const char *dir, const char *file, const char *to,
                             const char *kind, struct rf_err *e)
{
	size_t from;
	const size_t end = rf_file_split(dir, &from);

	if (end == from ||
	    (dir[from] == '.' && (end - from == 1 || (end - from == 2 && dir[from + 1] == '.'))))
		return rf_fail(e, RF_EUSAGE,
		               "%s: the path has no name for the run; write it as a path that ends with one",
		               dir);
	if (snprintf(l->path, PATH_BYTES, "%s/%s", dir, file) >= PATH_BYTES ||
	    snprintf(l->events, PATH_BYTES, "%s/%.*s/%s/events.out.tfevents.0.rf-tools", to,
	             (int)(end - from), dir + from, kind) >= PATH_BYTES)
		return rf_fail(e, RF_EUSAGE, "%s: the path is too long", dir);
	return RF_OK;
}

static enum rf_code open_run(struct run *r, const char *dir, const char *to, struct rf_err *e)
{
	struct stat st;
	enum rf_code rc;

	r->begun = time_of_begin(dir);
	if ((rc = open_log(&r->train, dir, "log.jsonl", to, "train", e)) != RF_OK ||
	    (rc = open_log(&r->eval, dir, "eval.jsonl", to, "eval", e)) != RF_OK)
		return rc;
	if (stat(r->train.path, &st) && stat(r->eval.path, &st))
		return rf_fail(e, RF_ENOINPUT, "%s: log.jsonl and eval.jsonl are missing", dir);
	return RF_OK;
}

/* Checks that the events of run i do not go to the files of an earlier run. */
static enum rf_code check_name(const struct run *run, const char *const *dirs, int i, struct rf_err *e)
{
	for (int j = 0; j < i; j++)
		if (!strcmp(run[i].train.events, run[j].train.events))
			return rf_fail(e, RF_EUSAGE,
			               "%s and %s have the same name; write them to two folders", dirs[j],
			               dirs[i]);
	return RF_OK;
}

enum rf_code rf_tfevents(const char *to, const char *const *runs, int n, bool follow, struct rf_err *e)
{
	struct run *run = calloc((size_t)n + 1, sizeof *run);
	enum rf_code rc = run ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");

	if (rc == RF_OK && !n)
		rc = rf_fail(e, RF_EUSAGE, "--tfevents: no run is named (try --help)");
	for (int i = 0; i < n && rc == RF_OK; i++)
		if ((rc = open_run(&run[i], runs[i], to, e)) == RF_OK)
			rc = check_name(run, runs, i, e);
	do {
		for (int i = 0; i < n && rc == RF_OK; i++)
			if ((rc = update(&run[i], &run[i].train, e)) == RF_OK)
				rc = update(&run[i], &run[i].eval, e);
	} while (follow && rc == RF_OK && !sleep(1));
	for (int i = 0; run && i < n; i++) {
		free(run[i].train.line);
		free(run[i].eval.line);
	}
	free(run);
	return rc;
}
