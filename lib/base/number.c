/* number.c -- reads unsigned whole numbers.  strtoull() is not used: it accepts blanks, signs and trailing
 * bytes. */
#include "base/number.h"

bool rf_number(const char *s, size_t n, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(*v, 10u, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(s[i] - '0'), v))
			return false;
	return true;
}
