/* device_cpu.h -- the CPU as a device: its table for this processor, and the memory behind its handles. */
#ifndef RF_CPU_DEVICE_H
#define RF_CPU_DEVICE_H

#include "device/dev.h"

/* The level of the instruction set that kernels and oneDNN compute at, for the whole process: `auto`, which
 * is the highest of the processor's with all that oneDNN knows beyond it, or a level's name, which limits
 * both.  NULL: the one that was taken already, else that of $RF_ISA, else auto.  RF_EUSAGE: there is no such
 * level, or another one was taken; RF_EDEVICE: the processor lacks it. */
enum rf_code rf_cpu_isa(const char *name, struct rf_err *e);
/* After that: its name, and "+bf16" or "+amx" where products have such instructions. */
const char *rf_cpu_level(void);
/* After that: its table. */
const struct rf_ops *rf_cpu_ops(void);
/* The i-th level of this processor by name, from its highest down; NULL: there are no more. */
const char *rf_cpu_has(int i);

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
size_t rf_cpu_beside(struct rf_dev *d, const struct rf_beside *b);
void rf_cpu_prepare(struct rf_dev *d, const struct rf_beside *b);

#endif
