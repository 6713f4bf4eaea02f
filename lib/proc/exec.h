/* exec.h -- a child process that answers lines with lines.
 *
 * The command is one string for /bin/sh.  It is started once, in a process group of its own.  Lines are sent
 * to its standard input and received from its standard output; its standard error is ours.  Whatever
 * buffering it uses, there is no deadlock: both pipes are served at the same time, and a command that moves
 * no byte for `timeout` seconds while we wait for it has failed.  While the command runs, a signal that ends
 * this process (SIGTERM, SIGINT, SIGHUP, SIGPIPE) also kills its group.  A program runs one such command at a
 * time. */
#ifndef RF_EXEC_H
#define RF_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { RF_EXEC_MAX_LINE = 16 << 20 };   /* bytes of an answer line at most */
#define RF_EXEC_LAST_WORDS 2.0          /* seconds for a command to say why, once it closed a pipe */

struct rf_exec;

/* Starts the command.  timeout: in seconds; 0: none.  Errors: RF_EIO, RF_ENOMEM. */
enum rf_code rf_exec_start(struct rf_exec **x, const char *command, double timeout, struct rf_err *e);

/* Queues a line of len bytes, malloc'd, 0-terminated and without newline, and takes ownership of it.
 * rf_exec_receive() does the sending.  The line before must have been sent (see rf_exec_sending()). */
void rf_exec_send(struct rf_exec *x, char *line, size_t len);
/* Whether a queued line is still being sent; false once the command has closed its output. */
bool rf_exec_sending(const struct rf_exec *x);

/* Moves bytes both ways until a line of answer is there: *line, with a 0 in place of its newline, valid until
 * the next call.  The caller can wait for a second descriptor at the same time, `other`: when all queued
 * bytes are sent, the function returns RF_OK with *line NULL as soon as `other` is readable.  other
 * RF_EXEC_NOW: it returns so at once; RF_EXEC_ALONE: it never does, and waits for the command only.  Returns
 * RF_EOF when the command has closed its output.  Errors: RF_EDATA: the line is too long, the timeout passed
 * (it counts only while nothing but the command is waited for), or the command closed its input and then was
 * silent for RF_EXEC_LAST_WORDS; RF_EIO, RF_ENOMEM. */
enum { RF_EXEC_NOW = -1, RF_EXEC_ALONE = -2 };
enum rf_code rf_exec_receive(struct rf_exec *x, int other, const char **line, size_t *len, struct rf_err *e);

/* Closes the command's standard input: no further line will be sent. */
void rf_exec_close_input(struct rf_exec *x);

/* After RF_EOF: waits until the command ends, at most `patience` seconds (0: for ever).  Returns how it
 * ended, in words ("exited with status 1"), valid until rf_exec_stop().  *well: it exited with status 0. */
const char *rf_exec_fate(struct rf_exec *x, double patience, bool *well);

/* Kills what is left of the command's group, waits for the command and frees x, which may be NULL. */
void rf_exec_stop(struct rf_exec *x);

#endif
