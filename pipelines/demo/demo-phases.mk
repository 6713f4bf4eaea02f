# demo-phases.mk -- make posttrain, make testtime: the other two phases on real text, from questions to a
# report for each, together in about ten minutes on two cores.
#
# A rule makes the questions from the texts of make midtrain (questions.awk): a passage, two words of it, and
# the word that follows them.  The model is the one that make midtrain begins from; it is trained first if it
# does not exist.
#
# posttrain begins at that model; all of its runs take the same questions in the same order:
#
#     sft             SFT: next tokens of the answers, in as many optimizer steps as ReFINE
#     sft-published   the same in as few steps as the authors' released trainer takes
#     ntp             nested SFT: next tokens of the prompts, then of the answers, in as many steps as ReFINE
#     ntp-published   the same in as few steps as published
#     refine          nested ReFINE: ReFINE on the prompts, then next tokens of the answers
#     random          nested ReFINE with random rewards: the control
#
# testtime begins at refine, and asks questions about other texts:
#
#     none            no training
#     t-ntp           next tokens of the prompts, in as many steps as ReFINE
#     t-ntp-published the same in as few steps as published
#     t-refine        ReFINE on the prompts
#     t-random        ReFINE with random rewards: the control
#     t-ntp-reset     next tokens, each batch from the same model
#     t-reset         ReFINE, each batch from the same model
#
# RUN/posttrain.md and RUN/testtime.md have the results.  It may be stopped at any moment; the same words go
# on.
#
#     make posttrain testtime
#     make -f pipelines/demo/demo-phases.mk testtime RUN=runs/mine SEED=2

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)../lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))

RUN       = runs/phases
BASE      = runs/midtrain
SEED      = 1
COMPUTE   =
MODEL     = $(BASE)/start
EACH      = 4
TESTS     = 96
MAX_NEW   = 16

# Batches and mini-batches have the proportions of the paper: four ReFINE steps and one on the responses, two
# at test time.  The learning rate is that of make midtrain.
BATCH     = 32
MINI      = 8
TEST_BATCH = 8
TEST_MINI = 4
LR        = 3e-4
EPOCHS    = 1

POSTS    := sft sft-published ntp ntp-published refine random
sft             = METHOD=sft
sft-published   = METHOD=sft INNER_STEPS=published
ntp             = METHOD=ntp
ntp-published   = METHOD=ntp INNER_STEPS=published
refine          = METHOD=refine
random          = METHOD=refine REWARD='rf-reward --kind random'
TTTS     := none t-ntp t-ntp-published t-refine t-random t-ntp-reset t-reset
none            = METHOD=none
t-ntp           = $(ntp)
t-ntp-published = $(ntp-published)
t-refine        = $(refine)
t-random        = $(random)
t-ntp-reset     = METHOD=ntp RESET=batch
t-reset         = METHOD=refine RESET=batch

WORDS := SEED EACH TESTS MAX_NEW BATCH MINI TEST_BATCH TEST_MINI LR EPOCHS
KNOWN := RUN BASE MODEL COMPUTE $(WORDS) CC CFLAGS CPPFLAGS LDFLAGS
include $(LIB)words.mk
$(check_words)
$(call names_of_targets,RUN BASE)
export $(WORDS) RUN BASE MODEL COMPUTE POSTS TTTS

TIMED = $(HERE)timed.sh '$(RUN)/phases'
PHASE = MAKEFLAGS= $(MAKE) --no-print-directory -f $(HERE)
OWN   = $(call hand_on,SEED COMPUTE LR) PHASE='$@'
ASK   = awk -v each=$(call arg,EACH) -f $(HERE)questions.awk
READ  = rf-tokenize --bytes --prompt-key prompt --answer-key answer --meta-key page --no-eos
ANSWER_SH = $(call as_word,$(abspath $(LIB)answer.sh))
SCORE = $(LIB)answer.sh --max-new $(call arg,MAX_NEW)

testtime: $(RUN)/testtime.md
posttrain: $(RUN)/posttrain.md
testtime posttrain:
	@sed -n '/^## Figure/q; /^|/p; /^$$/p; /^- .* against/p' "$<" && \
		echo "$@: the report is $<$$([ ! -e '$(<:.md=.html)' ] || \
			echo ', and for a browser $(<:.md=.html)')"

words:
	@$(LIB)check.sh numbers 0 $(call values,SEED) any $(call values,LR) \
		1 $(call values,EACH TESTS MAX_NEW BATCH MINI TEST_BATCH TEST_MINI EPOCHS)
	@command -v gnuplot >/dev/null || \
		{ echo 'gnuplot is not installed (install gnuplot-nox)' >&2; exit 69; }
	@$(LIB)check.sh words '$(RUN)/words' $(WORDS) --
	@[ $(call quote,$(MODEL)) != '$(BASE)/start' ] || \
		$(PHASE)demo.mk RUN='$(BASE)' $(call hand_on,COMPUTE) '$(BASE)/start.step'

$(RUN)/train.rf: | words
	@$(TIMED) train.rf $(call quote,$(ASK) -v test=0 $(BASE)/corpus/*.txt >$@.jsonl; \
		$(READ) -o $@ $@.jsonl)

$(RUN)/test.rf: | words
	@$(TIMED) test.rf $(call quote,$(ASK) -v test=1 $(BASE)/corpus/*.txt >$@.jsonl; \
		$(READ) $@.jsonl | rf-cat --shuffle --seed 1 | rf-cat --range 0:$(call arg,TESTS) -o $@)

$(POSTS:%=$(RUN)/post/%.done): $(RUN)/post/%.done: $(RUN)/train.rf
	@$(PHASE)../posttrain.mk RUN='$(RUN)/post/$*' $(call hand_on,MODEL BATCH EPOCHS) DATA='$<' \
		$(call given_as,MINI_BATCH,$(MINI)) $(OWN) $($*)
	@touch $@

$(RUN)/post/start.rf: $(RUN)/test.rf
	@$(TIMED) eval-start $(call quote,$(SCORE) -m $(call arg,MODEL) $(COMPUTE) -o $@ <$<)

$(POSTS:%=$(RUN)/post/%.rf): $(RUN)/post/%.rf: $(RUN)/post/%.done $(RUN)/test.rf
	@$(TIMED) eval-$* $(call quote,$(SCORE) -m $(RUN)/post/$* $(COMPUTE) -o $@ <$(RUN)/test.rf)

$(TTTS:%=$(RUN)/test/%.done): $(RUN)/test/%.done: $(RUN)/test.rf $(RUN)/post/refine.done
	@$(PHASE)../testtime.mk RUN='$(RUN)/test/$*' MODEL='$(RUN)/post/refine' DATA='$<' \
		$(call given_as,BATCH,$(TEST_BATCH)) $(call given_as,MINI_BATCH,$(TEST_MINI)) \
		$(call given_as,GENERATE,$(ANSWER_SH) --max-new $(call arg,MAX_NEW)) \
		$(OWN) $($*)
	@touch $@

$(RUN)/posttrain.md: $(RUN)/post/start.rf $(POSTS:%=$(RUN)/post/%.rf)
	@$(HERE)report-phases.sh posttrain '$(RUN)'

$(RUN)/testtime.md: $(TTTS:%=$(RUN)/test/%.done)
	@$(HERE)report-phases.sh testtime '$(RUN)'

.DEFAULT_GOAL := posttrain
.PHONY: posttrain testtime words
