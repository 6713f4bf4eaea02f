/* join.c -- loads the plugin, joins the other ranks and leaves them.  The calls of MPI for this wait without
 * a limit, so a separate thread makes each call, and a rank can give up that thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "io/shared_object.h"
#include "ranks/ranks.h"
#include "ranks/sign.h"

struct rf_ranks rf_ranks_alone = RF_RANKS_DEFAULTS;

void rf_ranks_options(struct rf_ranks *r, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("ranks", &r->launch, RF_LAUNCH_WORDS,
		         "train together with the other processes that mpirun or srun started",
		         .noted = RF_OPT_OF_BATCH),
		OPT_REAL("rank-timeout", &r->timeout, 0.1, 1e9, "seconds",
		         "seconds to wait for a rank that does not respond", .noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

/* ---- calls of the plugin -------------------------------------------------------------------- */

static enum rf_code load_plugin(struct rf_ranks *r, struct rf_err *e)
{
	char found[RF_PLUGIN_PATH];
	const char *path;
	const void *table;
	enum rf_code rc = rf_plugin_find(&rf_ranks_kind, &path, found, e);

	if (rc == RF_OK && (rc = rf_plugin_load(&rf_ranks_kind, path, &table, e)) == RF_OK)
		r->ops = ((const struct rf_ranks_plugin *)table)->ops;
	return rc;
}

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

/* Opens the plugin r->ops, which tells the rank and the number of ranks, and writes signs of life to `folder`
 * while it waits.  Errors: RF_EDEVICE: the plugin finds no launcher; RF_EBUSY: a rank does not come;
 * RF_EIO. */
static enum rf_code join_ranks(struct rf_ranks *r, const char *folder, struct rf_err *e)
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

/* Closes the plugin; gives up if that takes longer than --rank-timeout. */
static void leave_ranks(struct rf_ranks *r)
{
	const double began = rf_now();
	pthread_t thread;
	struct call *c = start_call(r, true, &thread);

	while (c && !atomic_load(&c->done) && rf_now() - began < r->timeout)
		pause_a_little();
	if (c && atomic_load(&c->done))
		end_call(c, thread);
}

/* ---- opening and closing -------------------------------------------------------------------- */

enum rf_code rf_ranks_open(struct rf_ranks *r, const char *folder, struct rf_err *e)
{
	enum rf_code rc;

	if (r->launch == RF_LAUNCH_NONE)
		return RF_OK;
	if ((rc = load_plugin(r, e)) != RF_OK || (rc = join_ranks(r, folder, e)) != RF_OK)
		return rc;
	/* after this vote, all ranks have written their signs */
	return rf_ranks_vote(r, &(struct rf_vote){ .what = "the beginning" }, RF_OK, NULL, 0, NULL, e);
}

void rf_ranks_close(struct rf_ranks *r)
{
	if (!r->ops)
		return;
	/* if a rank is missing, closing the plugin would wait for it, too */
	if (!r->parted || r->failed >= 0)
		leave_ranks(r);
	rf_signs_close(r);
	r->ops = NULL;
}
