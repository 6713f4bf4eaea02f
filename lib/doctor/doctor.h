/* doctor.h -- the report of rf-doctor: facts about a machine and a run, and the problems that they have. */
#ifndef RF_DOCTOR_H
#define RF_DOCTOR_H

#include "base/err.h"

struct rf_doctor {
	const char *version, *commit; /* of this program */
	const char *run;              /* a run to look at; NULL: none */
};

/* Writes the report to *text, malloc'd, and the number of problems in it to *wrong.  Each section is found by
 * a process of its own, so the report takes less than two seconds even if a driver, a library or a file
 * system does not answer.  Errors: RF_ENOMEM. */
enum rf_code rf_doctor(const struct rf_doctor *d, char **text, int *wrong, struct rf_err *e);

#endif
