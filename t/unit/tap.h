/* tap.h -- what unit programs print: TAP, and a status that says whether all was well. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_tests, tap_failures;

__attribute__((format(printf, 2, 3))) static bool ok(bool good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout); /* before a fork */
	tap_failures += !good;
	return good;
}

static int tap_end(void)
{
	printf("1..%d\n", tap_tests);
	return tap_failures != 0;
}

#endif
