/* lock.c -- a process is told from a later one of its number by the time at which it began. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "child.h"
#include "lock.h"

/* Who is noted in the file, if it lives: one that is dead and not yet buried does not. */
static pid_t living_holder(int fd)
{
	unsigned long long noted, began;
	char text[64], state;
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	long pid;

	text[n < 0 ? 0 : n] = 0;
	if (sscanf(text, "%ld %llu", &pid, &noted) != 2 || !rf_child_seen((pid_t)pid, &state, &began))
		return 0;
	return began == noted && state != 'Z' && state != 'X' ? (pid_t)pid : 0;
}

static void note_holder(int fd)
{
	unsigned long long began = 0;
	char text[64], state;
	int n;

	rf_child_seen(getpid(), &state, &began);
	n = snprintf(text, sizeof text, "%ld %llu\n", (long)getpid(), began);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < n)
		return; /* the lock holds without the note */
}

enum rf_code rf_lock_try(struct rf_lock *l, const char *path, struct rf_err *e)
{
	int locked;

	/* not closed in commands: they hold it too */
	if (l->fd < 0 && (l->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	do
		locked = flock(l->fd, LOCK_EX | LOCK_NB);
	while (locked < 0 && errno == EINTR);
	if (locked < 0 && errno != EWOULDBLOCK)
		return rf_fail(e, RF_EIO, "%s: lock: %s", path, strerror(errno));
	l->holder = locked < 0 ? living_holder(l->fd) : 0;
	if (locked < 0)
		return rf_fail(e, RF_EBUSY, "%s: another process holds it", path);
	l->held = true;
	note_holder(l->fd);
	return RF_OK;
}

void rf_lock_release(struct rf_lock *l)
{
	if (l->held && ftruncate(l->fd, 0) == 0)
		flock(l->fd, LOCK_UN);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}
