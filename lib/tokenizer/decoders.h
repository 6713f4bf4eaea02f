/* decoders.h -- the decoders of tokenizer.json, which turn the texts of tokens into one text. */
#ifndef RF_DECODERS_H
#define RF_DECODERS_H

#include "base/buf.h"
#include "io/jscan.h"
#include "tokenizer/pattern.h"

struct rf_decoders;

/* Reads "decoder", whose value may be null.  Supported: Sequence, ByteLevel, Metaspace, Replace,
 * ByteFallback, Fuse, Strip.  Errors: RF_EMODEL: another one, by its name; RF_EDATA: it is malformed;
 * RF_ENOMEM.  The caller frees *d, also after a failure. */
enum rf_code rf_decoders_read(struct rf_decoders **d, const struct rf_jvalue *json, struct rf_err *e);
void rf_decoders_free(struct rf_decoders *d);
int rf_decoders_count(const struct rf_decoders *d);

/* The texts of tokens before they become one text: token i ends at end[i].  The last `held` bytes stand for
 * an incomplete character. */
struct rf_token_texts {
	struct rf_buf text;
	size_t *end, n, held;
};

/* Applies the decoders to the texts, in the same memory or in new memory.  The caller frees t->text and
 * t->end.  Errors: RF_EDATA: a pattern fails on the text, or a step would make more
 * than rf_growth_most() bytes of it; RF_ENOMEM. */
enum rf_code rf_decoders_apply(const struct rf_decoders *d, struct rf_pattern_work *w,
                               struct rf_token_texts *t, struct rf_err *e);

#endif
