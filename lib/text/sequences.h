/* sequences.h -- turns documents into sequence records: encodes them, cuts them to length, counts. */
#ifndef RF_SEQUENCES_H
#define RF_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "io/skip.h"
#include "stream/record.h"
#include "text/documents.h"
#include "text/text.h"
#include "tokenizer/tokenizer.h"

/* How to shorten a document that is longer than max_len, or a prompt that is longer than max_prompt: LEFT and
 * RIGHT cut off this side; DROP leaves out the whole document. */
enum rf_truncate {
	RF_TRUNCATE_UNSAID = -1, /* ERROR for a document, LEFT for a prompt */
	RF_TRUNCATE_ERROR,
	RF_TRUNCATE_LEFT,
	RF_TRUNCATE_RIGHT,
	RF_TRUNCATE_SPLIT,
	RF_TRUNCATE_MIDDLE,
	RF_TRUNCATE_DROP
};
#define RF_TRUNCATE_WORDS "error|left|right|split|middle|drop"

struct rf_sequences_options {
	int max_len;    /* most tokens of a sequence; 0: only the size of a record is limited */
	int max_prompt; /* most tokens of a prompt; 0: no limit; not with max_len */
	int max_answer; /* most tokens of an answer, without its end token; 0: no limit */
	bool choices;   /* choices follow, so max_len can cut only the left side of a prompt */
	int min_len;    /* shorter sequences are dropped */
	enum rf_truncate truncate;
	struct rf_documents_options documents;
	int vocab;       /* vocabulary size of ids that come without a tokenizer; 0: not given */
	int model_vocab; /* vocabulary size of the tokenizer's model, a limit for ids; 0: not known */
	/* counts and limits the bad lines that are skipped: lines that rf_text_next() refuses, and lines
	   whose document cannot be encoded or cut; NULL: a bad line is an error */
	struct rf_skip *skip;
};
#define RF_SEQUENCES_DEFAULTS \
	{ \
		.min_len = 1, .truncate = RF_TRUNCATE_UNSAID, .documents = RF_DOCUMENTS_DEFAULTS \
	}

/* Adds the options that set *o. */
void rf_sequences_option_table(struct rf_sequences_options *o, struct rf_opts *opts);

struct rf_sequences;

/* Opens a reader of sequences from text.  The caller keeps ownership of text and tok.  tok NULL: all files
 * contain token ids, which must be below o->vocab.  With a tokenizer the vocabulary is that of the tokenizer
 * or, if some files contain ids and it is larger, that of the model.  max_record: most bytes of a record's
 * message.  Sets the defaults of members of o that were not given.  Errors: RF_EUSAGE: options that cannot
 * be combined; RF_ENOMEM. */
enum rf_code rf_sequences_open(struct rf_sequences **s, struct rf_sequences_options *o,
                               const struct rf_tokenizer *tok, struct rf_text *text, uint64_t max_record,
                               struct rf_err *e);
void rf_sequences_close(struct rf_sequences *s); /* s may be NULL */
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
