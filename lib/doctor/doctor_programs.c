/* doctor_programs.c -- the programs of the folder that rf-doctor is in: whether all start and are of one
 * version, what they are linked with, and whether the shell finds them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/findings.h"
#include "io/file.h"
#include "proc/aside.h"

enum { MOST_PROGRAMS = 60, MOST_NAME = 40, MOST_TEXT = 400 };
static const double patience = 1.4;

struct program {
	char name[MOST_NAME], path[4096];
	struct rf_aside aside;
	char version[MOST_TEXT]; /* "0.2 (8a7fff4)"; "": it does not tell */
};

struct programs {
	char folder[4096];
	struct program one[MOST_PROGRAMS];
	int n;
};

/* Lists the programs of rf-tools that the folder has, except this one. */
static void list_programs(struct programs *all)
{
	static const char *const names[] = { RF_PROGRAMS };

	for (size_t i = 0; i < sizeof names / sizeof *names && all->n < MOST_PROGRAMS; i++) {
		struct program *p = &all->one[all->n];

		if (!strcmp(names[i], "rf-doctor"))
			continue;
		snprintf(p->name, MOST_NAME, "%s", names[i]);
		all->n += rf_file_join(p->path, all->folder, names[i], NULL) == RF_OK &&
		          rf_found_program(p->path);
	}
}

/* ---- versions ------------------------------------------------------------------------------- */

/* Returns the text that a program printed, ended by a NUL. */
static const char *text_of(struct program *p)
{
	rf_buf_add(&p->aside.text, "", 1);
	return p->aside.text.failed ? "" : (const char *)p->aside.text.p;
}

/* Reads "NAME VERSION (COMMIT)" from the first line.  Tells a problem if the program does not start. */
static void read_version(const struct rf_findings *f, struct program *p, const char *text)
{
	char line[MOST_TEXT];
	const size_t n = strlen(p->name);

	rf_found_line(text, line, sizeof line);
	if (p->aside.status == 0 && !strncmp(line, p->name, n) && line[n] == ' ') {
		snprintf(p->version, sizeof p->version, "%s", line + n + 1);
		return;
	}
	if (p->aside.status < 0) {
		rf_found(f, p->name, "did not answer to --version within %g s (is its file system slow?)",
		         patience);
		return;
	}
	if (p->aside.status == 0) {
		rf_found(f, p->name, "is not a program of rf-tools");
		return;
	}
	rf_found(f, p->name, "does not start: %s", line);
	rf_found_wrong(f,
	               "%s does not start (status %d): %s (install what is missing, or all programs again)",
	               p->path, p->aside.status, *line ? line : "it printed nothing");
}

/* Tells the versions.  The programs should have the version and the commit of rf-doctor. */
static void tell_versions(const struct rf_findings *f, const struct programs *all)
{
	char own[MOST_TEXT];
	int same = 1;

	snprintf(own, sizeof own, "%s (%s)", f->d->version, f->d->commit);
	for (int i = 0; i < all->n; i++)
		same += !strcmp(all->one[i].version, own);
	rf_found(f, "version", "%s: %d program%s", own, same, same == 1 ? "" : "s");
	for (int i = 0; i < all->n; i++) {
		const struct program *p = &all->one[i];

		if (!*p->version || !strcmp(p->version, own))
			continue;
		rf_found(f, p->name, "%s", p->version);
		rf_found_wrong(f,
		               "%s is of version %s, and rf-doctor of %s (install all programs from one "
		               "build)",
		               p->path, p->version, own);
	}
}

/* ---- libraries and levels ------------------------------------------------------------------- */

/* Tells the libraries of a line "NAME VERSION, NAME VERSION" that are not in `told` yet. */
static void tell_libraries(const struct rf_findings *f, char *told, size_t size, char *line)
{
	for (char *rest = line, *item; (item = strtok_r(rest, ",", &rest));) {
		char *version, mark[MOST_TEXT];

		item += strspn(item, " ");
		if (!(version = strrchr(item, ' ')))
			continue;
		*version++ = 0;
		snprintf(mark, sizeof mark, ",%.100s,", item);
		if (strstr(told, mark))
			continue;
		snprintf(told + strlen(told), size - strlen(told), "%s", mark);
		rf_found(f, item, "%s", version);
	}
}

static void tell_level(const struct rf_findings *f, const char *line)
{
	rf_found_part(f, "levels of the instruction set");
	rf_found(f, "levels", "%s", line);
	if (!strncmp(line, "none", 4))
		rf_found_wrong(f, "programs with a model cannot compute: %.*s",
		               (int)(strstr(line, "; of the") ? strstr(line, "; of the") - line : 99), line);
	else if (strstr(line, "_ISA="))
		rf_found(f, "note", "a variable lowers the level, so programs are slower than they could be");
}

static void tell_machine_code(const struct rf_findings *f, const char *const *text, int n)
{
	char line[MOST_TEXT], told[4 * MOST_TEXT] = "";
	const char *value;

	rf_found_part(f, "libraries");
	for (int i = 0; i < n; i++)
		if ((value = rf_found_value(text[i], "libraries ")))
			tell_libraries(f, told, sizeof told, (char *)rf_found_line(value, line, sizeof line));
	for (int i = 0; i < n; i++)
		if ((value = rf_found_value(text[i], "levels "))) {
			tell_level(f, rf_found_line(value, line, sizeof line));
			break;
		}
}

/* ---- PATH ----------------------------------------------------------------------------------- */

/* Counts the programs of another folder that have the names of programs here.  *others: how many of them are
 * other files. */
static int count_in(const char *folder, const struct programs *all, int *others)
{
	char path[8400], here[4200];
	int n = 0;

	*others = 0;
	for (int i = 0; i <= all->n; i++) {
		const char *name = i < all->n ? all->one[i].name : "rf-doctor";

		snprintf(path, sizeof path, "%s/%s", folder, name);
		snprintf(here, sizeof here, "%s/%s", all->folder, name);
		if (!rf_found_program(path))
			continue;
		n++;
		*others += !rf_file_same(path, here);
	}
	return n;
}

/* Returns whether the list of folders has this folder. */
static bool has_folder(const char *list, const char *folder)
{
	char *copy = list ? strdup(list) : NULL, *one;
	bool has = false;

	for (char *rest = copy; rest && !has && (one = strsep(&rest, ":"));)
		has = rf_file_same(*one ? one : ".", folder);
	free(copy);
	return has;
}

static void tell_path(const struct rf_findings *f, const struct programs *all)
{
	const char *path = getenv("PATH");
	char *copy = path ? strdup(path) : NULL;
	bool found = false;
	int n, others;

	for (char *rest = copy, *folder; rest && (folder = strsep(&rest, ":"));) {
		folder = *folder ? folder : (char *)".";
		if (!(n = count_in(folder, all, &others)))
			continue;
		if (!others) {
			rf_found(f, "PATH", "has these programs");
			found = true;
			break;
		}
		rf_found(f, "PATH", "%s has %d other program%s", folder, others, others == 1 ? "" : "s");
		found = true;
		if (!has_folder(rest, all->folder))
			continue;
		rf_found_wrong(f,
		               "PATH finds programs in %s before those in %s (put the folder that you want "
		               "first: export PATH=%s:$PATH)",
		               folder, all->folder, all->folder);
	}
	if (!found)
		rf_found(f, "PATH", "does not have these programs");
	free(copy);
}

void rf_doctor_programs(const struct rf_findings *f)
{
	static struct programs all;
	const char *text[MOST_PROGRAMS];
	const double began = rf_now();
	ssize_t n = readlink("/proc/self/exe", all.folder, sizeof all.folder - 1);
	struct rf_err e;

	rf_found_part(f, "programs");
	if (n <= 0) {
		rf_found(f, "folder", "unknown, because /proc/self/exe cannot be read");
		return;
	}
	*strrchr(all.folder, '/') = 0;
	rf_found(f, "folder", "%s", all.folder);
	rf_found_waits(f, "the folder of the programs", "is its file system slow?");
	list_programs(&all);
	for (int i = 0; i < all.n; i++)
		if (rf_aside_program(&all.one[i].aside,
		                     (char *[]){ all.one[i].path, (char *)"--version", NULL }, &e) != RF_OK) {
			rf_found_wrong(f, "%s cannot be started: %s (raise ulimit -n or ulimit -u)",
			               all.one[i].path, e.msg);
			all.n = i;
		}
	for (int i = 0; i < all.n; i++) {
		rf_aside_wait(&all.one[i].aside, 1, began + patience);
		read_version(f, &all.one[i], text[i] = text_of(&all.one[i]));
	}
	tell_versions(f, &all);
	tell_path(f, &all);
	tell_machine_code(f, text, all.n);
	for (int i = 0; i < all.n; i++)
		rf_aside_end(&all.one[i].aside);
}
