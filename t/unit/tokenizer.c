/* tokenizer FILE EXPECTED -- compares the tokenizer of FILE with another implementation, whose results are
 * the lines of EXPECTED.  Prints TAP.  A line is one of:
 *
 *     {"text", "ids", "back"}    a text, its ids, and the text that they decode to, which may be missing
 *     {"ids", "seen"}            ids, and their text without special tokens */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "io/lines.h"
#include "tokenizer/tokenizer.h"
#include "unit/tap.h"

enum { MOST = 1 << 24 };

static void die(const struct rf_err *e)
{
	printf("Bail out! %s\n", e->msg);
	exit(1);
}

/* Prints a comment with a text and its ids. */
static void show(const char *what, const json_t *text, const int32_t *ids, size_t n)
{
	char *s = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

	printf("# %s: %s:", what, s ? s : "?");
	for (size_t i = 0; i < n; i++)
		printf(" %d", (int)ids[i]);
	putchar('\n');
	free(s);
}

/* Returns whether the text has these ids. */
static bool encodes(const struct rf_tokenizer *t, const json_t *text, const int32_t *want, size_t n)
{
	struct rf_id_list ids = { 0 };
	struct rf_err e;
	bool same;

	if (rf_tokenizer_encode(t, json_string_value(text), json_string_length(text), &ids, &e) != RF_OK)
		die(&e);
	same = ids.n == n && (!n || !memcmp(ids.p, want, n * sizeof *ids.p));
	if (!same) {
		show("want", text, want, n);
		show("have", text, ids.p, ids.n);
	}
	free(ids.p);
	return same;
}

/* Returns whether the ids decode to this text. */
static bool decodes(const struct rf_tokenizer *t, const json_t *back, const int32_t *ids, size_t n)
{
	struct rf_err e;
	char *text;
	size_t len;
	bool same;

	if (rf_tokenizer_decode(t, ids, n, &text, &len, &e) != RF_OK)
		die(&e);
	same = len == json_string_length(back) && !memcmp(text, json_string_value(back), len);
	if (!same) {
		show("want", back, ids, n);
		printf("# have: %s\n", text);
	}
	free(text);
	return same;
}

/* Returns the text of the first n ids, in which U+FFFD replaces NUL. */
static char *text_of(const struct rf_tokenizer *t, const int32_t *ids, size_t n, size_t *len, size_t *final)
{
	struct rf_err e;
	char *text;

	if (rf_tokenizer_text(t, ids, n, &text, len, final, &e) != RF_OK)
		die(&e);
	if (*final > *len || strlen(text) != *len || !rf_utf8(text, *len)) {
		printf("Bail out! not a text of UTF-8 without NUL: %s\n", text);
		exit(1);
	}
	return text;
}

/* Returns whether the ids have this text, and whether the final part of each prefix's text begins the whole
 * text.  Prefixes are not checked if the text has U+FFFD: a later byte may then change earlier ones.  Adds to
 * *finals the prefixes whose text is not final up to its end. */
static bool has_text(const struct rf_tokenizer *t, const json_t *seen, const int32_t *ids, size_t n,
                     int *finals)
{
	static const char bad[] = "\xEF\xBF\xBD";
	const char *s = json_string_value(seen);
	struct rf_buf want = { 0 };
	size_t len, final, part_len;
	char *text = text_of(t, ids, n, &len, &final), *part;
	bool same;

	for (size_t i = 0; i < json_string_length(seen); i++)
		rf_buf_add(&want, s[i] ? s + i : bad, s[i] ? 1 : 3);
	same = len == want.n && (!len || !memcmp(text, want.p, len));
	if (!same) {
		show("want", seen, ids, n);
		printf("# have: %s\n", text);
	}
	for (size_t i = 0; i < n && !strstr(text, bad); i++) {
		part = text_of(t, ids, i, &part_len, &final);
		if (memcmp(part, text, final) || (!strstr(part, bad) && final != part_len)) {
			show("unstable", seen, ids, i);
			same = false;
		}
		*finals += final < part_len;
		free(part);
	}
	free(text);
	rf_buf_free(&want);
	return same;
}

int main(int argc, char *argv[])
{
	struct rf_tokenizer *t;
	struct rf_lines *l = NULL;
	struct rf_err e;
	int lines = 0, ids_differ = 0, texts_differ = 0, held = 0;
	bool plain = false;
	enum rf_code rc;
	char *line;
	size_t n;

	if (argc != 3)
		return 64;
	if (rf_tokenizer_open(&t, argv[1], &e) != RF_OK || rf_lines_open(&l, argv[2], MOST, &e) != RF_OK)
		die(&e);
	while ((rc = rf_lines_next(l, &line, &n, &e)) == RF_OK) {
		json_t *o = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
		const json_t *list = json_object_get(o, "ids"), *back = json_object_get(o, "back"),
			     *seen = json_object_get(o, "seen");
		size_t count = json_array_size(list);
		int32_t *ids = calloc(count + 1, sizeof *ids);

		for (size_t i = 0; ids && i < count; i++)
			ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
		ids_differ += !seen && !encodes(t, json_object_get(o, "text"), ids, count);
		texts_differ +=
			seen ? !has_text(t, seen, ids, count, &held) : back && !decodes(t, back, ids, count);
		plain = seen;
		lines++;
		free(ids);
		json_decref(o);
	}
	if (rc != RF_EOF)
		die(&e);
	ok(lines >= 300, "there are at least 300 lines: %d", lines);
	ok(!ids_differ, "no ids differ: %d do", ids_differ);
	ok(!texts_differ, "no texts differ: %d do", texts_differ);
	if (plain)
		ok(held >= 10, "at least 10 prefixes end within a character: %d", held);
	rf_lines_close(l);
	rf_tokenizer_free(t);
	return tap_end();
}
