/* dev_plugin.c -- finds and loads rf-cuda.so.  First the driver is looked for: loading cuBLAS takes longer
 * than starting one of these programs, and most machines have no GPU.
 *
 * For the same reason rf_plugin_look() reads the plugin's tables from the file.  The system's loader lists
 * the libraries that the plugin needs without running any code of them, as ldd(1) does. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/dev_plugin.h"
#include "io/elf_file.h"
#include "proc/aside.h"

static const struct rf_plugin_kind kind = {
	.what = "CUDA",
	.file = "rf-cuda.so",
	.variable = "RF_PLUGIN",
	.table = "rf_plugin",
	.otherwise =
		"install the package rf-tools-cuda, or the CUDA toolkit and build again; or use --device cpu",
	.abi = RF_PLUGIN_ABI,
};

enum { MOST_REASON = 300 };

static bool has_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (driver)
		dlclose(driver);
	return driver;
}

enum rf_code rf_plugin_open(const struct rf_ops **ops, bool *none, struct rf_err *e)
{
	char found[RF_PLUGIN_PATH];
	const char *path;
	const void *table;
	enum rf_code rc = rf_plugin_find(&kind, &path, found, e);

	/* a user who names a file expects a device from it, even without a driver */
	*none = rc != RF_OK || (path == found && !has_driver());
	if (rc != RF_OK)
		return rc;
	if (*none)
		return rf_fail(e, RF_EDEVICE, "no NVIDIA driver (use --device cpu)");
	if ((rc = rf_plugin_load(&kind, path, &table, e)) == RF_OK)
		*ops = ((const struct rf_plugin *)table)->ops;
	return rc;
}

/* ---- without loading ------------------------------------------------------------------------ */

/* The loader of this program, and the shared object whose libraries it lists. */
struct listing {
	char loader[200];
	const char *path;
};

static void list_libraries(int fd, void *arg)
{
	struct listing *l = arg;
	char only_list[] = "LD_TRACE_LOADED_OBJECTS=1";

	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	putenv(only_list);
	execv(l->loader, (char *[]){ l->loader, (char *)l->path, NULL });
}

/* Adds the name in a line "NAME => not found" to the list of libraries that are lacking. */
static void note_line(struct rf_plugin_look *p, const char *line, size_t n)
{
	static const char absent[] = " => not found";
	const size_t end = sizeof absent - 1;
	const size_t used = strlen(p->lacks);

	while (n && (*line == '\t' || *line == ' '))
		line++, n--;
	if (n > end && !memcmp(line + n - end, absent, end))
		snprintf(p->lacks + used, sizeof p->lacks - used, "%s%.*s", used ? ", " : "", (int)(n - end),
		         line);
}

/* Returns RF_EDEVICE with the first line that the loader printed. */
static enum rf_code report_loader(const struct rf_buf *text, struct rf_err *e)
{
	const char *stop = text->n ? memchr(text->p, '\n', text->n) : NULL;
	const size_t n = stop ? (size_t)(stop - (const char *)text->p) : text->n;

	return rf_fail(e, RF_EDEVICE, "the CUDA plugin cannot be loaded: %.*s",
	               (int)(n < MOST_REASON ? n : MOST_REASON), n ? (const char *)text->p : "");
}

/* Finds the libraries that the plugin needs and the system lacks.  If the loader cannot be asked, none is
 * noted.  Errors: RF_EDEVICE: the loader fails; the sentence has the first line of its message. */
static enum rf_code find_lacking(struct rf_plugin_look *p, struct rf_err *e)
{
	struct listing l = { .path = p->path };
	struct rf_aside list;
	struct rf_elf self;
	enum rf_code rc = RF_OK;

	if (rf_elf_open(&self, "/proc/self/exe", NULL) != RF_OK)
		return rc;
	if (rf_elf_loader(&self, l.loader, sizeof l.loader) &&
	    rf_aside_begin(&list, list_libraries, &l, NULL) == RF_OK) {
		rf_aside_wait(&list, 1, rf_now() + 1);
		for (const char *at = (char *)list.text.p, *end = at + list.text.n, *stop; at < end;
		     at = stop + 1) {
			if (!(stop = memchr(at, '\n', (size_t)(end - at))))
				break;
			note_line(p, at, (size_t)(stop - at));
		}
		if (list.status > 0 && !*p->lacks)
			rc = report_loader(&list.text, e);
		rf_aside_end(&list);
	}
	rf_elf_close(&self);
	return rc;
}

/* Reads the tables of the plugin. */
static enum rf_code read_tables(struct rf_plugin_look *p, struct rf_err *e)
{
	struct rf_elf file;
	uint64_t abi = 0;

	if (rf_elf_open(&file, p->path, e) != RF_OK)
		return rf_blame(e, "the CUDA plugin cannot be loaded");
	rf_elf_variable(&file, kind.table, &abi, sizeof abi);
	rf_elf_variable(&file, "rf_plugin_about", &p->about, sizeof p->about);
	rf_elf_close(&file);
	p->about.archs[sizeof p->about.archs - 1] = 0;
	return abi == kind.abi ? RF_OK : rf_plugin_differs(&kind, p->path, e);
}

enum rf_code rf_plugin_look(struct rf_plugin_look *p, struct rf_err *e)
{
	char found[RF_PLUGIN_PATH];
	const char *path;
	enum rf_code rc;

	*p = (struct rf_plugin_look){ .driver = has_driver() };
	if ((rc = rf_plugin_find(&kind, &path, found, e)) != RF_OK)
		return rc;
	p->named = path != found;
	snprintf(p->path, sizeof p->path, "%s", path);
	if (!strchr(path, '/')) /* dlopen(3) does not look for such a name in the current folder */
		return rf_fail(e, RF_EDEVICE,
		               "RF_PLUGIN=%.200s is looked for among the system's libraries: write ./%.200s",
		               path, path);
	if ((rc = read_tables(p, e)) != RF_OK)
		return rc;
	if ((rc = find_lacking(p, e)) != RF_OK || !*p->lacks)
		return rc;
	return rf_fail(e, RF_EDEVICE,
	               "the CUDA plugin needs %s: install CUDA's libraries, or name their folder in "
	               "LD_LIBRARY_PATH",
	               p->lacks);
}
