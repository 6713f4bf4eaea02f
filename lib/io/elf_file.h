/* elf_file.h -- reads programs and shared objects (ELF) without loading them. */
#ifndef RF_ELF_FILE_H
#define RF_ELF_FILE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A file of this machine's kind that is open for reading. */
struct rf_elf {
	int fd;
	ElfW(Ehdr) head;
};

/* Opens a program or shared object.  Errors: RF_EDEVICE: the file cannot be opened, is not an ELF file, or
 * belongs to another kind of machine. */
enum rf_code rf_elf_open(struct rf_elf *f, const char *path, struct rf_err *e);
void rf_elf_close(struct rf_elf *f);

/* Copies the first n bytes of an exported variable, as the file has them.  If the variable is shorter, the
 * rest of `to` is zeroed.  Returns false if the file exports no such variable. */
bool rf_elf_variable(const struct rf_elf *f, const char *name, void *to, size_t n);
/* Copies the path of the loader that starts the program.  Returns false if the file names none. */
bool rf_elf_loader(const struct rf_elf *f, char *path, size_t size);

#endif
