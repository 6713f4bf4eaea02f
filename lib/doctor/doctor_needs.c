/* doctor_needs.c -- the programs that the pipelines start, and the folder for temporary files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/findings.h"
#include "io/file.h"

enum { ROOM = 100 << 20 };

/* Finds a program on PATH.  Returns false if it is not there. */
static bool find_program(const char *name, char path[4200])
{
	const char *folders = getenv("PATH");

	for (size_t n; folders; folders = folders[n] ? folders + n + 1 : NULL) {
		n = strcspn(folders, ":");
		snprintf(path, 4200, "%.*s/%s", n ? (int)n : 1, n ? folders : ".", name);
		if (rf_found_program(path))
			return true;
	}
	return false;
}

static void tell_programs(const struct rf_findings *f)
{
	static const struct {
		const char *name, *needed_for;
	} programs[] = {
		{ "make", "all pipelines" },
		{ "bash", "all pipelines" },
		{ "awk", "all pipelines" },
		{ "jq", "evaluate.mk, curves.mk, EVAL= and RESET=batch" },
		{ "zstd", "evaluate.mk, and rewards in the folder examples" },
		{ "gnuplot", "figures: evaluate.mk, curves.mk, entropy.mk and the demonstrations" },
		{ "cmark-gfm", "reports as a page for a browser; without it they are left out" },
		{ "python3", "rewards, selections and advantages of your own in Python" },
	};
	char path[4200];

	rf_found_part(f, "programs for pipelines");
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		if (find_program(programs[i].name, path))
			rf_found(f, programs[i].name, "%s", path);
		else
			rf_found(f, "missing", "%s (for %s)", programs[i].name, programs[i].needed_for);
}

static void tell_temporary(const struct rf_findings *f)
{
	const char *folder = getenv("TMPDIR");
	char name[4200], size[RF_SIZE_TEXT];
	uint64_t room = 0;
	int fd;

	folder = folder && *folder ? folder : "/tmp";
	rf_found_waits(f, "the folder for temporary files", "set TMPDIR to a folder of a local disk");
	snprintf(name, sizeof name, "%.4096s/rf-doctor.XXXXXX", folder);
	if ((fd = mkstemp(name)) < 0) {
		rf_found(f, "TMPDIR", "%s: %s", folder, strerror(errno));
		rf_found_wrong(f,
		               "no temporary file can be made in %s: %s (set TMPDIR to a folder that you may "
		               "write)",
		               folder, strerror(errno));
		return;
	}
	unlink(name);
	close(fd);
	if (rf_file_space(folder, &room, NULL) != RF_OK)
		return;
	rf_found(f, "TMPDIR", "%s, %s free", folder, rf_size_text(room, size));
	if (room < ROOM)
		rf_found_wrong(f, "only %s are free for temporary files in %s (set TMPDIR to another folder)",
		               size, folder);
}

void rf_doctor_needs(const struct rf_findings *f)
{
	tell_programs(f);
	tell_temporary(f);
}
