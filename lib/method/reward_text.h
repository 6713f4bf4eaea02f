/* reward_text.h -- the text of a record's rollouts, for the command of rf-reward --exec --text. */
#ifndef RF_REWARD_TEXT_H
#define RF_REWARD_TEXT_H

#include <stddef.h>

#include "base/err.h"
#include "stream/record.h"
#include "stream/stream.h"
#include "text/tokenizer.h"

/* Opens the tokenizer that a stream with this head was made with: the one that --tokenizer or --model names,
 * as for rf_tokenizer_open_option(), else, if the head says "bytes", the one for bytes.  The caller frees *t.
 * Errors: RF_EUSAGE: no option names one, and the head does not say "bytes"; RF_EDATA: the head says that the
 * stream was made with another tokenizer; those of rf_tokenizer_open(). */
enum rf_code rf_reward_tokenizer(struct rf_tokenizer **t, const struct rf_head *head, const char *given,
                                 const char *model, struct rf_err *e);

/* Inserts the text of a record with rollouts into its line of JSON, before the last "}": the key "text" with
 * a list of c objects {"prefix": "..", "truth": "..", "rollouts": [".."]}.  Special tokens, and
 * tokens that the tokenizer does not have, have no text.  A character that begins in the prefix's last tokens
 * and ends after the position belongs to the truth and the rollouts.  Bytes that are not UTF-8, such as an
 * incomplete character at the end of a rollout, become U+FFFD.
 * *line: malloc'd, *len bytes; it is replaced, or freed on failure.  Errors: those of rf_tokenizer_text(). */
enum rf_code rf_reward_text(char **line, size_t *len, const struct rf_tokenizer *t, const struct rf_record *r,
                            struct rf_err *e);

#endif
