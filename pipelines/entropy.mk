# entropy.mk -- a figure of the entropy along one sequence of a stream, and of the chosen positions.
#
#     rf-entropy -m RUN valid.rf | rf-select -o x.rf
#     make -f pipelines/entropy.mk STREAM=x.rf OUT=runs/figures
#
# OUT/entropy.png has two rows, one for each half of the sequence.  OUT/entropy.tsv has the numbers: t,
# entropy, and whether a position was chosen at this token.
#
#     STREAM     a stream that rf-entropy has read, such as RUN/streams/step-000000.rf (KEEP=1)
#     OUT        the folder of both files
#     ID=        the id of the sequence; by default the first of the stream
#     FORMAT=png of the figure; svg, pdf
#
# pipelines/examples/entropy.gp draws the same as text on a terminal.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))

STREAM =
OUT    =
ID     =
FORMAT = png

KNOWN := STREAM OUT ID FORMAT
include $(LIB)words.mk
need = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))
export $(KNOWN)

entropy:
	$(check_words)
	$(call need,STREAM,which stream? STREAM=x.rf)
	$(call need,OUT,where do the figure and its numbers go? OUT=runs/figures)
	$(if $(ID),@$(LIB)check.sh numbers 0 $(call values,ID))
	@exec $(LIB)entropy.sh

.DEFAULT_GOAL := entropy
.PHONY: entropy
