/* reward_text.h -- the text of a record's rollouts, for the command of rf-reward --exec --text. */
#ifndef RF_REWARD_TEXT_H
#define RF_REWARD_TEXT_H

#include "base/buf.h"
#include "base/err.h"
#include "stream/record.h"
#include "tokenizer/tokenizer.h"

/* Appends the text of a record with rollouts as JSON: a list of c objects
 * {"prefix": "..", "truth": "..", "rollouts": [".."]}.  The text of a rollout ends where the rollout ends.
 * Special tokens, and tokens that the tokenizer does not have, have no text.  A character that begins in the
 * prefix's last tokens and ends after the position belongs to the truth and the rollouts.  Bytes that are not
 * UTF-8, such as an incomplete character at the end of a rollout, become U+FFFD.  Errors: RF_ENOMEM; those of
 * rf_tokenizer_text(). */
enum rf_code rf_reward_text(const struct rf_tokenizer *t, const struct rf_record *r, struct rf_buf *b,
                            struct rf_err *e);

#endif
