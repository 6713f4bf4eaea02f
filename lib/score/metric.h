/* metric.h -- scores how well a prediction answers a question, by the rules of RULER and of LongBench.
 *
 * There are two sets of rules: those of the benchmarks' own programs (NVIDIA/RULER, scripts/eval;
 * THUDM/LongBench, metrics.py and eval.py), and those of the ReFINE paper's code (arXiv:2602.16704;
 * utils/reward_score in its repository), which cuts predictions and chooses lines differently.  Scores are
 * equal to theirs to the last bits. Where their programs fail on long texts (a recursion in rouge), the
 * score is the correct value. */
#ifndef RF_METRIC_H
#define RF_METRIC_H

#include "base/err.h"
#include "score/chars.h"

enum rf_rules { RF_RULES_OFFICIAL, RF_RULES_REFINE };
#define RF_RULES_WORDS "official|refine"

enum rf_metric {
	RF_METRIC_AUTO,  /* the metric of the task */
	RF_METRIC_F1,    /* F1 of the words */
	RF_METRIC_ROUGE, /* ROUGE-L F of the package rouge 1.0.1, on sets of words */
	RF_METRIC_CLASS, /* 1 over the number of classes named, if the right one is among them */
	/* CODE: difflib's ratio of the first line of code, in whole percents.  LEVENSHTEIN: the result of the
	   published program if the package python-Levenshtein is installed, twice the length of the longest
	   common subsequence over the sum of both lengths. */
	RF_METRIC_CODE,
	RF_METRIC_LEVENSHTEIN,
	RF_METRIC_ALL,       /* share of the references that occur in the prediction */
	RF_METRIC_PART,      /* 1 if any of the references occurs in the prediction */
	RF_METRIC_COUNT,     /* share of the prediction's numbers that are equal to the reference */
	RF_METRIC_RETRIEVAL, /* the same for the number in "Paragraph N" */
	RF_METRICS
};
#define RF_METRIC_WORDS "auto|f1|rouge|class|code|levenshtein|all|part|count|retrieval"

/* The settings of scoring. */
struct rf_scoring {
	enum rf_rules rules;
	/* AUTO: the metric of the task, by its name in the benchmarks, also with the "_e" of LongBench-E */
	enum rf_metric metric;
};

/* An answered question.  Its texts are C strings as rf_chars_text() writes them. */
struct rf_answered {
	const char *task; /* NULL: none, so the metric must be named */
	const char *pred;
	const char *const *answer; /* references */
	int answers;               /* number of references, at least 1 */
	const char *const *class_; /* names of classes, in their order; NULL: the fifty of TREC */
	int classes;
};

/* The score of a prediction. */
struct rf_verdict {
	enum rf_metric metric; /* the metric; never AUTO */
	double score;          /* 0 to 1: the best over the references; for ALL their mean */
	double *of;            /* (references): the score by each reference, in their order */
	int references;        /* number of references; by the rules `refine` one with a '|' is several */
};

/* Scores an answered question.  p: memory for the verdict and for scratch.  Errors: RF_EDATA: there is no
 * task, or it has no metric, or there is no reference, or the comparisons take more than RF_METRIC_STEPS;
 * RF_ENOMEM. */
enum rf_code rf_metric_score(const struct rf_scoring *how, const struct rf_answered *a, struct rf_region *p,
                             struct rf_verdict *v, struct rf_err *e);

/* The steps that a comparison may still take, such as cells of a table.  A question may take
 * RF_METRIC_STEPS, which is a table of 65536 words by as many and takes some seconds. */
#define RF_METRIC_STEPS (UINT64_C(1) << 32)
struct rf_steps {
	uint64_t left;
};
/* Takes n steps.  Returns false, and leaves no step, if fewer are left. */
static inline bool rf_steps_take(struct rf_steps *steps, uint64_t n)
{
	const bool enough = n <= steps->left;

	steps->left -= enough ? n : steps->left;
	return enough;
}

/* The metrics in files of their own.  p: memory that the caller frees.  Errors, without a sentence:
 * RF_ENOMEM; RF_EDATA: there are too few steps. */
enum rf_code rf_rouge_l(struct rf_region *p, struct rf_steps *steps, struct rf_chars pred,
                        struct rf_chars reference, double *f);
/* Computes 2M/(|a| + |b|), where difflib.SequenceMatcher(None, a, b) matches M characters.  Neither text is
 * empty. */
enum rf_code rf_difflib_ratio(struct rf_region *p, struct rf_steps *steps, struct rf_chars a,
                              struct rf_chars b, double *ratio);
enum rf_code rf_levenshtein_ratio(struct rf_region *p, struct rf_steps *steps, struct rf_chars a,
                                  struct rf_chars b, double *ratio);

#endif
