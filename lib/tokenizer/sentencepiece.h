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
	int vocab, bos, eos;     /* bos, eos: -1: there is none */
	bool prefix_space;       /* a blank is added to each text */
};

/* Reads the n bytes of a tokenizer.model, which rf_sentencepiece_check() has passed.  NULL: why (size bytes)
 * says why not; "" for too little memory. */
struct rf_sentencepiece *rf_sentencepiece_open(const void *model, size_t n, char *why, size_t size);
void rf_sentencepiece_close(struct rf_sentencepiece *sp);

/* The ids of n bytes of text, malloc'd; *count may be 0.  NULL: too little memory.  Several threads may call
 * these two at a time. */
int32_t *rf_sentencepiece_encode(const struct rf_sentencepiece *sp, const char *text, size_t n,
                                 size_t *count);
/* The text of ids below vocab, malloc'd, with a NUL behind its *n bytes; pieces that stand for no text, such
 * as <s>, are left out.  NULL: too little memory. */
char *rf_sentencepiece_decode(const struct rf_sentencepiece *sp, const int32_t *ids, size_t count, size_t *n);
/* The name of a piece that stands for no text, else NULL. */
const char *rf_sentencepiece_control(const struct rf_sentencepiece *sp, int32_t id);
/* Returns the id of a piece by its name; -1: there is none, or too little memory. */
int rf_sentencepiece_id(const struct rf_sentencepiece *sp, const char *name, size_t n);
/* Checks for a piece that stands for no text, or for any unknown one. */
bool rf_sentencepiece_special(const struct rf_sentencepiece *sp, int32_t id);
/* The byte that a piece <0xNN> stands for; -1: it is another piece. */
int rf_sentencepiece_byte(const struct rf_sentencepiece *sp, int32_t id);

#ifdef __cplusplus
}
#endif
#endif
