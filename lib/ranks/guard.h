/* guard.h -- a process in front of a rank, which says how the rank has ended.
 *
 * All ranks are to have the same status, by which whoever started them knows whether they may be tried
 * again.  But if one of them has died, a launcher ends by SIGTERM those that are left, of which some may
 * know before; and MPI cannot fail while it joins the ranks: Open MPI ends those that see it by _exit(1).
 * So a rank is the child of a process that has nothing to do with MPI, for which all of that is status 75.
 *
 * The child has the same process group, and is killed if this process is. */
#ifndef RF_GUARD_H
#define RF_GUARD_H

#include "ranks/ranks.h"

/* Without --ranks: nothing, and *status is -1.  Else it returns twice: in the child, with *status -1; and
 * when that has ended, in this process, with *status to exit with: 128 + N if signal N ended it, but 75 if
 * that was SIGTERM.  Signals that end a process go on to the child, and
 * stay blocked here, so that one that comes late changes nothing.  To be called before there are
 * threads or open files.  Errors: RF_ENOMEM; RF_EBUSY, in this process: MPI has ended the child. */
enum rf_code rf_ranks_guard(const struct rf_ranks *r, int *status, struct rf_err *e);

#endif
