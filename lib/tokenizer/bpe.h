/* bpe.h -- byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): a vocabulary, and merges by rank.
 *
 * A piece of text begins as symbols: its characters, or its bytes where the vocabulary is byte-level.  As
 * long as two neighbours have a merge, the pair with the lowest rank is replaced by its result, the leftmost
 * of equals.  What stays is the ids of the piece. */
#ifndef RF_BPE_H
#define RF_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tokenizer/tokenizer.h"

enum { RF_BPE_TOKENS = 1 << 22, RF_BPE_LONGEST = 1 << 16 }; /* most ids; most bytes of a token's text */

struct rf_bpe;
struct rf_bpe_options {
	bool byte_fallback;  /* an unknown character becomes the tokens <0x00> to <0xFF> of its bytes */
	bool fuse_unk;       /* unknown characters next to each other become one unk */
	bool ignore_merges;  /* a piece that is a token is that token, whatever the merges say */
	int unk;             /* id of unknown characters; -1: they are left out */
};

/* An empty vocabulary.  byte_level: symbols are bytes, and texts of tokens write each byte as a character of
 * its own (rf_bpe_bytes). */
enum rf_code rf_bpe_new(struct rf_bpe **b, bool byte_level, struct rf_err *e);
void rf_bpe_free(struct rf_bpe *b);
/* Adds a token; its text is copied.  Errors: RF_EDATA: the id or the text occurs twice, or is out of
 * range. */
enum rf_code rf_bpe_token(struct rf_bpe *b, const char *text, size_t n, int64_t id, struct rf_err *e);
/* Adds the merge of the next rank, once all tokens are there.  Errors: RF_EDATA: one of the parts, or what
 * they make together, is no token. */
enum rf_code rf_bpe_merge(struct rf_bpe *b, const char *left, size_t n, const char *right, size_t m,
                          struct rf_err *e);
/* Prepares encoding, once all merges are there.  Errors: RF_ENOMEM. */
enum rf_code rf_bpe_ready(struct rf_bpe *b, const struct rf_bpe_options *o, struct rf_err *e);

/* The id of a token by its text as the vocabulary writes it; -1: there is none. */
int rf_bpe_id(const struct rf_bpe *b, const char *text, size_t n);
/* The text of a token as the vocabulary writes it; NULL: no token has this id. */
const char *rf_bpe_text(const struct rf_bpe *b, int id, size_t *n);
int rf_bpe_size(const struct rf_bpe *b);   /* the largest id and 1 */
int rf_bpe_count(const struct rf_bpe *b);  /* the number of tokens */
/* The bytes that a byte-level token stands for: n bytes of its text are written to out, which has room for as
 * many; returns their number.  A text with a character that stands for no byte stays as it is. */
size_t rf_bpe_bytes(const char *text, size_t n, char *out);

/* What encoding remembers of pieces, and its scratch memory: one per thread. */
struct rf_bpe_work;
struct rf_bpe_work *rf_bpe_work_new(void);  /* NULL: out of memory */
void rf_bpe_work_free(struct rf_bpe_work *w);
/* Appends the ids of a piece of UTF-8. */
enum rf_code rf_bpe_encode(const struct rf_bpe *b, struct rf_bpe_work *w, const char *piece, size_t n,
                           struct rf_id_list *ids, struct rf_err *e);

#endif
