/* dev_plugin.h -- loads a device that is in a shared object. */
#ifndef RF_DEV_PLUGIN_H
#define RF_DEV_PLUGIN_H

#include "device/dev.h"

/* Loads rf-cuda.so and sets *ops to its table: the file $RF_PLUGIN, else rf-cuda.so in ../lib/rf-tools
 * (installed) or ../build (built), relative to the program.  *none: the file or the NVIDIA driver is missing,
 * so the user cannot expect a GPU here.  The file stays loaded.  Errors: RF_EDEVICE says what is missing. */
enum rf_code rf_plugin_open(const struct rf_ops **ops, bool *none, struct rf_err *e);

#endif
