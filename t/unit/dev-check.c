/* dev-check -- tests that the device `check` detects errors. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/dev.h"
#include "unit/tap.h"

static struct rf_dev d;
static struct rf_err e;

static void reopen(void)
{
	if (d.ops)
		rf_dev_close(&d);
	if (rf_dev_open(&d, "check", 2, RF_MATH_F32, NULL, &e) != RF_OK) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
}

static rf_f32 floats(int n) { return d.ops->alloc(&d, (size_t)n * sizeof(float)); }

/* Checks that sync fails with this code and a message that contains `what`. */
static bool reports(enum rf_code code, const char *what)
{
	bool silent = d.err.code == RF_OK, said = rf_dev_sync(&d, &e) == code && strstr(e.msg, what);

	if (!silent || !said)
		printf("# before sync: '%s', then '%s'\n", silent ? "" : d.err.msg, e.msg);
	return silent && said;
}

/* Returns whether fn ends the process with a failure or a signal. */
static bool ends_process(void (*fn)(void))
{
	int status;
	pid_t child;

	fflush(stdout);
	if ((child = fork()) == 0) {
		if (!freopen("/dev/null", "w", stderr)) /* the sanitizer's report */
			_exit(0);
		reopen(); /* threads are not inherited */
		fn();
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void read_handle(void)
{
	volatile float x = *(volatile float *)(void *)floats(4);
	(void)x;
}

static void write_handle(void) { *(volatile float *)(void *)floats(4) = 1; }

/* Adds n numbers of x to y. */
static void add_floats(int n, rf_f32 x, rf_f32 y)
{
	RF_RUN(&d, axpy, .n = (size_t)n, .scale = 1, .x = x, .y = y);
	rf_dev_sync(&d, &e);
}

static void write_far(void) { add_floats(33, floats(33), floats(16)); }
static void write_inside(void) { add_floats(16, floats(33), floats(16)); }

/* Checks that the CPU, too, runs no operation after a failed one: the failed operation may have left a list
 * of rows unwritten, and a later operation would use these rows as indices. */
static void test_after_failure(void)
{
	const int32_t wild[] = { INT32_MAX, INT32_MIN };
	const float one[] = { 1, 1 };
	float y[2] = { 0 };
	struct rf_dev cpu;
	rf_f32 x;
	rf_i32 i;

	if (rf_dev_open(&cpu, "cpu", 2, RF_MATH_F32, NULL, &e) != RF_OK)
		return;
	x = cpu.ops->alloc(&cpu, sizeof one);
	i = cpu.ops->alloc(&cpu, sizeof wild);
	cpu.ops->upload(&cpu, x, one, sizeof one);
	cpu.ops->upload(&cpu, i, wild, sizeof wild);
	rf_dev_fail(&cpu, RF_ENOMEM, "out of memory");
	RF_RUN(&cpu, rows, .n = 2, .d = 1, .from = x, .fi = i, .to = x);
	RF_RUN(&cpu, embed_fwd, .rows = 2, .d = 1, .tokens = i, .w = x, .y = x);
	RF_RUN(&cpu, axpy, .n = 2, .scale = 5, .x = x, .y = x);
	cpu.ops->download(&cpu, y, x, sizeof y);
	ok(rf_dev_sync(&cpu, &e) == RF_ENOMEM && y[0] == 1 && y[1] == 1,
	   "after a failure the CPU also runs nothing");
	cpu.ops->release(&cpu, x);
	cpu.ops->release(&cpu, i);
	rf_dev_close(&cpu);
}

int main(void)
{
	float h[16], back[16], *big;
	struct rf_axpy a = { .n = 16, .scale = 2 };
	rf_f32 x, y;
	bool good = true;

	test_after_failure();
	ok(!ends_process(write_inside), "an operation on device memory does not end the process");
	ok(ends_process(read_handle), "reading a handle on the host ends the process");
	ok(ends_process(write_handle), "writing to a handle on the host ends the process");
	ok(ends_process(write_far), "an operation that runs far past the end ends the process");

	reopen();
	x = floats(16);
	d.ops->download(&d, back, x, sizeof back);
	for (int i = 0; i < 16; i++)
		good &= isnan(back[i]) != 0;
	ok(good, "new memory is full of NaN");

	y = floats(16);
	for (int i = 0; i < 16; i++)
		h[i] = (float)i;
	d.ops->upload(&d, x, h, sizeof h);
	memset(h, 0xff, sizeof h);
	a.x = x;
	a.y = y;
	d.ops->axpy(&d, &a);
	memset(&a, 0xff, sizeof a);
	d.ops->release(&d, x);
	d.ops->download(&d, back, y, sizeof back);
	good = true;
	for (int i = 0; i < 16; i++)
		good &= back[i] == (float)(2 * i);
	ok(good, "operations run in order, on copies of their arguments, before memory is released");
	ok(rf_dev_sync(&d, &e) == RF_OK, "releasing memory after queueing operations is not a failure");
	ok(d.used == 16 * sizeof(float) && d.peak == 32 * sizeof(float),
	   "the device counts the memory in use");

	RF_RUN(&d, axpy, .n = 16, .scale = 1, .x = x, .y = y);
	d.ops->download(&d, back, y, sizeof back);
	ok(isnan(back[3]), "after a failure a download gives NaN");
	ok(reports(RF_ENUMERIC, "axpy: x is not in live"),
	   "an operation on released memory is an error, which only sync reports");

	reopen();
	RF_RUN(&d, axpy, .n = 16, .scale = 1, .y = floats(16));
	ok(reports(RF_ENUMERIC, "axpy: x is NULL"),
	   "a missing operand is an error, and the message names it");
	reopen();
	RF_RUN(&d, rows, .n = 1, .d = 16, .from = floats(16), .to = floats(16));
	ok(rf_dev_sync(&d, &e) == RF_OK, "a missing optional operand is not an error");

	reopen();
	x = floats(15);
	RF_RUN(&d, axpy, .n = 16, .scale = 1, .x = y = floats(16), .y = x);
	ok(reports(RF_ENUMERIC, "wrote outside a block of 60 bytes"),
	   "sync reports an operation that writes a little past the end");
	reopen();
	x = floats(15);
	RF_RUN(&d, axpy, .n = 16, .scale = 1, .x = floats(16), .y = rf_at(x, (size_t)-1));
	ok(reports(RF_ENUMERIC, "axpy: y is not in live"),
	   "a handle before the beginning of memory is an error");
	reopen();
	x = floats(15);
	RF_RUN(&d, axpy, .n = 16, .scale = 1, .x = floats(16), .y = x);
	d.ops->release(&d, x);
	ok(reports(RF_ENUMERIC, "wrote outside"),
	   "a write past the end is reported after the memory is released");

	reopen();
	d.ops->upload(&d, rf_at(floats(15), 1), h, 15 * sizeof *h);
	ok(reports(RF_ENUMERIC, "upload: the target"), "an upload past the end is an error");
	reopen();
	d.ops->zero(&d, floats(15), 16 * sizeof *h);
	ok(reports(RF_ENUMERIC, "zero: the target"), "zeros past the end are an error");
	reopen();
	d.ops->download(&d, back, floats(15), sizeof back);
	ok(reports(RF_ENUMERIC, "download: the source"), "a download past the end is an error");
	reopen();
	d.ops->zero(&d, h, sizeof h);
	ok(reports(RF_ENUMERIC, "zero: the target"), "an address of the host is not accepted as a handle");
	reopen();
	x = floats(16);
	d.ops->release(&d, x);
	d.ops->release(&d, x);
	ok(reports(RF_ENUMERIC, "released"), "releasing memory twice is an error");
	reopen();
	d.ops->release(&d, rf_at(floats(16), 1));
	ok(reports(RF_ENUMERIC, "released"), "releasing the middle of memory is an error");
	reopen();
	d.ops->release(&d, NULL);
	for (int i = 0; i < 3000; i++) {
		d.ops->upload(&d, x = floats(16), h, sizeof h);
		d.ops->release(&d, x);
	}
	ok(rf_dev_sync(&d, &e) == RF_OK && d.used == 0, "thousands of allocations can be made and released");

	x = floats(10 << 20);
	big = malloc(10 << 22);
	if (!big)
		return 1;
	for (int i = 0; i < 10 << 20; i++)
		big[i] = (float)i;
	for (int i = 0; i < 40; i++)
		d.ops->upload(&d, rf_at(x, (size_t)i << 18), big + ((size_t)i << 18), 1 << 20);
	memset(big, 0, 10 << 22);
	d.ops->download(&d, big, x, 10 << 22);
	for (int i = 0; i < 10 << 20; i++)
		good &= big[i] == (float)i;
	free(big);
	ok(good && rf_dev_sync(&d, &e) == RF_OK, "a long queue runs before sync");
	ok(!d.ops->alloc(&d, (size_t)1 << 60) && d.err.code == RF_ENOMEM,
	   "too large an allocation is refused");
	rf_dev_close(&d);
	return tap_end();
}
