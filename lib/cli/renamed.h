/* renamed.h -- options that had another name in the release before.
 *
 * The command line still takes the old name, with a warning that says the new one.  Histories keep the old
 * name for good, so that the streams of both releases are the same bytes (rf-stream(5), HEAD). */
#ifndef RF_RENAMED_H
#define RF_RENAMED_H

#include <stddef.h>

struct rf_renamed {
	const char *program, *was, *name;
	const char *word;      /* not NULL: the old name was a flag, now it is this word of an ENUM */
};

/* What the n bytes at `was` are now called in that program; and the old name of `name`.  NULL: it was not
 * renamed. */
const struct rf_renamed *rf_renamed_from(const char *program, const char *was, size_t n);
const struct rf_renamed *rf_renamed_to(const char *program, const char *name);

#endif
