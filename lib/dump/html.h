/* html.h -- records of streams as one page for a browser: rf-dump --html.
 *
 * The page needs no network, no other file and no script: values are shown while the pointer is on a token,
 * and <details> fold.  It is written in one pass, so memory is that of a record, unless rows
 * are sorted or drawn.  The summary comes last in
 * the file; the page's style puts it first.
 *
 * The text of a sequence has one element for each token, with short names, so that 16384 tokens take about
 * half a megabyte: <p> needs no end tag, an attribute of one letter sets the colour, and the page counts the
 * tokens itself. */
#ifndef RF_HTML_H
#define RF_HTML_H

#include "base/print.h"
#include "dump/html_chart.h"
#include "dump/table.h"
#include "stream/stream.h"

/* A sum of numbers. */
struct rf_html_sum {
	char name[RF_PART_NAME + 1];
	double sum;
	uint64_t n;
};

struct rf_html {
	const struct rf_token_text *tokens; /* how tokens are shown */
	int chunks;                         /* chunks of its sequences; 0: not known */
	bool against;                       /* whether differences to another model are shown */
	uint64_t records, texts, positions, rollouts, samples; /* texts: tokens of texts */
	/* rows that meet the conditions, and those of them that are on the page; set by the caller */
	uint64_t matched, shown;
	int streams;
	bool several;     /* whether the page has several streams, whose names are shown; set by the caller */
	const char *name; /* of the stream, while it is read */
	uint64_t sections; /* written so far */
	struct rf_html_sum entropy, nll, correct, reward, score;
	struct rf_html_sum part[RF_PARTS];
	int parts;
	struct rf_histogram entropies, rewards;
};

/* Each appends its part of the page.  rf_html_begin() comes first and rf_html_end() last; rf_html_stream()
 * comes before the records of a stream. */
void rf_html_begin(struct rf_html *h, struct rf_buf *p);
void rf_html_stream(struct rf_html *h, struct rf_buf *p, const char *name, const struct rf_head *head);
/* row: the record.  other: the record of another model with the same tokens, whose entropies, losses and
 * log-probabilities are subtracted; NULL: none. */
void rf_html_record(struct rf_html *h, struct rf_buf *p, const struct rf_row *row,
                    const struct rf_record *other);
/* row: a position with its rollouts, a rollout with its position, or a sample or choice with its prompt. */
void rf_html_row(struct rf_html *h, struct rf_buf *p, const struct rf_row *row);
/* Adds a record to the numbers of the summary, whether or not it is shown. */
void rf_html_count(struct rf_html *h, const struct rf_record *rec);
void rf_html_end(struct rf_html *h, struct rf_buf *p);

/* ---- html_text.c --------------------------------------------------------------------------- */

/* Appends n bytes of valid UTF-8, with the characters that HTML reads replaced. */
void rf_html_escape(struct rf_buf *p, const void *s, size_t n);
void rf_html_string(struct rf_buf *p, const char *s);
/* Appends n bytes from outside so that each is visible: white space that a reader would miss, control
 * characters, characters that change the direction of writing, and bytes that are not UTF-8 become symbols
 * or numbers in <i>. */
void rf_html_visible(struct rf_buf *p, const void *s, size_t n);
/* Appends the bytes that a token has inside a text.  Returns false if the tokenizer is missing or lacks the
 * token. */
bool rf_html_token_bytes(struct rf_buf *p, const struct rf_token_text *w, int32_t id);
/* Returns whether a token is special, such as an end token, which stands for no text. */
bool rf_html_token_special(const struct rf_token_text *w, int32_t id);
/* Appends the text of token i of n, visible, or its number; the name of a special token is in <i>.  A token
 * that is one blank needs no symbol if its neighbours have none next to it. */
void rf_html_token(struct rf_buf *p, const struct rf_token_text *w, const int32_t *ids, int n, int i);

/* ---- html_style.c -------------------------------------------------------------------------- */

enum { RF_HTML_LEVELS = 10, RF_HTML_STEPS = 5 };
extern const char rf_html_style[], rf_html_script[];
/* Returns the attribute that colours a number of nats, 0 or more. */
char rf_html_level(double nats);
/* Returns the lowest number of nats of a level. */
double rf_html_from(int level);
/* Returns the attribute that colours a difference: blue below 0, red above; 0: too small for a colour. */
char rf_html_difference(double nats);

#endif
