# posttrain.mk -- post-training with ReFINE: your model, your questions and answers.
#
#     make -f pipelines/posttrain.mk RUN=runs/p MODEL=ckpt DATA=train.jsonl.zst METHOD=refine
#
# DATA are files of lines like {"prompt": "...", "answer": "..."}, or a stream (.rf) whose records have a
# response after the first prompt_len tokens.  For each batch the model first adapts to the prompts, as in
# midtrain.mk, and then takes a step on the responses, from the adapted weights.  All these steps are one
# commit: rf-grpo --outer response.
#
#     METHOD=refine    nested ReFINE: steps of ReFINE on the prompts, one on the responses
#            ntp       nested next-token training: next tokens of the prompts, then of the responses
#            sft       next tokens of the responses only
#     INNER_STEPS=matched     ntp and sft take as many optimizer steps for each batch as refine, which is the
#                             fair control
#                 published   as the authors' released trainer does, ntp takes one step on the prompts and sft
#                             one step in all, whatever MINI_BATCH is, while ReFINE takes BATCH / MINI_BATCH
#                             and one more
#                             For refine the word has no effect
#     EPOCHS=1    passes over the data; the last batch of a pass may be smaller.  BATCHES=n: the number of
#                 batches instead
#     PROMPT_KEY=prompt, ANSWER_KEY=answer, META_KEY=
#                 the keys that TOKENIZE reads
#     TRUNCATE=left, MAX_PROMPT=16352, MAX_ANSWER=32
#                 TRUNCATE names the part that a prompt of more than MAX_PROMPT tokens loses: left, middle or
#                 right.  drop leaves out the whole question.  An answer of more than MAX_ANSWER tokens loses
#                 its end.  A message counts such prompts and answers.  The authors' post-training script for
#                 8 K has MAX_PROMPT=8160
#     ANSWER_BLANK=1
#                 a blank before each answer: for tokenizers that add none, such as byte-level ones, after
#                 prompts that do not end with a blank
#     EOS=no      yes: each answer ends with the tokenizer's end token, so the model learns to stop, as in
#                 answers of chats.  no: rf-tokenize --no-eos, for responses of a known length
#     EVALUATE='rf-ntp --eval --loss response'
#                 the loss of EVAL is that of the responses; its rollouts and rewards are of the prompts
#     MEAN=tokens, RL_COEF=0.2
#                 losses are means over tokens or sequences; the weight of the policy's loss
#     ENTROPY, SELECT, ROLLOUT, REWARD, K=5, N=1
#                 as in midtrain.mk.  REWARD='rf-reward --kind random' is the control that every claim of an
#                 effect needs.  Prompts below 40 tokens have no positions for rollouts: give
#                 SELECT='rf-select -k 5 --margin 4', and NO_ROLLOUTS=train for still shorter prompts

HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))
include $(LIB)questions.mk

BATCH         = 64
MINI_BATCH    = 16
EPOCHS        = 1
MAX_ANSWER    = 32
ANSWER_BLANK  =
EOS           = no
RL_COEF       = 0.2
REWARD        = rf-reward --kind hybrid
EVALUATE      = rf-ntp --eval --loss response
TOKENIZE      = $(questions) --answer-key $(call arg,ANSWER_KEY) \
                --max-answer $(call arg,MAX_ANSWER) $(if $(ANSWER_BLANK),--answer-prefix ' ')

eval_part     = --part prompt
no_eos        = $(if $(filter no,$(EOS)),--no-eos)

NUMBERS      += MAX_ANSWER
reals        += RL_COEF
methods       = refine ntp sft
$(checks)
$(call one_of,EOS,no yes)

# A batch takes ceil(its records / MINI_BATCH) + 1 steps; sft takes the same with fewer sequences in each.
as_many       = --records $$((TO - FROM)) --steps $$(((TO - FROM + $(MINI_BATCH) - 1) / $(MINI_BATCH) + 1))
TRAIN         = $(train_$(METHOD)) --mean $(call arg,MEAN)
train_refine  = rf-grpo $(OPTIM) --rl-coef $(call arg,RL_COEF) --outer response
train_ntp     = rf-ntp $(OPTIM)$(one_step) --outer response
train_sft     = rf-ntp $(OPTIM)$(if $(matched), $(as_many),$(one_step)) --loss response
$(if $(and $(FUSED),$(filter sft,$(METHOD)),$(matched),$(filter file,$(origin TRAIN))),$(error FUSED=1: \
METHOD=sft takes as many steps as ReFINE by options that rf-step does not have: leave out FUSED, or say \
INNER_STEPS=published))

SHARES        = $(if $(and $(matched),$(filter sft,$(METHOD))),$(as_many),$(of_step))
LINE          = $(next_batch)$(if $(filter sft,$(METHOD)),, --split-response)$(call \
                one_program,$(adapt)$(call trainer,$(TRAIN)))
