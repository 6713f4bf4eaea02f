/* device_cpu.h -- the CPU as a device: functions that the checking device and tests also use. */
#ifndef RF_CPU_DEVICE_H
#define RF_CPU_DEVICE_H

#include "device/dev.h"

/* Allocates memory for the device's own use, 64-byte aligned; size: a multiple of 64.  free() releases it.
 * Returns NULL if there is too little memory. */
void *rf_cpu_memory(size_t size);

enum rf_code rf_cpu_open(struct rf_dev *d, struct rf_err *e);
void rf_cpu_close(struct rf_dev *d);
void *rf_cpu_alloc(struct rf_dev *d, size_t bytes);
void rf_cpu_release(struct rf_dev *d, void *p);
void rf_cpu_upload(struct rf_dev *d, void *to, const void *from, size_t bytes);
void rf_cpu_download(struct rf_dev *d, void *to, const void *from, size_t bytes);
void rf_cpu_zero(struct rf_dev *d, void *to, size_t bytes);
void rf_cpu_sync(struct rf_dev *d);
size_t rf_cpu_workspace(struct rf_dev *d, const struct rf_workspace *need);
void rf_cpu_prepare(struct rf_dev *d, const struct rf_workspace *need);
int rf_cpu_logit_rows(int vocab);

#endif
