/* doomed.c -- a signal handler may not ask what is open or build a path, so the path lies ready in a buffer of its own, and
 * a flag that is set last says that it is whole. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "doomed.h"

static char doomed[4096];
static volatile sig_atomic_t armed;

void rf_doomed_set(const char *path)
{
	armed = 0;
	if (path && strlen(path) < sizeof doomed) {
		strcpy(doomed, path);
		armed = 1;
	}
}

void rf_doomed_unlink(void)
{
	if (armed)
		unlink(doomed);
}
