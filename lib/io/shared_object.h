/* shared_object.h -- loads shared objects that only some command lines need, such as the CUDA backend. */
#ifndef RF_SHARED_OBJECT_H
#define RF_SHARED_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { RF_PLUGIN_PATH = 4200 };

struct rf_plugin_kind {
	const char *what, *file; /* its name in messages and its file: "CUDA", "rf-cuda.so" */
	const char *variable;    /* environment variable with the path of another file */
	const char *otherwise;   /* advice for the message if the file is missing */
	const char *table;       /* symbol of a struct that begins with a uint64_t, its abi */
	uint64_t abi;
	bool global; /* libraries that it loads may use its symbols (RTLD_GLOBAL) */
};

/* Finds the file.  *path becomes the value of the variable or, if that is unset, `found`: the file in
 * ../lib/rf-tools from the program (installed), or in ../build (built).  Errors: RF_EDEVICE: the file is in
 * neither. */
enum rf_code rf_plugin_find(const struct rf_plugin_kind *k, const char **path, char found[RF_PLUGIN_PATH],
                            struct rf_err *e);
/* Loads the file; it stays loaded.  *table: the struct.  Errors: RF_EDEVICE: the file cannot be loaded (the
 * sentence has the loader's reason), or it has another abi. */
enum rf_code rf_plugin_load(const struct rf_plugin_kind *k, const char *path, const void **table,
                            struct rf_err *e);
/* Returns RF_EDEVICE with the sentence about a file of another abi. */
enum rf_code rf_plugin_differs(const struct rf_plugin_kind *k, const char *path, struct rf_err *e);

#endif
