/* stream EVERY [STREAM...] -- tests that a damaged stream is refused, or is still the same stream.
 *
 * The streams are one of each kind, and the files STREAM.  Each is cut at every byte, gets every bit flipped
 * and many pairs of bits, and has bytes changed, lost, added, exchanged and blanked; only one in EVERY of
 * these is tried.  EVERY has no common divisor with 2 and 3, so all bits of bytes and all changes are
 * tried.  Each frame is also dropped, doubled, swapped with each other frame, and replaced by a frame of
 * another stream.
 *
 * The rest tests reading and writing: pipes that give single bytes, signals, skipped frames, a killed
 * writer.  Writes files into the current folder.  Prints TAP. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/tempfile.h"
#include "unit/streams.h"
#include "unit/tap.h"

enum { RECORDS = 5, MOST = 64 };

/* ---- damage -------------------------------------------------------------------------------- */

static struct {
	uint64_t hash[MOST];
	int count;
} truth;
static struct {
	long refused, same, other, crooked;
} tally;
static long cases;
static size_t every;

/* Reads damaged bytes.  Each record that is read before the failure must be one that was written. */
static void judge_bytes(const void *data, size_t n)
{
	uint64_t hash[MOST];
	struct rf_err e = { 0 };
	int count;
	enum rf_code rc = read_hashes(data, n, hash, MOST, &count, &e);

	if (count > truth.count || memcmp(hash, truth.hash, (size_t)count * sizeof *hash))
		tally.other++;
	else if (rc == RF_EOF && count == truth.count)
		tally.same++;
	else if (rc == RF_EDATA && !strncmp(e.msg, "<test>: ", 8))
		tally.refused++;
	else
		tally.crooked++;
}

static void report_cases(const char *what, const char *kind, bool may_be_same)
{
	long all = tally.refused + tally.same + tally.other + tally.crooked;

	ok(all && !tally.other && !tally.crooked && (may_be_same || !tally.same),
	   "%s: %s: %ld cases, %ld refused, %ld still the same, %ld read as something else, %ld otherwise "
	   "wrong",
	   kind, what, all, tally.refused, tally.same, tally.other, tally.crooked);
	cases += all;
	memset(&tally, 0, sizeof tally);
}

/* Loses, adds, exchanges and blanks bytes. */
static void damage_bytes(const char *name, const unsigned char *p, size_t n)
{
	enum { BLANK = 16 };
	unsigned char *q = malloc(n + 1);

	for (size_t i = 0; i < n; i += every) {
		memcpy(q, p, i);
		memcpy(q + i, p + i + 1, n - i - 1);
		judge_bytes(q, n - 1);
	}
	report_cases("a byte lost", name, false);
	for (size_t i = 0; i < 2 * n; i += every) {
		memcpy(q, p, i / 2);
		/* the second time the byte comes twice */
		q[i / 2] = i % 2 ? p[i / 2] : (unsigned char)noise();
		memcpy(q + i / 2 + 1, p + i / 2, n - i / 2);
		judge_bytes(q, n + 1);
	}
	/* may be the same stream: a header can become the longer form, in which the next byte is the
	 * window */
	report_cases("a byte added", name, true);
	for (size_t i = 0; i + 1 < n; i += every) {
		memcpy(q, p, n);
		q[i] = p[i + 1];
		q[i + 1] = p[i];
		judge_bytes(q, n);
	}
	report_cases("two neighbours exchanged", name, true);
	for (size_t i = 0; i + BLANK <= n; i += every) {
		memcpy(q, p, n);
		memset(q + i, 0, BLANK);
		judge_bytes(q, n);
	}
	report_cases("16 bytes blank", name, true);
	free(q);
}

static void damage_stream(const char *name, unsigned char *p, size_t n)
{
	struct rf_err e;
	enum rf_code rc = read_hashes(p, n, truth.hash, MOST, &truth.count, &e);

	ok(rc == RF_EOF && truth.count > 1, "%s: %zu bytes, %d records are read whole", name, n,
	   truth.count - 1);
	for (size_t i = 0; i < n; i += every)
		judge_bytes(p, i);
	report_cases("cut after a byte", name, false);
	for (size_t i = 0; i < 8 * n; i += every) {
		p[i / 8] ^= (unsigned char)(1 << i % 8);
		judge_bytes(p, n);
		p[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	report_cases("a bit flipped", name, true);
	for (size_t i = 0; i < 2 * n; i += every) {
		unsigned char old = p[i / 2];
		p[i / 2] = i % 2 ? 0xff : 0;
		judge_bytes(p, n);
		p[i / 2] = old;
	}
	report_cases("a byte 00 or ff", name, true);
	for (size_t i = 0; i < 3 * n; i += every) {
		unsigned char old = p[i / 3];
		p[i / 3] = (unsigned char)noise();
		judge_bytes(p, n);
		p[i / 3] = old;
	}
	report_cases("a byte changed, three times", name, true);
	for (size_t i = 0; i < 4 * n; i += every) {
		size_t a = noise() % (8 * n),
		       b = i % 2 ? noise() % (8 * n) : (a + 1 + noise() % 32) % (8 * n);
		p[a / 8] ^= (unsigned char)(1 << a % 8);
		p[b / 8] ^= (unsigned char)(1 << b % 8);
		judge_bytes(p, n);
		p[b / 8] ^= (unsigned char)(1 << b % 8);
		p[a / 8] ^= (unsigned char)(1 << a % 8);
	}
	report_cases("two bits flipped, near and far", name, true);
	damage_bytes(name, p, n);
	{
		unsigned char *longer = malloc(n + 1);
		memcpy(longer, p, n);
		for (int c = 0; c < 256; c++) {
			longer[n] = (unsigned char)c;
			judge_bytes(longer, n + 1);
		}
		free(longer);
	}
	report_cases("a byte added at the end", name, false);
}

/* Reads the frames of m in this order. */
static void judge_frames(const struct made *m, const int *order, int n)
{
	struct rf_buf b = { 0 };

	for (int i = 0; i < n; i++)
		rf_buf_add(&b, m->bytes.p + m->at[order[i]], m->at[order[i] + 1] - m->at[order[i]]);
	judge_bytes(b.p, b.n);
	rf_buf_free(&b);
}

static void test_frames(enum kind kind)
{
	struct made m = { 0 };
	struct rf_err e;
	int order[MOST];

	some_stream(&m, kind, 5);
	read_hashes(m.bytes.p, m.bytes.n, truth.hash, MOST, &truth.count, &e);
	for (int drop = 0; drop < m.frames; drop++) {
		for (int i = 0; i < m.frames - 1; i++)
			order[i] = i + (i >= drop);
		judge_frames(&m, order, m.frames - 1);
	}
	report_cases("each frame dropped", kind_names[kind], false);
	for (int which = 0; which < m.frames; which++)
		for (int where = 0; where <= m.frames; where++) {
			for (int i = 0; i <= m.frames; i++)
				order[i] = i == where ? which : i - (i > where);
			judge_frames(&m, order, m.frames + 1);
		}
	report_cases("each frame doubled, at each place", kind_names[kind], false);
	for (int a = 0; a < m.frames; a++)
		for (int b = 0; b < a; b++) {
			for (int i = 0; i < m.frames; i++)
				order[i] = i == a ? b : i == b ? a : i;
			judge_frames(&m, order, m.frames);
		}
	report_cases("each two frames swapped", kind_names[kind], false);
	made_free(&m);
}

/* Reads a stream in which a part is replaced by a part of another stream of the same kind.  Records of the
 * other stream may be read, but the end record must be refused. */
static void judge_splice(const struct made *a, const struct made *b, size_t a_from, size_t a_to,
                         size_t b_from, size_t b_to)
{
	struct rf_buf x = { 0 };
	struct rf_err e = { 0 };
	uint64_t hash[MOST];
	int count;
	enum rf_code rc;

	rf_buf_add(&x, a->bytes.p, a_from);
	rf_buf_add(&x, b->bytes.p + b_from, b_to - b_from);
	rf_buf_add(&x, a->bytes.p + a_to, a->bytes.n - a_to);
	rc = read_hashes(x.p, x.n, hash, MOST, &count, &e);
	if (rc == RF_EDATA)
		tally.refused++;
	else if (rc == RF_EOF && count == truth.count &&
	         !memcmp(hash, truth.hash, (size_t)count * sizeof *hash))
		tally.same++;
	else
		tally.other++;
	rf_buf_free(&x);
}

static void test_splices(enum kind kind)
{
	struct made a = { 0 }, b = { 0 };
	struct rf_err e;
	size_t first = 0;

	some_stream(&a, kind, RECORDS);
	some_stream(&b, kind, RECORDS);
	read_hashes(a.bytes.p, a.bytes.n, truth.hash, MOST, &truth.count, &e);
	for (int i = 1; i < a.frames; i++) /* from 1: both streams have the same head */
		for (int k = 1; k < b.frames; k++)
			judge_splice(&a, &b, a.at[i], a.at[i + 1], b.at[k], b.at[k + 1]);
	report_cases("each frame replaced by each frame of another stream", kind_names[kind], false);
	/* a cut before the first difference gives all of b, which is valid */
	while (a.bytes.p[first] == b.bytes.p[first])
		first++;
	for (size_t i = first + 1; i < a.bytes.n; i += every)
		if (i < b.bytes.n)
			judge_splice(&a, &b, i, a.bytes.n, i, b.bytes.n);
	report_cases("the front of one stream and the back of another", kind_names[kind], true);
	made_free(&a);
	made_free(&b);
}

/* ---- frames that a stream cannot have ------------------------------------------------------ */

static void refuse(const char *name, const void *frame, size_t n, const char *words)
{
	struct made m = { 0 };
	struct rf_err e = { 0 };
	uint64_t hash[MOST];
	enum rf_code rc;
	int count;

	some_head(&m);
	rf_buf_add(&m.bytes, frame, n);
	rc = read_hashes(m.bytes.p, m.bytes.n, hash, MOST, &count, &e);
	ok(rc == RF_EDATA && strstr(e.msg, words), "%s is refused: %s", name, e.msg);
	made_free(&m);
}

/* Checks that skippable frames before, between and after the frames of a stream change nothing. */
static void test_skippable(void)
{
	static const unsigned char some[] = "\x50\x2a\x4d\x18\3\0\0\0abc\x5f\x2a\x4d\x18\0\0\0\0";
	uint64_t plain[MOST], with[MOST];
	struct made m = { 0 };
	struct rf_buf b = { 0 };
	struct rf_err e = { 0 };
	int count, again;
	bool good;

	some_stream(&m, ADVANTAGE, RECORDS);
	for (int i = 0; i <= m.frames; i++) {
		size_t end = i < m.frames ? m.at[i + 1] : m.at[i];

		rf_buf_add(&b, some, sizeof some - 1);
		rf_buf_add(&b, m.bytes.p + m.at[i], end - m.at[i]);
	}
	good = read_hashes(m.bytes.p, m.bytes.n, plain, MOST, &count, &e) == RF_EOF &&
	       read_hashes(b.p, b.n, with, MOST, &again, &e) == RF_EOF;
	ok(good && count == again && !memcmp(plain, with, (size_t)count * sizeof *plain),
	   "skippable frames between the frames of a stream have no effect: %s", good ? "yes" : e.msg);
	rf_buf_free(&b);
	made_free(&m);
}

static size_t peak_memory(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (size_t)use.ru_maxrss << 10;
}

static void test_foreign_frames(void)
{
	static unsigned char bomb[18 + 4 * 2048 + 4];
	unsigned char msg[3000], frame[4000];
	size_t n, before;
	ZSTD_CCtx *z = ZSTD_createCCtx();

	memset(msg, 'x', sizeof msg);
	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 0);
	n = ZSTD_compress2(z, frame, sizeof frame, msg, sizeof msg);
	refuse("a frame without checksum", frame, n, "has no checksum");
	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
	n = ZSTD_compress2(z, frame, sizeof frame, msg, sizeof msg);
	refuse("a frame without content size", frame, n, "does not state its content size");
	ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 1);
	n = ZSTD_compress2(z, frame, sizeof frame, msg, sizeof msg);
	refuse("a frame of text", frame, n, "bad msgpack");
	frame[4] |= 1;
	refuse("a dictionary", frame, n, "dictionary");
	frame[4] = (unsigned char)((frame[4] & ~3) | 8);
	refuse("a reserved bit", frame, n, "reserved");
	refuse("a frame after a skippable one", "\x50\x2a\x4d\x18\4\0\0\0abcd\x1e\xb5\x2f\xfd\0\0\0\0", 20,
	       "no zstd frame begins here");
	refuse("a skippable frame that is cut", "\x5f\x2a\x4d\x18\5\0\0\0abcd", 12, "truncated");
	refuse("a skippable frame of 4 GiB that is cut",
	       "\x50\x2a\x4d\x18\xff\xff\xff\xff"
	       "abcd",
	       12, "truncated");
	refuse("the header of a skippable frame", "\x50\x2a\x4d\x18\4\0\0", 7, "truncated");
	refuse("nothing but skippable frames", "\x50\x2a\x4d\x18\0\0\0\0\x57\x2a\x4d\x18\1\0\0\0a", 17,
	       "the end record is missing");
	refuse("a frame of zstd 0.1", "\x1e\xb5\x2f\xfd\0\0\0\0", 8, "no zstd frame begins here");
	refuse("an empty frame", "\x28\xb5\x2f\xfd\x24\0\1\0\0\x99\xe9\xd8\x51", 13, "cut short");
	refuse("a block of the reserved type", "\x28\xb5\x2f\xfd\x24\4\7\0\0", 9, "an impossible block");
	refuse("a block larger than its window", "\x28\xb5\x2f\xfd\x24\4\x29\0\0", 9, "an impossible block");
	refuse("2^60 bytes claimed", "\x28\xb5\x2f\xfd\xc4\x38\0\0\0\0\0\0\0\x10", 14,
	       "claims 1152921504606846976 bytes, more than the limit of 268435456");
	refuse("a window of 2 GiB", "\x28\xb5\x2f\xfd\xc4\xa8\1\0\0\0\0\0\0\0", 14, "window");
	refuse("a segment of 9 MiB", "\x28\xb5\x2f\xfd\xa4\0\0\x90\0", 9, "window");

	/* 2048 blocks of 128 KiB of zeros in 8 KiB: within the limit, so memory for them is allocated once */
	memcpy(bomb, "\x28\xb5\x2f\xfd\xc4\x38\0\0\0\x10\0\0\0\0", 14);
	for (int i = 0; i < 2048; i++)
		memcpy(bomb + 14 + 4 * i, i < 2047 ? "\2\0\20\0" : "\3\0\20\0", 4);
	before = peak_memory();
	refuse("256 MiB of zeros in 8 KiB", bomb, 14 + 4 * 2048 + 4, "the frame is damaged");
	ok(peak_memory() - before <= (UINT64_C(300) << 20), "they take %zu MiB",
	   (peak_memory() - before) >> 20);
	ZSTD_freeCCtx(z);
}

/* ---- pipes --------------------------------------------------------------------------------- */

static void on_alarm(int sig) { (void)sig; }

/* Reads from a writer that gives one byte at a time, while signals interrupt the reader. */
static void test_trickle(bool nonblocking)
{
	struct made m = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	struct rf_record *r;
	struct rf_err e = { 0 };
	struct rf_in *in;
	enum rf_code rc;
	int fd[2], saved = dup(STDIN_FILENO), records = 0;
	pid_t pid;

	some_stream(&m, ADVANTAGE, RECORDS);
	if (pipe(fd) || (pid = fork()) < 0)
		exit(2);
	if (!pid) {
		for (size_t i = 0; i < m.bytes.n; i++) {
			if (i % 50 == 0)
				usleep(500);
			if (write(fd[1], m.bytes.p + i, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(fd[1]);
	if (nonblocking)
		fcntl(fd[0], F_SETFL, O_NONBLOCK);
	dup2(fd[0], STDIN_FILENO);
	close(fd[0]);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	if ((rc = rf_in_open(&in, NULL, 0, &e)) == RF_OK) {
		while ((rc = rf_next(in, &r, &e)) == RF_OK)
			records++;
		rf_in_close(in);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	ok(rc == RF_EOF && records == RECORDS,
	   "a pipe that gives single bytes%s is read to its end while signals arrive: %s",
	   nonblocking ? ", not blocking" : "", rc == RF_EOF ? "yes" : e.msg);
	dup2(saved, STDIN_FILENO);
	close(saved);
	waitpid(pid, NULL, 0);
	made_free(&m);
}

/* Writes to a standard output that does not block and has a slow reader. */
static void test_full_pipe(void)
{
	struct rf_record r;
	struct rf_head h;
	struct rf_err e = { 0 };
	struct rf_out *out;
	enum rf_code rc;
	int fd[2], saved = dup(STDOUT_FILENO), status = -1;
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) || (pid = fork()) < 0)
		exit(2);
	if (!pid) {
		struct rf_record *got;
		struct rf_in *in;
		uint64_t n = 0;
		dup2(fd[0], STDIN_FILENO);
		close(fd[0]);
		close(fd[1]);
		usleep(50000);
		if (rf_in_open(&in, NULL, 0, &e) != RF_OK)
			_exit(1);
		while ((rc = rf_next(in, &got, &e)) == RF_OK && got->id == n++)
			;
		_exit(rc != RF_EOF || n != 4);
	}
	close(fd[0]);
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	dup2(fd[1], STDOUT_FILENO);
	close(fd[1]);
	rf_record_init(&r);
	rf_head_init(&h);
	rc = rf_out_open(&out, NULL, &h, &e);
	for (uint64_t i = 0; rc == RF_OK && i < 4; i++) {
		some_record(&r, TOKENS, i);
		r.d = 20000;
		r.hidden = some_floats(&r, (size_t)r.T * (size_t)r.d);
		rc = rf_put(out, &r, &e);
	}
	if (rc == RF_OK)
		rc = rf_out_finish(out, &e);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	waitpid(pid, &status, 0);
	ok(rc == RF_OK && status == 0, "a full pipe that does not block gets the whole stream: %s",
	   rc == RF_OK ? "yes" : e.msg);
	rf_record_free(&r);
}

/* ---- skipping ------------------------------------------------------------------------------ */

/* Skips n records of standard input or of the file, then reads on. */
static void skip_and_read(const char *path, const char *how, uint64_t n, uint64_t records)
{
	struct rf_record *r;
	struct rf_err e = { 0 };
	struct rf_in *in;
	enum rf_code rc = rf_in_open(&in, path, 0, &e), end;
	uint64_t next = n;
	bool right = rc == RF_OK;

	if (rc == RF_OK) {
		rc = rf_skip(in, n, &e);
		right = rc == (n > records ? RF_EOF : RF_OK);
		while (rc == RF_OK && (rc = rf_next(in, &r, &e)) == RF_OK)
			right = right && r->id == next++;
		end = rf_next(in, &r, &e);
		right = right && rc == RF_EOF && end == RF_EOF && next == (n > records ? n : records) &&
		        rf_in_count(in) == records;
		rf_in_close(in);
	}
	ok(right, "%s: %d records, %d of them skipped: %s", how, (int)records, (int)n, right ? "yes" : e.msg);
}

static void write_file(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	if (fd < 0 || write(fd, p, n) != (ssize_t)n || close(fd))
		exit(2);
}

static void test_skipping(void)
{
	struct made m = { 0 };
	int saved = dup(STDIN_FILENO);
	struct rf_err e = { 0 };
	struct rf_in *in;
	enum rf_code rc = RF_OK;

	some_stream(&m, ROLLOUT, 20);
	write_file("stream.rf", m.bytes.p, m.bytes.n);
	for (uint64_t n = 0; n <= 22; n++)
		skip_and_read("stream.rf", "a file", n, 20);
	for (uint64_t n = 0; n <= 22; n += 11) {
		int fd[2];
		if (pipe(fd) || write(fd[1], m.bytes.p, m.bytes.n) != (ssize_t)m.bytes.n)
			exit(2);
		dup2(fd[0], STDIN_FILENO);
		close(fd[0]);
		close(fd[1]);
		skip_and_read(NULL, "a pipe", n, 20);
	}
	dup2(saved, STDIN_FILENO);
	close(saved);

	/* skipped frames are not decompressed, but they are counted, and the end record must exist */
	for (size_t cut = 1; cut < m.bytes.n; cut += 97) {
		write_file("stream.rf", m.bytes.p, cut);
		rc = rf_in_open(&in, "stream.rf", 0, &e);
		if (rc == RF_OK) {
			rc = rf_skip(in, UINT64_MAX, &e);
			rf_in_close(in);
		}
		if (rc != RF_EDATA)
			break;
	}
	ok(rc == RF_EDATA, "a truncated file is refused when its records are skipped: %s", e.msg);
	rf_buf_free(&m.bytes);
	XXH64_freeState(m.hash);

	/* a large frame is skipped by seeking */
	memset(&m, 0, sizeof m);
	some_head(&m);
	{
		struct rf_record r;
		struct rf_buf b = { 0 };
		rf_record_init(&r);
		for (uint64_t i = 0; i < 3; i++) {
			some_record(&r, TOKENS, i);
			r.d = 100000;
			r.hidden = some_floats(&r, (size_t)r.T * (size_t)r.d);
			b.n = 0;
			rf_record_encode(&b, i + 1, &r);
			made_message(&m, b.p, b.n);
		}
		rf_buf_free(&b);
		rf_record_free(&r);
	}
	made_end(&m);
	write_file("stream.rf", m.bytes.p, m.bytes.n);
	for (uint64_t n = 0; n <= 4; n++)
		skip_and_read("stream.rf", "a file of large records", n, 3);
	made_free(&m);
	unlink("stream.rf");
}

static void damage_file(const char *path)
{
	static unsigned char data[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);

	if (ok(n > 0, "%s is read", path))
		damage_stream(strrchr(path, '/') ? strrchr(path, '/') + 1 : path, data, (size_t)n);
	if (fd >= 0)
		close(fd);
}

static void remove_and_exit(int sig)
{
	rf_tempfile_unlink();
	_exit(128 + sig);
}

/* Checks that the unfinished files of a killed program are removed, also if it has more than RF_TEMPFILES. */
static void test_killed_writer(void)
{
	struct rf_tempfile f[RF_TEMPFILES + 1];
	struct rf_err e = { 0 };
	char path[20], last[4096];
	int status;
	pid_t pid;

	if (rf_tempfile_open(&f[0], "half-a", NULL, &e) != RF_OK ||
	    rf_tempfile_open(&f[1], "half-b", NULL, &e) != RF_OK) {
		ok(false, "two files are opened (%s)", e.msg);
		return;
	}
	fflush(stdout);
	if (!(pid = fork())) {
		signal(SIGTERM, remove_and_exit);
		raise(SIGTERM);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	ok(WEXITSTATUS(status) == 128 + SIGTERM && access(f[0].at, F_OK) && access(f[1].at, F_OK),
	   "a signal that kills a program removes its two unfinished files");
	rf_tempfile_abandon(&f[0]);
	rf_tempfile_abandon(&f[1]);

	for (int i = 0; i <= RF_TEMPFILES; i++) {
		snprintf(path, sizeof path, "half-%d", i);
		if (rf_tempfile_open(&f[i], path, NULL, &e) != RF_OK)
			ok(false, "%s", e.msg);
	}
	if (rf_tempfile_commit(&f[1], NULL, &e) != RF_OK)
		ok(false, "%s", e.msg);
	rf_tempfile_unlink();
	ok(access(f[0].at, F_OK) && !access("half-1", F_OK) && access(f[2].at, F_OK) &&
	           !access(f[RF_TEMPFILES].at, F_OK),
	   "a committed file stays, and more files than places are removed");
	snprintf(last, sizeof last, "%s", f[RF_TEMPFILES].at);
	for (int i = 0; i <= RF_TEMPFILES; i++)
		rf_tempfile_abandon(&f[i]);
	ok(access(last, F_OK), "a file that has no place is removed when it is abandoned");
	unlink("half-1");
}

int main(int argc, char *argv[])
{
	every = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	for (enum kind k = 0; k < KINDS; k++) {
		struct made m = { 0 };
		some_stream(&m, k, RECORDS);
		damage_stream(kind_names[k], m.bytes.p, m.bytes.n);
		made_free(&m);
	}
	for (int i = 2; i < argc; i++)
		damage_file(argv[i]);
	for (enum kind k = 0; k < KINDS; k++) {
		test_frames(k);
		test_splices(k);
	}
	ok(argc < 4 || cases >= 400000 / (long)every, "%ld damaged streams were tried, at least %ld", cases,
	   400000 / (long)every);
	test_foreign_frames();
	test_skippable();
	test_trickle(false);
	test_trickle(true);
	test_full_pipe();
	test_skipping();
	test_killed_writer();
	ok(rf_fail(NULL, RF_EIO, "no") == RF_EIO && rf_blame(NULL, "where") != RF_OK,
	   "a caller may pass no place for the sentence");
	return tap_end();
}
