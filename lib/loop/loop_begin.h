/* loop_begin.h -- what loop.c and loop_begin.c share. */
#ifndef RF_LOOP_BEGIN_H
#define RF_LOOP_BEGIN_H

#include <dirent.h>

#include "loop/loop.h"

/* Tells the user something, through l->say. */
void rf_loop_say(const struct rf_loop *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes the path RUN/name to out (4096 bytes). */
enum rf_code rf_loop_file(const struct rf_loop *l, const char *name, char *out, struct rf_err *e);
/* Whether the run has a step. */
enum rf_code rf_loop_begun(const struct rf_loop *l, bool *begun, struct rf_err *e);
/* Lists the files of RUN/data that hold the data in the order of an epoch.  Returns how many there are, or -1
 * with the failure in e.  rf_loop_free_orders() frees the list. */
int rf_loop_orders(const struct rf_loop *l, struct dirent ***list, struct rf_err *e);
void rf_loop_free_orders(struct dirent **list, int n);
/* Removes these files, except the one called `spared`, such as data/epoch-0.rf; NULL: all of them. */
enum rf_code rf_loop_drop_orders(const struct rf_loop *l, const char *spared, struct rf_err *e);
/* Whether a file of RUN/data is such a file, or an unfinished one that a killed rf-cat left. */
bool rf_loop_is_order(const char *name);
/* Checks that all commits of the run are the loop's own, those noted in data/times.tsv.  cut: the last loop
 * was killed, so the line of the last commit may be missing; it is then added.  Errors: RF_EDATA: another
 * program has committed to the run. */
enum rf_code rf_loop_mend_history(const struct rf_loop *l, bool cut, struct rf_err *e);
/* Appends a line to data/times.tsv: l->done batches are done; seconds: the time of the last one; 0: not
 * known. */
enum rf_code rf_loop_note_time(const struct rf_loop *l, double seconds, struct rf_err *e);
/* Counts the data again before a new order is drawn from them.  Errors: RF_EDATA: they are not the data that
 * this loop began with; RF_ENOINPUT: they are gone. */
enum rf_code rf_loop_same_data(struct rf_loop *l, struct rf_err *e);
/* Checks that the scripts are as they were when the loop began.  Errors: RF_EDATA: one has changed;
 * RF_ENOINPUT: one is gone. */
enum rf_code rf_loop_same_scripts(const struct rf_loop *l, struct rf_err *e);
/* rf_loop_note: writes a small file of the run, which appears whole and survives a power loss.
 * rf_loop_noted: its contents, malloc'd; NULL: there is no such file. */
enum rf_code rf_loop_note(const struct rf_loop *l, const char *name, const char *text, struct rf_err *e);
char *rf_loop_noted(const struct rf_loop *l, const char *name);
/* Sets l->at and l->done from the run. */
enum rf_code rf_loop_look(struct rf_loop *l, struct rf_err *e);
/* Waits this many seconds; 0: does not wait.  Errors: RF_EIO: a signal has come that ends the loop; l->status
 * is set. */
enum rf_code rf_loop_go_on(struct rf_loop *l, double seconds, struct rf_err *e);
/* Runs a command that must succeed; what: its name in the message of a failure. */
enum rf_code rf_loop_run(struct rf_loop *l, char *const argv[], const char *what, struct rf_err *e);
/* The same for a shell command line, any stage of which may fail (pipefail). */
enum rf_code rf_loop_shell(struct rf_loop *l, const char *line, const char *what, struct rf_err *e);

/* Removes the note of the batches that a line for many may commit. */
enum rf_code rf_loop_drop_line(const struct rf_loop *l, struct rf_err *e);
/* Batches of an epoch. */
int64_t rf_loop_per_epoch(const struct rf_loop *l);
/* Says which batch is done. */
void rf_loop_report(const struct rf_loop *l);

/* Removes RUN/stop; *there: whether the file existed. */
enum rf_code rf_loop_take_stop(const struct rf_loop *l, bool *there, struct rf_err *e);

/* Begins a loop.  Checks what can be checked before anything is made, takes the lock, compares or writes the
 * run's words, and makes what is missing: the run's first step, the data.  Afterwards at, done, sequences and
 * hash are set. */
enum rf_code rf_loop_begin(struct rf_loop *l, struct rf_err *e);

#endif
