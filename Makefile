# make                build bin/*
# make deps           install the distribution's packages that it needs
# make midtrain       the method on real text, start to report: pipelines/demo.mk
# make check          all tests in under five minutes       DEVICE=check: on the device that distrusts
# make check-all      the exhaustive ones too               SANITIZE=1:   with ASan and UBSan
# make lint           warnings as errors, man pages, shell
# make fuzz FUZZ_TIME=60
# make bench          speed and memory, in one run
# make install PREFIX=/usr/local DESTDIR=

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:

# Packages come before all else, -j or not, for the compiler is asked below what it can do.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
ifeq ($(findstring n,$(firstword -$(MAKEFLAGS))),)
$(if $(shell pipelines/deps.sh && echo done),,$(error packages are missing, see above))
endif
endif

PREFIX  ?= /usr/local
CC      ?= cc
CFLAGS  ?= -O2 -g
SANITIZE ?=
DEVICE  ?=
BUILD   := build$(if $(SANITIZE),/sanitize)
BIN     := $(if $(SANITIZE),build/sanitize/bin,bin)

STD   = -std=c11 -D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200809L -Ilib -Ikernels
WARN  = -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla
HARD  = -fPIE -fstack-protector-strong $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
SAN_FLAGS = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SAN   = $(if $(SANITIZE),$(SAN_FLAGS))
ALL_CFLAGS = $(STD) $(WARN) $(CFLAGS) $(HARD) $(SAN) -MMD -MP
# Kernels: -O3, multiply-adds contracted, errno and floating-point traps unused; never -ffast-math, which would let the
# compiler reorder sums.
KERNEL_CFLAGS = -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd -Wno-psabi
LDLIBS = -lzstd -lmsgpackc -ljansson -lxxhash -ldnnl -lgomp -lpthread -lm

# The kernels are compiled once per level of the instruction set, and the device takes the highest that the processor has.
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ISAS := $(if $(filter x86_64,$(ARCH)),x86_64 x86_64_v3 x86_64_v4,base)
ISA_x86_64    = -march=x86-64
ISA_x86_64_v3 = -march=x86-64-v3
ISA_x86_64_v4 = -march=x86-64-v4 -mprefer-vector-width=512

TOOLS   = $(patsubst tools/%.c,$(BIN)/%,$(wildcard tools/rf-*.c))
UNITS   = $(patsubst t/%.c,$(BUILD)/t/%,$(wildcard t/u-*.c) $(wildcard t/bench.c))
KERNELS = $(filter-out kernels/gemm.c,$(wildcard kernels/*.c))
OBJ     = $(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/*.c) kernels/gemm.c) \
          $(foreach i,$(ISAS),$(KERNELS:kernels/%.c=$(BUILD)/kernels/%.$(i).o))

all: $(TOOLS)

$(BIN)/%: $(BUILD)/tools/%.o $(BUILD)/librf.a
	@mkdir -p $(@D)
	$(CC) -pie $(SAN) $(LDFLAGS) -Wl,--as-needed -Wl,-z,relro,-z,now -o $@ $^ $(LDLIBS)
$(BUILD)/t/%: $(BUILD)/t/%.o $(BUILD)/librf.a
	$(CC) -pie $(SAN) $(LDFLAGS) -Wl,--as-needed -o $@ $^ $(LDLIBS)
$(BUILD)/librf.a: $(OBJ)
	rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
define isa_rule
$(BUILD)/kernels/%.$(1).o: kernels/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(ALL_CFLAGS) $$(KERNEL_CFLAGS) $$(ISA_$(1)) -DRF_ISA=$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

# Everything is built anew when the flags change.
FLAGS := $(CC) $(ALL_CFLAGS) | $(KERNEL_CFLAGS) | $(LDLIBS) | $(ISAS)
ifneq ($(FLAGS),$(file <$(BUILD)/flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS))
endif

deps:
	@:

midtrain: all
	@$(MAKE) --no-print-directory -f pipelines/demo.mk

units: $(UNITS)

check: all units
	RF_BIN=$(abspath $(BIN)) RF_UNITS=$(abspath $(BUILD)/t) RF_DEVICE=$(DEVICE) bats $(BATSFLAGS) t

clean:
	rm -rf build bin

-include $(OBJ:.o=.d) $(TOOLS:$(BIN)/%=$(BUILD)/tools/%.d) $(UNITS:=.d)
.PHONY: deps midtrain all units check clean
