/* documents.h -- reads documents and encodes them, several at a time if there are threads for it. */
#ifndef RF_DOCUMENTS_H
#define RF_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/text.h"
#include "tokenizer/tokenizer.h"

/* The two splits: every valid_every-th document, beginning with the first, is for validation; the others are
 * for training. */
enum rf_split { RF_SPLIT_TRAIN, RF_SPLIT_VALID };
#define RF_SPLIT_WORDS "train|valid"

/* The tokens that a document begins with: none, the tokenizer's bos token, or those that the tokenizer's own
 * files put before a text. */
enum rf_bos { RF_BOS_NO, RF_BOS_YES, RF_BOS_AUTO };
#define RF_BOS_WORDS "no|yes|auto"

struct rf_documents_options {
	enum rf_bos bos;
	bool no_eos;     /* do not add the tokenizer's end token to a document */
	int valid_every; /* 0: all documents are for training */
	enum rf_split split;
	int threads; /* threads that encode; 0: one per available processor */
};
#define RF_DOCUMENTS_DEFAULTS \
	{ \
		.threads = 1 \
	}

/* A document as ids: bos, text or prompt, answer, end token, as far as it has them. */
struct rf_encoded {
	struct rf_doc doc;
	int32_t *ids;         /* (count), which the caller may move about */
	size_t count, prompt; /* number of ids; number of ids of the text or the prompt, with bos */
	bool ended;           /* the last id is the end token */
	/* for choices: `ids` is the common beginning of their contexts.  choice has the ids of all choices
	   one after the other, length[i] ids for choice i, the first from[i] of which still are context */
	int32_t *choice, *length, *from;
	bool contexts; /* some choice has context */
};

struct rf_documents;

/* Opens a reader of documents from text, which encodes them with tok as o says.  The caller keeps ownership
 * of all three.  tok NULL: the documents are ids below vocab.  Errors: RF_ENOMEM. */
enum rf_code rf_documents_open(struct rf_documents **d, const struct rf_documents_options *o,
                               const struct rf_tokenizer *tok, int vocab, struct rf_text *text,
                               struct rf_err *e);
void rf_documents_close(struct rf_documents *d); /* d may be NULL */

/* Reads the next document of the split o->split, valid until the next call.  Documents, and a failure, come
 * in the order of the text.  Returns RF_EOF after the last document.  Errors: RF_EDATA: the sentence names
 * file and line; those of rf_text_next() and rf_tokenizer_encode(). */
enum rf_code rf_documents_next(struct rf_documents *d, struct rf_encoded **doc, struct rf_err *e);
/* Returns whether the last failure, if it was RF_EDATA, concerned one line only, so that the next document
 * can be read. */
bool rf_documents_goes_on(const struct rf_documents *d);
/* Returns the number of documents read so far that belong to the other split. */
uint64_t rf_documents_passed(const struct rf_documents *d);

#endif
