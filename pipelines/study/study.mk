# study.mk -- make study: does ReFINE make a model better?  PLAN.md, next to this file, has the questions and
# the analysis, which were fixed before the runs.  STUDY.md is the report.
#
# For each seed a model is pre-trained on text mixed with needles and with facts to recall (study-data.sh), in
# which each word of a fact is one token.  Pre-training stops early, or at the plateau: two points.  Each line
# of the report is one training of this model, on the same sequences in the same order, with as many
# optimizer steps as the other lines.  Only SFT as published takes fewer steps: one for each batch, as in the
# authors' released trainer.
#
#     base      the models of POINTS, each with SEEDS
#     tune      each method of MIDS with six settings, for the seeds TUNE, which no other part uses.  For SFT
#               these are six learning rates, SFT_LRS_POINT; for the others three, LRS_POINT, with two
#               coefficients, COEFS.  A method then uses the setting with the most exact answers on
#               validation data
#     mid       mid-training: SFT; SFT as published; ReFINE n 1, n 8, n 16; random rewards, n 8;
#               teacher-forced on the same positions
#     post      post-training of ReFINE n 8's model at the plateau, by rates POST_LRS for the seeds TUNE, and
#               then by the best rate of each method for the seeds ADAPT: SFT without nesting, nested NTP,
#               nested ReFINE, random rewards
#     testtime  test-time training of the same model in the same way: NTP, ReFINE, random rewards, and none
#     ablation  ReFINE n 8 with one word changed, with its settings, at the plateau, for the seeds EXPLORE
#     rate      at the early point, SFT with the learning rate of ReFINE n 8, and ReFINE n 8 with that of SFT
#     report    all of them, and RUN/report.md
#
#     make study                   two runs at a time (JOBS=2), with one thread each
#     make study QUICK=1           one point, one seed, fewer steps: a test of all parts
#     make -f pipelines/study/study.mk mid SEEDS='1 2'
#
# The study may be stopped at any moment; the same command continues it.  RUN/figures.tsv has the figures of
# all parts that were made.  FIGURES is such a file, under version control: parts whose figures it has are not
# made again.  So another machine goes on with a copy of RUN/figures.tsv, and FIGURES= makes all parts.

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
FIGURES   = $(if $(QUICK),,$(HERE)figures.tsv)
POINTS    = $(if $(QUICK),early,plateau early)
SEEDS     = $(if $(QUICK),1,1 2 3 4 5 6 7 8 9 10 11 12)
TUNE      = $(if $(QUICK),101,101 102)
ADAPT     = $(if $(QUICK),1,1 2 3 4 5 6)
EXPLORE   = $(if $(QUICK),1,1 2 3)
JOBS      = 2
# Every machine with AVX2 computes the same bits.  Segments with half of the default's rows save a tenth of
# the time.
COMPUTE   = --threads 1 --isa x86_64_v3 --segment 1024
export ONEDNN_MAX_CPU_ISA := AVX2

# Numbers of sequences.  LESSONS: the first lesson; SHORT: each fifth of the other lessons; EARLY, PLATEAU,
# MID: the mixture in pre-training up to each point, and in mid-training; POST, TTT: questions in
# post-training and at test time; ASK: documents of each load, with eight questions each; TEXT: pieces of
# text.
LEN       = 512
LESSONS   = $(if $(QUICK),3200,16000)
SHORT     = $(if $(QUICK),800,4800)
EARLY     = $(if $(QUICK),400,1200)
PLATEAU   = $(if $(QUICK),400,6000)
MID       = $(if $(QUICK),64,800)
POST      = $(if $(QUICK),30,240)
TTT       = $(if $(QUICK),16,240)
ASK       = $(if $(QUICK),16,256)
TEXT      = $(if $(QUICK),16,128)
PRE_BATCH = 400
WARMUP    = 50
PRE_LR    = 5e-4

# The published proportions: four optimizer steps for each batch and one on the responses, two at test time.
BATCH     = 16
MINI      = 4
TTT_BATCH = 8
TTT_MINI  = 4
LRS_early       = $(if $(QUICK),1e-3,1e-4 3e-4 1e-3)
LRS_plateau     = $(if $(QUICK),1e-4,1e-5 3e-5 1e-4)
COEFS           = $(if $(QUICK),0.2,0.02 0.2)
SFT_LRS_early   = $(if $(QUICK),1e-3,1e-4 2e-4 3e-4 6e-4 1e-3 2e-3)
SFT_LRS_plateau = $(if $(QUICK),1e-4,1e-5 3e-5 6e-5 1e-4 2e-4 3e-4)
POST_LRS  = $(if $(QUICK),1e-4,1e-6 1e-5 3e-5 1e-4 3e-4)

# falls STEPS: options by which the learning rate rises over a tenth of the optimizer steps and then falls to
# 0, so that the compared models have settled.
falls     = --warmup $$((($(1)) / 10)) --lr-schedule cosine --total-steps $$(($(1)))
mid_falls = $(call falls,$(MID) / $(MINI))

# Mid-training: the words of midtrain.mk for each method.  Each seed has its own random numbers for positions
# and rollouts.  lr and coef: the settings of the part, or those that were chosen.
#
# stages SELECT,ROLLOUT,REWARD: the stages of ReFINE with these options.  refine: the same, with the trainer
stages  = SELECT='rf-select --seed $(seed) $(1)' ROLLOUT='rf-rollout --seed $(seed) $(2)' \
          REWARD='rf-reward --seed $(seed) --kind $(or $(3),cosine)'
refine  = FUSED=1 COMMIT_EVERY=10 $(call stages,$(1),$(2),$(3)) \
          TRAIN="rf-grpo --mini-batch $(MINI) --lr $$lr $(mid_falls) --rl-coef $$coef"
MIDS              = sft sft-published refine refine-n8 refine-n16 random-n8 forced
without_coef      = sft sft-published
mid-sft           = METHOD=ntp OPTIM="--mini-batch $(MINI) --lr $$lr $(mid_falls)"
mid-sft-published = METHOD=ntp INNER_STEPS=published OPTIM="--lr $$lr $(call falls,$(MID) / $(BATCH))"
mid-refine        = $(call refine)
mid-refine-n8     = $(call refine,,-n 8)
mid-refine-n16    = $(call refine,,-n 16)
mid-random-n8     = $(call refine,,-n 8,random)
mid-forced        = SELECT='rf-select --seed $(seed)' ROLLOUT= REWARD= \
                    TRAIN="rf-ntp --mini-batch $(MINI) --lr $$lr $(mid_falls) --position-coef $$coef"

ABLATIONS         = uniform max min k3 k7 c2 c4 binary hybrid edit
ablation-uniform  = $(call refine,--mode uniform,-n 8)
ablation-max      = $(call refine,--mode max,-n 8)
ablation-min      = $(call refine,--mode min,-n 8)
ablation-k3       = $(call refine,-k 3,-n 8 -k 3)
ablation-k7       = $(call refine,-k 7,-n 8 -k 7)
ablation-c2       = $(call refine,--chunks 2,-n 8)
ablation-c4       = $(call refine,--chunks 4,-n 8)
ablation-binary   = $(call refine,,-n 8,binary)
ablation-hybrid   = $(call refine,,-n 8,hybrid)
ablation-edit     = $(call refine,,-n 8,edit)

# Two methods exchange their learning rates.
RATES = sft refine-n8

# Post-training and test time: the words of posttrain.mk and testtime.mk for each method.
POSTS      = sft ntp refine random
TTTS       = none ntp refine random
by-none    = METHOD=none
by-sft     = METHOD=sft
by-ntp     = METHOD=ntp
by-refine  = METHOD=refine RL_COEF="$$coef" $(call stages,,-n 8)
by-random  = METHOD=refine RL_COEF="$$coef" $(call stages,,-n 8,random)

# Each batch of post-training takes BATCH / MINI steps on the prompts and one on the responses.
post_falls = $(call falls,($(POST) + $(BATCH) - 1) / $(BATCH) * ($(BATCH) / $(MINI) + 1))

WORDS := LEN LESSONS SHORT EARLY PLATEAU MID POST TTT ASK TEXT PRE_BATCH WARMUP PRE_LR BATCH MINI \
         TTT_BATCH TTT_MINI LRS_early LRS_plateau COEFS SFT_LRS_early SFT_LRS_plateau POST_LRS
KNOWN := RUN FIGURES QUICK POINTS SEEDS TUNE ADAPT EXPLORE JOBS COMPUTE MIDS ABLATIONS POSTS TTTS \
         ONLY $(WORDS) CC CFLAGS CPPFLAGS LDFLAGS
include $(LIB)words.mk
$(check_words)
$(call names_of_targets,RUN POINTS SEEDS TUNE ADAPT EXPLORE MIDS ABLATIONS POSTS TTTS JOBS $(WORDS))
export $(WORDS) RUN COMPUTE POINTS SEEDS TUNE ADAPT EXPLORE MIDS ABLATIONS POSTS TTTS

# ---- parts

# The name of a part is PHASE/POINT/METHOD/SEED.  The folder PART has its training, PART.done appears after
# the training and has its seconds, PART.tsv has the figures and the seconds of training and measuring, and
# PART.log the messages of the programs.  Since all files but the figures are secondary, a part whose figures
# exist needs no training, not even that of the models before it.
point   = $(word 1,$(subst /, ,$*))
method  = $(word 2,$(subst /, ,$*))
seed    = $(notdir $*)
part    = $(basename $@)
define begin
@mkdir -p $(@D)
SECONDS=0
exec 3>&2 >>$(part).log 2>&1
trap 'tail -n 3 $(part).log | sed "s|^|study: $(part): |" >&3' ERR
endef
trained = printf 'seconds\t%d\n' "$$SECONDS" >$@
# measure QUESTIONS,VALID[,MODEL]: writes the figures
define measure
$(HERE)study-measure.sh $(or $(3),$(part)) $(RUN)/data/$(1) $(part).tmp $(2:%=$(RUN)/data/%)
$(finish)
endef
define finish
{ cat $(part).done; printf 'seconds\t%d\n' "$$SECONDS"; } |
	awk '{ s += $$2 } END { print "seconds\t" s }' >>$(part).tmp
mv $(part).tmp $@
done=$$(cd $(RUN) && find . -mindepth 4 -maxdepth 4 -name '*.tsv' | wc -l)
echo "study: $(part:$(RUN)/%=%): $$SECONDS s, $$done of $(words $(PARTS)) parts" >&3
endef
# phase FILE,MODEL,DATA,FOLDER: the command that trains in this folder
phase   = MAKEFLAGS= $(MAKE) --no-print-directory -f $(HERE)../$(1) $(call hand_on,COMPUTE) SEED=$(seed) \
          MODEL=$(2) DATA=$(RUN)/data/seed-$(seed)/$(3) RUN=$(4) LEN=$(LEN)

# POINTS begins with the one that comes last in pre-training.  LAST: the point of adaptation and of the
# ablations.  FIRST: the point at which methods exchange rates
LAST    = $(firstword $(POINTS))
FIRST   = $(lastword $(POINTS))
# of PHASE,POINTS,METHODS,SEEDS: the parts
of      = $(foreach s,$(4),$(foreach p,$(2),$(foreach m,$(3),$(RUN)/$(1)/$(p)/$(m)/$(s).tsv)))
# tried POINT,METHOD: the settings that the method tries
tried   = $(if $(filter $(2),$(without_coef)),$(SFT_LRS_$(1):%=$(2)_%_0),$(foreach \
          c,$(COEFS),$(LRS_$(1):%=$(2)_%_$(c))))
adapted = $(foreach m,$(filter-out none,$(1)),$(POST_LRS:%=$(m)_%_0))
PARTS  := $(foreach s,$(TUNE),$(foreach p,$(POINTS),$(call \
          of,tune,$(p),$(foreach m,$(MIDS),$(call tried,$(p),$(m))),$(s)))) \
          $(foreach s,$(TUNE),$(call of,post-tune,$(LAST),$(call adapted,$(POSTS)),$(s)) \
          $(call of,testtime-tune,$(LAST),$(call adapted,$(TTTS)),$(s))) \
          $(foreach s,$(SEEDS),$(call of,base,$(POINTS),start,$(s)) $(call of,mid,$(POINTS),$(MIDS),$(s)) \
          $(call of,rate,$(FIRST),$(if $(filter-out $(MIDS),$(RATES)),,$(RATES)),$(s)) \
          $(if $(filter $(s),$(ADAPT)),$(call of,post,$(LAST),$(POSTS),$(s)) \
          $(call of,testtime,$(LAST),$(TTTS),$(s))) \
          $(if $(filter $(s),$(EXPLORE)),$(call of,ablation,$(LAST),$(ABLATIONS),$(s))))
# needs-PHASE: the phases whose parts a phase needs.  Parts of base make no others.
PHASES         = base tune mid rate post testtime ablation
needs-base     = base
needs-tune     = tune
needs-mid      = tune mid
needs-rate     = tune rate
needs-post     = tune post-tune post
needs-testtime = tune testtime-tune testtime
needs-ablation = tune ablation
needs-report   = base tune mid rate post-tune post testtime-tune testtime ablation

# A second make has a lane for each seed, and runs JOBS lanes at the same time, whatever -j the first make was
# given.  A lane makes one part after the other, so the figures of a part follow its training.  The lanes of
# tuning come first, since all others need the settings.  If a part fails, the parts that do not need it are
# still made.  With fewer sequences than the limits of the checks,
# there would be no needles.
again  = MAKEFLAGS= $(MAKE) --no-print-directory -f $(HERE)study.mk $(foreach \
         v,$(given),$(call quote,$(v)=$(typed_$(v))))
study: report
report $(PHASES):
	@$(LIB)check.sh numbers 1 $(call values,JOBS LEN LESSONS SHORT TTT TEXT PRE_BATCH BATCH MINI \
		TTT_BATCH TTT_MINI) \
		20 $(call values,EARLY PLATEAU MID) 3 $(call values,POST) 4 $(call values,ASK)
	$(LIB)check.sh words '$(RUN)/words' $(WORDS) --
	$(if $(FIGURES),$(HERE)study-parts.sh unpack '$(RUN)' $(call quote,$(FIGURES)))
	status=0
	$(again) -k -j '$(JOBS)' ONLY='$(needs-$@)' lanes || status=$$?
	$(HERE)study-parts.sh pack '$(RUN)' '$(RUN)/figures.tsv'
	[ "$$status" -eq 0 ] || exit "$$status"
	$(if $(filter report,$@),$(again) write-report)

tuning   = $(TUNE:%=lane-tune-%)
adapting = $(TUNE:%=lane-adapt-%)
seeds    = $(SEEDS:%=lane-seed-%)
only     = $(foreach p,$(filter $(1),$(ONLY)),$(filter $(RUN)/$(p)/%/$(2).tsv,$(PARTS)))
lane     = $(if $(only),@$(again) -s -k -j 1 $(only),@:)
lanes: $(tuning) $(adapting) $(seeds)
$(tuning): lane-tune-%:
	$(call lane,tune,$*)
$(adapting): lane-adapt-%: | $(tuning)
	$(call lane,post-tune testtime-tune,$*)
$(seeds): lane-seed-%: | $(tuning) $(adapting)
	$(call lane,$(filter-out tune,$(PHASES)),$*)

# The report also names the settings that were chosen.
CHOSEN = $(foreach p,$(POINTS),$(MIDS:%=$(RUN)/chosen/mid/$(p)/%)) $(POSTS:%=$(RUN)/chosen/post/$(LAST)/%) \
         $(TTTS:%=$(RUN)/chosen/testtime/$(LAST)/%)
write-report: $$(CHOSEN)
	@$(HERE)study-report.sh '$(RUN)'
.PHONY: study report $(PHASES) lanes $(tuning) $(adapting) $(seeds) write-report

$(RUN)/data/words:
	@$(HERE)study-data.sh $(RUN)/data
$(RUN)/data/seed-%: | $(RUN)/data/words
	@$(HERE)study-data.sh $(RUN)/data $*

# Pre-training: the first lesson, the other lessons in their order, then the mixture.
# next_tokens LR,SEQUENCES[,constant]: words that train next tokens, with a learning rate that falls to 0 over
# these sequences, or is constant.  With sequences of a hundred tokens, the exact sum would take a quarter of
# the time, so sums are plain.
next_tokens = ENTROPY= SELECT= ROLLOUT= REWARD= BATCH=$(PRE_BATCH) BATCHES=$$(($(1) / $(PRE_BATCH))) \
              TRAIN="rf-ntp --mini-batch 4 --sum plain --warmup $(WARMUP) --grad-clip 1 --lr $(PRE_LR) \
              --lr-schedule $(or $(2),cosine --total-steps $$(($(1) / 4)))"
models = $(RUN)/models
$(models)/lessons/%.done: | $(RUN)/data/seed-%
	$(begin)
	[ -e $(part)-fresh ] || rf-init --config $(HERE)study-delta_net.json \
		--tokenizer $(RUN)/data/tokenizer --seed $(seed) $(part)-fresh
	$(call phase,midtrain.mk,$(part)-fresh,first.rf,$(part)-first) $(call next_tokens,$(LESSONS))
	$(call phase,midtrain.mk,$(part)-first,lessons.rf,$(part)) ORDER=file \
		$(call next_tokens,5 * $(SHORT),constant)
	$(trained)
early   = $(EARLY)
plateau = $(PLATEAU)
define pre_trained
$(models)/$(1)/%.done: | $(models)/lessons/%.done $(RUN)/data/seed-%
	$$(begin)
	$$(call phase,midtrain.mk,$(models)/lessons/$$*,$(1).rf,$$(part)) $$(call next_tokens,$($(1)))
	$$(trained)
	$$(HERE)study-parts.sh same $$(part) $(RUN)/base/$(1)/start/$$*.tsv
endef
$(foreach p,$(POINTS),$(eval $(call pre_trained,$(p))))

# Prerequisites of a part: the data of its seed, and the model of its seed and point.
seed_data = $(RUN)/data/seed-$$(notdir $$*)
model     = $(seed_data) $(models)/$$(firstword $$(subst /, ,$$*))/$$(notdir $$*).done
$(RUN)/base/%.done: | $(model)
	@mkdir -p $(@D)
	cat $(models)/lessons/$(seed).done $(models)/$(point)/$(seed).done >$@
$(RUN)/base/%.tsv: | $(seed_data) $(RUN)/base/%.done
	$(begin)
	$(call measure,seed-$(seed)/test,valid,$(models)/$(point)/$(seed))

# Mid-training.  In tuning, the name of the part gives its settings; later each method has its best ones.
mid  = $(call phase,midtrain.mk,$(models)/$(point)/$(seed),mid.rf,$(part)) BATCH=$(BATCH) \
       BATCHES=$$(($(MID) / $(BATCH)))
name = $(firstword $(subst _, ,$(method)))
$(RUN)/tune/%.done: | $(model)
	$(begin)
	IFS=_ read -r _ lr coef <<<'$(method)'
	$(mid) $(mid-$(name))
	$(trained)

# choice PHASE,POINT,METHOD,TRIED: the rule that chooses among the tried settings.  A method that does not
# train has no settings.  Two lanes may make the same choice at the same time, so each has a temporary file.
tried_in = $(if $(filter mid,$(1)),tune,$(1)-tune)
define choice
$(RUN)/chosen/$(1)/$(2)/$(3): $(foreach t,$(4),$(TUNE:%=$(RUN)/$(call tried_in,$(1))/$(2)/$(t)/%.tsv))
	@mkdir -p $$(@D)
	$(if $(4),$$(HERE)study-choose.sh $$^,echo '$(3)_0_0') >$$@.$$$$$$$$
	mv $$@.$$$$$$$$ $$@
endef
$(foreach p,$(POINTS),$(foreach m,$(MIDS),$(eval $(call choice,mid,$(p),$(m),$(call tried,$(p),$(m))))) \
$(foreach f,post testtime,$(foreach m,$(if $(filter post,$(f)),$(POSTS),$(TTTS)), \
$(eval $(call choice,$(f),$(p),$(m),$(call adapted,$(m)))))))

# settings PHASE,METHOD: sets lr and coef of the shell.  chosen_for PHASE[,METHOD]: the file that they are in
settings   = IFS=_ read -r _ lr coef <$(RUN)/chosen/$(1)/$(point)/$(2)
chosen_for = $(RUN)/chosen/$(1)/$$(word 1,$$(subst /, ,$$*))/$(or $(2),$$(word 2,$$(subst /, ,$$*)))
$(RUN)/mid/%.done: $(call chosen_for,mid) | $(model)
	$(begin)
	$(call settings,mid,$(method))
	$(mid) $(mid-$(method))
	$(trained)
	$(HERE)study-parts.sh same $(part) $(part).tsv
$(RUN)/rate/%.done: $(RATES:%=$(call chosen_for,mid,%)) | $(model)
	$(begin)
	$(call settings,mid,$(method))
	IFS=_ read -r _ lr _ <$(RUN)/chosen/mid/$(point)/$(filter-out $(method),$(RATES))
	$(mid) $(mid-$(method))
	$(trained)
$(RUN)/ablation/%.done: $(call chosen_for,mid,refine-n8) | $(model)
	$(begin)
	$(call settings,mid,refine-n8)
	$(mid) $(ablation-$(method))
	$(trained)

# Adaptation has the coefficient of ReFINE n 8, and a rate of its own.
refined = $(RUN)/mid/$$(firstword $$(subst /, ,$$*))/refine-n8/$$(notdir $$*).done
start   = $(RUN)/mid/$(point)/refine-n8/$(seed)
post    = $(call phase,posttrain.mk,$(start),post.rf,$(part)) BATCH=$(BATCH) MINI_BATCH=$(MINI) \
          OPTIM="--mini-batch $(MINI) --lr $$lr $(post_falls)"
answers = $(call phase,testtime.mk,$(start),asked.rf,$(part)) BATCH=$(TTT_BATCH) MINI_BATCH=$(TTT_MINI) \
          LR="$$lr" $(call given_as,GENERATE,$(call as_word,$(abspath $(LIB)answer.sh)) --max-new 12)
# adaptation PHASE,RECIPE: the rules that try a setting of a phase, and that use the chosen one
define adaptation
$(RUN)/$(1)-tune/%.done: $$(call chosen_for,mid,refine-n8) | $$(seed_data) $$(refined)
	$$(begin)
	$$(call settings,mid,refine-n8)
	IFS=_ read -r _ lr _ <<<'$$(method)'
	$$($(2)) $$(by-$$(name))
	$$(trained)
$(RUN)/$(1)/%.done: $$(call chosen_for,mid,refine-n8) $$(call chosen_for,$(1)) | $$(seed_data) $$(refined)
	$$(begin)
	$$(call settings,mid,refine-n8)
	IFS=_ read -r _ lr _ <$(RUN)/chosen/$(1)/$$(point)/$$(method)
	$$($(2)) $$(by-$$(method))
	$$(trained)
endef
$(eval $(call adaptation,post,post))
$(eval $(call adaptation,testtime,answers))

# Figures.  figures PHASE,RECIPE: the rule for the figures of a phase.  Settings are compared at temperature
# 1.
define figures
$(RUN)/$(1)/%.tsv: | $$(seed_data) $(RUN)/$(1)/%.done
	$$(begin)
	$$($(2))
endef
of_settings = $(call measure,tune)
of_models   = $(call measure,seed-$(seed)/test,valid)
define of_answers
$(HERE)study-answers.sh $(part)/answers $(RUN)/data/tokenizer $(part).tmp
$(finish)
endef
$(foreach f,tune post-tune,$(eval $(call figures,$(f),of_settings)))
$(foreach f,mid rate ablation post,$(eval $(call figures,$(f),of_models)))
$(foreach f,testtime-tune testtime,$(eval $(call figures,$(f),of_answers)))

.DEFAULT_GOAL := study
