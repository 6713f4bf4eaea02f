/* number.h -- whole numbers as people and programs write them. */
#ifndef RF_NUMBER_H
#define RF_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number that n bytes spell: decimal digits and nothing else, below 2^64.  No bytes are 0. */
bool rf_number(const char *s, size_t n, uint64_t *v);

#endif
