/* race.cpp -- finds races, and shared memory that is read before it is written, exactly.
 *
 * Kernels are compiled with -fsanitize=thread, but linked with this file instead of the sanitizer's runtime:
 * the compiler's calls pass the address of every access.  Two accesses of a byte by different threads of a
 * launch, one of them a write, are a race unless a barrier lies between them: __syncthreads between any two
 * threads of a block, __syncwarp of all lanes between two of a warp, nothing between blocks.  Shuffles and
 * votes order no memory.  Values and the order of the fibres do not matter: one run finds all races among its
 * accesses.  An access of memory that the device does not have is a fault.
 *
 * Not detected: memcpy of a size that is not constant.  False alarms: data that one block passes to another
 * by __threadfence and an atomic; __syncwarp of a part of a warp. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emu.h"
#include "emu_rt.h"

namespace
{

enum { READ, WRITE, ATOMIC };

/* An access, and the number of barriers that its thread had passed. */
struct event {
	uint32_t pc, launch, block;
	uint16_t block_epoch, warp_epoch, thread;
	uint8_t kind;
};
/* The recorded accesses of a byte: the last write, and two reads, from different warps if possible.  A write
 * that has a race with any reader has a race with one of these two. */
struct cell {
	struct event written, read[2];
};

enum { PAGE = 4096, CACHE = 256 };
/* A page has a cell for each grain of 4, 2 or 1 bytes, 1 << shift.  All accesses so far were of whole
 * grains. */
struct page {
	uintptr_t no;
	unsigned shift;
	std::vector<struct cell> cells;
};
std::unordered_map<uintptr_t, std::unique_ptr<struct page>> pages;
struct page *cache[CACHE];

/* Where the shared object with the kernels is loaded, and its variables, which include static shared
 * memory. */
uintptr_t object, object_end, data, data_end;

struct page *page_of(uintptr_t no)
{
	struct page *&at = cache[no % CACHE];

	if (!at || at->no != no) {
		auto &p = pages[no];

		if (!p) {
			p = std::make_unique<struct page>();
			p->no = no;
			p->shift = 2;
			p->cells.resize(PAGE / 4);
		}
		at = p.get();
	}
	return at;
}

void refine(struct page *p)
{
	std::vector<struct cell> finer;

	for (const struct cell &c : p->cells)
		finer.insert(finer.end(), 2, c);
	p->cells.swap(finer);
	p->shift--;
}

void find_object()
{
	dl_iterate_phdr(
		[](dl_phdr_info *info, size_t, void *) {
			uintptr_t lo = UINTPTR_MAX, hi = 0, data_lo = 0, data_hi = 0;

			for (int i = 0; i < info->dlpi_phnum; i++) {
				const ElfW(Phdr) &h = info->dlpi_phdr[i];
				const uintptr_t at = info->dlpi_addr + h.p_vaddr, end = at + h.p_memsz;

				if (h.p_type != PT_LOAD)
					continue;
				lo = std::min(lo, at);
				hi = std::max(hi, end);
				if (h.p_flags & PF_W) {
					data_lo = at;
					data_hi = end;
				}
			}
			if ((uintptr_t)&pages < lo || (uintptr_t)&pages >= hi)
				return 0;
			object = lo;
			object_end = hi;
			data = data_lo;
			data_end = data_hi;
			return 1;
		},
		nullptr);
}

/* Returns the source lines of an address in the object, the innermost first; needs addr2line. */
std::string lines(uint32_t pc)
{
	char command[4300], line[600];
	std::string all;
	Dl_info info;
	FILE *p;

	if (!dladdr((void *)&pages, &info))
		return "?";
	snprintf(command, sizeof command, "addr2line -s -i -e '%s' %x 2>/dev/null", info.dli_fname, pc - 1);
	if (!(p = popen(command, "r")))
		return "?";
	while (fgets(line, sizeof line, p)) {
		line[strcspn(line, " \n")] = 0;
		if (strncmp(line, "cuda_bf16", 9) && strncmp(line, "emu.h", 5) &&
		    strncmp(line, "emu_mma.h", 9))
			all += (all.empty() ? "" : " of ") + std::string(line);
	}
	pclose(p);
	return all.empty() ? "?" : all;
}

std::string described(const struct event &e)
{
	static const char *const kinds[] = { "read", "written", "changed atomically" };

	return std::string(kinds[e.kind]) + " by thread " + std::to_string(e.thread) + " of block " +
	       std::to_string(e.block) + " at " + lines(e.pc);
}

/* Tells whether two accesses are ordered: by one thread, or with a barrier in between.  Different blocks have
 * different shared memory. */
inline bool ordered(const struct event &a, const struct event &b, bool shared)
{
	if (a.launch != b.launch)
		return true;
	if (a.block != b.block)
		return shared;
	return a.thread == b.thread || a.block_epoch != b.block_epoch ||
	       (a.thread / 32 == b.thread / 32 && a.warp_epoch != b.warp_epoch);
}

__attribute__((noinline)) void report(const struct event &before, const struct event &e, const void *p,
                                      bool shared)
{
	emu::fail("race in %s memory: %p is %s, and %s, without a barrier in between",
	          shared ? "shared" : "global", p, described(before).c_str(), described(e).c_str());
}

inline void check(const struct event &before, const struct event &e, const void *p, bool shared)
{
	if (!ordered(before, e, shared) && (before.kind != ATOMIC || e.kind != ATOMIC))
		report(before, e, p, shared);
}

inline void access(struct cell &c, const struct event &e, const void *p, bool shared)
{
	check(c.written, e, p, shared);
	if (e.kind != READ) {
		check(c.read[0], e, p, shared);
		check(c.read[1], e, p, shared);
		c.written = e;
		return;
	}
	if (shared && (c.written.launch != e.launch || c.written.block != e.block))
		emu::fail("shared memory that no thread has written: %p is %s", p, described(e).c_str());
	if (ordered(c.read[0], e, shared))
		c.read[0] = e;
	else if (ordered(c.read[1], e, shared) ||
	         (c.read[0].block == c.read[1].block && c.read[0].thread / 32 == c.read[1].thread / 32))
		c.read[1] = e;
}

template <class T> bool is_part_of(uintptr_t p, const T &whole)
{
	return p - (uintptr_t)&whole < sizeof whole;
}

} // namespace

extern "C" void emu_race_access(const void *at, size_t n, int kind, const void *pc)
{
	const char *const q = (const char *)at;
	const uintptr_t p = (uintptr_t)at;
	bool shared = q >= emu::now.shared && q < emu::now.shared_end;

	if (emu::now.thread < 0 || (q >= emu::now.stacks && q < emu::now.stacks_end) ||
	    (q >= emu::now.args && q < emu::now.args_end))
		return;
	if (!object)
		find_object();
	const struct event e = { (uint32_t)((uintptr_t)pc - object),
		                 emu::now.launches,
		                 (uint32_t)emu::now.block,
		                 (uint16_t)emu::now.block_epoch,
		                 (uint16_t)emu::now.warp_epoch[emu::now.thread / 32],
		                 (uint16_t)emu::now.thread,
		                 (uint8_t)kind };
	if (shared) {
		if (!emu::in_piece(at, n))
			emu::fail("out of bounds in dynamic shared memory: %zu bytes at %p are %s", n, at,
			          described(e).c_str());
	} else if (p >= data && p < data_end) {
		if (is_part_of(p, threadIdx) || is_part_of(p, blockIdx) || is_part_of(p, blockDim) ||
		    is_part_of(p, gridDim))
			return;
		shared = true;
	} else if (p >= object && p < object_end) {
		return; /* constants */
	} else if (!emu::in_allocation(at, n)) {
		emu::illegal("an illegal memory access: %zu bytes at %p are %s", n, at, described(e).c_str());
	}
	for (uintptr_t i = p; i < p + n;) {
		struct page *page = page_of(i / PAGE);
		const uintptr_t stop = std::min(p + n, (i / PAGE + 1) * PAGE);

		while ((i | stop) & ((1u << page->shift) - 1))
			refine(page);
		for (; i < stop; i += (uintptr_t)1 << page->shift)
			access(page->cells[i % PAGE >> page->shift], e, at, shared);
	}
}
