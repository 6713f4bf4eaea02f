/* aside.h -- starts functions and programs that may hang or crash, each in a process of its own, and reads
 * what they write for a limited time. */
#ifndef RF_ASIDE_H
#define RF_ASIDE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* A function or a program that was started.  Several may run at the same time. */
struct rf_aside {
	pid_t pid;
	int fd;             /* where its text comes from; -1: the text has ended */
	struct rf_buf text; /* what it has written so far */
	int status;         /* once the text has ended, as in rf_child_run(); -1: it runs or was stopped */
};

/* Starts work(fd, arg), which writes its text to fd.  The process has no standard input and output, so it
 * cannot hold those of this process if it cannot be killed.  It ends when this process dies.  It leads a
 * process group, which the processes that it starts in the same way join.  Errors: RF_ENOMEM: no process can
 * be started. */
enum rf_code rf_aside_begin(struct rf_aside *a, void (*work)(int fd, void *arg), void *arg, struct rf_err *e);
/* Starts a program; its text is what it writes to standard output and standard error. */
enum rf_code rf_aside_program(struct rf_aside *a, char *const argv[], struct rf_err *e);
/* Reads until the texts of all n have ended, or until the time `until` of rf_now(); then what has come by
 * that time.  A text of more than 1 MiB is cut. */
void rf_aside_wait(struct rf_aside *a, int n, double until);
/* Kills the process and its group if they still run, and frees the text.  Does not wait for a process that
 * cannot be killed. */
void rf_aside_end(struct rf_aside *a);
/* Lets the signals that end this process kill all groups first. */
void rf_aside_catch(void);

#endif
