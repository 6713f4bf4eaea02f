/* device_cuda.cu -- the GPU as a device: its memory, its failures, its table of operations, and the tables
 * that the plugin exports. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/cuda.h"
#include "device/plugin_about.h"

enum { NEEDS_DRIVER = CUDART_VERSION };

/* ---- failures ------------------------------------------------------------------------------ */

/* Tells whether the driver answers no more calls of this process after this error. */
static bool sticky(cudaError_t code)
{
	switch (code) {
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchFailure:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorIllegalInstruction:
	case cudaErrorHardwareStackError:
	case cudaErrorECCUncorrectable:
	case cudaErrorUnknown: return true;
	default: return false;
	}
}

bool rf_cuda_ok(struct rf_dev *d, cudaError_t code, const char *what)
{
	struct rf_cuda *c = cuda_of(d);

	if (code == cudaSuccess)
		return true;
	c->dead |= sticky(code);
	rf_dev_fail(d, RF_EDEVICE, "the GPU failed in %s: %s%s", what, cudaGetErrorString(code),
	            c->dead && !c->eager
	                    ? " (perhaps in an earlier kernel; with RF_SYNC=1 the error names the kernel)"
	                    : "");
	return false;
}

bool rf_cuda_has_shared(struct rf_dev *d, size_t bytes, const char *kernel)
{
	if (bytes <= cuda_of(d)->most_shared)
		return true;
	rf_dev_fail(d, RF_EDEVICE,
	            "the GPU has %zu KiB of shared memory per block, but %s needs %zu for rows or heads "
	            "as wide as this model's (try --dtype bf16, or use --device cpu)",
	            cuda_of(d)->most_shared >> 10, kernel, (bytes + 1023) >> 10);
	return false;
}

/* Asks the driver for shared memory.  The driver keeps the last request for a kernel, so a smaller request
 * must not follow a larger one.  The table has the largest request of each kernel; requests, and so the
 * table, last as long as the process. */
bool rf_cuda_allowed(struct rf_dev *d, const void *kernel, size_t bytes, const char *name)
{
	enum { MOST = 256 };
	static struct {
		const void *kernel;
		size_t bytes;
	} asked[MOST];
	int i = 0;

	while (i < MOST - 1 && asked[i].kernel && asked[i].kernel != kernel)
		i++;
	if (asked[i].kernel == kernel && bytes <= asked[i].bytes)
		return true;
	if (!rf_cuda_has_shared(d, bytes, name) || !rf_cuda_ok(d, RF_ALLOW(kernel, bytes), name))
		return false;
	asked[i].kernel = kernel;
	asked[i].bytes = bytes;
	return true;
}

bool rf_cuda_has_width(struct rf_dev *d, int width, const char *what)
{
	if (width > WIDEST_HEAD)
		rf_dev_fail(d, RF_EDEVICE,
		            "%s of %d: the GPU's kernels support heads of at most %d (use --device cpu)",
		            what, width, WIDEST_HEAD);
	return width <= WIDEST_HEAD;
}

void rf_cuda_launched(struct rf_dev *d, const char *kernel)
{
	struct rf_cuda *c = cuda_of(d);

	if (rf_cuda_ok(d, cudaGetLastError(), kernel) && c->eager)
		rf_cuda_ok(d, cudaStreamSynchronize(c->stream), kernel);
}

static bool is_usable(struct rf_dev *d) { return d->err.code == RF_OK && !cuda_of(d)->dead; }

/* ---- staging ------------------------------------------------------------------------------- */

/* Pinned memory of the host, in parts that are used in turn: while the GPU copies one part, the host fills or
 * empties the next, after waiting only for the copies of that part. */
static const size_t STAGING = 8 << 20;
enum { MOST_PARTS = 4 };
struct rf_cuda_staging {
	char *p;
	int parts, now;
	size_t filled; /* bytes used of the current part */
	cudaEvent_t done[MOST_PARTS];
};

static cudaError_t open_staging(struct rf_cuda_staging **to, int parts)
{
	struct rf_cuda_staging *s = (struct rf_cuda_staging *)calloc(1, sizeof *s);
	cudaError_t code =
		s ? cudaMallocHost((void **)&s->p, (size_t)parts * STAGING) : cudaErrorMemoryAllocation;

	*to = s;
	if (s)
		s->parts = parts;
	for (int i = 0; i < parts && code == cudaSuccess; i++)
		code = cudaEventCreateWithFlags(&s->done[i], cudaEventDisableTiming);
	return code;
}

static void close_staging(struct rf_cuda_staging *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->parts; i++)
		if (s->done[i])
			cudaEventDestroy(s->done[i]);
	cudaFreeHost(s->p);
	free(s);
}

/* ---- opening ------------------------------------------------------------------------------- */

static __global__ void nothing() {}

/* Finds the driver and the device, and checks that this plugin has code for it. */
static enum rf_code find_device(struct rf_dev *d, struct rf_err *e)
{
	struct rf_cuda *c = cuda_of(d);
	struct cudaDeviceProp prop;
	struct cudaFuncAttributes code;
	int driver = 0, devices = 0;
	cudaError_t rc;

	if (cudaDriverGetVersion(&driver) != cudaSuccess || !driver)
		return rf_fail(e, RF_EDEVICE, "there is no NVIDIA driver (use --device cpu)");
	if (driver / 1000 < NEEDS_DRIVER / 1000)
		return rf_fail(e, RF_EDEVICE,
		               "the NVIDIA driver is too old: it supports CUDA %d.%d, but %d.%d is needed "
		               "(update it, or use --device cpu)",
		               driver / 1000, driver % 1000 / 10, NEEDS_DRIVER / 1000, 0);
	rc = cudaGetDeviceCount(&devices);
	if (rc == cudaErrorSystemDriverMismatch)
		return rf_fail(e, RF_EDEVICE,
		               "the NVIDIA driver's parts are of different versions: restart the machine");
	if (rc == cudaErrorNoDevice || (rc == cudaSuccess && !devices))
		return rf_fail(e, RF_EDEVICE,
		               "the NVIDIA driver finds no GPU (check CUDA_VISIBLE_DEVICES, or use "
		               "--device cpu)");
	if (rc != cudaSuccess || (rc = cudaSetDevice(0)) != cudaSuccess ||
	    (rc = cudaGetDeviceProperties(&prop, 0)) != cudaSuccess)
		return rf_fail(e, RF_EDEVICE, "the GPU cannot be opened: %s", cudaGetErrorString(rc));
	rc = cudaFuncGetAttributes(&code, (const void *)nothing);
	if (rc == cudaErrorNoKernelImageForDevice || rc == cudaErrorInvalidDeviceFunction ||
	    rc == cudaErrorUnsupportedPtxVersion)
		return rf_fail(e, RF_EDEVICE,
		               "the GPU is of type sm_%d%d, but rf-cuda.so was built for %s "
		               "(use --device cpu)",
		               prop.major, prop.minor, RF_CUDA_ARCHS);
	if (rc != cudaSuccess)
		return rf_fail(e, RF_EDEVICE, "the GPU cannot be opened: %s", cudaGetErrorString(rc));
	snprintf(d->model, sizeof d->model, "%.60s, sm_%d%d, %zu MiB", prop.name, prop.major, prop.minor,
	         prop.totalGlobalMem >> 20);
	d->memory = prop.totalGlobalMem;
	c->sms = prop.multiProcessorCount;
	c->most_shared = prop.sharedMemPerBlockOptin;
	return RF_OK;
}

static void close_gpu(struct rf_dev *d)
{
	struct rf_cuda *c = cuda_of(d);

	if (!c)
		return;
	rf_cuda_link_leave(d);
	rf_cuda_profile_close(d);
	if (!c->dead) { /* otherwise the end of the process frees all memory */
		rf_cuda_gemm_close(d);
		rf_cuda_free(d, c->scratch);
		close_staging(c->up);
		close_staging(c->down);
		if (c->stream)
			cudaStreamDestroy(c->stream);
	}
	free(c);
	d->impl = NULL;
}

static enum rf_code open_gpu(struct rf_dev *d, struct rf_err *e)
{
	struct rf_cuda *c = (struct rf_cuda *)calloc(1, sizeof *c);
	const char *eager = getenv("RF_SYNC");
	enum rf_code rc;
	cudaError_t code;

	if (!c)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	d->impl = c;
	if (d->math == RF_MATH_AUTO)
		d->math = RF_MATH_BF16;
	c->eager = eager && !strcmp(eager, "1");
	if ((rc = find_device(d, e)) == RF_OK) {
		if ((code = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking)) != cudaSuccess ||
		    (code = open_staging(&c->up, 4)) != cudaSuccess ||
		    (code = open_staging(&c->down, 2)) != cudaSuccess)
			rc = rf_fail(e, RF_EDEVICE, "the GPU cannot be opened: %s", cudaGetErrorString(code));
		else
			rc = rf_cuda_gemm_open(d, e);
		if (rc == RF_OK)
			rf_cuda_profile_open(d);
	}
	if (rc != RF_OK)
		close_gpu(d);
	return rc;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* The size of an allocation, since a release passes only the address. */
struct rf_cuda_block {
	void *p;
	size_t bytes;
	struct rf_cuda_block *next;
};

void *rf_cuda_alloc(struct rf_dev *d, size_t bytes, const char *what)
{
	struct rf_cuda_block *b = (struct rf_cuda_block *)malloc(sizeof *b);
	size_t free_now = 0, all = 0;
	void *p = NULL;

	if (!is_usable(d) || !b || cudaMalloc(&p, bytes ? bytes : 1) != cudaSuccess) {
		free(b);
		if (!is_usable(d))
			return NULL;
		cudaGetLastError(); /* clears the error, which the next launch would otherwise report */
		cudaMemGetInfo(&free_now, &all);
		rf_dev_fail(d, RF_ENOMEM,
		            "the GPU is out of memory: %zu MiB more are needed%s, %zu of its %zu MiB are "
		            "free, %zu MiB are in use here"
		            " (--recompute segment, then a smaller --segment or --max-len needs less)",
		            bytes >> 20, what, free_now >> 20, all >> 20, d->used >> 20);
		return NULL;
	}
	*b = { p, bytes, cuda_of(d)->blocks };
	cuda_of(d)->blocks = b;
	d->used += bytes;
	d->peak = d->used > d->peak ? d->used : d->peak;
	return p;
}

bool rf_cuda_free(struct rf_dev *d, void *p)
{
	struct rf_cuda *c = cuda_of(d);

	for (struct rf_cuda_block **at = &c->blocks; *at; at = &(*at)->next) {
		struct rf_cuda_block *b = *at;

		if (b->p != p)
			continue;
		d->used -= b->bytes;
		*at = b->next;
		free(b);
		break;
	}
	return !p || c->dead || rf_cuda_ok(d, cudaFree(p), "release");
}

static void *alloc(struct rf_dev *d, size_t bytes) { return rf_cuda_alloc(d, bytes, ""); }

static void release(struct rf_dev *d, void *p)
{
	for (const struct rf_cuda_block *b = cuda_of(d)->blocks; b; b = b->next)
		if (b->p == p)
			rf_cuda_rounded_forget(d, p, b->bytes);
	rf_cuda_free(d, p);
}

void *rf_cuda_scratch(struct rf_dev *d, size_t bytes)
{
	struct rf_cuda *c = cuda_of(d);

	if (!is_usable(d))
		return NULL;
	if (bytes <= c->scratch_size)
		return c->scratch;
	/* queued kernels may still use the old memory */
	if (!rf_cuda_ok(d, cudaStreamSynchronize(c->stream), "a kernel before") ||
	    !rf_cuda_free(d, c->scratch))
		return NULL;
	c->scratch = rf_cuda_alloc(d, bytes, " to work in");
	c->scratch_size = c->scratch ? bytes : 0;
	return c->scratch;
}

/* Waits until the copies from the next part of the memory for uploads have ended, and makes it the current
 * part. */
static bool next_part(struct rf_dev *d)
{
	struct rf_cuda *c = cuda_of(d);
	struct rf_cuda_staging *s = c->up;

	if (!rf_cuda_ok(d, cudaEventRecord(s->done[s->now], c->stream), "upload"))
		return false;
	s->now = (s->now + 1) % s->parts;
	s->filled = 0;
	return rf_cuda_ok(d, cudaEventSynchronize(s->done[s->now]), "upload");
}

/* Copies to the device.  Waits for the GPU only if all parts of the pinned memory are in use. */
static void upload(struct rf_dev *d, void *to, const void *from, size_t bytes)
{
	struct rf_cuda *c = cuda_of(d);
	struct rf_cuda_staging *s = c->up;

	if (bytes)
		rf_cuda_rounded_changed(d, to, bytes);
	for (size_t at = 0, n; at < bytes && is_usable(d); at += n) {
		char *part;

		if (s->filled == STAGING && !next_part(d))
			return;
		n = bytes - at < STAGING - s->filled ? bytes - at : STAGING - s->filled;
		part = s->p + (size_t)s->now * STAGING + s->filled;
		memcpy(part, (const char *)from + at, n);
		rf_cuda_ok(d, cudaMemcpyAsync((char *)to + at, part, n, cudaMemcpyHostToDevice, c->stream),
		           "upload");
		s->filled += (n + 255) / 256 * 256; /* parts are a multiple of it */
	}
	if (c->eager)
		rf_cuda_ok(d, cudaStreamSynchronize(c->stream), "upload");
}

static size_t piece_at(size_t at, size_t bytes) { return bytes - at < STAGING ? bytes - at : STAGING; }

/* Begins to copy the piece of a download that begins at byte `at`. */
static bool begin_piece(struct rf_dev *d, const char *from, size_t at, size_t bytes)
{
	struct rf_cuda *c = cuda_of(d);
	const size_t i = at / STAGING % 2;

	return is_usable(d) &&
	       rf_cuda_ok(d,
	                  cudaMemcpyAsync(c->down->p + i * STAGING, from + at, piece_at(at, bytes),
	                                  cudaMemcpyDeviceToHost, c->stream),
	                  "download") &&
	       rf_cuda_ok(d, cudaEventRecord(c->down->done[i], c->stream), "download");
}

static void download(struct rf_dev *d, void *to, const void *from, size_t bytes)
{
	const struct rf_cuda_staging *s = cuda_of(d)->down;
	bool well = bytes && begin_piece(d, (const char *)from, 0, bytes);

	for (size_t at = 0, n; at < bytes; at += n) {
		const size_t i = at / STAGING % 2;

		n = piece_at(at, bytes);
		/* the GPU is one piece ahead */
		well = well && (at + n == bytes || begin_piece(d, (const char *)from, at + n, bytes)) &&
		       rf_cuda_ok(d, cudaEventSynchronize(s->done[i]), "download");
		if (!well) { /* the failure shows at the next sync; the caller gets zeros */
			memset((char *)to + at, 0, bytes - at);
			return;
		}
		memcpy((char *)to + at, s->p + i * STAGING, n);
	}
}

static void zero(struct rf_dev *d, void *to, size_t bytes)
{
	if (!bytes || !is_usable(d))
		return;
	rf_cuda_rounded_changed(d, to, bytes);
	rf_cuda_ok(d, cudaMemsetAsync(to, 0, bytes, cuda_of(d)->stream), "zero");
}

static void wait(struct rf_dev *d)
{
	struct rf_cuda *c = cuda_of(d);

	if (!c->dead && rf_cuda_ok(d, cudaStreamSynchronize(c->stream), "a kernel"))
		rf_cuda_ok(d, cudaGetLastError(), "a kernel");
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Returns the scratch memory of the delta rule, forward and, in training, backward. */
static size_t delta_scratch(const struct rf_dev *d, const struct rf_workspace *need, int nb, int steps)
{
	const size_t forward = rf_cuda_delta_scratch(d, need, nb, steps);

	return need->train ? larger(forward, rf_cuda_delta_back_scratch(d, need, nb, steps)) : forward;
}

/* Returns the largest scratch memory of an operation: chunks of the delta rule that are computed together, in
 * a sequence and in rollouts (delta.cu); parts of an attention whose keys are split (attention.cu); a piece
 * of logits and the folded numbers of its rows (head.cu); partial sums of weights' gradients (conv.cu,
 * norm.cu, fast.cu); links between tokens (rows.cu). */
static size_t scratch_of(struct rf_dev *d, const struct rf_workspace *need)
{
	enum { STRIPS = 1024, TAKEN = 512, PIECE = 8 << 20, HEAD_ROWS = 2048, KEPT = 24 };
	const size_t rows = (size_t)need->rows, wide = (size_t)need->widest,
		     heads = larger((size_t)need->heads, (size_t)need->H);
	size_t most = larger(delta_scratch(d, need, 1, need->segment),
	                     delta_scratch(d, need, need->rollouts, need->steps));

	most = larger(most, 4 * (size_t)cuda_of(d)->sms * 128 * ((size_t)need->D + 2) * 4 +
	                            (rows + need->rollouts) * heads * 4);
	most = larger(most, (size_t)PIECE * 4 + HEAD_ROWS * (((size_t)need->vocab / 1024 + 1) * KEPT + 4));
	if (need->train)
		most = larger(most, larger(STRIPS * 2 * wide * 4, TAKEN * 8 * wide * 4 + rows * heads * 8));
	return larger(most, rows * 16) + (1 << 20);
}

size_t rf_cuda_workspace(struct rf_dev *d, const struct rf_workspace *need)
{
	return scratch_of(d, need) + rf_cuda_gemm_workspace(d, need);
}

static void prepare(struct rf_dev *d, const struct rf_workspace *need)
{
	rf_cuda_scratch(d, scratch_of(d, need));
	rf_cuda_gemm_prepare(d, need);
}

/* Returns the rows of logits that training computes together.  With 256 rows and a vocabulary of 32,000, the
 * head's gradient, 262 MB, would be read and written for each 256 rows, which takes 6 times as long as the
 * products of these rows. */
int rf_cuda_logit_rows(int vocab) { return vocab > 100000 ? 1024 : 2048; }

/* ---- the table ----------------------------------------------------------------------------- */

static const struct rf_ops ops = { "cuda",
	                           open_gpu,
	                           close_gpu,
	                           alloc,
	                           release,
	                           upload,
	                           download,
	                           zero,
	                           wait,
	                           rf_cuda_workspace,
	                           prepare,
	                           &rf_cuda_link,
	                           rf_cuda_logit_rows,
	                           true,
	                           true,
#define X(op) rf_cuda_##op,
	                           RF_OPS(X)
#undef X
};

extern "C" __attribute__((visibility("default"))) const struct rf_plugin rf_plugin;
const struct rf_plugin rf_plugin = { RF_PLUGIN_ABI, &ops };

extern "C" __attribute__((visibility("default"))) const struct rf_plugin_about rf_plugin_about;
const struct rf_plugin_about rf_plugin_about = { CUDART_VERSION, RF_CUDA_ARCHS };
