/* dev_open.c -- opens a device by its name.  This is not in dev.c, so that a program that opens no device is
 * not linked with the devices' libraries and starts without them. */
#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "device/dev.h"
#include "device/dev_plugin.h"

static enum rf_code open_cpu(struct rf_dev *d, bool check, struct rf_err *e)
{
	enum rf_code rc = rf_cpu_isa(NULL, e);

	if (rc != RF_OK)
		return rc;
	d->ops = check ? &rf_ops_check : rf_cpu_ops();
	if (d->math == RF_MATH_AUTO)
		d->math = RF_MATH_F32;
	return d->ops->open(d, e);
}

static enum rf_code open_cuda(struct rf_dev *d, bool *none, struct rf_err *e)
{
	enum rf_code rc = rf_plugin_open(&d->ops, none, e);

	return rc == RF_OK ? d->ops->open(d, e) : rc;
}

/* Opens a GPU, or the CPU if there is none.  asked: the user named "auto". */
static enum rf_code open_best(struct rf_dev *d, bool asked, const char **note, struct rf_err *e)
{
	static char said[sizeof e->msg + 40]; /* *note outlives this call */
	const struct rf_dev as_it_was = *d;
	struct rf_err why;
	bool none;

	if (open_cuda(d, &none, &why) == RF_OK) {
		snprintf(said, sizeof said, "device cuda: %s", d->model);
		none = true;
	} else {
		snprintf(said, sizeof said, "device cpu: %s", why.msg);
		*d = as_it_was;
		if (open_cpu(d, false, e) != RF_OK)
			return e->code;
	}
	if (note && (asked || !none))
		*note = said;
	return RF_OK;
}

enum rf_code rf_dev_open(struct rf_dev *d, const char *name, int threads, enum rf_math math,
                         const char **note, struct rf_err *e)
{
	bool none;

	*d = (struct rf_dev){ .threads = threads ? threads : rf_cores(), .math = math };
	if (note)
		*note = NULL;
	if (!name || !strcmp(name, "auto"))
		return open_best(d, name, note, e);
	if (!strcmp(name, "cuda"))
		return open_cuda(d, &none, e);
	if (!strcmp(name, "cpu"))
		return open_cpu(d, false, e);
	if (!strcmp(name, "check"))
		return open_cpu(d, true, e);
	return rf_fail(e, RF_EUSAGE, "unknown device '%.40s': use cpu, cuda or auto", name);
}
