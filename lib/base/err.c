/* err.c -- failures in words.  The function that finds a failure writes the sentence.  Each caller on the way
 * up prepends the detail that only this caller knows, such as the record or the file. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/err.h"

enum rf_code rf_fail(struct rf_err *e, enum rf_code code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	return code;
}

enum rf_code rf_blame(struct rf_err *e, const char *fmt, ...)
{
	char old[sizeof e->msg];
	va_list ap;
	int n;

	if (!e)
		return RF_ENUMERIC;
	memcpy(old, e->msg, sizeof old);
	va_start(ap, fmt);
	n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof e->msg)
		snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", old);
	return e->code;
}

static const int status[] = {
	[RF_OK] = EX_OK,
	[RF_EOF] = EX_OK,
	[RF_EUSAGE] = EX_USAGE,
	[RF_EDATA] = EX_DATAERR,
	[RF_ENOINPUT] = EX_NOINPUT,
	[RF_EDEVICE] = EX_UNAVAILABLE,
	[RF_ENUMERIC] = EX_SOFTWARE,
	[RF_ENOMEM] = EX_OSERR,
	[RF_EIO] = EX_IOERR,
	[RF_EBUSY] = EX_TEMPFAIL,
	[RF_EMODEL] = EX_CONFIG,
};
enum { CODES = sizeof status / sizeof *status };

int rf_exit_status(enum rf_code code)
{
	/* an error without a code is a bug in these programs, and its message says so */
	return (size_t)code < CODES ? status[code] : status[RF_ENUMERIC];
}

enum rf_code rf_exit_code(int s)
{
	for (int code = RF_EUSAGE; code < CODES; code++)
		if (status[code] == s)
			return (enum rf_code)code;
	return s ? RF_EBUSY : RF_OK;
}

char *rf_quote(char *buf, size_t size, const void *s, size_t n)
{
	const unsigned char *p = s;
	size_t w = 0;

	for (size_t i = 0; i < n; i++) {
		char esc[5];
		int len = p[i] >= 32 && p[i] < 127 ? snprintf(esc, sizeof esc, "%c", p[i])
		          : p[i] == '\n'           ? snprintf(esc, sizeof esc, "\\n")
		                                   : snprintf(esc, sizeof esc, "\\x%02x", p[i]);
		if (w + (size_t)len + 4 > size) {
			memcpy(buf + w, "...", 4);
			return buf;
		}
		memcpy(buf + w, esc, (size_t)len);
		w += (size_t)len;
	}
	buf[w] = 0;
	return buf;
}
