/* must.h -- for unit programs: calls that must succeed, and memory that must be allocated. */
#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

static struct rf_err err;

/* Ends the program with the message in err unless rc is RF_OK. */
static inline void must(enum rf_code rc)
{
	if (rc == RF_OK)
		return;
	fprintf(stderr, "Bail out! %s\n", err.msg);
	exit(2);
}

/* Allocates n elements of this size and one more, so that n may be 0.  All bytes are 0. */
static inline void *room(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);

	if (!p)
		exit(2);
	return p;
}

#endif
