/* pred.h -- a sample of a generation as a line of JSON that the benchmarks' own programs score. */
#ifndef RF_PRED_H
#define RF_PRED_H

#include "base/err.h"
#include "base/print.h"
#include "dump/table.h"

/* Appends the line of the row's sample.  It has the keys of meta, the keys index, input, pred, outputs and
 * others of RULER's programs, and the keys answers, all_classes and length of LongBench's programs.  The
 * input is the text of the prompt, "" without a tokenizer.  Errors: RF_EDATA: the generation has no text, or
 * a token is outside the vocabulary; RF_ENOMEM. */
enum rf_code rf_pred_line(struct rf_buf *p, const struct rf_token_text *w, const struct rf_row *row,
                          struct rf_err *e);

#endif
