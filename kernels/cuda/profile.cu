/* profile.cu -- measures the time of kernels, if RF_PROFILE is set: an event before and an event after each
 * launch, and a table of kernels by their time when the device is closed.
 *
 * Launches are distinguished by names and grids, since a kernel's time is meaningless without its size.  The
 * time of the events themselves falls between launches, not into them.  Events are read when all pairs are in
 * use, so that the host stays ahead of the GPU as it does without a profile. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "cuda/cuda.h"

enum { PAIRS = 4096, ENTRIES = 1024, NAME = 64 };
struct entry {
	char name[NAME];
	dim3 grid, block;
	long long calls;
	double seconds, flops;
};
struct rf_cuda_profile {
	const char *path;
	cudaEvent_t from[PAIRS], to[PAIRS];
	int of[PAIRS], waiting; /* of: the entry of each pair; waiting: the number of pairs to read */
	struct entry entry[ENTRIES];
	int entries;
	long long lost; /* launches that found the table full */
};

void rf_cuda_profile_open(struct rf_dev *d)
{
	const char *path = getenv("RF_PROFILE");
	struct rf_cuda_profile *p;

	if (!path || !*path || !strcmp(path, "0") || !(p = (struct rf_cuda_profile *)calloc(1, sizeof *p)))
		return;
	p->path = strcmp(path, "1") ? path : "/dev/stderr";
	cuda_of(d)->profile = p;
	for (int i = 0; i < PAIRS; i++)
		if (!rf_cuda_ok(d, cudaEventCreate(&p->from[i]), "a profile") ||
		    !rf_cuda_ok(d, cudaEventCreate(&p->to[i]), "a profile"))
			return;
}

/* Waits for the launched kernels, and adds up their times. */
static void read_pairs(struct rf_dev *d)
{
	struct rf_cuda_profile *p = cuda_of(d)->profile;
	float ms;

	if (p->waiting && !rf_cuda_ok(d, cudaEventSynchronize(p->to[p->waiting - 1]), "a profile"))
		p->waiting = 0;
	for (int i = 0; i < p->waiting; i++)
		if (rf_cuda_ok(d, cudaEventElapsedTime(&ms, p->from[i], p->to[i]), "a profile"))
			p->entry[p->of[i]].seconds += ms / 1e3;
	p->waiting = 0;
}

static bool same_launch(const dim3 &a, const dim3 &b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

/* Finds or makes the entry of a launch.  The name is that of the source, without the parentheses around a
 * template. */
static int entry_of(struct rf_cuda_profile *p, const char *name, dim3 grid, dim3 block)
{
	char text[NAME];
	size_t n;

	snprintf(text, sizeof text, "%s", name + (*name == '('));
	n = strlen(text);
	if (*name == '(' && n && text[n - 1] == ')')
		text[n - 1] = 0;
	for (int i = 0; i < p->entries; i++)
		if (!strcmp(p->entry[i].name, text) && same_launch(p->entry[i].grid, grid) &&
		    same_launch(p->entry[i].block, block))
			return i;
	if (p->entries == ENTRIES)
		return -1;
	memcpy(p->entry[p->entries].name, text, sizeof text);
	p->entry[p->entries].grid = grid;
	p->entry[p->entries].block = block;
	return p->entries++;
}

void rf_cuda_profile_begin(struct rf_dev *d, const char *name, dim3 grid, dim3 block, double flops)
{
	struct rf_cuda_profile *p = cuda_of(d)->profile;
	int i;

	if (p->waiting == PAIRS)
		read_pairs(d);
	if ((i = entry_of(p, name, grid, block)) < 0) {
		p->lost++;
		i = 0;
	}
	p->of[p->waiting] = i;
	p->entry[i].calls++;
	p->entry[i].flops += flops;
	rf_cuda_ok(d, cudaEventRecord(p->from[p->waiting], cuda_of(d)->stream), name);
}

void rf_cuda_profile_end(struct rf_dev *d)
{
	struct rf_cuda_profile *p = cuda_of(d)->profile;

	rf_cuda_ok(d, cudaEventRecord(p->to[p->waiting], cuda_of(d)->stream), "a profile");
	p->waiting++;
}

/* ---- the table ----------------------------------------------------------------------------- */

static int longest_first(const void *a, const void *b)
{
	const double x = ((const struct entry *)a)->seconds, y = ((const struct entry *)b)->seconds;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void line(int to, const char *text, int n)
{
	if (to >= 0 && n > 0 && write(to, text, (size_t)n) < 0)
		return; /* not an error: a profile is not a result, and the user sees that it is missing */
}

static void write_table(const struct rf_cuda_profile *p, int to)
{
	char text[400];
	double all = 0;
	long long calls = 0;

	for (int i = 0; i < p->entries; i++) {
		all += p->entry[i].seconds;
		calls += p->entry[i].calls;
	}
	line(to, text,
	     snprintf(text, sizeof text, "%-64s %22s %8s %10s %9s %6s %9s\n", "kernel", "grid*block", "calls",
	              "ms", "us each", "%", "TFLOP/s"));
	for (int i = 0; i < p->entries; i++) {
		const struct entry *e = &p->entry[i];
		char grid[60], speed[40] = "";

		snprintf(grid, sizeof grid, "%ux%ux%u*%u", e->grid.x, e->grid.y, e->grid.z,
		         e->block.x * e->block.y * e->block.z);
		if (e->flops > 0 && e->seconds > 0)
			snprintf(speed, sizeof speed, "%.1f", e->flops / e->seconds / 1e12);
		line(to, text,
		     snprintf(text, sizeof text, "%-64s %22s %8lld %10.3f %9.2f %6.2f %9s\n", e->name, grid,
		              e->calls, 1e3 * e->seconds, 1e6 * e->seconds / (double)e->calls,
		              all > 0 ? 100 * e->seconds / all : 0, speed));
	}
	line(to, text, snprintf(text, sizeof text, "%-64s %22s %8lld %10.3f\n", "all", "", calls, 1e3 * all));
	if (p->lost)
		line(to, text,
		     snprintf(text, sizeof text, "%lld launches of other kinds are counted as the first\n",
		              p->lost));
}

void rf_cuda_profile_close(struct rf_dev *d)
{
	struct rf_cuda_profile *p = cuda_of(d)->profile;
	int to;

	if (!p)
		return;
	if (!cuda_of(d)->dead && p->from[0]) {
		read_pairs(d);
		qsort(p->entry, (size_t)p->entries, sizeof *p->entry, longest_first);
		to = open(p->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		write_table(p, to);
		if (to >= 0)
			close(to);
		for (int i = 0; i < PAIRS; i++) {
			cudaEventDestroy(p->from[i]);
			cudaEventDestroy(p->to[i]);
		}
	}
	free(p);
	cuda_of(d)->profile = NULL;
}
