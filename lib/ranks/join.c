/* join.c -- calls the plugin's open() and close() in a thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "ranks/join.h"
#include "ranks/sign.h"

/* A call in a thread, which may still be running when the rank has stopped waiting for it. */
struct call {
	const struct rf_ranks_ops *ops;
	bool leaves, well;
	int rank, ranks;
	char why[RF_RANKS_WHY];
	atomic_bool done;
};

static void *call_plugin(void *arg)
{
	struct call *c = arg;

	if (c->leaves)
		c->ops->close();
	else
		c->well = c->ops->open(&c->rank, &c->ranks, c->why);
	atomic_store(&c->done, true);
	return NULL;
}

/* Starts the thread.  Returns NULL if that is impossible. */
static struct call *start_call(const struct rf_ranks *r, bool leaves, pthread_t *thread)
{
	struct call *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->ops = r->ops;
	c->leaves = leaves;
	if (pthread_create(thread, NULL, call_plugin, c)) {
		free(c);
		return NULL;
	}
	return c;
}

static void end_call(struct call *c, pthread_t thread)
{
	pthread_join(thread, NULL);
	free(c);
}

static void pause_a_little(void) { nanosleep(&(struct timespec){ 0, 1000000 }, NULL); }

/* Takes over the numbers that MPI has given.  If the launcher's variables had other numbers, the sign of life
 * gets another file. */
static enum rf_code set_numbers(struct rf_ranks *r, const struct call *c, const char *folder,
                                struct rf_err *e)
{
	if (r->seen && (c->rank != r->rank || c->ranks != r->ranks))
		rf_signs_close(r);
	r->rank = c->rank;
	r->ranks = c->ranks;
	return r->seen ? RF_OK : rf_signs_open(r, folder, e);
}

enum rf_code rf_ranks_join(struct rf_ranks *r, const char *folder, struct rf_err *e)
{
	const double began = rf_now();
	double looked = began, now;
	enum rf_code rc = RF_OK;
	struct call *c;
	pthread_t thread;

	r->calls = 1;
	/* the launcher's variables tell the rank, and thus the file of its sign, before MPI does */
	if (rf_ranks_launched(&r->rank, &r->ranks, NULL) == RF_OK)
		rc = rf_signs_open(r, folder, e);
	if (rc != RF_OK)
		return rc;
	if (!(c = start_call(r, false, &thread)))
		return rf_fail(e, RF_ENOMEM, "out of memory (a thread)");
	while (!atomic_load(&c->done)) {
		pause_a_little();
		rf_ranks_sign(r, "joins the others");
		if ((now = rf_now()) - looked <= rf_signs_often(r))
			continue;
		looked = now;
		if (r->seen)
			rc = rf_signs_look(r, began, e);
		else if (now - began > r->timeout)
			rc = rf_fail(e, RF_EBUSY, "not all ranks came within %.0f s (--rank-timeout)",
			             r->timeout);
		if (rc != RF_OK) { /* the thread keeps running, and c is not freed */
			r->parted = true;
			return rc;
		}
	}
	rc = c->well ? set_numbers(r, c, folder, e) : rf_fail(e, RF_EDEVICE, "--ranks mpi: %s", c->why);
	if (!c->well)
		r->ops = NULL;
	end_call(c, thread);
	return rc;
}

void rf_ranks_leave(struct rf_ranks *r)
{
	const double began = rf_now();
	pthread_t thread;
	struct call *c = start_call(r, true, &thread);

	while (c && !atomic_load(&c->done) && rf_now() - began < r->timeout)
		pause_a_little();
	if (c && atomic_load(&c->done))
		end_call(c, thread);
}
