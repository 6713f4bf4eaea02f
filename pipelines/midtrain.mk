# midtrain.mk -- mid-training with ReFINE: your model, your text.
#
#     make -f pipelines/midtrain.mk RUN=runs/a MODEL=ckpt CORPUS='data/*.jsonl.zst' BATCHES=100
#
# Each stage is a variable that holds a command, so an ablation is one word:
#
#     make -f pipelines/midtrain.mk RUN=runs/b ... SELECT='rf-select --mode uniform'
#     make -f pipelines/midtrain.mk RUN=runs/c ... SELECT='python3 pipelines/examples/my_selection.py'
#     make -f pipelines/midtrain.mk RUN=runs/d ... REWARD='python3 pipelines/examples/my_reward.py'
#     make -f pipelines/midtrain.mk RUN=runs/e ... N=8
#     make -f pipelines/midtrain.mk RUN=runs/f ... TRAIN='rf-grpo $(OPTIM) --objective cispo --clip 1'
#     make -f pipelines/midtrain.mk RUN=runs/g ... METHOD=ntp
#     make -f pipelines/midtrain.mk RUN=runs/h ... FUSED=1
#
# METHOD=ntp is the baseline, which trains on next tokens only. FUSED=1 trains with one program, rf-step, in
# two thirds of the time, with the same bytes.
#
# A stage reads a stream and writes a stream.  REWARD may also be a command that computes rewards from lines
# of JSON.  rf-reward --exec runs it with REWARD_OPTIONS: every command that does not begin with a program of
# rf-tools is run so.  SELECT may be a command that chooses positions, which rf-select --exec runs with -k K
# and SELECT_OPTIONS.  For a program that reads and writes streams, write REWARD='rf-cat | mine';
# pipelines/examples/my_advantage.py is one (rf-grpo(1)).
#
#     METHOD=refine    ReFINE
#            ntp       next tokens only, by rf-ntp, without ENTROPY, SELECT, ROLLOUT and REWARD.  It trains as
#                      ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM)' does
#     INNER_STEPS=matched     ntp takes as many optimizer steps as refine, BATCH / MINI_BATCH for each batch
#                 published   ntp takes one step for each batch, as the authors' released trainer does
#                             (update_policy_sft_ttt).  With the paper's batches ReFINE takes four, so this
#                             baseline has a quarter of its steps
#                             For refine the word has no effect, so a script may give it for all methods
#     ENTROPY, SELECT, ROLLOUT, REWARD, TRAIN   the stages, in the order of the pipe
#     REFERENCE   a checkpoint whose log-probabilities of the rollouts are added to the stream after ROLLOUT,
#                 for TRAIN='rf-grpo $(OPTIM) --kl-coef 0.04'.  For a divergence from the beginning of the
#                 run it is the checkpoint in MODEL, not a step of RUN
#     K=5, N=1    tokens of a rollout, and rollouts at each position, in the default commands of SELECT and
#                 ROLLOUT
#     EVAL_REWARD, EVAL_SELECT, EVAL_ROLLOUT
#                 with EVAL: the stages that make rollouts of the held-out sequences and reward them.
#                 Positions and random numbers are the same for each step and for all weights, so only the
#                 model differs.  EVAL_REWARD is REWARD if the phase has rollouts.  To compare a baseline,
#                 give it one, such as 'rf-reward --kind cosine'; EVAL_REWARD= makes no rollouts.  The others
#                 are rf-select --mode uniform -k K --draw-step 0 and rf-rollout -k K -n N --draw-step 0.  To
#                 compare runs with different K or N, give both the same commands, such as
#                 EVAL_ROLLOUT='rf-rollout -k 5 -n 1 --draw-step 0'

HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))
include $(LIB)loop.mk

METHOD      = refine
INNER_STEPS = matched

K       = 5
N       = 1

ENTROPY = rf-entropy
SELECT  = rf-select -k $(call arg,K)
ROLLOUT = rf-rollout -k $(call arg,K) -n $(call arg,N)
REFERENCE =
REWARD  = rf-reward --kind cosine
TRAIN   = $(if $(only),rf-grpo $(OPTIM),rf-ntp $(OPTIM)$(one_step))

# The meaning of METHOD and INNER_STEPS.  methods: the methods of the phase.  UNUSED: the stages that a method
# leaves out.  only: not empty if the method has rollouts.  matched: not empty if it takes as many steps as a
# method with rollouts.  step_size: the sequences of a step.  one_step: the option of a trainer that takes one
# step for each batch, unless OPTIM has this option.
methods  = refine ntp
checks   = $(call one_of,METHOD,$(methods))$(call one_of,INNER_STEPS,published matched)$(if $(and \
           $(filter command,$(origin TRAIN)),$(filter command,$(origin INNER_STEPS))),$(error \
           INNER_STEPS has no effect here: TRAIN='$(TRAIN)' says by --mini-batch how many steps it takes))
UNUSED   = $(if $(only),,ENTROPY SELECT ROLLOUT REWARD)
only     = $(filter refine,$(METHOD))
matched  = $(filter matched,$(INNER_STEPS))
step_size = $(call arg,$(if $(matched)$(only),MINI_BATCH,BATCH))
of_step  = --mini-batch $(step_size)
one_step = $(if $(matched)$(findstring $(of_step) ,$(OPTIM) ),, $(of_step))
SHARES   = $(of_step)
adapt    = $(if $(only),$(rollouts))

EVAL_REWARD  = $(if $(filter REWARD,$(UNUSED)),,$(if $(strip $(ROLLOUT)),$(REWARD)))
EVAL_SELECT  = rf-select --mode uniform -k $(call arg,K) --draw-step 0
EVAL_ROLLOUT = rf-rollout -k $(call arg,K) -n $(call arg,N) --draw-step 0

NUMBERS += K N
STAGES  += ENTROPY SELECT ROLLOUT REWARD TRAIN $(if $(EVAL),EVAL_REWARD EVAL_SELECT EVAL_ROLLOUT)
rollouts = $(call model_stage,$(ENTROPY))$(call select_stage,$(SELECT))$(call \
           model_stage,$(ROLLOUT))$(scored)$(call reward_stage,$(REWARD))
scored   = $(if $(REFERENCE), | rf-rollout --score --as ref -m $(other_model) $$COMPUTE)
LINE     = $(next_batch)$(call one_program,$(adapt)$(call trainer,$(TRAIN)))
