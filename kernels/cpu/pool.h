/* pool.h -- a pool of threads that compute the tiles of an operation, and sleep between operations.
 *
 * The programs of a pipe run at the same time on the same cores.  So a waiting thread yields its core to
 * other threads, and sleeps after a tenth of a millisecond.  It does not sleep immediately, since waking up
 * can take as long as a whole operation of a small model. */
#ifndef RF_POOL_H
#define RF_POOL_H

struct rf_pool;

/* Starts a pool.  threads: at least 1, including the caller.  Returns NULL if memory or threads are
 * exhausted. */
struct rf_pool *rf_pool_new(int threads);
void rf_pool_free(struct rf_pool *p);

/* Calls fn(arg, tile, thread) once for every tile in [0, tiles), each on any thread in [0, threads), and
 * returns when all calls have returned.  No tile may read what another tile writes. */
void rf_pool_run(struct rf_pool *p, int tiles, void (*fn)(void *arg, int tile, int thread), void *arg);

#endif
