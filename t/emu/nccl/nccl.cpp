/* nccl.cpp -- the functions of NCCL that the plugin calls, between processes of one machine, each of which
 * has an emulated GPU.  The processes meet in a file in memory, which has the communicator's name.  As with
 * NCCL's non-blocking communicators, a call only begins an operation; a thread does the work, and the stream
 * is busy until the thread has finished.
 *
 * It refuses calls to which NCCL may respond with a deadlock or wrong numbers: calls that differ between
 * ranks in kind, count, type, operation, root or position in a group; a call before the previous call is on
 * the stream; groups that do not pair; memory that is not on the device; two ranks with one GPU.
 *
 * EMU_NCCL requests a failure of one rank at its n-th exchange:
 *
 *     EMU_NCCL=KIND:RANK:N    delay    it comes a second late          corrupt  a bit of its result is wrong
 *                             abort    it fails                        hang     it never comes
 *                             count, type, op, root, group             it calls for something else
 *                             leave    the process is killed
 *     EMU_NCCL=join:RANK      it cannot join */
#include <atomic>
#include <cstdarg>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <nccl.h>

#include "../emu_rt.h"

#define API extern "C" __attribute__((visibility("default")))

namespace
{

enum { RANKS = 16, ROOM = 1 << 16, WHY = 200 };
enum kind : int { ALL_REDUCE, REDUCE, BROADCAST };
const char *const names[] = { "ncclAllReduce", "ncclReduce", "ncclBroadcast" };

/* A rank's call. */
struct call {
	enum kind kind;
	int type, op, root, group, nth; /* nth: position in the group; group: number of the group */
	uint64_t count;
};

/* The memory that the processes share.  came[rank] = s: the rank has reached step s of an exchange. */
struct board {
	std::atomic<int> joined, failed;
	std::atomic<uint64_t> came[RANKS];
	struct call calls[RANKS];
	char place[RANKS][16], why[WHY];
	unsigned char data[RANKS][ROOM];
};

struct work {
	struct call call;
	const void *from;
	void *to;
};

char last_error[WHY];

} // namespace

struct ncclComm {
	struct board *board = nullptr;
	int rank, ranks, groups = 0;
	uint64_t steps = 0, exchanges = 0;
	std::atomic<int> state{ ncclInProgress };
	std::atomic<bool> left{ false };
	emu::stream *stream = nullptr;
	std::thread worker;
};

namespace
{

int depth;                       /* nesting of groups */
std::vector<struct work> queued; /* calls of the current group */
ncclComm *of_group;
cudaStream_t stream_of_group;

ncclResult_t fail(ncclComm *c, ncclResult_t code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last_error, sizeof last_error, fmt, ap);
	va_end(ap);
	if (c && c->board) { /* as on a network: the other ranks notice the failure */
		if (!c->board->failed)
			snprintf(c->board->why, WHY, "rank %d failed", c->rank);
		c->board->failed = 1;
	}
	if (c)
		c->state = code;
	return code;
}

size_t size_of(int type) { return type == ncclInt64 ? 8 : 4; }

/* Tells whether EMU_NCCL requests this failure of this rank and exchange. */
bool failure_requested(const ncclComm *c, const char *what)
{
	const char *s = getenv("EMU_NCCL");
	char kind[20] = "";
	int rank = -1;
	unsigned long long n = 0;

	return s && sscanf(s, "%19[^:]:%d:%llu", kind, &rank, &n) >= 2 && !strcmp(kind, what) &&
	       rank == c->rank && n == c->exchanges;
}

/* Waits until all ranks have reached this step.  Returns false if a rank has failed, or if this one must
 * end. */
bool wait_for_all(ncclComm *c)
{
	c->board->came[c->rank] = ++c->steps;
	for (int i = 0; i < c->ranks; i++)
		while (c->board->came[i] < c->steps) {
			if (c->left)
				return false;
			if (c->board->failed) {
				fail(c, ncclRemoteError, "%.150s", c->board->why);
				return false;
			}
			usleep(20);
		}
	return true;
}

/* Tells whether all ranks make the same call. */
bool calls_agree(ncclComm *c, struct call mine)
{
	struct call *all = c->board->calls;

	if (failure_requested(c, "count"))
		mine.count--;
	mine.type = failure_requested(c, "type") ? (int)ncclUint64 : mine.type;
	mine.op = failure_requested(c, "op") ? (int)ncclMax : mine.op;
	mine.root += failure_requested(c, "root");
	mine.group += failure_requested(c, "group");
	all[c->rank] = mine;
	if (!wait_for_all(c))
		return false;
	for (int i = 0; i < c->ranks; i++)
		if (memcmp(&all[i], &mine, sizeof mine)) {
			fail(c, ncclInvalidUsage,
			     "rank %d calls %s of %llu numbers, type %d, op %d, root %d, the %d. of group "
			     "%d; rank %d %s of %llu, type %d, op %d, root %d, the %d. of group %d",
			     c->rank, names[mine.kind], (unsigned long long)mine.count, mine.type, mine.op,
			     mine.root, mine.nth, mine.group, i, names[all[i].kind],
			     (unsigned long long)all[i].count, all[i].type, all[i].op, all[i].root,
			     all[i].nth, all[i].group);
			return false;
		}
	return true;
}

/* Computes some numbers: the numbers of all ranks are on the board, and this rank's result is written to
 * `to`. */
void compute_result(const ncclComm *c, const struct call *call, size_t n, unsigned char *to)
{
	if (call->kind == BROADCAST) {
		memcpy(to, c->board->data[call->root], n * size_of(call->type));
	} else if (call->kind == ALL_REDUCE || call->root == c->rank) {
		for (size_t i = 0; i < n; i++) {
			int64_t sum = 0, x;

			for (int r = 0; r < c->ranks; r++) {
				memcpy(&x, c->board->data[(r + c->rank) % c->ranks] + i * sizeof x, sizeof x);
				sum += x;
			}
			memcpy(to + i * sizeof sum, &sum, sizeof sum);
		}
	}
}

/* Does one exchange.  Returns false if the communicator has failed. */
bool do_exchange(ncclComm *c, const struct work *w)
{
	const size_t size = size_of(w->call.type), most = ROOM / size;

	c->exchanges++;
	if (failure_requested(c, "delay"))
		usleep(1000000);
	if (failure_requested(c, "leave"))
		raise(SIGKILL);
	if (failure_requested(c, "abort")) {
		fail(c, ncclSystemError, "a network card has failed");
		return false;
	}
	while (failure_requested(c, "hang") && !c->left)
		usleep(1000);
	if (!calls_agree(c, w->call))
		return false;
	for (size_t at = 0; at < w->call.count; at += most) {
		const size_t n = w->call.count - at < most ? w->call.count - at : most;

		memcpy(c->board->data[c->rank], (const char *)w->from + at * size, n * size);
		if (!wait_for_all(c))
			return false;
		compute_result(c, &w->call, n, (unsigned char *)w->to + at * size);
		if (at == 0 && failure_requested(c, "corrupt"))
			((unsigned char *)w->to)[6] ^= 1; /* 1, or 2^-7 of a float */
		if (!wait_for_all(c))
			return false;
	}
	return true;
}

void work_all(ncclComm *c, std::vector<struct work> list)
{
	c->state = ncclSuccess; /* the call is on the stream, where it may take long */
	for (const struct work &w : list)
		if (!do_exchange(c, &w)) {
			while (!c->left) /* as a kernel would, waits until the communicator is aborted */
				usleep(1000);
			break;
		}
	c->stream->busy--;
}

ncclResult_t launch(ncclComm *c, cudaStream_t s, std::vector<struct work> list)
{
	int state = c->state;

	if (state == ncclInProgress)
		return fail(c, ncclInvalidUsage, "a call before the one before it has begun");
	if (state != ncclSuccess)
		return fail(c, ncclInvalidUsage, "a call after a failure");
	if (c->worker.joinable()) {
		if (c->stream->busy)
			return fail(c, ncclInvalidUsage, "a call while the stream is busy");
		c->worker.join();
	}
	c->stream = (emu::stream *)(void *)s;
	c->stream->settle();
	c->groups++;
	for (size_t i = 0; i < list.size(); i++) {
		struct work *w = &list[i];

		w->call.group = c->groups;
		w->call.nth = (int)i;
		if (!c->stream->there(w->from, w->call.count * size_of(w->call.type)) ||
		    !c->stream->there(w->to, w->call.count * size_of(w->call.type)))
			return fail(c, ncclInvalidArgument,
			            "%s: %llu numbers at %p are no memory of the device", names[w->call.kind],
			            (unsigned long long)w->call.count, w->to);
		if (w->call.root < 0 || w->call.root >= c->ranks || !w->call.count)
			return fail(c, ncclInvalidArgument, "%s: root %d, count %llu", names[w->call.kind],
			            w->call.root, (unsigned long long)w->call.count);
	}
	c->state = ncclInProgress;
	c->stream->busy++;
	c->worker = std::thread(work_all, c, std::move(list));
	return ncclInProgress;
}

ncclResult_t begin(enum kind kind, const void *from, void *to, size_t count, int type, int op, int root,
                   ncclComm *c, cudaStream_t s)
{
	struct work w = { {}, from, to };

	memset(&w.call, 0, sizeof w.call); /* the padding is compared, too */
	w.call.kind = kind;
	w.call.type = type;
	w.call.op = op;
	w.call.root = root;
	w.call.count = count;
	if (!c || !c->board)
		return fail(c, ncclInvalidArgument, "no communicator");
	if (!depth)
		return launch(c, s, { w });
	if (of_group && (of_group != c || stream_of_group != s))
		return fail(c, ncclInvalidUsage, "a group of two communicators or streams");
	of_group = c;
	stream_of_group = s;
	queued.push_back(w);
	return ncclSuccess;
}

void join(ncclComm *c, ncclUniqueId id, cudaDeviceProp prop)
{
	struct board *b = (struct board *)MAP_FAILED;
	int fd = open(id.internal, O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		b = (struct board *)mmap(nullptr, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (b == MAP_FAILED) {
		fail(c, ncclSystemError, "%.100s cannot be read", id.internal);
		return;
	}
	c->board = b;
	if (failure_requested(c, "join")) {
		fail(c, ncclUnhandledCudaError, "no access to the GPU");
		return;
	}
	memcpy(b->place[c->rank], prop.uuid.bytes, 16);
	if (!wait_for_all(c))
		return;
	for (int i = 0; i < c->ranks; i++)
		if (i != c->rank && !memcmp(b->place[i], b->place[c->rank], 16)) {
			fail(c, ncclInvalidUsage, "ranks %d and %d have one GPU", c->rank, i);
			return;
		}
	if (!wait_for_all(c))
		return;
	if (c->rank == 0)
		unlink(id.internal);
	c->state = ncclSuccess;
}

} // namespace

API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	memset(id, 0, sizeof *id);
	snprintf(id->internal, sizeof id->internal, "%.90s/nccl-XXXXXX", dir ? dir : "/tmp");
	if ((fd = mkstemp(id->internal)) < 0 || ftruncate(fd, sizeof(struct board)) < 0)
		return fail(nullptr, ncclSystemError, "%.120s cannot be made", id->internal);
	close(fd);
	return ncclSuccess;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                        ncclConfig_t *config)
{
	cudaDeviceProp prop;
	ncclComm *c;

	*comm = nullptr;
	if (rank < 0 || rank >= ranks || ranks > RANKS)
		return fail(nullptr, ncclInvalidArgument, "rank %d of %d", rank, ranks);
	if (config->magic != 0xcafebeef || config->blocking != 0)
		return fail(nullptr, ncclInvalidArgument, "a communicator that would wait");
	if (depth)
		return fail(nullptr, ncclInvalidUsage, "a communicator in a group");
	memset(&prop, 0, sizeof prop);
	snprintf(prop.uuid.bytes, sizeof prop.uuid.bytes, "%lld",
	         getenv("EMU_UUID") ? atoll(getenv("EMU_UUID")) : (long long)getpid());
	*comm = c = new ncclComm;
	c->rank = rank;
	c->ranks = ranks;
	c->worker = std::thread(join, c, id, prop);
	c->worker.detach();
	return ncclInProgress;
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
	*state = (ncclResult_t)c->state.load();
	return ncclSuccess;
}

API ncclResult_t ncclCommAbort(ncclComm_t c)
{
	c->left = true;
	if (c->worker.joinable())
		c->worker.join();
	return ncclSuccess; /* the board stays mapped: a joining thread may still read it */
}

API const char *ncclGetErrorString(ncclResult_t code)
{
	switch (code) {
	case ncclSuccess: return "no error";
	case ncclInvalidUsage: return "invalid usage";
	case ncclInvalidArgument: return "invalid argument";
	case ncclRemoteError: return "remote process exited or there was a network error";
	case ncclSystemError: return "unhandled system error";
	default: return "unhandled cuda error";
	}
}

API const char *ncclGetLastError(ncclComm_t) { return last_error; }

API ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t c, cudaStream_t s)
{
	return begin(ALL_REDUCE, from, to, n, type, op, 0, c, s);
}

API ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                            int root, ncclComm_t c, cudaStream_t s)
{
	return begin(REDUCE, from, to, n, type, op, root, c, s);
}

API ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                               ncclComm_t c, cudaStream_t s)
{
	return begin(BROADCAST, from, to, n, type, 0, root, c, s);
}

API ncclResult_t ncclGroupStart()
{
	depth++;
	return ncclSuccess;
}

API ncclResult_t ncclGroupEnd()
{
	ncclComm *c = of_group;
	std::vector<struct work> list;

	if (!depth)
		return fail(nullptr, ncclInvalidUsage, "the end of a group that has not begun");
	if (--depth || !c)
		return ncclSuccess;
	of_group = nullptr;
	list.swap(queued);
	return launch(c, stream_of_group, std::move(list));
}
