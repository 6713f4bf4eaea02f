/* lab -- tools for the shell tests that the shell lacks.
 *
 *     lab frames FILE            prints the frames of FILE, as lines "offset size"
 *     lab pick FILE N...         copies the frames N... of FILE, counted from 0
 *     lab end FILE               copies the stream, and replaces its end record by one that fits
 *     lab seq FILE               copies the frames of FILE with new numbers, and an end record that fits
 *     lab peak MIB COMMAND...    runs the command; fails if its peak memory is more than MIB, or, if MIB is
 *                                  LEAST-MOST, also if it is less than LEAST
 *     lab cuts N FILE COMMAND... runs the command on FILE, cut at N evenly spread bytes and at the end of
 *                                  each frame.  The command must exit with 65, write one line on stderr that
 *                                  begins with its name and tells that the input is truncated, and write no
 *                                  stream with an end record.  Makes files cut.* in the current folder
 * */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "stream/wire.h"

static unsigned char data[16 << 20];
static size_t size, at[100000], frames;

static void die(const char *why)
{
	fprintf(stderr, "lab: %s\n", why);
	exit(2);
}

static void load_frames(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t i = 0;

	if (!f)
		die(path);
	size = fread(data, 1, sizeof data, f);
	fclose(f);
	while (i < size) {
		size_t n = ZSTD_findFrameCompressedSize(data + i, size - i);
		if (ZSTD_isError(n) || frames + 1 == sizeof at / sizeof *at)
			die("not all of it is frames");
		at[frames++] = i;
		i += n;
	}
	at[frames] = size;
}

static void copy_frame(size_t i)
{
	if (i >= frames)
		die("no such frame");
	fwrite(data + at[i], 1, at[i + 1] - at[i], stdout);
}

static void put_frame(const void *msg, size_t n)
{
	static unsigned char out[32 << 20];
	ZSTD_CCtx *z = ZSTD_createCCtx();
	size_t m;

	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	m = ZSTD_compress2(z, out, sizeof out, msg, n);
	ZSTD_freeCCtx(z);
	fwrite(out, 1, m, stdout);
}

/* Writes every frame except an end record, with new numbers if renumber is set; then an end record that
 * fits. */
static void copy_with_end(bool renumber)
{
	static unsigned char msg[16 << 20];
	XXH64_state_t *hash = XXH64_createState();
	struct rf_buf end = { 0 };
	uint64_t seq = 0;

	XXH64_reset(hash, 0);
	for (size_t i = 0; i < frames; i++) {
		size_t n = ZSTD_decompress(msg, sizeof msg, data + at[i], at[i + 1] - at[i]);
		if (ZSTD_isError(n) || n < 6)
			die("a bad frame");
		if (!memcmp(msg + 2,
		            "\xa3"
		            "end",
		            4))
			continue;
		if (renumber) /* numbers below 128 are one byte */
			msg[1] = (unsigned char)seq;
		put_frame(msg, n);
		XXH64_update(hash, msg, n);
		seq++;
	}
	rf_end_encode(&end, seq, &(struct rf_end){ seq - 1, XXH64_digest(hash) });
	put_frame(end.p, end.n);
	rf_buf_free(&end);
	XXH64_freeState(hash);
}

static int run_with_peak(const char *mib, char *argv[])
{
	long least = 0, most = 0;
	struct rusage use;
	int status;
	pid_t pid = fork();

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) < 0)
		die("fork");
	if (sscanf(mib, "%ld-%ld", &least, &most) < 2) {
		most = least;
		least = 0;
	}
	if (use.ru_maxrss > most << 10 || use.ru_maxrss < least << 10) {
		fprintf(stderr, "lab: %s held %ld MiB, not %s\n", argv[0], use.ru_maxrss >> 10, mib);
		return 99;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reads all of a small file and adds a 0; returns its size. */
static size_t read_small_file(const char *path, char *to, size_t max)
{
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(to, 1, max - 1, f) : 0;

	if (f)
		fclose(f);
	to[n] = 0;
	return n;
}

/* Returns whether a stream's last frame is its end record. */
static bool has_end(const char *p, size_t n)
{
	char msg[64];
	size_t last = 0, m = 0;

	for (size_t i = 0; i < n; i += m) {
		m = ZSTD_findFrameCompressedSize(p + i, n - i);
		if (ZSTD_isError(m))
			return false;
		last = i;
	}
	/* an end record is small; a larger record does not fit into msg */
	m = ZSTD_decompress(msg, sizeof msg, p + last, n - last);
	return n && !ZSTD_isError(m) && m > 6 &&
	       !memcmp(msg + 2,
	               "\xa3"
	               "end",
	               4);
}

extern char **environ;

/* Runs the command on the first `cut` bytes; returns NULL, or the rule that the command broke. */
static const char *run_cut(size_t cut, const char *name, char *argv[])
{
	static char out[16 << 20], err[4096];
	posix_spawn_file_actions_t files;
	size_t n;
	int status = 0;
	pid_t pid;

	if (truncate("cut.in", (off_t)cut))
		die("truncate");
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "cut.in", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, "cut.out", O_WRONLY | O_CREAT | O_TRUNC, 0666);
	posix_spawn_file_actions_addopen(&files, 2, "cut.err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (posix_spawnp(&pid, argv[0], &files, NULL, argv, environ) || waitpid(pid, &status, 0) < 0)
		die("spawn");
	posix_spawn_file_actions_destroy(&files);
	n = read_small_file("cut.err", err, sizeof err);
	fwrite(err, 1, n, stderr);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 65)
		return "the exit status is not 65";
	if (strncmp(err, name, strlen(name)) || strncmp(err + strlen(name), ": ", 2) ||
	    strchr(err, '\n') != err + n - 1)
		return "not one line that begins with the program's name";
	if (!strstr(err, "truncated") && !strstr(err, "the end record is missing"))
		return "it does not say that its input is truncated";
	n = read_small_file("cut.out", out, sizeof out);
	return has_end(out, n) ? "its output has an end record" : NULL;
}

static int by_size(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

static int run_cuts(long n, char *argv[])
{
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0], *bad;
	size_t many = (size_t)n < size ? (size_t)n : size - 1, count = 0,
	       *list = malloc((many + frames) * sizeof *list);
	FILE *f = fopen("cut.in", "wb");

	if (!f || fwrite(data, 1, size, f) != size || fclose(f) || !list)
		die("cut.in");
	for (size_t i = 0; i < many; i++)
		list[count++] = 1 + i * (size - 2) / (many > 1 ? many - 1 : 1);
	for (size_t i = 1; i < frames; i++)
		list[count++] = at[i];
	qsort(list, count, sizeof *list, by_size); /* descending: one file is shortened repeatedly */
	for (size_t i = 0; i < count; i++)
		if ((!i || list[i] != list[i - 1]) && (bad = run_cut(list[i], name, argv))) {
			printf("cut after %zu bytes: %s\n", list[i], bad);
			return 1;
		}
	free(list);
	return 0;
}

int main(int argc, char *argv[])
{
	if (argc < 3)
		die("usage: see its source");
	if (!strcmp(argv[1], "peak"))
		return run_with_peak(argv[2], argv + 3);
	if (!strcmp(argv[1], "cuts") && argc > 4) {
		load_frames(argv[3]);
		return run_cuts(atol(argv[2]), argv + 4);
	}
	load_frames(argv[2]);
	if (!strcmp(argv[1], "frames"))
		for (size_t i = 0; i < frames; i++)
			printf("%zu %zu\n", at[i], at[i + 1] - at[i]);
	else if (!strcmp(argv[1], "pick"))
		for (int i = 3; i < argc; i++)
			copy_frame((size_t)atol(argv[i]));
	else
		copy_with_end(!strcmp(argv[1], "seq"));
	return 0;
}
