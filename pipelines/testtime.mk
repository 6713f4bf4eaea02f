# testtime.mk -- test-time training with ReFINE: the model adapts to a batch of prompts, then answers it.
#
#     make -f pipelines/testtime.mk RUN=runs/t MODEL=ckpt DATA=test.jsonl.zst METHOD=refine RESET=no
#
# DATA are files of lines like {"prompt": "...", "answers": ["...", ...]}, or a stream of prompts (.rf).  The
# answers in DATA are references that no training reads; ANSWER_KEY= leaves them out.  The answers of the
# model are in RUN/answers/batch-000000.rf and so on: rf-dump --tsv --rows sample RUN/answers/*.rf
#
#     METHOD=refine    ReFINE on the prompts
#            ntp       next tokens of the prompts
#            none      no training
#     INNER_STEPS=matched     ntp takes as many optimizer steps for each batch as refine, which is the fair
#                             control
#                 published   ntp takes one step for each batch, whatever MINI_BATCH is, as the authors'
#                             released trainer does, while ReFINE takes BATCH / MINI_BATCH
#                             For refine and none the word has no effect
#     RESET=no         weights and moments go on from batch to batch, as published
#           batch      every batch begins at MODEL with fresh moments.  Its answers stay, its steps do not.
#                      RUN/adapted.jsonl has the loss on a batch's prompts before and after
#     ORDER=file       the order of the prompts; shuffle: drawn with SEED=1
#     GENERATE         the command that answers, with at most MAX_NEW=32 tokens.  If it samples, --draw-step 0
#                      gives all methods the same random numbers
#     PROMPT_KEY=prompt, ANSWER_KEY=answers, META_KEY=, MAX_PROMPT=16352, TRUNCATE=middle
#                      the keys that TOKENIZE reads, and the part that a longer prompt loses.  TRUNCATE=drop
#                      leaves out prompts longer than MAX_PROMPT; they are not answered.  The authors'
#                      test-time script has 16352, too; their post-training script for 8 K has 8160
#     MEAN=tokens, RL_COEF=0.4
#                      losses are means over tokens or sequences; the weight of the policy's loss
#     ENTROPY, SELECT, ROLLOUT, REWARD, K=5, N=1
#                      as in midtrain.mk; REWARD='rf-reward --kind random' is a control

HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))
include $(LIB)questions.mk

BATCH        = 8
MINI_BATCH   = 4
EPOCHS       = 1
RESET        = no
ORDER        = file
ANSWER_KEY   = answers
TRUNCATE     = middle
MAX_NEW      = 32
RL_COEF      = 0.4
REWARD       = rf-reward --kind binary
GENERATE     = rf-generate --max-new $(call arg,MAX_NEW)
TOKENIZE     = $(questions) $(if $(ANSWER_KEY),--answers-key $(call arg,ANSWER_KEY))

NUMBERS     += MAX_NEW
reals        += RL_COEF
STAGES      += GENERATE
methods      = refine ntp none
$(checks)
$(call one_of,RESET,no batch)

carries      = $(filter no,$(RESET)$(filter none,$(METHOD)))
TRAIN        = $(or $(train_$(METHOD)),rf-ntp) --mean $(call arg,MEAN)
train_refine = rf-grpo $(OPTIM) --rl-coef $(call arg,RL_COEF)
train_ntp    = rf-ntp $(OPTIM)$(one_step)
prompts      = $(next_batch) --part prompt
answer       = $(next_batch) | $(GENERATE) -m $(1) $$COMPUTE -o "$$OUTPUT"
adapts       = $(prompts)$(if $(FUSED), | rf-step $(fused)$(reference) --batch 0,$(adapt) | $(TRAIN))
reset        = rm -rf "$$RUN"/.adapted.tmp-* && $(adapts) -m "$$STEP" $$COMPUTE \
               $(call trainer_options,$(TRAIN)) \
               --weights-out "$$RUN/adapted" && \
               $(prompts) | $(call quote,$(LIB)adapted.sh) && \
               $(call answer,"$$RUN/adapted")

OUTPUTS      = answers
COUNT        = $(if $(carries),commits,outputs)
ANSWER       = $(if $(carries),$(call answer,"$$STEP"))
$(if $(and $(FUSED),$(filter none,$(METHOD))),$(error FUSED=1: METHOD=none trains nothing))
$(if $(carries),,$(call refuse,KEEP EVAL AFTER LAUNCH,steps are for RESET=no and METHOD=refine or ntp only))
LINE         = $(if $(carries),$(prompts)$(call one_program,$(adapt)$(call trainer,$(TRAIN))),$(if $(filter \
               none,$(METHOD)),$(call answer,"$$STEP"),$(reset)))
