/* values.h -- finds the numbers of a record by their names, and measures the distance of numbers. */
#ifndef VALUES_H
#define VALUES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/stream.h"

/* Returns the largest absolute value of n numbers, but at least 1e-12. */
static inline double largest(const float *x, size_t n)
{
	double top = 1e-12;

	for (size_t i = 0; i < n; i++)
		top = fmax(top, fabs((double)x[i]));
	return top;
}

/* Returns the largest absolute difference, or NaN if a difference is NaN. */
static inline double difference(const float *have, const float *expect, size_t n)
{
	double worst = 0;

	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)have[i] - (double)expect[i]);
		worst = d > worst || isnan(d) ? d : worst;
	}
	return worst;
}

/* Returns the largest absolute difference, divided by the largest absolute value that is expected. */
static inline double distance(const float *have, const float *expect, size_t n)
{
	return difference(have, expect, n) / largest(expect, n);
}

/* Returns the numbers of a record with this name, which may begin with "rollout.", or NULL if the record has
 * none; and their count in *n.  An unknown name ends the program. */
static inline const float *value(const struct rf_record *r, const char *name, size_t *n)
{
	const struct rf_rollout *o = &r->rollout;
	const char *key = strncmp(name, "rollout.", 8) ? name : name + 8;
	size_t T = (size_t)r->T, rolls = (size_t)r->c * (size_t)(o->tokens ? o->n : 0), k = (size_t)o->k,
	       d = (size_t)o->d;
	const struct {
		const char *key;
		const float *p;
		size_t n;
	} have[] = {
		{ "entropy", r->entropy, T },
		{ "nll", r->nll, T - 1 },
		{ "correct", r->correct, T - 1 },
		{ "hidden", r->hidden, T * (size_t)r->d },
		{ "logits", r->logits, T * (size_t)r->N },
		{ "logp", o->logp, rolls * k },
		{ "logp_ref", o->logp_ref, rolls * k },
		{ "kept", o->kept, rolls * k },
		{ "h_pred", o->h_pred, rolls * k * d },
		{ "h_gt", o->h_gt, (size_t)r->c * k * d },
		{ "reward.cosine", rf_part(&r->reward, "cosine"), rolls },
		{ "reward.binary", rf_part(&r->reward, "binary"), rolls },
		{ "reward.edit", rf_part(&r->reward, "edit"), rolls },
		{ "advantage", r->advantage, rolls },
	};

	*n = 0;
	for (size_t i = 0; i < sizeof have / sizeof *have; i++)
		if (!strcmp(have[i].key, key)) {
			*n = have[i].n;
			return have[i].p;
		}
	printf("Bail out! no key '%s'\n", name);
	exit(2);
}

#endif
