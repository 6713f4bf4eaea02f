/* shared_object.h -- shared objects that a program loads only when it is asked for what they do. */
#ifndef RF_SHARED_OBJECT_H
#define RF_SHARED_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { RF_PLUGIN_PATH = 4200 };

struct rf_plugin_kind {
	const char *what, *file;     /* "CUDA", "rf-cuda.so" */
	const char *variable;        /* of the environment: the path of another one */
	const char *otherwise;       /* what to do where it is not there, in words */
	const char *table;           /* its symbol: a struct that begins with a uint64_t, its abi */
	uint64_t abi;
	bool global;                 /* what it loads itself looks for its symbols among the program's */
};

/* *path: the variable's, else `found`: the file in ../lib/rf-tools from the program (installed), or in
 * ../build (built).  Errors: RF_EDEVICE: it is in neither. */
enum rf_code rf_plugin_find(const struct rf_plugin_kind *k, const char **path, char found[RF_PLUGIN_PATH],
                            struct rf_err *e);
/* Loads it, for good.  *table: what its symbol names.  Errors: RF_EDEVICE: it cannot be loaded, and the
 * loader's words say why, or it has another abi. */
enum rf_code rf_plugin_load(const struct rf_plugin_kind *k, const char *path, const void **table,
                            struct rf_err *e);

#endif
