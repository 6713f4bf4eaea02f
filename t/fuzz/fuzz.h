/* fuzz.h -- functions that the fuzz targets share: they check promises, and make a file of the input. */
#ifndef RF_T_FUZZ_H
#define RF_T_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts unless the promise was kept. */
static inline void insist(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "fuzz: %s\n", what);
		abort();
	}
}

/* Puts the bytes into a file without a name, and its path under /proc into path; the caller closes it. */
static inline int memory_file(const void *data, size_t size, char path[40])
{
	const int fd = (int)syscall(SYS_memfd_create, "fuzz", 0);

	insist(fd >= 0 && write(fd, data, size) == (ssize_t)size, "memfd");
	snprintf(path, 40, "/proc/self/fd/%d", fd);
	return fd;
}

#endif
