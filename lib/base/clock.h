/* clock.h -- time that passes: for figures and time limits, never for results. */
#ifndef RF_CLOCK_H
#define RF_CLOCK_H

double rf_now(void); /* seconds since some moment; a change of the date does not touch it */

#endif
