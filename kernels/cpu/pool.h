/* pool.h -- threads that share work tile by tile, and sleep when there is none.
 *
 * The programs of a pipe run at the same time on the same cores.  So a waiting thread yields its core to
 * whoever wants it, and after a tenth of a millisecond it sleeps.  It does not sleep at once, since waking up
 * can take as long as a whole operation of a small model. */
#ifndef RF_POOL_H
#define RF_POOL_H

struct rf_pool;

/* threads: at least 1, including the caller.  NULL: no memory or no threads. */
struct rf_pool *rf_pool_new(int threads);
void rf_pool_free(struct rf_pool *p);

/* Calls fn(arg, tile, thread) once for every tile in [0, tiles), each on any thread in [0, threads), and
 * returns when all are done.  No tile may read what another tile writes. */
void rf_pool_run(struct rf_pool *p, int tiles, void (*fn)(void *arg, int tile, int thread), void *arg);

#endif
