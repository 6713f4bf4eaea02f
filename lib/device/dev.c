/* dev.c -- the functions that are the same for all devices: the first failure stays with the device. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/dev.h"

void rf_dev_close(struct rf_dev *d)
{
	if (d->ops)
		d->ops->close(d);
}

enum rf_code rf_dev_sync(struct rf_dev *d, struct rf_err *e)
{
	d->ops->sync(d);
	if (d->err.code != RF_OK && e)
		*e = d->err;
	return d->err.code;
}

void rf_dev_fail(struct rf_dev *d, enum rf_code code, const char *fmt, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* kernels fail on any thread */
	va_list ap;

	pthread_mutex_lock(&lock);
	if (d->err.code == RF_OK) {
		d->err.code = code;
		va_start(ap, fmt);
		vsnprintf(d->err.msg, sizeof d->err.msg, fmt, ap);
		va_end(ap);
	}
	pthread_mutex_unlock(&lock);
}
