/* sequences.h -- turns documents into sequence records: encodes them, cuts them to length, counts. */
#ifndef RF_SEQUENCES_H
#define RF_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "io/skip.h"
#include "stream/record.h"
#include "text/text.h"
#include "tokenizer/tokenizer.h"

/* What happens to a document that is longer than max_len, or to a prompt that is longer than max_prompt: LEFT
 * and RIGHT are the side that is cut off; DROP leaves out the whole document. */
enum rf_truncate {
	RF_TRUNCATE_UNSAID = -1, /* ERROR for a document, LEFT for a prompt */
	RF_TRUNCATE_ERROR, RF_TRUNCATE_LEFT, RF_TRUNCATE_RIGHT, RF_TRUNCATE_SPLIT, RF_TRUNCATE_MIDDLE,
	RF_TRUNCATE_DROP
};
#define RF_TRUNCATE_WORDS "error|left|right|split|middle|drop"

/* Which documents are taken: every valid_every-th one, beginning with the first, is for validation; the
 * others are for training. */
enum rf_split { RF_SPLIT_TRAIN, RF_SPLIT_VALID };
#define RF_SPLIT_WORDS "train|valid"

/* The tokens that a document begins with: none, the tokenizer's bos token, or those that the tokenizer's own
 * files put before a text. */
enum rf_bos { RF_BOS_NO, RF_BOS_YES, RF_BOS_AUTO };
#define RF_BOS_WORDS "no|yes|auto"

struct rf_sequences_options {
	int max_len;             /* tokens of a sequence at most; 0: only the size of a record is limited */
	int max_prompt;          /* tokens of a prompt at most; 0: any number; not with max_len */
	int max_answer;          /* tokens of an answer at most, its end token not counted; 0: any number */
	bool choices;            /* of max_len only the left side of a prompt can be cut: choices follow it */
	int min_len;             /* shorter sequences are dropped */
	enum rf_truncate truncate;
	enum rf_bos bos;
	bool no_eos;             /* do not add the tokenizer's end token to a document */
	int valid_every;         /* 0: all documents are for training */
	enum rf_split split;
	int vocab;               /* vocabulary size of ids that come without a tokenizer; 0: not given */
	int model_vocab;         /* that of the tokenizer's model, which ids may use up; 0: not known */
	int threads;             /* that encode; 0: one per available processor.  Results are the same */
	/* counts the bad lines, and limits how many are passed over: lines that rf_text_next() refuses, and
	   lines whose document cannot be encoded or cut; NULL: a bad line is an error */
	struct rf_skip *skip;
};
#define RF_SEQUENCES_DEFAULTS { .min_len = 1, .truncate = RF_TRUNCATE_UNSAID, .threads = 1 }

/* Fills opts with the options that set *o. */
void rf_sequences_option_table(struct rf_sequences_options *o, struct rf_opts *opts);

struct rf_sequences;

/* Reads documents from text, which stays the caller's, as does tok.  tok NULL: all files contain token ids,
 * which must be below o->vocab.  With a tokenizer the vocabulary is its own or, if there are files of ids and
 * it is larger, the model's.  max_record: bytes that a record's message may have.  Settles in o
 * what is unsaid.  Errors: RF_EUSAGE: options that cannot be combined; RF_ENOMEM. */
enum rf_code rf_sequences_open(struct rf_sequences **s, struct rf_sequences_options *o,
                               const struct rf_tokenizer *tok, struct rf_text *text, uint64_t max_record,
                               struct rf_err *e);
void rf_sequences_close(struct rf_sequences *s);        /* s may be NULL */
int rf_sequences_vocab(const struct rf_sequences *s);

/* Reads the next record, valid until the next call.  It has an id (0, 1, 2, ...), tokens, and those of
 * prompt_len, answers, source and meta that the document has.  Its tokens are a contiguous piece of
 *
 *     text end      or      prompt answer end      or      prompt      or      ids
 *
 * where `end` is the tokenizer's end token, and max_prompt and max_answer have cut prompt and answer before:
 * an answer that lost its end has no end token, and of a prompt MIDDLE keeps the first half and the last, the
 * first being larger by a token if max_prompt is odd.  Returns RF_EOF after the last record.  Errors:
 * RF_EDATA: the sentence names file and line; and those of rf_text_next().
 *
 * With choices the tokens are what the choices' contexts have in common, and max_len is the length of that
 * with the longest of them. */
enum rf_code rf_sequences_next(struct rf_sequences *s, const struct rf_record **r, struct rf_err *e);

/* Returns how many documents were read so far, without bad lines that were passed over. */
uint64_t rf_sequences_documents(const struct rf_sequences *s);

/* Writes a sentence about the answers that were cut to max_answer so far into buf.  Returns how many there
 * are; 0: there is no sentence. */
uint64_t rf_sequences_shortened(const struct rf_sequences *s, char *buf, size_t size);

/* Writes a sentence about the documents or prompts that --truncate drop left out so far into buf.  Returns
 * how many there are; 0: there is no sentence. */
uint64_t rf_sequences_too_long(const struct rf_sequences *s, char *buf, size_t size);

/* Writes the counts so far into buf and returns buf:
 *
 *     204 documents: 204 kept (12 of them cut), 0 dropped; 310 sequences of 6497638 tokens, 1702 left out
 *
 * With --truncate split the parentheses have the documents of several sequences, "12 of them split", and only
 * where documents lost tokens ", 3 of them cut". */
char *rf_sequences_summary(const struct rf_sequences *s, char *buf, size_t size);

#endif
