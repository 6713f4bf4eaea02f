/* disk.h -- files as a checkpoint needs them: read whole within a limit, written new, counted, hashed and
 * synced; and what those who read and write otherwise need of that. */
#ifndef RF_DISK_H
#define RF_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The path's file, which must be regular, opened for reading (links are followed, nothing is waited for):
 * RF_ENOINPUT where there is none, RF_EMODEL for another kind of thing. */
enum rf_code rf_disk_open(const char *path, int *fd, uint64_t *size, struct rf_err *e);
/* Exactly n bytes from offset `at`; a file that has become shorter is RF_EIO. */
enum rf_code rf_disk_pread(int fd, void *to, size_t n, uint64_t at, struct rf_err *e);
/* The whole file of at most `limit` bytes, malloc'd into *text with a NUL behind it; more is RF_EMODEL. */
enum rf_code rf_disk_read(const char *path, size_t limit, char **text, size_t *n, struct rf_err *e);

/* XXH64 (seed 0) as 16 hex digits: of n bytes, of a whole file. */
void rf_disk_hash(const void *p, size_t n, char hex[17]);
enum rf_code rf_disk_hash_file(const char *path, char hex[17], struct rf_err *e);

/* read(2) and fsync(2) that go on after a signal; the first waits where a descriptor does not block. */
ssize_t rf_disk_read_some(int fd, void *to, size_t n);
int rf_disk_sync(int fd);
/* Makes the entries of a directory last, and those of the directory that path is in. */
enum rf_code rf_disk_sync_dir(const char *path, struct rf_err *e);
enum rf_code rf_disk_sync_parent(const char *path, struct rf_err *e);
/* Removes a file, a link or a directory with what is in it; links inside are not followed.  Nothing
 * there: fine. */
enum rf_code rf_disk_remove(const char *path, struct rf_err *e);

/* Bytes free for us where path is; UINT64_MAX where its file system does not count them. */
enum rf_code rf_disk_free(const char *path, uint64_t *bytes, struct rf_err *e);
/* Whether a file could appear at path in the place of what is there, or be appended to, as far as looking can
 * tell; "-" is standard output.  What is there and no regular file is written directly. */
enum rf_code rf_disk_can_write(const char *path, bool append, struct rf_err *e);
/* Appends lines that then outlive a power loss, in one write, so that two programs that share the file do not
 * mix.  Of lines that are cut short nothing stays, or the next would be glued to it. */
enum rf_code rf_disk_append(const char *path, const void *data, size_t n, struct rf_err *e);
/* Locks an open file by flock(2), without waiting: RF_EBUSY. */
enum rf_code rf_disk_lock(int fd, const char *path, struct rf_err *e);
/* Whether both are there and the same file. */
bool rf_disk_same(const char *a, const char *b);
/* Whether path is the folder or lies in it, behind all links.  Both must be there. */
bool rf_disk_inside(const char *path, const char *folder);
/* The same, and how one goes there from the folder: "" or "/a/b". */
bool rf_disk_way(char out[4096], const char *path, const char *folder);

/* The length of path without slashes at its end, and where its last name begins. */
size_t rf_disk_split(const char *path, size_t *name);
/* What is behind the last slash of path, in it. */
const char *rf_disk_name(const char *path);
/* The folder that path's last name is in, with its slash; "." where path has none. */
enum rf_code rf_disk_folder(char out[4096], const char *path, struct rf_err *e);
/* A name that stays in its directory: no '/', not hidden, not like an option. */
bool rf_disk_plain(const char *name);
/* dir/name into out (4096 bytes). */
enum rf_code rf_disk_join(char out[4096], const char *dir, const char *name, struct rf_err *e);

#endif
