/* plugin.h -- where the shared objects are that a program loads only when it is asked for what they do. */
#ifndef RF_IO_PLUGIN_H
#define RF_IO_PLUGIN_H

#include <stdbool.h>

enum { RF_PLUGIN_PATH = 4200 };

/* Looks for the plugin called `name` in ../lib/rf-tools from the program (installed), then in ../build
 * (built). */
bool rf_plugin_find(const char *name, char path[RF_PLUGIN_PATH]);

#endif
