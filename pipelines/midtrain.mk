# midtrain.mk -- mid-training with ReFINE: your model, your text.
#
#     make -f pipelines/midtrain.mk RUN=runs/a MODEL=ckpt CORPUS='data/*.jsonl.zst' STEPS=100
#
# RUN is where the run goes: a Hugging Face checkpoint after each step, log.jsonl with a line for each.  MODEL is a
# checkpoint with its tokenizer, or another run.  CORPUS are files of text: .jsonl, .jsonl.zst (TEXT_KEY=text), .txt, .ids.
# Every stage is a variable that holds a command, so an ablation is a word:
#
#     make -f pipelines/midtrain.mk RUN=runs/b ... SELECT='rf-select --mode uniform'
#     make -f pipelines/midtrain.mk RUN=runs/c ... REWARD='python3 my_reward.py'
#     make -f pipelines/midtrain.mk RUN=runs/d ... N=8
#     make -f pipelines/midtrain.mk RUN=runs/e ... ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM)'
#
# (the last is the baseline, next tokens alone).  A stage reads a stream and writes one.  REWARD may also be a command that
# judges, which rf-reward --exec runs: it is taken for that unless it begins with a program of rf-tools; so a program of
# one's own for streams is REWARD='rf-cat | mine'.
#
# The sequences are shuffled (SEED); when all that fill a batch were used, they are shuffled anew and gone through again.
#
# It may be stopped at any moment: the same words go on, and a larger STEPS goes further.  Other words in the same RUN, or
# files of text that are not what they were, are taken as long as no batch was done, and refused from then on.
#
#     KEEP=1      each step's stream stays in RUN/streams for rf-dump
#     STEPS       batches in all; a batch is a commit, and BATCH / MINI_BATCH optimizer steps
#     COMPUTE     options of the programs that have a model, as '--threads 8 --segment 1024'

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
RF_BIN ?= $(abspath $(HERE)../bin)
export PATH := $(RF_BIN):$(PATH)

STEPS      ?= 100
LEN        ?= 16384
TEXT_KEY   ?= text
BATCH      ?= 128
MINI_BATCH ?= 32
LR         ?= 1e-6
K          ?= 5
N          ?= 1
SEED       ?= 1
COMPUTE    ?=
KEEP       ?=
PHASE      ?= $(RUN)

OPTIM      ?= --mini-batch $(MINI_BATCH) --lr $(LR)
TOKENIZE   ?= rf-tokenize --tokenizer $(MODEL) --text-key $(TEXT_KEY) --max-len $(LEN) --truncate split --min-len 64
ENTROPY    ?= rf-entropy
SELECT     ?= rf-select -k $(K)
ROLLOUT    ?= rf-rollout -k $(K) -n $(N)
REWARD     ?= rf-reward --kind cosine
TRAIN      ?= rf-grpo $(OPTIM)
# A stream of sequences may stand in for CORPUS and TOKENIZE.
DATA       ?= $(RUN)/data/corpus.rf

STAGES := TOKENIZE ENTROPY SELECT ROLLOUT REWARD TRAIN
KNOWN  := RUN MODEL CORPUS DATA STEPS $(STAGES) LEN TEXT_KEY BATCH MINI_BATCH LR K N OPTIM SEED COMPUTE KEEP PHASE
export RUN MODEL CORPUS DATA STEPS $(STAGES) LEN BATCH MINI_BATCH K N SEED COMPUTE KEEP PHASE
include $(HERE)words.mk
need = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))

train:
	$(call need,RUN,where does the run go? RUN=runs/a)
	$(call need,MODEL,which checkpoint? MODEL=ckpt)
	$(if $(filter $(RUN)/data/corpus.rf,$(DATA)),$(call need,CORPUS,which files of text? CORPUS='data/*.jsonl.zst'))
	@$(HERE)steps.sh "$$RUN"

.PHONY: train
