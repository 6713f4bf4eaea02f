/* tempfile.h -- writes files and directories that appear whole or not at all.  As git does, it writes them
 * under a temporary name in the same directory, syncs and renames them, and syncs that directory.
 *
 * A single file: rf_tempfile_open(), write, commit.  A symbolic link is replaced, not followed; standard
 * output, a FIFO, a device and /dev/fd/N are written directly.  A signal that ends the program removes the
 * temporary file.
 *
 * A directory: rf_tempfile_name() for the directory; rf_tempfile_create(), write, commit for each file in it;
 * and rf_tempfile_publish().  The caller makes the directory, handles signals and removes the directory after
 * a failure.
 *
 * SIGKILL leaves temporary files.  The next program that has the directory to itself removes them by
 * rf_tempfile_sweep(). */
#ifndef RF_TEMPFILE_H
#define RF_TEMPFILE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* A file that is being written. */
struct rf_tempfile {
	int fd;
	char at[4096];   /* the path that is written until the commit; "": the target is written directly */
	char to[4096];   /* the path that `at` is renamed to; "": it keeps its name */
	char name[4096]; /* for messages: "<stdout>" or the path */
	int place;       /* index in the table of files that a signal removes; -1: not in it */
	uint64_t size;   /* bytes written so far */
	void *hash;      /* XXH64 state over these bytes; NULL: not hashed */
	const volatile sig_atomic_t *stop; /* stop writing once it is set; may be NULL */
};

/* Begins a file; path NULL or "-": standard output.  *stop (stop may be NULL) is read before each block is
 * written and before the file is renamed; if it is set, RF_EIO "interrupted" is returned.  Errors: RF_EUSAGE:
 * path is a directory or ends in no name; RF_EIO. */
enum rf_code rf_tempfile_open(struct rf_tempfile *f, const char *path, const volatile sig_atomic_t *stop,
                              struct rf_err *e);
/* Begins a file of a temporary directory, under its final name; its bytes are hashed.  path must not exist,
 * not even as a link.  Errors: RF_EIO, RF_ENOMEM. */
enum rf_code rf_tempfile_create(struct rf_tempfile *f, const char *path, const volatile sig_atomic_t *stop,
                                struct rf_err *e);
/* Writes all n bytes, also if a signal interrupts.  Errors: RF_EIO. */
enum rf_code rf_tempfile_write(struct rf_tempfile *f, const void *data, size_t n, struct rf_err *e);
/* Syncs, closes and renames the file.  It is closed in any case; if it cannot be made to appear, the
 * temporary file is removed.  hex: gets the XXH64 of the bytes; it must be NULL unless rf_tempfile_create()
 * began the file. */
enum rf_code rf_tempfile_commit(struct rf_tempfile *f, char hex[17], struct rf_err *e);
/* Closes the file and removes it; bytes that were written directly stay. */
void rf_tempfile_abandon(struct rf_tempfile *f);
/* Writes a whole file, which survives a power loss.  Errors: those of the functions above; RF_ENOMEM:
 * text->failed is set. */
enum rf_code rf_tempfile_save(const struct rf_buf *text, const char *path, struct rf_err *e);

/* Writes to temp an unused temporary name in path's directory: DIR/.NAME.tmp-PID, where DIR and NAME are the
 * parts of path.  Errors: RF_EUSAGE: path ends in no name or is too long; RF_EIO: there are too many
 * leftover names. */
enum rf_code rf_tempfile_name(char temp[4096], const char *path, struct rf_err *e);
/* Renames temp to path and syncs path's directory.  If *stop is set or the renaming fails, temp is removed
 * instead.  Errors: RF_EIO. */
enum rf_code rf_tempfile_publish(const char *temp, const char *path, const volatile sig_atomic_t *stop,
                                 struct rf_err *e);

/* Does the same if path exists: temp and path are exchanged, so the old content is then at temp.  On a file
 * system that cannot exchange them atomically they are renamed one after the other, and path is missing in
 * between. */
enum rf_code rf_tempfile_exchange(const char *temp, const char *path, const volatile sig_atomic_t *stop,
                                  struct rf_err *e);

/* Removes the entries of dir that have a temporary name and for which ours(name) is true; name is the entry's
 * name after its first dot, NAME.tmp-PID.  ours NULL: all of them.  The caller must know that no process
 * writes these entries.  Errors: RF_EIO. */
enum rf_code rf_tempfile_sweep(const char *dir, bool (*ours)(const char *name), struct rf_err *e);

/* Signals that end a program unless it handles them; the list ends with 0. */
extern const int rf_ending[];
/* Removes the temporary files that rf_tempfile_open() began and that are not committed yet; it knows
 * RF_TEMPFILES of them at most.  A signal handler may call it. */
enum { RF_TEMPFILES = 4 };
void rf_tempfile_unlink(void);

#endif
