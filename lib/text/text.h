/* text.h -- documents, from files of three formats.
 *
 *     jsonl   one JSON object per line, its text under a key
 *     text    a file is a document, byte for byte
 *     ids     one JSON object per line, its token ids as a list under "tokens"
 *
 * Each may be compressed by zstd. */
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
	enum rf_text_format format; /* standard input without a name is jsonl */
	const char *text_key;
	const char *prompt_key;  /* NULL: a document is one text */
	/* with prompt_key: a string, or a list of strings whose first one is the text */
	const char *answer_key;
	const char *meta_key;    /* keys with commas between them; NULL: none */
	const char *source_key;  /* NULL: none */
	bool source;             /* "name:line" of a document, or "name" where it is a file */
	uint64_t max_record;     /* bytes of one line or text file; not below 64 KiB */
};
#define RF_TEXT_DEFAULTS { .text_key = "text", .max_record = RF_MAX_RECORD }

/* The options of *o. */
enum { RF_TEXT_OPTS = 9 };
void rf_text_option_table(struct rf_text_options *o, struct rf_opt opts[RF_TEXT_OPTS]);

/* One document; everything lives until the next call. */
struct rf_doc {
	const char *text;        /* or the prompt; NULL where the document is ids */
	size_t text_len;
	bool is_prompt;          /* text is a prompt: what follows it is not the document's end */
	const char *answer;      /* NULL: none */
	size_t answer_len;
	int answers;             /* how many; -1: none asked for */
	const char **all;        /* (answers) */
	int32_t *ids;            /* (count), >= 0; NULL where the document is text */
	size_t count;
	const char *source;      /* NULL: none asked for */
	struct rf_raw meta;      /* a msgpack map of the keys asked for */
};

struct rf_text;

/* All files in order, none: standard input.  RF_EUSAGE: a name that tells no format, keys that do not go
 * together; RF_ENOINPUT: one of the files cannot be read.  Opens the first. */
enum rf_code rf_text_open(struct rf_text **t, const struct rf_text_options *o, char *const *paths, int count,
                          struct rf_err *e);
void rf_text_close(struct rf_text *t);                  /* NULL is fine */
/* Bytes of all files read so far, as they lie there. */
uint64_t rf_text_bytes(const struct rf_text *t);
/* Whether some of the files hold texts, and some ids. */
void rf_text_holds(const struct rf_text *t, bool *texts, bool *ids);

/* The next document; RF_EOF after the last of the last file.  RF_EDATA names file and line. */
enum rf_code rf_text_next(struct rf_text *t, const struct rf_doc **doc, struct rf_err *e);
/* Puts "name: line 17: " of the document read last in front of a failure that was found in it. */
enum rf_code rf_text_blame(const struct rf_text *t, struct rf_err *e);

#endif
