/* must.h -- for unit programs: calls that must succeed, and memory that must be there. */
#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

static struct rf_err err;

/* A call that put its failure into err. */
static inline void must(enum rf_code rc)
{
	if (rc == RF_OK)
		return;
	fprintf(stderr, "Bail out! %s\n", err.msg);
	exit(2);
}

/* n zeroed elements and one more, so that there is something to point to. */
static inline void *room(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);

	if (!p)
		exit(2);
	return p;
}

#endif
