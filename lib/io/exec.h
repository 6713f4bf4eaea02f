/* exec.h -- a command that answers lines with lines, as a child process.
 *
 * The command is one string for /bin/sh, started once, in a process group of its own.  Lines go to its
 * standard input and come from its standard output; its standard error is ours.  However it buffers, nothing
 * waits for ever: both pipes are moved at the same time, and a command that moves no byte for `timeout`
 * seconds while we wait for it has failed.  While it runs, a signal that ends this process (SIGTERM, SIGINT,
 * SIGHUP, SIGPIPE) ends its group too.  One command at a time. */
#ifndef RF_EXEC_H
#define RF_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { RF_EXEC_MAX_LINE = 16 << 20 };   /* bytes of an answer */
#define RF_EXEC_LAST_WORDS 2.0          /* seconds in which a command that cannot go on may say why */

struct rf_exec;

/* timeout in seconds, 0: none.  RF_EIO, RF_ENOMEM. */
enum rf_code rf_exec_start(struct rf_exec **x, const char *command, double timeout, struct rf_err *e);

/* Queues a line of len bytes, malloc'd, 0-terminated and without its newline; owns it from now on.
 * rf_exec_receive() sends it; the line before must no longer be on its way. */
void rf_exec_send(struct rf_exec *x, char *line, size_t len);
bool rf_exec_sending(const struct rf_exec *x);

/* Moves bytes both ways until there is a line of answer: *line, its newline replaced by 0, valid until the
 * next call.  Once the command has taken everything, *line is NULL as soon as the descriptor `other` can be
 * read, so that the caller waits for two at a time; RF_EXEC_NOW: at once, RF_EXEC_ALONE: never.  RF_EOF: the
 * command closed its output; RF_EDATA: a line too long, or the time is out (which only runs while nothing but
 * the command is waited for). */
enum { RF_EXEC_NOW = -1, RF_EXEC_ALONE = -2 };
enum rf_code rf_exec_receive(struct rf_exec *x, int other, const char **line, size_t *len, struct rf_err *e);

/* No further line will be sent. */
void rf_exec_close_input(struct rf_exec *x);

/* After RF_EOF: waits for its end, at most `patience` seconds (0: for ever), and says how it came about
 * ("exited with status 1"); *well: with status 0. */
const char *rf_exec_fate(struct rf_exec *x, double patience, bool *well);

/* Kills what is left of the group, waits for the command, frees.  NULL is fine. */
void rf_exec_stop(struct rf_exec *x);

#endif
