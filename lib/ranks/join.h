/* join.h -- the inner interface of lib/ranks: joining the others and leaving them.  MPI has no such calls
 * that do not wait, so each is made by a thread of its own, which can be given up. */
#ifndef RF_JOIN_H
#define RF_JOIN_H

#include "ranks/ranks.h"

/* Opens the plugin r->ops, by which this rank gets its numbers, and signs in `folder` meanwhile.  Errors:
 * RF_EDEVICE: it finds no launcher; RF_EBUSY: somebody does not come; RF_EIO. */
enum rf_code rf_ranks_join(struct rf_ranks *r, const char *folder, struct rf_err *e);
/* Closes the plugin, if that does not take longer than others may need to come. */
void rf_ranks_leave(struct rf_ranks *r);

#endif
