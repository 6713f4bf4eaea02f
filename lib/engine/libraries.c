/* libraries.c -- asks each library for its version, since the loaded library may differ from the headers of
 * the build.  The libraries of plugins are asked only if they are loaded already. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <msgpack.h>
#include <oneapi/dnnl/dnnl.h>
#include <oniguruma.h>
#include <xxhash.h>
#include <zstd.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "engine/libraries.h"

/* The versions found so far; failed: whether memory ran out. */
struct versions {
	json_t *all;
	bool failed;
};

static void add_text(struct versions *to, const char *name, const char *text)
{
	to->failed |= json_object_set_new(to->all, name, json_string(text)) < 0;
}

static void add(struct versions *to, const char *name, int major, int minor, int patch)
{
	char text[60];

	snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
	add_text(to, name, text);
}

/* Returns a function of a library that is loaded; NULL: the library is not loaded.  POSIX, unlike C, lets the
 * caller convert this pointer to data to a pointer to a function. */
static void *loaded(const char *const *files, const char *function)
{
	void *library = NULL;

	for (; *files && !library; files++)
		library = dlopen(*files, RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlsym(library, function) : NULL;
}

static void add_plugins(struct versions *to)
{
	static const char *const driver[] = { "libcuda.so.1", NULL },
				 *const cublas[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
		                                     NULL },
				 *const nccl[] = { "libnccl.so.2", NULL },
				 *const mpi[] = { "libmpi.so.40", "libmpi.so.12", "libmpich.so.12", NULL };
	int (*version)(int *), (*property)(int, int *), (*text_version)(char *, int *);
	int v = 0, part[3] = { 0 }, n = 0;
	char text[8192] = ""; /* the length that MPI requires */

	*(void **)&version = loaded(driver, "cuDriverGetVersion");
	if (version && !version(&v))
		add(to, "CUDA driver", v / 1000, v % 1000 / 10, v % 10);
	*(void **)&property = loaded(cublas, "cublasGetProperty");
	if (property && !property(0, &part[0]) && !property(1, &part[1]) && !property(2, &part[2]))
		add(to, "cuBLAS", part[0], part[1], part[2]);
	*(void **)&version = loaded(nccl, "ncclGetVersion");
	if (version && !version(&v))
		add(to, "NCCL", v / 10000, v % 10000 / 100, v % 100);
	*(void **)&text_version = loaded(mpi, "MPI_Get_library_version");
	if (text_version && !text_version(text, &n)) {
		text[strcspn(text, ",\n")] = 0;
		if (rf_utf8(text, strlen(text)))
			add_text(to, "MPI", text);
	}
}

json_t *rf_libraries(void)
{
	const dnnl_version_t *dnnl = dnnl_version();
	const unsigned xxh = XXH_versionNumber();
	struct versions v = { .all = json_object() };

	add(&v, "oneDNN", dnnl->major, dnnl->minor, dnnl->patch);
	add_text(&v, "glibc", gnu_get_libc_version());
	add_text(&v, "zstd", ZSTD_versionString());
	add_text(&v, "msgpack", msgpack_version());
	add_text(&v, "jansson", jansson_version_str());
	add(&v, "xxHash", (int)(xxh / 10000), (int)(xxh / 100 % 100), (int)(xxh % 100));
	add_text(&v, "utf8proc", utf8proc_version());
	add_text(&v, "Oniguruma", onig_version());
	add_plugins(&v);
	if (v.failed) {
		json_decref(v.all);
		v.all = NULL;
	}
	return v.all;
}
