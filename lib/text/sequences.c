/* sequences.c -- turns documents into records.  Prompt and answer are cut in the ids of a document
 * (documents.h), and the records point to contiguous pieces of the remaining ids. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/sequences.h"

struct counts {
	uint64_t kept, split, cut, unanswered, dropped, too_long, left_out;
};

struct rf_sequences {
	struct rf_sequences_options o;
	struct rf_documents *documents;
	uint64_t max_record;
	int vocab;
	uint64_t shortened; /* answers that max_answer has cut */
	bool goes_on;       /* the last failure concerned one line only */

	struct rf_encoded *c; /* the current document */
	size_t at, stop;      /* its ids that are not yet returned */
	struct rf_record r;

	struct counts count, before; /* counts of documents; the same before the current document */
	uint64_t sequences, tokens;
};

void rf_sequences_option_table(struct rf_sequences_options *o, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("max-len", &o->max_len, 0, INT_MAX, "tokens",
		        "longest sequence; 0: the whole document", .noted = RF_OPT_RESULT),
		OPT_INT("max-prompt", &o->max_prompt, 0, INT_MAX, "tokens",
		        "cut a longer prompt as --truncate says, by default to its end; 0: do not",
		        .noted = RF_OPT_RESULT),
		OPT_INT("max-answer", &o->max_answer, 0, INT_MAX, "tokens",
		        "cut a longer answer to its beginning; 0: do not", .noted = RF_OPT_RESULT),
		OPT_INT("min-len", &o->min_len, 1, INT_MAX, "tokens", "drop shorter sequences",
		        .noted = RF_OPT_RESULT),
		OPT_ENUM("truncate", &o->truncate, RF_TRUNCATE_WORDS,
		         "what is too long: fail, cut off this side or the middle, split, or drop",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("bos", &o->documents.bos, RF_BOS_WORDS,
		         "begin documents with the bos token; auto: as the tokenizer does",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("no-eos", &o->documents.no_eos, "add no end token to a document",
		         .noted = RF_OPT_RESULT),
		OPT_INT("valid-every", &o->documents.valid_every, 0, INT_MAX, "n",
		        "put every n-th document aside for validation; 0: none", .noted = RF_OPT_RESULT),
		OPT_ENUM("split", &o->documents.split, RF_SPLIT_WORDS,
		         "with --valid-every: the documents to read", .noted = RF_OPT_RESULT),
		OPT_INT("vocab", &o->vocab, 0, INT_MAX, "n",
		        "vocabulary size of ids without a tokenizer; 0: not given", .noted = RF_OPT_RESULT),
		OPT_INT("threads", &o->documents.threads, 0, 1024, "n",
		        "number of threads; 0: one per available processor"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

static enum rf_code check_lengths(struct rf_sequences_options *o, struct rf_err *e)
{
	if (o->max_len && o->min_len > o->max_len)
		return rf_fail(e, RF_EUSAGE, "--min-len %d is more than --max-len %d", o->min_len,
		               o->max_len);
	if (o->max_len && o->max_prompt)
		return rf_fail(e, RF_EUSAGE, "--max-prompt cannot be combined with --max-len");
	if (o->truncate == RF_TRUNCATE_UNSAID)
		o->truncate = o->max_prompt ? RF_TRUNCATE_LEFT : RF_TRUNCATE_ERROR;
	else if (o->truncate == RF_TRUNCATE_MIDDLE && !o->max_prompt)
		return rf_fail(e, RF_EUSAGE, "--truncate middle requires --max-prompt");
	else if (o->truncate == RF_TRUNCATE_SPLIT && o->max_prompt)
		return rf_fail(e, RF_EUSAGE, "--truncate split cannot be combined with --max-prompt");
	else if (o->truncate != RF_TRUNCATE_ERROR && !o->max_len && !o->max_prompt)
		return rf_fail(e, RF_EUSAGE, "--truncate requires --max-len or --max-prompt");
	if (o->choices && o->max_len && o->truncate != RF_TRUNCATE_ERROR && o->truncate != RF_TRUNCATE_LEFT &&
	    o->truncate != RF_TRUNCATE_DROP)
		return rf_fail(e, RF_EUSAGE,
		               "--choices-key: the choices follow the end of the prompt, of "
		               "which --max-len can only cut the left side");
	return RF_OK;
}

enum rf_code rf_sequences_open(struct rf_sequences **out, struct rf_sequences_options *o,
                               const struct rf_tokenizer *tok, struct rf_text *text, uint64_t max_record,
                               struct rf_err *e)
{
	enum rf_code rc = check_lengths(o, e);
	struct rf_sequences *s;
	bool texts, ids;

	*out = NULL;
	if (rc != RF_OK)
		return rc;
	if (o->documents.split == RF_SPLIT_VALID && !o->documents.valid_every)
		return rf_fail(e, RF_EUSAGE, "--split valid requires --valid-every");
	rf_text_holds(text, &texts, &ids);
	if (!tok && texts)
		return rf_fail(e, RF_EUSAGE, "text needs a tokenizer: use --bytes or --tokenizer");
	if (!tok && ids && !o->vocab)
		return rf_fail(e, RF_EUSAGE,
		               "token ids need a vocabulary size: use --vocab, or --tokenizer of a model");
	if (o->documents.bos == RF_BOS_YES && (!tok || rf_tokenizer_bos(tok) < 0))
		return rf_fail(e, RF_EUSAGE, "--bos yes: the tokenizer has no bos token");
	if (tok && o->vocab)
		return rf_fail(e, RF_EUSAGE, "--vocab cannot be combined with a tokenizer");
	if (!(s = calloc(1, sizeof *s)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->o = *o;
	s->max_record = max_record;
	s->vocab = tok ? rf_tokenizer_vocab(tok) : o->vocab;
	if (tok && ids && s->vocab < o->model_vocab)
		s->vocab = o->model_vocab;
	rf_record_init(&s->r);
	if ((rc = rf_documents_open(&s->documents, &s->o.documents, tok, s->vocab, text, e)) != RF_OK)
		rf_sequences_close(s);
	else
		*out = s;
	return rc;
}

void rf_sequences_close(struct rf_sequences *s)
{
	if (!s)
		return;
	rf_record_free(&s->r);
	rf_documents_close(s->documents);
	free(s);
}

int rf_sequences_vocab(const struct rf_sequences *s) { return s->vocab; }

/* Returns the plural ending for n. */
static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

/* Returns the number of ids of the longest choice. */
static size_t longest_choice(const struct rf_encoded *c)
{
	int32_t n = 0;

	for (int i = 0; i < c->doc.choices; i++)
		n = c->length[i] > n ? c->length[i] : n;
	return (size_t)n;
}

uint64_t rf_sequences_shortened(const struct rf_sequences *s, char *buf, size_t size)
{
	if (s->shortened)
		snprintf(buf, size,
		         "%" PRIu64 " of the answers had more than %d tokens: they were cut and have no end "
		         "token (raise --max-answer, or MAX_ANSWER of posttrain.mk)",
		         s->shortened, s->o.max_answer);
	return s->shortened;
}

uint64_t rf_sequences_too_long(const struct rf_sequences *s, char *buf, size_t size)
{
	uint64_t n = s->count.too_long;

	if (n)
		snprintf(buf, size, "%" PRIu64 " %s%s longer than %d tokens %s left out (--truncate drop)", n,
		         s->o.max_prompt ? "prompt" : "document", plural(n),
		         s->o.max_prompt ? s->o.max_prompt : s->o.max_len, n == 1 ? "was" : "were");
	return n;
}

/* Returns the number of ids of the current document after max_answer has cut its answer. */
static size_t with_answer(const struct rf_sequences *s)
{
	const struct rf_encoded *c = s->c;
	size_t max = (size_t)s->o.max_answer;

	return c->doc.answer && max && c->count - c->prompt - c->ended > max ? c->prompt + max : c->count;
}

/* Returns whether the current document is left out because it, or its prompt, is too long. */
static bool too_long(const struct rf_sequences *s)
{
	const struct rf_encoded *c = s->c;

	if (s->o.truncate != RF_TRUNCATE_DROP)
		return false;
	if (s->o.max_prompt)
		return c->doc.is_prompt && c->prompt > (size_t)s->o.max_prompt;
	return with_answer(s) + longest_choice(c) > (size_t)s->o.max_len;
}

/* Cuts the answer to max_answer ids, and the prompt to max_prompt.  *lost: the number of ids cut off. */
static enum rf_code cut_parts(struct rf_sequences *s, size_t *lost, struct rf_err *e)
{
	struct rf_encoded *c = s->c;
	size_t before = c->count, max = (size_t)s->o.max_prompt, first;

	c->count = with_answer(s);
	s->shortened += c->count < before;
	if (c->doc.is_prompt && max && c->prompt > max) {
		if (s->o.truncate == RF_TRUNCATE_ERROR)
			return rf_fail(e, RF_EDATA,
			               "the prompt has %zu tokens, more than --max-prompt %zu (--truncate "
			               "left, right or middle cuts it)",
			               c->prompt, max);
		first = s->o.truncate == RF_TRUNCATE_LEFT    ? 0
		        : s->o.truncate == RF_TRUNCATE_RIGHT ? max
		                                             : max - max / 2;
		memmove(c->ids + first, c->ids + c->prompt - (max - first),
		        (c->count - c->prompt + max - first) * sizeof *c->ids);
		c->count -= c->prompt - max;
		c->prompt = max;
	}
	*lost = before - c->count;
	return RF_OK;
}

/* Cuts the left side of a prompt with choices, so that the longest choice fits into max_len. */
static enum rf_code cut_choices(struct rf_sequences *s, struct rf_err *e)
{
	const struct rf_encoded *c = s->c;
	size_t n = longest_choice(c), max = (size_t)s->o.max_len;

	if (!max || c->count + n <= max)
		return RF_OK;
	if (s->o.truncate == RF_TRUNCATE_ERROR)
		return rf_fail(e, RF_EDATA,
		               "the prompt of %zu tokens and its longest choice of %zu are more than "
		               "--max-len %zu (--truncate left cuts the prompt)",
		               c->count, n, max);
	if (n >= max)
		return rf_fail(e, RF_EDATA,
		               "a choice has %zu tokens, so that --max-len %zu leaves nothing "
		               "of the prompt",
		               n, max);
	s->at = c->count + n - max;
	s->count.cut++;
	return RF_OK;
}

/* Decides which ids of the document are returned: [at, stop), in pieces of max_len. */
static enum rf_code cut_document(struct rf_sequences *s, struct rf_err *e)
{
	const struct rf_encoded *c = s->c;
	size_t lost = 0, n, max, min = (size_t)s->o.min_len;
	enum rf_code rc;

	if (too_long(s)) {
		s->at = s->stop = 0;
		s->count.dropped++;
		s->count.too_long++;
		s->count.left_out += c->count;
		return RF_OK;
	}
	if ((rc = cut_parts(s, &lost, e)) != RF_OK)
		return rc;
	n = c->count;
	max = s->o.max_len && !c->doc.choices ? (size_t)s->o.max_len : n;
	s->at = 0;
	s->stop = n;
	if (c->doc.choices && (rc = cut_choices(s, e)) != RF_OK)
		return rc;
	if (n > max) {
		switch (s->o.truncate) {
		case RF_TRUNCATE_ERROR:
			return rf_fail(e, RF_EDATA,
			               "the document has %zu tokens, more than --max-len %zu (%s)", n, max,
			               c->doc.answers > 0 ? "--max-prompt cuts the prompt"
			                                  : "--truncate left, right or split cuts it");
		case RF_TRUNCATE_LEFT: s->at = n - max; break;
		case RF_TRUNCATE_RIGHT: s->stop = max; break;
		default: /* SPLIT */
			if (n % max < min)
				s->stop = n - n % max;
		}
		s->count.unanswered += c->doc.answer && s->stop <= c->prompt;
	}
	/* a document whose tokens are all in its pieces lost no tokens */
	s->count.split += s->stop - s->at > max;
	s->count.cut += s->o.truncate == RF_TRUNCATE_SPLIT ? s->stop < n || lost : n > max || lost;
	if (n < min) {
		s->stop = 0;
		s->count.dropped++;
	} else {
		s->count.kept++;
	}
	s->count.left_out += lost + n - (s->stop - s->at);
	return RF_OK;
}

/* Names the current document as the place of a failure. */
static enum rf_code blame(struct rf_sequences *s, struct rf_err *e)
{
	s->goes_on = s->c->doc.line > 0;
	return rf_doc_blame(&s->c->doc, e);
}

static enum rf_code next_document(struct rf_sequences *s, struct rf_err *e)
{
	enum rf_code rc = rf_documents_next(s->documents, &s->c, e);

	s->before = s->count;
	s->goes_on = rf_documents_goes_on(s->documents);
	if (rc == RF_OK && (rc = cut_document(s, e)) != RF_OK)
		return blame(s, e);
	return rc;
}

/* Returns the bytes of a record's message, or a few more. */
static uint64_t message_size(const struct rf_record *r)
{
	uint64_t n = 200 + (uint64_t)r->T * sizeof *r->tokens + r->meta.size;

	for (int i = 0; i < r->answers; i++)
		n += strlen(r->answer[i]) + 5;
	n += 4 * (uint64_t)r->choice.n * ((uint64_t)r->choice.m + 2) + (r->choice.n ? 200 : 0);
	return n + (r->source ? strlen(r->source) : 0);
}

/* Fills the rows of the record's choices, each as long as the longest choice.  Their number and length are
 * set already. */
static enum rf_code fill_choices(struct rf_sequences *s, struct rf_err *e)
{
	struct rf_choice *to = &s->r.choice;
	const struct rf_encoded *c = s->c;
	const int32_t *from = c->choice;
	size_t m = (size_t)to->m, need = (size_t)to->n * m;
	int32_t *rows = rf_record_alloc(&s->r, need, sizeof *rows);

	if (!rows)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	to->tokens = rows;
	memset(rows, 0, need * sizeof *rows);
	for (int i = 0; i < to->n; i++) {
		memcpy(rows + (size_t)i * m, from, (size_t)c->length[i] * sizeof *rows);
		from += c->length[i];
	}
	to->length = c->length;
	to->from = c->contexts ? c->from : NULL;
	return RF_OK;
}

static enum rf_code next_sequence(struct rf_sequences *s, const struct rf_record **out, struct rf_err *e)
{
	const struct rf_doc *d;
	struct rf_record *r = &s->r;
	enum rf_code rc;
	size_t n;

	while (s->at == s->stop)
		if ((rc = next_document(s, e)) != RF_OK)
			return rc;
	d = &s->c->doc;
	n = s->stop - s->at;
	if (s->o.max_len && n > (size_t)s->o.max_len)
		n = (size_t)s->o.max_len;
	if (n > INT_MAX) {
		rf_fail(e, RF_EDATA,
		        "the document has %zu tokens, but a sequence can have at most %d (--max-len and "
		        "--truncate cut it)",
		        n, INT_MAX);
		return blame(s, e);
	}
	rf_record_clear(r);
	r->id = s->sequences;
	r->T = (int)n;
	r->tokens = s->c->ids + s->at;
	r->prompt_len = !d->is_prompt              ? -1
	                : s->c->prompt < s->at     ? 0
	                : s->c->prompt - s->at < n ? (int)(s->c->prompt - s->at)
	                                           : (int)n;
	r->answers = d->answers;
	r->answer = d->all;
	r->source = d->source;
	r->meta = d->meta;
	r->choice = (struct rf_choice){ .n = d->choices, .m = (int)longest_choice(s->c) };
	if (message_size(r) > s->max_record) {
		rf_fail(e, RF_EDATA,
		        "a record of %zu tokens would be longer than %llu bytes (raise --max-record, or cut "
		        "the document with --max-len and --truncate)",
		        n, (unsigned long long)s->max_record);
		return blame(s, e);
	}
	if (d->choices && (rc = fill_choices(s, e)) != RF_OK)
		return rc;
	s->at += n;
	s->sequences++;
	s->tokens += n;
	*out = r;
	return RF_OK;
}

enum rf_code rf_sequences_next(struct rf_sequences *s, const struct rf_record **out, struct rf_err *e)
{
	struct rf_err err;
	enum rf_code rc;

	while ((rc = next_sequence(s, out, &err)) == RF_EDATA && s->goes_on &&
	       rf_skip_line(s->o.skip, rc, &err) == RF_OK) {
		/* no piece of the document was returned, because the first piece is the longest */
		s->at = s->stop = 0;
		s->count = s->before;
	}
	if (e && rc != RF_OK && rc != RF_EOF)
		*e = err;
	return rc;
}

uint64_t rf_sequences_documents(const struct rf_sequences *s)
{
	return s->count.kept + s->count.dropped + rf_documents_passed(s->documents);
}

char *rf_sequences_summary(const struct rf_sequences *s, char *buf, size_t size)
{
	char passed[64] = "", split[64] = "", cut[64] = "", unanswered[64] = "";
	const struct counts *n = &s->count;
	uint64_t others = rf_documents_passed(s->documents), documents = rf_sequences_documents(s);

	if (s->o.documents.valid_every)
		snprintf(passed, sizeof passed, ", %" PRIu64 " of them for %s", others,
		         s->o.documents.split == RF_SPLIT_VALID ? "training" : "validation");
	if (n->unanswered)
		snprintf(unanswered, sizeof unanswered, ", %" PRIu64 " of these without their answer",
		         n->unanswered);
	if (s->o.truncate == RF_TRUNCATE_SPLIT)
		snprintf(split, sizeof split, "%" PRIu64 " of them split%s", n->split, n->cut ? ", " : "");
	if (!*split || n->cut)
		snprintf(cut, sizeof cut, "%" PRIu64 " of them cut", n->cut);
	snprintf(buf, size,
	         "%" PRIu64 " document%s%s: %" PRIu64 " kept (%s%s%s), %" PRIu64 " dropped; "
	         "%" PRIu64 " sequence%s of %" PRIu64 " token%s, %" PRIu64 " left out",
	         documents, plural(documents), passed, n->kept, split, cut, unanswered, n->dropped,
	         s->sequences, plural(s->sequences), s->tokens, plural(s->tokens), n->left_out);
	return buf;
}
