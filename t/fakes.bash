# Functions that compile plugins and drivers for tests of --version and rf-doctor, which must not need a GPU.

# fake_plugin FILE [SOURCE [FLAGS...]]: compiles a plugin without operations, with code for sm_80 and sm_90;
# SOURCE: more text of C, or a replacement of the table with -DABOUT='...'
fake_plugin() {
	cat >"$1.c" <<-END
		#include "device/dev.h"
		#include "device/plugin_about.h"
		#ifndef ABI
		#define ABI RF_PLUGIN_ABI
		#endif
		const struct rf_plugin rf_plugin = { ABI, 0 };
		#ifndef NO_ABOUT
		const struct rf_plugin_about rf_plugin_about = { 13000, "sm_80, sm_90" };
		#endif
		${2:-}
	END
	cc -shared -fPIC -I"$ROOT/lib" -o "$1" "$1.c" "${@:3}"
}

# lacking_plugin FILE: compiles a plugin that needs libnowhere.so.13, which the system lacks
lacking_plugin() {
	echo 'int nowhere(void) { return 0; }' >nowhere.c
	cc -shared -fPIC -Wl,-soname,libnowhere.so.13 -o libnowhere.so nowhere.c
	fake_plugin "$1" 'int nowhere(void); int f(void) { return nowhere(); }' -L. -lnowhere
	rm libnowhere.so
}

# fake_driver FOLDER: compiles the driver's libraries into FOLDER, for LD_LIBRARY_PATH.  FAKE_INIT: the result
# of its first call, or `hang`, `crash`, or `list`, which writes the files that its process has open to
# FAKE_LIST; FAKE_VERSION: its CUDA; FAKE_GPUS: their number; FAKE_CC: their compute capability; FAKE_FREE:
# their free MiB, of 1000
fake_driver() {
	mkdir -p "$1"
	cat >"$1/driver.c" <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>
		static int setting(const char *name, int otherwise)
		{
			return getenv(name) ? atoi(getenv(name)) : otherwise;
		}
		int cuInit(unsigned f)
		{
			const char *how = getenv("FAKE_INIT");
			while (how && !strcmp(how, "hang"))
				pause();
			if (how && !strcmp(how, "crash"))
				abort();
			if (how && !strcmp(how, "list"))
				return system("ls -l /proc/$PPID/fd >\"$FAKE_LIST\"");
			return f ? 1 : setting("FAKE_INIT", 0);
		}
		int cuDriverGetVersion(int *v) { *v = setting("FAKE_VERSION", 13000); return 0; }
		int cuDeviceGetCount(int *n) { *n = setting("FAKE_GPUS", 1); return 0; }
		int cuDeviceGet(int *d, int i) { *d = i; return 0; }
		int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake %d", d); return 0; }
		int cuDeviceGetAttribute(int *v, int a, int d)
		{
			int cc = setting("FAKE_CC", 90);
			*v = a == 75 ? cc / 10 : cc % 10;
			return d < 0;
		}
		int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1000u << 20; return d < 0; }
		int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0:%02x:0.0", d); return 0; }
		int cuGetErrorString(int e, const char **s) { *s = "fake error"; return e < 0; }
		int nvmlInit_v2(void) { return 0; }
		int nvmlDeviceGetHandleByPciBusId_v2(const char *s, void **d) { *d = 0; return *s != '0'; }
		int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m)
		{
			m[0] = 1000ull << 20;
			m[1] = (unsigned long long)setting("FAKE_FREE", 990) << 20;
			return d != 0;
		}
	END
	cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$1/libcuda.so.1" "$1/driver.c"
	cp "$1/libcuda.so.1" "$1/libnvidia-ml.so.1"
}
