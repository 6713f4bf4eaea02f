/* tap.h -- prints TAP for the unit programs, and gives their exit status. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_tests, tap_failures;

/* Prints the result of a test, whose description is a format, and returns it. */
__attribute__((format(printf, 2, 3))) static bool ok(bool good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout); /* a fork would copy what is in the buffer */
	tap_failures += !good;
	return good;
}

/* Prints the number of tests.  Returns the exit status: 0 if no test failed, otherwise 1. */
static int tap_end(void)
{
	printf("1..%d\n", tap_tests);
	return tap_failures != 0;
}

#endif
