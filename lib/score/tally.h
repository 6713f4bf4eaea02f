/* tally.h -- the scores of many questions, in groups: means with their errors, and differences between two
 * programs' answers to the same questions.
 *
 * A group is a task, or a combination of values of several keys, such as a task at a length.  Its questions
 * have ids, by which two tallies are compared. */
#ifndef RF_TALLY_H
#define RF_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/region.h"

/* A question's score. */
struct rf_scored {
	uint64_t id;
	uint64_t question; /* a hash: the same for the same question and references */
	double score;      /* 0 to 1 */
	const char *more;  /* further keys of the question's line, a JSON object; NULL: none */
};

struct rf_score_group {
	/* the value of the first key, such as "trec"; the other keys and values as JSON, such as
	   ",\"length\":4096", or "" */
	const char *first, *rest;
	struct rf_scored *of;
	size_t n, cap;
	size_t unanswered; /* number of questions left out because they have no answer */
};

struct rf_tally {                     /* all zero: empty */
	struct rf_score_group *group; /* in the order of their first questions */
	size_t n, cap;
	struct rf_region names;
};

/* A mean over n values, its standard error, and its 95 % interval; with one value error and interval are
 * NaN.  The interval is that of Student's distribution, cut at the least and greatest possible value.
 * proportions: the interval is one for values that are all 0 or 1, or is combined from such intervals. */
struct rf_mean {
	size_t n;
	double mean, se, low, high;
	bool proportions;
};

/* Returns the group of these names, and makes it if it is new.  NULL: memory ran out. */
struct rf_score_group *rf_tally_group(struct rf_tally *t, const char *first, const char *rest);
enum rf_code rf_tally_add(struct rf_score_group *g, struct rf_scored s, struct rf_err *e);
void rf_tally_free(struct rf_tally *t);

/* Returns the mean of a group's scores.  If all are 0 or 1, the interval is that of Clopper and Pearson
 * (1934), Biometrika 26, 404-413: its width is not 0 if all scores are equal. */
struct rf_mean rf_tally_mean(const struct rf_score_group *g);
/* Returns the mean of k groups' means, all with the same weight, as the benchmarks average over tasks.  If
 * the interval of one of them is for proportions, the interval of the mean combines theirs (Zou and Donner
 * 2008, Statistics in Medicine 27, 1693-1702). */
struct rf_mean rf_tally_mean_of(const struct rf_mean *of, size_t k);

/* Differences a - b of the same questions.  If all scores are 0 or 1, the interval is that of Bonett and
 * Price (2012), Journal of Educational and Behavioral Statistics 37, 479-488, for paired proportions. */
struct rf_pairs {
	struct rf_mean difference;
	size_t better, worse;
};
/* Compares two groups, and sorts both by id.  Errors: RF_EDATA: an id occurs twice in one group, or is
 * missing in the other, or stands for another question there. */
enum rf_code rf_tally_pairs(struct rf_score_group *a, struct rf_score_group *b, struct rf_pairs *p,
                            struct rf_err *e);

#endif
