/* manifest.c -- the lines of RUN/manifest.json.
 *
 * The existing lines describe a state, part by part.  A new line has the parts that differ from that state.
 * The file therefore stays short after many commits, and its first line, with the hash of the weights that
 * the run began with, never changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/number.h"
#include "base/utf8.h"
#include "ckpt/manifest.h"
#include "io/file.h"
#include "io/json.h"
#include "io/tempfile.h"
#include "io/words.h"

enum { DEPTH = 12 };

/* Returns whether a key of a line is not a part. */
static bool of_line(const char *key)
{
	return !strcmp(key, "event") || !strcmp(key, "step") || !strcmp(key, "time");
}

/* Reads the file into *text, malloc'd, *n bytes, and appends its lines to the list.  A file that does not
 * exist gives no text.  A crash can leave NUL bytes in a file, so a line ends only at its newline. */
static enum rf_code read_lines(const char *path, char **text, size_t *n, json_t *lines, struct rf_err *e)
{
	const char *end;
	enum rf_code rc;
	int number = 1;
	json_t *line;
	size_t len;

	*n = 0;
	if ((rc = rf_file_read(path, RF_MOST_MANIFEST, text, n, e)) != RF_OK)
		return rc == RF_ENOINPUT ? RF_OK : rc;
	end = *text + *n;
	for (const char *p = *text, *next; p < end && rc == RF_OK; p = next, number++) {
		const char *const newline = memchr(p, '\n', (size_t)(end - p));

		len = (size_t)((newline ? newline : end) - p);
		next = newline ? newline + 1 : end;
		if (strspn(p, " \t\r") >= len)
			continue;
		rc = memchr(p, 0, len) ? rf_fail(e, RF_EMODEL, "the line has a NUL byte, as after a crash")
		                       : rf_json_parse_nul(&line, p, len, DEPTH, e);
		if (rc != RF_OK)
			rf_blame(e, "%s: line %d (move the file away to begin another one)", path, number);
		else if (json_array_append_new(lines, line) < 0)
			rc = rf_fail(e, RF_ENOMEM, "out of memory");
	}
	return rc;
}

enum rf_code rf_manifest_read(const char *run, json_t **lines, struct rf_err *e)
{
	char path[4096], *text = NULL;
	enum rf_code rc = rf_file_join(path, run, RF_MANIFEST, e);
	size_t n;

	if (!(*lines = json_array()))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK)
		rc = read_lines(path, &text, &n, *lines, e);
	free(text);
	if (rc != RF_OK) {
		json_decref(*lines);
		*lines = NULL;
	}
	return rc;
}

json_t *rf_manifest_newest(const json_t *lines)
{
	json_t *newest = json_object(), *line, *part;
	const char *key;
	size_t i;

	json_array_foreach (lines, i, line)
		json_object_foreach (line, key, part)
			if (!of_line(key) && json_object_set(newest, key, part) < 0) {
				json_decref(newest);
				return NULL;
			}
	return newest;
}

static void host_and_time(char host[256], char now[32])
{
	const time_t t = time(NULL);
	struct tm utc;

	if (gethostname(host, 256))
		strcpy(host, "unknown");
	host[255] = 0;
	if (!gmtime_r(&t, &utc) || !strftime(now, 32, "%Y-%m-%dT%H:%M:%SZ", &utc))
		strcpy(now, "unknown");
}

/* Returns the line to add, with those members of `parts` that differ from `before` or are missing there;
 * NULL: out of memory.  begins: no line exists yet.  *needed is false if the line would say nothing new. */
static json_t *make_line(bool begins, const json_t *before, const json_t *parts, const json_t *first,
                         int64_t step, bool *needed)
{
	char host[256], now[32];
	json_t *line, *part;
	const char *key;
	bool failed = false;

	host_and_time(host, now);
	line = json_pack("{s:s, s:I, s:s, s:s%}", "event", begins ? "begin" : "change", "step",
	                 (json_int_t)step, "time", now, "host", host, strlen(host));
	if (!line) /* a name of a host that is not UTF-8 */
		line = json_pack("{s:s, s:I, s:s, s:s}", "event", begins ? "begin" : "change", "step",
		                 (json_int_t)step, "time", now, "host", "unknown");
	*needed = begins || !json_equal(json_object_get(line, "host"), json_object_get(before, "host"));
	if (begins && first)
		failed = json_object_update(line, (json_t *)(uintptr_t)first) < 0;
	json_object_foreach ((json_t *)(uintptr_t)parts, key, part)
		if (!json_equal(part, json_object_get(before, key))) {
			*needed = true;
			failed = failed || json_object_set(line, key, part) < 0;
		}
	if (failed) {
		json_decref(line);
		return NULL;
	}
	return line;
}

enum rf_code rf_manifest_note(const char *run, const json_t *parts, const json_t *first, int64_t step,
                              struct rf_err *e)
{
	json_t *lines = json_array(), *before = NULL, *line = NULL;
	struct rf_buf text = { 0 };
	char path[4096], *old = NULL;
	bool needed = false;
	enum rf_code rc;
	size_t n;

	if ((rc = rf_file_join(path, run, RF_MANIFEST, e)) == RF_OK &&
	    (rc = read_lines(path, &old, &n, lines, e)) == RF_OK) {
		before = rf_manifest_newest(lines);
		line = !before ? NULL
		               : make_line(!json_array_size(lines), before, parts, first, step, &needed);
		rf_buf_add(&text, old, n);
		if (n && old[n - 1] != '\n') /* a user edited the file by hand */
			rf_buf_add(&text, "\n", 1);
		rf_json_print(&text, line);
		rf_buf_add(&text, "\n", 1);
		if (text.failed || needed)
			rc = rf_tempfile_save(&text, path, e);
	}
	rf_buf_free(&text);
	free(old);
	json_decref(line);
	json_decref(before);
	json_decref(lines);
	return rc;
}

/* ---- words --------------------------------------------------------------------------------- */

/* Returns n bytes as a text, escaped if they are not UTF-8; the caller frees it.  NULL: out of memory. */
static char *utf8_text(const char *s, size_t n)
{
	char *text = malloc(4 * n + 1);

	if (text && rf_utf8(s, n)) {
		memcpy(text, s, n);
		text[n] = 0;
	} else if (text) {
		rf_quote(text, 4 * n + 1, s, n);
	}
	return text;
}

bool rf_manifest_set(json_t *o, const char *name, size_t name_len, const char *value, size_t n)
{
	char *key = utf8_text(name, name_len), *text = utf8_text(value, n);
	const bool set = key && text && json_object_set_new(o, key, json_string(text)) == 0;

	free(key);
	free(text);
	return set;
}

enum rf_code rf_manifest_typed(const char *text, json_t **words, struct rf_err *e)
{
	struct rf_buf value = { 0 };
	bool failed = !(*words = json_object());
	enum rf_code rc = RF_OK;

	while (*text && !failed && rc == RF_OK) {
		const char *const name = text, *end = text + strcspn(text, "\n");
		const char *const equals = memchr(text, '=', (size_t)(end - text));

		if (!equals && end > name) {
			char line[120];

			rc = rf_fail(e, RF_EDATA, "the line '%s' is not NAME=VALUE",
			             rf_quote(line, sizeof line, name, (size_t)(end - name)));
		}
		if (!equals) {
			text = end + (*end == '\n');
			continue;
		}
		value.n = 0;
		for (text = equals + 1;; text = end + 2) {
			end = text + strcspn(text, "\n");
			rf_buf_add(&value, text, (size_t)(end - text));
			if (!*end || end[1] != ' ')
				break;
			rf_buf_add(&value, "\n", 1);
		}
		text = end + (*end == '\n');
		failed = value.failed || !rf_manifest_set(*words, name, (size_t)(equals - name),
		                                          (const char *)value.p, value.n);
	}
	rf_buf_free(&value);
	if (failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc != RF_OK) {
		json_decref(*words);
		*words = NULL;
	}
	return rc;
}

/* Adds a script that rf-loop noted as "SIZE bytes, xxh64 HASH: NAME".  Returns false for any other text, or
 * if memory ran out. */
static bool add_script(json_t *scripts, const char *text, size_t n)
{
	static const char middle[] = " bytes, xxh64 ";
	const size_t digits = strspn(text, "0123456789"), name = digits + sizeof middle - 1 + 18;
	json_t *script;
	uint64_t bytes;

	if (n <= name || !rf_number(text, digits, &bytes) ||
	    strncmp(text + digits, middle, sizeof middle - 1))
		return true;
	script = json_pack("{s:I, s:s%}", "bytes", (json_int_t)bytes, "xxh64", text + name - 18, (size_t)16);
	if (script && rf_manifest_set(script, "file", 4, text + name, n - name))
		return json_array_append_new(scripts, script) == 0;
	json_decref(script);
	return false;
}

enum rf_code rf_manifest_words(const char *run, json_t **words, json_t **scripts, struct rf_err *e)
{
	struct rf_buf text = { 0 };
	char path[4096];
	bool there = false;
	enum rf_code rc;

	*words = *scripts = NULL;
	if ((rc = rf_file_join(path, run, "data/words", e)) != RF_OK ||
	    (rc = rf_words_read(&text, path, &there, e)) != RF_OK || !there) {
		rf_buf_free(&text);
		return rc;
	}
	rf_buf_add(&text, "", 1);
	*scripts = json_array();
	rc = text.failed || !*scripts ? rf_fail(e, RF_ENOMEM, "out of memory")
	                              : rf_manifest_typed((const char *)text.p, words, e);
	if (rc != RF_OK)
		rf_blame(e, "%s", path);
	for (const char *p = (const char *)text.p; rc == RF_OK && p; p = strchr(p, '\n'), p += p != NULL)
		if (!strncmp(p, "script=", 7) && !add_script(*scripts, p + 7, strcspn(p + 7, "\n")))
			rc = rf_fail(e, RF_ENOMEM, "out of memory");
	json_object_del(*words, "script");
	rf_buf_free(&text);
	return rc;
}
