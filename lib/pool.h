/* pool.h -- threads that sleep until there is work, and share it tile by tile.
 *
 * The programs of a pipe run at the same time on the same cores, so a waiting thread never spins. */
#ifndef RF_POOL_H
#define RF_POOL_H

struct rf_pool;

/* threads >= 1, the caller counted.  NULL: no memory or no threads. */
struct rf_pool *rf_pool_new(int threads);
void rf_pool_free(struct rf_pool *p);

/* Calls fn(arg, tile, thread) for every tile in [0, tiles), each once, on any thread in [0, threads); returns when
 * all are done.  What a tile writes no other tile reads. */
void rf_pool_run(struct rf_pool *p, int tiles, void (*fn)(void *arg, int tile, int thread), void *arg);

#endif
