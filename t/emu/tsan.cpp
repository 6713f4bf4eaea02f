/* tsan.cpp -- the functions that the compiler calls under -fsanitize=thread, with the address of every
 * access.  They replace the sanitizer's runtime and call emu_race_access() of the other file that is
 * linked. */
#include "emu_rt.h"

enum { READ, WRITE };

#define ACCESS(name, n, way) \
	extern "C" void __tsan_##name##n(void *p) { emu_race_access(p, n, way, __builtin_return_address(0)); }
#define ACCESSES(n) \
	ACCESS(read, n, READ) \
	ACCESS(write, n, WRITE) \
	ACCESS(unaligned_read, n, READ) \
	ACCESS(unaligned_write, n, WRITE)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
extern "C" void __tsan_read_range(void *p, size_t n)
{
	emu_race_access(p, n, READ, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void *p, size_t n)
{
	emu_race_access(p, n, WRITE, __builtin_return_address(0));
}
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void **, void *) {}
extern "C" void __tsan_vptr_read(void **) {}
