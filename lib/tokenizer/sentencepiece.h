/* sentencepiece.h -- the part of libsentencepiece, a library in C++, that a tokenizer needs. */
#ifndef RF_SENTENCEPIECE_H
#define RF_SENTENCEPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rf_sentencepiece {
	int vocab, bos, eos; /* bos, eos: -1: there is none */
	bool prefix_space;   /* a blank is added to each text */
};

/* Reads the n bytes of a tokenizer.model, which rf_sentencepiece_check() has passed.  Returns NULL on
 * failure; why (size bytes) is then the reason, "" for too little memory. */
struct rf_sentencepiece *rf_sentencepiece_open(const void *model, size_t n, char *why, size_t size);
void rf_sentencepiece_close(struct rf_sentencepiece *sp);

/* Returns the ids of n bytes of text, malloc'd; *count may be 0.  NULL: too little memory.  Several threads
 * may call this function and the next one at a time. */
int32_t *rf_sentencepiece_encode(const struct rf_sentencepiece *sp, const char *text, size_t n,
                                 size_t *count);
/* Returns the text of ids below vocab, malloc'd, with a NUL after its *n bytes.  Pieces that do not stand for
 * text, such as <s>, are left out.  NULL: too little memory. */
char *rf_sentencepiece_decode(const struct rf_sentencepiece *sp, const int32_t *ids, size_t count, size_t *n);
/* Returns the name of a piece that does not stand for text; NULL for other pieces. */
const char *rf_sentencepiece_control(const struct rf_sentencepiece *sp, int32_t id);
/* Returns the id of a piece by its name; -1: there is none, or too little memory. */
int rf_sentencepiece_id(const struct rf_sentencepiece *sp, const char *name, size_t n);
/* Returns whether a piece does not stand for text, or stands for unknown text. */
bool rf_sentencepiece_special(const struct rf_sentencepiece *sp, int32_t id);
/* Returns the byte that a piece <0xNN> stands for; -1: the piece is not of this form. */
int rf_sentencepiece_byte(const struct rf_sentencepiece *sp, int32_t id);

#ifdef __cplusplus
}
#endif
#endif
