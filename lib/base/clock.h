/* clock.h -- elapsed time, for reported figures and time limits; results never depend on it. */
#ifndef RF_CLOCK_H
#define RF_CLOCK_H

double rf_now(void); /* seconds since an unspecified moment; changing the system's date has no effect */

#endif
