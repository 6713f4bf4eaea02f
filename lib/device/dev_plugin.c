/* dev_plugin.c -- finds and loads rf-cuda.so.  First the driver is looked for: loading cuBLAS takes longer
 * than starting one of these programs, and most machines have no GPU. */
#include <dlfcn.h>

#include "device/dev_plugin.h"
#include "io/shared_object.h"

static bool has_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (driver)
		dlclose(driver);
	return driver;
}

enum rf_code rf_plugin_open(const struct rf_ops **ops, bool *none, struct rf_err *e)
{
	static const struct rf_plugin_kind kind = {
		.what = "CUDA",
		.file = "rf-cuda.so",
		.variable = "RF_PLUGIN",
		.table = "rf_plugin",
		.otherwise = "make builds it if it finds the CUDA toolkit; or use --device cpu",
		.abi = RF_PLUGIN_ABI,
	};
	char found[RF_PLUGIN_PATH];
	const char *path;
	const void *table;
	enum rf_code rc = rf_plugin_find(&kind, &path, found, e);

	/* a user who names a file expects a device from it, even without a driver */
	*none = rc != RF_OK || (path == found && !has_driver());
	if (rc != RF_OK)
		return rc;
	if (*none)
		return rf_fail(e, RF_EDEVICE, "no NVIDIA driver (use --device cpu)");
	if ((rc = rf_plugin_load(&kind, path, &table, e)) == RF_OK)
		*ops = ((const struct rf_plugin *)table)->ops;
	return rc;
}
