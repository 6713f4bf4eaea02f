/* doomed.h -- the one temporary file that must go when a signal ends the program. */
#ifndef RF_DOOMED_H
#define RF_DOOMED_H

/* Registers path (copied; NULL: nothing any more).  Async-signal-safe to read: rf_doomed_unlink() may be called in a
 * handler.  A path of 4096 bytes or more is not registered. */
void rf_doomed_set(const char *path);
void rf_doomed_unlink(void);

#endif
