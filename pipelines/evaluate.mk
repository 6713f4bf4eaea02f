# evaluate.mk -- scores of a model: from questions to a table with intervals, and figures.
#
#     make -f pipelines/evaluate.mk RUN=runs/e MODEL=ckpt SUITE=needle LENGTH=4k,8k,16k
#     make -f pipelines/evaluate.mk RUN=runs/f MODEL=runs/a SUITE=needle LENGTH=4k,8k,16k AGAINST=runs/e
#
# RUN/report.md has scores by task and length, and their cost.  RUN/report.html is the same report for a
# browser, with the figures and 20 answers inside.  With AGAINST=another-run, both have the differences,
# question by question; AGAINST must have the same tasks, lengths and questions.  RUN/heat.png has scores by
# length and depth, if questions have a depth.  RUN/scores.png has all scores, with those of AGAINST.
# RUN/questions.rf and RUN/answers are for rf-dump, RUN/scores.jsonl is the output of rf-score, and
# RUN/each.jsonl has a line for each question:
#
#     rf-dump --tsv --rows sample --columns id,answer,written runs/e/answers/*.rf
#
#     SUITE=needle     RULER's kinds of questions, made by rf-needle: TASK=all or their names, LENGTH=4k (512
#                      or more, with commas between), SAMPLES=500 of each, SEED=42, NEEDLE=rf-needle.
#                      NEEDLE='rf-needle --template ruler.json' asks in the words of RULER; ruler-words.py
#                      writes that file.
#                      Some tasks need HAYSTACK=a text, or QA=one or two files of questions; without them
#                      TASK= takes the others.  A task that does not fit a length is left out at this length,
#                      and a message names it; a task that TASK names must fit
#           ruler      DATA='...' are RULER's own files (input, answer_prefix, outputs), which do not name
#                      task and length.  A folder or file has the name of the task, and another the length, as
#                      in 4096/data/vt/validation.jsonl; otherwise give TASK and LENGTH
#           longbench  DATA='...' with prompt, answers, and task or dataset.  Prompts are asked as they are.
#                      The number of new tokens is max_gen_tokens, or the benchmark's number for the task
#           files      DATA='...' of any lines, or a stream of prompts (.rf): PROMPT_KEY=prompt,
#                      ANSWER_KEY=answers.  TASK is the task of all lines; without it their key task names it
#     RULES=official, METRIC=, BY=
#                      options of rf-score.  BY is task, and length if questions have one
#     META_KEY=        more keys of lines that stay with the questions, for BY and rf-dump
#     MAX_NEW=         new tokens of all answers, instead of the benchmark's number; SUITE=files has 32
#     MAX_PROMPT=0     the longest prompt.  A longer one loses the part TRUNCATE=middle (left, right); with
#                      drop its question is left out, and the report counts these.  0: no limit.
#                      MAX_PROMPT=16384 TRUNCATE=drop takes the samples of at most 16 K tokens, as the paper
#                      does with LongBench
#     BOS=no           whether prompts begin with the tokenizer's BOS: rf-tokenize --bos (auto, yes)
#     TOKENIZE, GENERATE
#                      the commands that make questions of lines, and answers of questions
#     BATCH=64         questions in one file of RUN/answers: a kill loses at most this many answers
#     COMPUTE=         options of the programs that have a model, such as '--device cuda --dtype bf16'
#     PHASE            the name with which messages begin, instead of RUN
#
# DATA and QA may name several files, with blanks between, patterns, and names in quotes.  A name may have any
# character except control characters.  Type two dollar signs for one.  RUN has no blank.
#
# It may be stopped at any moment.  The same words go on, with the step of MODEL that they began with.  Other
# words need another RUN, except RULES, METRIC, BY, AGAINST and COMPUTE: scores and report are made again each
# time.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
LIB  := $(HERE)lib/
$(if $(wildcard $(LIB)words.mk),,$(error \
'$(strip $(MAKEFILE_LIST))': make takes a blank, [, * or ? in the path of a makefile \
for something else, so name another path))

RUN         =
MODEL       =
SUITE       = needle
TASK        =
LENGTH      =
SAMPLES     = 500
SEED        = 42
HAYSTACK    =
QA          =
NEEDLE      = rf-needle
DATA        =
PROMPT_KEY  = prompt
ANSWER_KEY = answers
RULES       = official
METRIC      =
BY          = task$(if $(filter needle ruler,$(SUITE)),$(comma)length)
META_KEY    =
MAX_NEW     =
MAX_PROMPT  = 0
TRUNCATE    = middle
BOS         = no
BATCH       = 64
COMPUTE     =
AGAINST     =
PHASE       = $(RUN)

comma := ,
empty :=

# The keys of a suite's lines that rf-tokenize reads: prompt and references, and the keys that it keeps.
keys_needle    = --prompt-key input --prompt-suffix-key answer_prefix --answers-key outputs
keys_ruler     = $(keys_needle)
keys_longbench = --prompt-key prompt --answers-key answers
keys_files     = --prompt-key $(call arg,PROMPT_KEY) --answers-key $(call arg,ANSWER_KEY)
meta_needle    = task,length,depth,max_new_tokens
meta_ruler     = $(meta_needle)
meta_longbench = task,max_new_tokens,stop,all_classes
meta_files     = $(if $(TASK),,task)
meta           = $(meta_$(SUITE))$(if $(META_KEY),$(if $(meta_$(SUITE)),$(comma))$(META_KEY))
TOKENIZE       = rf-tokenize --tokenizer $(call arg,MODEL) $(keys_$(SUITE)) \
                 $(if $(meta),--meta-key $(call arg,meta)) --bos $(call arg,BOS) --no-eos$(if $(filter-out \
                 0,$(MAX_PROMPT)), --max-prompt $(call arg,MAX_PROMPT) --truncate $(call arg,TRUNCATE))
limit          = $(or $(MAX_NEW),$(if $(filter files,$(SUITE)),32))
GENERATE       = rf-generate $(if $(limit),--max-new $(call arg,limit),--max-new-key max_new_tokens)$(if \
                 $(filter longbench,$(SUITE)), --stop-key stop)

# Words that only some suites use.
of_needle    = TASK LENGTH SAMPLES SEED HAYSTACK QA NEEDLE
of_ruler     = TASK LENGTH DATA
of_longbench = TASK DATA
of_files     = TASK DATA PROMPT_KEY ANSWER_KEY
others       = $(filter-out $(of_$(SUITE)),$(sort $(of_needle) $(of_ruler) $(of_longbench) $(of_files)))
OTHERS       = $(others)

FIXED := SUITE TASK LENGTH SAMPLES SEED HAYSTACK QA DATA PROMPT_KEY ANSWER_KEY MAX_NEW BATCH NEEDLE \
         TOKENIZE GENERATE
KNOWN := RUN MODEL $(FIXED) RULES METRIC BY META_KEY MAX_PROMPT TRUNCATE BOS COMPUTE AGAINST PHASE
include $(LIB)words.mk
export $(KNOWN) FIXED OTHERS

# BY names keys that questions keep.
kept    = task $(subst $(comma), ,$(meta))
strange = $(if $(filter file,$(origin TOKENIZE)),$(if $(filter %.rf,$(DATA)),,$(filter-out \
          $(kept),$(subst $(comma), ,$(BY)))))
need   = $(if $(strip $($(1))),,$(error $(1) is not set: $(2)))
unused = $(strip $(foreach word,$(others),$(if $(filter command,$(origin $(word))),$(word))))

evaluate:
	$(check_words)
	$(call need,RUN,where does it go? RUN=runs/e)
	$(call need,MODEL,which checkpoint? MODEL=ckpt)
	$(call one_of,SUITE,needle ruler longbench files)
	$(call one_of,RULES,official refine)
	$(if $(strange),$(error BY=$(BY): questions do not keep the key $(firstword $(strange)): \
		META_KEY=$(firstword $(strange)) keeps it))
	$(if $(unused),$(error $(unused): SUITE=$(SUITE) has no use for that))
	$(if $(filter needle,$(SUITE)),,$(call need,DATA,which questions? DATA='data/*.jsonl'))
	@$(LIB)check.sh numbers 0 $(call values,SEED MAX_PROMPT) \
		1 $(call values,SAMPLES BATCH $(if $(MAX_NEW),MAX_NEW))
	@$(LIB)check.sh stages $(call values,NEEDLE TOKENIZE GENERATE)
	@exec $(LIB)suite.sh

.DEFAULT_GOAL := evaluate
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: evaluate
