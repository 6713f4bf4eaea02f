/* link.cu -- sums and copies numbers between the GPUs of ranks, with NCCL.
 *
 * libnccl.so.2 is loaded when ranks join, from $RF_NCCL or from the loader's path; a single process does not
 * need it.  The communicator is non-blocking: a call only begins an operation, and done() asks first whether
 * NCCL has put its work on the stream, then whether the stream has completed the work.  So no call hangs if a
 * rank is lost: the callers of done() limit the time.
 *
 * Parts of unequal size are reduced to, and broadcast from, their ranks in one group of calls: NCCL's
 * ReduceScatter and AllGather accept only equal parts. */
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

#include "cuda/cuda.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

static_assert(sizeof(ncclUniqueId) <= RF_LINK_NAME, "the name of a communicator");

#define CALLS(X) \
	X(GetUniqueId) \
	X(CommInitRankConfig) \
	X(CommGetAsyncError) \
	X(CommAbort) \
	X(GetErrorString) X(GetLastError) X(AllReduce) X(Reduce) X(Broadcast) X(GroupStart) X(GroupEnd)

struct rf_cuda_link {
	void *library;
#define X(call) decltype(&nccl##call) call;
	CALLS(X)
#undef X
	ncclComm_t comm;
	int rank, ranks;
};

static bool load(struct rf_cuda_link *l, char *why)
{
	const char *path = getenv("RF_NCCL");
	const char *missing = NULL;

	if (!(l->library = dlopen(path && *path ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL))) {
		snprintf(why, RF_LINK_WHY, "NCCL cannot be loaded: %.160s", dlerror());
		return false;
	}
#define X(call) \
	if (!(l->call = (decltype(l->call))dlsym(l->library, "nccl" #call))) \
		missing = "nccl" #call;
	CALLS(X)
#undef X
	if (missing)
		snprintf(why, RF_LINK_WHY, "NCCL is older than 2.14: it has no %s", missing);
	return !missing;
}

/* Returns the device's link, which is made by the first call. */
static struct rf_cuda_link *link_of(struct rf_dev *d, char *why)
{
	struct rf_cuda *c = cuda_of(d);
	struct rf_cuda_link *l;

	if (c->link)
		return c->link;
	if (!(l = (struct rf_cuda_link *)calloc(1, sizeof *l)))
		snprintf(why, RF_LINK_WHY, "out of memory");
	else if (load(l, why))
		return c->link = l;
	free(l);
	return NULL;
}

/* Tells whether a call has begun or completed its work. */
static bool succeeded(const struct rf_cuda_link *l, ncclResult_t code, const char *call, char *why)
{
	if (code == ncclSuccess || code == ncclInProgress)
		return true;
	snprintf(why, RF_LINK_WHY, "%s: %.70s: %.100s", call, l->GetErrorString(code),
	         l->GetLastError(l->comm));
	return false;
}

static bool can(struct rf_dev *d, unsigned char place[RF_LINK_PLACE], char *why)
{
	struct cudaDeviceProp prop;

	if (!link_of(d, why))
		return false;
	if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess) {
		snprintf(why, RF_LINK_WHY, "the GPU does not say which one it is");
		return false;
	}
	memcpy(place, prop.uuid.bytes, RF_LINK_PLACE);
	return true;
}

static bool name(struct rf_dev *d, unsigned char bytes[RF_LINK_NAME], char *why)
{
	const struct rf_cuda_link *l = link_of(d, why);
	ncclUniqueId id;

	if (!l || !succeeded(l, l->GetUniqueId(&id), "ncclGetUniqueId", why))
		return false;
	memcpy(bytes, &id, sizeof id);
	return true;
}

static bool join(struct rf_dev *d, const unsigned char bytes[RF_LINK_NAME], int rank, int ranks, char *why)
{
	struct rf_cuda_link *l = link_of(d, why);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;

	if (!l)
		return false;
	memcpy(&id, bytes, sizeof id);
	config.blocking = 0;
	l->rank = rank;
	l->ranks = ranks;
	return succeeded(l, l->CommInitRankConfig(&l->comm, ranks, id, rank, &config),
	                 "ncclCommInitRankConfig", why);
}

static bool sum(struct rf_dev *d, rf_i64 x, size_t n, char *why)
{
	const struct rf_cuda_link *l = cuda_of(d)->link;

	return succeeded(l, l->AllReduce(i64(x), i64(x), n, ncclInt64, ncclSum, l->comm, cuda_of(d)->stream),
	                 "ncclAllReduce", why);
}

static bool sum_parts(struct rf_dev *d, rf_i64 x, const size_t *at, const size_t *n, char *why)
{
	const struct rf_cuda_link *l = cuda_of(d)->link;
	bool all = succeeded(l, l->GroupStart(), "ncclGroupStart", why);

	for (int i = 0; i < l->ranks && all; i++)
		if (n[i])
			all = succeeded(l,
			                l->Reduce(i64(x) + at[i], i64(x) + at[i], n[i], ncclInt64, ncclSum, i,
			                          l->comm, cuda_of(d)->stream),
			                "ncclReduce", why);
	return all && succeeded(l, l->GroupEnd(), "ncclGroupEnd", why);
}

static bool share(struct rf_dev *d, rf_f32 x, const size_t *at, const size_t *n, char *why)
{
	const struct rf_cuda_link *l = cuda_of(d)->link;
	bool all = succeeded(l, l->GroupStart(), "ncclGroupStart", why);

	for (int i = 0; i < l->ranks && all; i++) {
		if (!n[i])
			continue;
		rf_cuda_rounded_changed(d, f32(x) + at[i], n[i] * sizeof(float));
		all = succeeded(l,
		                l->Broadcast(f32(x) + at[i], f32(x) + at[i], n[i], ncclFloat32, i, l->comm,
		                             cuda_of(d)->stream),
		                "ncclBroadcast", why);
	}
	return all && succeeded(l, l->GroupEnd(), "ncclGroupEnd", why);
}

static bool done(struct rf_dev *d, bool *is, char *why)
{
	const struct rf_cuda_link *l = cuda_of(d)->link;
	ncclResult_t state = ncclSuccess;
	cudaError_t code;

	*is = false;
	if (!succeeded(l, l->CommGetAsyncError(l->comm, &state), "ncclCommGetAsyncError", why) ||
	    !succeeded(l, state, "NCCL", why))
		return false;
	if (state == ncclInProgress)
		return true;
	if ((code = cudaStreamQuery(cuda_of(d)->stream)) != cudaSuccess && code != cudaErrorNotReady) {
		rf_cuda_ok(d, code, "an exchange");
		snprintf(why, RF_LINK_WHY, "the GPU failed: %.160s", cudaGetErrorString(code));
		return false;
	}
	*is = code == cudaSuccess;
	return true;
}

void rf_cuda_link_leave(struct rf_dev *d)
{
	struct rf_cuda_link *l = cuda_of(d)->link;

	if (!l)
		return;
	/* not ncclCommDestroy(), which may wait for the other ranks */
	if (l->comm && !cuda_of(d)->dead)
		l->CommAbort(l->comm);
	free(l); /* the library stays loaded: it has threads */
	cuda_of(d)->link = NULL;
}

const struct rf_link rf_cuda_link = { can, name, join, sum, sum_parts, share, done, rf_cuda_link_leave };

#else

static bool can(struct rf_dev *, unsigned char[RF_LINK_PLACE], char *why)
{
	snprintf(why, RF_LINK_WHY, "rf-cuda.so was built without nccl.h");
	return false;
}

void rf_cuda_link_leave(struct rf_dev *) {}

const struct rf_link rf_cuda_link = { can, NULL, NULL, NULL, NULL, NULL, NULL, rf_cuda_link_leave };

#endif
