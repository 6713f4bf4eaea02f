/* number.h -- reads unsigned whole numbers. */
#ifndef RF_NUMBER_H
#define RF_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the n bytes of s as a decimal number below 2^64.  Returns whether they are digits only and the number
 * fits; n = 0 gives the number 0. */
bool rf_number(const char *s, size_t n, uint64_t *v);

#endif
