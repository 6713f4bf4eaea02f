/* clock.h -- elapsed time, for reported figures and time limits; results never depend on it. */
#ifndef RF_CLOCK_H
#define RF_CLOCK_H

/* Returns the seconds since an unspecified moment.  Changing the system's date has no effect. */
double rf_now(void);

#endif
