/* shortest.h -- the C++ library's shortest decimals (std::to_chars). */
#ifndef RF_SHORTEST_H
#define RF_SHORTEST_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_SHORTEST = 40 }; /* bytes of the longest decimal, with its NUL */

/* Writes a finite x with the fewest digits that read back as the same double, or the same float32, in the
 * form "-1.25e-07", followed by a NUL.  Returns the length. */
size_t rf_shortest_double(char to[RF_SHORTEST], double x);
size_t rf_shortest_single(char to[RF_SHORTEST], float x);
/* Reads such a decimal as a double. */
double rf_shortest_read(const char *text, size_t n);

#ifdef __cplusplus
}
#endif

#endif
