/* score -- feeds any bytes as JSON lines of predictions to the scorer.  By each metric, each question has a
 * score from 0 to 1 or is refused, and the report is JSON.  The first byte chooses metric and rules; the
 * rest is the file. */
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "score/score.h"

/* Checks that each line is a JSON object with a score.  each: the scores are from 0 to 1. */
static void check_lines(struct rf_buf *b, bool each)
{
	const char *line = b->n ? (const char *)b->p : "", *end = line + b->n;

	for (const char *newline; line < end; line = newline + 1) {
		json_t *object, *score;

		newline = memchr(line, '\n', (size_t)(end - line));
		insist(newline != NULL, "a line without its end");
		object = json_loadb(line, (size_t)(newline - line), JSON_ALLOW_NUL, NULL);
		insist(json_is_object(object), "a line that is not an object");
		score = json_object_get(object, "score");
		insist(json_is_number(score) || json_is_null(score), "no score");
		insist(!each || (json_number_value(score) >= 0 && json_number_value(score) <= 1),
		       "a score outside 0 to 1");
		json_decref(object);
	}
	rf_buf_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rf_score_settings s = RF_SCORE_DEFAULTS;
	struct rf_scorer *c = NULL;
	struct rf_buf each = { 0 }, report = { 0 };
	char path[40];
	int fd;

	if (!size)
		return 0;
	fd = memory_file(data + 1, size - 1, path);
	s.how.metric = (enum rf_metric)((data[0] & 15) % RF_METRICS);
	s.how.rules = data[0] & 16 ? RF_RULES_REFINE : RF_RULES_OFFICIAL;
	s.task = data[0] & 32 ? "x" : NULL;
	s.by = data[0] & 64 ? "length,task" : "task";
	s.partial = data[0] & 128;
	s.each = true;
	s.max_record = 1 << 16;
	insist(rf_scorer_open(&c, &s, NULL) == RF_OK, "options are refused");
	if (rf_scorer_lines(c, path, NULL) == RF_OK) {
		if (rf_scorer_each(c, &each, NULL) == RF_OK)
			check_lines(&each, true);
		if (rf_scorer_report(c, NULL, &report, NULL) == RF_OK)
			check_lines(&report, false);
	}
	rf_buf_free(&each);
	rf_buf_free(&report);
	rf_scorer_close(c);
	close(fd);
	return 0;
}
