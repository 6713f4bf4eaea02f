/* u-lab -- what the shell tests need and the shell lacks.
 *
 *     u-lab frames FILE            the frames of FILE: "offset size" a line
 *     u-lab pick FILE N...         frames N... of FILE, counted from 0, as they are
 *     u-lab end FILE               the stream without its end record, and an end record that fits
 *     u-lab seq FILE               the frames of FILE, numbered anew, with an end record that fits
 *     u-lab peak MIB COMMAND...    runs the command; fails if it ever held more than so many MiB
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "wire.h"

static unsigned char data[16 << 20];
static size_t size, at[100000], frames;

static void die(const char *why)
{
	fprintf(stderr, "u-lab: %s\n", why);
	exit(2);
}

static void load(const char *path)
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

static void pick(size_t i)
{
	if (i >= frames)
		die("no such frame");
	fwrite(data + at[i], 1, at[i + 1] - at[i], stdout);
}

static void put(const void *msg, size_t n)
{
	static unsigned char out[32 << 20];
	ZSTD_CCtx *z = ZSTD_createCCtx();
	size_t m;

	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	m = ZSTD_compress2(z, out, sizeof out, msg, n);
	ZSTD_freeCCtx(z);
	fwrite(out, 1, m, stdout);
}

/* Every frame but an end record, its number i if renumber is set; then an end record that fits. */
static void with_end(bool renumber)
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
		if (!memcmp(msg + 2, "\xa3""end", 4))
			continue;
		if (renumber) /* numbers below 128 are one byte */
			msg[1] = (unsigned char)seq;
		put(msg, n);
		XXH64_update(hash, msg, n);
		seq++;
	}
	rf_end_encode(&end, seq, &(struct rf_end){ seq - 1, XXH64_digest(hash) });
	put(end.p, end.n);
	rf_buf_free(&end);
	XXH64_freeState(hash);
}

static int peak(long mib, char *argv[])
{
	struct rusage use;
	int status;
	pid_t pid = fork();

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) < 0)
		die("fork");
	if (use.ru_maxrss > mib << 10) {
		fprintf(stderr, "u-lab: %s held %ld MiB, more than %ld\n", argv[0], use.ru_maxrss >> 10, mib);
		return 99;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char *argv[])
{
	if (argc < 3)
		die("usage: see its source");
	if (!strcmp(argv[1], "peak"))
		return peak(atol(argv[2]), argv + 3);
	load(argv[2]);
	if (!strcmp(argv[1], "frames"))
		for (size_t i = 0; i < frames; i++)
			printf("%zu %zu\n", at[i], at[i + 1] - at[i]);
	else if (!strcmp(argv[1], "pick"))
		for (int i = 3; i < argc; i++)
			pick((size_t)atol(argv[i]));
	else
		with_end(!strcmp(argv[1], "seq"));
	return 0;
}
