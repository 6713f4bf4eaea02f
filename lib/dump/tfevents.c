/* tfevents.c -- copies lines of log.jsonl and eval.jsonl to event files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dump/tfevents.h"
#include "io/tempfile.h"

enum { PATH_BYTES = 4096 };

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

	json_object_foreach((json_t *)line, key, v) {
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

/* ---- runs ---------------------------------------------------------------------------------- */

/* A file of lines that grows. */
struct log {
	char path[PATH_BYTES], events[PATH_BYTES]; /* the lines; the event file */
	off_t at;                                  /* bytes of the lines read so far */
	uint64_t lines;                            /* number of the line read last */
};

/* The time at which an optimizer step ended. */
struct moment {
	int64_t step;
	double wall;
};

struct run {
	struct log train, eval;
	double begun; /* seconds since 1970; 0: unknown, so times count from 0 */
	struct moment *moment;
	size_t moments, room;
};

/* Returns when a run began, by its manifest. */
static double time_of_begin(const char *dir)
{
	char path[PATH_BYTES + 20], *line = NULL;
	size_t room = 0;
	struct tm tm = { 0 };
	double wall = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/manifest.json", dir);
	if (!(f = fopen(path, "r")))
		return 0;
	if (getline(&line, &room, f) > 0) {
		json_t *first = json_loads(line, 0, NULL);
		const char *text = json_string_value(json_object_get(first, "time"));

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

/* Returns the time of a line about the weights after `step` steps: when the last of these steps ended. */
static double time_of_weights(const struct run *r, int64_t step)
{
	size_t from = 0, to = r->moments;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (r->moment[middle].step < step)
			from = middle + 1;
		else
			to = middle;
	}
	return from ? r->moment[from - 1].wall : r->begun;
}

/* Returns the time of a line of the log: the time of the line before, and the seconds of this step. */
static double time_of_step(struct run *r, const json_t *line, int64_t step, struct rf_buf *b)
{
	const double before = r->moments ? r->moment[r->moments - 1].wall : r->begun,
	             wall = before + json_number_value(json_object_get(line, "timing_s/step"));

	if (r->moments == r->room) {
		const size_t room = r->room ? 2 * r->room : 256;
		struct moment *m = realloc(r->moment, room * sizeof *m);

		if (!m) {
			b->failed = true;
			return wall;
		}
		r->moment = m;
		r->room = room;
	}
	r->moment[r->moments++] = (struct moment){ step, wall };
	return wall;
}

/* Appends the event of a line. */
static enum rf_code read_line(struct run *r, struct log *l, const char *text, struct rf_buf *b,
                              struct rf_err *e)
{
	json_t *line = json_loads(text, 0, NULL);
	const json_t *number = json_object_get(line, "step");
	const int64_t step = json_integer_value(number);
	enum rf_code rc = RF_OK;

	if (!json_is_integer(number) || step < 0)
		rc = rf_fail(e, RF_EDATA, "%s: line %" PRIu64 ": not an object with a step", l->path, l->lines);
	else
		add_line(b, line, step,
		         l == &r->train ? time_of_step(r, line, step, b) : time_of_weights(r, step));
	json_decref(line);
	return rc;
}

/* Appends the events of all complete lines that were not read yet. */
static enum rf_code read_lines(struct run *r, struct log *l, FILE *in, struct rf_buf *b, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	char *text = NULL;
	size_t room = 0;
	ssize_t n;

	if (fseeko(in, l->at, SEEK_SET))
		return rf_fail(e, RF_EIO, "%s: %s", l->path, strerror(errno));
	while (rc == RF_OK && (n = getline(&text, &room, in)) > 0 && text[n - 1] == '\n') {
		l->at += n;
		l->lines++;
		rc = read_line(r, l, text, b, e);
	}
	if (rc == RF_OK && ferror(in))
		rc = rf_fail(e, RF_EIO, "%s: %s", l->path, strerror(errno));
	free(text);
	return rc;
}

static enum rf_code append(const char *path, const struct rf_buf *b, struct rf_err *e)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	enum rf_code rc = RF_OK;

	if (fd < 0 || write(fd, b->p, b->n) != (ssize_t)b->n)
		rc = rf_fail(e, RF_EIO, "%s: write: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Writes the events of a log's new lines.  The first time, and if the log has become shorter, which means that
 * it is another one, the event file is written anew. */
static enum rf_code update(struct run *r, struct log *l, struct rf_err *e)
{
	struct rf_buf b = { 0 };
	struct stat st;
	FILE *in = fopen(l->path, "re");
	enum rf_code rc = RF_OK;
	bool anew;

	if (!in)
		return errno == ENOENT ? RF_OK : rf_fail(e, RF_ENOINPUT, "%s: %s", l->path, strerror(errno));
	anew = !l->at || fstat(fileno(in), &st) || st.st_size < l->at;
	if (anew) {
		l->at = 0;
		l->lines = 0;
		if (l == &r->train)
			r->moments = 0;
		add_version(&b, r->begun);
	}
	if ((rc = read_lines(r, l, in, &b, e)) == RF_OK && b.failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK && anew && l->at)
		rc = rf_tempfile_save(&b, l->events, e);
	else if (rc == RF_OK && !anew && b.n)
		rc = append(l->events, &b, e);
	rf_buf_free(&b);
	fclose(in);
	return rc;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Makes a directory unless it exists. */
static enum rf_code make_folder(const char *path, struct rf_err *e)
{
	return mkdir(path, 0777) && errno != EEXIST ? rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno)) : RF_OK;
}

/* Stores the paths of a log and of its event file, and makes the event file's folder if the log exists. */
static enum rf_code open_log(struct log *l, const char *dir, const char *file, const char *to, const char *name,
                             const char *kind, struct rf_err *e)
{
	char folder[PATH_BYTES];
	enum rf_code rc;

	if (snprintf(l->path, sizeof l->path, "%s/%s", dir, file) >= PATH_BYTES ||
	    snprintf(folder, sizeof folder, "%s/%s", to, name) >= PATH_BYTES ||
	    snprintf(l->events, sizeof l->events, "%s/%s/%s/events.out.tfevents.0.rf-tools", to, name, kind) >=
	            PATH_BYTES)
		return rf_fail(e, RF_EUSAGE, "%s: the path is too long", dir);
	if ((rc = make_folder(to, e)) != RF_OK || (rc = make_folder(folder, e)) != RF_OK)
		return rc;
	*strrchr(l->events, '/') = 0;
	rc = make_folder(l->events, e);
	l->events[strlen(l->events)] = '/';
	return rc;
}

/* Stores the last part of a run's path, such as b of a/b/. */
static void name_of_run(char name[256], const char *path)
{
	size_t n = strlen(path), from;

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (from = n; from && path[from - 1] != '/';)
		from--;
	snprintf(name, 256, "%.*s", (int)(n - from), path + from);
}

static enum rf_code open_run(struct run *r, const char *dir, const char *to, const char *name, struct rf_err *e)
{
	struct stat st;
	enum rf_code rc;

	r->begun = time_of_begin(dir);
	if ((rc = open_log(&r->train, dir, "log.jsonl", to, name, "train", e)) != RF_OK ||
	    (rc = open_log(&r->eval, dir, "eval.jsonl", to, name, "eval", e)) != RF_OK)
		return rc;
	if (stat(r->train.path, &st) && stat(r->eval.path, &st))
		return rf_fail(e, RF_ENOINPUT, "%s: neither log.jsonl nor eval.jsonl is there", dir);
	return RF_OK;
}

enum rf_code rf_tfevents(const char *to, const char *const *runs, int n, bool follow, struct rf_err *e)
{
	struct run *run = calloc((size_t)n, sizeof *run);
	char name[256], other[256];
	enum rf_code rc = run ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");

	for (int i = 0; i < n && rc == RF_OK; i++) {
		name_of_run(name, runs[i]);
		for (int j = 0; j < i && rc == RF_OK; j++) {
			name_of_run(other, runs[j]);
			if (!strcmp(name, other))
				rc = rf_fail(e, RF_EUSAGE, "%s and %s have the same name; write them to two folders",
				             runs[j], runs[i]);
		}
		rc = rc == RF_OK ? open_run(&run[i], runs[i], to, name, e) : rc;
	}
	do {
		for (int i = 0; i < n && rc == RF_OK; i++)
			if ((rc = update(&run[i], &run[i].train, e)) == RF_OK)
				rc = update(&run[i], &run[i].eval, e);
	} while (follow && rc == RF_OK && !sleep(1));
	for (int i = 0; run && i < n; i++)
		free(run[i].moment);
	free(run);
	return rc;
}
