/* task.h -- the types and functions that the files of this folder share: tasks, samples, draws, units.
 *
 * A sample is made in two steps.  draw() decides everything that does not depend on the amount of haystack:
 * needles, keys, values and their places.  render() writes the prompt around a number of units of haystack,
 * as often as fit.c asks.  Every draw is a function of seed, task, the sample's number and the draw's
 * purpose, so samples of the same number have the same needles at every length. */
#ifndef RF_TASK_H
#define RF_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/region.h"
#include "io/skip.h"
#include "needle/template.h"
#include "needle/vocabulary.h"
#include "tokenizer/tokenizer.h"

/* ---- units of haystack ---------------------------------------------------------------------------- */

/* Unit i is text[i ? end[i-1] + 1 : 0 .. end[i]); the byte between two units is the joint. */
struct rf_units {
	struct rf_buf text;
	size_t *end, n, cap;
	char joint;
	bool failed;
};

void rf_units_add(struct rf_units *u, const void *s, size_t n);
/* Appends the units [from, to), with joints between them.  Unit i >= u->n is unit i mod u->n. */
void rf_units_copy(const struct rf_units *u, size_t from, size_t to, struct rf_buf *out);
/* Returns whether a sentence ends with unit i: with . ! or ?, and possibly quotes or brackets after it. */
bool rf_units_stop(const struct rf_units *u, size_t i);
void rf_units_free(struct rf_units *u);

/* Reads the words of a text, or of the texts of JSON lines; a sequence of blanks and line ends is one blank.
 * skip: counts and limits the bad lines that are skipped; NULL: a bad line is an error.  Errors: RF_EDATA:
 * there are no words, or bytes that are not UTF-8; those of rf_text_open(). */
enum rf_code rf_units_read(struct rf_units *u, const char *path, struct rf_skip *skip, struct rf_err *e);

/* ---- questions ------------------------------------------------------------------------------------ */

struct rf_paragraph {
	const char *s;
	size_t n;
	uint64_t title;
}; /* title 0: none */
struct rf_question {
	const char *text, **answer;
	uint32_t answers, own, *paragraph;
};

struct rf_questions {
	struct rf_question *q;
	struct rf_paragraph *p; /* each once */
	size_t n, cap, paragraphs, paragraphs_cap;
	struct rf_region memory;
};

/* Reads JSON lines: rf-needle(1), QUESTIONS.  *q must be released in any case.  skip: as above; a bad
 * line leaves nothing in *q.  Errors: RF_EDATA with file and line; those of rf_lines_open(). */
enum rf_code rf_questions_open(struct rf_questions *q, const char *path, struct rf_skip *skip,
                               struct rf_err *e);
void rf_questions_free(struct rf_questions *q);

/* ---- tasks and samples ---------------------------------------------------------------------------- */

struct rf_prompt;

struct rf_task {
	const char *name;
	int id;      /* number of the task in draws; it never changes */
	int max_new; /* most tokens of an answer */
	enum rf_haystack { RF_NO_HAYSTACK, RF_NOISES, RF_ESSAY, RF_NEEDLES } haystack;
	bool uuid_keys, uuid_values;
	int keys, values, queries; /* for niah */
	int questions;             /* for qa: the number of the file of --qa, from 1 */
	/* Errors of both: RF_ENOMEM; RF_EDATA: the words are too few. */
	enum rf_code (*draw)(struct rf_prompt *s, struct rf_err *e);
	enum rf_code (*render)(struct rf_prompt *s, size_t units, struct rf_err *e);
	/* Makes a sample smaller that does not fit with the least units.  Returns false if it cannot be
	   smaller. May be NULL. */
	bool (*shrink)(struct rf_prompt *s);
};

extern const struct rf_task rf_tasks[]; /* .name NULL at the end */

/* The material of samples: words, haystack, questions, tokenizer. */
struct rf_material {
	uint64_t seed;
	int digits; /* number of digits of a value that is a number */
	const struct rf_tokenizer *tokenizer;
	bool bytes; /* tokens are bytes */
	struct rf_vocabulary words;
	struct rf_templates wording;
	struct rf_units noise, essay;
	struct rf_questions questions[2];
	int files;             /* number of files of questions */
	struct rf_id_list ids; /* scratch memory of counting */
};

/* The place of a needle: `drawn` in [0, 1), and bytes of the context. */
struct rf_spot {
	double drawn;
	size_t at, n;
};

struct rf_prompt {
	struct rf_material *of;
	const struct rf_task *task;
	uint64_t number;
	int length;
	struct rf_region memory; /* memory of the drawn parts */
	void *state;             /* state of the task, in `memory`; drop() frees its buffers */
	void (*drop)(void *state);
	bool failed; /* memory ran out */
	/* set by draw() */
	size_t least, most; /* limits of the number of units */
	const char **answer, *query;
	size_t answers;
	struct rf_spot *place; /* (places) places of the answers, in their order */
	size_t places;
	/* set by render(): the prompt is the input followed by the answer's prefix */
	struct rf_buf context, prompt;
	size_t context_at, input; /* bytes of the prompt */
	/* set by rf_prompt_make() */
	size_t units, tokens;
};

/* Purposes of draws.  Their numbers never change; new ones come at the end. */
enum rf_what {
	RF_FOR_KEYS = 1,
	RF_FOR_VALUES,
	RF_FOR_PLACES,
	RF_FOR_NAMES,
	RF_FOR_WORDS,
	RF_FOR_ORDER,
	RF_FOR_EXAMPLE,
	RF_FOR_QUESTION,
	RF_FOR_PARAGRAPHS
};

/* Returns the key of draws: rf_draw(key, 0), rf_draw(key, 1), ... */
uint64_t rf_prompt_key(const struct rf_prompt *s, enum rf_what what, uint64_t of);
uint64_t rf_draw_below(uint64_t key, uint32_t j, uint64_t n);
/* Returns the j-th (j < n) number of a permutation of 0 .. n-1. */
uint64_t rf_permuted(uint64_t key, uint64_t n, uint64_t j);

/* Returns zeroed memory of the sample; NULL if memory ran out, and s->failed is set. */
void *rf_prompt_alloc(struct rf_prompt *s, size_t count, size_t size);
/* Returns a copy of a text; "" if memory ran out. */
const char *rf_prompt_text(struct rf_prompt *s, const void *text, size_t n);
/* Writes the prompt: fills s->context and the other blanks into these two texts. */
void rf_prompt_write(struct rf_prompt *s, enum rf_wording input, enum rf_wording prefix,
                     const struct rf_fill *f);
/* Appends a worked example to `out`: the input and the prefix that rf_prompt_write() wrote, and n answers,
 * worded one by one. */
void rf_prompt_example(struct rf_prompt *s, enum rf_wording example, enum rf_wording answer,
                       enum rf_wording joint, const char *const *answers, size_t n, struct rf_buf *out);
/* Counts the tokens of a text, without special tokens, in *n. */
enum rf_code rf_count_tokens(struct rf_material *m, const struct rf_buf *text, size_t *n, struct rf_err *e);

/* Assigns k needles to different lines among n + k: drawn[i] in [0, 1) decides the line of needle i. */
void rf_place_lines(const double *drawn, size_t k, size_t n, size_t *line);
/* Writes n units with needles between them as s->context.  before[i] units precede needle i, and among
 * needles with the same number the one comes first whose rank is lower.  at[i]: where it begins. */
void rf_scatter(struct rf_buf *context, const struct rf_units *u, size_t n, const char *const *needle,
                const size_t *before, const size_t *rank, size_t k, size_t *at);

/* Items in a random order that stays the same when others are inserted: each item has a number in [0, 1), by
 * which they are sorted. */
struct rf_item {
	double u;
	uint32_t a, b;
};
struct rf_order {
	struct rf_item *item;
	size_t n, cap;
	bool failed;
};
void rf_order_add(struct rf_order *o, double u, uint32_t a, uint32_t b);
void rf_order_sort(struct rf_order *o);
void rf_order_free(struct rf_order *o);

/* ---- fitting -------------------------------------------------------------------------------------- */

/* Finds units so that measure(units) <= room < measure(units + 1), or units == most: with few calls, if the
 * measure grows evenly.  *units: the result; *measured: its measure.  Returns RF_EOF if not even
 * measure(least) fits; *measured is what that needs. */
struct rf_fit {
	enum rf_code (*measure)(void *of, size_t units, size_t *n, struct rf_err *e);
	void *of;
};
enum rf_code rf_fit(const struct rf_fit *f, size_t least, size_t most, size_t room, size_t *units,
                    size_t *measured, struct rf_err *e);

/* Draws a sample and renders it with as many units as fit.  s must be released in any case.  Returns RF_EOF
 * if the sample does not fit; s->tokens is then the least length at which it fits. */
enum rf_code rf_prompt_make(struct rf_prompt *s, struct rf_material *m, const struct rf_task *task,
                            uint64_t number, int length, struct rf_err *e);
void rf_prompt_free(struct rf_prompt *s);
/* Computes in *tokens the least number of tokens of the sample at this length.  Some tasks have an example
 * whose length depends on the length of the prompt. */
enum rf_code rf_prompt_least(struct rf_material *m, const struct rf_task *task, uint64_t number, int length,
                             size_t *tokens, struct rf_err *e);

/* The functions of the tasks, in one file for each kind. */
enum rf_code rf_niah_draw(struct rf_prompt *s, struct rf_err *e);
enum rf_code rf_niah_render(struct rf_prompt *s, size_t units, struct rf_err *e);
enum rf_code rf_vt_draw(struct rf_prompt *s, struct rf_err *e);
enum rf_code rf_vt_render(struct rf_prompt *s, size_t units, struct rf_err *e);
enum rf_code rf_cwe_draw(struct rf_prompt *s, struct rf_err *e);
enum rf_code rf_cwe_render(struct rf_prompt *s, size_t units, struct rf_err *e);
bool rf_cwe_shrink(struct rf_prompt *s);
enum rf_code rf_fwe_draw(struct rf_prompt *s, struct rf_err *e);
enum rf_code rf_fwe_render(struct rf_prompt *s, size_t units, struct rf_err *e);
enum rf_code rf_qa_draw(struct rf_prompt *s, struct rf_err *e);
enum rf_code rf_qa_render(struct rf_prompt *s, size_t units, struct rf_err *e);

#endif
