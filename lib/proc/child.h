/* child.h -- runs one command at a time as a process group, with a guard process that outlives this one.
 *
 * rf_child_open() blocks SIGINT, SIGTERM and SIGHUP (SIGHUP only if it is not ignored, as it is under
 * nohup(1)).  From then on these signals are accepted only while this module waits, so that no handler
 * interrupts anything.  The first one sends SIGTERM to the command's whole group; another that comes a
 * second or more after the first kills the group.  A command is over when all processes of its group have
 * ended.
 *
 * If this process is killed, the guard ends the group.  SIGTSTP (Ctrl-Z) stops the group and then this
 * process; SIGCONT continues both.  SIGSTOP, which cannot be caught, stops only this process. */
#ifndef RF_CHILD_H
#define RF_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct rf_child {
	int signal;              /* the first received signal that ends this process; 0: none */
	void (*tick)(void *arg); /* if not NULL, called about once a second while a command runs */
	void *arg;
	bool asked; /* the last command tried to read the terminal, so it was ended */
	/* below: for child.c only */
	_Atomic pid_t *group; /* process group of the running command, 0: none; shared with the guard */
	pid_t self, guard;    /* this process and the guard; guard 0: it has died */
	sigset_t before;      /* the signal mask that commands get */
	sigset_t ends;        /* the signals that end this process */
	sigset_t users, all;  /* those and SIGTSTP; those and SIGCHLD */
	double since;         /* when the first of `ends` came */
};

/* Blocks the signals and starts the guard.  Call it once in a program, before it starts threads.  Errors:
 * RF_ENOMEM. */
enum rf_code rf_child_open(struct rf_child *c, struct rf_err *e);

/* Runs argv, found on PATH, with /dev/null as standard input, and waits until its whole group has ended.
 * *status is the exit status as a shell reports it: 128 + N if signal N killed the command, 127 if there is
 * no such command.  If a signal that ends this process came, c->signal is set, RF_OK is returned and *status
 * means nothing; if it came before the start, the command was not run.  Errors: RF_ENOMEM: fork(2) failed. */
enum rf_code rf_child_run(struct rf_child *c, char *const argv[], int *status, struct rf_err *e);

/* Waits `seconds` (0: not at all), or until a signal that ends this process comes.  Returns whether c->signal
 * is set. */
bool rf_child_pause(struct rf_child *c, double seconds);

/* Ends the guard.  The signals stay blocked. */
void rf_child_close(struct rf_child *c);

/* Reads from /proc the state of a process ('R', 'T', ...) and its start time, which distinguishes it from a
 * later process with the same number.  Returns false if there is no such process or no /proc. */
bool rf_child_seen(pid_t pid, char *state, unsigned long long *began);

#endif
