/* pool.c -- a pool of threads.
 *
 * A call of rf_pool_run() is a round.  The workers sleep until the number of the round changes.  Then each
 * thread, the caller included, takes the next tile of the round until none is left, and the thread that ends
 * the last tile wakes the caller. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/pool.h"

struct rf_pool {
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	uint32_t round; /* number of rf_pool_run calls; a worker sleeps until it changes */
	int quit;
	void (*fn)(void *, int, int);
	void *arg;
	int tiles;
	/* The round and its next tile in one word.  So a worker that wakes late, when the others have
	 * computed all tiles, cannot take a tile of another round, and no thread needs to wait for that
	 * worker. */
	_Atomic uint64_t next;
	atomic_int finished;
	pthread_t *id;
};

struct worker {
	struct rf_pool *pool;
	int thread;
};

static bool has_begun(struct rf_pool *p, uint32_t seen)
{
	return (uint32_t)(atomic_load(&p->next) >> 32) != seen;
}
static bool has_ended(struct rf_pool *p, uint32_t tiles)
{
	return (uint32_t)atomic_load(&p->finished) == tiles;
}

/* Waits until `is_done` returns true, at most a tenth of a millisecond, and lets other programs run
 * meanwhile. */
static void wait_a_while(struct rf_pool *p, bool (*is_done)(struct rf_pool *p, uint32_t value),
                         uint32_t value)
{
	const double limit = 1e-4, began = rf_now();

	while (!is_done(p, value) && rf_now() - began < limit)
		sched_yield();
}

static void run_tiles(struct rf_pool *p, uint32_t round, int tiles, void (*fn)(void *, int, int), void *arg,
                      int thread)
{
	uint64_t s = atomic_load(&p->next);

	while ((uint32_t)(s >> 32) == round && (uint32_t)s < (uint32_t)tiles) {
		if (!atomic_compare_exchange_weak(&p->next, &s, s + 1))
			continue;
		fn(arg, (int)(uint32_t)s, thread);
		if (atomic_fetch_add(&p->finished, 1) + 1 == tiles) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->done);
			pthread_mutex_unlock(&p->lock);
			return;
		}
		s = atomic_load(&p->next);
	}
}

static void *worker(void *arg)
{
	struct worker w = *(struct worker *)arg;
	struct rf_pool *p = w.pool;
	uint32_t seen = 0;

	free(arg);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		void (*fn)(void *, int, int);
		void *job;
		int tiles;

		while (p->round == seen && !p->quit)
			pthread_cond_wait(&p->work, &p->lock);
		if (p->quit)
			break;
		seen = p->round;
		fn = p->fn;
		job = p->arg;
		tiles = p->tiles;
		pthread_mutex_unlock(&p->lock);
		run_tiles(p, seen, tiles, fn, job, w.thread);
		wait_a_while(p, has_begun, seen);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct rf_pool *rf_pool_new(int threads)
{
	enum { STACK = 8 << 20 }; /* does not depend on the system's limit, which is meant for main() */
	struct rf_pool *p = calloc(1, sizeof *p);
	pthread_attr_t attr;
	sigset_t all, old;

	if (!p || !(p->id = calloc((size_t)threads, sizeof *p->id))) {
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&all); /* signals belong to the main thread, whose blocking calls they must interrupt */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	for (p->threads = 1; p->threads < threads; p->threads++) {
		struct worker *w = malloc(sizeof *w);
		if (w)
			*w = (struct worker){ p, p->threads };
		if (!w || pthread_create(&p->id[p->threads], &attr, worker, w)) {
			free(w);
			break;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (p->threads == threads)
		return p;
	rf_pool_free(p);
	return NULL;
}

void rf_pool_free(struct rf_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->quit = 1;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (int i = 1; i < p->threads; i++)
		pthread_join(p->id[i], NULL);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
	free(p->id);
	free(p);
}

void rf_pool_run(struct rf_pool *p, int tiles, void (*fn)(void *, int, int), void *arg)
{
	uint32_t round;

	if (p->threads == 1 || tiles <= 1) {
		for (int i = 0; i < tiles; i++)
			fn(arg, i, 0);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->fn = fn;
	p->arg = arg;
	p->tiles = tiles;
	atomic_store(&p->finished, 0);
	atomic_store(&p->next, (uint64_t)++p->round << 32);
	pthread_cond_broadcast(&p->work);
	round = p->round;
	pthread_mutex_unlock(&p->lock);
	run_tiles(p, round, tiles, fn, arg, 0);
	wait_a_while(p, has_ended, (uint32_t)tiles);
	pthread_mutex_lock(&p->lock);
	while (atomic_load(&p->finished) < tiles)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}
