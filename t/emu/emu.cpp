/* emu.cpp -- runs a kernel's blocks one after the other, and the threads of a block as fibres.  A fibre has
 * its own stack; the fibres switch where they wait for each other, warp by warp.  A switch costs some ten
 * instructions, a barrier of 256 threads a few microseconds.
 *
 * It detects a launch that a GPU refuses; threads that wait for others which never come, or meet at different
 * barriers; shared memory that was not requested.  The compiler's checks of alignment and of array bounds
 * also report here.  Shared memory begins as NaN.  ASan knows the fibres and the strips between pieces of
 * shared memory; race.cpp, if linked, gets every access. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "emu.h"
#include "emu_rt.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(x) x
#else
#define ASAN(x)
#endif
#ifndef __x86_64__
#define EMU_UCONTEXT /* a hundred times slower: each switch is a system call */
#endif
#ifdef EMU_UCONTEXT
#include <ucontext.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emu
{

struct state now;

namespace
{

const size_t STACK = 256 << 10, GUARD = 4096, STRIP = 128, PIECES = 64, MOST_SHARED = 227 << 10,
	     ROOM = MOST_SHARED + PIECES * STRIP;

struct copy {
	void *to;
	const void *from;
	int group;
};

struct fibre {
	int thread = 0, warp = 0;
	unsigned lane = 0; /* the lane as a bit */
	uint3 idx{};
	const char *file = ""; /* where the thread waits, */
	int line = 0;
	unsigned mask = 0; /* for which lanes, and what they do together */
	warp_fn fn = nullptr;
	bool orders = false;
	std::vector<struct copy> copies; /* copies in progress */
	int groups = 0;                  /* closed groups of copies */
	char *stack = nullptr;
	size_t stack_size = STACK;
#ifdef EMU_UCONTEXT
	ucontext_t context;
#else
	void *sp = nullptr;
#endif
	void *fake_stack = nullptr; /* of ASan */
};

/* A warp.  Bits: the lanes that have not returned (live), that may go on (ready), that have reached an
 * operation of the warp (arrived).  first: the first of the lanes that arrived; mixed: another lane waits for
 * something else; arg: the argument of each lane. */
struct warp {
	unsigned live, ready, arrived;
	bool mixed;
	const fibre *first;
	void *arg[32];
};

enum { FORWARD, REVERSE, RANDOM };
fibre *fibres, scheduler, *current, *last; /* last: the fibre that ran before */
struct warp warps[32];
/* threads of the block; waiting: threads at the barrier; counted: the barrier's result */
int threads, alive, waiting, yeses, counted;
const fibre *first_waiting, *elsewhere; /* elsewhere: a thread at another barrier */
std::vector<int> lanes;                 /* in the order in which they run, */
size_t turn;                            /* and the position of the current lane */
struct call running;
size_t given; /* bytes of dynamic shared memory */
std::map<const void *, size_t> allowed;
alignas(128) char room[ROOM];
std::vector<std::pair<const char *, size_t>> pieces;
int order = -1;
std::mt19937 dice;

cudaError_t fault_code = cudaSuccess, refused_code = cudaSuccess;
std::string fault_said, refused_said;
bool fault_comes; /* EMU_FAULT: the fault shows when the host waits */

/* ---- fibres -------------------------------------------------------------------------------- */

#ifndef EMU_UCONTEXT
extern "C" void emu_switch(void **save, void *to);
asm(R"(.text
.globl emu_switch
.hidden emu_switch
.type emu_switch, @function
emu_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
.size emu_switch, . - emu_switch
)");
#endif

/* Tells ASan which stack runs.  A fibre calls this first after each switch. */
void switched(fibre &to)
{
	ASAN(const void *from; size_t size; __sanitizer_finish_switch_fiber(to.fake_stack, &from, &size);
	     if (last == &scheduler) {
		     scheduler.stack = (char *)from;
		     scheduler.stack_size = size;
	     })
	(void)to;
}

__attribute__((noinline)) void switch_to(fibre &from, fibre &to)
{
	last = &from;
	ASAN(__sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_size);)
#ifdef EMU_UCONTEXT
	swapcontext(&from.context, &to.context);
#else
	emu_switch(&from.sp, to.sp);
#endif
	switched(from);
}

/* Returns the fibre of a warp that runs next. */
fibre *next_lane(int w)
{
	for (size_t n = lanes.size(); warps[w].ready && n; n--) {
		turn = turn + 1 < lanes.size() ? turn + 1 : 0;
		if (warps[w].ready >> lanes[turn] & 1)
			return &fibres[32 * w + lanes[turn]];
	}
	return nullptr;
}

void go_on(fibre &from, fibre &to)
{
	current = &to;
	threadIdx = to.idx;
	now.thread = to.thread;
	switch_to(from, to);
}

/* Switches to another fibre, because this thread waits for others or has returned. */
void switch_away()
{
	fibre &me = *current, *to = next_lane(me.warp);

	if (to)
		go_on(me, *to);
	else
		switch_to(me, scheduler);
}

void handle_return(fibre &me);

void live_and_die()
{
	for (switched(*current);;) {
		running.run(running.args);
		handle_return(*current);
		switch_away();
	}
}

void make_fibres()
{
	const size_t step = STACK + GUARD;
	char *m = (char *)mmap(nullptr, 1024 * step, PROT_READ | PROT_WRITE,
	                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (m == MAP_FAILED)
		abort();
	now.stacks = m;
	now.stacks_end = m + 1024 * step;
	now.shared = room;
	now.shared_end = room + ROOM;
	fibres = new fibre[1024];
	for (int i = 0; i < 1024; i++) {
		fibre &f = fibres[i];

		mprotect(m + i * step, GUARD, PROT_NONE);
		f.stack = m + i * step + GUARD;
		f.thread = i;
		f.warp = i / 32;
		f.lane = 1u << i % 32;
#ifdef EMU_UCONTEXT
		getcontext(&f.context);
		f.context.uc_stack.ss_sp = f.stack;
		f.context.uc_stack.ss_size = STACK;
		f.context.uc_link = nullptr;
		makecontext(&f.context, live_and_die, 0);
#else
		/* 8 modulo 16, as after a call; staggered, because otherwise the stacks share sets of the
		 * cache */
		void **top = (void **)(f.stack + STACK - i * 208 % 8192) - 1;

		*top = nullptr;
		*--top = (void *)live_and_die;
		for (int r = 0; r < 6; r++)
			*--top = nullptr;
		f.sp = top;
#endif
	}
}

/* ---- waiting threads ----------------------------------------------------------------------- */

/* Tells whether all lanes of mask that have not returned have reached the same operation. */
bool all_here(int w, unsigned mask)
{
	const fibre *warp = fibres + 32 * w, *one = nullptr;
	const unsigned here = mask & warps[w].live;

	if (!here || (here & ~warps[w].arrived))
		return false;
	for (int l = 0; warps[w].mixed && l < 32; l++) {
		if (!(here >> l & 1))
			continue;
		if (!one)
			one = &warp[l];
		if (warp[l].mask != mask || warp[l].fn != one->fn || warp[l].line != one->line)
			return false;
	}
	return true;
}

/* If all have arrived, performs the operation and lets the lanes go on. */
void meet_in_warp(int w, unsigned mask, bool orders)
{
	struct warp &it = warps[w];
	const unsigned here = mask & it.live;

	if (!all_here(w, mask))
		return;
	if (const warp_fn fn = fibres[32 * w + __builtin_ctz(here)].fn)
		fn(it.arg, here);
	if (orders && here == it.live)
		now.warp_epoch[w]++; /* a part of the warp: not modelled */
	it.arrived &= ~here;
	it.ready |= here;
}

void meet_in_block()
{
	if (!waiting || waiting < alive)
		return;
	if (elsewhere)
		fail("divergent barrier: thread %d is at %s:%d, but thread %d at %s:%d",
		     first_waiting->thread, first_waiting->file, first_waiting->line, elsewhere->thread,
		     elsewhere->file, elsewhere->line);
	now.block_epoch++;
	counted = yeses;
	waiting = yeses = 0;
	for (struct warp &w : warps)
		w.ready = w.live;
}

/* Handles a thread's return from the kernel: others may have waited for that. */
void handle_return(fibre &me)
{
	struct warp &it = warps[me.warp];

	if (!me.copies.empty())
		fail("thread %d returns before %zu copies have come", me.thread, me.copies.size());
	it.live &= ~me.lane;
	it.ready &= ~me.lane;
	for (unsigned left = it.arrived; left; left &= left - 1) {
		const fibre &f = fibres[32 * me.warp + __builtin_ctz(left)];

		if (it.arrived & f.lane)
			meet_in_warp(me.warp, f.mask, f.orders);
	}
	alive--;
	meet_in_block();
}

void stuck()
{
	const fibre *before = nullptr;
	std::string who;
	int shown = 0;

	for (fibre *f = fibres; f < fibres + threads && shown < 6; f++) {
		char s[300];

		if (!(warps[f->warp].live & f->lane) ||
		    (before && before->line == f->line && before->mask == f->mask))
			continue;
		if (warps[f->warp].arrived & f->lane)
			snprintf(s, sizeof s, "; thread %d waits at %s:%d for lanes %08x", f->thread, f->file,
			         f->line, f->mask);
		else
			snprintf(s, sizeof s, "; thread %d waits at %s:%d for the block", f->thread, f->file,
			         f->line);
		who += s;
		before = f;
		shown++;
	}
	fail("deadlock: %d of %d threads have not returned and none can go on%s", alive, threads,
	     who.c_str());
}

/* ---- blocks -------------------------------------------------------------------------------- */

void in_order(std::vector<int> &o, size_t n)
{
	o.resize(n);
	for (size_t i = 0; i < n; i++)
		o[i] = (int)(order == REVERSE ? n - 1 - i : i);
	if (order == RANDOM)
		std::shuffle(o.begin(), o.end(), dice);
}

void begin_block(size_t b)
{
	for (int w = 0; w < 32; w++) {
		const int n = threads - 32 * w;

		warps[w].live = warps[w].ready = n >= 32 ? ~0u : n > 0 ? (1u << n) - 1 : 0;
		warps[w].arrived = 0;
		now.warp_epoch[w] = 0;
	}
	alive = threads;
	waiting = yeses = 0;
	now.block = b;
	now.block_epoch = 0;
	blockIdx = { unsigned(b % gridDim.x), unsigned(b / gridDim.x % gridDim.y),
		     unsigned(b / gridDim.x / gridDim.y) };
	pieces.clear();
	if (given) {
		ASAN(__asan_unpoison_memory_region(room, ROOM);)
		memset(room, 0xFF, given + PIECES * STRIP); /* NaN */
		ASAN(__asan_poison_memory_region(room, ROOM);)
	}
}

/* Runs a block warp by warp: each warp runs until all its threads wait for the block, or have returned. */
void run_block(size_t b)
{
	static std::vector<int> order_of_warps;

	begin_block(b);
	while (alive > 0) {
		bool progress = false;

		in_order(order_of_warps, (threads + 31) / 32);
		for (int w : order_of_warps) {
			in_order(lanes, min(32, threads - 32 * w));
			turn = lanes.size() - 1;
			while (fibre *f = next_lane(w)) {
				progress = true;
				go_on(scheduler, *f);
				now.thread = -1;
				if (fault_code)
					return; /* the fibres are abandoned */
			}
		}
		if (!progress) {
			stuck();
			return;
		}
	}
}

void choose_order()
{
	const char *s = getenv("EMU_ORDER");

	order = !s || !strcmp(s, "fwd") ? FORWARD : !strcmp(s, "rev") ? REVERSE : RANDOM;
	if (order == RANDOM)
		dice.seed((unsigned)strtoul(strncmp(s, "rand:", 5) ? s : s + 5, nullptr, 10));
}

std::string formatted(const char *fmt, va_list ap)
{
	char s[1500];

	vsnprintf(s, sizeof s, fmt, ap);
	return s;
}

/* Records the first fault; a thread that caused a fault never goes on. */
void raise_fault(cudaError_t code, const std::string &what)
{
	if (!fault_code) {
		fault_code = code;
		fault_said = what;
		if (now.thread >= 0)
			fault_said += " (block " + std::to_string(now.block) + " of the launch at " +
			              running.file + ":" + std::to_string(running.line) + ")";
	}
	if (now.thread >= 0)
		switch_to(*current, scheduler);
}

/* Writes a line for each way to launch a kernel: its address in its shared object, threads, bytes of dynamic
 * shared memory, blocks. */
void record_launch(const struct call *c, size_t n, size_t bytes, size_t blocks)
{
	static FILE *const file = fopen(getenv("EMU_LAUNCHES"), "w");
	static std::set<std::tuple<const void *, size_t, size_t, size_t>> noted;
	Dl_info info;

	if (file && noted.insert({ c->kernel, n, bytes, blocks }).second && dladdr(c->kernel, &info)) {
		fprintf(file, "%zx %zu %zu %zu\n",
		        (size_t)((const char *)c->kernel - (const char *)info.dli_fbase), n, bytes, blocks);
		fflush(file);
	}
}

} // namespace

/* ---- failures ------------------------------------------------------------------------------ */

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const std::string what = formatted(fmt, ap);
	va_end(ap);
	raise_fault(cudaErrorLaunchFailure, what);
}

void illegal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const std::string what = formatted(fmt, ap);
	va_end(ap);
	raise_fault(cudaErrorIllegalAddress, what);
}

cudaError_t refuse(cudaError_t code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refused_said = formatted(fmt, ap);
	va_end(ap);
	return refused_code = code;
}

cudaError_t fault(bool waits)
{
	if (waits && fault_comes)
		raise_fault(cudaErrorIllegalAddress, "an illegal memory access was encountered");
	return fault_code;
}

cudaError_t last_error()
{
	const cudaError_t code = fault_code ? fault_code : refused_code;

	refused_code = cudaSuccess;
	return code;
}

const char *sentence(cudaError_t code)
{
	return code == fault_code && code      ? fault_said.c_str()
	       : code && !refused_said.empty() ? refused_said.c_str()
	                                       : "no error";
}

long long setting(const char *name, long long otherwise)
{
	const char *s = getenv(name);

	return s ? atoll(s) : otherwise;
}

bool only_noted()
{
	static const bool is = getenv("EMU_LAUNCHES") != nullptr;

	return is;
}

bool computes() { return !only_noted() && !reckon_launch; }

/* ---- functions that kernels call ----------------------------------------------------------- */

void warp_op(unsigned mask, void *arg, warp_fn fn, bool orders, const char *file, int line)
{
	fibre &me = *current;
	struct warp &it = warps[me.warp];

	if (reckon_met)
		reckon_met(1);
	me.file = file;
	me.line = line;
	if (!(mask & me.lane))
		fail("thread %d is not in its own mask %08x at %s:%d", me.thread, mask, file, line);
	me.mask = mask;
	me.fn = fn;
	me.orders = orders;
	if (!it.arrived) {
		it.first = &me;
		it.mixed = false;
	} else if (mask != it.first->mask || fn != it.first->fn || line != it.first->line) {
		it.mixed = true;
	}
	it.arg[me.thread % 32] = arg;
	it.arrived |= me.lane;
	it.ready &= ~me.lane;
	meet_in_warp(me.warp, mask, orders);
	if (!(it.ready & me.lane))
		switch_away();
}

int block_barrier(bool yes, const char *file, int line)
{
	fibre &me = *current;

	if (reckon_met)
		reckon_met(1);
	me.file = file;
	me.line = line;
	if (!waiting++) {
		first_waiting = &me;
		elsewhere = nullptr;
	} else if (line != first_waiting->line) {
		elsewhere = &me;
	}
	yeses += yes;
	warps[me.warp].ready &= ~me.lane;
	meet_in_block();
	if (!(warps[me.warp].ready & me.lane))
		switch_away();
	return counted;
}

void *carver::piece(size_t bytes)
{
	char *p = room + STRIP + at;
	const std::pair<const char *, size_t> one(p, bytes);

	at += (bytes + 127) / 128 * 128 + STRIP;
	taken += (bytes + 127) / 128 * 128;
	if (taken > given)
		fail("%zu bytes of dynamic shared memory are taken, the launch gave %zu", taken, given);
	if (at + STRIP > ROOM)
		fail("dynamic shared memory in more than %zu pieces", PIECES - 1);
	if (std::find(pieces.begin(), pieces.end(), one) == pieces.end())
		pieces.push_back(one);
	ASAN(__asan_unpoison_memory_region(p, bytes);)
	return p;
}

bool in_piece(const void *p, size_t n)
{
	for (const auto &one : pieces)
		if ((const char *)p >= one.first && (const char *)p + n <= one.first + one.second)
			return true;
	return false;
}

void copy_16(void *to, const void *from)
{
	fibre &me = *current;

	if ((uintptr_t)to % 16 || (uintptr_t)from % 16)
		fail("misaligned access: a copy of 16 bytes from %p to %p", from, to);
	if (emu_race_access) {
		emu_race_access(from, 16, 0, __builtin_return_address(0));
		emu_race_access(to, 16, 1, __builtin_return_address(0));
	}
	memset(to, 0xFF, 16);
	me.copies.push_back({ to, from, me.groups });
}

void copies_close() { current->groups++; }

void copies_wait(int all_but)
{
	fibre &me = *current;
	size_t left = 0;

	for (const struct copy &c : me.copies) {
		if (c.group >= me.groups - all_but) {
			me.copies[left++] = c;
			continue;
		}
		if (emu_race_access)
			emu_race_access(c.to, 16, 1, __builtin_return_address(0));
		memcpy(c.to, c.from, 16);
	}
	me.copies.resize(left);
}

size_t most_shared()
{
	static const size_t most = (size_t)setting("EMU_SHARED", MOST_SHARED >> 10) << 10;

	return most < MOST_SHARED ? most : MOST_SHARED;
}

void allow_smem(const void *fn, size_t bytes)
{
	if (bytes > most_shared())
		refuse(cudaErrorInvalidValue, "%zu bytes of shared memory, of which a block may have %zu",
		       bytes, most_shared());
	else
		allowed[fn] = bytes;
}

void launch_call(const struct call *c, dim3 grid, dim3 block, size_t bytes)
{
	static const long long faulty = setting("EMU_FAULT", 0);
	static std::vector<int> blocks;
	const size_t n = (size_t)block.x * block.y * block.z, all = (size_t)grid.x * grid.y * grid.z;
	const size_t most = allowed.count(c->kernel) ? allowed[c->kernel] : 48 << 10;

	if (fault_code || fault_comes)
		return;
	if (!n || n > 1024 || block.z > 64)
		refuse(cudaErrorInvalidConfiguration, "a block of %ux%ux%u threads (%s:%d)", block.x, block.y,
		       block.z, c->file, c->line);
	else if (!all || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
		refuse(cudaErrorInvalidConfiguration, "a grid of %ux%ux%u blocks (%s:%d)", grid.x, grid.y,
		       grid.z, c->file, c->line);
	else if (bytes > most)
		refuse(cudaErrorInvalidValue,
		       "%zu bytes of dynamic shared memory where %zu are allowed (%s:%d)", bytes, most,
		       c->file, c->line);
	if (refused_code || !on_stream(c->stream, "a launch"))
		return;
	if (only_noted()) {
		record_launch(c, n, bytes, all);
		return;
	}
	if (++now.launches == faulty) {
		fault_comes = true;
		return;
	}
	settle();
	if (order < 0)
		choose_order();
	if (!fibres)
		make_fibres();
	running = *c;
	now.args = (const char *)c->args;
	now.args_end = now.args + c->args_size;
	given = bytes;
	threads = (int)n;
	blockDim = block;
	gridDim = grid;
	for (unsigned i = 0; i < n; i++)
		fibres[i].idx = { i % block.x, i / block.x % block.y, i / block.x / block.y };
	if (reckon_launch) {
		reckon_launch(c, grid, block, bytes, run_block);
		return;
	}
	in_order(blocks, all);
	for (size_t i = 0; i < all && !fault_code; i++)
		run_block((size_t)blocks[i]);
}

} // namespace emu

/* ---- the compiler's checks ----------------------------------------------------------------- */

/* The runtime of -fsanitize=alignment,bounds, unless another sanitizer brings one. */
#ifndef __SANITIZE_ADDRESS__
namespace
{
struct place {
	const char *file;
	uint32_t line, column;
};
struct type {
	uint16_t kind, info;
	char name[1];
};
struct mismatch {
	struct place at;
	const struct type *type;
	unsigned char log_alignment, kind;
};
struct beyond {
	struct place at;
	const struct type *array, *index;
};
} // namespace

extern "C" void __ubsan_handle_type_mismatch_v1(struct mismatch *m, void *p)
{
	emu::fail("misaligned access at %s:%u: %p for %s, which wants a multiple of %d", m->at.file,
	          m->at.line, p, m->type->name, 1 << m->log_alignment);
}

extern "C" void __ubsan_handle_out_of_bounds(struct beyond *b, void *index)
{
	emu::fail("out of bounds at %s:%u: element %lld of %s", b->at.file, b->at.line,
	          (long long)(intptr_t)index, b->array->name);
}
#endif
