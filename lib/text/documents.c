/* documents.c -- encodes documents.
 *
 * A single thread encodes each document in the reader's memory, so the document can be written as soon as it
 * was read.  With more threads, documents are copied into a batch until there is work for all threads.  The
 * threads encode them in any order, and they are returned in the order of the text.  The ids of a document,
 * and its failure, depend only on the document itself: a failed document is encoded again when its turn
 * comes, to get the sentence of the failure. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cores.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/documents.h"
#include "tokenizer/pattern.h"

/* Limits of a batch: bytes of text for each thread, so that starting the thread is worth it; documents for
 * each thread, so that no thread works on a long document while the others wait; and MOST bytes in all. */
enum { LEAST = 1 << 18, MOST = 4 << 20, FEW = 4, MANY = 1024, KEPT = 1 << 20 };

struct job {
	struct rf_encoded out;
	struct rf_buf own; /* copied memory that the document points to */
	const char **all;
	struct rf_id_list ids;
	/* for choices: their ids; a context with its choice; their lengths, and the part that is context */
	struct rf_id_list choice, whole;
	int32_t *size;
	bool failed;
};

struct rf_documents {
	const struct rf_documents_options *o;
	const struct rf_tokenizer *tok;
	struct rf_text *text;
	int vocab, threads;
	struct job *job;
	size_t room, n, at; /* number of jobs: allocated, in this batch, returned */
	atomic_size_t next; /* the next job of the batch to encode */
	enum rf_code rc;    /* the reason why no documents follow the batch, or RF_OK */
	struct rf_err err;
	bool goes_on; /* the last failure concerned one line only */
	uint64_t read, passed;
};

enum rf_code rf_documents_open(struct rf_documents **out, const struct rf_documents_options *o,
                               const struct rf_tokenizer *tok, int vocab, struct rf_text *text,
                               struct rf_err *e)
{
	struct rf_documents *d = *out = calloc(1, sizeof *d);

	if (!d)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	d->o = o;
	d->tok = tok;
	d->text = text;
	d->vocab = vocab;
	d->threads = o->threads ? o->threads : rf_cores();
	return RF_OK;
}

static void empty(struct job *j)
{
	rf_buf_free(&j->own);
	free(j->all);
	free(j->ids.p);
	free(j->choice.p);
	free(j->whole.p);
	free(j->size);
	*j = (struct job){ 0 };
}

void rf_documents_close(struct rf_documents *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->room; i++)
		empty(&d->job[i]);
	free(d->job);
	free(d);
}

uint64_t rf_documents_passed(const struct rf_documents *d) { return d->passed; }

bool rf_documents_goes_on(const struct rf_documents *d) { return d->goes_on; }

/* ---- encoding ------------------------------------------------------------------------------ */

static enum rf_code take_ids(const struct rf_documents *d, struct rf_encoded *c, struct rf_err *e)
{
	c->ids = c->doc.ids;
	c->count = c->prompt = c->doc.count;
	for (size_t i = 0; i < c->count; i++)
		if (c->ids[i] >= d->vocab)
			return rf_fail(e, RF_EDATA,
			               "'tokens' has %d at index %zu, outside the vocabulary of %d",
			               (int)c->ids[i], i, d->vocab);
	return RF_OK;
}

/* Appends a text or a prompt, after the tokens of --bos. */
static enum rf_code append_text(const struct rf_documents *d, const char *text, size_t n,
                                struct rf_id_list *ids, struct rf_err *e)
{
	const int32_t bos = rf_tokenizer_bos(d->tok), *before = &bos;
	size_t many = d->o->bos == RF_BOS_YES;
	enum rf_code rc;

	if (d->o->bos == RF_BOS_AUTO)
		before = rf_tokenizer_before(d->tok, &many);
	rc = rf_id_list_add(ids, before, many, e);
	return rc == RF_OK ? rf_tokenizer_encode(d->tok, text, n, ids, e) : rc;
}

static enum rf_code encode_text(const struct rf_documents *d, struct job *j, struct rf_err *e)
{
	struct rf_encoded *c = &j->out;
	const struct rf_doc *doc = &c->doc;
	const int32_t eos = d->o->no_eos || (doc->is_prompt && !doc->answer) ? -1 : rf_tokenizer_eos(d->tok);
	enum rf_code rc;

	j->ids.n = 0;
	rc = append_text(d, doc->text, doc->text_len, &j->ids, e);
	c->prompt = j->ids.n;
	if (rc == RF_OK && doc->answer)
		rc = rf_tokenizer_encode(d->tok, doc->answer, doc->answer_len, &j->ids, e);
	c->ended = eos >= 0;
	if (rc == RF_OK && c->ended)
		rc = rf_id_list_add(&j->ids, &eos, 1, e);
	c->ids = j->ids.p;
	c->count = j->ids.n;
	return rc;
}

/* ---- choices ------------------------------------------------------------------------------- */

/* Returns the length of a text without the blanks at its end. */
static size_t stripped_length(const char *s, size_t n)
{
	size_t len;

	while (n && rf_utf8_blank(rf_character_before(s, n, &len)))
		n -= len;
	return n;
}

/* Sets j->ids to the ids of a context of n bytes, without the blanks at its end.  *own: their number; if it
 * is 0, one token stands for the empty context. */
static enum rf_code encode_context(const struct rf_documents *d, struct job *j, const char *text, size_t n,
                                   size_t *own, struct rf_err *e)
{
	const int32_t bos = rf_tokenizer_bos(d->tok), one = bos >= 0 ? bos : rf_tokenizer_eos(d->tok);
	enum rf_code rc = RF_OK;

	j->ids.n = 0;
	if (n)
		rc = append_text(d, text, stripped_length(text, n), &j->ids, e);
	*own = j->ids.n;
	if (rc != RF_OK || *own)
		return rc;
	if (one < 0)
		return rf_fail(e, RF_EDATA,
		               "the prompt is empty, and the tokenizer has neither a bos nor an "
		               "end token to stand for it");
	return rf_id_list_add(&j->ids, &one, 1, e);
}

/* Encodes context and choice i as one text, and appends to j->choice the ids after the first `own`, the
 * number of ids that the context has. */
static enum rf_code encode_choice(const struct rf_documents *d, struct job *j, int i, const char *context,
                                  size_t n, size_t own, struct rf_err *e)
{
	const struct rf_doc *doc = &j->out.doc;
	struct rf_buf both = { 0 };
	size_t skip = own;
	enum rf_code rc;

	rf_buf_add(&both, context, n);
	rf_buf_add(&both, doc->choice_prefix, strlen(doc->choice_prefix));
	rf_buf_add(&both, doc->choice[i], strlen(doc->choice[i]));
	j->whole.n = 0;
	if (both.failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	else if (own)
		rc = append_text(d, (const char *)both.p, both.n, &j->whole, e);
	else
		rc = rf_tokenizer_encode(d->tok, (const char *)both.p, both.n, &j->whole, e);
	rf_buf_free(&both);
	if (rc != RF_OK)
		return rc;
	if (!own) /* the text may begin with the token that stands for an empty context */
		skip = j->whole.n && j->whole.p[0] == j->ids.p[0];
	if (j->whole.n <= skip)
		return rf_fail(e, RF_EDATA, "choice %d has no token of its own after the prompt", i);
	j->out.length[i] += (int32_t)(j->whole.n - skip);
	return rf_id_list_add(&j->choice, j->whole.p + skip, j->whole.n - skip, e);
}

/* Moves the common beginning of the contexts, which precede the choices in j->choice, to j->ids. */
static enum rf_code share_beginning(struct job *j, struct rf_err *e)
{
	struct rf_encoded *c = &j->out;
	const int32_t *first = j->choice.p, *p = first;
	size_t T = (size_t)c->from[0], at = 0;
	int32_t *to = j->choice.p;

	for (int i = 0; i < c->doc.choices; i++) {
		size_t n = 0;

		while (n < T && n < (size_t)c->from[i] && p[n] == first[n])
			n++;
		T = n;
		p += c->length[i];
	}
	if (!T)
		return rf_fail(e, RF_EDATA,
		               "the contexts begin with different tokens: nothing can be shared "
		               "(--bos yes, or a line for each)");
	j->ids.n = 0;
	enum rf_code rc = rf_id_list_add(&j->ids, first, T, e);
	for (int i = 0; i < c->doc.choices && rc == RF_OK; i++) {
		size_t n = (size_t)c->length[i];

		memmove(to, j->choice.p + at + T, (n - T) * sizeof *to);
		to += n - T;
		at += n;
		c->length[i] -= (int32_t)T;
		c->from[i] -= (int32_t)T;
		c->contexts |= c->from[i] > 0;
	}
	return rc;
}

/* Encodes pairs of context and choice as lm-eval does (api/model.py, _encode_pair): the blanks at the end of
 * a context belong to the choice.  Both are encoded as one text; if the context has m ids when it is encoded
 * separately, the ids after the first m belong to the choice. */
static enum rf_code encode_choices(const struct rf_documents *d, struct job *j, struct rf_err *e)
{
	struct rf_encoded *c = &j->out;
	const struct rf_doc *doc = &c->doc;
	const size_t n = (size_t)doc->choices;
	int32_t *size = realloc(j->size, 2 * n * sizeof *size);
	size_t own = 0;
	enum rf_code rc = RF_OK;

	if (!size)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	c->length = j->size = size;
	c->from = size + n;
	c->contexts = false;
	j->choice.n = 0;
	memset(size, 0, 2 * n * sizeof *size);
	for (int i = 0; i < doc->choices && rc == RF_OK; i++) {
		const char *context = doc->context ? doc->context[i] : doc->text;
		size_t len = doc->context ? strlen(context) : doc->text_len;

		if (!i || doc->context)
			rc = encode_context(d, j, context, len, &own, e);
		if (rc == RF_OK && doc->context) {
			c->from[i] = c->length[i] = (int32_t)j->ids.n;
			rc = rf_id_list_add(&j->choice, j->ids.p, j->ids.n, e);
		}
		if (rc == RF_OK)
			rc = encode_choice(d, j, i, context, len, own, e);
	}
	if (rc == RF_OK && doc->context)
		rc = share_beginning(j, e);
	c->choice = j->choice.p;
	c->ids = j->ids.p;
	c->prompt = c->count = j->ids.n;
	return rc;
}

/* ---- documents ----------------------------------------------------------------------------- */

static enum rf_code encode_document(const struct rf_documents *d, struct job *j, struct rf_err *e)
{
	enum rf_code rc;

	j->out.ended = false;
	rc = j->out.doc.ids       ? take_ids(d, &j->out, e)
	     : j->out.doc.choices ? encode_choices(d, j, e)
	                          : encode_text(d, j, e);
	j->failed = rc != RF_OK;
	return j->failed ? rf_doc_blame(&j->out.doc, e) : RF_OK;
}

static void *run_thread(void *arg)
{
	struct rf_documents *d = arg;
	size_t i;

	while ((i = atomic_fetch_add(&d->next, 1)) < d->n)
		encode_document(d, &d->job[i], NULL);
	return NULL;
}

/* Encodes the batch.  If a thread cannot be started, the others do its work. */
static void encode_all(struct rf_documents *d)
{
	int want = d->n < (size_t)d->threads ? (int)d->n : d->threads, have = 0;
	pthread_t *id = calloc((size_t)want, sizeof *id);
	sigset_t all, old;

	atomic_store(&d->next, 0);
	sigfillset(&all); /* the main thread gets all signals */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	while (id && have < want - 1 && !pthread_create(&id[have], NULL, run_thread, d))
		have++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	run_thread(d);
	while (have)
		pthread_join(id[--have], NULL);
	free(id);
}

/* ---- reading ------------------------------------------------------------------------------- */

static size_t add_copy(struct rf_buf *b, const void *p, size_t n)
{
	size_t at = b->n;

	if (p)
		rf_buf_add(b, p, n);
	return at;
}

static const char *kept(const struct rf_buf *b, const void *was, size_t at)
{
	return was ? (const char *)b->p + at : NULL;
}

/* Copies the memory that the document points to, which the reader reuses for the next document. */
static enum rf_code copy_document(struct job *j, struct rf_err *e)
{
	struct rf_doc *d = &j->out.doc;
	struct rf_buf *b = &j->own;
	size_t answers = (size_t)(d->answers > 0 ? d->answers : 0);
	size_t choices = (size_t)d->choices, texts = answers + choices * (d->context ? 2 : 1);
	const char **all = realloc(j->all, (texts + 1) * sizeof *all);

	if (!all)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	j->all = all;
	b->n = 0;
	/* the ids come first, because the memory begins aligned */
	size_t ids = add_copy(b, d->ids, d->count * sizeof *d->ids);
	size_t text = add_copy(b, d->text, d->text_len);
	size_t answer = add_copy(b, d->answer, d->answer_len);
	size_t meta = add_copy(b, d->meta.data, d->meta.size);
	size_t name = add_copy(b, d->name, strlen(d->name) + 1);
	size_t source = add_copy(b, d->source, d->source ? strlen(d->source) + 1 : 0), each = b->n;
	for (size_t i = 0; i < texts; i++) {
		const char *s = i < answers             ? d->all[i]
		                : i < answers + choices ? d->choice[i - answers]
		                                        : d->context[i - answers - choices];

		add_copy(b, s, strlen(s) + 1);
	}
	if (b->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (size_t i = 0; i < texts; i++) {
		all[i] = (const char *)b->p + each;
		each += strlen(all[i]) + 1;
	}
	d->all = all;
	d->choice = all + answers;
	d->context = d->context ? d->choice + choices : NULL;
	d->ids = d->ids ? (int32_t *)(void *)(b->p + ids) : NULL;
	d->text = kept(b, d->text, text);
	d->answer = kept(b, d->answer, answer);
	d->meta.data = kept(b, d->meta.data, meta);
	d->name = kept(b, d->name, name);
	d->source = kept(b, d->source, source);
	return RF_OK;
}

/* Makes room for one more document in the batch.  Returns NULL if memory ran out. */
static struct job *new_job(struct rf_documents *d)
{
	const size_t had = d->room;

	if (!rf_grow(&d->job, d->n, &d->room, sizeof *d->job))
		return NULL;
	memset(d->job + had, 0, (d->room - had) * sizeof *d->job);
	return &d->job[d->n];
}

static bool for_us(const struct rf_documents *d, uint64_t number)
{
	return !d->o->valid_every ||
	       (number % (uint64_t)d->o->valid_every == 0) == (d->o->split == RF_SPLIT_VALID);
}

/* Returns whether a batch with this many bytes of text is large enough. */
static bool is_full(const struct rf_documents *d, size_t bytes)
{
	size_t t = (size_t)d->threads;

	return d->threads == 1 || d->n >= MANY * t || bytes >= MOST * t ||
	       (bytes >= LEAST * t && d->n >= FEW * t);
}

static enum rf_code next_batch(struct rf_documents *d)
{
	const struct rf_doc *doc;
	struct job *j;
	size_t bytes = 0;
	enum rf_code rc = RF_OK;

	d->n = d->at = 0;
	while ((!d->n || !is_full(d, bytes)) && (rc = rf_text_next(d->text, &doc, &d->err)) == RF_OK) {
		if (!for_us(d, d->read++)) {
			d->passed++;
			continue;
		}
		if (!(j = new_job(d))) {
			rc = rf_fail(&d->err, RF_ENOMEM, "out of memory");
			break;
		}
		j->out.doc = *doc;
		if (d->threads > 1 && (rc = copy_document(j, &d->err)) != RF_OK)
			break;
		bytes += (doc->text_len + 1) * (size_t)(1 + doc->choices) + doc->answer_len + doc->count +
		         doc->meta.size;
		d->n++;
	}
	return rc;
}

enum rf_code rf_documents_next(struct rf_documents *d, struct rf_encoded **out, struct rf_err *e)
{
	struct job *j = d->at ? &d->job[d->at - 1] : NULL;
	enum rf_code rc;

	/* free the memory of a long document that was returned, or in time every job could hold as much */
	if (j && d->threads > 1 &&
	    j->own.cap + (j->ids.cap + j->choice.cap + j->whole.cap) * sizeof *j->ids.p > KEPT)
		empty(j);
	if (d->at == d->n) {
		if (d->rc == RF_OK)
			d->rc = next_batch(d);
		else
			d->n = d->at = 0;
		if (!d->n) {
			rc = d->rc;
			if (e && rc != RF_EOF)
				*e = d->err;
			d->goes_on = rc == RF_EDATA && rf_text_goes_on(d->text);
			if (d->goes_on)
				d->rc = RF_OK;
			return rc;
		}
		if (d->threads > 1)
			encode_all(d);
	}
	j = &d->job[d->at++];
	if ((d->threads == 1 || j->failed) && (rc = encode_document(d, j, e)) != RF_OK) {
		d->goes_on = j->out.doc.line > 0;
		return rc;
	}
	*out = &j->out;
	return RF_OK;
}
