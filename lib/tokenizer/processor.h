/* processor.h -- the post-processor of a tokenizer.json, which puts tokens before and after a text. */
#ifndef RF_PROCESSOR_H
#define RF_PROCESSOR_H

#include "base/err.h"
#include "io/jscan.h"
#include "tokenizer/bpe.h"

/* Reads a post-processor and stores in *before, which is all zero, the ids that the Rust library `tokenizers`
 * puts before a text; the caller frees before->p, also after a failure.  The ids that it puts after a text
 * are not stored.  A value that is missing or null puts nothing.
 *
 * TemplateProcessing, BertProcessing and RobertaProcessing put tokens, with the ids that they themselves
 * give; ByteLevel puts none.  The processors of a Sequence follow each other, each on the parts that the one
 * before it made.  Errors: RF_EMODEL: a processor is of another type, or the result does not have the text
 * exactly once; RF_EDATA: malformed; RF_ENOMEM. */
enum rf_code rf_processor_read(const struct rf_jvalue *json, struct rf_id_list *before, struct rf_err *e);

#endif
