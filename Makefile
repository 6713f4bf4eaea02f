# make                builds bin/*, and with the CUDA toolkit the plugin for GPUs
#                         CUDA_ARCHS='80 90': for these architectures.  The default is the architectures of
#                         this machine's GPUs; without a GPU, six architectures, which take some minutes on
#                         two cores
#                         CUDA=no: without the plugin
# make deps           installs the packages of the distribution that the build needs
# make deps-arm64     also installs the compiler and the emulator for make check-arm64, and libraries in
#                     build/arm64/root
# make deps-slurm     also installs Slurm and munge for make check-slurm
# make midtrain       runs the method on real text and writes a report: pipelines/demo/demo.mk
#                         ARCH=delta_net, gated_deltanet, lact_swiglu or qwen3_5_text: the kind of model; also
#                         for make bench
# make posttrain, make testtime
#                     run the other two phases on questions about that text: pipelines/demo/demo-phases.mk
# make study          tests whether ReFINE makes a model better: small models, controls, twelve seeds:
#                     pipelines/study/study.mk, which keeps the figures of a run that took 16 hours
#                         QUICK=1: only test that the study works, in some minutes instead of hours
# make check          builds and runs all tests; takes about six minutes on two cores
#                         TESTS=t/x.bats: only these files; DEVICE=cuda: on a GPU; ISA=x86_64: as on an older
#                         processor; DEVICE=check: on the checking device (guarded memory, delayed errors)
# make check-all      runs the same tests with all cases, where make check runs only some of them
#                         SANITIZE=1: with ASan and UBSan
# make check-arm64    runs the tests that an emulator can run, with programs for arm64, and checks that the
#                     streams are the same bytes
#                         make check CROSS=arm64 TESTS=t/x.bats: only these files
# make check-slurm    tests training as a job of Slurm; starts a Slurm on this machine, as root
# make lint           checks the warnings of two compilers, the manual, shell scripts, and the rules of the
#                     source
# make fuzz           runs each t/fuzz/*.c for FUZZ_TIME=60 seconds; keeps its findings in build/fuzz
# make cuda-report    prints registers, spills, shared memory, blocks and warps on a multiprocessor for each
#                     CUDA kernel; fails if a kernel spills more than SPILLS=600 bytes
# make cuda-reckon    estimates the time of passes and of a step of the shipped models on an H100, for each
#                     kernel, with the emulated GPU: t/emu/reckon.sh.  Needs code for sm_90
#                         CONFIGS=pipelines/configs/lact-760m.json T=16384 SEGMENT=8192 LINES=20 STEP=no
# make gpu-bundle     makes build/gpu-bundle.tar.gz, for a bare machine with a GPU:
#                     pipelines/bench/gpu-first.md
#                         CUDA_ARCHS=90: only for this architecture
# make bench          measures speed and memory
#                         DEVICE=cuda: on a GPU; ISA=x86_64_v3: at that level and all lower levels;
#                         ONLY='passes steps' measures only these parts of pipelines/bench/bench.sh
# make help           prints these lines; the makefiles in pipelines have the same target:
#                     make -f pipelines/midtrain.mk help
# make install, make uninstall
#                         PREFIX=/usr/local DESTDIR=
# make dist           makes the tarball of the release from the last commit:
#                         build/dist/rf-tools-VERSION.tar.gz
# make deb            makes Debian packages of that tarball in build/deb, and checks them with lintian
#                         CUDA_ARCHS=90, CUDA=no: as for make; DEB_BUILD_OPTIONS=nocheck: without tests
# make deps-deb       also installs the programs for make deb and make check-packages
# make check-packages
#                     installs the packages in a fresh Debian, as root, and runs the recipes of packaging/

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:

# Installs packages before make runs any recipe, also with -j, because the assignments below already ask the
# compiler for its features.
ifneq ($(filter deps deps-arm64 deps-slurm deps-deb,$(MAKECMDGOALS)),)
ifeq ($(findstring n,$(firstword -$(MAKEFLAGS))),)
$(if $(shell for kind in '' $(patsubst deps-%,%,$(filter deps-%,$(MAKECMDGOALS))); do \
             pipelines/lib/deps.sh $$kind || exit; done; echo done),, \
     $(error packages are missing, see above))
endif
endif

# Runs one job for each core unless -j is given.  With several goals, as in `make clean check`, one job runs
# at a time.
ifeq ($(MAKELEVEL)$(word 2,$(filter-out deps,$(MAKECMDGOALS))),0)
MAKEFLAGS += -j$(shell nproc)
endif

# The version, which only lib/base/version.h states.
VERSION := $(shell sed -n 's/^.define RF_VERSION "\(.*\)"/\1/p' lib/base/version.h)
PREFIX  ?= /usr/local
CC      ?= cc
CFLAGS  ?= -O2 -g
SANITIZE ?=
DEVICE  ?=
ISA     ?=
FUZZER  ?=
CROSS   ?=
BUILD   := build$(if $(CROSS),/$(CROSS))$(if $(SANITIZE),/sanitize)$(if $(FUZZER),/fuzz)
BIN     := $(if $(CROSS)$(SANITIZE)$(FUZZER),$(BUILD)/bin,bin)

# With CROSS the build is for another machine.  It uses Debian's cross compiler, the libraries that deps.sh
# unpacks, and an emulator, which tests start through the commands in $(EMULATED_BIN).
EMULATED_BIN :=
ifneq ($(CROSS),)
TRIPLET_arm64 = aarch64-linux-gnu
EMULATE_arm64 = qemu-aarch64-static
TRIPLET := $(or $(TRIPLET_$(CROSS)),$(error CROSS=$(CROSS): only arm64 is known))
ROOT    := $(abspath build/$(CROSS)/root/usr)
LIBS    := $(ROOT)/lib/$(TRIPLET)
CC      := $(TRIPLET)-gcc -isystem $(ROOT)/include -L$(LIBS) -Wl,-rpath,$(LIBS)
CXX     := $(TRIPLET)-g++ -isystem $(ROOT)/include
AR      := $(TRIPLET)-ar
CUDA    := no
EMULATE := $(EMULATE_$(CROSS)) -L /usr/$(TRIPLET)
EMULATED_BIN := $(BUILD)/run
$(if $(wildcard $(LIBS)),, \
     $(error compiler, emulator and libraries for $(CROSS) are not here: make deps-$(CROSS)))
endif

STD   = -std=c11 -D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200809L -Ilib -Ikernels
WARN  = -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wwrite-strings -Wvla -Wconversion -Wno-psabi
HARD  = -fPIE -fstack-protector-strong $(if $(SANITIZE)$(FUZZER),,-D_FORTIFY_SOURCE=2)
SAN_FLAGS = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SAN   = $(if $(SANITIZE)$(FUZZER),$(SAN_FLAGS)) $(if $(FUZZER),-fsanitize=fuzzer-no-link)
ALL_CFLAGS = $(STD) $(WARN) $(CFLAGS) $(HARD) $(SAN) -MMD -MP
CXX_ALL = -std=c++17 -D_DEFAULT_SOURCE -Ilib -Wall -Wextra $(CFLAGS) $(HARD) $(SAN) -MMD -MP
# Flags of the kernels: -O3, contracted multiply-adds, no errno and no floating-point traps; never
# -ffast-math, which would let the compiler reorder sums.
KERNEL_CFLAGS = -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math
# msgpack-c 6, which Debian 12 does not have yet, is MSGPACK=msgpack-c.
MSGPACK = msgpackc
LDLIBS = -lzstd -l$(MSGPACK) -ljansson -lxxhash -lutf8proc -lonig -lsentencepiece -lstdc++ -ldnnl -lgomp \
         -lpthread -ldl -lm

# The kernels are compiled once for each level of the instruction set; the device takes the highest level that
# the processor has.
MACHINE := $(shell $(CC) -dumpmachine | cut -d- -f1)
ISAS := $(if $(filter x86_64,$(MACHINE)),x86_64 x86_64_v3 x86_64_v4,base)
ISA_x86_64    = -march=x86-64
ISA_x86_64_v3 = -march=x86-64-v3
ISA_x86_64_v4 = -march=x86-64-v4 -mprefer-vector-width=512

# The CUDA backend is one shared object, which a program loads only for --device cuda or auto; CUDA=no leaves
# it out.  Tests run the same kernels compiled for the host: <gpu/launch.h> and <gpu/ptx.h> then come from
# t/emu, which -I names first.
NVCC  ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA  ?= $(if $(NVCC),yes,no)
CUDA_HOME  = $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
# The architectures of this machine's GPUs, or all architectures that the kernels support.
GPUS      := $(if $(filter yes,$(CUDA)),$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader \
             2>/dev/null | sed -n 's/^\([89]\|1[0-9]\)\.\([0-9]\)$$/\1\2/p' | sort -nu))
CUDA_ARCHS ?= $(or $(GPUS),80 86 89 90 100 120)
comma     := ,
CU        := $(wildcard kernels/*.cu kernels/cuda/*.cu)
CU_NAMES  = -DRF_CUDA_ARCHS='"$(patsubst %$(comma),%,$(CUDA_ARCHS:%=sm_%$(comma)))"'
NVCC_FLAGS = -std=c++17 -O3 -lineinfo --Werror all-warnings -Xptxas -v \
             -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Ilib -Ikernels -Ikernels/cuda $(CU_NAMES) \
             $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a$(comma)code=sm_$a) \
             -gencode arch=compute_$(lastword $(CUDA_ARCHS))$(comma)code=compute_$(lastword $(CUDA_ARCHS))
EMU_FLAGS  = -std=c++17 -O$(if $(SANITIZE)$(FUZZER),1,2) -g -fPIC -fvisibility=hidden -fno-strict-aliasing \
             -Wall -Wextra -Wpedantic -Wno-unknown-pragmas -It/emu -Ilib -Ikernels -It \
             -isystem $(CUDA_HOME)/include $(CU_NAMES)
# Flags of the emulated kernels.  EMU_RACE reports every memory access to t/emu/race.cpp; at -O1 g++ would not
# report p[i] = f().
EMU_CHECKS = -fsanitize=alignment,bounds
EMU_RACE   = -fsanitize=thread $(EMU_CHECKS)
# Contracts multiply-adds to one rounding, as nvcc does, if the processor has such an instruction.  This build
# does not use EMU_CHECKS, because with them the compiler would contract all instances of a kernel in the same
# way, and nvcc need not do that.
CONTRACTED := $(if $(shell grep -m 1 -w fma /proc/cpuinfo),-mfma -ffp-contract=fast)
PLUGIN     = $(if $(filter yes,$(CUDA)),$(if $(SANITIZE)$(FUZZER),,$(BUILD)/rf-cuda.so))
RACE_TOO    = $(if $(SANITIZE)$(FUZZER),,$(1))
HOST_PLUGIN = $(if $(filter yes,$(CUDA)),$(BUILD)/rf-cuda-host.so \
              $(call RACE_TOO,$(foreach k,race reckon $(if $(CONTRACTED),contracted),$(BUILD)/rf-cuda-$k.so)))
EMU_BUGS    = $(if $(filter yes,$(CUDA)),$(BUILD)/t/emu/bugs $(call RACE_TOO,$(BUILD)/t/emu/bugs-race))
CUBLAS_WAYS = $(if $(filter yes,$(CUDA)),$(BUILD)/t/emu/cublas $(call RACE_TOO,$(BUILD)/t/helper/cublas))
EMU_NCCL    = $(if $(filter yes,$(CUDA)),$(if $(wildcard $(CUDA_HOME)/include/nccl.h /usr/include/nccl.h), \
              $(BUILD)/t/emu/libnccl.so))

# Ranks communicate through MPI, in a shared object that a trainer loads only for --ranks mpi; MPI=no leaves
# it out.
MPICC ?= $(shell command -v mpicc)
MPI   ?= $(if $(CROSS),no,$(if $(MPICC),yes,no))
MPI_PLUGIN = $(if $(filter yes,$(MPI)),$(BUILD)/rf-mpi.so)

TOOLS   = $(patsubst tools/%.c,$(BIN)/%,$(wildcard tools/rf-*.c))
PROGRAMS = $(patsubst tools/%.c,"%"$(comma),$(wildcard tools/rf-*.c))
FAULT   = $(BUILD)/t/helper/fault.so
UNITS   = $(patsubst t/%.c,$(BUILD)/t/%,$(filter-out t/helper/fault.c,$(wildcard t/unit/*.c t/helper/*.c)))
REPLAYS = $(patsubst t/%.c,$(BUILD)/t/%,$(filter-out t/fuzz/main.c,$(wildcard t/fuzz/*.c)))
ONCE    = $(addprefix kernels/,gemm.c cpu/gemm_dnnl.c cpu/pool.c cpu/device_cpu.c) t/check/device_check.c
KERNELS = $(filter-out $(ONCE),$(wildcard kernels/*.c kernels/cpu/*.c))
CC_FILES = $(wildcard lib/*/*.cc) # interfaces in C to libraries in C++
LIB     = $(filter-out lib/cli/version.c,$(wildcard lib/*/*.c))
OBJ     = $(patsubst %.c,$(BUILD)/%.o,$(LIB) $(ONCE)) $(CC_FILES:%.cc=$(BUILD)/%.o) \
          $(foreach i,$(ISAS),$(KERNELS:kernels/%.c=$(BUILD)/kernels/%.$(i).o))

all: $(TOOLS) $(PLUGIN) $(MPI_PLUGIN)

# The object that names the commit is not in the library, so that a commit rebuilds nothing else.
$(BIN)/%: $(BUILD)/tools/%.o $(BUILD)/lib/cli/version.o $(BUILD)/librf.a
	@mkdir -p $(@D)
	$(CC) -pie $(SAN) $(LDFLAGS) -Wl,--as-needed -Wl,-z,relro,-z,now -o $@ $^ $(LDLIBS)
$(BUILD)/t/%: $(BUILD)/t/%.o $(BUILD)/librf.a
	$(CC) -pie $(SAN) $(LDFLAGS) -Wl,--as-needed -o $@ $^ $(LDLIBS)
# Programs that libFuzzer drives; without libFuzzer, programs that replay files.
$(BUILD)/t/fuzz/%: $(BUILD)/t/fuzz/%.o $(if $(FUZZER),,$(BUILD)/t/fuzz/main.o) $(BUILD)/librf.a
	$(if $(FUZZER),$(CXX) -fsanitize=fuzzer,$(CC)) -pie $(SAN) $(LDFLAGS) -Wl,--as-needed \
		-o $@ $^ $(LDLIBS)
# Scripts that start a program in the emulator, so that tests need no binfmt.
$(BUILD)/run/%: $(BUILD)/flags
	@mkdir -p $(@D)
	printf '#!/bin/sh\nexec %s %s "$$@"\n' '$(EMULATE)' \
		$(abspath $(if $(filter rf-%,$*),$(BIN),$(BUILD)/t)/$*) >$@
	chmod +x $@
# A library that is preloaded into a program and makes its calls fail.
$(FAULT): t/helper/fault.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(STD) $(WARN) $(CFLAGS) -fPIC -shared -o $@ $<
# Tests name their headers relative to t: "unit/tap.h".
$(BUILD)/t/%.o: STD += -It
$(BUILD)/librf.a: $(OBJ)
	rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/lib/cli/version.o: CPPFLAGS += -DRF_COMMIT='"$(COMMIT)"'
$(BUILD)/lib/cli/version.o: $(BUILD)/commit
# rf-doctor starts only these programs of its folder.
$(BUILD)/lib/doctor/doctor_programs.o: CPPFLAGS += -DRF_PROGRAMS='$(PROGRAMS)'
$(BUILD)/lib/doctor/doctor_programs.o: $(wildcard tools/rf-*.c)
$(BUILD)/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXX_ALL) -c -o $@ $<
define isa_rule
$(BUILD)/kernels/%.$(1).o: kernels/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(ALL_CFLAGS) $$(KERNEL_CFLAGS) $$(ISA_$(1)) -DRF_ISA=$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

# Prints once which architectures are compiled, which takes minutes, and how to compile fewer.
cuda_note = $(if $(cuda_said),,$(eval cuda_said := yes)$(info compiling the CUDA kernels for \
            $(CUDA_ARCHS:%=sm_%) (CUDA_ARCHS=90: for one architecture; CUDA=no: none)))
$(BUILD)/cuda/%.o: kernels/%.cu $(BUILD)/cuda.flags
	$(cuda_note)@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -MMD -MF $(@:.o=.d) -c -o $@ $< 2>$(@:.o=.ptxas) || \
		{ cat $(@:.o=.ptxas) >&2; exit 1; }
# The part of the library that the plugin itself needs.
PLUGIN_LIB = $(BUILD)/pic/device/dev.o $(BUILD)/pic/base/err.o
$(BUILD)/pic/%.o: lib/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(STD) $(WARN) $(CFLAGS) -fPIC -fvisibility=hidden $(SAN) -MMD -MP -c -o $@ $<
$(BUILD)/rf-cuda.so: $(CU:kernels/%.cu=$(BUILD)/cuda/%.o) $(PLUGIN_LIB)
	@mkdir -p $(@D)
	$(NVCC) -shared -cudart static -Xcompiler -fPIC -Xlinker -z,relro,-z,now -o $@ $^ -lcublas

$(BUILD)/rf-mpi.so: lib/ranks/plugin/mpi.c lib/ranks/ranks.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(MPICC) $(CPPFLAGS) $(STD) $(WARN) $(CFLAGS) -fPIC -fvisibility=hidden -shared \
		$(LDFLAGS) -Wl,-z,relro,-z,now -o $@ $<

EMU = $(addprefix $(BUILD)/emu/,emu.o warp.o cudart.o cublas.o)
define emu_rules
$(BUILD)/emu/%.o: $(1)/%.cu $(BUILD)/cuda.flags
	@mkdir -p $$(@D)
	$$(CXX) $$(EMU_FLAGS) $$(or $$(strip $$(SAN)),$$(EMU_CHECKS)) -MMD -MP -x c++ -c -o $$@ $$<
$(BUILD)/emu-race/%.o: $(1)/%.cu $(BUILD)/cuda.flags
	@mkdir -p $$(@D)
	$$(CXX) $$(EMU_FLAGS) $$(EMU_RACE) -MMD -MP -x c++ -c -o $$@ $$<
$(BUILD)/emu-contracted/%.o: $(1)/%.cu $(BUILD)/cuda.flags
	@mkdir -p $$(@D)
	$$(CXX) $$(EMU_FLAGS) $$(CONTRACTED) -MMD -MP -x c++ -c -o $$@ $$<
endef
$(foreach d,kernels t/emu,$(eval $(call emu_rules,$(d))))
$(BUILD)/emu/%.o: t/emu/%.cpp $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(CXX) $(EMU_FLAGS) $(SAN) -MMD -MP -c -o $@ $<
$(BUILD)/rf-cuda-host.so: $(CU:kernels/%.cu=$(BUILD)/emu/%.o) $(EMU) $(PLUGIN_LIB)
	$(CXX) -shared $(SAN) -o $@ $^ -lpthread
$(BUILD)/rf-cuda-contracted.so: $(CU:kernels/%.cu=$(BUILD)/emu-contracted/%.o) $(EMU) $(PLUGIN_LIB)
	$(CXX) -shared -o $@ $^ -lpthread
TOLD = $(CU:kernels/%.cu=$(BUILD)/emu-race/%.o) $(EMU) $(BUILD)/emu/tsan.o $(PLUGIN_LIB)
$(BUILD)/rf-cuda-race.so: $(TOLD) $(BUILD)/emu/race.o
	$(CXX) -shared -o $@ $^ -lpthread -ldl
$(BUILD)/rf-cuda-reckon.so: $(TOLD) $(BUILD)/emu/reckon.o
	$(CXX) -shared -o $@ $^ -lpthread -ldl
$(BUILD)/t/emu/bugs: $(BUILD)/emu/bugs.o $(EMU)
	@mkdir -p $(@D)
	$(CXX) $(SAN) -o $@ $^
$(BUILD)/t/emu/bugs-race: $(BUILD)/emu-race/bugs.o $(EMU) $(BUILD)/emu/tsan.o $(BUILD)/emu/race.o
	@mkdir -p $(@D)
	$(CXX) -o $@ $^ -ldl
# The same program without a plugin, for a GPU and for the emulated GPU.
$(BUILD)/t/helper/cublas: t/helper/cublas.cpp $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -cudart static -o $@ $< -lcublas -lcublasLt
$(BUILD)/t/emu/cublas: t/helper/cublas.cpp $(EMU) $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(CXX) $(EMU_FLAGS) $(SAN) -o $@ $< $(EMU) -lpthread
$(BUILD)/t/emu/libnccl.so: t/emu/nccl/nccl.cpp t/emu/emu_rt.h $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(CXX) $(EMU_FLAGS) $(SAN) -shared -o $@ $< -lpthread

# Everything is built again when the flags change.
FLAGS := $(CC) $(ALL_CFLAGS) | $(CXX) $(CXX_ALL) | $(KERNEL_CFLAGS) | $(LDLIBS) | $(ISAS)
ifneq ($(FLAGS),$(file <$(BUILD)/flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS))
endif
# The commit of the sources, with -changed if the sources differ from it.  The tarball of a release names its
# commit in a file.
SOURCE_OF = git -c safe.directory='*'
COMMIT := $(shell [ ! -e .git ] || $(SOURCE_OF) rev-parse --short=7 HEAD 2>/dev/null)
COMMIT := $(if $(COMMIT),$(COMMIT)$(shell \
          $(SOURCE_OF) diff --quiet HEAD -- Makefile lib kernels tools pipelines || echo -changed),$(or \
          $(if $(wildcard .git),,$(file <COMMIT)),unknown))
ifneq ($(COMMIT),$(file <$(BUILD)/commit))
$(file >$(BUILD)/commit,$(COMMIT))
endif
CUDA_FLAGS := $(NVCC) $(NVCC_FLAGS) | $(CXX) $(EMU_FLAGS) $(SAN) $(EMU_RACE) $(CONTRACTED)
ifneq ($(CUDA_FLAGS),$(file <$(BUILD)/cuda.flags))
$(file >$(BUILD)/cuda.flags,$(CUDA_FLAGS))
endif

deps:
	@:
deps-arm64 deps-slurm deps-deb:
	@:

ARCH ?= delta_net
midtrain: $(TOOLS) $(if $(GPUS),$(PLUGIN))
	@$(MAKE) --no-print-directory -f pipelines/demo/demo.mk ARCH=$(ARCH)
posttrain testtime: $(TOOLS) $(if $(GPUS),$(PLUGIN))
	@$(MAKE) --no-print-directory -f pipelines/demo/demo-phases.mk $@

QUICK ?=
study: $(TOOLS)
	@$(MAKE) --no-print-directory -f pipelines/study/study.mk $(if $(QUICK),QUICK=$(QUICK))

units: $(UNITS) $(REPLAYS) $(FAULT) $(HOST_PLUGIN) $(EMU_BUGS) $(CUBLAS_WAYS) $(EMU_NCCL) \
       $(if $(CROSS),$(patsubst $(BIN)/%,$(EMULATED_BIN)/%,$(TOOLS)) \
                     $(patsubst $(BUILD)/t/%,$(EMULATED_BIN)/%,$(UNITS) $(REPLAYS)))

TESTS ?= t
# The longest files start first, so that no long file runs alone at the end when files run in parallel.
LONGEST = $(patsubst %,t/%.bats,gpu/gpu-first gpu/emu-programs gpu/emu-kernels pipelines/pipelines \
          tools/plan pipelines/phases exact/tree)
TEST_ROOMS = tools pipelines exact files gpu docs lint
FILES   = $(if $(filter-out t,$(TESTS)),$(TESTS),$(LONGEST) $(filter-out $(LONGEST), \
          $(wildcard $(TEST_ROOMS:%=t/%/*.bats))))
# If GNU parallel is installed, files run in parallel, one on each core.  With DEVICE=cuda they run one after
# the other, because there is only one GPU.
JOBS   = $(shell nproc)
ALONE  = $(filter-out t $(if $(CROSS),$(EMULATED)),$(TESTS))$(filter cuda,$(DEVICE))$(filter 1,$(JOBS))
ABREAST = $(if $(ALONE),,$(if $(findstring GNU,$(shell parallel --version 2>&1)), \
          --jobs $(JOBS) --no-parallelize-within-files))
# Without ISA, RF_ISA of the environment applies.
AT_ISA = $(if $(ISA),RF_ISA=$(ISA))
# The tests get the default actions of signals, also under nohup, because some tests send signals.  Programs
# that start a shell get /bin/sh, not the user's shell.
check: $(TOOLS) units $(MPI_PLUGIN) $(if $(GPUS),$(PLUGIN))
	@$(if $(filter yes,$(CUDA)),,echo "CUDA was left out: no toolkit" >&2)
	RF_BIN=$(abspath $(or $(EMULATED_BIN),$(BIN))) RF_UNITS=$(abspath $(or $(EMULATED_BIN),$(BUILD)/t)) \
	RF_DEVICE=$(or $(DEVICE),cpu) RF_DTYPE=$(if $(filter cuda,$(DEVICE)),f32) $(AT_ISA) \
		env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL --default-signal SHELL=/bin/sh \
		bats $(ABREAST) $(BATSFLAGS) $(FILES)

# Prints the files of tests in the order in which they run.
tests:
	@printf '%s\n' $(FILES)

check-all: export RF_ALL = 1
check-all: check

# Tests that an emulator can run in minutes, and that do not trace, preload or kill programs.
EMULATED = $(addprefix t/,exact/golden.bats exact/losses.bats cross/figures.bats cross/units.bats \
           cross/same.bats)
check-arm64: export RF_HOST = $(abspath bin)
check-arm64: $(TOOLS)
	@$(MAKE) --no-print-directory CROSS=arm64 TESTS='$(EMULATED)' check

check-slurm: $(TOOLS)
	@$(MAKE) --no-print-directory TESTS=t/slurm/slurm.bats check

# The model of the demonstration, if it exists.
of_arch = $(if $(filter-out delta_net,$(ARCH)),-$(ARCH))
DEMO ?= $(if $(wildcard runs/midtrain$(of_arch)/start/latest),$(patsubst %/valid.rf,%, \
        $(wildcard runs/midtrain$(of_arch)/valid.rf)))
ifeq ($(DEVICE),cuda)
bench: all $(BUILD)/t/helper/bench
	RF_BIN=$(abspath $(BIN)) RF_BENCH=$(abspath $(BUILD)/t/helper/bench) \
		pipelines/bench/bench-cuda.sh $(BUILD)/bench-cuda
else
bench: $(TOOLS) units
	$(AT_ISA) RF_BIN=$(abspath $(BIN)) RF_BENCH=$(abspath $(BUILD)/t/helper/bench) \
		DEMO=$(DEMO) ARCH=$(ARCH) \
		pipelines/bench/bench.sh $(BUILD)/bench$(of_arch)
endif

# The kernels of delta_back*.cu need more sums than there are registers.  A thread spills at most 24 numbers,
# which the nearest cache holds.  No other kernel spills more than 32 bytes.
SPILLS ?= 600
ifeq ($(CUDA),yes)
cuda-report: $(BUILD)/rf-cuda.so $(BUILD)/rf-cuda-host.so $(BUILD)/t/helper/launches
	@for kib in 227 99; do \
		EMU_LAUNCHES=$(BUILD)/launches-$$kib EMU_SHARED=$$kib EMU_SMS=132 \
			RF_PLUGIN=$(BUILD)/rf-cuda-host.so $(BUILD)/t/helper/launches || exit; \
	done
	@SPILLS=$(SPILLS) kernels/cuda/report.sh $(BUILD)/cuda $(BUILD)/rf-cuda-host.so \
		$(BUILD)/launches-227 $(BUILD)/launches-99
cuda-reckon: $(BUILD)/rf-cuda.so $(BUILD)/rf-cuda-reckon.so $(BUILD)/t/helper/bench
	@t/emu/reckon.sh $(BUILD) $(or $(CONFIGS),$(wildcard pipelines/configs/*.json))
gpu-bundle: all units
	@pipelines/bench/gpu-bundle.sh $(BUILD)/gpu-bundle.tar.gz
else
cuda-report cuda-reckon gpu-bundle:
	@echo "CUDA was left out: no toolkit"
endif

# New inputs are written to build/fuzz/NAME, and crashes next to this folder; the corpus of the repository is
# only read.
FUZZ_TIME ?= 60
fuzz:
	@$(MAKE) --no-print-directory CC=clang CXX=clang++ FUZZER=1 units-fuzz
	@for f in $(notdir $(REPLAYS)); do \
		mkdir -p build/fuzz/$$f; \
		build/fuzz/t/fuzz/$$f -max_total_time=$(FUZZ_TIME) -print_final_stats=1 \
			-artifact_prefix=build/fuzz/$$f- build/fuzz/$$f t/fuzz/corpus/$$f; \
	done
units-fuzz: $(REPLAYS)

FORMAT   := $(firstword $(shell command -v clang-format-14))
CLANG    := $(firstword $(foreach c,clang-14 clang,$(shell command -v $(c))))
# lib/ and kernels/ neither print nor exit; only main() does, through lib/cli.  Processes that child.c and
# aside.c fork may exit.
SOURCES   = $(wildcard lib/*/*.c kernels/*.c kernels/cpu/*.c tools/*.c t/check/*.c t/unit/*.c t/helper/*.c \
            t/fuzz/*.c)
QUIET     = $(filter-out lib/cli/% lib/proc/child.c lib/proc/aside.c, \
            $(wildcard lib/*/*.c kernels/*.[ch] kernels/c*/*.[ch] kernels/cuda/gpu/*.h t/check/*.c)) $(CU)
ROOMS     = $(wildcard lib/*/*.[ch] lib/*/*.cc kernels/*.[ch] kernels/*.cu kernels/c*/*.* \
            kernels/cuda/gpu/*.h tools/*.c)
TOP_ISA  := $(lastword $(ISAS))
EMULATOR  = $(wildcard t/emu/*.cu t/emu/*.cpp t/helper/*.cpp $(if $(EMU_NCCL),t/emu/nccl/*.cpp))
SYNTAX    = $(STD) -It $(WARN) -Werror -fsyntax-only -DRF_ISA=$(TOP_ISA) $(ISA_$(TOP_ISA)) \
            -DRF_PROGRAMS='$(PROGRAMS)' $(SOURCES)
# -e switches off warnings that do not apply to tests: words that are split on purpose, variables that bats
# sets, names that are words of the shell, and commands whose failure stops a test without a check.
SHELL_TESTS = -S warning -e SC1010,SC2010,SC2034,SC2046,SC2120,SC2154,SC2164,SC2238
# Files that people wrote.  pipelines/bench/results is not among them: it has the output of programs.
WRITTEN   = $(SOURCES) $(CC_FILES) $(CU) $(EMULATOR) Makefile .ci/run \
            $(wildcard lib/*/*.h kernels/*.h kernels/c*/*.h kernels/cuda/gpu/*.h kernels/cuda/*.sh \
            t/lint/*.awk t/unit/*.h t/fuzz/*.h t/emu/*.h t/emu/gpu/*.h \
            t/*/*.bats t/slurm/*.sh t/*.bash t/helper/*.py \
            t/helper/*.awk completion/* \
            $(foreach d,* */*,$(addprefix pipelines/$d.,sh sbatch mk awk gp jq py)) \
            python/*/*.py python/*.md man/* *.md t/README t/golden/*.md \
            packaging/*.* packaging/conda/* debian/rules debian/tests/* t/packages/*.py)
# PROSE: the files whose prose is checked.  BEGUN: the files that must begin with a comment.
PROSE     = $(sort Makefile $(wildcard .ci/run *.md NEWS t/README) \
            $(call written,c h cc cu cpp sh bash bats mk awk jq gp py sbatch 1 5 7 md))
FORMATTED = $(call written,c h cc cu cpp)
BEGUN     = $(sort $(call written,c h cc cu cpp sh awk))
written   = $(shell find $(wildcard lib kernels tools man pipelines packaging python completion t) -type f \
            $(foreach x,$(1),-name '*.$(x)' -o) -false)
# The last commit before the rule for subjects of commits.
SUBJECTS_SINCE = 53b0d0f
MANY      = '$$2 != "total" && $$1 > most { print "lint: " $$2 " has " $$1 " lines, more than " most; n++ } \
            END { exit n > 0 }'
lint:
	@$(CC) $(SYNTAX)
	@$(if $(CLANG),$(CLANG) $(SYNTAX),echo "lint: no clang")
	@$(CXX) $(filter-out -MMD -MP,$(CXX_ALL)) -Werror -fsyntax-only $(CC_FILES)
	@$(if $(filter yes,$(CUDA)),$(CXX) $(EMU_FLAGS) -Werror -fsyntax-only -x c++ $(CU) $(EMULATOR), \
		echo "lint: no CUDA toolkit")
	@$(if $(FORMAT),$(FORMAT) --dry-run -Werror $(FORMATTED),echo "lint: no clang-format-14")
	@mandoc -T lint -W warning man/*
	@shellcheck -x pipelines/*/*.sh pipelines/*.sbatch t/slurm/*.sh kernels/cuda/*.sh completion/*.bash \
		packaging/*.sh packaging/*/*.sh $(filter-out %/control,$(wildcard debian/tests/*)) .ci/run
	@shellcheck $(SHELL_TESTS) t/*/*.bats t/*.bash
	@awk -f t/lint/rooms.awk $(ROOMS)
	@awk -f t/lint/lengths.awk $(ROOMS)
	@awk -f t/lint/tests.awk t/*/*.bats
	@! grep -nE '(^|[^a-z_])(v?f?printf|f?puts|f?putc|putchar|perror|_?[eE]xit|abort) *\(' $(QUIET) || \
		{ echo "lint: lib/ neither prints nor exits"; exit 1; }
	@wc -l $(filter-out tools/rf-step.c,$(wildcard tools/*.c)) | awk -v most=150 $(MANY)
	@wc -l tools/rf-step.c | awk -v most=210 $(MANY)
	@wc -l $(WRITTEN) | awk -v most=1000 $(MANY)
	@LC_ALL=C awk -f t/lint/width.awk $(filter-out %.md,$(WRITTEN))
	@awk -f t/lint/words.awk $(WRITTEN)
	@awk -v allowed=t/lint/prose.allowed -f t/lint/prose.awk $(PROSE)
	@awk -f t/lint/unique.awk $(BEGUN)
	@{ $(SOURCE_OF) log --no-merges --format='%h %s' $(SUBJECTS_SINCE).. 2>/dev/null || :; } | \
		LC_ALL=C awk -f t/lint/subject.awk

# Lowers the allowances of t/lint/prose.allowed to the present counts, and raises none.
prose-allowed:
	@awk -v counts=1 -v allowed=t/lint/prose.allowed -f t/lint/prose.awk $(PROSE) >t/lint/prose.new
	@mv t/lint/prose.new t/lint/prose.allowed

# The shell finds a completion by the name of its command, so each program has a symbolic link.
share = $(DESTDIR)$(PREFIX)/share
plugins = $(DESTDIR)$(PREFIX)/lib/rf-tools
# The files for users of the pipelines, installed with the layout of the sources.
SHARED_IN = lib configs examples demo
SHARED   = $(patsubst pipelines/%,%,$(filter-out %.png pipelines/lib/deps.sh, \
           $(wildcard pipelines/*.* $(SHARED_IN:%=pipelines/%/*.*))))
absolute = $(if $(filter /%,$(PREFIX)),,$(error \
           PREFIX='$(PREFIX)' must begin with /; DESTDIR names a folder to stage it in))
install: all
	$(absolute)
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(share)/bash-completion/completions'
	$(foreach p,$(PLUGIN) $(MPI_PLUGIN), \
		[ ! -e $p ] || { install -d '$(plugins)' && install $p '$(plugins)'; };)
	install $(TOOLS) '$(DESTDIR)$(PREFIX)/bin'
	for f in $(SHARED); do \
		mode=644; \
		case $$f in *.sh | *.sbatch) mode=755 ;; esac; \
		install -D -m $$mode pipelines/$$f '$(share)/rf-tools'/$$f; \
	done
	for s in 1 5 7; do \
		install -d '$(share)'/man/man$$s; \
		install -m 644 man/*.$$s '$(share)'/man/man$$s; \
	done
	install -m 644 completion/rf-tools.bash '$(share)/bash-completion/completions/rf-tools'
	for t in $(notdir $(TOOLS)); do ln -sf rf-tools '$(share)/bash-completion/completions'/$$t; done

uninstall:
	$(absolute)
	for t in $(notdir $(TOOLS)); do \
		rm -f '$(DESTDIR)$(PREFIX)/bin'/$$t '$(share)/bash-completion/completions'/$$t; \
	done
	rm -f '$(share)/bash-completion/completions/rf-tools'
	for m in $(notdir $(wildcard man/*)); do rm -f '$(share)/man/man'$${m##*.}/$$m; done
	for f in $(SHARED); do rm -f '$(share)/rf-tools'/$$f; done
	rm -f '$(plugins)/rf-cuda.so' '$(plugins)/rf-mpi.so'
	for d in '$(plugins)' $(SHARED_IN:%='$(share)/rf-tools/%') '$(share)/rf-tools'; do \
		[ ! -d "$$d" ] || rmdir "$$d"; \
	done

# The tarball of the release, and the packages that are made from it.
DIST = $(BUILD)/dist/rf-tools-$(VERSION).tar.gz
dist:
	@packaging/dist.sh $(VERSION) $(DIST)
deb: dist
	@packaging/deb.sh $(DIST) $(BUILD)/deb
check-packages: $(TOOLS) deb
	@$(MAKE) --no-print-directory TESTS=t/packages/packages.bats check

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

clean:
	rm -rf build bin

-include $(OBJ:.o=.d) $(BUILD)/lib/cli/version.d \
         $(TOOLS:$(BIN)/%=$(BUILD)/tools/%.d) $(UNITS:=.d) $(REPLAYS:=.d) \
         $(wildcard $(foreach d,cuda emu emu-race emu-contracted,$(BUILD)/$d/*.d $(BUILD)/$d/cuda/*.d))
.PHONY: deps deps-arm64 deps-slurm deps-deb midtrain posttrain testtime study \
        all units units-fuzz check check-all check-arm64 check-slurm cuda-report cuda-reckon gpu-bundle \
        bench tests fuzz lint prose-allowed install uninstall dist deb check-packages help clean
