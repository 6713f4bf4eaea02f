/* lock.h -- a lock on a file that says who holds it.
 *
 * The lock is flock(2)'s, so it goes with the last process that has it: those that the holder starts
 * inherit it, and where the holder alone is killed it stays until they have ended.  The file holds the
 * holder's number, when it began, and where that number means something. */
#ifndef RF_LOCK_H
#define RF_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct rf_lock {
	int fd;         /* -1: not open */
	bool held;      /* by us */
	pid_t holder;   /* who has it, where that is another that lives; 0: it has died and what it began
	                   lives on, or has not said yet */
	/* who has it is on another machine or in another container, and cannot be seen from here */
	bool away;
};
#define RF_LOCK_NONE { .fd = -1 }

/* Tries once, and may be called again.  RF_EBUSY: another has it: l->holder, l->away. */
enum rf_code rf_lock_try(struct rf_lock *l, const char *path, struct rf_err *e);
/* Gives it back, where we have it, and the file says nothing any more. */
void rf_lock_release(struct rf_lock *l);

#endif
