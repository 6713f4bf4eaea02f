/* elf_file.c -- finds variables by the dynamic symbols, which stay in a stripped file.  Sizes and offsets
 * come from the file, so each read is checked. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/elf_file.h"
#include "io/file.h"

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE EM_AARCH64
#else
#define THIS_MACHINE f->head.e_machine
#endif

enum { MOST_TABLE = 64 << 20 };

enum rf_code rf_elf_open(struct rf_elf *f, const char *path, struct rf_err *e)
{
	const unsigned char *id = f->head.e_ident;
	uint64_t size;

	if (rf_file_open(path, &f->fd, &size, e) != RF_OK)
		return e ? (e->code = RF_EDEVICE) : RF_EDEVICE;
	if (rf_file_pread(f->fd, &f->head, sizeof f->head, 0, NULL) == RF_OK &&
	    !memcmp(id, ELFMAG, SELFMAG)) {
		if (id[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
		    f->head.e_machine == THIS_MACHINE && f->head.e_phentsize == sizeof(ElfW(Phdr)) &&
		    f->head.e_shentsize == sizeof(ElfW(Shdr)))
			return RF_OK;
		rf_fail(e, RF_EDEVICE, "%s: a program for another kind of machine", path);
	} else {
		rf_fail(e, RF_EDEVICE, "%s: not a shared object", path);
	}
	rf_elf_close(f);
	return RF_EDEVICE;
}

void rf_elf_close(struct rf_elf *f)
{
	close(f->fd);
	f->fd = -1;
}

/* Returns n bytes of the file, malloc'd and with a NUL after them; NULL: the file lacks them. */
static void *read_part(const struct rf_elf *f, uint64_t at, uint64_t n)
{
	char *p = n <= MOST_TABLE ? malloc(n + 1) : NULL;

	if (p && rf_file_pread(f->fd, p, n, at, NULL) == RF_OK) {
		p[n] = 0;
		return p;
	}
	free(p);
	return NULL;
}

/* Finds the segment that has n bytes at this address of the loaded program.  Returns their offset in the
 * file, or UINT64_MAX. */
static uint64_t offset_of(const struct rf_elf *f, uint64_t address, uint64_t n)
{
	ElfW(Phdr) *segment = read_part(f, f->head.e_phoff, f->head.e_phnum * sizeof *segment);
	uint64_t offset = UINT64_MAX;

	for (int i = 0; segment && i < f->head.e_phnum; i++)
		if (segment[i].p_type == PT_LOAD && address >= segment[i].p_vaddr &&
		    address - segment[i].p_vaddr <= segment[i].p_filesz &&
		    n <= segment[i].p_filesz - (address - segment[i].p_vaddr))
			offset = segment[i].p_offset + (address - segment[i].p_vaddr);
	free(segment);
	return offset;
}

/* Finds a symbol in the table of the section `at`.  Returns false if it is not there. */
static bool find_symbol(const struct rf_elf *f, const ElfW(Shdr) * section, int at, const char *name,
                        ElfW(Sym) * found)
{
	const ElfW(Shdr) *texts = section + section[at].sh_link;
	const size_t n = section[at].sh_size / sizeof(ElfW(Sym));
	ElfW(Sym) *symbol = read_part(f, section[at].sh_offset, n * sizeof *symbol);
	char *text = read_part(f, texts->sh_offset, texts->sh_size);
	bool well = false;

	for (size_t i = 0; symbol && text && i < n && !well; i++)
		if (symbol[i].st_shndx != SHN_UNDEF && symbol[i].st_name < texts->sh_size &&
		    !strcmp(text + symbol[i].st_name, name)) {
			*found = symbol[i];
			well = true;
		}
	free(symbol);
	free(text);
	return well;
}

bool rf_elf_variable(const struct rf_elf *f, const char *name, void *to, size_t n)
{
	ElfW(Shdr) *section = read_part(f, f->head.e_shoff, f->head.e_shnum * sizeof *section);
	ElfW(Sym) symbol = { 0 };
	bool well = false;

	memset(to, 0, n);
	for (int i = 0; section && i < f->head.e_shnum && !well; i++)
		if (section[i].sh_type == SHT_DYNSYM && section[i].sh_link < f->head.e_shnum)
			well = find_symbol(f, section, i, name, &symbol);
	free(section);
	if (!well)
		return false;
	n = symbol.st_size < n ? symbol.st_size : n;
	return rf_file_pread(f->fd, to, n, offset_of(f, symbol.st_value, n), NULL) == RF_OK;
}

bool rf_elf_loader(const struct rf_elf *f, char *path, size_t size)
{
	ElfW(Phdr) *segment = read_part(f, f->head.e_phoff, f->head.e_phnum * sizeof *segment);
	bool well = false;

	for (int i = 0; segment && i < f->head.e_phnum && !well; i++)
		well = segment[i].p_type == PT_INTERP && segment[i].p_filesz && segment[i].p_filesz <= size &&
		       rf_file_pread(f->fd, path, segment[i].p_filesz, segment[i].p_offset, NULL) == RF_OK &&
		       !path[segment[i].p_filesz - 1];
	free(segment);
	return well;
}
