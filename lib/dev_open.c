/* dev_open.c -- which devices there are.  Apart from dev.c, so that a program which opens none is not linked with their
 * libraries and starts without them. */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>

#include "cpu_device.h"
#include "dev.h"

extern const struct rf_ops rf_ops_check;

static int cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

enum rf_code rf_dev_open(struct rf_dev *d, const char *name, int threads, enum rf_math math, const char **note, struct rf_err *e)
{
	*d = (struct rf_dev){ .threads = threads ? threads : cores(), .math = math };
	if (note)
		*note = NULL;
	if (!strcmp(name, "auto")) {
		if (note)
			*note = "this build has no CUDA: the CPU it is";
		d->ops = rf_cpu_ops();
	} else if (!strcmp(name, "cpu")) {
		d->ops = rf_cpu_ops();
	} else if (!strcmp(name, "check")) {
		d->ops = &rf_ops_check;
	} else if (!strcmp(name, "cuda")) {
		return rf_fail(e, RF_EDEVICE, "no device 'cuda': this build has no CUDA (use --device cpu)");
	} else {
		return rf_fail(e, RF_EUSAGE, "no device '%.40s' (there are cpu and auto)", name);
	}
	return d->ops->open(d, e);
}
