/* doctor_machine.c -- the system, the processor, the memory, the limits and the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cores.h"
#include "doctor/findings.h"

enum { MOST_VALUE = 300 };

/* ---- the system ----------------------------------------------------------------------------- */

static bool exists(const struct rf_findings *f, const char *path)
{
	struct rf_buf b;
	const bool well = rf_found_file(f, path, &b);

	rf_buf_free(&b);
	return well;
}

/* Returns the kind of container that this process runs in; NULL: none was recognized. */
static const char *container(const struct rf_findings *f)
{
	static const char *const kinds[] = { "docker", "kubepods", "podman", "libpod", "lxc", "containerd" };
	const char *kind = exists(f, "/.dockerenv") ? "docker" : NULL, *told = getenv("container");
	struct rf_buf groups;

	kind = kind ? kind : exists(f, "/run/.containerenv") ? "podman" : told && *told ? told : NULL;
	if (!kind && (getenv("APPTAINER_CONTAINER") || getenv("SINGULARITY_CONTAINER") ||
	              exists(f, "/.singularity.d/runscript")))
		kind = "apptainer";
	if (rf_found_file(f, "/proc/self/cgroup", &groups))
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !kind; i++)
			kind = strstr((char *)groups.p, kinds[i]) ? kinds[i] : NULL;
	rf_buf_free(&groups);
	return kind;
}

static void tell_system(const struct rf_findings *f)
{
	char line[MOST_VALUE];
	const char *value, *kind = container(f);
	struct utsname u;
	struct rf_buf text;

	rf_found_part(f, "system");
	if (uname(&u) == 0)
		rf_found(f, "kernel", "%s %s %s", u.sysname, u.release, u.machine);
	if (rf_found_file(f, "/etc/os-release", &text) &&
	    (value = rf_found_value((char *)text.p, "PRETTY_NAME="))) {
		rf_found_line(value + (*value == '"'), line, sizeof line);
		line[strcspn(line, "\"")] = 0;
		rf_found(f, "distribution", "%s", line);
	}
	rf_buf_free(&text);
	rf_found(f, "container", "%s", kind ? kind : "none recognized");
}

/* ---- control groups ------------------------------------------------------------------------- */

/* Where the files of a control group are. */
struct group {
	char folder[1200]; /* from the root */
	size_t top;        /* length of the part that is above all groups */
};

/* Finds the group of this process: in version 2 with controller NULL, or that of a controller. */
static bool find_group(const struct rf_findings *f, const char *controller, struct group *g)
{
	struct rf_buf text;
	char line[1000], key[40];
	const char *at, *value;
	bool found = false;

	if (rf_found_file(f, "/proc/self/cgroup", &text))
		for (at = (char *)text.p; at && *at && !found; at = (at = strchr(at, '\n')) ? at + 1 : NULL) {
			char *names, *path;

			rf_found_line(at, line, sizeof line);
			if (!(names = strchr(line, ':')) || !(path = strchr(names + 1, ':')))
				continue;
			*path++ = 0;
			snprintf(key, sizeof key, ",%s,", controller ? controller : "");
			/* the names of controllers stand between commas */
			memmove(line + 1, names + 1, strlen(names + 1) + 1);
			*line = ',';
			g->top = (size_t)snprintf(g->folder, sizeof g->folder, "/sys/fs/cgroup%s%.40s",
			                          controller ? "/" : "", line + 1);
			snprintf(g->folder + g->top, sizeof g->folder - g->top, "%s", path);
			value = strlen(line) < sizeof line - 1 ? strcat(line, ",") : line;
			found = controller ? strstr(value, key) != NULL : !strcmp(value, ",,");
		}
	rf_buf_free(&text);
	return found;
}

/* Reads a file of the group, or of the next group above that has it.  Moves g to the group above that one, so
 * that the next call reads the next one.  Returns false at the top. */
static bool read_group(const struct rf_findings *f, struct group *g, const char *file, struct rf_buf *b,
                       char folder[1200])
{
	char path[1300];

	while (g->top) {
		char *last = strrchr(g->folder + g->top, '/');

		snprintf(folder, 1200, "%s", g->folder);
		if (g->folder[g->top] && last)
			*last = 0;
		else
			g->top = 0;
		snprintf(path, sizeof path, "%s/%s", folder, file);
		if (rf_found_file(f, path, b))
			return true;
		rf_buf_free(b);
	}
	return false;
}

/* ---- the processor -------------------------------------------------------------------------- */

/* Lowers *cores to the quota of the control groups. */
static void lower_to_quota(const struct rf_findings *f, double *cores)
{
	struct group g;
	struct rf_buf text;
	char folder[1200], path[1300];
	double quota, period;

	if (find_group(f, NULL, &g))
		while (read_group(f, &g, "cpu.max", &text, folder)) {
			if (sscanf((char *)text.p, "%lf %lf", &quota, &period) == 2 && period > 0 &&
			    quota / period < *cores)
				*cores = quota / period;
			rf_buf_free(&text);
		}
	if (find_group(f, "cpu", &g))
		while (read_group(f, &g, "cpu.cfs_quota_us", &text, folder)) {
			quota = atof((char *)text.p);
			rf_buf_free(&text);
			snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
			period = rf_found_file(f, path, &text) ? atof((char *)text.p) : 0;
			rf_buf_free(&text);
			if (quota > 0 && period > 0 && quota / period < *cores)
				*cores = quota / period;
		}
}

static void tell_processor(const struct rf_findings *f)
{
	const int cores = rf_cores();
	double quota = cores;
	char line[MOST_VALUE];
	const char *value = NULL;
	struct rf_buf text;

	rf_found_part(f, "processor");
	if (rf_found_file(f, "/proc/cpuinfo", &text))
		value = rf_found_value((char *)text.p, "model name");
	rf_found(f, "model", "%s", value ? rf_found_line(value, line, sizeof line) : "unknown");
	rf_buf_free(&text);
	rf_found(f, "cores", "%d of %ld online may be used", cores, sysconf(_SC_NPROCESSORS_ONLN));
	rf_found(f, "threads", "%d, unless --threads is given", cores);
	lower_to_quota(f, &quota);
	if (quota >= cores)
		return;
	rf_found(f, "quota", "%.4g cores, by a control group", quota);
	rf_found_wrong(f,
	               "a control group gives %.4g cores, but programs start %d threads, which wait for each "
	               "other (use --threads %d, or raise the quota)",
	               quota, cores, quota < 1 ? 1 : (int)quota);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Returns the bytes of a line of /proc/meminfo. */
static uint64_t kibibytes(const char *meminfo, const char *key)
{
	const char *value = rf_found_value(meminfo, key);

	return value ? strtoull(value, NULL, 10) << 10 : 0;
}

/* Returns the number of a line of memory.stat; 0: there is no such line. */
static uint64_t number_of(const char *text, const char *key)
{
	const char *value = rf_found_value(text, key);

	return value ? strtoull(value, NULL, 10) : 0;
}

/* Finds the control group that leaves the least memory, and how much that is.  names: the files with the
 * limit and with the use, and the keys of memory that the kernel can take back. */
static void lower_to_group(const struct rf_findings *f, const char *controller, const char *const names[5],
                           uint64_t *limit, uint64_t *left)
{
	struct group g;
	struct rf_buf text;
	char folder[1200], path[1300];

	if (!find_group(f, controller, &g))
		return;
	while (read_group(f, &g, names[0], &text, folder)) {
		const uint64_t most = strtoull((char *)text.p, NULL, 10);
		uint64_t used = 0, kept = 0;

		rf_buf_free(&text);
		if (!most) /* "max" */
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, names[1]);
		if (rf_found_file(f, path, &text))
			used = strtoull((char *)text.p, NULL, 10);
		rf_buf_free(&text);
		snprintf(path, sizeof path, "%s/memory.stat", folder);
		if (rf_found_file(f, path, &text))
			for (int i = 2; i < 5; i++)
				kept += number_of((char *)text.p, names[i]);
		rf_buf_free(&text);
		used -= kept < used ? kept : used;
		*limit = most < *limit ? most : *limit;
		if (most - (used < most ? used : most) < *left)
			*left = most - (used < most ? used : most);
	}
}

static void tell_memory(const struct rf_findings *f)
{
	static const char *const second[] = { "memory.max", "memory.current", "inactive_file ",
		                              "active_file ", "slab_reclaimable " },
				 *const first[] = { "memory.limit_in_bytes", "memory.usage_in_bytes",
		                                    "total_inactive_file ", "total_active_file ",
		                                    "total_slab_reclaimable " };
	bool known = false;
	uint64_t total = 0, free_now = 0, swap = 0, limit, left;
	char a[RF_SIZE_TEXT], b[RF_SIZE_TEXT];
	struct rf_buf text;

	rf_found_part(f, "memory");
	if (rf_found_file(f, "/proc/meminfo", &text)) {
		total = kibibytes((char *)text.p, "MemTotal:");
		known = rf_found_value((char *)text.p, "MemAvailable:");
		free_now = kibibytes((char *)text.p, "MemAvailable:");
		swap = kibibytes((char *)text.p, "SwapTotal:");
	}
	rf_buf_free(&text);
	if (!total) {
		rf_found(f, "memory", "unknown");
		return;
	}
	rf_found(f, "memory", "%s of %s available", known ? rf_size_text(free_now, a) : "unknown part",
	         rf_size_text(total, b));
	rf_found(f, "swap", "%s", swap ? rf_size_text(swap, a) : "none");
	limit = total;
	left = known ? free_now : total;
	lower_to_group(f, NULL, second, &limit, &left);
	lower_to_group(f, "memory", first, &limit, &left);
	if (limit < total)
		rf_found(f, "limit", "%s by a control group, %s left", rf_size_text(limit, a),
		         rf_size_text(left, b));
	if (left < limit / 20)
		rf_found_wrong(f,
		               "only %s of memory are left (end other programs, or raise the limit; "
		               "--dry-run tells what a program needs)",
		               rf_size_text(left, a));
}

void rf_doctor_machine(const struct rf_findings *f)
{
	tell_system(f);
	tell_processor(f);
	tell_memory(f);
}

/* ---- limits and environment ----------------------------------------------------------------- */

static void tell_limits(const struct rf_findings *f)
{
	static const struct {
		int kind;
		char letter;
		const char *name, *harm;
		rlim_t enough; /* the least limit that does no harm */
	} limits[] = {
		{ RLIMIT_AS, 'v', "address space", "a larger model does not fit", RLIM_INFINITY },
		{ RLIMIT_FSIZE, 'f', "size of a file", "a larger checkpoint cannot be written",
		  RLIM_INFINITY },
		{ RLIMIT_NOFILE, 'n', "open files", "a pipeline may need more", 64 },
	};
	char size[RF_SIZE_TEXT];
	struct rlimit may;

	rf_found_part(f, "limits and environment");
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		if (getrlimit((__rlimit_resource_t)limits[i].kind, &may) || may.rlim_cur == RLIM_INFINITY)
			continue;
		if (limits[i].kind == RLIMIT_NOFILE)
			snprintf(size, sizeof size, "%llu", (unsigned long long)may.rlim_cur);
		else
			rf_size_text(may.rlim_cur, size);
		rf_found(f, limits[i].name, "at most %s (ulimit -%c)", size, limits[i].letter);
		if (may.rlim_cur < limits[i].enough)
			rf_found_wrong(f, "ulimit -%c allows at most %s of %s: %s (ulimit -%c %s)",
			               limits[i].letter, size, limits[i].name, limits[i].harm,
			               limits[i].letter,
			               limits[i].kind == RLIMIT_NOFILE ? "1024" : "unlimited");
	}
}

extern char **environ;

static void tell_environment(const struct rf_findings *f)
{
	static const char *const begins[] = { "RF_",
		                              "ONEDNN_",
		                              "DNNL_",
		                              "OMP_NUM_THREADS=",
		                              "CUDA_VISIBLE_DEVICES=",
		                              "LD_LIBRARY_PATH=",
		                              "LD_PRELOAD=",
		                              "TMPDIR=" };
	bool any = false;

	for (char **v = environ; *v; v++)
		for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
			if (!strncmp(*v, begins[i], strlen(begins[i]))) {
				rf_found(f, any ? "" : "variables", "%.500s", *v);
				any = true;
			}
	if (!any)
		rf_found(f, "variables", "none that matter are set");
}

void rf_doctor_limits(const struct rf_findings *f)
{
	tell_limits(f);
	tell_environment(f);
}
