/* loaded.c -- asks each library for its version, since the loaded library may differ from the headers of the
 * build.  Functions are found by name, so this file links with no library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "io/loaded.h"

enum { TEXT = 100 };

/* The functions that tell a version, in the forms that libraries have. */
typedef const char *(*text_of)(void);
typedef unsigned (*number_of)(void);
typedef const struct triple {
	int major, minor, patch;
} * (*triple_of)(void);

/* The libraries that programs are linked with. */
static const struct library {
	const char *name, *function;
	enum { TELLS_TEXT, TELLS_NUMBER, TELLS_TRIPLE } tells;
} linked[] = {
	{ "oneDNN", "dnnl_version", TELLS_TRIPLE },       { "glibc", "gnu_get_libc_version", TELLS_TEXT },
	{ "zstd", "ZSTD_versionString", TELLS_TEXT },     { "msgpack", "msgpack_version", TELLS_TEXT },
	{ "jansson", "jansson_version_str", TELLS_TEXT }, { "xxHash", "XXH_versionNumber", TELLS_NUMBER },
	{ "utf8proc", "utf8proc_version", TELLS_TEXT },   { "Oniguruma", "onig_version", TELLS_TEXT },
};

static const char *three(char text[TEXT], int major, int minor, int patch)
{
	snprintf(text, TEXT, "%d.%d.%d", major, minor, patch);
	return text;
}

/* Returns the version of a library whose function is at f.  POSIX, unlike C, lets the caller convert this
 * pointer to data to a pointer to a function. */
static const char *ask(const struct library *l, void *f, char text[TEXT])
{
	const struct triple *triple;
	unsigned n;

	switch (l->tells) {
	case TELLS_NUMBER:
		n = (*(number_of *)(void *)&f)();
		return three(text, (int)(n / 10000), (int)(n / 100 % 100), (int)(n % 100));
	case TELLS_TRIPLE:
		triple = (*(triple_of *)(void *)&f)();
		return three(text, triple->major, triple->minor, triple->patch);
	default: return (*(text_of *)(void *)&f)();
	}
}

/* Returns a function of a library that is loaded; NULL: the library is not loaded. */
static void *loaded(const char *const *files, const char *function)
{
	void *library = NULL;

	for (; *files && !library; files++)
		library = dlopen(*files, RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlsym(library, function) : NULL;
}

/* Tells the libraries of plugins, which are not in the scope of the program. */
static void tell_plugins(void (*tell)(void *arg, const char *name, const char *version), void *arg)
{
	static const char *const driver[] = { "libcuda.so.1", NULL },
				 *const cublas[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
		                                     NULL },
				 *const nccl[] = { "libnccl.so.2", NULL },
				 *const mpi[] = { "libmpi.so.40", "libmpi.so.12", "libmpich.so.12", NULL };
	int (*version)(int *), (*property)(int, int *), (*text_version)(char *, int *);
	int v = 0, part[3] = { 0 }, n = 0;
	char number[TEXT], text[8192] = ""; /* the length that MPI requires */

	*(void **)&version = loaded(driver, "cuDriverGetVersion");
	if (version && !version(&v))
		tell(arg, "CUDA driver", three(number, v / 1000, v % 1000 / 10, v % 10));
	*(void **)&property = loaded(cublas, "cublasGetProperty");
	if (property && !property(0, &part[0]) && !property(1, &part[1]) && !property(2, &part[2]))
		tell(arg, "cuBLAS", three(number, part[0], part[1], part[2]));
	*(void **)&version = loaded(nccl, "ncclGetVersion");
	if (version && !version(&v))
		tell(arg, "NCCL", three(number, v / 10000, v % 10000 / 100, v % 100));
	*(void **)&text_version = loaded(mpi, "MPI_Get_library_version");
	if (text_version && !text_version(text, &n)) {
		text[strcspn(text, ",\n")] = 0;
		if (rf_utf8(text, strlen(text)))
			tell(arg, "MPI", text);
	}
}

void rf_loaded(void (*tell)(void *arg, const char *name, const char *version), void *arg)
{
	char text[TEXT];

	for (size_t i = 0; i < sizeof linked / sizeof *linked; i++) {
		void *f = dlsym(RTLD_DEFAULT, linked[i].function);

		if (f)
			tell(arg, linked[i].name, ask(&linked[i], f, text));
	}
	tell_plugins(tell, arg);
}
