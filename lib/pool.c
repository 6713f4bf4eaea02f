#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pool.h"

struct rf_pool {
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	unsigned round;              /* counts rf_pool_run; a worker sleeps until it changes */
	int busy;                    /* workers that have not finished the round */
	int quit;
	void (*fn)(void *, int, int);
	void *arg;
	int tiles;
	atomic_int next;
	pthread_t *id;
};

struct worker { struct rf_pool *pool; int thread; };

static void share(struct rf_pool *p, int thread)
{
	int tile;

	while ((tile = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->tiles)
		p->fn(p->arg, tile, thread);
}

static void *worker(void *arg)
{
	struct worker w = *(struct worker *)arg;
	struct rf_pool *p = w.pool;
	unsigned seen = 0;

	free(arg);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (p->round == seen && !p->quit)
			pthread_cond_wait(&p->work, &p->lock);
		if (p->quit)
			break;
		seen = p->round;
		pthread_mutex_unlock(&p->lock);
		share(p, w.thread);
		pthread_mutex_lock(&p->lock);
		if (--p->busy == 0)
			pthread_cond_signal(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct rf_pool *rf_pool_new(int threads)
{
	struct rf_pool *p = calloc(1, sizeof *p);
	sigset_t all, old;

	if (!p || !(p->id = calloc((size_t)threads, sizeof *p->id))) {
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	sigfillset(&all); /* signals belong to the main thread, whose blocking calls they must interrupt */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	for (p->threads = 1; p->threads < threads; p->threads++) {
		struct worker *w = malloc(sizeof *w);
		if (w)
			*w = (struct worker){ p, p->threads };
		if (!w || pthread_create(&p->id[p->threads], NULL, worker, w)) {
			free(w);
			pthread_sigmask(SIG_SETMASK, &old, NULL);
			rf_pool_free(p);
			return NULL;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return p;
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

int rf_pool_threads(const struct rf_pool *p)
{
	return p->threads;
}

void rf_pool_run(struct rf_pool *p, int tiles, void (*fn)(void *, int, int), void *arg)
{
	if (p->threads == 1 || tiles <= 1) {
		for (int i = 0; i < tiles; i++)
			fn(arg, i, 0);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->fn = fn;
	p->arg = arg;
	p->tiles = tiles;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	p->busy = p->threads - 1;
	p->round++;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	share(p, 0);
	pthread_mutex_lock(&p->lock);
	while (p->busy)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}
