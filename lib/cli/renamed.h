/* renamed.h -- options that had another name in the previous release.
 *
 * The command line still takes the old name, with a warning that tells the new one.  Histories have the new
 * name, except in streams of the previous release (rf-stream(5), HEAD). */
#ifndef RF_RENAMED_H
#define RF_RENAMED_H

#include <stddef.h>

struct rf_renamed {
	const char *program, *was, *name;
	const char *word;      /* not NULL: the old option was a flag; it means this word of the new option */
};

/* Returns the entry of the old name, the n bytes at `was`, in that program; NULL: there is none. */
const struct rf_renamed *rf_renamed_from(const char *program, const char *was, size_t n);

#endif
