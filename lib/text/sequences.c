/* sequences.c -- turns documents into records.  Each document becomes one list of ids, and its records point
 * to contiguous pieces of that list. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/sequences.h"

struct rf_sequences {
	struct rf_sequences_options o;
	const struct rf_tokenizer *tok;   /* NULL: ids alone */
	struct rf_text *text;
	uint64_t max_record;
	int vocab;

	const struct rf_doc *doc;         /* the one whose pieces are being handed out */
	int32_t *ids;                     /* of it; the text's own where the document is ids */
	int32_t *buf;
	size_t count, cap, prompt;        /* prompt: how many of the ids */
	size_t at, stop;                  /* what is still to be handed out */
	struct rf_record r;

	uint64_t documents, passed, kept, cut, unanswered, dropped, sequences, tokens, left_out;
};

void rf_sequences_option_table(struct rf_sequences_options *o, struct rf_opt opts[RF_SEQUENCES_OPTS])
{
	const struct rf_opt table[] = {
		{ "max-len", 0, RF_OPT_INT, &o->max_len, 0, INT_MAX, "tokens",
		  "longest sequence; 0: the whole document", true },
		{ "min-len", 0, RF_OPT_INT, &o->min_len, 1, INT_MAX, "tokens",
		  "drop shorter sequences", true },
		{ "truncate", 0, RF_OPT_ENUM, &o->truncate, 0, 0, RF_TRUNCATE_WORDS,
		  "documents over --max-len: fail, cut off this side, or split", true },
		{ "bos", 0, RF_OPT_ENUM, &o->bos, 0, 0, RF_BOS_WORDS,
		  "begin documents with the bos token; auto: if the tokenizer says so", true },
		{ "no-eos", 0, RF_OPT_FLAG, &o->no_eos, 0, 0, NULL, "add no end token to a document", true },
		{ "valid-every", 0, RF_OPT_INT, &o->valid_every, 0, INT_MAX, "n",
		  "every n-th document is for validation; 0: none", true },
		{ "split", 0, RF_OPT_ENUM, &o->split, 0, 0, RF_SPLIT_WORDS,
		  "with --valid-every: which documents to take", true },
		{ "vocab", 0, RF_OPT_INT, &o->vocab, 0, INT_MAX, "n",
		  "vocabulary size of ids without a tokenizer; 0: not given", true },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_SEQUENCES_OPTS);
}

enum rf_code rf_sequences_open(struct rf_sequences **out, const struct rf_sequences_options *o,
                               const struct rf_tokenizer *tok, struct rf_text *text, uint64_t max_record,
                               struct rf_err *e)
{
	struct rf_sequences *s;
	bool texts, ids;

	*out = NULL;
	if (o->max_len && o->min_len > o->max_len)
		return rf_fail(e, RF_EUSAGE, "--min-len %d is more than --max-len %d", o->min_len,
		               o->max_len);
	if (o->truncate != RF_TRUNCATE_ERROR && !o->max_len)
		return rf_fail(e, RF_EUSAGE, "--truncate requires --max-len");
	if (o->split == RF_SPLIT_VALID && !o->valid_every)
		return rf_fail(e, RF_EUSAGE, "--split valid requires --valid-every");
	rf_text_holds(text, &texts, &ids);
	if (!tok && texts)
		return rf_fail(e, RF_EUSAGE, "text needs a tokenizer: use --bytes or --tokenizer");
	if (!tok && ids && !o->vocab)
		return rf_fail(e, RF_EUSAGE,
		               "token ids need a vocabulary size: use --vocab, or --tokenizer of a model");
	if (o->bos == RF_BOS_YES && (!tok || rf_tokenizer_bos(tok) < 0))
		return rf_fail(e, RF_EUSAGE, "--bos yes: the tokenizer has no bos token");
	if (tok && o->vocab)
		return rf_fail(e, RF_EUSAGE, "--vocab cannot be combined with a tokenizer");
	if (!(s = calloc(1, sizeof *s)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->o = *o;
	s->tok = tok;
	s->text = text;
	s->max_record = max_record;
	s->vocab = tok ? rf_tokenizer_vocab(tok) : o->vocab;
	rf_record_init(&s->r);
	*out = s;
	return RF_OK;
}

void rf_sequences_close(struct rf_sequences *s)
{
	if (!s)
		return;
	s->r.tokens = NULL;
	rf_record_free(&s->r);
	free(s->buf);
	free(s);
}

int rf_sequences_vocab(const struct rf_sequences *s)
{
	return s->vocab;
}

static enum rf_code take_ids(struct rf_sequences *s, struct rf_err *e)
{
	const struct rf_doc *d = s->doc;

	for (size_t i = 0; i < d->count; i++)
		if (d->ids[i] >= s->vocab)
			return rf_fail(e, RF_EDATA,
			               "'tokens' has %d at index %zu, outside the vocabulary of %d",
			               (int)d->ids[i], i, s->vocab);
	s->ids = d->ids;
	s->count = s->prompt = d->count;
	return RF_OK;
}

static enum rf_code append(struct rf_sequences *s, int id, struct rf_err *e)
{
	if (s->count == s->cap) {
		int32_t *buf = realloc(s->buf, (s->cap + 1) * sizeof *buf);
		if (!buf)
			return rf_fail(e, RF_ENOMEM, "out of memory");
		s->buf = buf;
		s->cap++;
	}
	s->buf[s->count++] = id;
	return RF_OK;
}

static enum rf_code encode(struct rf_sequences *s, struct rf_err *e)
{
	const struct rf_doc *d = s->doc;
	int eos = s->o.no_eos || (d->is_prompt && !d->answer) ? -1 : rf_tokenizer_eos(s->tok);
	enum rf_code rc;

	s->count = 0;
	if (s->o.bos == RF_BOS_YES || (s->o.bos == RF_BOS_AUTO && rf_tokenizer_begins(s->tok)))
		if ((rc = append(s, rf_tokenizer_bos(s->tok), e)) != RF_OK)
			return rc;
	rc = rf_tokenizer_encode(s->tok, d->text, d->text_len, &s->buf, &s->count, &s->cap, e);
	s->prompt = s->count;
	if (rc == RF_OK && d->answer)
		rc = rf_tokenizer_encode(s->tok, d->answer, d->answer_len, &s->buf, &s->count, &s->cap, e);
	if (rc == RF_OK && eos >= 0)
		rc = append(s, eos, e);
	s->ids = s->buf;
	return rc;
}

/* Which of the document's ids are handed out: [at, stop), in pieces of max_len. */
static enum rf_code cut(struct rf_sequences *s, struct rf_err *e)
{
	size_t n = s->count, max = s->o.max_len ? (size_t)s->o.max_len : n, min = (size_t)s->o.min_len;

	s->at = 0;
	s->stop = n;
	if (n > max) {
		switch (s->o.truncate) {
		case RF_TRUNCATE_ERROR:
			return rf_fail(e, RF_EDATA,
			               "the document has %zu tokens, more than --max-len %zu (--truncate "
			               "left, right or split cuts it)",
			               n, max);
		case RF_TRUNCATE_LEFT:
			s->at = n - max;
			break;
		case RF_TRUNCATE_RIGHT:
			s->stop = max;
			break;
		case RF_TRUNCATE_SPLIT:
			if (n % max < min)
				s->stop = n - n % max;
		}
		s->cut++;
		s->unanswered += s->doc->answer && s->stop <= s->prompt;
	}
	if (n < min) {
		s->stop = 0;
		s->dropped++;
	} else {
		s->kept++;
	}
	s->left_out += n - (s->stop - s->at);
	return RF_OK;
}

static enum rf_code next_document(struct rf_sequences *s, struct rf_err *e)
{
	enum rf_code rc = rf_text_next(s->text, &s->doc, e);
	uint64_t number = s->documents;

	if (rc != RF_OK)
		return rc;
	s->documents++;
	if (s->o.valid_every &&
	    (number % (uint64_t)s->o.valid_every == 0) != (s->o.split == RF_SPLIT_VALID)) {
		s->passed++;
		return RF_OK;
	}
	rc = s->doc->ids ? take_ids(s, e) : encode(s, e);
	if (rc == RF_OK)
		rc = cut(s, e);
	return rc == RF_OK ? rc : rf_text_blame(s->text, e);
}

/* The bytes of a record's message, or a few more. */
static uint64_t message_size(const struct rf_record *r)
{
	uint64_t n = 200 + (uint64_t)r->T * sizeof *r->tokens + r->meta.size;

	for (int i = 0; i < r->answers; i++)
		n += strlen(r->answer[i]) + 5;
	return n + (r->source ? strlen(r->source) : 0);
}

enum rf_code rf_sequences_next(struct rf_sequences *s, const struct rf_record **out, struct rf_err *e)
{
	const struct rf_doc *d;
	struct rf_record *r = &s->r;
	enum rf_code rc;
	size_t n;

	while (s->at == s->stop)
		if ((rc = next_document(s, e)) != RF_OK)
			return rc;
	d = s->doc;
	n = s->stop - s->at;
	if (s->o.max_len && n > (size_t)s->o.max_len)
		n = (size_t)s->o.max_len;
	if (n > INT_MAX) {
		rf_fail(e, RF_EDATA,
		        "the document has %zu tokens, but a sequence can have at most %d (--max-len and "
		        "--truncate cut it)",
		        n, INT_MAX);
		return rf_text_blame(s->text, e);
	}
	r->id = s->sequences;
	r->T = (int)n;
	r->tokens = s->ids + s->at;
	r->prompt_len = !d->is_prompt           ? -1
	                : s->prompt < s->at     ? 0
	                : s->prompt - s->at < n ? (int)(s->prompt - s->at)
	                                        : (int)n;
	r->answers = d->answers;
	r->answer = d->all;
	r->source = d->source;
	r->meta = d->meta;
	if (message_size(r) > s->max_record) {
		rf_fail(e, RF_EDATA,
		        "a record of %zu tokens would be longer than %llu bytes (raise --max-record, or cut "
		        "the document with --max-len and --truncate)",
		        n, (unsigned long long)s->max_record);
		return rf_text_blame(s->text, e);
	}
	s->at += n;
	s->sequences++;
	s->tokens += n;
	*out = r;
	return RF_OK;
}

/* The ending of n things. */
static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

char *rf_sequences_summary(const struct rf_sequences *s, char *buf, size_t size)
{
	char passed[64] = "", unanswered[64] = "";

	if (s->o.valid_every)
		snprintf(passed, sizeof passed, ", %" PRIu64 " of them for %s", s->passed,
		         s->o.split == RF_SPLIT_VALID ? "training" : "validation");
	if (s->unanswered)
		snprintf(unanswered, sizeof unanswered, ", %" PRIu64 " of these without their answer",
		         s->unanswered);
	snprintf(buf, size,
	         "%" PRIu64 " document%s%s: %" PRIu64 " kept (%" PRIu64 " of them cut%s), %" PRIu64
	         " dropped; "
	         "%" PRIu64 " sequence%s of %" PRIu64 " token%s, %" PRIu64 " left out",
	         s->documents, plural(s->documents), passed, s->kept, s->cut, unanswered, s->dropped,
	         s->sequences, plural(s->sequences), s->tokens, plural(s->tokens), s->left_out);
	return buf;
}
