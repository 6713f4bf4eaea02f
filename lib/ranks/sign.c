/* sign.c -- writes and reads the signs of life, and decides when a rank is missing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/file.h"
#include "ranks/sign.h"

enum { LINE = 200 };
static const char gave_up[] = "gave up";
const char rf_ranks_waits[] = "waits for the others";

static bool path_of(const struct rf_ranks *r, int rank, char path[4200])
{
	int n = snprintf(path, 4200, "%s/%d", r->signs, rank);

	return n > 0 && n < 4200;
}

/* Writes the sign of this rank.  All signs have the same length and are written by one write(), so a reader
 * never sees half of an old sign. */
static enum rf_code write_sign(struct rf_ranks *r, const char *doing, struct rf_err *e)
{
	char path[4200], line[LINE + 1], host[64] = "";
	int fd, n;
	ssize_t wrote;

	if (!path_of(r, r->rank, path))
		return rf_fail(e, RF_EUSAGE, "%s: the name is too long", r->signs);
	gethostname(host, sizeof host - 1);
	n = snprintf(line, sizeof line, "%llu\t%s\t%ld\t%.80s", (unsigned long long)r->calls, host,
	             (long)getpid(), doing);
	n = n < LINE - 1 ? n : LINE - 1;
	memset(line + n, ' ', (size_t)(LINE - 1 - n));
	line[LINE - 1] = '\n';
	if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	wrote = pwrite(fd, line, LINE, 0);
	close(fd);
	r->signed_at = rf_now();
	return wrote == LINE ? RF_OK : rf_fail(e, RF_EIO, "%s: write: %s", path, strerror(errno));
}

/* Reads a sign; returns false if the file has none. */
static bool read_sign_file(const char *path, struct rf_rank_sign *s)
{
	unsigned long long calls = 0;
	char line[LINE + 1];
	struct stat st;
	ssize_t n = 0;
	int fd;

	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return false;
	if (fstat(fd, &st) == 0)
		n = pread(fd, line, LINE, 0);
	close(fd);
	if (n != LINE)
		return false;
	while (n && (line[n - 1] == ' ' || line[n - 1] == '\n'))
		n--;
	line[n] = 0;
	if (sscanf(line, "%llu\t%63[^\t]\t%ld\t%80[^\n]", &calls, s->host, &s->pid, s->doing) != 4)
		return false;
	s->calls = calls;
	s->written = (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9;
	return true;
}

static bool read_sign(const struct rf_ranks *r, int rank, struct rf_rank_sign *s)
{
	char path[4200];

	return path_of(r, rank, path) && read_sign_file(path, s);
}

static int by_rank(const void *a, const void *b)
{
	const struct rf_rank_sign *s = a, *t = b;

	return (s->rank > t->rank) - (s->rank < t->rank);
}

enum rf_code rf_ranks_seen(const char *folder, struct rf_rank_sign **list, int *n, struct rf_err *e)
{
	char signs[4096], path[4400];
	struct rf_rank_sign *more;
	const struct dirent *d;
	enum rf_code rc = rf_file_join(signs, folder, ".ranks", e);
	DIR *dir;

	*list = NULL;
	*n = 0;
	if (rc != RF_OK)
		return rc;
	if (!(dir = opendir(signs)))
		return errno == ENOENT ? RF_OK : rf_fail(e, RF_EIO, "%s: %s", signs, strerror(errno));
	while (rc == RF_OK && (d = readdir(dir))) {
		if (*d->d_name == '.')
			continue;
		if (!(more = realloc(*list, ((size_t)*n + 1) * sizeof *more))) {
			rc = rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", *n);
			break;
		}
		*list = more;
		snprintf(path, sizeof path, "%s/%s", signs, d->d_name);
		more[*n].rank = atoi(d->d_name);
		*n += read_sign_file(path, &more[*n]); /* the rank may have ended meanwhile */
	}
	closedir(dir);
	if (*n)
		qsort(*list, (size_t)*n, sizeof **list, by_rank);
	return rc;
}

static void remove_old_signs(const struct rf_ranks *r)
{
	const struct dirent *d;
	char path[4200];
	DIR *dir = opendir(r->signs);

	while (dir && (d = readdir(dir)))
		if (*d->d_name != '.' && atoi(d->d_name) >= r->ranks && path_of(r, atoi(d->d_name), path))
			unlink(path);
	if (dir)
		closedir(dir);
}

enum rf_code rf_signs_open(struct rf_ranks *r, const char *folder, struct rf_err *e)
{
	const double now = rf_now();
	struct rf_rank_sign own;
	enum rf_code rc = rf_file_join(r->signs, folder, ".ranks", e);

	if (rc != RF_OK)
		return rc;
	if (mkdir(r->signs, 0777) < 0 && errno != EEXIST)
		return rf_fail(e, RF_EIO, "%s: create: %s", r->signs, strerror(errno));
	if (!(r->seen = calloc((size_t)r->ranks, sizeof *r->seen)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	for (int i = 0; i < r->ranks; i++)
		r->seen[i].changed = now;
	if (r->rank == 0)
		remove_old_signs(r);
	if ((rc = write_sign(r, "began", e)) == RF_OK && read_sign(r, r->rank, &own))
		r->opened = own.written;
	return rc;
}

double rf_signs_often(const struct rf_ranks *r) { return r->timeout < 4 ? r->timeout / 4 : 1; }

void rf_ranks_arrive(struct rf_ranks *r)
{
	struct rf_err ignored;

	if (r->ops)
		write_sign(r, rf_ranks_waits, &ignored);
}

void rf_ranks_sign(struct rf_ranks *r, const char *doing)
{
	struct rf_err ignored;

	if (r->seen && rf_now() - r->signed_at > rf_signs_often(r))
		write_sign(r, doing, &ignored);
}

/* When the first rank has ended, the launcher kills the others.  So this rank waits until the ranks that wait
 * in the same exchange have given up, too; then all end with the same status. */
void rf_ranks_give_up(struct rf_ranks *r)
{
	const double began = rf_now();
	struct rf_err ignored;
	bool all = false;

	write_sign(r, gave_up, &ignored);
	while (!all && rf_now() - began < 3) {
		all = true;
		for (int i = 0; i < r->ranks; i++) {
			struct rf_rank_sign s;

			all &= !read_sign(r, i, &s) || s.calls < r->calls || !strcmp(s.doing, gave_up);
		}
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	}
}

enum rf_code rf_signs_look(struct rf_ranks *r, double began, struct rf_err *e)
{
	const double now = rf_now();
	struct rf_rank_sign own = { .written = 0 };
	char who[600] = "";
	int missing = 0;
	bool gone = false, lives = now - began <= r->timeout;

	read_sign(r, r->rank, &own);
	for (int i = 0; i < r->ranks; i++) {
		struct rf_rank_sign s, *was = &r->seen[i].says;
		size_t n = strlen(who);

		if (i == r->rank)
			continue;
		if (read_sign(r, i, &s) && (s.written != was->written || s.calls != was->calls)) {
			r->seen[i].changed = was->written == 0 && s.written < own.written ? began : now;
			*was = s;
		}
		if (was->calls >= r->calls && !strcmp(was->doing, gave_up) && was->written >= r->opened) {
			gone = true;
			continue;
		}
		/* a rank that waits renews its sign; if it has come and its sign is old, it was killed or
		   stopped */
		if (was->calls >= r->calls && now - r->seen[i].changed <= r->timeout)
			continue;
		lives |= now - r->seen[i].changed <= r->timeout;
		missing++;
		/* this rank wrote its own sign when it began to wait */
		if (was->written > 0)
			snprintf(who + n, sizeof who - n,
			         "%srank %d (host %s, process %ld, last seen %.0f s ago)", n ? ", " : "", i,
			         was->host, was->pid, now - began + own.written - was->written);
		else
			snprintf(who + n, sizeof who - n, "%srank %d (never seen)", n ? ", " : "", i);
	}
	if (lives && !gone)
		return RF_OK;
	rf_ranks_give_up(r);
	if (!missing)
		return rf_fail(e, RF_EBUSY,
		               "all %d ranks came, but within %.0f s they could not tell each other what "
		               "they had to: nothing was committed",
		               r->ranks, r->timeout);
	return rf_fail(e, RF_EBUSY,
	               "%d of %d ranks did not come within %.0f s (--rank-timeout): %s: nothing was "
	               "committed",
	               missing, r->ranks, r->timeout, who);
}

void rf_signs_close(struct rf_ranks *r)
{
	char path[4200];

	if (path_of(r, r->rank, path))
		unlink(path);
	rmdir(r->signs); /* succeeds for the last rank */
	free(r->seen);
	r->seen = NULL;
}
