/* libraries.h -- the versions of the libraries that decide what a program computes and writes. */
#ifndef RF_LIBRARIES_H
#define RF_LIBRARIES_H

#include <jansson.h>

/* Returns an object {library: version} with the texts for all loaded libraries: with a GPU also its driver
 * and cuBLAS, with ranks also MPI.  NULL: out of memory.  The caller releases the object. */
json_t *rf_libraries(void);

#endif
