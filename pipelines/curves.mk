# curves.mk -- loss and accuracy over training, of several runs in one figure.
#
#     make -f pipelines/midtrain.mk RUN=runs/a ... EVAL=valid.rf EVERY=10
#     make -f pipelines/curves.mk RUNS='runs/a runs/b' OUT=runs/curves
#
# OUT/curves.png has the loss and the accuracy of held-out text, as each run's EVAL noted them, and the loss
# and reward of training; OUT/curves.tsv the numbers: a line for each run and step, NaN where nothing is
# known.  The loss and reward of a step are those that its weights had in training, before they were changed.
#
#     RUNS     the runs, each with eval.jsonl (EVAL=) or log.jsonl or both
#     OUT      the folder of both files
#     EVAL=    held-out sequences (.rf): what steps the runs still have is evaluated on these first, if their
#              eval.jsonl has no line about it, with EVALUATE='rf-ntp --eval' and COMPUTE
#
# It may be stopped at any moment; the same words go on.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
HERE := $(dir $(lastword $(MAKEFILE_LIST)))

RUNS     =
OUT      =
EVAL     =
EVALUATE = rf-ntp --eval
COMPUTE  =

KNOWN := RUNS OUT EVAL EVALUATE COMPUTE
include $(HERE)words.mk
need = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))
export $(KNOWN)

curves:
	$(check_words)
	$(call need,RUNS,which runs? RUNS='runs/a runs/b')
	$(call need,OUT,where do the figure and its numbers go? OUT=runs/curves)
	@$(HERE)stages.sh $(call values,EVALUATE)
	@exec $(HERE)curves.sh

.DEFAULT_GOAL := curves
.PHONY: curves
