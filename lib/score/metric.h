/* metric.h -- how well a prediction answers a question, by the rules of RULER and of LongBench.
 *
 * Two sets of rules: those of the benchmarks' own programs (NVIDIA/RULER, scripts/eval; THUDM/LongBench,
 * metrics.py and eval.py), and those with which the numbers of the ReFINE paper (arXiv:2602.16704) were made
 * (its repository's utils/reward_score), which cut predictions and choose lines otherwise.  Scores equal
 * theirs to the last bits; where their programs fail on long texts (a recursion in rouge), the true value
 * stands instead. */
#ifndef RF_METRIC_H
#define RF_METRIC_H

#include "base/err.h"
#include "score/chars.h"

enum rf_rules { RF_RULES_OFFICIAL, RF_RULES_REFINE };
#define RF_RULES_WORDS "official|refine"

enum rf_metric {
	RF_METRIC_AUTO,           /* the one of the task */
	RF_METRIC_F1,             /* of the words */
	RF_METRIC_ROUGE,          /* ROUGE-L F of the package rouge 1.0.1, on sets of words */
	RF_METRIC_CLASS,          /* the class named, or one over how many were */
	/* difflib's ratio of the first line of code, in whole percents; what the published program gives
	   instead where the package python-Levenshtein is installed, twice the longest common subsequence
	   over both lengths */
	RF_METRIC_CODE, RF_METRIC_LEVENSHTEIN,
	RF_METRIC_ALL,            /* share of the references that occur in the prediction */
	RF_METRIC_PART,           /* 1 if any of them does */
	RF_METRIC_COUNT,          /* share of the numbers in the prediction that are the reference */
	RF_METRIC_RETRIEVAL,      /* the same for the number in "Paragraph N" */
	RF_METRICS
};
#define RF_METRIC_WORDS "auto|f1|rouge|class|code|levenshtein|all|part|count|retrieval"

/* How a prediction is scored. */
struct rf_scoring {
	enum rf_rules rules;
	/* AUTO: the one of the task, by its name in the benchmarks, also with LongBench-E's "_e" */
	enum rf_metric metric;
};

/* An answered question.  Its texts are C strings as rf_chars_text() writes them. */
struct rf_answered {
	const char *task;         /* NULL: there is none, so the metric must be named */
	const char *pred;
	const char *const *answer; /* references */
	int answers;              /* at least 1 */
	const char *const *class_; /* names of classes, in their order; NULL: TREC's fifty */
	int classes;
};

/* What a prediction comes to. */
struct rf_verdict {
	enum rf_metric metric;    /* by which; never AUTO */
	double score;             /* 0 to 1: the best over the references, but of ALL their mean */
	double *of;               /* (references): by each, in their order */
	int references;           /* by refine's rules one with a '|' is several */
};

/* p: memory for the verdict and the way to it.  Errors: RF_EDATA: there is no task or none that has a metric,
 * no reference, or the comparisons take more than RF_METRIC_STEPS; RF_ENOMEM. */
enum rf_code rf_metric_score(const struct rf_scoring *how, const struct rf_answered *a, struct rf_region *p,
                             struct rf_verdict *v, struct rf_err *e);

/* The steps that a comparison may still take, such as cells of a table.  A question may take
 * RF_METRIC_STEPS, which is a table of 65536 words by as many and takes some seconds. */
#define RF_METRIC_STEPS (UINT64_C(1) << 32)
struct rf_steps { uint64_t left; };
/* Takes n steps.  Returns false, and leaves no step, if fewer are left. */
bool rf_steps_take(struct rf_steps *steps, uint64_t n);

/* The parts that have files of their own.  p: memory that the caller frees.  Errors, without a sentence:
 * RF_ENOMEM; RF_EDATA: there are too few steps. */
enum rf_code rf_rouge_l(struct rf_region *p, struct rf_steps *steps, struct rf_chars pred,
                        struct rf_chars reference, double *f);
/* 2M/(|a| + |b|), M as difflib.SequenceMatcher(None, a, b) matches; neither is empty */
enum rf_code rf_difflib_ratio(struct rf_region *p, struct rf_steps *steps, struct rf_chars a,
                              struct rf_chars b, double *ratio);
enum rf_code rf_levenshtein_ratio(struct rf_region *p, struct rf_steps *steps, struct rf_chars a,
                                  struct rf_chars b, double *ratio);

#endif
