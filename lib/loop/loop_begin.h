/* loop_begin.h -- what loop.c and loop_begin.c share. */
#ifndef RF_LOOP_BEGIN_H
#define RF_LOOP_BEGIN_H

#include <dirent.h>

#include "loop/loop.h"

/* Says, through the caller's function. */
void rf_loop_say(const struct rf_loop *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* RUN/name into out (4096 bytes). */
enum rf_code rf_loop_file(const struct rf_loop *l, const char *name, char *out, struct rf_err *e);
/* Whether the run has a step. */
enum rf_code rf_loop_begun(const struct rf_loop *l, bool *begun, struct rf_err *e);
/* The data in the orders of epochs that lie in RUN/data: how many, -1 and RF_EIO in e: that is not known.
 * Freed by the next. */
int rf_loop_orders(const struct rf_loop *l, struct dirent ***list, struct rf_err *e);
void rf_loop_free_orders(struct dirent **list, int n);
/* Removes them, but for the one of that name, as data/epoch-0.rf; NULL: all. */
enum rf_code rf_loop_drop_orders(const struct rf_loop *l, const char *spared, struct rf_err *e);
/* Whether a file of RUN/data is such data, or what a killed rf-cat left of them. */
bool rf_loop_is_order(const char *name);
/* Whether all commits are the loop's own, as data/times.tsv has them; cut: the last one may lack,
 * and is added. */
enum rf_code rf_loop_mend_history(const struct rf_loop *l, bool cut, struct rf_err *e);
/* Appends to data/times.tsv that so many batches are done; 0 seconds: by others. */
enum rf_code rf_loop_note_time(const struct rf_loop *l, double seconds, struct rf_err *e);
/* Counts the data of which a new order is drawn, and fails where they are not those that the loop
 * began with. */
enum rf_code rf_loop_same_data(struct rf_loop *l, struct rf_err *e);
/* A small file of the run's, whole and on the disk; reading it, malloc'd text, NULL: there is none. */
enum rf_code rf_loop_note(const struct rf_loop *l, const char *name, const char *text, struct rf_err *e);
char *rf_loop_noted(const struct rf_loop *l, const char *name);
/* Sets at and done. */
enum rf_code rf_loop_look(struct rf_loop *l, struct rf_err *e);
/* Waits so many seconds, 0: only looks; fails where a signal has come that ends us, and sets status. */
enum rf_code rf_loop_go_on(struct rf_loop *l, double seconds, struct rf_err *e);
/* Runs a command that must end well; what: its name in the sentence of a failure. */
enum rf_code rf_loop_run(struct rf_loop *l, char *const argv[], const char *what, struct rf_err *e);
/* The same for a line of the shell, any of whose stages may fail. */
enum rf_code rf_loop_shell(struct rf_loop *l, const char *line, const char *what, struct rf_err *e);

/* Checks what can be told before anything is made; takes the lock; settles the words, and makes what is not
 * there: the run's first step, the data.  Then at, done, sequences and hash are what they are. */
enum rf_code rf_loop_begin(struct rf_loop *l, struct rf_err *e);

#endif
