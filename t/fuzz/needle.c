/* needle -- feeds any bytes to the readers of rf-needle's files: questions, templates or words.  A file that
 * is accepted can be used.  The first byte chooses the reader; the rest is the file. */

#include "base/buf.h"
#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "needle/task.h"
#include "needle/template.h"
#include "needle/vocabulary.h"

/* Checks that accepted templates make texts. */
static void check_templates(const char *path)
{
	struct rf_templates t;
	struct rf_fill fill = { .s = { NULL } };
	struct rf_buf out = { 0 };

	for (int b = 0; b < RF_BLANKS; b++)
		fill.s[b] = "word";
	if (rf_templates_open(&t, path, NULL) == RF_OK)
		for (int w = 0; w < RF_WORDINGS; w++) {
			const size_t begin = out.n;
			const size_t at = rf_template_fill(&t, (enum rf_wording)w, &fill, &out);

			insist(!out.failed && begin + at <= out.n, "a position outside the text");
			insist(!memchr(out.p + begin, 0, out.n - begin), "a NUL in the text");
		}
	rf_buf_free(&out);
	rf_templates_free(&t);
}

/* Checks that accepted words make pairs of UTF-8. */
static void check_words(const char *path)
{
	struct rf_vocabulary w;
	struct rf_buf out = { 0 };

	if (rf_vocabulary_open(&w, path, NULL, NULL) == RF_OK) {
		const uint64_t n = rf_vocabulary_pairs(&w);

		insist(n > 0, "no pairs");
		rf_vocabulary_pair(&w, n - 1, &out);
		insist(!out.failed && rf_utf8(out.p, out.n), "a pair that is not UTF-8");
	}
	rf_buf_free(&out);
	rf_vocabulary_free(&w);
}

/* Checks that an accepted file has questions. */
static void check_questions(const char *path)
{
	struct rf_questions q;

	if (rf_questions_open(&q, path, NULL, NULL) == RF_OK)
		insist(q.n > 0, "no questions");
	rf_questions_free(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void (*const read[])(const char *path) = { check_questions, check_templates, check_words };
	char path[40];
	int fd;

	if (!size)
		return 0;
	fd = memory_file(data + 1, size - 1, path);
	read[data[0] % 3](path);
	close(fd);
	return 0;
}
