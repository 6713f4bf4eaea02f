# words.mk -- the part that all pipelines include: the folder of the programs; check_words, which refuses an
# unknown word on make's command line, because a misspelt variable would change nothing; and `help`, which
# prints the head of the file that was asked for, and that of loop.mk if the file includes it.
#
# Names.  No value of a word is text that make or a shell runs, except the words that hold commands or their
# options: `commands` below, and those of COMMANDS, which a file may assign before it includes this one.  A
# name of a file or folder may have any character except control characters; names.sh lists what is refused.
# make itself takes two dollar signs for one.  RUN must not have a blank.  In demo.mk, demo-phases.mk and
# study.mk, whose targets are named after it, it must have none of the characters in `odd`.  CORPUS and DATA
# may name several files (files.sh), and so may QA of evaluate.mk and RUNS of curves.mk.
#
# make midtrain hands on words of the Makefile, too.  A file that hands on its own words, after it checked
# them, empties MAKEFLAGS, which would repeat the given words.

define newline


endef
# quote TEXT: the text as a word of the shell.  values WORD...: NAME=VALUE of each of these words.
quote  = '$(subst ','\'',$(1))'
values = $(foreach v,$(1),$(call quote,$(v)=$($(v))))
# The same for another make, which would expand a variable after a dollar sign.
hand_on = $(foreach v,$(1),$(call given_as,$(v),$($(v))))
given_as = $(call quote,$(1)=$(subst $$,$$$$,$(2)))

# as_word TEXT, arg WORD: the text, or the value of the word, inside a command.  It is in quotes only if the
# shell needs them, because the commands are words of the run.
special = ' " \ ` $$ & ; ( ) < > | * ? [ {
arg     = $(call as_word,$($(1)))
as_word = $(if $(call needs_quotes,$(1)),$(call quote,$(1)),$(1))
needs_quotes = $(strip $(call has,$(special),$(1)) $(word 2,x$(1)x) $(filter ~% \#%,$(1)) \
               $(findstring =~,$(1)) $(findstring :~,$(1)) $(if $(1),,empty))
has     = $(strip $(foreach c,$(1),$(findstring $(c),$(2))))

# The commands of recipes begin with the path of the pipelines.
$(if $(call has,$(special) = : \#,$(LIB)),$(error '$(dir $(LIB:/=))': \
the pipelines do not work in a folder whose path has $(call has,$(special) = : \#,$(LIB))))
$(foreach f,$(MAKEFILE_LIST),$(if $(wildcard $(f)),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path)))

# typed_NAME: the value as it was typed, which a pipeline may replace.
given   := $(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $(v))),$(v)))
$(foreach v,$(given),$(eval typed_$(v) := $$(value $(v))))
building := MAKEFLAGS SHELL CC CFLAGS CPPFLAGS LDFLAGS CUDA CUDA_ARCHS NVCC
commands := TOKENIZE ENTROPY SELECT ROLLOUT REWARD TRAIN EVALUATE EVAL_REWARD EVAL_SELECT EVAL_ROLLOUT \
            GENERATE NEEDLE ANSWER AFTER LAUNCH OPTIM COMPUTE SHARES REST REWARD_OPTIONS SELECT_OPTIONS \
            $(if $(filter file,$(origin COMMANDS)),$(COMMANDS))
plain   := $(filter-out $(commands) $(building),$(given))
$(foreach v,$(plain),$(if $(findstring $(newline),$(typed_$(v))),$(error \
$(v): a word of a pipeline must not have a control character, and this one has a newline)))
wrong   := $(if $(plain),$(shell $(LIB)names.sh $(foreach v,$(plain),$(call quote,$(v)=$(typed_$(v))))))
checked := $(if $(plain),$(.SHELLSTATUS),0)
$(if $(wrong),$(error $(wrong)))
$(if $(filter 0,$(checked)),,$(error \
the words cannot be checked, because they are too long for a command or $(LIB)names.sh cannot run))

# The folder of the programs, in the tree or where they are installed.
RF_BIN ?= $(abspath $(dir $(firstword $(wildcard $(LIB)../../bin/rf-loop $(LIB)../../../bin/rf-loop) \
          $(LIB)../../bin/rf-loop)))
# make does not expand values from the environment.
export PATH := $(if $(filter environment,$(origin RF_BIN)),$(value RF_BIN),$(RF_BIN)):$(value PATH)

batches_given = $(filter command,$(origin BATCHES))

unknown  = $(filter-out $(KNOWN) RF_BIN $(building),$(given))
nearest  = $(shell $(LIB)nearest.sh $(call quote,$(1)) $(KNOWN))
meant    = $(strip $(foreach v,$(unknown),$(call nearest,$(v))))
check_words = $(if $(unknown),$(error unknown variable $(unknown)$(if $(meant),: did you mean \
	$(meant)? (help explains all),; the variables are $(KNOWN))))

# names_of_targets WORD...: stops if a file cannot name targets after these words.
odd              = : % = ! } ] \# $(special)
names_of_targets = $(foreach v,$(1),$(if $(call has,$(odd),$($(v))),$(error \
	$(v) must not contain $(call has,$(odd),$($(v))), because targets are named after it: '$($(v))')))

# No command may take the name for an option.
ifneq ($(filter -%,$(RUN)),)
override RUN := ./$(RUN)
endif

# one_of WORD,LIST: stops if the value of the word is not in the list
one_of = $(if $(and $(filter 1,$(words $($(1)))),$(filter $(2),$($(1)))),,$(error \
	$(1)='$($(1))' is not one of $(subst $() ,|,$(strip $(2)))))
# switch WORD: stops if the value of the word is not 1 or empty
switch = $(if $(subst x1,,x$(or $($(1)),1)),$(error $(1)='$($(1))': it must be 1 or empty))

# files_of WORD: the files that the word names, as words of a shell (files.sh)
files_of     = $(call files_or_why,$(shell $(LIB)files.sh $(call quote,$(1)=$($(1)))))
printed_or_why = $(if $(filter 0,$(.SHELLSTATUS)),$(1),$(error $(1)))
files_or_why = $(if $(filter 0,$(.SHELLSTATUS)),$(1),$(error $(or $(1),the list of files is too long for \
               a command: give a pattern in quotes, such as 'data/*.jsonl')))

# LEN=16k is LEN=16384.
long = $(shell numfmt --from=iec $(call quote,$(subst k,K,$(1))) 2>/dev/null)
$(foreach v,LEN MAX_PROMPT,$(if $(filter %k %K,$($(v))),$(foreach n,$(call long,$($(v))),$(eval \
override $(v) := $(n)))))

help:
	@first=$(call quote,$(firstword $(MAKEFILE_LIST))); for file in "$$first" $(foreach \
			f,$(filter %loop.mk,$(MAKEFILE_LIST)),$(call quote,$(f))); do \
		[ "$$file" = "$$first" ] || echo; \
		sed -n '/^#/!q; s/^# \{0,1\}//p' "$$file"; \
	done

# The default goal is the first one of the file that includes this.
.DEFAULT_GOAL :=
.PHONY: help
