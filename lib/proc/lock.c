/* lock.c -- a lock on a file that records its holder's process number and start time.  The start time
 * distinguishes the holder from a later process with the same number.
 *
 * A process number is valid only in one container and until the next boot.  So the number serves only for
 * messages.  The kernel keeps the lock itself, and releases the lock of a dead process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "io/file.h"
#include "proc/child.h"
#include "proc/lock.h"

enum { SPACE = 120, NOTE = 200 };

/* Writes the name of the space in which process numbers are valid: the system's boot and the container's
 * namespace. */
static void this_space(char space[SPACE])
{
	char boot[40] = "-", names[60];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : rf_file_read_some(fd, boot, sizeof boot - 1);

	if (fd >= 0)
		close(fd);
	boot[n > 0 ? n : 1] = 0;
	boot[strcspn(boot, "\n")] = 0;
	n = readlink("/proc/self/ns/pid", names, sizeof names - 1);
	names[n < 0 ? 0 : n] = 0;
	snprintf(space, SPACE, "%s,%s", boot, names);
}

/* Reads a note.  Returns false if the file has none. */
static bool read_note(int fd, long *pid, unsigned long long *began, char space[SPACE])
{
	char text[NOTE];
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	int end = 0;

	text[n < 0 ? 0 : n] = 0;
	return sscanf(text, "%ld %llu %119s%n", pid, began, space, &end) == 3 && !strcmp(text + end, "\n");
}

/* Returns the process recorded in the file if it lives (a zombie does not), else 0.  *away: the process is on
 * another machine or in another container. */
static pid_t noted_process(int fd, bool *away)
{
	unsigned long long noted, began;
	char space[SPACE], here[SPACE], state;
	long pid;

	*away = false;
	if (!read_note(fd, &pid, &noted, space))
		return 0;
	this_space(here);
	if ((*away = strcmp(space, here)))
		return 0;
	return rf_child_seen((pid_t)pid, &state, &began) && began == noted && state != 'Z' && state != 'X'
	               ? (pid_t)pid
	               : 0;
}

static bool write_note(int fd)
{
	unsigned long long began = 0;
	char text[NOTE], space[SPACE], state;
	int n;

	rf_child_seen(getpid(), &state, &began);
	this_space(space);
	n = snprintf(text, sizeof text, "%ld %llu %s\n", (long)getpid(), began, space);
	return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n;
}

enum rf_code rf_lock_try(struct rf_lock *l, const char *path, struct rf_err *e)
{
	enum rf_code rc;

	/* commands inherit the descriptor, so they hold the lock too */
	if (l->fd < 0 && (l->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	if ((rc = rf_file_lock(l->fd, path, e)) == RF_EBUSY)
		l->holder = noted_process(l->fd, &l->away);
	if (rc != RF_OK)
		return rc;
	l->held = true;
	write_note(l->fd); /* without the note the lock is still held */
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
