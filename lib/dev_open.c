/* dev_open.c -- which devices there are.  Apart from dev.c, so that a program which opens none is not linked with their
 * libraries and starts without them. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "cpu_device.h"
#include "dev.h"
#include "plugin.h"

extern const struct rf_ops rf_ops_check;

static int cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static enum rf_code open_cuda(struct rf_dev *d, struct rf_err *e)
{
	enum rf_code rc = rf_plugin_open(&d->ops, e);

	return rc == RF_OK ? d->ops->open(d, e) : rc;
}

enum rf_code rf_dev_open(struct rf_dev *d, const char *name, int threads, enum rf_math math, const char **note, struct rf_err *e)
{
	*d = (struct rf_dev){ .threads = threads ? threads : cores(), .math = math };
	if (note)
		*note = NULL;
	if (!strcmp(name, "auto")) {
		static struct rf_err why; /* *note outlives this call */

		if (open_cuda(d, &why) == RF_OK) {
			snprintf(why.msg, sizeof why.msg, "the GPU it is (--device cpu takes the CPU)");
			if (note)
				*note = why.msg;
			return RF_OK;
		}
		rf_blame(&why, "the CPU it is");
		if (note)
			*note = why.msg;
		*d = (struct rf_dev){ .threads = d->threads, .math = math };
		d->ops = rf_cpu_ops();
	} else if (!strcmp(name, "cpu")) {
		d->ops = rf_cpu_ops();
	} else if (!strcmp(name, "check")) {
		d->ops = &rf_ops_check;
	} else if (!strcmp(name, "cuda")) {
		return open_cuda(d, e);
	} else {
		return rf_fail(e, RF_EUSAGE, "no device '%.40s' (there are cpu, cuda and auto)", name);
	}
	return d->ops->open(d, e);
}
