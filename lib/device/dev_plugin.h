/* dev_plugin.h -- loads a device that is in a shared object, or tells why that is impossible. */
#ifndef RF_DEV_PLUGIN_H
#define RF_DEV_PLUGIN_H

#include "device/dev.h"
#include "device/plugin_about.h"
#include "io/shared_object.h"

/* Loads rf-cuda.so and sets *ops to its table: the file $RF_PLUGIN, else rf-cuda.so in ../lib/rf-tools
 * (installed) or ../build (built), relative to the program.  *none: the file or the NVIDIA driver is missing,
 * so the user cannot expect a GPU here.  The file stays loaded.  Errors: RF_EDEVICE says what is missing. */
enum rf_code rf_plugin_open(const struct rf_ops **ops, bool *none, struct rf_err *e);

/* Facts about the plugin that can be found without loading it. */
struct rf_plugin_look {
	char path[RF_PLUGIN_PATH];    /* "": there is no such file */
	bool named;                   /* RF_PLUGIN names the file, so a user expects a GPU */
	bool driver;                  /* the library of the NVIDIA driver can be loaded */
	struct rf_plugin_about about; /* archs "": the file does not say */
	char lacks[200]; /* the libraries that it needs and the system lacks, separated by ", " */
};

/* Looks at the file that rf_plugin_open() would load, within a few milliseconds.  Errors: RF_EDEVICE: it
 * cannot be loaded, whether or not there is a driver; the sentence says why. */
enum rf_code rf_plugin_look(struct rf_plugin_look *p, struct rf_err *e);

#endif
