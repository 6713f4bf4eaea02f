/* device_check.c -- the checking device: the CPU's kernels on memory that the host cannot access, with errors
 * that appear as late as on a GPU.  Tests run on it, so that host code that would fail on a GPU fails without
 * one.
 *
 * - A handle is an address plus a skew that no user address has; if the host dereferences it, that is a
 *   fault.
 * - Every operation waits, with a copy of its arguments, until sync or download.  So host memory that is
 *   changed too late or freed too early shows, and failures are visible only at sync.
 * - New memory is full of NaN.  It ends at an inaccessible page.  The unused bytes before it in its first
 *   page, and after it up to a multiple of 64, are checked for writes.  Released memory becomes inaccessible,
 *   and its addresses are not used again for a while.
 * - Every handle of an operation must be in memory that is not released, and handles that the operation needs
 *   must not be NULL.
 *
 * A fault in a kernel, like one in host code, ends the process: the debugger then shows where. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "cpu/device_cpu.h"

/* not a valid address on x86-64; an address of the kernel on arm64, which ignores the top byte */
#define SKEW ((uintptr_t)0x5afe << 48)

enum { WATCHED = 0xa5, FRESH = 0xff, LONG = 16 << 20, GRAVES = 1000 };

/* One allocation: pages whose last bytes belong to the caller, between two inaccessible pages. */
struct area {
	char *map, *at; /* at: the caller's first byte */
	size_t map_bytes, bytes;
	bool released; /* released by the host; the queue may still hold operations on it */
	bool removed;  /* the pages are removed */
};

enum kind {
	UPLOAD,
	ZERO,
	RELEASE,
#define X(op) OP_##op,
	RF_OPS(X)
#undef X
};

/* An entry of the queue, followed by the bytes to upload or the operation's arguments. */
struct waiting {
	enum kind kind;
	void *to;
	size_t bytes;
	size_t next; /* bytes from this entry to the next */
};

struct check {
	struct rf_dev cpu; /* the device that computes; sync reports its err */
	size_t page;
	struct area *area;
	size_t areas, room, removed;
	char *queue;
	size_t used, size;
};

static struct check *check_of(struct rf_dev *d) { return d->impl; }

/* ---- memory -------------------------------------------------------------------------------- */

/* Finds the allocation that a handle points into and that the host has not released.  Returns NULL if no
 * allocation has `bytes` bytes from there on. */
static struct area *area_of(struct check *c, const void *handle, size_t bytes)
{
	uintptr_t p = (uintptr_t)handle - SKEW; /* the end is also valid: for 0 rows */

	for (size_t i = c->areas; i-- > 0;) {
		struct area *a = &c->area[i];
		if (!a->released && p >= (uintptr_t)a->at && p - (uintptr_t)a->at <= a->bytes)
			return bytes <= a->bytes - (p - (uintptr_t)a->at) ? a : NULL;
	}
	return NULL;
}

static bool is_untouched(const char *from, const char *to)
{
	while (from < to)
		if (*from++ != (char)WATCHED)
			return false;
	return true;
}

/* Fails the device if an operation wrote outside the caller's bytes. */
static void check_guards(struct check *c, const struct area *a)
{
	if (!is_untouched(a->map + c->page, a->at) ||
	    !is_untouched(a->at + a->bytes, a->map + a->map_bytes - c->page))
		rf_dev_fail(&c->cpu, RF_ENUMERIC,
		            "an operation wrote outside a block of %zu bytes of device memory", a->bytes);
}

static void *check_alloc(struct rf_dev *d, size_t bytes)
{
	struct check *c = check_of(d);
	size_t mine = (bytes + 63) / 64 * 64, data = (mine + c->page - 1) / c->page * c->page,
	       all = data + 2 * c->page;
	struct area a = { .map = MAP_FAILED, .map_bytes = all, .bytes = bytes };

	if (c->areas == c->room) {
		size_t room = 2 * c->room + 64;
		struct area *more = realloc(c->area, room * sizeof *more);
		if (more) {
			c->area = more;
			c->room = room;
		}
	}
	if (c->areas < c->room && all > bytes)
		a.map = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (a.map == MAP_FAILED || (data && mprotect(a.map + c->page, data, PROT_READ | PROT_WRITE))) {
		if (a.map != MAP_FAILED)
			munmap(a.map, all);
		rf_dev_fail(d, RF_ENOMEM, "out of memory: wanted %zu MiB more, %zu MiB are in use",
		            bytes >> 20, d->used >> 20);
		return NULL;
	}
	a.at = a.map + c->page + data - mine;
	memset(a.map + c->page, WATCHED, data);
	memset(a.at, FRESH, bytes);
	c->area[c->areas++] = a;
	d->used += bytes;
	d->peak = d->used > d->peak ? d->used : d->peak;
	return a.at + SKEW;
}

/* Removes the pages but reserves the addresses, so that an operation that still uses them faults. */
static void remove_pages(struct check *c, const char *at)
{
	size_t i = 0;

	while (c->area[i].at != at || c->area[i].removed)
		i++;
	check_guards(c, &c->area[i]);
	rf_cpu_gemm_forget(&c->cpu, at, c->area[i].bytes);
	mmap(c->area[i].map, c->area[i].map_bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	c->area[i].removed = true;
	if (++c->removed <= GRAVES)
		return;
	for (i = 0; !c->area[i].removed; i++)
		;
	munmap(c->area[i].map, c->area[i].map_bytes);
	memmove(&c->area[i], &c->area[i + 1], (--c->areas - i) * sizeof *c->area);
	c->removed--;
}

/* ---- the queue ----------------------------------------------------------------------------- */

static void execute(struct check *c, struct waiting *w)
{
	void *a = w + 1;

	if (w->kind == RELEASE) {
		remove_pages(c, w->to);
		return;
	}
	if (c->cpu.err.code != RF_OK) /* as on a GPU: after a failure nothing runs */
		return;
	switch (w->kind) {
	/* clang-format off */
	case UPLOAD:  rf_cpu_upload(&c->cpu, w->to, a, w->bytes); break;
	case ZERO:    rf_cpu_zero(&c->cpu, w->to, w->bytes); break;
	/* clang-format on */
	case RELEASE: break;
#define X(op) \
	case OP_##op: c->cpu.ops->op(&c->cpu, a); break;
		RF_OPS(X)
#undef X
	}
}

static void run_queue(struct check *c)
{
	struct waiting *w;

	for (size_t i = 0; i < c->used; i += w->next) {
		w = (struct waiting *)(void *)(c->queue + i);
		execute(c, w);
	}
	c->used = 0;
}

/* Appends an operation to the queue, with a copy of the n bytes at `follow`. */
static void enqueue(struct check *c, enum kind kind, void *to, size_t bytes, const void *follow, size_t n)
{
	struct waiting w = { .kind = kind, .to = to, .bytes = bytes, .next = (sizeof w + n + 15) / 16 * 16 };

	if (c->used + w.next > LONG)
		run_queue(c);
	if (c->used + w.next > c->size) {
		size_t size = 2 * (c->used + w.next);
		char *more = realloc(c->queue, size);
		if (!more) {
			rf_dev_fail(&c->cpu, RF_ENOMEM, "out of memory (the queue of the device 'check')");
			return;
		}
		c->queue = more;
		c->size = size;
	}
	memcpy(c->queue + c->used, &w, sizeof w);
	if (n)
		memcpy(c->queue + c->used + sizeof w, follow, n);
	c->used += w.next;
}

/* ---- the table ----------------------------------------------------------------------------- */

static enum rf_code check_open(struct rf_dev *d, struct rf_err *e)
{
	struct check *c = calloc(1, sizeof *c);

	if (!c)
		return rf_fail(e, RF_ENOMEM, "out of memory (the device 'check')");
	c->page = (size_t)sysconf(_SC_PAGESIZE);
	c->cpu = (struct rf_dev){ .ops = rf_cpu_ops(), .threads = d->threads, .math = d->math };
	if (rf_cpu_open(&c->cpu, e) != RF_OK) {
		free(c);
		return e ? e->code : RF_ENOMEM;
	}
	cpu_of(&c->cpu)->skew = SKEW;
	d->impl = c;
	return RF_OK;
}

static void check_close(struct rf_dev *d)
{
	struct check *c = check_of(d);

	if (!c)
		return;
	rf_cpu_close(&c->cpu);
	for (size_t i = 0; i < c->areas; i++)
		munmap(c->area[i].map, c->area[i].map_bytes);
	free(c->area);
	free(c->queue);
	free(c);
	d->impl = NULL;
}

static void check_release(struct rf_dev *d, void *p)
{
	struct check *c = check_of(d);
	struct area *a = area_of(c, p, 0);

	if (!p)
		return;
	if (!a || a->at != (char *)p - SKEW) {
		rf_dev_fail(&c->cpu, RF_ENUMERIC,
		            "the released address is not the beginning of live device memory");
		return;
	}
	a->released = true;
	d->used -= a->bytes;
	enqueue(c, RELEASE, a->at, 0, NULL, 0);
}

/* Prepares the queue's memory, and the last pages of every allocation. */
static void check_prepare(struct rf_dev *d, const struct rf_workspace *need)
{
	rf_cpu_prepare(&check_of(d)->cpu, need);
}

static size_t check_workspace(struct rf_dev *d, const struct rf_workspace *need)
{
	return rf_cpu_workspace(&check_of(d)->cpu, need) + 2 * LONG;
}

static bool is_live(struct check *c, const char *op, const char *what, const void *handle, size_t bytes)
{
	if (handle && !area_of(c, handle, bytes))
		rf_dev_fail(&c->cpu, RF_ENUMERIC, "%s: %s is not in live device memory", op, what);
	return c->cpu.err.code == RF_OK;
}

static bool is_given(struct check *c, const char *op, const char *what, const void *handle)
{
	if (!handle)
		rf_dev_fail(&c->cpu, RF_ENUMERIC, "%s: %s is NULL", op, what);
	return handle;
}

static void check_upload(struct rf_dev *d, void *to, const void *from, size_t bytes)
{
	if (bytes && is_live(check_of(d), "upload", "the target", to, bytes))
		enqueue(check_of(d), UPLOAD, to, bytes, from, bytes);
}

static void check_zero(struct rf_dev *d, void *to, size_t bytes)
{
	if (bytes && is_live(check_of(d), "zero", "the target", to, bytes))
		enqueue(check_of(d), ZERO, to, bytes, NULL, 0);
}

/* Downloads.  After a failure the host gets NaN, and sync reports why. */
static void check_download(struct rf_dev *d, void *to, const void *from, size_t bytes)
{
	struct check *c = check_of(d);

	if (!bytes)
		return;
	run_queue(c);
	memset(to, FRESH, bytes);
	if (is_live(c, "download", "the source", from, bytes))
		rf_cpu_download(&c->cpu, to, from, bytes);
}

static void check_sync(struct rf_dev *d)
{
	struct check *c = check_of(d);

	run_queue(c);
	for (size_t i = 0; i < c->areas; i++)
		if (!c->area[i].removed)
			check_guards(c, &c->area[i]);
	if (c->cpu.err.code != RF_OK)
		rf_dev_fail(d, c->cpu.err.code, "%s", c->cpu.err.msg);
}

/* The handles among an operation's arguments.  O: handles that may be NULL (dev.h), or are not read if there
 * is nothing to compute.  H: the other handles; if one is NULL, this device fails, even where the CPU would
 * not. */
#define HANDLES_gemm(H, O)        H(a) H(b) H(c) O(bias)
#define HANDLES_gemms(H, O)       H(a) H(c) H(b[0]) O(b[1]) O(b[2])
#define HANDLES_colsum(H, O)      H(x) H(y)
#define HANDLES_embed_fwd(H, O)   H(tokens) H(w) H(y)
#define HANDLES_embed_bwd(H, O)   H(tokens) H(dy) H(dw)
#define HANDLES_rows(H, O)        H(from) H(to) O(fi) O(ti)
#define HANDLES_tail_load(H, O)   H(x) H(slots) O(slot)
#define HANDLES_tail_keep(H, O)   H(x) H(slots) H(row) H(slot)
#define HANDLES_rmsnorm_fwd(H, O) H(x) H(w) O(gate) H(y)
#define HANDLES_rmsnorm_bwd(H, O) H(x) H(w) O(gate) H(dy) H(dx) H(dw) O(dgate)
/* clang-format off */
#define HANDLES_swiglu_fwd(H, O)  H(gate) H(up) H(y)
#define HANDLES_swiglu_bwd(H, O)  H(gate) H(up) H(dy) H(dgate) H(dup) O(y)
#define LAST(n)                   part[a->parts > n ? n : 0] /* an existing part */
#define HANDLES_conv_fwd(H, O)    H(x) H(part[0].y) O(part[0].weight) H(LAST(1).y) O(LAST(1).weight) \
                                  H(LAST(2).y) O(LAST(2).weight)
#define HANDLES_conv_bwd(H, O)    H(x) H(dx) H(part[0].dy) O(part[0].weight) O(part[0].dweight) \
                                  H(LAST(1).dy) O(LAST(1).weight) O(LAST(1).dweight) H(LAST(2).dy) \
                                  O(LAST(2).weight) O(LAST(2).dweight)
#define HANDLES_rope(H, O)        O(past_len) H(x) H(y)
#define HANDLES_gate_fwd(H, O)    H(x) H(gate) H(y)
#define HANDLES_gate_bwd(H, O)    H(x) H(gate) H(dy) H(dx) H(dgate) O(y)
#define HANDLES_delta_fwd(H, O)   H(q) H(k) H(v) O(b) O(g) H(u) H(o) H(S) O(open) O(start) O(open_rows) \
                                  O(cap_row) O(cap_slot) O(log.S) O(log.k) O(log.u) O(log.g)
#define HANDLES_delta_bwd(H, O)   H(q) H(k) H(v) O(b) O(g) H(u) H(d_o) H(dq) H(dk) H(dv) O(db) O(dg) H(S) \
                                  O(dS) O(start) O(cap_row) O(cap_slot)
#define HANDLES_decay_fwd(H, O)   H(a) H(A_log) H(dt_bias) H(g)
#define HANDLES_decay_bwd(H, O)   H(a) H(A_log) H(dt_bias) H(dg) H(da) H(dA_log) H(ddt_bias)
#define HANDLES_feature_fwd(H, O) H(x) O(scale) O(offset) H(y)
#define HANDLES_feature_bwd(H, O) H(x) O(scale) O(offset) H(dy) H(dx) O(dscale) O(doffset)
#define HANDLES_rates_fwd(H, O)   H(lr) O(m)
#define HANDLES_rates_bwd(H, O)   H(lr) O(m) H(dlr) O(dm)
#define HANDLES_learn_fwd(H, O)   H(gu) H(e) H(lr)
#define HANDLES_learn_bwd(H, O)   H(gu) H(e) H(lr) H(dgu) H(de) H(dlr) O(dm) O(dsum)
#define HANDLES_momentum_fwd(H, O) H(x) H(p) H(m) H(y)
#define HANDLES_momentum_bwd(H, O) H(p) H(m) H(dy) H(dp) H(dm)
#define HANDLES_length_fwd(H, O)  H(x) H(y)
#define HANDLES_length_bwd(H, O)  H(x) H(y) H(dy) H(dx)
#define HANDLES_renorm_fwd(H, O)  H(x) O(length) H(y)
#define HANDLES_renorm_bwd(H, O)  H(x) O(length) H(dy) H(dx) O(dlength)
#define HANDLES_diagonal(H, O)    H(y)
#define HANDLES_attn_fwd(H, O)    O(cache_start) O(cache_len) H(q) H(k) H(v) O(cache_k) O(cache_v) H(o) O(lse)
#define HANDLES_attn_bwd(H, O)    O(cache_len) H(q) H(k) H(v) O(cache_k) O(cache_v) H(o) H(lse) H(d_o) H(dq) \
                                  H(dk) H(dv) O(dcache_k) O(dcache_v)
#define HANDLES_head_fwd(H, O)    H(h) H(w) O(target) O(entropy) O(logp) O(top)
#define HANDLES_head_bwd(H, O)    H(h) H(w) H(target) H(coef) O(entropy_coef) O(entropy) O(logp) O(top) H(z) \
                                  H(dh) H(dw)
#define HANDLES_sample(H, O)      H(z) O(banned_ids) H(u) H(token) H(logp) O(kept)
#define HANDLES_dot(H, O)         H(x) H(y) H(out)
#define HANDLES_adamw(H, O)       H(w) H(m) H(v) H(g)
#define HANDLES_axpy(H, O)        H(x) H(y)
#define HANDLES_sum_add(H, O)     H(x) H(largest) H(sum)
#define HANDLES_sum_take(H, O)    H(sum) H(y)
/* clang-format on */

#define H(field) &&is_given(c, op, #field, a->field) && is_live(c, op, #field, a->field, 0)
#define O(field) &&is_live(c, op, #field, a->field, 0)
#define X(name) \
	static void check_##name(struct rf_dev *d, const struct rf_##name *a) \
	{ \
		struct check *c = check_of(d); \
		const char *op = #name; \
		if (true HANDLES_##name(H, O)) \
			enqueue(c, OP_##name, NULL, 0, a, sizeof *a); \
	}
RF_OPS(X)
#undef X
#undef H
#undef O

/* clang-format off */
const struct rf_ops rf_ops_check = {
	.name = "check",
	.open = check_open, .close = check_close, .alloc = check_alloc, .release = check_release,
	.upload = check_upload, .download = check_download, .zero = check_zero, .sync = check_sync,
	.workspace = check_workspace, .prepare = check_prepare,
	.logit_rows = rf_cpu_logit_rows,
/* clang-format on */
#define X(name) .name = check_##name,
	                             RF_OPS(X)
#undef X
};
