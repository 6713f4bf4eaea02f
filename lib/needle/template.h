/* template.h -- the wording of the prompts, with blanks in braces that each sample fills. */
#ifndef RF_TEMPLATE_H
#define RF_TEMPLATE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum rf_wording {
	RF_NOISE,
	RF_TYPE_NUMBER,
	RF_TYPE_NUMBERS,
	RF_TYPE_UUID,
	RF_TYPE_UUIDS,
	RF_NIAH_NEEDLE,
	RF_NIAH_INPUT,
	RF_NIAH_PREFIX,
	RF_NIAH_INPUT_ONE,
	RF_NIAH_PREFIX_ONE,
	RF_NIAH_AND,
	RF_VT_FIRST,
	RF_VT_NEXT,
	RF_VT_INPUT,
	RF_VT_PREFIX,
	RF_VT_EXAMPLE,
	RF_VT_ANSWER,
	RF_VT_JOINT,
	RF_CWE_ITEM,
	RF_CWE_INPUT,
	RF_CWE_PREFIX,
	RF_CWE_EXAMPLE,
	RF_CWE_ANSWER,
	RF_CWE_JOINT,
	RF_FWE_INPUT,
	RF_FWE_PREFIX,
	RF_QA_DOCUMENT,
	RF_QA_INPUT,
	RF_QA_PREFIX,
	RF_WORDINGS
};

/* The blanks; template.c has their names. */
enum rf_blank {
	RF_CONTEXT,
	RF_QUERY,
	RF_TYPE,
	RF_KEY,
	RF_VALUE,
	RF_NAME,
	RF_FROM,
	RF_COUNT,
	RF_I,
	RF_WORD,
	RF_DOCUMENT,
	RF_INPUT,
	RF_PREFIX,
	RF_ANSWER,
	RF_ANSWERS,
	RF_BLANKS
};

/* A text in pieces: literal, blank, literal, blank, ..., literal. */
struct rf_template {
	char *text;
	struct {
		size_t at, n;
		enum rf_blank blank;
	} * piece;     /* a literal, and the blank after it */
	size_t pieces; /* the last piece has no blank: RF_BLANKS */
};

struct rf_templates {
	struct rf_template t[RF_WORDINGS];
};

/* The text that fills a blank: n bytes at s, or up to a NUL if n is 0; s NULL: the empty text. */
struct rf_fill {
	const char *s[RF_BLANKS];
	size_t n[RF_BLANKS];
};

/* Loads the built-in wording, and replaces the texts that a JSON file has; path NULL: no file.  *t must be
 * released in any case.  Errors: RF_EDATA: the file is not a JSON object of objects of strings, or has
 * unknown keys or blanks, or lacks a blank that a text must have; the sentence names file, line and key;
 * those of rf_lines_open(). */
enum rf_code rf_templates_open(struct rf_templates *t, const char *path, struct rf_err *e);
void rf_templates_free(struct rf_templates *t);

/* Appends the text with its blanks filled.  Returns the number of its bytes before the blank {context}; 0:
 * the text does not have this blank. */
size_t rf_template_fill(const struct rf_templates *t, enum rf_wording what, const struct rf_fill *f,
                        struct rf_buf *to);

#endif
