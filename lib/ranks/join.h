/* join.h -- the inner interface of lib/ranks: joins the other ranks and leaves them.  The calls of MPI for
 * this wait without a limit, so a separate thread makes each call, and a rank can give up that thread. */
#ifndef RF_JOIN_H
#define RF_JOIN_H

#include "ranks/ranks.h"

/* Opens the plugin r->ops, which tells the rank and the number of ranks, and writes signs of life to `folder`
 * while it waits.  Errors: RF_EDEVICE: the plugin finds no launcher; RF_EBUSY: a rank does not come;
 * RF_EIO. */
enum rf_code rf_ranks_join(struct rf_ranks *r, const char *folder, struct rf_err *e);
/* Closes the plugin; gives up if that takes longer than --rank-timeout. */
void rf_ranks_leave(struct rf_ranks *r);

#endif
