/* ask_text.h -- the text of tokens for a command that answers lines of JSON (ask.h). */
#ifndef RF_ASK_TEXT_H
#define RF_ASK_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "stream/stream.h"
#include "tokenizer/tokenizer.h"

/* Opens the tokenizer that made a stream with this head: the tokenizer that --tokenizer or --model names, as
 * for rf_tokenizer_open_option(), or the byte tokenizer, if the head names it.  The caller frees *t.  Errors:
 * RF_EUSAGE: no option names a tokenizer, and the head does not name the byte tokenizer; RF_EDATA: the head
 * names another tokenizer; those of rf_tokenizer_open(). */
enum rf_code rf_ask_tokenizer(struct rf_tokenizer **t, const struct rf_head *head, const char *given,
                              const char *model, struct rf_err *e);

/* Decodes n tokens as rf_tokenizer_text() does.  Tokens outside the vocabulary have no text, because a
 * model's vocabulary may be padded.  known: room for n ids.  Errors: those of rf_tokenizer_text(). */
enum rf_code rf_ask_decode(const struct rf_tokenizer *t, const int32_t *ids, int n, int32_t *known,
                           char **text, size_t *bytes, size_t *final, struct rf_err *e);

/* Appends the text of n tokens as a string of JSON.  They follow the n_before tokens in `before`, an array
 * that has room for n more.  The text of some tokens depends on the tokens before them: a tokenizer may drop
 * the blank before the first word of a text, and a character may have bytes in two tokens.  So both are
 * decoded together, and the text of `before` is cut off.  A character that begins in `before` and ends in the
 * n tokens belongs to the n tokens.  Bytes of an incomplete character at the end become U+FFFD.
 * room: for n_before + n ids.  Errors: those of rf_tokenizer_text(). */
enum rf_code rf_ask_add_after(struct rf_buf *b, const struct rf_tokenizer *t, int32_t *before, int n_before,
                              const int32_t *ids, int n, int32_t *room, struct rf_err *e);

#endif
