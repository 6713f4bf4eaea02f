/* cores.h -- how many threads can run at a time. */
#ifndef RF_CORES_H
#define RF_CORES_H

/* Returns the number of processors that this process may use, at least 1. */
int rf_cores(void);

#endif
