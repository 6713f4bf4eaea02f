/* loaded.h -- the libraries that this process has loaded, with their versions. */
#ifndef RF_LOADED_H
#define RF_LOADED_H

/* Calls tell() with the name and the version of each known library that is loaded, in a fixed order.  No
 * library is loaded for this, so a program can ask whatever libraries it is linked with.  The libraries of a
 * plugin count once the plugin is loaded: with a GPU the driver, cuBLAS and NCCL, with ranks MPI. */
void rf_loaded(void (*tell)(void *arg, const char *name, const char *version), void *arg);

#endif
