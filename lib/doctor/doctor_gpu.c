/* doctor_gpu.c -- the plugins, the NVIDIA driver and its GPUs.  The driver is asked directly, so the plugin
 * may be missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/dev_plugin.h"
#include "doctor/findings.h"
#include "io/loaded.h"
#include "ranks/ranks.h"

/* The functions of the driver, and of its library for management, which tells the free memory without opening
 * the GPU. */
struct driver {
	int (*init)(unsigned), (*version)(int *), (*count)(int *), (*get)(int *, int);
	int (*name)(char *, int, int), (*attribute)(int *, int, int), (*total)(size_t *, int);
	int (*place)(char *, int, int), (*error)(int, const char **);
	int (*open)(void), (*find)(const char *, void **), (*memory)(void *, unsigned long long *);
};

enum { NO_GPU = 100, CC_MAJOR = 75, CC_MINOR = 76, FUNCTIONS = 12 };
enum { OLDEST = 80 }; /* the compute capability, times 10, of the oldest GPU that kernels support */

/* Finds the functions.  Returns false if the driver's library is missing or too old. */
static bool load_driver(struct driver *d)
{
	static const char *const names[FUNCTIONS] = {
		"cuInit",
		"cuDriverGetVersion",
		"cuDeviceGetCount",
		"cuDeviceGet",
		"cuDeviceGetName",
		"cuDeviceGetAttribute",
		"cuDeviceTotalMem_v2",
		"cuDeviceGetPCIBusId",
		"cuGetErrorString",
		"nvmlInit_v2",
		"nvmlDeviceGetHandleByPciBusId_v2",
		"nvmlDeviceGetMemoryInfo",
	};
	void *library = dlopen("libcuda.so.1", RTLD_LAZY), *function[FUNCTIONS];
	void *management = dlopen("libnvidia-ml.so.1", RTLD_LAZY);

	if (!library)
		return false;
	for (int i = 0; i < FUNCTIONS; i++)
		if (i < 9)
			function[i] = dlsym(library, names[i]);
		else
			function[i] = management ? dlsym(management, names[i]) : NULL;
	memcpy(d, function, sizeof function);
	return d->init && d->version && d->count && d->get && d->name && d->attribute && d->total &&
	       d->place && d->error;
}

/* ---- the plugin ----------------------------------------------------------------------------- */

/* Tells what is known of the plugin.  kernel: the driver's module is loaded, so a GPU can be expected. */
static void tell_plugin(const struct rf_findings *f, struct rf_plugin_look *p, bool kernel)
{
	struct rf_err e;
	const enum rf_code rc = rf_plugin_look(p, &e);
	char cuda[RF_SIZE_TEXT];

	if (!*p->path) {
		rf_found(f, "plugin", "none: %s", e.msg);
		return;
	}
	rf_found(f, "plugin", "%s%s", p->path, p->named ? " (RF_PLUGIN)" : "");
	if (*p->about.archs)
		rf_found(f, "architectures", "%s, and newer ones; built with CUDA %s", p->about.archs,
		         rf_cuda_text(p->about.cuda, cuda));
	if (*p->lacks)
		rf_found(f, "missing libraries", "%s", p->lacks);
	else if (rc != RF_OK)
		rf_found(f, "not usable", "%s", e.msg);
	if (rc != RF_OK && (p->named || kernel || p->driver))
		rf_found_wrong(f, "--device cuda does not work: %s", e.msg);
}

/* Returns whether the plugin has code for GPUs of this compute capability.  *compiled: the driver must first
 * compile the code. */
static bool has_code(const char *archs, int capability, bool *compiled)
{
	int last = 0;

	*compiled = false;
	for (const char *p = archs; (p = strstr(p, "sm_")); p += 3) {
		last = atoi(p + 3);
		if (last / 10 == capability / 10 && last <= capability)
			return true;
	}
	*compiled = last && last <= capability;
	return *compiled;
}

/* ---- the driver ----------------------------------------------------------------------------- */

/* Tells the version of the driver's module.  Returns false if the module is not loaded. */
static bool tell_module(const struct rf_findings *f)
{
	struct rf_buf text;
	const bool loaded = rf_found_file(f, "/proc/driver/nvidia/version", &text);
	char line[300], *word, *rest = line;

	if (loaded) {
		rf_found_line((char *)text.p, line, sizeof line);
		while ((word = strtok_r(rest, " ", &rest)) &&
		       !(*word >= '0' && *word <= '9' && strchr(word, '.')))
			;
		rf_found(f, "NVIDIA driver", "%s", word ? word : "of unknown version");
	} else {
		rf_found(f, "NVIDIA driver", "none");
	}
	rf_buf_free(&text);
	return loaded;
}

static void tell_gpu(const struct rf_findings *f, const struct driver *d, int i,
                     const struct rf_plugin_look *p, int supports)
{
	char name[100] = "", place[32] = "", label[16], a[RF_SIZE_TEXT], b[RF_SIZE_TEXT];
	unsigned long long memory[3] = { 0 }; /* total, free, used */
	int gpu, major = 0, minor = 0, capability;
	size_t total = 0;
	bool compiled, known = false;
	void *managed;

	if (d->get(&gpu, i) || d->name(name, sizeof name, gpu) || d->attribute(&major, CC_MAJOR, gpu) ||
	    d->attribute(&minor, CC_MINOR, gpu) || d->total(&total, gpu)) {
		rf_found_wrong(f, "the NVIDIA driver tells nothing about GPU %d (see dmesg(1))", i);
		return;
	}
	if (d->open && d->find && d->memory && !d->open() && !d->place(place, sizeof place, gpu) &&
	    !d->find(place, &managed))
		known = !d->memory(managed, memory);
	capability = 10 * major + minor;
	snprintf(label, sizeof label, "GPU %d", i);
	rf_found(f, label, "%s, sm_%d, %s of %s free", name, capability,
	         known ? rf_size_text(memory[1], a) : "unknown", rf_size_text(total, b));
	if (known && memory[1] < memory[0] / 10)
		rf_found_wrong(f,
		               "GPU %d has only %s of %s free (end the programs that nvidia-smi lists, or "
		               "choose a GPU with CUDA_VISIBLE_DEVICES)",
		               i, rf_size_text(memory[1], a), rf_size_text(memory[0], b));
	if (!*p->about.archs)
		return;
	if (!has_code(p->about.archs, capability, &compiled) && capability < OLDEST)
		rf_found_wrong(f, "GPU %d of type sm_%d is too old: sm_%d is needed (use --device cpu)", i,
		               capability, OLDEST);
	else if (!has_code(p->about.archs, capability, &compiled))
		rf_found_wrong(f,
		               "the plugin has code for %s, which GPU %d of type sm_%d cannot run (make "
		               "CUDA_ARCHS=%d)",
		               p->about.archs, i, capability, capability);
	else if (compiled && supports < p->about.cuda)
		rf_found_wrong(f,
		               "GPU %d is newer than the plugin, and its driver for CUDA %s cannot compile "
		               "code of CUDA %s (update the driver, or make CUDA_ARCHS=%d)",
		               i, rf_cuda_text(supports, a), rf_cuda_text(p->about.cuda, b), capability);
}

static void tell_no_gpu(const struct rf_findings *f, const struct driver *d, int code)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *why = NULL;

	if (code && code != NO_GPU) {
		d->error(code, &why);
		rf_found_wrong(f,
		               "the NVIDIA driver cannot start: %s, error %d (restart the machine if the "
		               "driver was updated)",
		               why ? why : "unknown error", code);
		return;
	}
	rf_found(f, "GPUs", "none%s", visible ? " that CUDA_VISIBLE_DEVICES leaves visible" : "");
	if (visible && *visible && strcmp(visible, "-1"))
		rf_found_wrong(
			f,
			"CUDA_VISIBLE_DEVICES=%.100s leaves no GPU visible (unset it, or name GPUs that "
			"nvidia-smi lists)",
			visible);
}

/* Asks the driver, which may take long or never answer. */
static void tell_driver(const struct rf_findings *f, const struct rf_plugin_look *p, bool module)
{
	struct driver d;
	char cuda[RF_SIZE_TEXT];
	int version = 0, n = 0, code;

	rf_found_waits(f, "the NVIDIA driver",
	               "start persistence mode with nvidia-smi -pm 1, or the driver hangs: see dmesg(1)");
	if (!load_driver(&d)) {
		if (module)
			rf_found_wrong(
				f, "the NVIDIA driver is loaded, but its library libcuda.so.1 is not found "
				   "(in a container: start it with its GPUs, as by docker run --gpus all)");
		return;
	}
	if (!d.version(&version))
		rf_found(f, "driver's CUDA", "%s", rf_cuda_text(version, cuda));
	if (version && version / 1000 < p->about.cuda / 1000)
		rf_found_wrong(f,
		               "the NVIDIA driver supports CUDA %s, and the plugin needs %d.0 (update the "
		               "driver)",
		               rf_cuda_text(version, cuda), p->about.cuda / 1000);
	if ((code = d.init(0)) || (code = d.count(&n)) || !n) {
		tell_no_gpu(f, &d, code);
		return;
	}
	for (int i = 0; i < n; i++)
		tell_gpu(f, &d, i, p, version);
}

void rf_doctor_gpu(const struct rf_findings *f)
{
	struct rf_plugin_look look;
	bool module;

	rf_found_part(f, "GPU");
	rf_found_waits(f, "the file of the plugin", "is its file system slow?");
	module = tell_module(f);
	tell_plugin(f, &look, module);
	tell_driver(f, &look, module);
}

/* Loads the plugin with its libraries, if a program would do so. */
void rf_doctor_loading(const struct rf_findings *f)
{
	struct rf_plugin_look look;
	const double began = rf_now();
	const struct rf_ops *ops;
	struct rf_err e;
	bool none;

	if (rf_plugin_look(&look, NULL) != RF_OK || (!look.named && !look.driver))
		return;
	rf_found_waits(f, "the CUDA plugin", "the first start reads its libraries from the disk; try again");
	if (rf_plugin_open(&ops, &none, &e) == RF_OK)
		rf_found(f, "plugin loads", "in %.2f s", rf_now() - began);
	else
		rf_found_wrong(f, "--device cuda does not work: %s", e.msg);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

static void tell_library(void *arg, const char *name, const char *version)
{
	if (!strcmp(name, "MPI"))
		rf_found(arg, "MPI", "%s", version);
}

void rf_doctor_mpi(const struct rf_findings *f)
{
	char found[RF_PLUGIN_PATH];
	const char *path;
	const void *table;
	struct rf_err e;

	rf_found_part(f, "ranks");
	if (rf_plugin_find(&rf_ranks_kind, &path, found, &e) != RF_OK) {
		rf_found(f, "plugin", "none: %s", e.msg);
		return;
	}
	rf_found(f, "plugin", "%s%s", path, path == found ? "" : " (RF_MPI)");
	rf_found_waits(f, "the MPI plugin", "is the file system of its libraries slow?");
	if (rf_plugin_load(&rf_ranks_kind, path, &table, &e) == RF_OK)
		rf_loaded(tell_library, (void *)f);
	else
		rf_found_wrong(f, "--ranks mpi does not work: %s", e.msg);
}
