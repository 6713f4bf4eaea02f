/* renamed.c -- the table of renamed options. */
#include <string.h>

#include "cli/renamed.h"

static const struct rf_renamed renamed[] = {
	{ "rf-cat", "span", "part", NULL },
	{ "rf-reward", "hold", "queue-limit", NULL },
	{ "rf-select", "k", "length", NULL },
	{ "rf-tokenize", "hold-out", "valid-every", NULL },
	{ "rf-tokenize", "held-out", "split", "valid" },
};
enum { RENAMED = sizeof renamed / sizeof *renamed };

const struct rf_renamed *rf_renamed_from(const char *program, const char *was, size_t n)
{
	for (const struct rf_renamed *r = renamed; r < renamed + RENAMED; r++)
		if (!strcmp(r->program, program) && strlen(r->was) == n && !memcmp(r->was, was, n))
			return r;
	return NULL;
}
