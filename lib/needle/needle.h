/* needle.h -- makes prompts whose answers are hidden in a long context: the thirteen kinds of tasks of RULER
 * (Hsieh et al. 2024, arXiv:2404.06654), with the same structure and other wording: rf-needle(1). */
#ifndef RF_NEEDLE_H
#define RF_NEEDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/meter.h"
#include "base/opt.h"
#include "io/skip.h"

struct rf_needle_settings {
	const char *tasks, *lengths; /* lists, separated by commas */
	int n;                       /* number of samples for each task and length */
	const char *range;           /* the samples to write: "i:j", "i:" or ":j"; NULL: all */
	const char *tokenizer;       /* a checkpoint, run or file with the tokenizer, or "bytes" */
	const char *haystack, *adjectives, *nouns, *templates; /* files; NULL: none, or the built-in words */
	struct rf_opt_list qa; /* files; the first is for qa_1, the last for qa_2 */
	uint64_t seed;
	int digits;           /* number of digits of values that are numbers */
	bool skip_short;      /* leave out a task at a length at which a sample does not fit */
	struct rf_skip *skip; /* bad lines of haystack and questions; NULL: none may be bad */
};
#define RF_NEEDLE_DEFAULTS \
	{ \
		.lengths = "4k", .n = 500, .seed = 42, .digits = 7 \
	}

void rf_needle_options(struct rf_needle_settings *s, struct rf_opts *opts);

struct rf_needle;

/* Reads all files.  Errors: RF_EUSAGE: a task, length or range is unknown or malformed, or a file that a
 * task needs is not given; RF_EDATA: one of the files is malformed, and the sentence names file and line;
 * those of rf_tokenizer_open(); RF_ENOINPUT, RF_EIO, RF_ENOMEM. */
enum rf_code rf_needle_open(struct rf_needle **to, const struct rf_needle_settings *s, struct rf_err *e);
void rf_needle_close(struct rf_needle *n); /* n may be NULL */

/* Returns the tokenizer's warning, "" for none. */
const char *rf_needle_warning(const struct rf_needle *n);

/* Replaces `line` by the next sample as a line of JSON, which ends in a newline.  Samples come in the order
 * of tasks, then lengths, then numbers.  *tokens: the number of tokens of prompt and answer.  Returns RF_EOF
 * after the last sample.  Errors: RF_EDATA: without skip_short, a sample does not fit its length; the
 * sentence names the least length; RF_ENOMEM. */
enum rf_code rf_needle_next(struct rf_needle *n, struct rf_buf *line, int *tokens, struct rf_err *e);

/* Returns the tasks and lengths that skip_short has left out so far, as text; "" for none. */
const char *rf_needle_left(const struct rf_needle *n);

#endif
