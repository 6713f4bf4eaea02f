/* sentencepiece_check.h -- checks those parts of a tokenizer.model that libsentencepiece uses unchecked. */
#ifndef RF_SENTENCEPIECE_CHECK_H
#define RF_SENTENCEPIECE_CHECK_H

#include <stddef.h>

#include "base/err.h"

/* The limits.  The first two are sizes of arrays that libsentencepiece does not check either. */
enum {
	RF_CHARSMAP_PREFIXES = 32,   /* rules of a charsmap, each a prefix of the next */
	RF_SYMBOL_PREFIXES = 64,     /* user-defined symbols, each a prefix of the next */
	RF_CHARSMAP_BYTES = 4 << 20, /* a charsmap */
	RF_CHARSMAP_KEY = 256,       /* the text that a rule replaces, in bytes */
	RF_CHARSMAP_TEXT = 64,       /* the text that replaces it, in bytes */
};

/* Checks the n bytes of a tokenizer.model: the precompiled_charsmap of its normalizer and its denormalizer,
 * and its user-defined symbols.  After the check no text lets libsentencepiece read outside of them or write
 * more than RF_CHARSMAP_TEXT bytes for one byte.  Errors: RF_EDATA: the bytes are not protobuf, a map leads
 * outside itself, or a limit is exceeded; RF_ENOMEM. */
enum rf_code rf_sentencepiece_check(const void *model, size_t n, struct rf_err *e);

#endif
