/* plugin.c -- finds and loads rf-cuda.so.  Whether there is a driver at all is asked first: cuBLAS alone
 * takes longer to load than a program of ours to start, and most machines have no GPU. */
#include <dlfcn.h>
#include <stdlib.h>

#include "device/plugin.h"
#include "io/plugin.h"

static const char name[] = "rf-cuda.so";

static bool has_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (driver)
		dlclose(driver);
	return driver;
}

enum rf_code rf_plugin_open(const struct rf_ops **ops, bool *none, struct rf_err *e)
{
	const char *path = getenv("RF_PLUGIN");
	const struct rf_plugin *plugin;
	char found[RF_PLUGIN_PATH];
	void *object;

	*none = false;
	if (!path || !*path) {
		path = found;
		*none = true;
		if (!rf_plugin_find(name, found))
			return rf_fail(e, RF_EDEVICE,
			               "no CUDA plugin: %s is neither in ../lib/rf-tools nor in ../build, "
			               "relative to the programs (make builds it if it finds the CUDA "
			               "toolkit; or use --device cpu)",
			               name);
		if (!has_driver())
			return rf_fail(e, RF_EDEVICE, "no NVIDIA driver (use --device cpu)");
		*none = false;
	}
	if (!(object = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
		return rf_fail(e, RF_EDEVICE, "the CUDA plugin cannot be loaded: %s", dlerror());
	if (!(plugin = dlsym(object, "rf_plugin")) || plugin->abi != RF_PLUGIN_ABI)
		return rf_fail(e, RF_EDEVICE,
		               "the CUDA plugin %s belongs to another version of rf-tools: install both "
		               "from the same version",
		               path);
	*ops = plugin->ops;
	return RF_OK;
}
