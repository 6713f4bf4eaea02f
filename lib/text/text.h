/* text.h -- reads documents from files in three formats.
 *
 *     jsonl   one JSON object per line, the document's text under a key
 *     text    the whole file is one document, byte for byte
 *     ids     one JSON object per line, the document's token ids as a list under "tokens"
 *
 * Each may be compressed with zstd. */
#ifndef RF_TEXT_H
#define RF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "stream/stream.h"

enum rf_text_format { RF_TEXT_BY_NAME, RF_TEXT_JSONL, RF_TEXT_PLAIN, RF_TEXT_IDS };
#define RF_TEXT_WORDS "name|jsonl|text|ids"

struct rf_text_options {
	enum rf_text_format format; /* BY_NAME: a file's suffix tells its format; standard input is jsonl */
	const char *text_key;       /* jsonl: the key of the text */
	const char *prompt_key;     /* jsonl: the key of the prompt, used instead of text_key; NULL: none */
	/* only with prompt_key; each may be NULL */
	const char *prompt_suffix_key; /* key of a text that ends the prompt */
	const char *answer_key;    /* key of the answer, or of a list whose first string follows the prompt */
	const char *answer_prefix; /* text before the answer, and before each choice */
	const char *answers_key;   /* key of answers that are kept but do not follow the prompt */
	const char *choices_key;   /* key of a list of texts, each of which continues the prompt */
	const char *meta_key;      /* keys, separated by commas, whose values become meta; NULL: none */
	const char *source_key;    /* key whose value becomes the source; NULL: none */
	bool source;               /* the source is "name:line", or "name" if the document is a whole file */
	uint64_t max_record;       /* most bytes of one line or text file; at least 64 KiB are allowed */
};
#define RF_TEXT_DEFAULTS \
	{ \
		.text_key = "text", .max_record = RF_MAX_RECORD \
	}

/* Adds the options that set *o. */
void rf_text_option_table(struct rf_text_options *o, struct rf_opts *opts);

/* One document.  The document and all memory that it points to are valid until the next call. */
struct rf_doc {
	const char *text; /* the text or the prompt; NULL if the document is ids */
	size_t text_len;
	bool is_prompt;     /* text is a prompt: the document does not end with it */
	const char *answer; /* the text after the prompt: the prefix and all[0]; NULL: none */
	size_t answer_len;
	int answers;         /* number of answers; -1: none were asked for */
	const char **all;    /* (answers) */
	int choices;         /* number of choices; 0: none were asked for */
	const char **choice; /* (choices), the text of each after choice_prefix */
	const char *choice_prefix;
	const char **context; /* (choices), the prompt of each; NULL: all have the prompt `text` */
	int32_t *ids;         /* (count), >= 0; NULL if the document is text */
	size_t count;
	const char *name;   /* name of its file in errors */
	uint64_t line;      /* its line; 0: the document is a whole file */
	const char *source; /* NULL: not asked for */
	struct rf_raw meta; /* a msgpack map with the keys asked for; data NULL: none */
};

struct rf_text;

/* Checks the options and all files, and opens the first file.  The files are read in order; count 0: standard
 * input.  paths must stay valid until rf_text_close().  Errors: RF_EUSAGE: a file's name does not tell its
 * format, or options cannot be combined; RF_ENOINPUT: one of the files cannot be read; RF_EDATA, RF_EIO,
 * RF_ENOMEM. */
enum rf_code rf_text_open(struct rf_text **t, const struct rf_text_options *o, char *const *paths, int count,
                          struct rf_err *e);
void rf_text_close(struct rf_text *t); /* t may be NULL */
/* Returns the number of bytes read so far from all files, as stored (compressed). */
uint64_t rf_text_bytes(const struct rf_text *t);
/* Finds out whether at least one of the files contains text (*texts), and at least one contains ids
 * (*ids). */
void rf_text_holds(const struct rf_text *t, bool *texts, bool *ids);

/* Reads the next document.  Returns RF_EOF after the last one of the last file.  Errors: RF_EDATA: the
 * sentence names file and line; those of opening the next file; RF_EIO, RF_ENOMEM. */
enum rf_code rf_text_next(struct rf_text *t, const struct rf_doc **doc, struct rf_err *e);
/* Returns whether the last failure, if it was RF_EDATA, concerned one line only, so that the next document
 * can be read. */
bool rf_text_goes_on(const struct rf_text *t);
/* Puts the document's place, "name: line 17: ", in front of the sentence of a failure that was found in it.
 * Returns e's code. */
enum rf_code rf_doc_blame(const struct rf_doc *doc, struct rf_err *e);

#endif
