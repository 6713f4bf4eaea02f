/* fault.c -- a library for LD_PRELOAD that injects one fault: it counts the calls by which the program
 * changes files, beginning with the first call that makes or locks something.
 *
 *     RF_FAULT_LOG=FILE     appends the name of each call
 *     RF_FAULT=kill:N       SIGKILL instead of call N, counted from 1; the first half of a write of several
 *                           pages is still done
 *     RF_FAULT=term:N       SIGTERM before call N
 *     RF_FAULT=make:N       before call N the file RF_FAULT_FILE appears, as if another program made it
 *     RF_FAULT_FREE=BYTES   statvfs reports this much free space; "uncounted": statvfs reports a file system
 *                           that does not count blocks
 *     RF_FAULT_EXCHANGE=1   two names cannot be exchanged, as in some network file systems
 *     RF_FAULT_OVERLAY=1    folders cannot be renamed, as those of an overlay's lower layer
 * */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long calls;

static void log_call(const char *name)
{
	const char *path = getenv("RF_FAULT_LOG");
	char line[40];
	int fd, n = snprintf(line, sizeof line, "%s\n", name);

	if (!path || (fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0666)) < 0)
		return;
	if (syscall(SYS_write, fd, line, n) < 0)
		abort();
	syscall(SYS_close, fd);
}

/* Makes RF_FAULT_FILE like another program would.  If its folder is missing at the moment, a later call makes
 * the file. */
static void make_file(void)
{
	const char *path = getenv("RF_FAULT_FILE");
	static int made;
	int fd;

	if (made || (fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0666)) < 0)
		return;
	syscall(SYS_close, fd);
	made = 1;
}

/* Counts a call; returns whether the program is to be killed at this call. */
static int count_call(const char *name, int begins)
{
	const char *fault = getenv("RF_FAULT");
	long n;

	if (!begins && !calls)
		return 0;
	n = ++calls;
	log_call(name);
	if (fault && !strncmp(fault, "make:", 5) && n >= atol(fault + 5))
		make_file();
	if (!fault || atol(fault + 5) != n)
		return 0;
	if (!strncmp(fault, "term:", 5))
		raise(SIGTERM);
	return !strncmp(fault, "kill:", 5);
}

static void kill_if_due(const char *name, int begins)
{
	if (count_call(name, begins))
		raise(SIGKILL);
}

ssize_t write(int fd, const void *p, size_t n)
{
	if (count_call("write", 0)) {
		if (n > 8192)
			syscall(SYS_write, fd, p, n / 2);
		raise(SIGKILL);
	}
	return syscall(SYS_write, fd, p, n);
}

static int open_mode(int dir, const char *path, int flags, va_list ap)
{
	int mode = 0;

	if (flags & O_CREAT) {
		mode = va_arg(ap, int);
		kill_if_due("create", 1);
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_mode(AT_FDCWD, path, flags, ap);
	va_end(ap);
	return fd;
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_mode(dir, path, flags, ap);
	va_end(ap);
	return fd;
}

int close(int fd)
{
	kill_if_due("close", 0);
	return (int)syscall(SYS_close, fd);
}

int fsync(int fd)
{
	kill_if_due("fsync", 0);
	return (int)syscall(SYS_fsync, fd);
}

int flock(int fd, int how)
{
	kill_if_due("flock", 1);
	return (int)syscall(SYS_flock, fd, how);
}

int mkdir(const char *path, mode_t mode)
{
	kill_if_due("mkdir", 1);
	return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int symlink(const char *to, const char *path)
{
	kill_if_due("symlink", 1);
	return (int)syscall(SYS_symlinkat, to, AT_FDCWD, path);
}

int rename(const char *from, const char *to)
{
	struct stat st;

	kill_if_due("rename", 0);
	if (getenv("RF_FAULT_OVERLAY") && !strstr(from, "tmp-") && stat(from, &st) == 0 &&
	    S_ISDIR(st.st_mode)) {
		errno = EXDEV;
		return -1;
	}
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned how)
{
	kill_if_due("renameat2", 0);
	if (getenv("RF_FAULT_EXCHANGE")) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, how);
}

int unlink(const char *path)
{
	kill_if_due("unlink", 0);
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
	kill_if_due("unlinkat", 0);
	return (int)syscall(SYS_unlinkat, dir, path, flags);
}

int statvfs(const char *path, struct statvfs *s)
{
	int (*real)(const char *, struct statvfs *);
	const char *room = getenv("RF_FAULT_FREE");
	int rc;

	*(void **)&real = dlsym(RTLD_NEXT, "statvfs");
	rc = real(path, s);
	if (!rc && room) {
		s->f_bavail = (fsblkcnt_t)atoll(room);
		s->f_frsize = 1;
		if (!strcmp(room, "uncounted"))
			s->f_blocks = 0;
	}
	return rc;
}
