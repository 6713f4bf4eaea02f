/* libraries.c -- asks each library for its version, since the loaded library may differ from the headers of
 * the build.  The libraries of plugins are asked only if they are loaded already. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

#include <msgpack.h>
#include <oneapi/dnnl/dnnl.h>
#include <oniguruma.h>
#include <xxhash.h>
#include <zstd.h>
#include <utf8proc.h>

#include "engine/libraries.h"

static void add(json_t *to, const char *name, int major, int minor, int patch)
{
	char text[60];

	snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
	json_object_set_new(to, name, json_string(text));
}

/* Returns a function of a library that is loaded; NULL: it is not.  The pointer is data, which POSIX, unlike
 * C, lets a caller convert to a function. */
static void *loaded(const char *const *files, const char *function)
{
	void *library = NULL;

	for (; *files && !library; files++)
		library = dlopen(*files, RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlsym(library, function) : NULL;
}

static void add_plugins(json_t *to)
{
	static const char *const driver[] = { "libcuda.so.1", NULL },
	    *const cublas[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL },
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
		json_object_set_new(to, "MPI", json_string(text));
	}
}

json_t *rf_libraries(void)
{
	const dnnl_version_t *dnnl = dnnl_version();
	const unsigned xxh = XXH_versionNumber();
	json_t *all = json_object();

	add(all, "oneDNN", dnnl->major, dnnl->minor, dnnl->patch);
	json_object_set_new(all, "glibc", json_string(gnu_get_libc_version()));
	json_object_set_new(all, "zstd", json_string(ZSTD_versionString()));
	json_object_set_new(all, "msgpack", json_string(msgpack_version()));
	json_object_set_new(all, "jansson", json_string(jansson_version_str()));
	add(all, "xxHash", (int)(xxh / 10000), (int)(xxh / 100 % 100), (int)(xxh % 100));
	json_object_set_new(all, "utf8proc", json_string(utf8proc_version()));
	json_object_set_new(all, "Oniguruma", json_string(onig_version()));
	add_plugins(all);
	return all;
}
