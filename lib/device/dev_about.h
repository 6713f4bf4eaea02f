/* dev_about.h -- what --version says about the devices of a program: levels of the instruction set, and the
 * CUDA plugin. */
#ifndef RF_DEV_ABOUT_H
#define RF_DEV_ABOUT_H

#include "base/buf.h"

/* Appends two lines to the text: the level of the instruction set in force, with the levels of this processor
 * and of the build; and the architectures and the path of the CUDA plugin, or why it cannot be used.  No
 * device is opened. */
void rf_dev_about(struct rf_buf *text);

/* Returns the name of the i-th level that the kernels are compiled for, from the lowest up; NULL if i is too
 * large.  In kernels/cpu/device_cpu.c. */
const char *rf_cpu_built(int i);

#endif
