/* exec.h -- a child process that answers lines with lines.
 *
 * The command is one string for /bin/sh.  It is started once, in a process group of its own.  Lines are sent
 * to its standard input and received from its standard output; it inherits standard error.  Both pipes are
 * served at the same time, so no buffering in the command can cause a deadlock.  A command that neither reads
 * nor writes a byte for `timeout` seconds while its answer is awaited has failed.  While the command runs, a
 * signal that ends this process (SIGTERM, SIGINT, SIGHUP, SIGPIPE) also kills the command's group.  A program
 * runs one such command at a time. */
#ifndef RF_EXEC_H
#define RF_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { RF_EXEC_MAX_LINE = 16 << 20 }; /* most bytes of an answer line */
#define RF_EXEC_LAST_WORDS 2.0        /* seconds to wait for messages after the command closed a pipe */

struct rf_exec;

/* Starts the command.  timeout: in seconds; 0: none.  Errors: RF_EIO, RF_ENOMEM. */
enum rf_code rf_exec_start(struct rf_exec **x, const char *command, double timeout, struct rf_err *e);

/* Queues a line of len bytes, malloc'd, NUL-terminated and without newline, and takes ownership of it.
 * rf_exec_receive() does the sending.  The line before must have been sent (see rf_exec_sending()). */
void rf_exec_send(struct rf_exec *x, char *line, size_t len);
/* Returns whether a queued line is still being sent; false once the command has closed its output. */
bool rf_exec_sending(const struct rf_exec *x);

/* Sends and receives bytes until a whole answer line has arrived: *line, with a NUL instead of its newline,
 * valid until the next call.  The caller can wait for a second descriptor, `other`, at the same time: once
 * all queued bytes are sent, the function returns RF_OK with *line NULL as soon as `other` is readable.  With
 * other RF_EXEC_NOW it does not wait for that; with RF_EXEC_ALONE it waits for the command only.  Returns
 * RF_EOF when the command has closed its output.  Errors: RF_EDATA: the line is too long, the timeout passed
 * (it counts only while the function waits for the command only), or the command closed its input and then
 * wrote nothing for RF_EXEC_LAST_WORDS; RF_EIO, RF_ENOMEM. */
enum { RF_EXEC_NOW = -1, RF_EXEC_ALONE = -2 };
enum rf_code rf_exec_receive(struct rf_exec *x, int other, const char **line, size_t *len, struct rf_err *e);

/* Closes the command's standard input: no further line will be sent. */
void rf_exec_close_input(struct rf_exec *x);

/* Waits, after RF_EOF, until the command ends, at most `patience` seconds (0: no limit).  Returns how it
 * ended, as a phrase ("exited with status 1"), valid until rf_exec_stop().  *well: it exited with status
 * 0. */
const char *rf_exec_fate(struct rf_exec *x, double patience, bool *well);

/* Kills the remaining processes of the command's group, waits for the command and frees x, which may be
 * NULL. */
void rf_exec_stop(struct rf_exec *x);

#endif
