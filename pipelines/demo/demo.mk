# demo.mk -- make midtrain: the method on real text, from the text to a report, in about ten minutes on two
# cores.
#
# It makes a small model over bytes, by default a DeltaNet, and trains it on next tokens, so that later
# training has something to improve.  From this checkpoint five runs take the same data in the same order, the
# same learning rate and, except one, the same number of optimizer steps:
#
#     sft             next tokens only: the baseline
#     sft-published   the same with one optimizer step for each batch, as in the authors' released trainer;
#                     all others take BATCH / MINI_BATCH
#     refine          ReFINE (arXiv:2602.16704): 8 positions, 1 rollout of 5 tokens, cosine reward,
#                     grouped by sequence
#     refine-n8       8 rollouts per position, grouped by position
#     random          ReFINE with random rewards: the control that every claim of an effect needs
#
# The checkpoint and the five runs are evaluated on held-out documents.  RUN/report.md has the results.
#
#     make midtrain                        text: the manuals of the package perl-doc
#     make midtrain RUN=runs/mine CORPUS='data/*.jsonl.zst'
#                                          your text: .txt, .jsonl, .jsonl.zst (TEXT_KEY=text)
#     make midtrain ARCH=gated_deltanet    another family, of the same size: also lact_swiglu, qwen3_5_text
#     make midtrain KEEP=1                 keeps the streams of the pipes, for rf-dump
#     make -f /usr/share/rf-tools/demo/demo.mk KEEP=1
#                                          the same where a package is installed
#     make midtrain WARM_STEPS=64 BATCHES=1 DOCUMENTS=4 LEN=256
#                                          a test in a minute: fewer steps, shorter texts
#
# It may be stopped at any moment; the same words go on.

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

ARCH        = delta_net
RUN         = runs/midtrain$(if $(filter-out delta_net,$(ARCH)),-$(ARCH))
CORPUS      =
TEXT_KEY    = text
SEED        = 1
CONFIG      = $(HERE)demo-$(ARCH).json
COMPUTE     =
KEEP        =

# One of every HOLD_OUT documents is held out.  At most DOCUMENTS of these are evaluated: the first LEN tokens
# of each, with POSITIONS positions and 4 rollouts at each.
LEN         = 2048
HOLD_OUT    = 3
DOCUMENTS   = 64
POSITIONS   = 32

# The checkpoint that the runs begin from: one sequence per optimizer step.
WARM_STEPS  = 640
WARM_LR     = 3e-3

# The runs.  Rollouts, coefficients, clipping and selection are the programs' defaults, which are those of the
# paper; so are four optimizer steps per batch.  The learning rate is larger, because 1e-6 changes nothing in
# 40 steps.  It was chosen by the training loss of sft, on training documents.
BATCHES       = 10
BATCH       = 16
MINI_BATCH  = 4
LR          = 3e-4
OPTIM       = --mini-batch $(call arg,MINI_BATCH) --lr $(call arg,LR)
comma      := ,

MODELS := start sft sft-published refine refine-n8 random
RUNS   := $(filter-out start,$(MODELS))
start     = ENTROPY= SELECT= ROLLOUT= REWARD= \
            TRAIN=$(call quote,rf-ntp --mini-batch 1 --lr $(call arg,WARM_LR) --betas 0.9$(comma)0.98 \
            --grad-clip 1 --warmup 50 --lr-schedule cosine --total-steps $(call arg,WARM_STEPS))
sft       = METHOD=ntp $(call hand_on,MINI_BATCH LR)
sft-published = $(sft) INNER_STEPS=published
refine    = ENTROPY='rf-entropy' SELECT='rf-select' ROLLOUT='rf-rollout' REWARD='rf-reward --kind cosine' \
            TRAIN=$(call quote,rf-grpo $(OPTIM))
refine-n8 = $(refine) ROLLOUT='rf-rollout -n 8'
random    = $(refine) REWARD='rf-reward --kind random'

WORDS := CORPUS TEXT_KEY SEED CONFIG LEN HOLD_OUT DOCUMENTS POSITIONS WARM_STEPS WARM_LR BATCH MINI_BATCH LR
# The last four are words of the Makefile, which hands them on.
KNOWN := RUN ARCH $(WORDS) BATCHES COMPUTE KEEP CC CFLAGS CPPFLAGS LDFLAGS
include $(LIB)words.mk
$(check_words)
$(call names_of_targets,RUN)
export $(WORDS) BATCHES COMPUTE KEEP

TIMED    = $(HERE)timed.sh '$(RUN)/phases'
MIDTRAIN = MAKEFLAGS= $(MAKE) --no-print-directory -f $(HERE)../midtrain.mk DATA='$(RUN)/train.rf' CORPUS= \
           $(call hand_on,SEED COMPUTE LEN)
FILES   := $(if $(CORPUS),$(call files_of,CORPUS))
TEXT     = $(or $(FILES),$(RUN)/corpus/*.txt)
TOKENIZE = rf-tokenize --bytes --text-key $(call arg,TEXT_KEY) --source --max-len $(call arg,LEN) \
           --min-len 256 --valid-every $(call arg,HOLD_OUT)
HELD_OUT = $(TOKENIZE) --truncate right --split valid $(TEXT) | rf-cat --shuffle --seed $(call arg,SEED) | \
           rf-cat --range 0:$(call arg,DOCUMENTS) | rf-select --mode uniform \
           --chunks $(call arg,POSITIONS) --draw-step 0
LOOK     = rf-cat --range 0:1 $(RUN)/valid.rf | rf-entropy -m $(RUN)/start $(COMPUTE) | rf-select | \
           rf-dump --tsv --rows token --columns t,entropy,chosen,source

# A later recipe may have removed the report, which make does not notice.
report: $(RUN)/report.md
	@[ -e "$<" ] || $(HERE)report.sh '$(RUN)'
	@sed -n "/^## Figures/q; /^|/p; /^$$/p; /^- .* against/p" "$<" && \
		echo "midtrain: the report with figures and settings is $<$$([ ! -e '$(<:.md=.html)' ] || \
			echo ', and for a browser $(<:.md=.html)')"

words:
	@$(LIB)check.sh numbers 0 $(call values,SEED BATCHES) any $(call values,WARM_LR LR) \
		1 $(call values,LEN HOLD_OUT DOCUMENTS POSITIONS WARM_STEPS BATCH MINI_BATCH)
	@command -v gnuplot >/dev/null || \
		{ echo 'gnuplot is not installed (install gnuplot-nox)' >&2; exit 69; }
	@$(LIB)check.sh words '$(RUN)/words' $(WORDS) -- $(FILES) $(call arg,CONFIG)

$(RUN)/corpus: | words
	@$(TIMED) corpus '$(HERE)corpus.sh $@'

$(RUN)/train.rf: | words $(if $(CORPUS),,$(RUN)/corpus)
	@$(TIMED) train.rf $(call quote,$(TOKENIZE) --truncate split -o $@ $(TEXT))

$(RUN)/valid.rf: | words $(if $(CORPUS),,$(RUN)/corpus)
	@$(TIMED) valid.rf $(call quote,$(HELD_OUT) -o $@)

$(RUN)/fresh: | words
	@$(TIMED) fresh $(call quote,rf-init --config $(call arg,CONFIG) --seed $(call arg,SEED) $@)

# A file under its final name is complete: a killed command leaves at most a file of another name.
# Training may have been stopped, so it is called each time, and ends at once if it is done.  RUN/x.step is
# new only after a step.  Results of an earlier step are then removed: make compares times only, and a clock
# that was set back would keep them.
stepped = readlink '$(RUN)/$(1)/latest' | cmp -s - $@ || { rm -f $(RUN)/eval/$(1).*.tsv \
          $(if $(filter start,$(1)),$(RUN)/eval/entropy.tsv) $(RUN)/report.md; \
          readlink '$(RUN)/$(1)/latest' >$@.tmp; mv $@.tmp $@; }
$(RUN)/start.step: $(RUN)/fresh $(RUN)/train.rf FORCE | $(RUN)/valid.rf
	@$(MIDTRAIN) RUN='$(RUN)/start' MODEL='$(RUN)/fresh' BATCH=40 BATCHES=$$(($(WARM_STEPS) / 40)) \
		PHASE='warm-up' $(call hand_on,KEEP) $(start)
	@$(call stepped,start)

$(RUNS:%=$(RUN)/%.step): $(RUN)/%.step: $(RUN)/start.step FORCE
	@$(MIDTRAIN) RUN='$(RUN)/$*' MODEL='$(RUN)/start' $(call hand_on,BATCH BATCHES KEEP) PHASE='$*' \
		$($*)
	@$(call stepped,$*)

$(MODELS:%=$(RUN)/eval/%.documents.tsv): $(RUN)/eval/%.documents.tsv: $(RUN)/%.step $(RUN)/valid.rf
	@$(TIMED) eval-$* 'K=5 N=4 $(LIB)evaluate.sh $(RUN)/$* $(RUN)/valid.rf $(RUN)/eval/$*'

# The entropy along the first held-out document, and the positions that ReFINE chooses in it.
$(RUN)/eval/entropy.tsv: $(RUN)/start.step $(RUN)/valid.rf
	@$(TIMED) entropy $(call quote,$(LOOK) >$@.tmp; mv $@.tmp $@)

$(RUN)/report.md: $(RUNS:%=$(RUN)/%.step) $(MODELS:%=$(RUN)/eval/%.documents.tsv) $(RUN)/eval/entropy.tsv \
                  $(wildcard $(HERE)report.* $(LIB)style.gp $(LIB)entropy-figure.gp)
	@$(HERE)report.sh '$(RUN)'

FORCE:
.PHONY: report words FORCE
