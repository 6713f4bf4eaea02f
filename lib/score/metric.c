/* metric.c -- the metric of each task, and the metrics that are short enough for this file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/metric.h"

/* ---- tasks --------------------------------------------------------------------------------- */

/* The part of a prediction that counts. */
enum cut {
	WHOLE,
	LINE,       /* the first line */
	LATER_LINE, /* the first line that is not empty */
};

struct task {
	const char *name;
	enum rf_metric metric;
	enum cut cut[2]; /* for the rules `official`, `refine` */
};

static const struct task tasks[] = {
	{ "narrativeqa", RF_METRIC_F1, { WHOLE, LINE } },
	{ "qasper", RF_METRIC_F1, { WHOLE, LINE } },
	{ "multifieldqa_en", RF_METRIC_F1, { WHOLE, LINE } },
	{ "hotpotqa", RF_METRIC_F1, { WHOLE, LINE } },
	{ "2wikimqa", RF_METRIC_F1, { WHOLE, LINE } },
	{ "musique", RF_METRIC_F1, { WHOLE, LINE } },
	{ "triviaqa", RF_METRIC_F1, { LATER_LINE, LATER_LINE } },
	{ "gov_report", RF_METRIC_ROUGE, { WHOLE, WHOLE } },
	{ "qmsum", RF_METRIC_ROUGE, { WHOLE, WHOLE } },
	{ "multi_news", RF_METRIC_ROUGE, { WHOLE, WHOLE } },
	{ "samsum", RF_METRIC_ROUGE, { LATER_LINE, LATER_LINE } },
	{ "trec", RF_METRIC_CLASS, { LATER_LINE, LATER_LINE } },
	{ "lcc", RF_METRIC_CODE, { WHOLE, WHOLE } },
	{ "repobench-p", RF_METRIC_CODE, { WHOLE, WHOLE } },
	{ "passage_count", RF_METRIC_COUNT, { WHOLE, LINE } },
	{ "passage_retrieval_en", RF_METRIC_RETRIEVAL, { WHOLE, LINE } },
	{ "niah_single_1", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_single_2", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_single_3", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_multikey_1", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_multikey_2", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_multikey_3", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_multivalue", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "niah_multiquery", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "vt", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "cwe", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "fwe", RF_METRIC_ALL, { WHOLE, WHOLE } },
	{ "qa_1", RF_METRIC_PART, { WHOLE, LINE } },
	{ "qa_2", RF_METRIC_PART, { WHOLE, LINE } },
	{ "ruler_qa", RF_METRIC_PART, { WHOLE, LINE } },
	{ "ruler_squadqa", RF_METRIC_PART, { WHOLE, LINE } },
	{ "ruler_hotpotqa", RF_METRIC_PART, { WHOLE, LINE } },
};

/* Returns the task of this name; NULL: unknown.  Tasks of LongBench-E have the names of LongBench followed by
 * "_e". */
static const struct task *find_task(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
		if (!strncmp(name, tasks[i].name, strlen(tasks[i].name)) &&
		    (n == strlen(tasks[i].name) || !strcmp(name + strlen(tasks[i].name), "_e")))
			return &tasks[i];
	return NULL;
}

/* ---- metrics of words ---------------------------------------------------------------------- */

static bool ascii_punctuation(int32_t c)
{
	return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
	       (c >= '{' && c <= '~');
}

/* Returns the length of the article that is a whole word at i; 0: there is none. */
static size_t article_length(struct rf_chars s, size_t i)
{
	static const char *const articles[] = { "a", "an", "the" };

	if (i && rf_char_word(s.c[i - 1]))
		return 0;
	for (int k = 0; k < 3; k++) {
		size_t n = strlen(articles[k]), j = 0;
		while (j < n && i + j < s.n && s.c[i + j] == articles[k][j])
			j++;
		if (j == n && (i + n == s.n || !rf_char_word(s.c[i + n])))
			return n;
	}
	return 0;
}

/* Lists the words of a text in lower case, without ASCII punctuation and articles. */
static bool plain_words(struct rf_words *to, struct rf_region *p, struct rf_chars s)
{
	struct rf_chars low, bare;
	int32_t *c;
	size_t n = 0;

	if (!rf_chars_lower(&low, p, s) || !(c = rf_region_alloc(p, low.n, sizeof *c)))
		return false;
	for (size_t i = 0; i < low.n; i++)
		if (!ascii_punctuation(low.c[i]))
			c[n++] = low.c[i];
	bare = (struct rf_chars){ c, n };
	for (size_t i = 0, word; i < n; i += word ? word : 1)
		if ((word = article_length(bare, i)))
			for (size_t k = 0; k < word; k++)
				c[i + k] = ' ';
	return rf_chars_words(to, p, bare);
}

static int in_order(const void *x, const void *y)
{
	const struct rf_chars *a = x, *b = y;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return a->n ? memcmp(a->c, b->c, a->n * sizeof *a->c) : 0;
}

/* Counts the words that both texts have, each as often as it occurs in both. */
static double count_shared(struct rf_words a, struct rf_words b)
{
	double same = 0;

	if (a.n && b.n) {
		qsort(a.word, a.n, sizeof *a.word, in_order);
		qsort(b.word, b.n, sizeof *b.word, in_order);
	}
	for (size_t i = 0, j = 0; i < a.n && j < b.n;) {
		const int order = in_order(&a.word[i], &b.word[j]);

		same += !order;
		i += order <= 0;
		j += order >= 0;
	}
	return same;
}

static enum rf_code f1(struct rf_region *p, struct rf_steps *steps, struct rf_chars pred,
                       struct rf_chars reference, double *score)
{
	enum { SORTING = 128 }; /* steps to sort a word */
	struct rf_words a, b;
	double same;

	*score = 0;
	if (!plain_words(&a, p, pred) || !plain_words(&b, p, reference))
		return RF_ENOMEM;
	if (!rf_steps_take(steps, SORTING * (uint64_t)(a.n + b.n)))
		return RF_EDATA;
	if ((same = count_shared(a, b)) > 0) {
		double precision = same / (double)a.n, recall = same / (double)b.n;
		*score = (2 * precision * recall) / (precision + recall);
	}
	return RF_OK;
}

static enum rf_code contains(struct rf_region *p, struct rf_chars pred, struct rf_chars reference,
                             double *score)
{
	struct rf_chars a, b;
	bool in;

	if (!rf_chars_lower(&a, p, pred) || !rf_chars_lower(&b, p, reference) || !rf_chars_in(p, b, a, &in))
		return RF_ENOMEM;
	*score = in;
	return RF_OK;
}

/* ---- metrics of numbers, classes, code ----------------------------------------------------- */

/* Finds the next run of digits.  Returns false if there is none. */
static bool next_number(struct rf_chars *s, struct rf_chars *number)
{
	size_t from = 0, to;

	while (from < s->n && !rf_char_digit(s->c[from]))
		from++;
	for (to = from; to < s->n && rf_char_digit(s->c[to]);)
		to++;
	*number = (struct rf_chars){ s->c + from, to - from };
	*s = (struct rf_chars){ s->c + to, s->n - to };
	return to > from;
}

static double numbers_that_are(struct rf_chars pred, struct rf_chars wanted)
{
	struct rf_chars number;
	double all = 0, right = 0;

	while (next_number(&pred, &number)) {
		all++;
		right += rf_chars_equal(number, wanted);
	}
	return all > 0 ? right / all : 0;
}

/* Returns the number after "Paragraph "; empty: there is none. */
static struct rf_chars paragraph_number(struct rf_chars s)
{
	static const char before[] = "Paragraph ";
	struct rf_chars number = { NULL, 0 };
	size_t n = sizeof before - 1, j;

	for (; s.n > n; s.c++, s.n--) {
		for (j = 0; j < n && s.c[j] == before[j];)
			j++;
		if (j == n && rf_char_digit(s.c[n])) {
			s = (struct rf_chars){ s.c + n, s.n - n };
			next_number(&s, &number);
			break;
		}
	}
	return number;
}

/* The classes of TREC as the benchmark lists them; one lacks its last letter there, too. */
static const char *const trec[] = {
	"Food",
	"Date",
	"Order, rank",
	"Speed",
	"Disease and medicine",
	"Word with a special property",
	"Abbreviation",
	"Language",
	"Letter like a-z",
	"Other entity",
	"Animal",
	"Expression abbreviated",
	"Price",
	"Techniques and method",
	"Musical instrument",
	"Mountain",
	"Currency name",
	"Event",
	"Product",
	"State",
	"Individual",
	"Organ of body",
	"Reason",
	"Manner of an action",
	"City",
	"Religion",
	"Invention, book and other creative piece",
	"Distance, linear measure",
	"Temperature",
	"Postcode or other code",
	"Size, area and volume",
	"Sport",
	"Country",
	"Other location",
	"Lasting time of somethin",
	"Equivalent term",
	"Description of something",
	"Weight",
	"Vehicle",
	"Color",
	"Other number",
	"Definition of something",
	"Element and substance",
	"Description of a person",
	"Symbols and sign",
	"Number of something",
	"Plant",
	"Percent, fraction",
	"Group or organization of person",
	"Title of a person",
};

/* Scores the classes that a prediction names.  The published program removes classes from a list while it
 * walks over the list, and so skips the class after a removed one; scores depend on that. */
static enum rf_code class_named(const struct rf_answered *a, struct rf_region *p, struct rf_steps *steps,
                                struct rf_chars pred, struct rf_chars reference, double *score)
{
	const char *const *name = a->class_ ? a->class_ : trec;
	int all = a->class_ ? a->classes : (int)(sizeof trec / sizeof *trec), n = 0, same;
	struct rf_chars *found = rf_region_alloc(p, (size_t)all, sizeof *found), one;
	bool named = false, in;

	if (!found)
		return RF_ENOMEM;
	for (int i = 0; i < all; i++) {
		if (!rf_chars_of(&one, p, name[i]) || !rf_chars_in(p, one, pred, &in))
			return RF_ENOMEM;
		if (in)
			found[n++] = one;
		if (!rf_steps_take(steps, pred.n + one.n))
			return RF_EDATA;
	}
	for (int i = 0; i < n; i++) {
		one = found[i];
		if (!rf_chars_in(p, one, reference, &in))
			return RF_ENOMEM;
		if (!rf_steps_take(steps, reference.n + one.n))
			return RF_EDATA;
		if (!in || rf_chars_equal(one, reference))
			continue;
		if (!rf_steps_take(steps, (uint64_t)n))
			return RF_EDATA;
		for (same = 0; !rf_chars_equal(found[same], one);)
			same++; /* the first class of that name is removed */
		memmove(found + same, found + same + 1, (size_t)(--n - same) * sizeof *found);
	}
	for (int i = 0; i < n; i++)
		named |= rf_chars_equal(found[i], reference);
	*score = named ? 1.0 / n : 0;
	return RF_OK;
}

/* Returns the first line of code: the first line without a sign of a comment or a quotation.  If there is
 * none, the result is empty by the rules `official`, and the whole text by the rules `refine`. */
static struct rf_chars line_of_code(struct rf_chars pred, enum rf_rules rules)
{
	struct rf_chars rest = rf_chars_skip(pred, '\n');

	do {
		struct rf_chars line = rf_chars_until(rest, '\n', &rest);
		bool code = true;
		for (size_t i = 0; i < line.n && code; i++)
			code = line.c[i] != '`' && line.c[i] != '#' &&
			       !(line.c[i] == '/' && i + 1 < line.n && line.c[i + 1] == '/');
		if (code)
			return line;
	} while (rest.c);
	return rules == RF_RULES_REFINE ? pred : (struct rf_chars){ NULL, 0 };
}

static enum rf_code code(enum rf_metric metric, struct rf_region *p, struct rf_steps *steps,
                         struct rf_chars line, struct rf_chars reference, double *score)
{
	double ratio = 0;
	enum rf_code rc;

	*score = rf_chars_equal(line, reference);
	if (*score > 0 || !line.n || !reference.n)
		return RF_OK;
	rc = metric == RF_METRIC_CODE ? rf_difflib_ratio(p, steps, line, reference, &ratio)
	                              : rf_levenshtein_ratio(p, steps, line, reference, &ratio);
	*score = nearbyint(100 * ratio) / 100; /* halves to even */
	return rc;
}

/* ---- a question ---------------------------------------------------------------------------- */

static struct rf_chars cut_text(struct rf_chars s, enum cut how)
{
	if (how == LATER_LINE)
		s = rf_chars_skip(s, '\n');
	return how == WHOLE ? s : rf_chars_until(s, '\n', NULL);
}

/* Replaces control characters by line ends, as RULER's programs do. */
static bool lines_of(struct rf_chars *s, struct rf_region *p)
{
	struct rf_chars from = rf_chars_strip(*s);
	int32_t *c = rf_region_alloc(p, from.n, sizeof *c);

	if (!c)
		return false;
	for (size_t i = 0; i < from.n; i++)
		c[i] = from.c[i] < 0x20 ? '\n' : from.c[i];
	*s = rf_chars_strip((struct rf_chars){ c, from.n });
	return true;
}

/* Each comparison reads both texts several times. */
enum { READINGS = 8 };

static enum rf_code compare(enum rf_metric metric, const struct rf_answered *a, struct rf_region *p,
                            struct rf_steps *steps, struct rf_chars pred, struct rf_chars reference,
                            double *score)
{
	if (!rf_steps_take(steps, READINGS * (uint64_t)(pred.n + reference.n)))
		return RF_EDATA;
	switch (metric) {
	case RF_METRIC_F1: return f1(p, steps, pred, reference, score);
	case RF_METRIC_ROUGE: return rf_rouge_l(p, steps, pred, reference, score);
	case RF_METRIC_CLASS: return class_named(a, p, steps, pred, reference, score);
	case RF_METRIC_CODE:
	case RF_METRIC_LEVENSHTEIN: return code(metric, p, steps, pred, reference, score);
	case RF_METRIC_COUNT: *score = numbers_that_are(pred, reference); return RF_OK;
	case RF_METRIC_RETRIEVAL: *score = numbers_that_are(pred, paragraph_number(reference)); return RF_OK;
	default: return contains(p, pred, reference, score);
	}
}

/* Cuts the prediction to the part that the metric uses. */
static bool prepare_prediction(const struct rf_scoring *how, enum rf_metric metric, const struct task *t,
                               struct rf_region *p, struct rf_chars *pred)
{
	if (t)
		*pred = cut_text(*pred, t->cut[how->rules]);
	if (metric == RF_METRIC_ALL || metric == RF_METRIC_PART)
		return lines_of(pred, p);
	if (metric == RF_METRIC_CODE || metric == RF_METRIC_LEVENSHTEIN)
		*pred = line_of_code(*pred, how->rules);
	else if (how->rules == RF_RULES_REFINE)
		*pred = rf_chars_strip(*pred);
	return true;
}

/* Returns the most references that there can be: by the rules `refine`, '|' separates references. */
static size_t count_references(const struct rf_answered *a)
{
	size_t n = (size_t)a->answers;

	for (int i = 0; i < a->answers; i++)
		for (const char *s = a->answer[i]; (s = strchr(s, '|')); s++)
			n++;
	return n;
}

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory (a score)"); }

/* Compares with one reference.  The memory of the comparison is released after it. */
static enum rf_code score_one(struct rf_verdict *v, const struct rf_answered *a, struct rf_steps *steps,
                              struct rf_chars pred, struct rf_chars reference, double *score,
                              struct rf_err *e)
{
	static const char words[] = RF_METRIC_WORDS;
	const char *name = words;
	struct rf_region scratch = { NULL };
	enum rf_code rc = compare(v->metric, a, &scratch, steps, pred, reference, score);

	rf_region_free(&scratch);
	if (rc == RF_OK)
		return RF_OK;
	if (rc != RF_EDATA)
		return no_memory(e);
	for (enum rf_metric m = RF_METRIC_AUTO; m < v->metric; m++)
		name = strchr(name, '|') + 1;
	return rf_fail(e, RF_EDATA,
	               "the metric %.*s takes too long for a prediction of %zu characters and reference %d, "
	               "which has %zu (more than 2^32 steps in all)",
	               (int)strcspn(name, "|"), name, pred.n, v->references + 1, reference.n);
}

enum rf_code rf_metric_score(const struct rf_scoring *how, const struct rf_answered *a, struct rf_region *p,
                             struct rf_verdict *v, struct rf_err *e)
{
	const struct task *t = a->task ? find_task(a->task) : NULL;
	struct rf_chars pred, rest, reference;
	char q[80];
	struct rf_steps steps = { RF_METRIC_STEPS };
	double sum = 0, best = 0, x = 0;
	enum rf_code rc;

	*v = (struct rf_verdict){ .metric = how->metric != RF_METRIC_AUTO ? how->metric
		                            : t                           ? t->metric
		                                                          : RF_METRIC_AUTO };
	if (v->metric == RF_METRIC_AUTO)
		return a->task ? rf_fail(e, RF_EDATA,
		                         "the task '%s' has no metric here: name one with "
		                         "--metric",
		                         rf_chars_quote(q, sizeof q, a->task))
		               : rf_fail(e, RF_EDATA, "there is no task: name a metric with --metric");
	if (a->answers < 1)
		return rf_fail(e, RF_EDATA, "there are no references to compare with");
	if (!(v->of = rf_region_alloc(p, count_references(a), sizeof *v->of)) ||
	    !rf_chars_of(&pred, p, a->pred) || !prepare_prediction(how, v->metric, t, p, &pred))
		return no_memory(e);
	for (int i = 0; i < a->answers; i++) {
		if (!rf_chars_of(&rest, p, a->answer[i]))
			return no_memory(e);
		do {
			/* the data of ReFINE's code keep references in one string with '|' between them, so a
			   reference with a '|' becomes several */
			reference = rest;
			rest.c = NULL;
			if (how->rules == RF_RULES_REFINE)
				reference = rf_chars_until(reference, '|', &rest);
			if ((rc = score_one(v, a, &steps, pred, reference, &x, e)) != RF_OK)
				return rc;
			sum += x;
			best = x > best ? x : best;
			v->of[v->references++] = x;
		} while (rest.c);
	}
	v->score = v->metric == RF_METRIC_ALL ? sum / v->references : best;
	return RF_OK;
}
