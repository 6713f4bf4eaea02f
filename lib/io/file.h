/* file.h -- file operations: bounded reading, hashing, syncing, removing, appending, locking; and paths. */
#ifndef RF_FILE_H
#define RF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Limits, in bytes, for files that a program reads whole from a folder which may come from elsewhere. */
enum {
	RF_MOST_CONFIG = 1 << 20,     /* config.json, generation_config.json */
	RF_MOST_TOKENIZER = 64 << 20, /* a tokenizer's file, packed and unpacked, and its special tokens */
	RF_MOST_MANIFEST = 16 << 20,  /* a list of a checkpoint's files */
	RF_MOST_HEADER = 16 << 20,    /* the index of a checkpoint's shards, and the header of a shard */
	RF_MOST_STATE = 1 << 20,      /* state.json */
	RF_MOST_CARD = 1 << 20,       /* README.md */
	RF_MOST_LIST = 1 << 20,       /* the list of files that a write replaces */
	RF_MOST_WORDS = 64 << 20,     /* the words of a run (words.h) */
};

/* Opens a regular file for reading.  Links are followed; a FIFO does not block.  Errors: RF_ENOINPUT: there
 * is no entry of this name; RF_EMODEL: the entry is not a regular file, or a symbolic link that leads to no
 * file or to itself; RF_EIO: anything else. */
enum rf_code rf_file_open(const char *path, int *fd, uint64_t *size, struct rf_err *e);
/* Checks, without reading it, that a file can be opened as by rf_file_open() and has at most `limit` bytes.
 * Errors: those of rf_file_open(); RF_EMODEL: the file is longer
 * than the limit. */
enum rf_code rf_file_check(const char *path, uint64_t limit, struct rf_err *e);
/* Reads exactly n bytes from offset `at`.  Errors: RF_EIO, also if the file ends before. */
enum rf_code rf_file_pread(int fd, void *to, size_t n, uint64_t at, struct rf_err *e);
/* Writes all n bytes at offset `at`.  Errors: RF_EIO. */
enum rf_code rf_file_pwrite(int fd, const void *from, size_t n, uint64_t at, struct rf_err *e);
/* Reads a whole file of at most `limit` bytes into *text, malloc'd and with a NUL after its *n bytes.
 * Errors: those of rf_file_open() and rf_file_pread(); RF_EMODEL: the file is longer than limit;
 * RF_ENOMEM. */
enum rf_code rf_file_read(const char *path, size_t limit, char **text, size_t *n, struct rf_err *e);

/* Looks for a file that may be missing.  *exists is false only if there is no entry of this name, so that a
 * caller which goes on without the file does so because of its absence alone.  Errors: RF_EMODEL: the entry
 * is a symbolic link that leads to no file, or not a regular file; RF_EIO: the folder cannot be searched. */
enum rf_code rf_file_optional(const char *path, bool *exists, struct rf_err *e);
/* Reads a file that may be missing as rf_file_read() does; *text is NULL only if there is no entry of this
 * name.  Errors: RF_EMODEL: the entry exists and cannot be read, or is longer than limit; those of
 * rf_file_optional(); RF_ENOMEM. */
enum rf_code rf_file_read_optional(const char *path, size_t limit, char **text, size_t *n, struct rf_err *e);

/* Computes XXH64 (seed 0) of n bytes, as 16 hex digits. */
void rf_file_hash(const void *p, size_t n, char hex[17]);
/* Computes the same of a whole file.  Errors: those of rf_file_open(); RF_EMODEL: the file is longer than
 * `limit` bytes. */
enum rf_code rf_file_hash_file(const char *path, uint64_t limit, char hex[17], struct rf_err *e);

/* read(2) and fsync(2), repeated after a signal.  If fd does not block, rf_file_read_some() waits for
 * data. */
ssize_t rf_file_read_some(int fd, void *to, size_t n);
int rf_file_sync(int fd);
/* Syncs a directory, so that its entries survive a power loss: path itself, or the directory that path is
 * in. */
enum rf_code rf_file_sync_dir(const char *path, struct rf_err *e);
enum rf_code rf_file_sync_parent(const char *path, struct rf_err *e);
/* Makes a folder, and the folders of its path that are missing.  Errors: RF_EIO. */
enum rf_code rf_file_make_folders(const char *path, struct rf_err *e);
/* Removes a file, a link, or a directory with its contents, at most 4 levels deep.  Links are not followed.
 * A missing entry is not an error. */
enum rf_code rf_file_remove(const char *path, struct rf_err *e);

/* Stores in *bytes the space that is available to this user on path's file system; UINT64_MAX if the file
 * system does not count its blocks. */
enum rf_code rf_file_space(const char *path, uint64_t *bytes, struct rf_err *e);
/* Checks, without writing, whether a file at path could be created or replaced or, with `append`, appended
 * to.  A later write can still fail.  "-" is standard output, which always passes.  An entry that is not a
 * regular file, such as a FIFO, is written directly, so it must be writable itself.  Errors: RF_EIO. */
enum rf_code rf_file_can_write(const char *path, bool append, struct rf_err *e);
/* Appends lines to a file, which is created if needed, and syncs it.  The lines are given to one write(2), so
 * that two programs sharing the file do not interleave theirs.  A last line without a newline is ended first:
 * if it is JSON that was cut or ends in NULs, it is removed, whatever its length, otherwise it gets its
 * newline.  If the write fails midway, its bytes are cut off again, because the next line would be glued to
 * them, unless another program has appended meanwhile.  Errors: RF_EIO, RF_ENOMEM. */
enum rf_code rf_file_append(const char *path, const void *data, size_t n, struct rf_err *e);
/* Locks an open file with flock(2), without waiting.  Errors: RF_EBUSY: another process holds the lock;
 * RF_EIO. */
enum rf_code rf_file_lock(int fd, const char *path, struct rf_err *e);
/* Returns whether a and b both exist and are the same file. */
bool rf_file_same(const char *a, const char *b);
/* Returns whether path is dir or lies in it, with all links resolved; false if one of them does not exist. */
bool rf_file_inside(const char *path, const char *dir);
/* Returns the same as rf_file_inside().  If it is true, out is the path from dir: "" or "/a/b". */
bool rf_file_way(char out[4096], const char *path, const char *dir);

/* Returns the length of path without the slashes at its end.  *name: the offset at which its last name
 * begins. */
size_t rf_file_split(const char *path, size_t *name);
/* Returns the part of path after its last slash, as a pointer into path. */
const char *rf_file_name(const char *path);
/* Writes to out the directory that contains path's last name, with the slash at its end; "." if path names no
 * directory.  Errors: RF_EIO: the result is too long. */
enum rf_code rf_file_directory(char out[4096], const char *path, struct rf_err *e);
/* Returns whether the n bytes of a path end in `end`. */
bool rf_file_ends(const char *path, size_t n, const char *end);
/* Returns whether name is a plain file name: 1 to 255 bytes, no '/', and no '.' or '-' at its beginning. */
bool rf_file_plain(const char *name);
/* Writes dir/name to out.  Errors: RF_EIO: the result is too long. */
enum rf_code rf_file_join(char out[4096], const char *dir, const char *name, struct rf_err *e);

#endif
