/* main -- replays files through a fuzz target, so that inputs which libFuzzer found once are tested again.
 * `make fuzz` links the same target with libFuzzer instead.  A failed check aborts. */
#include <signal.h>

#include "fuzz/fuzz.h"

static const char *current;

/* Prints the name of the file; abort() then ends the program. */
static void name_file(int sig)
{
	(void)sig;
	if (write(STDERR_FILENO, current, strlen(current)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
		_exit(2);
}

int main(int argc, char *argv[])
{
	signal(SIGABRT, name_file);
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		uint8_t *data = NULL;
		size_t n = 0, cap = 0, got = 1;

		while (f && got) {
			if (n == cap && !(data = realloc(data, cap = cap ? 2 * cap : 65536)))
				return 2;
			got = fread(data + n, 1, cap - n, f);
			n += got;
		}
		if (!f || ferror(f)) {
			perror(argv[i]);
			return 2;
		}
		fclose(f);
		/* a copy of the exact size, so that a sanitizer sees an access beyond its end */
		uint8_t *exact = malloc(n ? n : 1);
		if (!exact)
			return 2;
		for (size_t j = 0; j < n; j++)
			exact[j] = data[j];
		current = argv[i];
		LLVMFuzzerTestOneInput(exact, n);
		free(exact);
		free(data);
	}
	return 0;
}
