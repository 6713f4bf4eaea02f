/* plugin_about.h -- what the file of a plugin says about itself.  Programs read this table from the file,
 * without loading the plugin and its libraries, which takes half a second. */
#ifndef RF_PLUGIN_ABOUT_H
#define RF_PLUGIN_ABOUT_H

#include <stdint.h>

/* The table that rf-cuda.so exports as `rf_plugin_about`. */
struct rf_plugin_about {
	int32_t cuda;    /* the version of CUDA that the plugin was built with, such as 13000 */
	char archs[124]; /* "sm_80, sm_90": the GPUs that it has code for; the last one also as PTX */
};

#endif
