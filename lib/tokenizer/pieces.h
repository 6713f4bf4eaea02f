/* pieces.h -- the pre-tokenizers of tokenizer.json, which divide a text into pieces; merges do not cross the
 * border of two pieces. */
#ifndef RF_PIECES_H
#define RF_PIECES_H

#include <stdbool.h>

#include "io/jscan.h"
#include "tokenizer/pattern.h"

struct rf_pieces;

/* Reads "pre_tokenizer", whose value may be null.  Supported: Sequence, ByteLevel (as the last one, which
 * makes the vocabulary byte-level), Split, Digits, Metaspace.  Errors: RF_EMODEL: another one, by its name;
 * RF_EDATA: it is malformed; RF_ENOMEM.  The caller frees *p, also after a failure. */
enum rf_code rf_pieces_read(struct rf_pieces **p, const struct rf_jvalue *json, struct rf_err *e);
void rf_pieces_free(struct rf_pieces *p);
bool rf_pieces_byte_level(const struct rf_pieces *p);
/* Returns whether ByteLevel or Metaspace adds a blank before a text: 1 or 0; -1: the list has neither. */
int rf_pieces_prefix_space(const struct rf_pieces *p);

/* Scratch memory: one per thread.  NULL: out of memory. */
struct rf_pieces_work;
struct rf_pieces_work *rf_pieces_work_new(void);
void rf_pieces_work_free(struct rf_pieces_work *w);

/* Divides n bytes of valid UTF-8 and calls each() for every piece, in order.  A piece is valid during the
 * call. head: the number of bytes that stem from the first character of the document, for Metaspace. */
enum rf_code rf_pieces_divide(const struct rf_pieces *p, struct rf_pieces_work *w, struct rf_pattern_work *pw,
                              const char *s, size_t n, size_t head,
                              enum rf_code (*each)(void *to, const char *piece, size_t n, struct rf_err *e),
                              void *to, struct rf_err *e);

#endif
