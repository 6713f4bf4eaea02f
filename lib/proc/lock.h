/* lock.h -- a lock on a file, which also says who holds it.
 *
 * The lock is one of flock(2): processes that the holder starts inherit it, and it is released when the last
 * of them has ended.  So if only the holder is killed, its children keep the lock.  The file contains the
 * holder's process number, its start time, and the system and container in which that number is valid. */
#ifndef RF_LOCK_H
#define RF_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct rf_lock {
	int fd;    /* -1: not open */
	bool held; /* this process holds the lock */
	/* another, living process that holds the lock; 0: the holder is away, has not written its number yet,
	   or has died while processes that it started still live */
	pid_t holder;
	/* the holder is on another machine or in another container: its process is not visible from here */
	bool away;
};
#define RF_LOCK_NONE \
	{ \
		.fd = -1 \
	}

/* Tries once to take the lock; it may be called again.  Errors: RF_EBUSY: another process holds it, and
 * l->holder and l->away say which; RF_EIO. */
enum rf_code rf_lock_try(struct rf_lock *l, const char *path, struct rf_err *e);
/* Empties the file and releases the lock, if it is held; closes the file. */
void rf_lock_release(struct rf_lock *l);

#endif
