/* loop_internal.h -- the functions that the files of rf-loop share, file by file. */
#ifndef RF_LOOP_INTERNAL_H
#define RF_LOOP_INTERNAL_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct rf_loop;

/* ---- loop_run.c ---------------------------------------------------------------------------- */

/* Tells the user something, through l->set.say. */
void rf_loop_say(const struct rf_loop *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes the path RUN/name to out (4096 bytes). */
enum rf_code rf_loop_file(const struct rf_loop *l, const char *name, char *out, struct rf_err *e);
/* Stores in *begun whether the run has a step. */
enum rf_code rf_loop_begun(const struct rf_loop *l, bool *begun, struct rf_err *e);
/* Returns whether the run has steps, or gets its first one when the loop begins.  Only a loop that counts
 * outputs can do without. */
bool rf_loop_has_steps(const struct rf_loop *l);
/* Writes the path of the output file of a batch; the first batch is 0. */
enum rf_code rf_loop_output(const struct rf_loop *l, int64_t batch, char path[4096], struct rf_err *e);
/* Sets l->at and l->done from the run. */
enum rf_code rf_loop_look(struct rf_loop *l, struct rf_err *e);
/* Waits this many seconds; 0: does not wait.  Errors: RF_EIO: a signal has come that ends the loop; l->status
 * is set. */
enum rf_code rf_loop_go_on(struct rf_loop *l, double seconds, struct rf_err *e);
/* Runs a command that must succeed; what: its name in the message of a failure. */
enum rf_code rf_loop_run(struct rf_loop *l, char *const argv[], const char *what, struct rf_err *e);
/* Runs a shell command line in the same way; no stage of it may fail (pipefail). */
enum rf_code rf_loop_shell(struct rf_loop *l, const char *line, const char *what, struct rf_err *e);
/* Writes a small file of the run, which appears whole and survives a power loss. */
enum rf_code rf_loop_note(const struct rf_loop *l, const char *name, const char *text, struct rf_err *e);
/* Returns the contents of such a file, malloc'd; NULL: the file does not exist. */
char *rf_loop_noted(const struct rf_loop *l, const char *name);

/* Returns whether a file name of RUN/data is that of the data in the order of an epoch. */
bool rf_loop_is_order(const char *name);
/* Lists these files.  Returns their number, or -1 with the failure in e.  rf_loop_free_orders() frees the
 * list. */
int rf_loop_orders(const struct rf_loop *l, struct dirent ***list, struct rf_err *e);
void rf_loop_free_orders(struct dirent **list, int n);

/* Returns the number of batches in an epoch. */
int64_t rf_loop_per_epoch(const struct rf_loop *l);
/* Removes the note of the batches that a line for many may commit. */
enum rf_code rf_loop_drop_line(const struct rf_loop *l, struct rf_err *e);
/* Returns whether a line for many batches that was cut may have made the run's newest commit. */
bool rf_loop_line_may(const struct rf_loop *l);

/* ---- loop_words.c -------------------------------------------------------------------------- */

/* Appends a word for each script, with its size and hash. */
enum rf_code rf_loop_note_scripts(const struct rf_loop *l, struct rf_buf *words, struct rf_err *e);
/* Checks that the scripts are as they were when the loop began.  Errors: RF_EDATA: one has changed;
 * RF_ENOINPUT: one is missing. */
enum rf_code rf_loop_same_scripts(const struct rf_loop *l, struct rf_err *e);
/* Compares the run's words with those of this call, and writes the new ones.  words, told: buffers for the
 * words of this call and of the run.  Errors: RF_EDATA: they differ, and a batch was done, or data, order or
 * first step were prepared by the old ones. */
enum rf_code rf_loop_settle_words(struct rf_loop *l, struct rf_buf *words, struct rf_buf *told,
                                  struct rf_err *e);

/* ---- loop_report.c ------------------------------------------------------------------------- */

/* Appends a line to data/times.tsv: a batch, from 1, is done; seconds: its time; 0: not known. */
enum rf_code rf_loop_note_time(const struct rf_loop *l, int64_t batch, double seconds, struct rf_err *e);
/* Checks that the loop made all commits of the run, by data/times.tsv.  cut: the last loop was killed, so
 * the line of the last commit or output may be missing; it is then added.  Errors: RF_EDATA: another program
 * has committed to the run. */
enum rf_code rf_loop_mend_history(const struct rf_loop *l, bool cut, struct rf_err *e);
/* Returns the number of commits after which --after last succeeded, 0 if it never did; *seconds: its time. */
int64_t rf_loop_after_done(const struct rf_loop *l, double *seconds);
/* Reports which batch is done, with figures of the log and the time left. */
void rf_loop_report(const struct rf_loop *l);

/* ---- loop_begin.c -------------------------------------------------------------------------- */

/* Counts the data again before a new order is drawn from them.  Errors: RF_EDATA: they are not the data that
 * this loop began with; RF_ENOINPUT: they are missing. */
enum rf_code rf_loop_same_data(struct rf_loop *l, struct rf_err *e);
/* Removes RUN/stop; *there: whether the file existed. */
enum rf_code rf_loop_take_stop(const struct rf_loop *l, bool *there, struct rf_err *e);
/* Begins a loop: checks the settings, takes the lock, compares or writes the run's words, and makes the data
 * and the run's first step if they are missing.  Afterwards at, done, sequences and hash are set. */
enum rf_code rf_loop_begin(struct rf_loop *l, struct rf_err *e);

#endif
