# curves.mk -- a figure of loss, accuracy and rewards over the training of several runs.
#
#     make -f pipelines/midtrain.mk RUN=runs/a ... EVAL=valid.rf EVERY=10
#     make -f pipelines/curves.mk RUNS='runs/a runs/b' OUT=runs/curves
#     make -f pipelines/curves.mk RUNS='runs/sft-* runs/refine-*' GROUP='SFT;ReFINE, n 1' BASELINE=SFT \
#         SMOOTH=9 FORMAT=pdf OUT=figure
#
# OUT/curves.png has a panel for each of these figures that the runs have: on the held-out text of each run's
# EVAL the loss, the accuracy by arg max, the NTP accuracy and the rewards of rollouts; in training the loss
# and the rewards.  The NTP accuracy is the share of drawn tokens that are right, as the authors' code
# computes it; the paper does not define it (rf-ntp(1)).  An eval.jsonl may also call it probability.  Rewards
# of different kinds have separate panels.
# OUT/curves.tsv has the numbers as the runs recorded them: a line for each run and step, NaN for a missing
# value.  The loss and reward of a step are those that its weights had in training, before they changed.
#
# OUT/curves.html is a page for a browser with the figure, the newest values, and 20 rollouts of the first run
# that kept streams (KEEP=1).
#
#     RUNS     the runs, with blanks between.  Each has eval.jsonl (EVAL=) or log.jsonl or both.  A name that
#              has a blank stands in quotes, and patterns are expanded (files.sh)
#     OUT      the folder of these files
#     LABELS=  the names of the runs in the figure, with semicolons between; by default those in RUNS
#     GROUP=   names of groups, with semicolons between: one for each name or pattern in RUNS, or one for each
#              run.  A group, such as three seeds of one method, is drawn as one curve with a band: the mean
#              of its runs at the steps that all of them have
#     BAND=range   with GROUP, the band: from the lowest run to the highest, as the paper's error bars.
#              deviation: one standard deviation to each side of the mean
#     BASELINE=  a run, a label or a group: every curve is the difference from it at the same step.  From a
#              group that has as many runs as the baseline, the baseline is subtracted run by run, in the
#              order of RUNS: the first of one from the first of the other, and so on.  So name the seeds of
#              both in the same order.  From any other group, the mean of the baseline is subtracted
#     SMOOTH=1   curves of training are running means over this many steps; those of held-out text never are
#     FORMAT=png of the figure; svg, pdf
#     EVAL=    held-out sequences (.rf).  Steps that the runs still have, but that their eval.jsonl has no
#              line about, are evaluated on them first, with EVALUATE='rf-ntp --eval' and COMPUTE
#
# It may be stopped at any moment; the same words go on.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))

RUNS     =
OUT      =
LABELS   =
GROUP    =
BAND     = range
BASELINE =
SMOOTH   = 1
FORMAT   = png
EVAL     =
EVALUATE = rf-ntp --eval
COMPUTE  =

KNOWN := RUNS OUT LABELS GROUP BAND BASELINE SMOOTH FORMAT EVAL EVALUATE COMPUTE
include $(LIB)words.mk
need = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))
export $(KNOWN)

curves:
	$(check_words)
	$(call need,RUNS,which runs? RUNS='runs/a runs/b')
	$(call need,OUT,where do the figure and its numbers go? OUT=runs/curves)
	$(call one_of,BAND,range deviation)
	$(if $(GROUP),,$(if $(filter command,$(origin BAND)),$(error \
		BAND has no effect here: without GROUP a curve is one run and has no band)))
	@$(LIB)check.sh numbers 1 $(call values,SMOOTH)
	@$(LIB)check.sh stages $(call values,EVALUATE)
	@exec $(LIB)curves.sh

.DEFAULT_GOAL := curves
.PHONY: curves
