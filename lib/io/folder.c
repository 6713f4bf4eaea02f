/* folder.c -- streams of a folder, such as the batches of an evaluation. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"
#include "io/folder.h"

static int by_stream(const struct dirent *d)
{
	return *d->d_name != '.' && rf_file_ends(d->d_name, strlen(d->d_name), ".rf");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static enum rf_code add_path(struct rf_folder *f, const char *path, struct rf_err *e)
{
	if (!(f->path[f->n] = strdup(path)))
		return rf_fail(e, RF_ENOMEM, "out of memory (names of files)");
	f->n++;
	return RF_OK;
}

static enum rf_code reserve_paths(struct rf_folder *f, int n, struct rf_err *e)
{
	f->path = calloc((size_t)n, sizeof *f->path);
	return f->path ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory (names of files)");
}

static enum rf_code no_files(const char *path, struct rf_err *e)
{
	return rf_fail(e, RF_ENOINPUT, "%s: the folder has no file *.rf", path);
}

enum rf_code rf_folder_open(struct rf_folder *f, const char *path, struct rf_err *e)
{
	struct dirent **list;
	char name[4096];
	enum rf_code rc;
	struct stat st;
	int n;

	*f = (struct rf_folder){ 0 };
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return (rc = reserve_paths(f, 1, e)) == RF_OK ? add_path(f, path, e) : rc;
	if ((n = scandir(path, &list, by_stream, by_bytes)) < 0)
		return rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	rc = n ? reserve_paths(f, n, e) : no_files(path, e);
	for (int i = 0; i < n; i++) {
		/* the list keeps a link that leads nowhere: opening it reports the error */
		if (rc == RF_OK && (rc = rf_file_join(name, path, list[i]->d_name, e)) == RF_OK &&
		    (stat(name, &st) || S_ISREG(st.st_mode)))
			rc = add_path(f, name, e);
		free(list[i]);
	}
	free(list);
	return rc == RF_OK && !f->n ? no_files(path, e) : rc;
}

void rf_folder_free(struct rf_folder *f)
{
	for (int i = 0; i < f->n; i++)
		free(f->path[i]);
	free(f->path);
	*f = (struct rf_folder){ 0 };
}
