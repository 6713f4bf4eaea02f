/* collective.c -- exchanges: the plugin begins each one, and this file waits for its end. */
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ranks/sign.h"

/* Gives up because the plugin failed.  The other ranks learn it from this rank's sign. */
static enum rf_code give_up_broken(struct rf_ranks *r, const char *why, struct rf_err *e)
{
	r->parted = true;
	rf_ranks_give_up(r);
	return rf_fail(e, RF_EBUSY, "the ranks cannot reach each other: %s", why);
}

/* Waits until the exchange has ended.  soon: all ranks have come already, so the wait is short. */
static enum rf_code wait_for_end(struct rf_ranks *r, bool soon,
                                 bool (*is_done)(void *arg, bool *done, char *why), void *arg,
                                 struct rf_err *e)
{
	const double began = rf_now();
	double looked = began, now, pause = 1e-5;
	char why[RF_RANKS_WHY];
	enum rf_code rc = RF_OK;
	bool done = false;

	while (rc == RF_OK) {
		if (!is_done(arg, &done, why))
			rc = give_up_broken(r, why, e);
		if (done || rc != RF_OK)
			break;
		rf_ranks_sign(r, rf_ranks_waits);
		if ((now = rf_now()) - looked > rf_signs_often(r)) {
			looked = now;
			if ((rc = rf_signs_look(r, began, e)) != RF_OK)
				r->parted = true;
		}
		if (soon || now - began < 1e-4) {
			sched_yield();
			continue;
		}
		nanosleep(&(struct timespec){ 0, (long)(pause * 1e9) }, NULL);
		pause = pause < 2e-3 ? pause * 1.5 : pause;
	}
	r->waited += soon ? 0 : rf_now() - began;
	return rc;
}

static bool plugin_done(void *arg, bool *done, char *why)
{
	return ((const struct rf_ranks *)arg)->ops->done(done, why);
}

/* Begins a collective call; fails if the ranks have parted. */
static enum rf_code begin_call(struct rf_ranks *r, struct rf_err *e)
{
	if (r->parted)
		return rf_fail(e, RF_EBUSY, "the ranks have parted");
	r->calls++;
	rf_ranks_arrive(r);
	return RF_OK;
}

enum rf_code rf_ranks_gather_parts(struct rf_ranks *r, const void *mine, const size_t *n, void *all,
                                   struct rf_err *e)
{
	char why[RF_RANKS_WHY];
	enum rf_code rc;
	size_t total = 0;
	int *bytes, *at;

	if (!r->ops) {
		memmove(all, mine, n[0]);
		return RF_OK;
	}
	if (!(bytes = malloc(2 * (size_t)r->ranks * sizeof *bytes)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	at = bytes + r->ranks;
	for (int i = 0; i < r->ranks; i++) {
		at[i] = (int)total;
		bytes[i] = (int)n[i];
		total += n[i];
	}
	rc = total > INT_MAX
	             ? rf_fail(e, RF_ENOMEM, "%d ranks have %zu bytes to tell each other", r->ranks, total)
	             : begin_call(r, e);
	if (rc == RF_OK && !r->ops->gather(mine, all, bytes, at, why))
		rc = give_up_broken(r, why, e);
	if (rc == RF_OK)
		rc = wait_for_end(r, false, plugin_done, r, e);
	free(bytes);
	return rc;
}

enum rf_code rf_ranks_gather(struct rf_ranks *r, const void *mine, size_t n, void *all, struct rf_err *e)
{
	size_t *each = malloc((size_t)r->ranks * sizeof *each);
	enum rf_code rc;

	if (!each)
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	for (int i = 0; i < r->ranks; i++)
		each[i] = n;
	rc = rf_ranks_gather_parts(r, mine, each, all, e);
	free(each);
	return rc;
}

enum rf_code rf_ranks_sum_parts(struct rf_ranks *r, const int64_t *x, const size_t *n, int64_t *mine,
                                struct rf_err *e)
{
	char why[RF_RANKS_WHY];
	enum rf_code rc;
	int *count;

	if (!r->ops) {
		memmove(mine, x, n[0] * sizeof *x);
		return RF_OK;
	}
	if (!(count = malloc((size_t)r->ranks * sizeof *count)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	for (int i = 0; i < r->ranks; i++)
		count[i] = (int)n[i];
	if ((rc = begin_call(r, e)) == RF_OK && !r->ops->sum_parts(x, mine, count, why))
		rc = give_up_broken(r, why, e);
	if (rc == RF_OK)
		rc = wait_for_end(r, true, plugin_done, r, e);
	free(count);
	return rc;
}

enum rf_code rf_ranks_await(struct rf_ranks *r, bool begun, bool (*done)(void *arg, bool *done, char *why),
                            void *arg, char why[RF_RANKS_WHY], struct rf_err *e)
{
	enum rf_code rc = begin_call(r, e);

	if (rc == RF_OK && !begun)
		rc = give_up_broken(r, why, e);
	return rc == RF_OK ? wait_for_end(r, true, done, arg, e) : rc;
}

enum rf_code rf_ranks_sum(struct rf_ranks *r, int64_t *x, size_t n, struct rf_err *e)
{
	const size_t most = (size_t)1 << 22; /* numbers in one exchange, to keep the plugin's memory small */
	char why[RF_RANKS_WHY];
	enum rf_code rc = RF_OK;

	for (size_t at = 0; r->ops && at < n && rc == RF_OK; at += most) {
		size_t some = n - at < most ? n - at : most;

		if ((rc = begin_call(r, e)) == RF_OK && !r->ops->sum(x + at, (int)some, why))
			rc = give_up_broken(r, why, e);
		if (rc == RF_OK)
			rc = wait_for_end(r, true, plugin_done, r, e);
	}
	return rc;
}
