# inner-steps.mk -- measures how the number of optimizer steps changes the comparison of ReFINE with SFT.  It
# prints a table of differences on held-out text, with intervals over four orders of the data.
#
# In the authors' released trainer SFT takes one optimizer step for each batch of mid-training, and ReFINE
# takes BATCH / MINI_BATCH.  Each arm trains the model that make midtrain begins from, which is made if it is
# missing, on the same batches of the same texts:
#
#     sft             next tokens only, in as many steps as ReFINE: INNER_STEPS=matched
#     sft-published   next tokens only, in one step for each batch: INNER_STEPS=published
#     refine          ReFINE, n 1
#     refine-n8       ReFINE, n 8
#     forced          the teacher-forced control: next tokens, and with ReFINE's coefficient the text's own
#                     five tokens at the positions that ReFINE chooses, without rollouts
#
# A seed is an order of the texts, and methods are compared within each seed.  The held-out texts are those
# of make midtrain.
#
#     make -f pipelines/study/inner-steps.mk                           the table, also in RUN/inner-steps.md
#     make -f pipelines/study/inner-steps.mk SEEDS='5 6' JOBS=2        other orders, two runs at a time
#
# The run may be stopped at any moment; the same command continues it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)../lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))

RUN        = runs/inner-steps
BASE       = runs/midtrain
MODEL      = $(BASE)/start
SEEDS      = 1 2 3 4
ARMS       = sft sft-published refine refine-n8 forced
JOBS       = 1
COMPUTE    = --threads 1

# The mini-batches, the learning rate and the length of the sequences are those of make midtrain.
LEN        = 2048
BATCHES    = 8
BATCH      = 16
MINI_BATCH = 4
LR         = 3e-4

sft           = METHOD=ntp
sft-published = METHOD=ntp INNER_STEPS=published
refine        = METHOD=refine
refine-n8     = METHOD=refine N=8
forced        = ROLLOUT= REWARD= TRAIN='rf-ntp $$(OPTIM) --position-coef 0.2'

WORDS := MODEL LEN BATCHES BATCH MINI_BATCH LR
KNOWN := RUN BASE SEEDS ARMS JOBS COMPUTE $(WORDS) CC CFLAGS CPPFLAGS LDFLAGS
include $(LIB)words.mk
$(check_words)
$(call names_of_targets,RUN BASE SEEDS ARMS JOBS)
export $(WORDS) RUN ARMS SEEDS

PHASE = MAKEFLAGS= $(MAKE) --no-print-directory -f $(HERE)
PARTS = $(foreach seed,$(SEEDS),$(foreach arm,$(ARMS),$(RUN)/$(arm)/$(seed).json))

table:
	@$(LIB)check.sh numbers 1 $(call values,JOBS LEN BATCHES BATCH MINI_BATCH) any $(call values,LR)
	@$(LIB)check.sh words '$(RUN)/words' $(WORDS) --
	@[ $(call quote,$(MODEL)) != '$(BASE)/start' ] || \
		$(PHASE)../demo/demo.mk RUN='$(BASE)' $(call hand_on,COMPUTE) '$(BASE)/start.step'
	@MAKEFLAGS= $(MAKE) --no-print-directory -j '$(JOBS)' -f $(HERE)inner-steps.mk parts \
		$(foreach v,$(given),$(call quote,$(v)=$(typed_$(v))))
	@$(HERE)inner-steps.sh '$(RUN)'

# A part is ARM/SEED: a run in the folder RUN/ARM/SEED, and the output of rf-ntp --eval in RUN/ARM/SEED.json.
parts: $(PARTS)
$(RUN)/%.json:
	@$(PHASE)../midtrain.mk RUN='$(RUN)/$*' DATA='$(BASE)/train.rf' SEED='$(@F:.json=)' PHASE='$*' \
		$(call hand_on,MODEL COMPUTE $(filter-out MODEL,$(WORDS))) $($(patsubst %/,%,$(dir $*)))
	@rf-ntp --eval -m '$(RUN)/$*' $(COMPUTE) '$(BASE)/valid.rf' >$@.tmp
	@mv $@.tmp $@

.DEFAULT_GOAL := table
.PHONY: table parts
