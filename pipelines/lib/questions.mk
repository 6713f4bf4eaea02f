# questions.mk -- the common part of posttrain.mk and testtime.mk: DATA may be files of JSON lines with
# prompts, which TOKENIZE reads, and the model adapts to the prompts as in midtrain.mk.

include $(HERE)midtrain.mk

PROMPT_KEY   = prompt
ANSWER_KEY   = answer
META_KEY     =
MAX_PROMPT   = 16352
TRUNCATE     = left
MEAN         = tokens

NUMBERS     += MAX_PROMPT $(if $(EPOCHS),EPOCHS)
REST         = --rest
UNUSED       = $(if $(only),,ENTROPY SELECT ROLLOUT REWARD) $(if $(filter none,$(METHOD)),TRAIN)

which_questions = $(error $(1): which questions? DATA=questions.jsonl)
$(if $(filter command,$(origin CORPUS)),$(call which_questions,CORPUS is a word of mid-training))
$(if $(and $(RUN),$(if $(filter command,$(origin DATA)),,no)),$(call which_questions,DATA is not set))
ifneq ($(filter-out %.rf,$(DATA)),)
# the name of a stream may have blanks, or stand in quotes
stream := $(if $(findstring .rf,$(DATA)),$(shell $(LIB)files.sh --stream $(call values,DATA)))
ifneq ($(stream),)
override DATA := $(stream)
else
override CORPUS := $(DATA)
override DATA = $(RUN)/data/corpus.rf
endif
endif

# The option for prompts without an end token, and for such answers unless the phase has EOS.
no_eos = --no-eos

# refuse WORDS,WHY: stops where one of them was given
refuse = $(foreach word,$(1),$(if $($(word)),$(error $(word) is not possible here: $(2))))
$(call refuse,LONG,it is a word of mid-training. MAX_PROMPT is the length of prompts)
# prompts have no expected length
advice =

questions = rf-tokenize --tokenizer $(call arg,MODEL) --prompt-key $(call arg,PROMPT_KEY) \
            --max-prompt $(call arg,MAX_PROMPT) --truncate $(call arg,TRUNCATE) $(no_eos) \
            $(if $(META_KEY),--meta-key $(call arg,META_KEY))
