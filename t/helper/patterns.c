/* patterns FILE -- matches the patterns of a tokenizer.json, for comparison with another program.
 *
 * A line of FILE is {"pattern": {"Regex": "..."}, "texts": ["...", ...]}.  For each line of FILE the program
 * prints "refused", or one line for each text.  That line has the matches that are not empty, as AT-END in
 * bytes, then a blank, then the text with each match replaced by a minus sign, in hex; or "fails" if the
 * pattern fails on the text. */
#include <stdio.h>
#include <stdlib.h>

#include "io/lines.h"
#include "tokenizer/normal.h"
#include "unit/must.h"

static void show_text(const struct rf_pattern *p, struct rf_pattern_work *w, const char *s, size_t n)
{
	struct rf_matches m = { p, w, s, n, 0, 0, false };
	struct rf_buf out = { 0 };
	size_t at, end;
	bool found;

	if (rf_pattern_replace(p, w, s, n, "-", 1, SIZE_MAX, &out, NULL) != RF_OK) {
		puts("fails");
		rf_buf_free(&out);
		return;
	}
	while (rf_pattern_next(&m, &found, &at, &end, NULL) == RF_OK && found)
		if (end > at)
			printf("%zu-%zu,", at, end);
	putchar(' ');
	for (size_t i = 0; i < out.n; i++)
		printf("%02x", ((unsigned char *)out.p)[i]);
	putchar('\n');
	rf_buf_free(&out);
}

static void show_line(struct rf_pattern_work *w, char *line, size_t n)
{
	struct rf_jvalue all, pattern, texts, v = { NULL, 0 };
	struct rf_pattern *p;

	must(rf_jscan_check(line, n, &all, &err));
	must(rf_jscan_get(&all, "pattern", &pattern, &err));
	must(rf_jscan_get(&all, "texts", &texts, &err));
	if (rf_pattern_read(&p, &pattern, NULL) != RF_OK) {
		puts("refused");
		return;
	}
	while (rf_jscan_next(&texts, NULL, &v)) {
		char *text;
		size_t len;

		must(rf_string_copy(&v, "texts", &text, &len, &err));
		show_text(p, w, text, len);
		free(text);
	}
	rf_pattern_free(p);
}

int main(int argc, char **argv)
{
	struct rf_pattern_work *w = rf_pattern_work_new();
	struct rf_lines *l;
	enum rf_code rc;
	char *line;
	size_t n;

	if (argc != 2 || !w)
		return 64;
	must(rf_lines_open(&l, argv[1], 64 << 20, &err));
	while ((rc = rf_lines_next(l, &line, &n, &err)) == RF_OK)
		show_line(w, line, n);
	rf_lines_close(l);
	rf_pattern_work_free(w);
	return rc == RF_EOF ? 0 : 65;
}
