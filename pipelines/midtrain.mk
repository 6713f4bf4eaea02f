# midtrain.mk -- mid-training with ReFINE: your model, your text.
#
#     make -f pipelines/midtrain.mk RUN=runs/a MODEL=ckpt CORPUS='data/*.jsonl.zst' STEPS=100
#
# RUN is where the run goes: a Hugging Face checkpoint after each step, log.jsonl with a line for each.  MODEL
# is a checkpoint with its tokenizer, or another run.  CORPUS are files of text: .jsonl or .jsonl.zst, lines
# like {"text": "..."}, .txt or .ids.
# Every stage is a variable that holds a command, so an ablation is a word:
#
#     make -f pipelines/midtrain.mk RUN=runs/b ... SELECT='rf-select --mode uniform'
#     make -f pipelines/midtrain.mk RUN=runs/c ... REWARD='python3 my_reward.py'
#     make -f pipelines/midtrain.mk RUN=runs/d ... N=8
#     make -f pipelines/midtrain.mk RUN=runs/e ... ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM)'
#
# (the last is the baseline, next tokens alone).  A stage reads a stream and writes one.  REWARD may also be a
# command that judges, which rf-reward --exec runs: it is taken for that unless it begins with a program of
# rf-tools; so a program of one's own for streams is REWARD='rf-cat | mine'.
#
# The sequences are shuffled (SEED); when all that fill a batch were used, they are shuffled anew and gone
# through again.
#
# All of that becomes one line of the shell, LINE, which rf-loop(1) runs for each batch.  It may be stopped at
# any moment: the same words go on, and a larger STEPS goes further.  Other words in the same RUN, or files of
# text that are not what they were, are taken as long as no batch was done, and refused from then on.
#
#     KEEP=1      each step's stream stays in RUN/streams for rf-dump, as rf-grpo writes it, with advantages;
#                 of another trainer as it goes in
#     STEPS=100   batches in all; a batch is a commit, and BATCH=128 / MINI_BATCH=32 optimizer steps
#     DATA        a stream of sequences in the place of CORPUS, which TOKENIZE, LEN and TEXT_KEY=text are
#                 about
#     LEN=16384, K=5, N=1, LR=1e-6
#                 tokens of a sequence at most, of a rollout, rollouts of a position, learning rate.  These
#                 and MINI_BATCH are options in the stages' own commands: a stage that is given has those that
#                 it says.  So TRAIN='rf-ntp $(OPTIM)' has the mini-batches and the learning rate, and
#                 TRAIN=rf-ntp has its own
#     SEED=1      of the order of the sequences
#     COMPUTE     options of the programs that have a model, as '--threads 8 --segment 1024'
#     AFTER       a command that is run once after each batch, for the step $$STEP
#     PHASE       what messages begin with, in the place of RUN
#
# Words are taken from the command line, none from the environment.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
HERE := $(dir $(lastword $(MAKEFILE_LIST)))

STEPS      = 100
LEN        = 16384
TEXT_KEY   = text
BATCH      = 128
MINI_BATCH = 32
LR         = 1e-6
K          = 5
N          = 1
SEED       = 1
COMPUTE    =
KEEP       =
AFTER      =
PHASE      = $(RUN)

OPTIM      = --mini-batch $(MINI_BATCH) --lr $(LR)
TOKENIZE   = rf-tokenize --tokenizer $(MODEL) --text-key $(TEXT_KEY) --max-len $(LEN) --truncate split \
             --min-len 64
ENTROPY    = rf-entropy
SELECT     = rf-select -k $(K)
ROLLOUT    = rf-rollout -k $(K) -n $(N)
REWARD     = rf-reward --kind cosine
TRAIN      = rf-grpo $(OPTIM)

NUMBERS := BATCH MINI_BATCH LEN K N
STAGES  := TOKENIZE ENTROPY SELECT ROLLOUT REWARD TRAIN
KNOWN   := $(STAGES) $(NUMBERS) TEXT_KEY LR OPTIM

LINE = rf-cat --range $$FROM:$$TO "$$ORDER"$(call reader,$(ENTROPY))$(call stage,$(SELECT))$(call \
       reader,$(ROLLOUT))$(call judge,$(REWARD))$(call trainer,$(TRAIN))

include $(HERE)loop.mk
