# study.mk -- make study: does ReFINE make a model better?  The study trains small models that can do a part
# of their tasks, with a control for each claim and with three seeds.  Its report, RUN/report.md, may say no.
#
# For each seed a model of each family is pre-trained on text mixed with needles and with facts to recall
# (study-data.sh), in which each word of a fact is one token.  Each line of the report is one training of this
# model, on the same sequences in the same order, with as many optimizer steps as the other lines.  Only SFT
# as published takes fewer steps: one for each batch, as in the authors' released trainer.
#
#     base      the models: FAMILIES, each with SEEDS
#     grid      learning rates LRS and coefficients COEFS for SFT, ReFINE n 1, ReFINE n 8 and random rewards,
#               compared by the nll of answers on validation data, for the first seed.  Each method then uses
#               its best settings; a method that differs from ReFINE n 1 in one word uses those of ReFINE n 1
#     mid       mid-training: SFT; SFT as published; ReFINE as published; n 8; random rewards; uniform,
#               max-entropy and min-entropy positions; k 3, 7; chunks 2, 4; binary, hybrid, edit rewards
#     post      post-training of the model of ReFINE: nested ReFINE; SFT without nesting and nested NTP, both
#               in as many steps; random rewards
#     testtime  test-time training of the model of nested ReFINE: none; ReFINE and NTP in as many steps, both
#               with weights that are kept or reset after each batch; random rewards
#     ideas     variants that might do better than ReFINE n 1, on validation data
#     report    all of them, and RUN/report.md
#
#     make study                   two runs at a time (JOBS=2), with one thread each
#     make study QUICK=1           one family, one seed, fewer steps: a test of all parts
#     make -f pipelines/study/study.mk mid FAMILIES=delta_net SEEDS='1 2'
#
# The study may be stopped at any moment; the same command continues it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.SECONDARY:
.SECONDEXPANSION:
MAKEFLAGS += --no-print-directory
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)../lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))

QUICK     =
RUN       = runs/study$(if $(QUICK),-quick)
FAMILIES  = $(if $(QUICK),delta_net,delta_net lact_swiglu)
SEEDS     = $(if $(QUICK),1,1 2 3)
JOBS      = 2
COMPUTE   = --threads 1

# Numbers of sequences.  LESSONS: the first lesson; SHORT: each fifth of the other lessons; PRE, MID: the
# mixture in pre-training and mid-training; POST, TTT: questions in post-training and at test time; ASK:
# questions of each kind and length in validation and test.  After this pre-training the model finds most
# facts but few needles, so it can still improve.  After five times as much, no method changed anything.
LEN       = 512
LESSONS   = $(if $(QUICK),6000,16000)
SHORT     = $(if $(QUICK),1600,4800)
PRE       = 1200
MID       = $(if $(QUICK),64,800)
POST      = $(if $(QUICK),32,160)
TTT       = $(if $(QUICK),16,64)
ASK       = $(if $(QUICK),16,64)
PRE_BATCH = 400
WARMUP    = 50
FIRST_LR_delta_net   = 5e-4
FIRST_LR_lact_swiglu = 2e-3
PRE_LR_delta_net     = 5e-4
PRE_LR_lact_swiglu   = 1e-3

# The published proportions: four optimizer steps for each batch and one on the responses, two at test time.
BATCH     = 16
MINI      = 4
TTT_BATCH = 8
TTT_MINI  = 4
LRS       = $(if $(QUICK),1e-3,1e-4 3e-4 1e-3 3e-3)
COEFS     = $(if $(QUICK),0.2,0.05 0.2)

# falls STEPS: options by which the learning rate rises over a tenth of the optimizer steps and then falls to
# 0, so that the compared models have settled.  At test time the rate is constant, because the model answers
# after each batch.
falls     = --warmup $$((($(1)) / 10)) --lr-schedule cosine --total-steps $$(($(1)))
mid_falls = $(call falls,$(MID) / $(MINI))

# refine SELECT,ROLLOUT,REWARD: the stages of ReFINE with these options.  Each seed has its own random numbers
# for positions and rollouts.  lr and coef: the settings that the grid chose.
refine    = SELECT='rf-select --seed $(seed) $(1)' ROLLOUT='rf-rollout --seed $(seed) $(2)' \
            $(if $(3),$(call given_as,REWARD,$(3)))
grpo      = TRAIN="rf-grpo --mini-batch $(MINI) --lr $$lr $(mid_falls) --rl-coef $(or $(1),$$coef) $(2)"
kind      = rf-reward --seed $(seed) --kind $(1)

# Mid-training: the words of midtrain.mk for each method.  A method has the settings of like(METHOD).
MIDS          = sft sft-published refine refine-n8 random random-n8 uniform max min k3 k7 c2 c4 binary \
                hybrid edit
GRIDDED       = sft refine refine-n8 random
like          = $(or $(filter $(GRIDDED),$(1)),$(if $(filter sft%,$(1)),sft,$(if $(filter \
                %-n8,$(1)),refine-n8,refine)))
mid-sft       = METHOD=ntp OPTIM="--mini-batch $(MINI) --lr $$lr $(mid_falls)"
mid-sft-published = METHOD=ntp INNER_STEPS=published OPTIM="--lr $$lr $(call falls,$(MID) / $(BATCH))"
mid-refine    = $(call refine) $(grpo)
mid-refine-n8 = $(call refine,,-n 8) $(grpo)
mid-random    = $(call refine,,,$(call kind,random)) $(grpo)
mid-random-n8 = $(call refine,,-n 8,$(call kind,random)) $(grpo)
mid-uniform   = $(call refine,--mode uniform) $(grpo)
mid-max       = $(call refine,--mode max) $(grpo)
mid-min       = $(call refine,--mode min) $(grpo)
mid-k3        = $(call refine,-k 3,-k 3) $(grpo)
mid-k7        = $(call refine,-k 7,-k 7) $(grpo)
mid-c2        = $(call refine,--chunks 2) $(grpo)
mid-c4        = $(call refine,--chunks 4) $(grpo)
mid-binary    = $(call refine,,,$(call kind,binary)) $(grpo)
mid-hybrid    = $(call refine,,,$(call kind,hybrid)) $(grpo)
mid-edit      = $(call refine,,,$(call kind,edit)) $(grpo)

# Post-training and test time: the words of posttrain.mk and testtime.mk for each method.
POSTS           = sft ntp refine random
TTTS            = none ntp refine random ntp-reset refine-reset
trained_as      = $(or $(filter refine random,$(firstword $(subst -, ,$(1)))),sft)
by-none         = METHOD=none
by-sft          = METHOD=sft
by-ntp          = METHOD=ntp
by-refine       = METHOD=refine RL_COEF="$$coef" $(call refine)
by-random       = METHOD=refine RL_COEF="$$coef" $(call refine,,,$(call kind,random))
by-ntp-reset    = $(by-ntp) RESET=batch
by-refine-reset = $(by-refine) RESET=batch

# Each batch of post-training takes BATCH / MINI steps on the prompts and one on the responses.
post_falls      = $(call falls,($(POST) + $(BATCH) - 1) / $(BATCH) * ($(BATCH) / $(MINI) + 1))

# Variants that might do better than ReFINE n 8, and have its settings.  The first three are the methods
# above, measured on validation data.
IDEAS           = sft refine refine-n8 n16 no-std strong surprise max-c16
idea-n16        = $(call refine,,-n 16) $(grpo)
idea-no-std     = $(call refine,,-n 8) $(call grpo,,--no-std)
idea-strong     = $(call refine,,-n 8) $(call grpo,1)
idea-surprise   = $(call refine,,-n 8,$(call as_word,$(abspath $(HERE)../examples/surprise.sh))) $(grpo)
idea-max-c16    = $(call refine,--mode max --chunks 16,-n 8) $(grpo)

WORDS := LEN LESSONS SHORT PRE MID POST TTT ASK PRE_BATCH WARMUP $(foreach \
         f,delta_net lact_swiglu,FIRST_LR_$(f) PRE_LR_$(f)) BATCH MINI TTT_BATCH TTT_MINI LRS COEFS
KNOWN := RUN QUICK FAMILIES SEEDS JOBS COMPUTE MIDS POSTS TTTS IDEAS $(WORDS) CC CFLAGS CPPFLAGS LDFLAGS
include $(LIB)words.mk
$(check_words)
$(call names_of_targets,RUN FAMILIES SEEDS MIDS POSTS TTTS IDEAS JOBS $(WORDS))
export $(WORDS) RUN COMPUTE FAMILIES SEEDS MIDS POSTS TTTS IDEAS

# ---- parts

# The name of a part is PHASE/FAMILY/METHOD/SEED.  The folder PART has its training, PART.tsv its figures,
# PART.log the messages of its programs, and PART.seconds its time.
family  = $(word 1,$(subst /, ,$*))
method  = $(word 2,$(subst /, ,$*))
seed    = $(notdir $*)
part    = $(basename $@)
define begin
@mkdir -p $(@D)
SECONDS=0
exec 3>&2 >$(part).log 2>&1
trap 'tail -n 3 $(part).log | sed "s|^|study: $(part): |" >&3' ERR
endef
define end
echo "$$SECONDS" >$(part).seconds
done=$$(find $(RUN) -name '*.seconds' | wc -l)
echo "study: $(part:$(RUN)/%=%): $$SECONDS s, $$done of $(words $(PARTS)) parts" >&3
endef
# phase FILE,MODEL,DATA,SUFFIX: the command that trains in the folder of the part, with SUFFIX after its name
phase   = MAKEFLAGS= $(MAKE) --no-print-directory -f $(HERE)../$(1) $(call hand_on,COMPUTE) SEED=$(seed) \
          MODEL=$(2) DATA=$(RUN)/data/$(3) RUN=$(part)$(4) LEN=$(LEN)
measure = $(HERE)study-measure.sh $(part) $(RUN)/data/$(1) $@ $(2)

of      = $(foreach f,$(FAMILIES),$(foreach m,$(2),$(foreach s,$(SEEDS),$(RUN)/$(1)/$(f)/$(m)/$(s).tsv)))
first   = $(firstword $(SEEDS))
tried   = $(foreach lr,$(LRS),$(foreach c,$(if $(filter sft,$(1)),0,$(COEFS)),$(1)_$(lr)_$(c)))
GRID   := $(foreach f,$(FAMILIES),$(foreach m,$(GRIDDED),$(foreach \
          t,$(call tried,$(m)),$(RUN)/grid/$(f)/$(t)/$(first).tsv)))
PARTS  := $(call of,base,model) $(GRID) $(call of,mid,$(MIDS)) $(call of,post,$(POSTS)) \
          $(call of,testtime,$(TTTS)) $(call of,ideas,$(IDEAS))
parts_of = $(filter $(RUN)/$(1)/%,$(PARTS))

# A second make runs JOBS parts at the same time, whatever -j the first make was given.  With fewer sequences
# than the limits of the checks, there would be no needles.
PHASES = base grid mid post testtime ideas
study: report
report $(PHASES):
	@$(LIB)check.sh numbers 1 $(call values,JOBS LEN LESSONS SHORT TTT PRE_BATCH BATCH MINI TTT_BATCH \
		TTT_MINI) 20 $(call values,PRE MID) 8 $(call values,POST) 4 $(call values,ASK)
	$(LIB)check.sh words '$(RUN)/words' $(WORDS) --
	MAKEFLAGS= $(MAKE) --no-print-directory -j '$(JOBS)' -f $(HERE)study.mk parts-$@ \
		$(foreach v,$(given),$(call quote,$(v)=$(typed_$(v))))
$(PHASES:%=parts-%): parts-%: $$(call parts_of,%)
parts-report: $(PARTS)
	@$(HERE)study-report.sh '$(RUN)'
.PHONY: study report $(PHASES) $(PHASES:%=parts-%) parts-report

$(RUN)/data/words:
	@$(HERE)study-data.sh $(RUN)/data
$(RUN)/data/seed-%: | $(RUN)/data/words
	@$(HERE)study-data.sh $(RUN)/data $*

# Pre-training: the first lesson, the other lessons in their order, then the mixture.
# next_tokens LR,SEQUENCES[,constant]: words that train next tokens, with a learning rate that falls to 0 over
# these sequences, or is constant.  With sequences of a hundred tokens, the exact sum would take a quarter of
# the time, so sums are plain.
next_tokens = ENTROPY= SELECT= ROLLOUT= REWARD= BATCH=$(PRE_BATCH) BATCHES=$$(($(2) / $(PRE_BATCH))) \
              TRAIN="rf-ntp --mini-batch 4 --sum plain --warmup $(WARMUP) --grad-clip 1 --lr $(1) \
              --lr-schedule $(or $(3),cosine --total-steps $$(($(2) / 4)))"
seed_data = $(RUN)/data/seed-$$(notdir $$*)
$(RUN)/base/%.tsv: | $(seed_data)
	$(begin)
	[ -e $(part)-fresh ] || rf-init --config $(HERE)study-$(family).json \
		--tokenizer $(RUN)/data/tokenizer --seed $(seed) $(part)-fresh
	$(call phase,midtrain.mk,$(part)-fresh,seed-$(seed)/first.rf,-first) \
		$(call next_tokens,$(FIRST_LR_$(family)),$(LESSONS))
	$(call phase,midtrain.mk,$(part)-first,seed-$(seed)/lessons.rf,-lessons) ORDER=file \
		$(call next_tokens,$(PRE_LR_$(family)),5 * $(SHORT),constant)
	$(call phase,midtrain.mk,$(part)-lessons,seed-$(seed)/pre.rf) \
		$(call next_tokens,$(PRE_LR_$(family)),$(PRE))
	$(call measure,test)
	$(end)

# Mid-training.  In the grid, the name of the part gives its settings; later each method has its best ones.
mid = $(call phase,midtrain.mk,$(RUN)/base/$(family)/model/$(seed),seed-$(seed)/mid.rf) \
      BATCH=$(BATCH) BATCHES=$$(($(MID) / $(BATCH)))
$(RUN)/grid/%.tsv: $(RUN)/base/$$(firstword $$(subst /, ,$$*))/model/$(first).tsv | $(seed_data)
	$(begin)
	IFS=_ read -r _ lr coef <<<'$(method)'
	$(mid) $(mid-$(firstword $(subst _, ,$(method))))
	$(call measure,valid,answers)
	$(end)

$(foreach f,$(FAMILIES),$(foreach m,$(GRIDDED),$(eval \
	$(RUN)/chosen/$(f)/$(m): $(foreach t,$(call tried,$(m)),$(RUN)/grid/$(f)/$(t)/$(first).tsv))))
$(RUN)/chosen/%:
	@mkdir -p $(@D)
	$(HERE)study-choose.sh $^ >$@.tmp
	mv $@.tmp $@

# settings METHOD: sets lr and coef of the shell
settings = IFS=_ read -r _ lr coef <$(RUN)/chosen/$(family)/$(1)
# part_of PHASE,METHOD: the part with the same family and seed.  chosen_for FUNCTION: the file with the
# settings of the method that FUNCTION names
part_of    = $(RUN)/$(1)/$$(firstword $$(subst /, ,$$*))/$(2)/$$(notdir $$*).tsv
chosen_for = $(RUN)/chosen/$$(firstword $$(subst /, ,$$*))/$$(call $(1),$$(word 2,$$(subst /, ,$$*)))
n8         = refine-n8
$(RUN)/mid/%.tsv: $(call part_of,base,model) $(call chosen_for,like) | $(seed_data)
	$(begin)
	$(call settings,$(call like,$(method)))
	$(mid) $(mid-$(method))
	$(call measure,test)
	$(end)

# Other ideas train the base model, with the settings of ReFINE n 8.
$(RUN)/ideas/%.tsv: $(call part_of,base,model) $(call chosen_for,n8) | $(seed_data)
	$(begin)
	$(call settings,refine-n8)
	$(mid) $(idea-$(method))
	$(call measure,valid)
	$(end)
define measured
$(RUN)/ideas/$(1)/$(2)/%.tsv: $(RUN)/mid/$(1)/$(2)/%.tsv
	$$(begin)
	$$(HERE)study-measure.sh $$(basename $$<) $$(RUN)/data/valid $$@
	$$(end)
endef
$(foreach f,$(FAMILIES),$(foreach m,$(filter $(MIDS),$(IDEAS)),$(eval $(call measured,$(f),$(m)))))

$(RUN)/post/%.tsv: $(call part_of,mid,refine) $(call chosen_for,trained_as) | $(seed_data)
	$(begin)
	$(call settings,$(call trained_as,$(method)))
	$(call phase,posttrain.mk,$(RUN)/mid/$(family)/refine/$(seed),seed-$(seed)/post.rf) BATCH=$(BATCH) \
		MINI_BATCH=$(MINI) OPTIM="--mini-batch $(MINI) --lr $$lr $(post_falls)" $(by-$(method))
	$(call measure,test)
	$(end)

$(RUN)/testtime/%.tsv: $(call part_of,post,refine) $(call chosen_for,trained_as)
	$(begin)
	$(call settings,$(call trained_as,$(method)))
	$(call phase,testtime.mk,$(RUN)/post/$(family)/refine/$(seed),test/asked.rf) BATCH=$(TTT_BATCH) \
		MINI_BATCH=$(TTT_MINI) LR="$$lr" $(by-$(method)) \
		$(call given_as,GENERATE,$(call as_word,$(abspath $(LIB)answer.sh)) --max-new 48)
	$(HERE)study-answers.sh $(part)/answers $(RUN)/data/tokenizer $@
	$(end)

.DEFAULT_GOAL := study
