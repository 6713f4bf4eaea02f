// shortest.cc -- calls std::to_chars() and std::from_chars().  Printing and reading with each number of
// digits in turn takes ten times as long.
#include <charconv>

#include "base/shortest.h"

template <typename T> static size_t shortest(char *to, T x)
{
	char *end = std::to_chars(to, to + RF_SHORTEST - 1, x, std::chars_format::scientific).ptr;

	*end = 0;
	return static_cast<size_t>(end - to);
}

size_t rf_shortest_double(char to[RF_SHORTEST], double x) { return shortest(to, x); }

size_t rf_shortest_single(char to[RF_SHORTEST], float x) { return shortest(to, x); }

double rf_shortest_read(const char *text, size_t n)
{
	double x = 0;

	std::from_chars(text, text + n, x);
	return x;
}
