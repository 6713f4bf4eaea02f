/* cores.c -- counts the processors that this process may use. */
#define _GNU_SOURCE
#include <sched.h>

#include "base/cores.h"

int rf_cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}
