/* doomed.c -- a handler may interrupt us anywhere, so each place is armed by one store after its path is
 * whole, and disarmed by one before it changes. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "io/doomed.h"

const int rf_ending[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU,
                          0 };

static struct { char path[4096]; volatile sig_atomic_t armed; } doomed[RF_DOOMED];

int rf_doomed_add(const char *path)
{
	if (strlen(path) >= sizeof doomed->path)
		return -1;
	for (int i = 0; i < RF_DOOMED; i++)
		if (!doomed[i].armed) {
			strcpy(doomed[i].path, path);
			atomic_signal_fence(memory_order_release);
			doomed[i].armed = 1;
			return i;
		}
	return -1;
}

void rf_doomed_drop(int place)
{
	if (place >= 0)
		doomed[place].armed = 0;
}

void rf_doomed_unlink(void)
{
	for (int i = 0; i < RF_DOOMED; i++)
		if (doomed[i].armed)
			unlink(doomed[i].path);
}
