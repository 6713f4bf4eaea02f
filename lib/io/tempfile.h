/* tempfile.h -- files and folders that appear whole or not at all, as git writes its own: under a temporary
 * name in the same folder, synced, renamed, and the folder synced.
 *
 * One file: rf_tempfile_open(), write, commit.  A symbolic link is replaced, not followed; standard output, a
 * FIFO, a device and /dev/fd/N are written directly.  A signal that ends the program removes the temporary.
 * A folder: rf_tempfile_name() for the folder, rf_tempfile_create(), write, commit for each file in it, and
 * rf_tempfile_publish(); who makes it handles signals, and removes it after a failure. */
#ifndef RF_TEMPFILE_H
#define RF_TEMPFILE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A file that is being written. */
struct rf_tempfile {
	int fd;
	char at[4096];     /* what is there until the commit; "": written directly */
	char to[4096];     /* what that is renamed to; "": its name stays */
	char name[4096];   /* for messages: "<stdout>" or the path */
	int place;         /* among those that a signal removes; -1: none */
	uint64_t size;     /* bytes so far */
	void *hash;        /* of them; NULL: not hashed */
	const volatile sig_atomic_t *stop;
};

/* path NULL or "-": standard output.  stop (may be NULL) is looked at before each block and before the
 * renaming; set: RF_EIO "interrupted". */
enum rf_code rf_tempfile_open(struct rf_tempfile *f, const char *path, const volatile sig_atomic_t *stop,
                              struct rf_err *e);
/* A file of a temporary folder, under its own name, hashed.  path must not exist; nothing is followed. */
enum rf_code rf_tempfile_create(struct rf_tempfile *f, const char *path, const volatile sig_atomic_t *stop,
                                struct rf_err *e);
/* Writes all of it, whatever interrupts. */
enum rf_code rf_tempfile_write(struct rf_tempfile *f, const void *data, size_t n, struct rf_err *e);
/* Makes it appear; closed in any case, and gone if that fails.  hex (may be NULL) gets the XXH64 of what
 * rf_tempfile_create() began. */
enum rf_code rf_tempfile_commit(struct rf_tempfile *f, char hex[17], struct rf_err *e);
void rf_tempfile_abandon(struct rf_tempfile *f);

/* The name of a temporary sibling of path, on the same file system: DIR/.NAME.tmp-PID.  RF_EUSAGE for a path
 * that ends in no name. */
enum rf_code rf_tempfile_name(char temp[4096], const char *path, struct rf_err *e);
/* Renames temp to path, unless stop is set, and makes that last.  After a failure of the renaming
 * temp is gone. */
enum rf_code rf_tempfile_publish(const char *temp, const char *path, const volatile sig_atomic_t *stop,
                                 struct rf_err *e);

/* Signals that end a program unless it handles them; 0 is the last. */
extern const int rf_ending[];
/* Removes what rf_tempfile_open() began and is not finished, of at most so many files at a time.  May be
 * called in a handler. */
enum { RF_TEMPFILES = 4 };
void rf_tempfile_unlink(void);

#endif
