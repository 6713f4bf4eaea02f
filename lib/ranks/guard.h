/* guard.h -- a parent process for each rank, which returns the exit status that all ranks share.
 *
 * All ranks must end with the same exit status, because the status tells a script whether it may try again.
 * But if one rank dies, the launcher sends SIGTERM to the other ranks, some of which may already have noticed
 * the failure.  And MPI_Init cannot return an error: Open MPI ends the process with _exit(1).  Therefore each
 * rank is the child of a process that does not use MPI, and that turns such ends into status 75.
 *
 * The child stays in the same process group, and is killed if its parent is killed. */
#ifndef RF_GUARD_H
#define RF_GUARD_H

#include "ranks/ranks.h"

/* Starts the child, if there is --ranks, and otherwise sets *status to -1.  It returns twice: in the child,
 * with *status -1; and in the parent when the child has ended, with the exit status in *status: 128 + N if
 * signal N ended the child, but 75 for SIGTERM.  The parent passes ending signals on to the child and keeps
 * them blocked, so a late signal changes nothing.  Call it before threads or files exist.  Errors: RF_ENOMEM;
 * RF_EBUSY, in the parent: MPI has ended the child. */
enum rf_code rf_ranks_guard(const struct rf_ranks *r, int *status, struct rf_err *e);

#endif
