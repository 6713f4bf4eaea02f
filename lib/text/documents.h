/* documents.h -- reads documents and encodes them, several at a time if there are threads for it. */
#ifndef RF_DOCUMENTS_H
#define RF_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/sequences.h"

/* A document as ids: bos, text or prompt, answer, end token, as far as it has them. */
struct rf_encoded {
	struct rf_doc doc;
	int32_t *ids;            /* (count), which the caller may move about */
	size_t count, prompt;    /* prompt: how many of them are the text's or the prompt's, bos counted */
	bool ended;              /* the last one is the end token */
	/* the choices: ids are what their contexts have in common; choice i is what follows them, `length[i]`
	   ids behind those of the choices before it, of which the first from[i] are context */
	int32_t *choice, *length, *from;
	bool contexts;           /* any of them has context */
};

struct rf_documents;

/* Reads from text, encodes with tok, as o says; all three stay the caller's.  tok NULL: the documents are ids
 * below vocab.  Errors: RF_ENOMEM. */
enum rf_code rf_documents_open(struct rf_documents **d, const struct rf_sequences_options *o,
                               const struct rf_tokenizer *tok, int vocab, struct rf_text *text,
                               struct rf_err *e);
void rf_documents_close(struct rf_documents *d);        /* d may be NULL */

/* The next document that is for o->split; it is valid until the next call.  Documents, and a failure, come in
 * the order of the text.  Returns RF_EOF after the last one.  Errors: RF_EDATA: the sentence names file and
 * line; those of rf_text_next() and rf_tokenizer_encode(). */
enum rf_code rf_documents_next(struct rf_documents *d, struct rf_encoded **doc, struct rf_err *e);
/* Returns whether the last failure, if it was RF_EDATA, concerned one line only, so that the next document
 * can be read. */
bool rf_documents_goes_on(const struct rf_documents *d);
/* Returns how many of the documents read so far were for the other split. */
uint64_t rf_documents_passed(const struct rf_documents *d);

#endif
