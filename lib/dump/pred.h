/* pred.h -- a sample of a generation as a line of JSON that the benchmarks' own programs score. */
#ifndef RF_PRED_H
#define RF_PRED_H

#include "base/err.h"
#include "base/print.h"
#include "dump/table.h"

/* Appends the line of the row's sample: what meta has, and index, input, pred, outputs and others, as RULER's
 * programs have them, and answers, all_classes and length, as LongBench's.  The input is the prompt's text,
 * "" without a tokenizer.  Errors: RF_EDATA: the generation has no text; a token is outside the vocabulary;
 * RF_ENOMEM. */
enum rf_code rf_pred_line(struct rf_buf *p, const struct rf_token_text *w, const struct rf_row *row,
                          struct rf_err *e);

#endif
