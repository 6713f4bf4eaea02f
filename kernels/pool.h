/* pool.h -- threads that share work tile by tile, and sleep where there is none.
 *
 * The programs of a pipe run at the same time on the same cores.  So a thread that waits gives its core to
 * whoever wants it, and after a tenth of a millisecond it sleeps; it does not sleep at once, since waking
 * takes as long as many an operation of a small model. */
#ifndef RF_POOL_H
#define RF_POOL_H

struct rf_pool;

/* threads >= 1, the caller counted.  NULL: no memory or no threads. */
struct rf_pool *rf_pool_new(int threads);
void rf_pool_free(struct rf_pool *p);

/* Calls fn(arg, tile, thread) for every tile in [0, tiles), each once, on any thread in [0, threads); returns
 * when all are done.  What a tile writes no other tile reads. */
void rf_pool_run(struct rf_pool *p, int tiles, void (*fn)(void *arg, int tile, int thread), void *arg);

#endif
