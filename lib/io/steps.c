/* steps.c -- the steps of a run are directories.  One that has the name of a step is complete, so a listing
 * is enough to know which steps exist; the link `latest` is only the quick way to the newest. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/steps.h"

void rf_step_name(char name[32], int64_t step) { snprintf(name, 32, "step-%06lld", (long long)step); }

int64_t rf_step_number(const char *name)
{
	char again[32];
	long long n;

	if (strncmp(name, "step-", 5) || strlen(name) > 20 || name[5] < '0' || name[5] > '9')
		return -1;
	n = strtoll(name + 5, NULL, 10);
	rf_step_name(again, n);
	return strcmp(name, again) ? -1 : n;
}

int rf_run_of_step(const char *path)
{
	char last[32];
	size_t name, n = rf_file_split(path, &name);

	snprintf(last, sizeof last, "%.*s", (int)(n - name), path + name);
	return name > 1 && (!strcmp(last, "latest") || rf_step_number(last) >= 0) ? (int)name - 1 : 0;
}

static int oldest_first(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

enum rf_code rf_step_list(const char *path, int64_t **steps, int *n, struct rf_err *e)
{
	const struct dirent *d;
	enum rf_code rc = RF_OK;
	size_t cap = 0;
	DIR *dir = opendir(path);

	*steps = NULL;
	*n = 0;
	if (!dir)
		return rf_fail(e, errno == ENOENT || errno == ENOTDIR ? RF_ENOINPUT : RF_EIO, "%s: %s", path,
		               strerror(errno));
	for (errno = 0; rc == RF_OK && (d = readdir(dir)); errno = 0) {
		int64_t step = rf_step_number(d->d_name);

		if (step >= 0 && !rf_grow(steps, (size_t)*n, &cap, sizeof **steps))
			rc = rf_fail(e, RF_ENOMEM, "%s: out of memory", path);
		else if (step >= 0)
			(*steps)[(*n)++] = step;
	}
	if (rc == RF_OK && errno)
		rc = rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	closedir(dir);
	if (*n)
		qsort(*steps, (size_t)*n, sizeof **steps, oldest_first);
	return rc;
}

enum rf_code rf_step_newest(const char *path, int64_t *newest, struct rf_err *e)
{
	enum rf_code rc;
	int64_t *steps;
	int n;

	if ((rc = rf_step_list(path, &steps, &n, e)) == RF_OK && !n)
		rc = rf_fail(e, RF_ENOINPUT,
		             "%s: not a run: it has no step; start a run with: rf-init --from CHECKPOINT %s",
		             path, path);
	if (rc == RF_OK)
		*newest = steps[n - 1];
	free(steps);
	return rc;
}

/* Reads the name that the link `latest` points to; "" if the link does not exist. */
static enum rf_code read_latest(const char *run, char name[64], struct rf_err *e)
{
	char file[4096], q[80];
	enum rf_code rc = rf_file_join(file, run, "latest", e);
	ssize_t n;

	*name = 0;
	if (rc != RF_OK)
		return rc;
	if ((n = readlink(file, name, 63)) < 0) {
		if (errno == EINVAL)
			rc = rf_fail(e, RF_EMODEL,
			             "%s: not a symbolic link: the run was copied without its links (cp -a "
			             "keeps them); remove it, and the newest step is used",
			             file);
		return rc;
	}
	name[n] = 0;
	if (rf_step_number(name) < 0)
		return rf_fail(e, RF_EMODEL, "%s: the link points to '%s', which is not the name of a step",
		               file, rf_quote(q, sizeof q, name, strlen(name)));
	return RF_OK;
}

enum rf_code rf_step_latest(const char *run, char dir[4096], char lost[RF_STEP_LOST], struct rf_err *e)
{
	char name[64], again[64] = "", newest[32];
	enum rf_code rc;
	struct stat st;
	int64_t step;

	*lost = 0;
	for (;; strcpy(again, name)) {
		if ((rc = read_latest(run, name, e)) != RF_OK)
			return rc;
		if (*name &&
		    ((rc = rf_file_join(dir, run, name, e)) != RF_OK || !stat(dir, &st) || errno != ENOENT))
			return rc;
		/* a trainer may have committed a step and removed this one since we read latest */
		if (!strcmp(name, again))
			break;
	}
	if (access(run, R_OK | X_OK))
		return rf_fail(e, RF_EIO, "%s: %s", run, strerror(errno));
	if (rf_step_newest(run, &step, NULL) != RF_OK)
		return rf_fail(e, RF_ENOINPUT,
		               *name ? "%s: neither a checkpoint (no config.json) nor a run (no step)"
		                     : "%s: neither a checkpoint (no config.json) nor a run (no latest)",
		               run);
	rf_step_name(newest, step);
	if (*name)
		snprintf(lost, RF_STEP_LOST,
		         "latest points to %s, which does not exist: the newest step is %s", name, newest);
	else
		snprintf(lost, RF_STEP_LOST, "the link latest is missing: the newest step is %s", newest);
	return rf_file_join(dir, run, newest, e);
}
