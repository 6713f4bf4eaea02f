/* child.h -- one command at a time as a group of processes, and a guard that outlives us.
 *
 * From rf_child_open() on SIGINT, SIGTERM and SIGHUP (unless nohup(1) has it ignored) are blocked, and
 * taken where we wait: no handler interrupts anything.  The first ends the whole group, by SIGTERM; one
 * that comes a second later or more kills it.  A command is over when all processes of its group are.
 *
 * The guard is a process that lives as long as we do.  Where we are killed it ends the group; where we are
 * stopped and continued, the group is too, within a fifth of a second: nobody can catch SIGSTOP, so it
 * looks at our state that often. */
#ifndef RF_CHILD_H
#define RF_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct rf_child {
	int signal;             /* the one that ends us; 0: none came */
	bool asked;             /* the last command wanted to read the terminal, and was ended */
	/* below: child.c's */
	_Atomic pid_t *group;   /* of the command that runs, 0: none; the guard sees it too */
	pid_t self, guard;
	sigset_t before;        /* the mask that commands get */
	sigset_t ends, all;     /* signals that end us; these and SIGCHLD */
	double since;           /* when the first of them came */
};

/* Begins to block signals and starts the guard; once in a program, before it has threads.
 * RF_ENOMEM. */
enum rf_code rf_child_open(struct rf_child *c, struct rf_err *e);

/* Runs argv, found on PATH, with nothing to read, to the end of its whole group.  *status is what a shell
 * would say: 128 + N of a command that signal N killed, 127 where there is no such command.  RF_OK with
 * c->signal set: a signal that ends us came, *status says nothing, and where it came before, the command was
 * not begun. */
enum rf_code rf_child_run(struct rf_child *c, char *const argv[], int *status, struct rf_err *e);

/* Waits so many seconds, 0: not at all; whether c->signal is set. */
bool rf_child_pause(struct rf_child *c, double seconds);

/* Ends the guard; signals stay blocked. */
void rf_child_close(struct rf_child *c);

/* What /proc says of a process: its state, as 'R' or 'T', and when it began, which no later process of its
 * number shares. False: there is no such process, or no /proc. */
bool rf_child_seen(pid_t pid, char *state, unsigned long long *began);

#endif
