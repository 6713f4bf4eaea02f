# Words that all phases of training have, with the values of mid-training unless the phase has its own:
#
#     RUN         the folder of the run: a Hugging Face checkpoint after each step, and log.jsonl with a line
#                 for each step
#     MODEL       the checkpoint that the run begins from, with its tokenizer; or another run
#     CORPUS      files of text: .jsonl or .jsonl.zst with lines like {"text": "..."}, .txt or .ids
#     DATA        a stream of sequences, instead of CORPUS
#     TOKENIZE    the command that makes sequences of CORPUS, with LEN=16384 tokens at most.  It reads
#                 the key TEXT_KEY=text of lines of JSON.  The default of mid-training is 'rf-tokenize
#                 --tokenizer MODEL --text-key text --max-len 16384 --truncate split --min-len 64'.  Appended
#                 are -o DATA, the files, and, for rf-tokenize with text and no tokenizer, --tokenizer MODEL
#     LONG=1      mid-training only: the paper's sequences.  These are the first LEN tokens of texts that have
#                 at least LEN, without an end token: '--max-len 16384 --truncate right --min-len 16384
#                 --no-eos' in the default of TOKENIZE.  Without LONG every text of at least 64 tokens is
#                 trained on, in pieces of at most LEN.  If the sequences of a run's first batch have less
#                 than half of LEN tokens on average, a message says so
#     SKIP_BAD=0  the number of bad lines of CORPUS that are skipped, and counted in a message, before a bad
#                 line is an error: rf-tokenize --skip-bad.  It has no effect on another program in TOKENIZE
#     BATCHES=100 batches of the whole run; each is one commit.  EPOCHS=n: passes over the data instead
#     BATCH=128   sequences of a batch
#     MINI_BATCH=32, LR=1e-6
#                 sequences of an optimizer step, and its learning rate.  They are OPTIM, the default options
#                 of the trainer; TRAIN='rf-ntp $(OPTIM)' has them, too.  `--total-steps auto` in the
#                 trainer's command stands for the steps of all batches
#     SEED=1      of the order of the sequences, which is drawn again when too few are left for a batch
#     KEEP=1      the stream of each step stays in RUN/streams for rf-dump: as rf-grpo writes it, with
#                 advantages, or as another trainer reads it.  With LAUNCH every rank keeps its share of a
#                 batch: rank 0 in step-000000.rf, rank 1 in step-000000.rf.1.  rf-dump
#                 RUN/streams/step-000000.rf* shows all of them
#     COMPUTE     options of the programs that have a model, such as '--threads 8 --segment 1024'
#     LAUNCH      a launcher that starts the line of each batch several times: LAUNCH='mpirun -n 4 --bind-to
#                 none', LAUNCH='srun --mpi=pmix -n 16'; see rf-ranks(7).  It may differ from call to call:
#                 the bytes are the same for any number of ranks.  If the steps of TRAIN are not those of
#                 MINI_BATCH, give SHARES the same option as TRAIN, such as SHARES='--mini-batch 8'
#     FUSED=1     one program, rf-step, instead of all stages from ENTROPY to TRAIN: the same bytes in
#                 less time.  It takes the options of the stages, which must be the programs of rf-tools
#                 (only REWARD may be a command for lines of JSON).  An error names an option that rf-step
#                 does not have.  All batches of an epoch are then one line
#     COMMIT_EVERY=1
#                 with FUSED: batches between two commits, or a time such as 30s, 10m, 2h.  EVAL and AFTER
#                 come after each commit, and need a number.  It may differ from call to call
#     EVAL        held-out sequences (.rf): RUN/eval.jsonl has a line for step 0 and for the step after each
#                 EVERY=1 batches, with their loss and accuracies.  The command in EVALUATE, by default
#                 'rf-ntp --eval', computes them.  A phase that trains with ReFINE also records the mean
#                 reward of their rollouts: see EVAL_REWARD in midtrain.mk.  curves.mk draws them
#     REWARD_OPTIONS='--text --no-hidden'
#                 options of rf-reward --exec if REWARD is a command for lines of JSON.  The command gets
#                 text and tokens, but no hidden states.  REWARD_OPTIONS= sends hidden states instead of text,
#                 REWARD_OPTIONS=--no-hidden tokens only, which needs no tokenizer
#     SELECT_OPTIONS='--text --no-hidden'
#                 options of rf-select --exec if SELECT is a command for lines of JSON.  The command also gets
#                 the text of each token; SELECT_OPTIONS=--no-hidden sends tokens and entropies only
#     NO_ROLLOUTS=stop
#                 stop: if no record of a batch has rollouts, because all are too short for a position, a
#                 phase that trains with ReFINE ends before this batch; train: it trains the batch on next
#                 tokens only.  It may differ from call to call
#     KEEP_STEPS=2
#                 the number of newest steps that RUN keeps; it may differ from call to call
#     KEEP_BEST=nll
#                 with EVAL: RUN/best is the step with the lowest loss in RUN/eval.jsonl, however many steps
#                 are kept.  accuracy, ntp_accuracy and reward: the step with the highest value.  It may
#                 differ from call to call: RUN/best is then the best of the steps that RUN still has, and a
#                 message names a better step that was removed
#     AFTER       a command that is run once after each batch, for the step $$STEP
#     PHASE       the name with which messages begin, instead of RUN
#
# CORPUS, and DATA of posttrain.mk and testtime.mk, may name several files, with blanks between, patterns such
# as 'data/*.jsonl', and names in quotes.  A name may have any character except control characters.  Type two
# dollar signs for one.  RUN has no blank.  Only words that hold commands or options are run.
#
# Words are taken from the command line, and none from the environment.  Training may be stopped at any
# moment: the same words go on, and a larger BATCHES goes further.  Until the first batch is done, words on
# which the prepared data do not depend may change, and so may the scripts and settings that a stage's command
# names, such as my_reward.py.  The files that a script imports are not compared.  After the first batch other
# words are refused, except LR, the name of RUN, and the words that change no results, such as BATCHES, EVAL,
# AFTER and KEEP_STEPS.
# RUN/manifest.json has the words as they were typed, hashes of all of these, versions and the device: rf-dump
# RUN shows it.

# loop.mk -- the part that all phases of training include first: the words above, the functions of which a
# phase composes LINE, and the call of rf-loop(1), which runs LINE for each batch.
#
# A phase assigns its own words and its own defaults of these.  It adds to NUMBERS the words that must be
# whole numbers from 1 on, to reals those that must be numbers, and to STAGES those that hold commands, and
# assigns LINE.  Inside a command the value of a word is $(call arg,WORD), so that the shell acts on no
# character of it.  Words that hold commands or options are used as they were typed; a phase lists its own
# such words in COMMANDS before it includes this file.  Every word that one of the two files assigns may stand
# on make's command line.  LINE identifies the run, so it must not contain what may change from one day to the
# next: such things come through the environment, COMPUTE from this file, the others from rf-loop.
# midtrain.mk is an example.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
LIB := $(dir $(lastword $(MAKEFILE_LIST)))

RUN        =
MODEL      =
CORPUS     =
DATA       = $(RUN)/data/corpus.rf
LEN        = 16384
TEXT_KEY   = text
TOKENIZE   = rf-tokenize --tokenizer $(call arg,MODEL) --text-key $(call arg,TEXT_KEY) \
             --max-len $(call arg,LEN) $(pieces)
LONG       =
SKIP_BAD   =
BATCHES    = 100
EPOCHS     =
BATCH      = 128
MINI_BATCH = 32
LR         = 1e-6
OPTIM      = --mini-batch $(step_size) --lr $(call arg,LR)
SEED       = 1
KEEP       =
COMPUTE    =
LAUNCH     =
FUSED      =
COMMIT_EVERY = 1
EVAL       =
EVERY      = 1
EVALUATE   = rf-ntp --eval
REWARD_OPTIONS = --text --no-hidden
SELECT_OPTIONS = --text --no-hidden
NO_ROLLOUTS = stop
KEEP_STEPS =
KEEP_BEST  =
AFTER      =
PHASE      = $(RUN)

# Words of phases.  step_size: the sequences of a step.  SHARES: the options by which a batch is divided among
# ranks, for the same steps as the trainer takes.  REST: --rest.  OUTPUTS: the folder of a batch's output in
# RUN.  COUNT: whether commits or outputs say that a batch is done.  ANSWER: the command that makes the output
# after a commit, the same for all of the run.  checks: more checks of words.
step_size  = $(call arg,MINI_BATCH)
SHARES     = --mini-batch $(step_size)
REST       =
ORDER      = shuffle
OUTPUTS    =
COUNT      = commits
ANSWER     =
checks     =

# The stages that the line leaves out, whatever their values.
UNUSED  =
NUMBERS = BATCH MINI_BATCH LEN EVERY
STAGES  = TOKENIZE EVALUATE
reals   = LR

# The words that this file, the phase's file, and the files that it includes assign.
known = $(filter-out SHELL HERE LIB NUMBERS STAGES UNUSED LINE KNOWN TRAIN_OPTIONS RF_WORDS \
        COMMANDS,$(shell \
        sed -n 's/^\([A-Z][A-Z0-9_]*\) *[:?]\{0,1\}=.*/\1/p' \
        $(foreach f,$(LIB)loop.mk $(filter-out $(LIB)loop.mk,$(MAKEFILE_LIST)),$(call quote,$(f)))))
KNOWN = $(eval KNOWN := $$(known))$(KNOWN)
include $(LIB)words.mk

# The parts of LINE: the sequences of the next batch; a stage that reads a stream and writes one; a stage that
# also reads the model; stages that compute rewards or choose positions, by a program of rf-tools or by any
# command; the trainer.  An empty stage is left out, and blanks between the parts do not matter.
next_batch   = rf-cat --range $$FROM:$$TO $${SHARD:+$$SHARD $(SHARES)} "$$ORDER"
stage        = $(if $(strip $(1)), | $(strip $(1)))
model_stage  = $(if $(strip $(1)),$(call stage,$(1)) -m "$$STEP" $$COMPUTE)
program      = $(notdir $(firstword $(1)))
# by_command PROGRAM,COMMAND,OPTIONS: COMMAND, or if that is no program of rf-tools, PROGRAM that runs it
by_command   = $(if $(filter-out rf-%,$(call program,$(2))),$(1) --exec $(call quote,$(2)) $(strip $(3)) \
               $(if $(filter -m --model --model=% --tokenizer --tokenizer=%,$(3)),,-m "$$RUN"),$(2))
rewards      = $(call by_command,rf-reward,$(1),$(REWARD_OPTIONS))
reward_stage = $(call stage,$(call rewards,$(1)))
selects      = $(call by_command,rf-select -k $(call arg,K),$(1),$(SELECT_OPTIONS))
select_stage = $(call stage,$(call selects,$(1)))
# --total-steps auto in a trainer's command becomes the steps of all batches.
auto_steps   = $(findstring --total-steps auto,$(subst --total-steps=auto,--total-steps auto,$(1)))
all_steps    = $$((BATCHES * $(or $(shell $(LIB)steps.sh $(call quote,$(BATCH)) $(call quote,$(1))),$(error \
               TRAIN: its steps are not known))))
fill         = $(if $(auto_steps),$(subst --total-steps auto,--total-steps $(all_steps),$(subst \
               --total-steps=auto,--total-steps auto,$(1))),$(1))
trains       = $(call fill,$(1)) -m "$$RUN" $$COMPUTE $(call trainer_options,$(1)) $$KEEP_OPTIONS --at $$AT \
               $$RANKS --log "$$RUN/log.jsonl"
# options of a trainer of rollouts that may change from call to call
trainer_options = $(if $(filter rf-grpo,$(call program,$(1))),$$TRAIN_OPTIONS)
# rf-grpo writes the stream that is kept, with advantages; for another trainer its input is kept.
kept         = if [ "$$STREAM" ]; then rf-cat -o "$$STREAM" && rf-cat "$$STREAM"; else cat; fi
# one_program STAGES: with FUSED the program that replaces these stages, from ENTROPY to TRAIN.  fused,
# reference: its options.
one_program  = $(if $(FUSED), | $(call fill,rf-step $(fused))$(reference) -m "$$RUN" $$COMPUTE \
               $(call trainer_options,$(TRAIN)) $$KEEP_OPTIONS --at $$AT --batch $$SIZE $$RANKS \
               --commit-every "$$COMMIT_EVERY" --log "$$RUN/log.jsonl" $${STREAM:+-o "$$STREAM"},$(1))
fused        = $(eval fused := $$(call printed_or_why,$$(shell PATH=$$(call quote,$$(PATH)) $(LIB)fused.sh \
               METHOD=$$(METHOD) $$(call values,KEEP REWARD_OPTIONS TRAIN) \
               $$(call values,$$(filter-out $$(UNUSED),ENTROPY SELECT ROLLOUT REWARD)))))$(fused)
reference    = $(if $(REFERENCE), --reference $(other_model))
other_model  = $(if $(filter $(abspath $(RUN)) $(abspath $(RUN))/%,$(abspath $(REFERENCE))),$(error \
               REFERENCE is a step of RUN, which changes or is removed: give the checkpoint in \
               MODEL),$(call arg,REFERENCE))
trainer      = $(if $(filter rf-grpo,$(call program,$(1))), | $(trains) $${STREAM:+-o "$$STREAM"}, \
               | $(kept) | $(trains))

# pieces: which texts are taken, and how those of more than LEN tokens are cut.  advice: the end of the
# message about short sequences.
pieces    = $(if $(LONG),--truncate right --min-len $(call arg,LEN) --no-eos,--truncate split --min-len 64)
advice    = $(if $(and $(own),$(findstring $(pieces),$(TOKENIZE))),$(longer),$(smaller))
longer    = LONG=1 takes only texts of at least LEN tokens, as the paper does; otherwise give a smaller LEN
smaller   = LEN is the length that sequences are expected to have: give a smaller LEN

# yes if DATA is made of CORPUS
own       = $(if $(subst x$(RUN)/data/corpus.rf,,x$(DATA)),,yes)
files     = $(eval files := $$(if $$(CORPUS),$$(call files_of,CORPUS)))$(files)
also      = , since EVAL and AFTER come after each commit
need      = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))
# An option is added only if it is needed, because the command is one of the run's words.
tokenizer = $(if $(filter --tokenizer --tokenizer=% --bytes --vocab --vocab=% ids \
            %.ids %.ids.zst,$(TOKENIZE) $(CORPUS)),, --tokenizer $(call arg,MODEL))
skip_bad  = $(if $(filter-out 0,$(SKIP_BAD)), --skip-bad $(call arg,SKIP_BAD))
made_by   = $(TOKENIZE)$(if $(filter rf-tokenize,$(call program,$(TOKENIZE))),$(tokenizer)$(skip_bad))
make_data = $(made_by) -o "$$DATA" -- $(files)
lasts     = $(if $(batches_given),,$(EPOCHS))
both      = $(if $(1),$(if $(2),$(1) && $(2),$(1)),$(2))
# The rollouts of EVAL and their rewards, for the weights $1.
eval_line = $(if $(strip $(EVAL_REWARD)),rf-cat $(eval_part) "$$EVAL"$(call select_stage,$(EVAL_SELECT)) | \
            $(strip $(EVAL_ROLLOUT)) -m "$$1" $$COMPUTE | $(strip $(call rewards,$(EVAL_REWARD))))
evaluates = $(if $(EVAL),$(call quote,$(LIB)eval-step.sh))
and_after = $(call both,$(ANSWER),$(call both,$(evaluates),$(AFTER)))
fixed     = $(if $(own),$${hashes:-no files})$(if $(ANSWER),$(if $(own), )answered by $$ANSWER)
TRAIN_OPTIONS = $(if $(filter stop,$(NO_ROLLOUTS)),--need-rollouts)
KEEP_OPTIONS  = $(if $(KEEP_STEPS),--keep $(KEEP_STEPS))
export TRAIN_OPTIONS KEEP_OPTIONS KEEP_BEST

# The words that were typed, for the run's manifest: lines NAME=VALUE.  A line that begins with a blank
# continues the value before.
define newline


endef
as_typed  = <word>$(1)=$(subst $(newline),$(newline) ,$(typed_$(1)))
typed     = PIPELINE=$(notdir $(firstword $(MAKEFILE_LIST))) $(foreach \
            v,$(sort $(filter-out RF_BIN,$(filter $(KNOWN),$(given)))),$(call as_typed,$(v)))
RF_WORDS  = $(subst <word>,$(newline),$(subst $() <word>,<word>,$(typed)))
export RUN MODEL DATA BATCHES BATCH SEED COMPUTE LAUNCH COMMIT_EVERY PHASE LINE ANSWER ORDER EVAL EVERY \
       RF_WORDS EVALUATE make_data and_after lasts eval_line

# The sentence of RUN/data/status if the run was stopped on request; make ends with it.
stopped = $(shell sed -n 's/^75\t\(.*asked: .*\)$$/\1/p' $(call quote,$(RUN)/data/status) 2>/dev/null)
train: batches
	@$(if $(stopped),$(error $(RUN): $(stopped) (status 75)))

batches:
	$(check_words)
	$(checks)
	$(if $(and $(batches_given),$(filter command,$(origin EPOCHS))),$(error \
		BATCHES and EPOCHS cannot be combined: each says how many batches))
	$(call need,LINE,the phase's file must assign it)
	$(call need,RUN,where does the run go? RUN=runs/a)
	$(call need,MODEL,which checkpoint? MODEL=ckpt)
	$(if $(and $(LAUNCH),$(KEEP),$(filter-out rf-grpo,$(call program,$(TRAIN)))),$(error \
		KEEP and LAUNCH need rf-grpo, each rank of which writes a file of its own))
	$(if $(FUSED),$(call switch,FUSED)$(if $(findstring rf-step,$(LINE)),,$(error \
		FUSED=1: this phase has no line of rf-step)),$(if \
		$(filter command,$(origin COMMIT_EVERY)),$(error \
		COMMIT_EVERY needs FUSED=1: without it each batch is a line and a commit)))
	$(if $(and $(ANSWER),$(filter-out 1,$(COMMIT_EVERY))),$(error \
		COMMIT_EVERY is not possible here: a batch is answered before the next one begins))
	$(call one_of,NO_ROLLOUTS,stop train)
	$(if $(filter probability,$(KEEP_BEST)),$(error \
		KEEP_BEST='probability': this figure is called ntp_accuracy))
	$(if $(KEEP_BEST),$(call one_of,KEEP_BEST,nll accuracy ntp_accuracy reward))
	$(if $(KEEP_BEST),$(if $(EVAL),,$(error \
		KEEP_BEST needs EVAL: the held-out sequences that steps are judged by)))
	$(if $(filter reward,$(KEEP_BEST)),$(if $(eval_line),,$(error \
		KEEP_BEST=reward needs EVAL_REWARD: without it no rollouts of EVAL are rewarded)))
	$(if $(LONG),$(call switch,LONG)$(if $(own),,$(error \
		LONG has no effect here: DATA='$(DATA)' is a stream whose sequences are made))$(if \
		$(findstring $(pieces),$(TOKENIZE)),,$(error \
		LONG has no effect here: TOKENIZE='$(TOKENIZE)' says by itself which texts it takes)))
	$(if $(own),,$(if $(filter command,$(origin SKIP_BAD)),$(error \
		SKIP_BAD has no effect here: DATA='$(DATA)' is a stream, which has no bad lines)))
	$(if $(own),$(call need,CORPUS,which files of text? CORPUS='data/*.jsonl.zst'))
	@$(LIB)check.sh numbers 0 $(call values,BATCHES SEED $(if $(SKIP_BAD),SKIP_BAD)) \
		1 $(call values,$(NUMBERS) $(if $(KEEP_STEPS),KEEP_STEPS)) any $(call values,$(reals))
	@[[ $$COMMIT_EVERY =~ ^[1-9][0-9]{0,8}$(if $(and_after),,[smh]?)$$ ]] || { \
		printf "COMMIT_EVERY='%s': %s\n" "$$COMMIT_EVERY" \
		'it must be a number of batches$(if $(and_after),$(also), or a time such as 10m)' >&2; \
		exit 64; }
	@$(LIB)check.sh stages $(call values,$(STAGES))
	@$(LIB)scripts.sh $(call values,$(filter EVALUATE EVAL_%,$(STAGES))) >/dev/null
	@$(if $(EVAL),$(LIB)eval-step.sh check "$$MODEL")
	@$(if $(KEEP_BEST),$(LIB)eval-step.sh keep)
	@$(if $(and $(KEEP),$(LAUNCH)), \
		printf '%s: every rank keeps its share of a batch: %s/streams/step-*.rf*\n' \
		$(call quote,$(or $(PHASE),$(RUN))) $(call quote,$(RUN)) >&2)
	@$(if $(own),hashes=$$($(LIB)check.sh hashes $(files));) \
		scripts=$$($(LIB)scripts.sh \
		$(call values,$(filter-out EVALUATE EVAL_% $(UNUSED),$(STAGES)))); \
		exec rf-loop -m "$$RUN" --from "$$MODEL" --data "$$DATA" \
		$(if $(own),--make "$$make_data") $(if $(fixed),--words "$(fixed)") \
		$${scripts:+--scripts "$$scripts"} \
		$(if $(lasts),--epochs "$$lasts",--batches "$$BATCHES") --batch "$$BATCH" $(REST) \
		--order "$$ORDER" --seed "$$SEED" \
		$(if $(advice),--len $(call arg,LEN) --len-advice $(call quote,$(advice))) \
		$(if $(OUTPUTS),--outputs $(call arg,OUTPUTS) --count $(call arg,COUNT)) \
		$(if $(and_after),--after "$$and_after") $(if $(LAUNCH),--launch "$$LAUNCH") \
		$(if $(and $(FUSED),$(filter commits,$(COUNT))),--many --commit-every "$$COMMIT_EVERY") \
		--stop-status 0 $(if $(KEEP),--keep-streams) --phase "$${PHASE:-$$RUN}" -- "$$LINE"

.DEFAULT_GOAL := train
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: train batches
