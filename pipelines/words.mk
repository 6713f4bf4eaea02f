# words.mk -- read by loop.mk and demo.mk: where the programs are; check_words, which refuses a word on make's
# command line that KNOWN does not have, because a misspelt variable would change nothing; words that were
# renamed; and `help`, which prints the head of the file that was asked for, and of loop.mk where that is
# read.
#
# Words of building come along with those of make midtrain.  A file that hands on its own words, having looked
# at what it was given, empties MAKEFLAGS, which would bring them too.

# Where the programs are, in the tree and where they are installed.
RF_BIN ?= $(abspath $(dir $(firstword $(wildcard $(HERE)../bin/rf-loop $(HERE)../../bin/rf-loop) \
          $(HERE)../bin/rf-loop)))
export PATH := $(RF_BIN):$(PATH)

# STEPS counted batches.  The old word still works where the new one is not given.
ifeq ($(origin STEPS),command line)
$(if $(filter command,$(origin BATCHES)),$(error STEPS is the old name of BATCHES: give one of them))
override BATCHES := $(STEPS)
$(shell echo 'STEPS is now called BATCHES, for it counts batches; steps are optimizer steps' >&2)
endif
batches_given = $(filter command override,$(origin BATCHES))

given   := $(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $(v))),$(v)))
# typed_NAME is the value as it was typed, which a pipeline may replace by another.
$(foreach v,$(given),$(eval typed_$(v) := $$(value $(v))))
unknown  = $(filter-out $(KNOWN) STEPS RF_BIN MAKEFLAGS SHELL CC CFLAGS CUDA CUDA_ARCHS NVCC,$(given))
nearest  = $(shell $(HERE)nearest.sh $(call quote,$(1)) $(KNOWN))
meant    = $(strip $(foreach v,$(unknown),$(call nearest,$(v))))
check_words = $(if $(unknown),$(error unknown variable $(unknown)$(if $(meant),: did you mean \
	$(meant)? (help explains all),; the variables are $(KNOWN))))

renamed     = $(if $(filter command,$(origin ANSWERS_KEY)),$(error \
	ANSWERS_KEY is now called ANSWER_KEY: ANSWER_KEY='$(ANSWERS_KEY)'))

$(foreach v,RUN MODEL,$(if $(word 2,x$($(v))x),$(error \
$(v) contains a space, and make would split it there: '$($(v))')))

with_names = RUN RUNS OUT MODEL DATA CORPUS EVAL STREAM
$(foreach v,$(with_names),$(if $(findstring $$,$(subst $$$$,,$(typed_$(v)))),$(error \
$(v)='$(typed_$(v))': make takes a dollar sign for the beginning of a variable: write two for one)))

$(foreach v,RUN MODEL,$(if $(filter ~%,$($(v))),$(error \
$(v)='$($(v))': make does not expand ~: write $$HOME)))

# For a file whose targets are named after RUN.
odd             = $(strip $(foreach c,: % ' " \ ; & | < > * ? [ ] { } = !,$(findstring $(c),$(RUN))))
name_of_targets = $(if $(odd),$(error \
	RUN must not contain $(odd), because targets are named after it: '$(RUN)'))

# A name like an option is none in any command.
ifneq ($(filter -%,$(RUN)),)
override RUN := ./$(RUN)
endif

# A text, and NAME=VALUE of each of these words, as words of the shell.
quote  = '$(subst ','\'',$(1))'
values = $(foreach v,$(1),$(call quote,$(v)=$($(v))))

# LEN=16k is LEN=16384.
long = $(shell numfmt --from=iec $(call quote,$(subst k,K,$(1))) 2>/dev/null)
$(foreach v,LEN MAX_PROMPT,$(if $(filter %k %K,$($(v))),$(eval override $(v) := $(or $(call \
long,$($(v))),$($(v))))))

help:
	@for file in $(firstword $(MAKEFILE_LIST)) $(filter %loop.mk,$(MAKEFILE_LIST)); do \
		[ "$$file" = "$(firstword $(MAKEFILE_LIST))" ] || echo; \
		sed -n '/^#/!q; s/^# \{0,1\}//p' "$$file"; \
	done

# The goal where none is asked for is the first of the file that reads this.
.DEFAULT_GOAL :=
.PHONY: help
