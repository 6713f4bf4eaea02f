/* atomic.h -- an output that appears whole or not at all.
 *
 * A file is written under a temporary name in its directory, synced, renamed, and the directory synced; a
 * symbolic link is replaced, not followed.  Standard output, a FIFO, a device and /dev/fd/N are written
 * directly.  While it is open the temporary is doomed (doomed.h), so that a signal removes it. */
#ifndef RF_ATOMIC_H
#define RF_ATOMIC_H

#include <stddef.h>

#include "base/err.h"

struct rf_atomic {
	int fd;
	char *path;     /* NULL: standard output */
	char *tmp;      /* the temporary's path; NULL: written directly */
	int doomed;     /* its place in doomed.h */
	char name[200]; /* for messages: "<stdout>" or the path, fit for a terminal */
};

/* path NULL or "-": standard output. */
enum rf_code rf_atomic_open(struct rf_atomic *a, const char *path, struct rf_err *e);
/* Writes all of it, whatever interrupts. */
enum rf_code rf_atomic_write(struct rf_atomic *a, const void *data, size_t n, struct rf_err *e);
/* Makes it appear; closed in any case, and gone if that fails. */
enum rf_code rf_atomic_commit(struct rf_atomic *a, struct rf_err *e);
void rf_atomic_abandon(struct rf_atomic *a);

#endif
