/* reckon.cpp -- estimates the time of a program's launches on a real GPU: a clock for the emulated GPU.  It
 * is part of rf-cuda-reckon.so, whose kernels are compiled like those of rf-cuda-race.so, to report every
 * access.
 *
 * For each kernel, grid and sizes the first launch is examined: some of its blocks are run and counted.
 * Later launches get the same time and are not run, and products are not computed, so numbers are
 * meaningless; but a program's launches do not depend on the numbers.  A launch takes the longest of
 *
 *     bytes         32-byte sectors that its blocks read and write, over what L2 gives; and what is left if
 *                   one that neighbours share is taken once, over what memory gives
 *     instructions  of all warps of a multiprocessor, which issues a limited number a cycle
 *     longest warp  of those that come after each other
 *
 * and a product takes the waves of its tiles over the multiprocessors, plus writing the results of the last
 * wave.  Only instructions that move data, wait, or use the matrix units are counted here; EMU_KERNELS gives
 * the number of other instructions for each of the first two kinds.  There is a gap between launches, and a
 * limit to how fast the host launches: there are a clock of the GPU and a clock of the host.
 *
 * The constants describe an H100 (SXM), from published measurements of copies, products and launches.  The
 * contents of L2 at the beginning of a launch are not known: a launch that moves little is assumed to read
 * all bytes from L2.  Nothing is measured here; the estimates in gpu-predicted.tsv are made by hand and do
 * not prove this one.
 *
 * The table lists launches; its sum does not include gaps, copies from and to the host and zeros, which the
 * clock includes.
 *
 *     EMU_RECKON=FILE     where the table goes at the end
 *     EMU_KERNELS=FILE    of each kernel: its address in the shared object, registers, instructions for each
 *                         that is counted, name (reckon.sh)
 *
 * With LD_PRELOAD the program's clock is the host's clock of these two, which stands still while the program
 * computes.  This is not for a program that waits until a given time. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <map>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "emu.h"
#include "emu_rt.h"

namespace
{

const double HZ = 1.75e9, MEMORY = 2.85e12, L2 = 4.0e12, PCIE = 25e9; /* cycles, bytes a second */
const double TENSOR = 792e12, FLOAT = 45e12;          /* operations a second: bf16 and float32 */
const double GAP = 1.6e-6, HOST = 3e-6, WAIT = 10e-6; /* seconds between launches; to launch a kernel; to
                                                        * notice that all work is complete */
const double FITS = 30e6;                             /* bytes that stay in L2 from one launch to the next */
const double EACH = 10;                               /* instructions for each instruction that moves data or
                                                  waits */
const double ISSUED = 0.6; /* instructions per cycle, of a scheduler or of one warp */
const int SAMPLES = 8, SECTOR = 32, MOST = 1024;

double gpu, host = 1; /* the two clocks, seconds */

struct kind {
	std::string name;
	dim3 grid{}, block{ 0 };
	int warps = 0;                      /* resident on a multiprocessor */
	double bytes = 0, instructions = 0; /* of a launch; of its longest warp */
	double seconds = 0, most = 0;       /* most: the longest launch in a line of the table */
	const char *by = "";
	long long calls = 0;
};
/* Kinds of launches, by kernel, grid, block, shared memory, and the arguments that are not addresses. */
std::map<std::tuple<const void *, unsigned, unsigned, unsigned, unsigned, size_t, std::vector<uint64_t>>,
         struct kind>
	launches;
std::map<std::tuple<int, int, int, int, size_t, bool>, struct kind> products;

/* The block that is counted. */
bool counting;
std::vector<uintptr_t> sectors[2]; /* read, written */
int moved[MOST], matrix[MOST];     /* of each thread: accesses and waits; products of matrix
                                                  units */
uintptr_t end[MOST];               /* of each thread's last access, and its kind */
int last[MOST];

int setting(const char *name, int otherwise) { return (int)emu::setting(name, otherwise); }
int sms() { return setting("EMU_SMS", emu::RECKONED_SMS); }
double round_up(double n, double by) { return (double)(long long)((n + by - 1) / by); }

/* Data of a kernel's machine code. */
struct code {
	int registers;
	double each;
	std::string name;
};

struct code code_of(const void *kernel)
{
	static std::map<size_t, struct code> of;
	const char *path = getenv("EMU_KERNELS");
	Dl_info info;

	if (of.empty() && path) {
		FILE *f = fopen(path, "r");
		struct code c;
		char name[100];
		size_t at;

		while (f && fscanf(f, "%zx %d %lf %99[^\n]%*[^\n]", &at, &c.registers, &c.each, name) == 4) {
			c.name = name;
			c.each = c.each > 0 ? c.each : EACH;
			of[at] = c;
		}
		if (f)
			fclose(f);
	}
	if (dladdr(kernel, &info)) {
		auto one = of.find((size_t)((const char *)kernel - (const char *)info.dli_fbase));

		if (one != of.end())
			return one->second;
	}
	return { 0, EACH, "" };
}

/* Returns the blocks that fit on a multiprocessor of sm_90: CUDA C Programming Guide, table "Technical
 * Specifications". */
int fit(int threads, int regs, size_t shared)
{
	const int warps = (threads + 31) / 32;
	int n = std::min(32, 64 / warps);

	if (regs)
		n = std::min(n, 65536 / ((regs * 32 + 255) & ~255) / 4 * 4 / warps);
	return std::max(1, std::min(n, (int)((228u << 10) / ((shared + 1024 + 127) & ~127u))));
}

void sort_out(std::vector<uintptr_t> &x)
{
	std::sort(x.begin(), x.end());
	x.erase(std::unique(x.begin(), x.end()), x.end());
}

void record_sector(std::vector<uintptr_t> &x, uintptr_t sector)
{
	static const size_t MANY = 1 << 20;

	x.push_back(sector);
	/* otherwise repeated reads would make it grow */
	if (x.size() >= MANY && x.size() == x.capacity()) {
		sort_out(x);
		x.reserve(2 * x.size());
	}
}

struct counted {
	std::vector<uintptr_t> sectors[2];
	double all, longest;
};

/* Runs a block and counts its sectors, and the instructions of all its warps and of the longest warp. */
struct counted count(size_t block, int threads, double each, void (*run)(size_t))
{
	struct counted c {
	};

	for (auto &x : sectors)
		x.clear();
	memset(moved, 0, sizeof moved);
	memset(matrix, 0, sizeof matrix);
	counting = true;
	run(block);
	counting = false;
	for (int i = 0; i < 2; i++) {
		sort_out(sectors[i]);
		c.sectors[i] = sectors[i];
	}
	for (int w = 0; w < threads; w += 32) {
		const int last = std::min(threads, w + 32);
		const double n = each * *std::max_element(moved + w, moved + last) +
		                 *std::max_element(matrix + w, matrix + last);

		c.all += n;
		c.longest = std::max(c.longest, n);
	}
	return c;
}

/* Returns the share of a's sectors that b also has. */
double shared_with(const std::vector<uintptr_t> &a, const std::vector<uintptr_t> &b)
{
	std::vector<uintptr_t> both;

	std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
	return a.empty() ? 0 : (double)both.size() / (double)a.size();
}

struct shares {
	double of[2];
};

/* Returns the largest share of its reads and writes that a block shares with the block `by` blocks before or
 * after it. */
struct shares shared_along(const struct counted &one, size_t block, size_t by, bool before, bool behind,
                           int threads, double each, void (*run)(size_t))
{
	struct shares s {
	};

	for (int side = 0; side < 2; side++) {
		if (!(side ? behind : before))
			continue;
		const struct counted other = count(side ? block + by : block - by, threads, each, run);

		for (int w = 0; w < 2; w++)
			s.of[w] = std::max(s.of[w], shared_with(one.sectors[w], other.sectors[w]));
	}
	return s;
}

/* Returns the number of different sectors of n blocks, divided by a block's sectors.  every: the share that
 * each p-th block has in common; row: the share that p adjacent blocks have in common. */
double times_along(double n, double p, double every, double row)
{
	return (1 + (p - 1) * (1 - row)) * (1 + (n / p - 1) * (1 - every));
}

/* Examines a launch.  It counts distant blocks, for the average of a block; and for a block in the middle,
 * and the block after it if a grid has two kinds of blocks, its neighbours along each side of the grid:
 * common sectors are counted once.  If neighbours have few common sectors, they may belong to different
 * heads, and each n-th block to the same head. */
void examine(struct kind *k, const struct emu::call *c, dim3 grid, dim3 block, size_t shared,
             void (*run)(size_t))
{
	const size_t blocks = (size_t)grid.x * grid.y * grid.z, side[3] = { grid.x, grid.y, grid.z };
	const int threads = (int)(block.x * block.y * block.z), n = (int)std::min<size_t>(blocks, SAMPLES);
	const struct code code = code_of(c->kernel);
	double all = 0, longest = 0, own[2] = {}, bytes = 0, issue, alone, memory;

	for (int i = 0; i < n; i++) {
		const struct counted x =
			count((blocks - 1) * (size_t)i / (size_t)std::max(1, n - 1), threads, code.each, run);

		all += x.all / n;
		longest = std::max(longest, x.longest);
		for (int w = 0; w < 2; w++)
			own[w] += SECTOR * (double)x.sectors[w].size() / n;
	}
	double times[2] = { (double)blocks, (double)blocks };
	for (size_t quarter = 2; quarter < 4; quarter++) {
		const size_t at[3] = { side[0] * quarter / 4, side[1] * quarter / 4, side[2] * quarter / 4 };
		const size_t b = at[0] + side[0] * (at[1] + side[1] * at[2]);
		const struct counted one = count(b, threads, code.each, run);
		double here[2] = { 1, 1 };
		size_t next = 1;

		for (int i = 0; i < 3; next *= side[i++]) {
			static const size_t periods[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 };
			struct shares row {
			}, every{};
			size_t period = 1;

			for (size_t p : periods) {
				if (p > 1 && 2 * p > side[i])
					break;
				every = shared_along(one, b, p * next, at[i] >= p, at[i] + p < side[i],
				                     threads, code.each, run);
				period = p;
				row = p == 1 ? every : row;
				if (every.of[0] > .5)
					break;
			}
			for (int w = 0; w < 2; w++)
				here[w] *= every.of[0] > .5 ? times_along((double)side[i], (double)period,
				                                          every.of[w], row.of[w])
				                            : 1 + ((double)side[i] - 1) * (1 - row.of[w]);
		}
		for (int w = 0; w < 2; w++)
			times[w] = std::min(times[w], here[w]);
	}
	for (int w = 0; w < 2; w++) {
		k->bytes += own[w] * times[w];
		bytes += own[w] * (double)blocks;
	}
	const int resident = fit(threads, code.registers, shared);
	const double on_one = round_up((double)blocks, sms());

	k->grid = grid;
	k->block = block;
	k->name = code.name.empty() ? c->name : code.name;
	k->warps = (int)std::min((double)resident, on_one) * ((threads + 31) / 32);
	k->instructions = longest;
	memory = std::max(k->bytes > FITS ? k->bytes / MEMORY : 0, bytes / L2);
	issue = on_one * all / 4 / ISSUED / HZ;
	alone = round_up(on_one, resident) * longest / ISSUED / HZ;
	k->seconds = std::max(memory, std::max(issue, alone));
	k->by = k->seconds == memory ? "bytes" : issue > alone ? "instructions" : "the longest warp";
}

std::vector<uint64_t> sizes_in(const struct emu::call *c)
{
	std::vector<uint64_t> all;

	for (size_t i = 0; i + 8 <= c->args_size; i += 8) {
		uint64_t x;

		memcpy(&x, (const char *)c->args + i, sizeof x);
		all.push_back(emu::in_allocation((const void *)x, 1) ? 1 : x);
	}
	return all;
}

void add_time(double seconds)
{
	host += HOST;
	gpu = std::max(gpu + GAP, host) + seconds;
}

/* Writes the table at the end of the process: one line for the launches of a kernel with one grid, with mean
 * values. */
void table()
{
	const char *path = getenv("EMU_RECKON");
	FILE *f = path ? fopen(path, "w") : nullptr;
	std::map<std::string, struct kind> lines;
	std::vector<std::pair<std::string, struct kind>> all;
	double sum = 0;
	long long calls = 0;

	if (!f)
		return;
	const auto add = [&](const struct kind &k) {
		char what[200], grid[60] = "";

		if (k.block.x)
			snprintf(grid, sizeof grid, "%ux%ux%u*%u", k.grid.x, k.grid.y, k.grid.z,
			         k.block.x * k.block.y * k.block.z);
		snprintf(what, sizeof what, "%-52.52s %16s %5d", k.name.c_str(), grid, k.warps);
		auto &x = lines[what];

		if (k.seconds * (double)k.calls >= x.most) {
			x.most = k.seconds * (double)k.calls;
			x.by = k.by;
		}
		x.calls += k.calls;
		x.seconds += k.seconds * (double)k.calls;
		x.bytes += k.bytes * (double)k.calls;
		x.instructions += k.instructions * (double)k.calls;
	};
	for (const auto &x : launches)
		add(x.second);
	for (const auto &x : products)
		add(x.second);
	all.assign(lines.begin(), lines.end());
	std::sort(all.begin(), all.end(),
	          [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
	fprintf(f, "%-52s %16s %5s %7s %9s %9s %9s %9s  %s\n", "kernel", "grid*block", "warps", "calls",
	        "MB each", "instr", "us each", "ms", "bound by");
	for (const auto &x : all) {
		const struct kind &k = x.second;
		const double n = (double)k.calls;

		fprintf(f, "%s %7lld %9.2f %9.0f %9.1f %9.3f  %s\n", x.first.c_str(), k.calls,
		        k.bytes / n / 1e6, k.instructions / n, 1e6 * k.seconds / n, 1e3 * k.seconds, k.by);
		sum += k.seconds;
		calls += k.calls;
	}
	fprintf(f, "%-52s %16s %5s %7lld %9s %9s %9s %9.3f\n", "all", "", "", calls, "", "", "", 1e3 * sum);
	fclose(f);
}

struct at_end {
	~at_end() { table(); }
} at_end;

} // namespace

/* ---- functions that the emulator calls ------------------------------------------------------- */

void emu::reckon_launch(const struct call *c, dim3 grid, dim3 block, size_t shared, void (*run)(size_t))
{
	auto &k = launches[{ c->kernel, grid.x, grid.y, grid.z, block.x * block.y * block.z, shared,
	                     sizes_in(c) }];

	if (!k.calls++)
		examine(&k, c, grid, block, shared, run);
	add_time(k.seconds);
}

void emu::reckon_product(int m, int n, int k, int batch, size_t size, bool adds)
{
	static const struct {
		int m, n;
		double pace;
	} tiles[] = {
		{ 128, 256, 1 }, { 256, 128, 1 }, { 128, 128, .85 }, { 64, 64, .5 }, { 32, 32, .2 },
	};
	auto &x = products[{ m, n, k, batch, size, adds }];

	if (!x.calls++) {
		const double operands = (double)batch * ((double)m * k + (double)n * k) * (double)size,
			     results = (double)batch * m * n * (adds ? 8 : 4);
		char name[100];

		x.bytes = operands + results;
		x.seconds = 1;
		x.by = "products";
		for (const auto &t : tiles) {
			const double blocks = round_up(m, t.m) * round_up(n, t.n) * batch,
				     waves = round_up(blocks, sms()),
				     pace = (size == 2 ? TENSOR : FLOAT) / sms() * t.pace;
			const double s =
				waves * 2. * t.m * t.n * k / pace + (waves - 1) * 1.5e-6 +
				std::min(results, sms() * (double)t.m * t.n * (adds ? 8 : 4)) / MEMORY;

			x.seconds = std::min(x.seconds, s);
		}
		if (x.bytes / (x.bytes > FITS ? MEMORY : L2) > x.seconds) {
			x.seconds = x.bytes / (x.bytes > FITS ? MEMORY : L2);
			x.by = "bytes";
		}
		x.seconds += 2e-6; /* until the first tile's operands have arrived */
		snprintf(name, sizeof name, "product %d x %d x %d%s%s%s", n, m, k, batch > 1 ? ", " : "",
		         batch > 1 ? (std::to_string(batch) + " of them").c_str() : "",
		         adds ? ", added" : "");
		x.name = name;
	}
	add_time(x.seconds);
}

void emu::reckon_bytes(size_t n, bool of_host) { add_time((double)n / (of_host ? PCIE : MEMORY)); }

void emu::reckon_sync() { host = std::max(host, gpu) + WAIT; }

double emu::reckon_clock() { return gpu; }

void emu::reckon_met(int times)
{
	if (counting && emu::now.thread >= 0)
		moved[emu::now.thread] += times;
}

void emu::reckon_matrix()
{
	if (counting && emu::now.thread >= 0)
		matrix[emu::now.thread]++;
}

extern "C" void emu_race_access(const void *at, size_t n, int kind, const void *)
{
	const char *const q = (const char *)at;
	const uintptr_t p = (uintptr_t)at;

	if (!counting || emu::now.thread < 0 || (q >= emu::now.stacks && q < emu::now.stacks_end) ||
	    (q >= emu::now.args && q < emu::now.args_end))
		return;
	if (p - (uintptr_t)&threadIdx < sizeof threadIdx || p - (uintptr_t)&blockIdx < sizeof blockIdx ||
	    p - (uintptr_t)&blockDim < sizeof blockDim || p - (uintptr_t)&gridDim < sizeof gridDim)
		return;
	/* a float4 may come in pieces */
	if (p != end[emu::now.thread] || p % 16 == 0 || kind != last[emu::now.thread])
		moved[emu::now.thread]++;
	end[emu::now.thread] = p + n;
	last[emu::now.thread] = kind;
	if (!emu::in_allocation(at, n))
		return;
	for (uintptr_t s = p / SECTOR; s <= (p + n - 1) / SECTOR; s++)
		for (int i = 0; i < 2; i++)
			if ((i ? kind != 0 : kind != 1) && (sectors[i].empty() || sectors[i].back() != s))
				record_sector(sectors[i], s);
}

/* Replaces the program's clock, if this library is preloaded. */
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t, struct timespec *t)
{
	t->tv_sec = (time_t)host;
	t->tv_nsec = (long)((host - (double)t->tv_sec) * 1e9);
	return 0;
}
