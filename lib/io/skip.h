/* skip.h -- bad lines of text files that a program passes over, as far as --skip-bad allows. */
#ifndef RF_SKIP_H
#define RF_SKIP_H

#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

/* The bad lines of all inputs of a program; all zero: none may be passed over. */
struct rf_skip {
	uint64_t most;                       /* lines that may be passed over */
	uint64_t n;                          /* lines that were passed over */
	void (*first)(const char *sentence); /* gets the sentence about the first one; may be NULL */
};

void rf_skip_options(struct rf_skip *s, struct rf_opts *opts);

/* Decides about a failure that concerns one line, after which the next line can be read.  Returns RF_OK, and
 * counts the line, if it may be passed over.  Otherwise returns rc, and adds to e's sentence that --skip-bad
 * passes over such lines, or how many it did pass over.  s may be NULL: the program has no such option.  e
 * may be NULL. */
enum rf_code rf_skip_line(struct rf_skip *s, enum rf_code rc, struct rf_err *e);
/* Checks, after all inputs were read, that not all of their lines were bad.  good: the lines that were not.
 * Errors: RF_EDATA: lines were passed over, and there were no others. */
enum rf_code rf_skip_end(const struct rf_skip *s, uint64_t good, struct rf_err *e);

#endif
