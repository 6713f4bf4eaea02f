/* emu.cpp -- runs a kernel's blocks one after the other, and the threads of a block as fibres: stacks of their own, which take
 * turns where they wait for each other, warp by warp.  A switch costs some ten instructions, a barrier of 256 threads a few
 * microseconds.
 *
 * What it finds by itself: a launch that a GPU refuses; threads that wait for others which never come, or meet at different
 * barriers; shared memory that was not asked for.  The compiler's checks of alignment and of the bounds of arrays arrive here
 * too.  Shared memory begins as NaN.  ASan knows the fibres and the strips between pieces of shared memory; race.cpp, where
 * linked, is told of every access. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
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
#define EMU_UCONTEXT /* a hundred times slower: it asks the kernel for each switch */
#endif
#ifdef EMU_UCONTEXT
#include <ucontext.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emu {

struct state now;

namespace {

const size_t STACK = 256 << 10, GUARD = 4096, STRIP = 128, PIECES = 64, MOST_SHARED = 227 << 10, ROOM = MOST_SHARED + PIECES * STRIP;

struct copy { void *to; const void *from; int group; };

struct fibre {
	int thread = 0;
	uint3 idx{};
	bool done = true, at_warp = false, at_block = false;
	const char *file = "";                  /* where it waits */
	int line = 0;
	unsigned mask = 0;                      /* for whom, and what with */
	void *arg = nullptr;
	warp_fn fn = nullptr;
	bool orders = false;
	int count = 0;                          /* what the block's barrier gave */
	std::vector<struct copy> copies;        /* on their way */
	int groups = 0;                         /* of copies, closed */
	char *stack = nullptr;
	size_t stack_size = STACK;
#ifdef EMU_UCONTEXT
	ucontext_t context;
#else
	void *sp = nullptr;
#endif
	void *fake_stack = nullptr;             /* ASan's */
};

enum { FORWARD, REVERSE, RANDOM };
fibre *fibres, scheduler, *current;
int threads, alive, waiting, yeses;             /* of the block; waiting: at its barrier */
unsigned arrived[32], live[32];                 /* of each warp: lanes at an operation, lanes not yet returned */
struct call running;
size_t given;                                   /* bytes of dynamic shared memory */
std::map<const void *, size_t> allowed;
alignas(128) char room[ROOM];
std::vector<std::pair<const char *, size_t>> pieces;
int order = -1;
std::mt19937 dice;

cudaError_t fault_code = cudaSuccess, refused_code = cudaSuccess;
std::string fault_said, refused_said;
bool fault_comes;                               /* EMU_FAULT: it is seen when somebody waits */

/* ---- fibres ----------------------------------------------------------------------------------------------------- */

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

/* The first thing that a fibre does when its turn has come: ASan learns where we are. */
void switched(fibre &to)
{
	ASAN(const void *from; size_t size; __sanitizer_finish_switch_fiber(to.fake_stack, &from, &size);
	     if (&to != &scheduler) { scheduler.stack = (char *)from; scheduler.stack_size = size; })
	(void)to;
}

__attribute__((noinline)) void switch_to(fibre &from, fibre &to)
{
	ASAN(__sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_size);)
#ifdef EMU_UCONTEXT
	swapcontext(&from.context, &to.context);
#else
	emu_switch(&from.sp, to.sp);
#endif
	switched(from);
}

void wait(const bool &flag)
{
	while (*(const volatile bool *)&flag)
		switch_to(*current, scheduler);
}

void leave(fibre &me);

void live_and_die()
{
	for (switched(*current);;) {
		running.run(running.args);
		leave(*current);
		switch_to(*current, scheduler);
	}
}

void make_fibres()
{
	const size_t step = STACK + GUARD;
	char *m = (char *)mmap(nullptr, 1024 * step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

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
#ifdef EMU_UCONTEXT
		getcontext(&f.context);
		f.context.uc_stack.ss_sp = f.stack;
		f.context.uc_stack.ss_size = STACK;
		f.context.uc_link = nullptr;
		makecontext(&f.context, live_and_die, 0);
#else
		/* 8 modulo 16, as after a call; staggered, or the stacks share the sets of the cache */
		void **top = (void **)(f.stack + STACK - i * 208 % 8192) - 1;

		*top = nullptr;
		*--top = (void *)live_and_die;
		for (int r = 0; r < 6; r++)
			*--top = nullptr;
		f.sp = top;
#endif
	}
}

/* ---- those who wait --------------------------------------------------------------------------------------------- */

/* Lets a warp's lanes of mask go on if all that have not returned have come to the same operation. */
bool meet_in_warp(int w, unsigned mask)
{
	fibre *warp = fibres + 32 * w, *one = nullptr;
	void *args[32] = {};
	unsigned here = 0;

	if (mask & live[w] & ~arrived[w])
		return false;
	for (int l = 0; l < 32; l++) {
		if (!(mask & live[w] & 1u << l))
			continue;
		if (warp[l].mask != mask)
			return false;
		if (!one)
			one = &warp[l];
		else if (warp[l].fn != one->fn || warp[l].line != one->line)
			return false;
		here |= 1u << l;
		args[l] = warp[l].arg;
	}
	if (!one)
		return false;
	if (one->fn)
		one->fn(args, here);
	if (one->orders && here == live[w])
		now.warp_epoch[w]++; /* of a part of the warp: not modelled */
	arrived[w] &= ~here;
	for (int l = 0; l < 32; l++)
		if (here >> l & 1)
			warp[l].at_warp = false;
	return true;
}

void meet_in_block()
{
	const fibre *one = nullptr;

	if (!waiting || waiting < alive)
		return;
	for (fibre *f = fibres; f < fibres + threads; f++) {
		if (!f->at_block)
			continue;
		if (!one)
			one = f;
		else if (f->line != one->line)
			fail("divergent barrier: thread %d is at %s:%d, but thread %d at %s:%d", one->thread, one->file, one->line, f->thread,
			     f->file, f->line);
		f->count = yeses;
		f->at_block = false;
	}
	now.block_epoch++;
	waiting = yeses = 0;
}

/* The thread has returned from the kernel: others may have waited for that. */
void leave(fibre &me)
{
	const int w = me.thread / 32;

	if (!me.copies.empty())
		fail("thread %d returns before %zu copies have come", me.thread, me.copies.size());
	me.done = true;
	live[w] &= ~(1u << me.thread % 32);
	for (int l = 0; l < 32; l++)
		if ((arrived[w] >> l & 1) && meet_in_warp(w, fibres[32 * w + l].mask))
			break;
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

		if (f->done || (before && before->line == f->line && before->mask == f->mask))
			continue;
		if (f->at_block)
			snprintf(s, sizeof s, "; thread %d waits at %s:%d for the block", f->thread, f->file, f->line);
		else
			snprintf(s, sizeof s, "; thread %d waits at %s:%d for lanes %08x", f->thread, f->file, f->line, f->mask);
		who += s;
		before = f;
		shown++;
	}
	fail("deadlock: %d of %d threads have not returned and none can go on%s", alive, threads, who.c_str());
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

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
	for (fibre *f = fibres; f < fibres + threads; f++)
		f->done = f->at_warp = f->at_block = false;
	for (int w = 0; w < 32; w++) {
		const int n = threads - 32 * w;

		arrived[w] = 0;
		live[w] = n >= 32 ? ~0u : n > 0 ? (1u << n) - 1 : 0;
		now.warp_epoch[w] = 0;
	}
	alive = threads;
	waiting = yeses = 0;
	now.block = b;
	now.block_epoch = 0;
	blockIdx = { unsigned(b % gridDim.x), unsigned(b / gridDim.x % gridDim.y), unsigned(b / gridDim.x / gridDim.y) };
	pieces.clear();
	if (given) {
		ASAN(__asan_unpoison_memory_region(room, ROOM);)
		memset(room, 0xFF, given + PIECES * STRIP); /* NaN */
		ASAN(__asan_poison_memory_region(room, ROOM);)
	}
}

/* Warp by warp: each goes on until all its threads wait for the block, or have returned. */
void run_block(size_t b)
{
	static std::vector<int> warps, lanes;

	begin_block(b);
	while (alive > 0) {
		bool progress = false;

		in_order(warps, (threads + 31) / 32);
		for (int w : warps) {
			in_order(lanes, min(32, threads - 32 * w));
			for (bool again = true; again;) {
				again = false;
				for (int l : lanes) {
					fibre &f = fibres[32 * w + l];

					if (f.done || f.at_warp || f.at_block)
						continue;
					progress = again = true;
					current = &f;
					threadIdx = f.idx;
					now.thread = f.thread;
					switch_to(scheduler, f);
					now.thread = -1;
					if (fault_code)
						return; /* the fibres stay where they are */
				}
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

/* Takes the first fault; a thread that is at fault never goes on. */
void stop(cudaError_t code, const std::string &what)
{
	if (!fault_code) {
		fault_code = code;
		fault_said = what;
		if (now.thread >= 0)
			fault_said += " (block " + std::to_string(now.block) + " of the launch at " + running.file + ":" +
				std::to_string(running.line) + ")";
	}
	if (now.thread >= 0)
		switch_to(*current, scheduler);
}

}

/* ---- failures --------------------------------------------------------------------------------------------------- */

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const std::string what = formatted(fmt, ap);
	va_end(ap);
	stop(cudaErrorLaunchFailure, what);
}

void illegal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const std::string what = formatted(fmt, ap);
	va_end(ap);
	stop(cudaErrorIllegalAddress, what);
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
		stop(cudaErrorIllegalAddress, "an illegal memory access was encountered");
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
	return code == fault_code && code ? fault_said.c_str() : code && !refused_said.empty() ? refused_said.c_str() : "no error";
}

long long setting(const char *name, long long otherwise)
{
	const char *s = getenv(name);

	return s ? atoll(s) : otherwise;
}

/* ---- what kernels call ------------------------------------------------------------------------------------------ */

void warp_op(unsigned mask, void *arg, warp_fn fn, bool orders, const char *file, int line)
{
	fibre &me = *current;
	const int w = me.thread / 32;

	me.file = file;
	me.line = line;
	if (!(mask >> me.thread % 32 & 1))
		fail("thread %d is not in its own mask %08x at %s:%d", me.thread, mask, file, line);
	me.mask = mask;
	me.arg = arg;
	me.fn = fn;
	me.orders = orders;
	me.at_warp = true;
	arrived[w] |= 1u << me.thread % 32;
	if (!meet_in_warp(w, mask))
		wait(me.at_warp);
}

int block_barrier(bool yes, const char *file, int line)
{
	fibre &me = *current;

	me.file = file;
	me.line = line;
	me.at_block = true;
	waiting++;
	yeses += yes;
	meet_in_block();
	wait(me.at_block);
	return me.count;
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

void allow_smem(const void *fn, size_t bytes)
{
	if (bytes > MOST_SHARED)
		refuse(cudaErrorInvalidValue, "%zu bytes of shared memory: no GPU has so much", bytes);
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
		refuse(cudaErrorInvalidConfiguration, "a block of %ux%ux%u threads (%s:%d)", block.x, block.y, block.z, c->file, c->line);
	else if (!all || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
		refuse(cudaErrorInvalidConfiguration, "a grid of %ux%ux%u blocks (%s:%d)", grid.x, grid.y, grid.z, c->file, c->line);
	else if (bytes > most)
		refuse(cudaErrorInvalidValue, "%zu bytes of dynamic shared memory where %zu are allowed (%s:%d)", bytes, most, c->file, c->line);
	if (refused_code)
		return;
	if (++now.launches == faulty) {
		fault_comes = true;
		return;
	}
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
	in_order(blocks, all);
	for (size_t i = 0; i < all && !fault_code; i++)
		run_block((size_t)blocks[i]);
}

}

/* ---- the compiler's checks -------------------------------------------------------------------------------------- */

/* Of -fsanitize=alignment,bounds, which want a runtime: this is it, where no other is. */
#ifndef __SANITIZE_ADDRESS__
namespace {
struct place { const char *file; uint32_t line, column; };
struct type { uint16_t kind, info; char name[1]; };
struct mismatch { struct place at; const struct type *type; unsigned char log_alignment, kind; };
struct beyond { struct place at; const struct type *array, *index; };
}

extern "C" void __ubsan_handle_type_mismatch_v1(struct mismatch *m, void *p)
{
	emu::fail("misaligned access at %s:%u: %p for %s, which wants a multiple of %d", m->at.file, m->at.line, p, m->type->name,
	          1 << m->log_alignment);
}

extern "C" void __ubsan_handle_out_of_bounds(struct beyond *b, void *index)
{
	emu::fail("out of bounds at %s:%u: element %lld of %s", b->at.file, b->at.line, (long long)(intptr_t)index, b->array->name);
}
#endif
