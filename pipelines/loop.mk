# loop.mk -- read by midtrain.mk, and by any other phase of training: how stages become LINE, what is looked
# at before anything is made, and the call of rf-loop(1).
#
# The file that reads it says its words and their values; which of them must be numbers (NUMBERS) and
# commands (STAGES), and all that are its own (KNOWN); and LINE, by the functions below.  LINE is a word of
# the run, so it has nothing in it that may change from one day to the next: such things come through the
# environment, COMPUTE from here, the others from rf-loop.

# A stream of sequences, DATA, may stand in for CORPUS and TOKENIZE, which make our own.
RUN    =
MODEL  =
CORPUS =
DATA   = $(RUN)/data/corpus.rf
own    = $(filter $(RUN)/data/corpus.rf,$(DATA))

KNOWN := RUN MODEL CORPUS DATA STEPS $(KNOWN) SEED COMPUTE KEEP AFTER PHASE
include $(HERE)words.mk

# A stage that reads a stream and writes one; one that reads the model too; a command that judges, unless it
# is a program of ours; the trainer.  An empty one is left out.
program = $(notdir $(firstword $(1)))
stage   = $(if $(strip $(1)), | $(strip $(1)))
reader  = $(if $(strip $(1)),$(call stage,$(1)) -m "$$STEP" $$COMPUTE)
quote   = '$(subst ','\'',$(1))'
judge   = $(call stage,$(if $(filter-out rf-%,$(call program,$(1))),rf-reward --exec $(call quote,$(1)),$(1)))
trains  = $(1) -m "$$RUN" $$COMPUTE --at $$AT --log "$$RUN/log.jsonl"
# rf-grpo writes what is kept, with advantages; any other trainer is given what was kept.
kept    = if [ "$$STREAM" ]; then rf-cat -o "$$STREAM" && rf-cat "$$STREAM"; else cat; fi
grpo    = $(filter rf-grpo,$(call program,$(1)))
trainer = $(if $(grpo), | $(trains) $${STREAM:+-o "$$STREAM"}, | $(kept) | $(trains))

need = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))
make_data = $(TOKENIZE) -o "$$DATA" -- $(CORPUS)
export RUN MODEL DATA STEPS $(STAGES) $(NUMBERS) SEED COMPUTE AFTER PHASE LINE make_data

train:
	$(call need,RUN,where does the run go? RUN=runs/a)
	$(call need,MODEL,which checkpoint? MODEL=ckpt)
	$(if $(own),$(call need,CORPUS,which files of text? CORPUS='data/*.jsonl.zst'))
	@$(HERE)numbers.sh 0 STEPS SEED
	@$(HERE)numbers.sh 1 $(NUMBERS)
	@$(HERE)stages.sh $(STAGES)
	@$(if $(own),hashes=$$($(HERE)hashes.sh $(CORPUS));) \
		exec rf-loop -m "$$RUN" --from "$$MODEL" --data "$$DATA" \
		$(if $(own),--make "$$make_data" --words "$${hashes:-no files}") \
		--batches "$$STEPS" --batch "$$BATCH" --seed "$$SEED" $(if $(AFTER),--after "$$AFTER") \
		$(if $(KEEP),--keep-streams) --phase "$${PHASE:-$$RUN}" -- "$$LINE"

.DEFAULT_GOAL := train
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: train
