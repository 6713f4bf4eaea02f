/* device_cpu.h -- the CPU as a device, for the checking device and tests: the memory behind its handles. */
#ifndef RF_CPU_DEVICE_H
#define RF_CPU_DEVICE_H

#include "device/dev.h"

/* 64-byte aligned memory for the device's own use, of a multiple of 64 bytes; free() gives it back.
 * NULL: none. */
void *rf_cpu_memory(size_t size);

enum rf_code rf_cpu_open(struct rf_dev *d, struct rf_err *e);
void rf_cpu_close(struct rf_dev *d);
void *rf_cpu_alloc(struct rf_dev *d, size_t bytes);
void rf_cpu_release(struct rf_dev *d, void *p);
void rf_cpu_upload(struct rf_dev *d, void *to, const void *from, size_t bytes);
void rf_cpu_download(struct rf_dev *d, void *to, const void *from, size_t bytes);
void rf_cpu_zero(struct rf_dev *d, void *to, size_t bytes);
void rf_cpu_sync(struct rf_dev *d);
size_t rf_cpu_workspace(struct rf_dev *d, const struct rf_workspace *b);
void rf_cpu_prepare(struct rf_dev *d, const struct rf_workspace *b);

#endif
