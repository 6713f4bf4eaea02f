/* clock.c -- the one place that reads a clock. */
#include <time.h>

#include "base/clock.h"

double rf_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
