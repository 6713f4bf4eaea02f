/* doctor_report.c -- starts a process for each section, waits for them, and puts the report together. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/print.h"
#include "doctor/findings.h"
#include "proc/aside.h"

/* The sections in their order, how long each may take, and whether a healthy machine may take longer: one
 * that has many GPUs or reads CUDA's libraries from a slow disk. */
static const struct section {
	void (*find)(const struct rf_findings *f);
	double limit;
	bool may_be_slow;
} sections[] = {
	{ rf_doctor_programs, 1.6, true }, { rf_doctor_machine, 1, false }, { rf_doctor_limits, 1, false },
	{ rf_doctor_gpu, 1, true },        { rf_doctor_loading, 1, true },  { rf_doctor_mpi, 1, true },
	{ rf_doctor_needs, 1, false },     { rf_doctor_run, 1, false },
};
enum { SECTIONS = sizeof sections / sizeof *sections };

struct task {
	const struct rf_doctor *d;
	const struct section *section;
};

static void find(int fd, void *arg)
{
	const struct task *t = arg;
	const char *root = getenv("RF_DOCTOR_ROOT");
	const struct rf_findings f = { t->d, root ? root : "", fd };

	t->section->find(&f);
}

enum rf_code rf_doctor(const struct rf_doctor *d, char **text, int *wrong, struct rf_err *e)
{
	const double began = rf_now();
	struct rf_buf facts = { 0 }, problems = { 0 };
	struct rf_aside part[SECTIONS] = { 0 };
	enum rf_code rc = RF_OK;
	int begun = 0;

	*wrong = 0;
	rf_aside_catch();
	for (; begun < SECTIONS && rc == RF_OK; begun++) {
		struct task t = { d, &sections[begun] };

		rc = rf_aside_begin(&part[begun], find, &t, e);
	}
	rf_print(&facts, "rf-doctor %s (%s)\n", d->version, d->commit);
	for (int i = 0; i < begun; i++) {
		rf_aside_wait(&part[i], 1, began + sections[i].limit);
		if (rc == RF_OK)
			*wrong += rf_findings_read(&part[i].text, part[i].status, sections[i].limit,
			                           sections[i].may_be_slow, &facts, &problems);
		facts.failed |= part[i].text.failed;
		rf_aside_end(&part[i]);
	}
	rf_print_text(&facts, "\nwrong\n");
	if (!*wrong)
		rf_print_text(&facts, "  nothing wrong was found\n");
	rf_buf_add(&facts, problems.p, problems.n);
	facts.failed |= problems.failed;
	rf_buf_free(&problems);
	if (!rf_buf_give(&facts, text, NULL))
		*text = NULL;
	if (rc == RF_OK && !*text)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	return rc;
}
