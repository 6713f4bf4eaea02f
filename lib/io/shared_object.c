/* shared_object.c -- finds shared objects near the program, and loads them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/shared_object.h"

static bool exists_in(char path[RF_PLUGIN_PATH], const char *dir, const char *sub, const char *name)
{
	int n = snprintf(path, RF_PLUGIN_PATH, "%s%s%s", dir, sub, name);

	return n > 0 && n < RF_PLUGIN_PATH && access(path, R_OK) == 0;
}

/* Looks for the file in the folders near the program. */
static bool exists_near_program(const char *name, char path[RF_PLUGIN_PATH])
{
	char dir[4096];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);

	if (n <= 0)
		return false;
	dir[n] = 0;
	*(strrchr(dir, '/') + 1) = 0;
	return exists_in(path, dir, "../lib/rf-tools/", name) || exists_in(path, dir, "../build/", name);
}

enum rf_code rf_plugin_find(const struct rf_plugin_kind *k, const char **path, char found[RF_PLUGIN_PATH],
                            struct rf_err *e)
{
	*path = getenv(k->variable);
	if (*path && **path)
		return RF_OK;
	*path = found;
	if (exists_near_program(k->file, found))
		return RF_OK;
	return rf_fail(e, RF_EDEVICE,
	               "no %s plugin: %s is neither in ../lib/rf-tools nor in ../build, relative to the "
	               "programs (%s)",
	               k->what, k->file, k->otherwise);
}

enum rf_code rf_plugin_load(const struct rf_plugin_kind *k, const char *path, const void **table,
                            struct rf_err *e)
{
	void *object = dlopen(path, RTLD_NOW | (k->global ? RTLD_GLOBAL : RTLD_LOCAL));

	if (!object)
		return rf_fail(e, RF_EDEVICE, "the %s plugin cannot be loaded: %s", k->what, dlerror());
	if (!(*table = dlsym(object, k->table)) || *(const uint64_t *)*table != k->abi)
		return rf_plugin_differs(k, path, e);
	return RF_OK;
}

enum rf_code rf_plugin_differs(const struct rf_plugin_kind *k, const char *path, struct rf_err *e)
{
	return rf_fail(e, RF_EDEVICE,
	               "the %s plugin %s belongs to another version of rf-tools: install both from the same "
	               "version",
	               k->what, path);
}
