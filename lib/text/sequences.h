/* sequences.h -- from documents to sequence records: encode, cut to length, count. */
#ifndef RF_SEQUENCES_H
#define RF_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "stream/record.h"
#include "text/text.h"
#include "text/tokenizer.h"

/* What happens to a document that is longer than max_len: LEFT and RIGHT are the side that is cut off. */
enum rf_truncate { RF_TRUNCATE_ERROR, RF_TRUNCATE_LEFT, RF_TRUNCATE_RIGHT, RF_TRUNCATE_SPLIT };
#define RF_TRUNCATE_WORDS "error|left|right|split"

/* Which documents are taken: every valid_every-th is for validation, the others are for training. */
enum rf_split { RF_SPLIT_TRAIN, RF_SPLIT_VALID };
#define RF_SPLIT_WORDS "train|valid"

struct rf_sequences_options {
	int max_len;             /* tokens of a sequence; 0: no bound but the record's */
	int min_len;             /* shorter ones are dropped */
	enum rf_truncate truncate;
	bool no_eos;             /* a text does not end with the tokenizer's end token */
	int valid_every;         /* 0: all documents are for training */
	enum rf_split split;
	int vocab;               /* ids without a tokenizer; 0: not said */
};
#define RF_SEQUENCES_DEFAULTS { .min_len = 1 }

/* The options of *o. */
enum { RF_SEQUENCES_OPTS = 8 };
void rf_sequences_option_table(struct rf_sequences_options *o, struct rf_opt opts[RF_SEQUENCES_OPTS]);

struct rf_sequences;

/* Takes from text, which stays the caller's.  tok NULL: all files hold ids, and o->vocab says below what they
 * are.  RF_EUSAGE: options that do not go together. */
enum rf_code rf_sequences_open(struct rf_sequences **s, const struct rf_sequences_options *o,
                               const struct rf_tokenizer *tok, struct rf_text *text, uint64_t max_record,
                               struct rf_err *e);
void rf_sequences_close(struct rf_sequences *s);        /* NULL is fine */
int rf_sequences_vocab(const struct rf_sequences *s);

/* The next record, valid until the next call: id 0, 1, 2, ..., tokens, and what the document has of
 * prompt_len, answers, source and meta.  Its tokens are a piece without gaps of
 *
 *     text end      or      prompt answer end      or      prompt      or      ids
 *
 * where `end` is the tokenizer's end token.  RF_EOF after the last; RF_EDATA names file and line. */
enum rf_code rf_sequences_next(struct rf_sequences *s, const struct rf_record **r, struct rf_err *e);

/* "204 documents: 204 kept (12 of them cut), 0 dropped; 310 sequences of 6497638 tokens, 1702 left out". */
char *rf_sequences_summary(const struct rf_sequences *s, char *buf, size_t size);

#endif
