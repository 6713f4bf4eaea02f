#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/plugin.h"

static bool is_there(char path[RF_PLUGIN_PATH], const char *dir, const char *sub, const char *name)
{
	int n = snprintf(path, RF_PLUGIN_PATH, "%s%s%s", dir, sub, name);

	return n > 0 && n < RF_PLUGIN_PATH && access(path, R_OK) == 0;
}

bool rf_plugin_find(const char *name, char path[RF_PLUGIN_PATH])
{
	char dir[4096];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);

	if (n <= 0)
		return false;
	dir[n] = 0;
	*(strrchr(dir, '/') + 1) = 0;
	return is_there(path, dir, "../lib/rf-tools/", name) || is_there(path, dir, "../build/", name);
}
