/* chars.h -- texts as characters, with the blanks, words and lower case of Python's str, because the scores
 * of the benchmarks' own programs depend on them. */
#ifndef RF_CHARS_H
#define RF_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/region.h"

/* A piece of a text in a region: n characters at c. */
struct rf_chars {
	const int32_t *c;
	size_t n;
};
struct rf_words {
	struct rf_chars *word;
	size_t n;
};

/* The functions with a region return false if memory ran out. */

/* Returns a copy, in memory of p, of n bytes that may have NULs, as a C string in which the bytes C0 80 stand
 * for a NUL; NULL: memory ran out.  All texts of a question are such strings.  UTF-8 never has these
 * bytes. */
char *rf_chars_text(struct rf_region *p, const char *s, size_t n);
/* Writes such a string into buf as rf_quote() does, with \x00 for a NUL.  Returns buf. */
char *rf_chars_quote(char *buf, size_t size, const char *s);

/* Reads the characters of such a string; bytes that are not UTF-8 become U+FFFD. */
bool rf_chars_of(struct rf_chars *to, struct rf_region *p, const char *s);
/* Computes str.lower(), by Unicode's full mapping: the dotted capital I becomes two characters, and a
 * capital sigma at the end of a word becomes the final sigma. */
bool rf_chars_lower(struct rf_chars *to, struct rf_region *p, struct rf_chars s);
/* Computes str.split(): the words between any of the 29 blanks of str.isspace(). */
bool rf_chars_words(struct rf_words *to, struct rf_region *p, struct rf_chars s);

/* Returns whether \w of Python's re matches: letters, numbers, '_'. */
bool rf_char_word(int32_t c);
/* Returns whether \d of Python's re matches. */
bool rf_char_digit(int32_t c);
/* Returns str.strip(). */
struct rf_chars rf_chars_strip(struct rf_chars s);
/* Returns str.lstrip() of one character. */
struct rf_chars rf_chars_skip(struct rf_chars s, int32_t c);
/* Returns the part of s before the first c, or all of s.  *rest, unless rest is NULL, becomes the part after
 * that c; its pointer is NULL if s has no c. */
struct rf_chars rf_chars_until(struct rf_chars s, int32_t c, struct rf_chars *rest);
bool rf_chars_equal(struct rf_chars a, struct rf_chars b);
/* Stores in *in whether `what` occurs in s, in linear time; the empty text occurs in any.  Returns false if
 * memory runs out. */
bool rf_chars_in(struct rf_region *p, struct rf_chars what, struct rf_chars s, bool *in);

#endif
