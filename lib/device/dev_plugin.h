/* dev_plugin.h -- a device that is a shared object of its own, loaded when it is asked for. */
#ifndef RF_DEV_PLUGIN_H
#define RF_DEV_PLUGIN_H

#include "device/dev.h"

/* The table of rf-cuda.so: of $RF_PLUGIN, else in ../lib/rf-tools from the program (installed) or ../build
 * (built).  RF_EDEVICE says what is missing: the file or the NVIDIA driver (then *none: nobody would expect a
 * GPU here), or what the loader wants.  It stays loaded. */
enum rf_code rf_plugin_open(const struct rf_ops **ops, bool *none, struct rf_err *e);

#endif
