/* findings.h -- how a section of rf-doctor's report tells what it finds, and the sections. */
#ifndef RF_FINDINGS_H
#define RF_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "doctor/doctor.h"

/* Where a section writes.  Each finding is written immediately, so it is not lost if the section hangs. */
struct rf_findings {
	const struct rf_doctor *d;
	const char *root; /* a folder that has other files of /proc, /sys and /etc, for tests; "": none */
	int fd;
};

/* Begin a part of the report; tell a fact; tell a problem, as "what is wrong (what to do)". */
void rf_found_part(const struct rf_findings *f, const char *heading);
void rf_found(const struct rf_findings *f, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void rf_found_wrong(const struct rf_findings *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Tells whose answer the section waits for from now on, and what to do if the answer does not come. */
void rf_found_waits(const struct rf_findings *f, const char *whom, const char *advice);

/* Adds the findings of a section to the facts and to the problems, as lines of text.  Returns the number of
 * problems.  status: as in struct rf_aside; limit: the seconds that the section was waited for; may_be_slow:
 * a section that has not ended is a fact, not a problem. */
int rf_findings_read(const struct rf_buf *found, int status, double limit, bool may_be_slow,
                     struct rf_buf *facts, struct rf_buf *wrong);

/* Reads a whole file, at most 4 MiB; *b ends with a NUL that b->n does not count.  Returns false if the
 * file cannot be read.  The caller frees b in any case. */
bool rf_found_file(const struct rf_findings *f, const char *path, struct rf_buf *b);
/* Returns the text after a key that begins a line, without blanks and colons; NULL: no line begins so. */
const char *rf_found_value(const char *text, const char *key);
/* Writes the line that begins at s to `to`, without its end. */
const char *rf_found_line(const char *s, char *to, size_t size);
/* Writes a number of bytes, such as "1.5 GiB". */
enum { RF_SIZE_TEXT = 32 };
const char *rf_size_text(uint64_t bytes, char text[RF_SIZE_TEXT]);
/* Writes a version of CUDA: 13020 is "13.2". */
const char *rf_cuda_text(int version, char text[RF_SIZE_TEXT]);
/* Returns whether path is a regular file that may be executed. */
bool rf_found_program(const char *path);

/* The sections. */
void rf_doctor_programs(const struct rf_findings *f);
void rf_doctor_machine(const struct rf_findings *f);
void rf_doctor_limits(const struct rf_findings *f);
void rf_doctor_gpu(const struct rf_findings *f);
void rf_doctor_loading(const struct rf_findings *f);
void rf_doctor_mpi(const struct rf_findings *f);
void rf_doctor_needs(const struct rf_findings *f);
void rf_doctor_run(const struct rf_findings *f);

#endif
