/* doomed.h -- the temporary files that must go when a signal ends the program. */
#ifndef RF_DOOMED_H
#define RF_DOOMED_H

enum { RF_DOOMED = 4 }; /* so many at a time */

/* Signals that end a program unless it handles them; 0 is the last. */
extern const int rf_ending[];

/* Registers path (copied) and returns its place; -1: there is none free, or the path has 4096 bytes
 * or more. */
int rf_doomed_add(const char *path);
/* It is no longer temporary; -1 is fine. */
void rf_doomed_drop(int place);
/* Removes them all.  May be called in a handler. */
void rf_doomed_unlink(void);

#endif
