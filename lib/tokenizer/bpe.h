/* bpe.h -- byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): a vocabulary, and merges by rank.
 *
 * A piece of text begins as symbols: its characters, or its bytes if the vocabulary is byte-level.  As long
 * as two neighbours have a merge, the pair with the lowest rank is replaced by its result, and the leftmost
 * pair of equal ranks.  The remaining symbols are the ids of the piece. */
#ifndef RF_BPE_H
#define RF_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tokenizer/token_ids.h"

enum { RF_BPE_TOKENS = 1 << 22, RF_BPE_LONGEST = 1 << 16 }; /* most ids; most bytes of a token's text */

struct rf_bpe;
struct rf_bpe_options {
	bool byte_fallback; /* an unknown character becomes the tokens <0x00> to <0xFF> of its bytes */
	bool fuse_unk;      /* unknown characters next to each other become one unk */
	bool ignore_merges; /* a piece that is a token becomes that token, without merges */
	int unk;            /* id for unknown characters; -1: they are left out */
};

/* Makes an empty vocabulary.  byte_level: symbols are bytes, and texts of tokens write each byte as one
 * character (rf_bpe_bytes). */
enum rf_code rf_bpe_new(struct rf_bpe **b, bool byte_level, struct rf_err *e);
void rf_bpe_free(struct rf_bpe *b);
/* Adds a token; its text is copied.  Errors: RF_EDATA: the id or the text occurs twice, or is out of
 * range. */
enum rf_code rf_bpe_token(struct rf_bpe *b, const char *text, size_t n, int64_t id, struct rf_err *e);
/* Adds the merge of the next rank, after all tokens were added.  Errors: RF_EDATA: one of the parts, or their
 * result, is not a token. */
enum rf_code rf_bpe_merge(struct rf_bpe *b, const char *left, size_t n, const char *right, size_t m,
                          struct rf_err *e);
/* Prepares encoding, after all merges were added.  Errors: RF_ENOMEM. */
enum rf_code rf_bpe_ready(struct rf_bpe *b, const struct rf_bpe_options *o, struct rf_err *e);

/* Returns the id of the token with this text, as the vocabulary writes it; -1: there is no such token. */
int rf_bpe_id(const struct rf_bpe *b, const char *text, size_t n);
/* Returns the text of a token as the vocabulary writes it; NULL: no token has this id. */
const char *rf_bpe_text(const struct rf_bpe *b, int id, size_t *n);
int rf_bpe_size(const struct rf_bpe *b);  /* the largest id plus 1 */
int rf_bpe_count(const struct rf_bpe *b); /* the number of tokens */
/* Writes to out the bytes that the text of a byte-level token stands for, n or fewer.  Returns their number.
 * A text with a character that does not stand for a byte is copied. */
size_t rf_bpe_bytes(const char *text, size_t n, char *out);

/* Remembered pieces and scratch memory of encoding; each thread has its own. */
struct rf_bpe_work;
struct rf_bpe_work *rf_bpe_work_new(void); /* NULL: out of memory */
void rf_bpe_work_free(struct rf_bpe_work *w);
/* Appends the ids of a piece of UTF-8. */
enum rf_code rf_bpe_encode(const struct rf_bpe *b, struct rf_bpe_work *w, const char *piece, size_t n,
                           struct rf_id_list *ids, struct rf_err *e);

#endif
