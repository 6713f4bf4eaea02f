/* replace.c -- replaces a checkpoint by a new one at the same path, for trainers that begin each batch at the
 * same weights and keep nothing of it (--weights-out).
 *
 * A trainer may remove only files that a trainer wrote.  So each such checkpoint has a hidden file with a
 * list of its files, which runs and exports do not copy.  A folder without the list, or with other files,
 * belongs to someone else.  Other programs may add files at any time, so the old folder is checked again
 * after it has lost its name, before it is removed. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt_internal.h"
#include "io/file.h"
#include "io/steps.h"
#include "io/tempfile.h"

/* Returns whether a line of the list, after the first one, is this name. */
static bool is_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	while ((list = strchr(list, '\n'))) {
		list++;
		if (!strncmp(list, name, n) && list[n] == '\n')
			return true;
	}
	return false;
}

static enum rf_code refuse_folder(const char *dir, struct rf_err *e)
{
	return rf_fail(e, RF_EUSAGE,
	               "--weights-out: %s exists and is not a folder that --weights-out made: name another, "
	               "or remove it",
	               dir);
}

/* Checks that the path is free, or that its folder has a list and no other files.  *exists: whether there is
 * a folder. */
static enum rf_code check_folder(const char *dir, bool *exists, struct rf_err *e)
{
	char path[4096], q[100], *list;
	struct dirent **names;
	enum rf_code rc;
	struct stat st;
	size_t size;
	int n;

	*exists = false;
	if (lstat(dir, &st) < 0)
		return errno == ENOENT ? RF_OK : rf_fail(e, RF_EIO, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode) || (rc = rf_file_join(path, dir, RF_CKPT_LIST, e)) != RF_OK)
		return refuse_folder(dir, e);
	if ((rc = rf_file_read(path, RF_MOST_LIST, &list, &size, e)) != RF_OK)
		return rc == RF_ENOINPUT || rc == RF_EMODEL ? refuse_folder(dir, e) : rc;
	if ((n = scandir(dir, &names, NULL, alphasort)) < 0) {
		free(list);
		return rf_fail(e, RF_EIO, "%s: %s", dir, strerror(errno));
	}
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (rc == RF_OK && strcmp(name, ".") && strcmp(name, "..") && strcmp(name, RF_CKPT_LIST) &&
		    !is_listed(list, name))
			rc = rf_fail(e, RF_EUSAGE,
			             "--weights-out: %s is to be replaced, but has '%s', which "
			             "--weights-out did not write: move that away, or name another folder",
			             dir, rf_quote(q, sizeof q, name, strlen(name)));
		free(names[i]);
	}
	free(names);
	free(list);
	*exists = rc == RF_OK;
	return rc;
}

/* Copies the path without the slashes at its end, which would make the system follow a link. */
static enum rf_code strip_slashes(char out[4096], const char *dir, struct rf_err *e)
{
	size_t name, n = rf_file_split(dir, &name);

	if (!strcmp(dir, "-"))
		return rf_fail(e, RF_EUSAGE,
		               "--weights-out: '-' is not a folder: name one ('./-' for one named '-')");
	if (n >= 4096)
		return rf_fail(e, RF_EUSAGE, "--weights-out: %.100s...: the path is too long", dir);
	memcpy(out, dir, n);
	out[n] = 0;
	return RF_OK;
}

enum rf_code rf_ckpt_replaced_path(char to[4096], const char *path, struct rf_err *e)
{
	enum rf_code rc = strip_slashes(to, path, e);
	bool exists;

	return rc == RF_OK ? check_folder(to, &exists, e) : rc;
}

/* Returns whether a folder called `to` in `up` would be part of the run, or in one of its steps. */
static bool is_part_of_run(const char *to, const char *up, const char *run)
{
	const char *name = rf_file_name(to);

	if (!*run || !rf_file_inside(up, run))
		return false;
	return !rf_file_same(up, run) || rf_step_number(name) >= 0 || !strcmp(name, "latest") ||
	       !strcmp(name, "data") || !strcmp(name, "streams");
}

enum rf_code rf_ckpt_replaceable(const struct rf_ckpt *from, const char *dir, uint64_t want, struct rf_err *e)
{
	char to[4096], temp[4096], up[4096], run[4096] = "";
	uint64_t room;
	enum rf_code rc;
	bool exists;

	if ((rc = strip_slashes(to, dir, e)) != RF_OK || (rc = rf_tempfile_name(temp, to, e)) != RF_OK ||
	    (rc = rf_file_directory(up, to, e)) != RF_OK)
		return rc;
	snprintf(run, sizeof run, "%.*s", rf_run_of_step(from->dir), from->dir);
	if (rf_file_inside(up, from->dir) || rf_file_inside(from->dir, to) || is_part_of_run(to, up, run))
		return rf_fail(e, RF_EUSAGE,
		               "--weights-out: %s is, or is in, the model that -m names, which stays as it "
		               "is: write it elsewhere",
		               to);
	if ((rc = check_folder(to, &exists, e)) != RF_OK)
		return rc;
	if (access(up, W_OK | X_OK))
		return rf_fail(e, RF_EIO, "%s: create: %s", to, strerror(errno));
	if ((rc = rf_file_space(up, &room, e)) != RF_OK)
		return rc;
	if (room < want)
		return rf_fail(e, RF_EIO, "%s: a checkpoint needs %llu bytes, but only %llu are free", to,
		               (unsigned long long)want, (unsigned long long)room);
	return RF_OK;
}

/* Exchanges the folders temp and `to`, and removes the old one, which is then at temp, if no file was added
 * to it. */
static enum rf_code exchange_folders(const char *temp, const char *to, const volatile sig_atomic_t *stop,
                                     struct rf_err *e)
{
	struct rf_err why;
	enum rf_code rc;
	bool exists;

	if ((rc = rf_tempfile_exchange(temp, to, stop, e)) != RF_OK)
		return rc;
	if ((rc = check_folder(temp, &exists, &why)) != RF_OK)
		return rf_fail(e, rc,
		               "%s was written; the old folder was changed meanwhile and is kept as %s", to,
		               temp);
	if ((rc = rf_file_remove(temp, e)) != RF_OK)
		rf_blame(e, "%s was written, but the old folder was not removed", to);
	return rc;
}

enum rf_code rf_ckpt_replace(const char *temp, const char *to, const volatile sig_atomic_t *stop,
                             struct rf_err *e)
{
	enum rf_code rc;
	bool exists;

	if ((rc = check_folder(to, &exists, e)) != RF_OK) {
		rf_file_remove(temp, NULL);
		return rc;
	}
	return (exists ? exchange_folders : rf_tempfile_publish)(temp, to, stop, e);
}
