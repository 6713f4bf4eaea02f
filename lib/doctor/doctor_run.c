/* doctor_run.c -- a run: its file system, its room, its steps and its lock.  The run is only read, except for
 * one temporary file, on which the lock is tested. */
#define _GNU_SOURCE /* mkostemp */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ckpt/ckpt.h"
#include "doctor/findings.h"
#include "io/file.h"
#include "io/steps.h"

enum { MOST_PATH = 4096, MOST_TYPE = 60 };

/* Facts about the path that the user named. */
struct patient {
	const char *path;
	bool is_run, is_checkpoint;
	char type[MOST_TYPE]; /* of its file system; "": unknown */
	char newest[MOST_PATH];
};

/* ---- what it is ----------------------------------------------------------------------------- */

static bool has_entry(const char *folder, const char *name)
{
	char path[MOST_PATH];

	return rf_file_join(path, folder, name, NULL) == RF_OK && access(path, F_OK) == 0;
}

/* Tells whether the path is a run or a checkpoint.  Returns false if it is neither. */
static bool tell_kind(const struct rf_findings *f, struct patient *p)
{
	struct stat st;
	int64_t *steps = NULL;
	struct rf_err e;
	int n = 0;

	if (stat(p->path, &st)) {
		rf_found(f, "kind", "%s", strerror(errno));
		rf_found_wrong(f,
		               errno == ENOENT ? "%s: %s (begin a run with: rf-init --from CHECKPOINT RUN)"
		                               : "%s: %s (check its path and permissions)",
		               p->path, strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode)) {
		rf_found(f, "kind", "not a folder");
		rf_found_wrong(f, "%s is not a folder, and a run is one (name the run)", p->path);
		return false;
	}
	if (access(p->path, R_OK | X_OK)) {
		rf_found(f, "kind", "a folder that cannot be read");
		rf_found_wrong(f, "%s cannot be read: %s (ask its owner for chmod a+rX)", p->path,
		               strerror(errno));
		return false;
	}
	p->is_checkpoint = has_entry(p->path, "config.json");
	if (rf_step_list(p->path, &steps, &n, &e) != RF_OK)
		rf_found_wrong(f, "%s (check the file system)", e.msg);
	p->is_run = !p->is_checkpoint && n > 0;
	if (p->is_run)
		rf_found(f, "kind", "a run with %d step%s, the newest %lld", n, n == 1 ? "" : "s",
		         (long long)steps[n - 1]);
	else if (p->is_checkpoint)
		rf_found(f, "kind", rf_run_of_step(p->path) ? "a step of a run" : "a checkpoint");
	else
		rf_found(f, "kind", "neither a run nor a checkpoint");
	if (!p->is_run && !p->is_checkpoint)
		rf_found_wrong(
			f,
			"%s is neither a run nor a checkpoint: it has no step-* and no config.json (name "
			"another folder)",
			p->path);
	free(steps);
	return p->is_run || p->is_checkpoint;
}

static void tell_latest(const struct rf_findings *f, struct patient *p)
{
	char lost[RF_STEP_LOST];
	struct rf_err e;

	snprintf(p->newest, sizeof p->newest, "%s", p->path);
	if (!p->is_run)
		return;
	if (rf_step_latest(p->path, p->newest, lost, &e) != RF_OK) {
		rf_found(f, "latest", "bad");
		rf_found_wrong(f, "%s", e.msg);
		*p->newest = 0;
		return;
	}
	if (*lost)
		rf_found_wrong(f, "%s: %s (the next trainer repairs the link)", p->path, lost);
	rf_found(f, "latest", *lost ? "%s" : "points to %s", *lost ? lost : rf_file_name(p->newest));
	if (!has_entry(p->newest, "state.json"))
		rf_found_wrong(f,
		               "%s is damaged: it has no state.json (remove it to continue from the step "
		               "before)",
		               p->newest);
}

/* ---- the file system ------------------------------------------------------------------------ */

/* Replaces the escapes \040 of /proc/self/mountinfo. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (*s == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = 0;
}

/* Finds the file system that the path is on: the longest mount point that it begins with, and of several the
 * last. */
static bool find_mount(const struct rf_findings *f, const char *path, char point[MOST_PATH],
                       char type[MOST_TYPE])
{
	size_t longest = 0;
	struct rf_buf text;
	char *rest, *line;
	bool found = false;

	if (rf_found_file(f, "/proc/self/mountinfo", &text))
		for (rest = (char *)text.p; rest && (line = strsep(&rest, "\n"));) {
			char at[MOST_PATH], *dash = strstr(line, " - ");
			size_t n;

			if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", at) != 1)
				continue;
			unescape(at);
			n = strcmp(at, "/") ? strlen(at) : 0;
			if (n < longest || strncmp(path, at, n) || (path[n] != '/' && path[n]))
				continue;
			longest = n;
			snprintf(point, MOST_PATH, "%s", at);
			snprintf(type, MOST_TYPE, "%.*s", (int)strcspn(dash + 3, " "), dash + 3);
			found = true;
		}
	rf_buf_free(&text);
	return found;
}

static bool is_network(const char *type)
{
	static const char *const types[] = { "nfs",    "lustre", "cifs", "smb",  "9p",    "ceph",
		                             "beegfs", "gpfs",   "afs",  "fuse", "orange" };

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strncmp(type, types[i], strlen(types[i])))
			return true;
	return false;
}

static void tell_file_system(const struct rf_findings *f, struct patient *p)
{
	char real[MOST_PATH], point[MOST_PATH];

	if (!realpath(p->path, real) || !find_mount(f, real, point, p->type)) {
		rf_found(f, "file system", "unknown");
		return;
	}
	rf_found(f, "file system", "%s at %s%s", p->type, point,
	         !strcmp(p->type, "tmpfs") || !strcmp(p->type, "ramfs") ? ", which is lost at a reboot"
	         : is_network(p->type) ? ", over a network: only one machine may train the run"
	                               : "");
}

/* Counts the files of a folder. */
static uint64_t count_files(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *d;
	uint64_t n = 0;

	while (dir && (d = readdir(dir)))
		n += *d->d_name != '.';
	if (dir)
		closedir(dir);
	return n;
}

/* Tells the room for the next commit, by the trainer's own estimate. */
static void tell_room(const struct rf_findings *f, const struct patient *p)
{
	char a[RF_SIZE_TEXT], b[RF_SIZE_TEXT];
	struct rf_run run;
	struct statvfs fs;
	uint64_t step, files, room;
	struct rf_err e;

	if (statvfs(p->path, &fs) || rf_file_space(p->path, &room, NULL) != RF_OK)
		return;
	rf_found(f, "room", "%s free", fs.f_blocks ? rf_size_text(room, a) : "unknown");
	if (fs.f_files)
		rf_found(f, "inodes", "%llu free", (unsigned long long)fs.f_favail);
	if (!p->is_run || !*p->newest)
		return;
	files = count_files(p->newest) + 3; /* a folder, the moments and a link */
	if (fs.f_files && fs.f_favail < files)
		rf_found_wrong(f, "%s has room for only %llu files, and a step has %llu (remove files there)",
		               p->path, (unsigned long long)fs.f_favail, (unsigned long long)files);
	if (!has_entry(p->newest, "state.json"))
		return;
	if (rf_run_look(&run, p->path, &e) != RF_OK) {
		rf_found_wrong(f, "no program can train the run: %s", e.msg);
	} else {
		step = rf_run_step_bytes(&run);
		rf_found(f, "next step", "takes %s", rf_size_text(step, b));
		if (room < step)
			rf_found_wrong(
				f,
				"%s has room for %s, and a step takes %s (free some room, or move the run)",
				p->path, a, b);
	}
	rf_run_close(&run);
}

/* ---- writing and locks ---------------------------------------------------------------------- */

/* Locks a file through two descriptors.  Returns what is wrong with the locks; NULL: they work. */
static const char *try_locks(int one, int other)
{
	if (flock(one, LOCK_EX | LOCK_NB))
		return strerror(errno);
	return flock(other, LOCK_EX | LOCK_NB) == 0 ? "two programs get the same lock" : NULL;
}

/* Makes a temporary file in the run, tests locks on it, and removes it.  If this process is killed, the next
 * trainer removes the file. */
static void tell_locks(const struct rf_findings *f, const struct patient *p)
{
	char path[MOST_PATH + 60];
	const char *why = NULL;
	int one, other;

	snprintf(path, sizeof path, "%s/.rf-doctor.tmp-XXXXXX", p->path);
	if ((one = mkostemp(path, O_CLOEXEC)) < 0) {
		rf_found(f, "writable", "no: %s", strerror(errno));
		rf_found_wrong(f, "%s cannot be written: %s (no step can be committed there)", p->path,
		               strerror(errno));
		return;
	}
	rf_found(f, "writable", "yes");
	rf_found_waits(f, "the locks of the file system",
	               "mount it with locks, or move the run to a local disk");
	other = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	why = other < 0 ? strerror(errno) : try_locks(one, other);
	rf_found(f, "locks", "%s", why ? why : "work");
	if (why)
		rf_found_wrong(
			f,
			"locks do not work on the file system of %s: %s (mount it with locks, or move the "
			"run: two programs could train it at the same time)",
			p->path, why);
	close(one);
	if (other >= 0)
		close(other);
}

/* Returns the process that holds the lock of a file, according to the kernel's list; 0: none that this
 * process can see; -1: the list cannot be read.  The lock is not tried, because that would keep a trainer
 * away that starts now. */
static long holder_of(const struct rf_findings *f, const struct patient *p, const char *file)
{
	const bool layered = !strcmp(p->type, "overlay") || !strcmp(p->type, "btrfs");
	char path[MOST_PATH], *rest, *line;
	struct rf_buf text;
	struct stat st;
	long holder = 0;

	if (rf_file_join(path, p->path, file, NULL) != RF_OK || stat(path, &st))
		return 0;
	if (!rf_found_file(f, "/proc/locks", &text))
		holder = -1;
	else
		for (rest = (char *)text.p; rest && !holder && (line = strsep(&rest, "\n"));) {
			unsigned long long inode;
			unsigned high, low;
			long pid;

			if (sscanf(line, "%*s FLOCK %*s %*s %ld %x:%x:%llu", &pid, &high, &low, &inode) ==
			            4 &&
			    inode == st.st_ino &&
			    (layered || (high == major(st.st_dev) && low == minor(st.st_dev))))
				holder = pid;
		}
	rf_buf_free(&text);
	return holder;
}

static void tell_holder(const struct rf_findings *f, const struct patient *p, const char *name,
                        const char *file)
{
	const long pid = holder_of(f, p, file);
	char path[60], command[40] = "?";
	struct rf_buf text;

	if (pid <= 0) {
		rf_found(f, name, "%s",
		         pid < 0               ? "unknown: /proc/locks cannot be read"
		         : is_network(p->type) ? "no program of this machine that this process can see"
		                               : "no program that this process can see");
		return;
	}
	snprintf(path, sizeof path, "/proc/%ld/comm", pid);
	if (rf_found_file(f, path, &text))
		rf_found_line((char *)text.p, command, sizeof command);
	rf_buf_free(&text);
	rf_found(f, name, "%s, process %ld", command, pid);
}

void rf_doctor_run(const struct rf_findings *f)
{
	struct patient p = { .path = f->d->run };

	if (!p.path)
		return;
	rf_found_part(f, "run");
	rf_found(f, "path", "%s", p.path);
	rf_found_waits(f, p.path, "its file system may be disconnected: see mount(8)");
	tell_file_system(f, &p);
	if (!tell_kind(f, &p))
		return;
	tell_latest(f, &p);
	tell_room(f, &p);
	if (!p.is_run)
		return;
	tell_locks(f, &p);
	tell_holder(f, &p, "trained by", ".lock");
	tell_holder(f, &p, "rf-loop", "data/.lock");
}
