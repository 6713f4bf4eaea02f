/* warn.c -- collects sentences for the user in one text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/warn.h"

void rf_warn(char *to, size_t size, const char *fmt, ...)
{
	size_t n = strlen(to);
	va_list ap;

	if (n && n + 2 < size) {
		memcpy(to + n, "; ", 3);
		n += 2;
	}
	va_start(ap, fmt);
	vsnprintf(to + n, size - n, fmt, ap);
	va_end(ap);
}
