/* documents.c -- documents as ids.
 *
 * One thread encodes each document where the text has it, so that it can be written as soon as it was read.
 * With more threads documents are copied until there is work for all; these are encoded, each by whichever
 * thread is free, and handed out in their order.  A document's ids depend on nothing but itself, and so does
 * its failure: it is found again, with its sentence, when its turn comes. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cores.h"
#include "text/documents.h"

/* Of a batch: as much text for each thread as outweighs starting it, in so many documents that no thread is
 * left with a long one alone, but not more text than MOST, however few they are. */
enum { LEAST = 1 << 18, MOST = 4 << 20, FEW = 4, MANY = 1024, KEPT = 1 << 20 };

struct job {
	struct rf_encoded out;
	struct rf_buf own;               /* what the document points to, if it is a copy */
	const char **all;
	int32_t *buf;                    /* ids */
	size_t cap;
	bool failed;
};

struct rf_documents {
	const struct rf_sequences_options *o;
	const struct rf_tokenizer *tok;
	struct rf_text *text;
	int vocab, threads;
	struct job *job;
	size_t room, n, at;              /* jobs there are, of this batch, handed out */
	atomic_size_t next;              /* of the batch, the next to encode */
	enum rf_code rc;                 /* why there are no more documents behind the batch, or RF_OK */
	struct rf_err err;
	uint64_t read, passed;
};

enum rf_code rf_documents_open(struct rf_documents **out, const struct rf_sequences_options *o,
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
	free(j->buf);
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

void rf_documents_counts(const struct rf_documents *d, uint64_t *read, uint64_t *passed)
{
	*read = d->read;
	*passed = d->passed;
}

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

static enum rf_code append(struct job *j, int id, struct rf_err *e)
{
	if (j->out.count == j->cap) {
		int32_t *buf = realloc(j->buf, (j->cap + 1) * sizeof *buf);
		if (!buf)
			return rf_fail(e, RF_ENOMEM, "out of memory");
		j->buf = buf;
		j->cap++;
	}
	j->buf[j->out.count++] = id;
	return RF_OK;
}

static enum rf_code encode_text(const struct rf_documents *d, struct job *j, struct rf_err *e)
{
	struct rf_encoded *c = &j->out;
	const struct rf_doc *doc = &c->doc;
	int eos = d->o->no_eos || (doc->is_prompt && !doc->answer) ? -1 : rf_tokenizer_eos(d->tok);
	enum rf_code rc;

	c->count = 0;
	if (d->o->bos == RF_BOS_YES || (d->o->bos == RF_BOS_AUTO && rf_tokenizer_begins(d->tok)))
		if ((rc = append(j, rf_tokenizer_bos(d->tok), e)) != RF_OK)
			return rc;
	rc = rf_tokenizer_encode(d->tok, doc->text, doc->text_len, &j->buf, &c->count, &j->cap, e);
	c->prompt = c->count;
	if (rc == RF_OK && doc->answer)
		rc = rf_tokenizer_encode(d->tok, doc->answer, doc->answer_len, &j->buf, &c->count, &j->cap,
		                         e);
	c->ended = eos >= 0;
	if (rc == RF_OK && c->ended)
		rc = append(j, eos, e);
	c->ids = j->buf;
	return rc;
}

static enum rf_code encode(const struct rf_documents *d, struct job *j, struct rf_err *e)
{
	enum rf_code rc;

	j->out.ended = false;
	rc = j->out.doc.ids ? take_ids(d, &j->out, e) : encode_text(d, j, e);
	j->failed = rc != RF_OK;
	return j->failed ? rf_doc_blame(&j->out.doc, e) : RF_OK;
}

static void *work(void *arg)
{
	struct rf_documents *d = arg;
	size_t i;

	while ((i = atomic_fetch_add(&d->next, 1)) < d->n)
		encode(d, &d->job[i], NULL);
	return NULL;
}

/* Encodes the batch.  A thread that cannot be had is done without. */
static void encode_all(struct rf_documents *d)
{
	int want = d->n < (size_t)d->threads ? (int)d->n : d->threads, have = 0;
	pthread_t *id = calloc((size_t)want, sizeof *id);
	sigset_t all, old;

	atomic_store(&d->next, 0);
	sigfillset(&all); /* signals are the main thread's */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	while (id && have < want - 1 && !pthread_create(&id[have], NULL, work, d))
		have++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	work(d);
	while (have)
		pthread_join(id[--have], NULL);
	free(id);
}

/* ---- reading ------------------------------------------------------------------------------- */

static size_t add(struct rf_buf *b, const void *p, size_t n)
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

/* Copies what the document points to, of which the text keeps nothing when it reads the next one. */
static enum rf_code own(struct job *j, struct rf_err *e)
{
	struct rf_doc *d = &j->out.doc;
	struct rf_buf *b = &j->own;
	size_t answers = (size_t)(d->answers > 0 ? d->answers : 0);
	const char **all = realloc(j->all, (answers + 1) * sizeof *all);

	if (!all)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	j->all = all;
	b->n = 0;
	size_t ids = add(b, d->ids, d->count * sizeof *d->ids); /* first: memory begins aligned */
	size_t text = add(b, d->text, d->text_len), answer = add(b, d->answer, d->answer_len);
	size_t meta = add(b, d->meta.data, d->meta.size), name = add(b, d->name, strlen(d->name) + 1);
	size_t source = add(b, d->source, d->source ? strlen(d->source) + 1 : 0), each = b->n;
	for (size_t i = 0; i < answers; i++)
		add(b, d->all[i], strlen(d->all[i]) + 1);
	if (b->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (size_t i = 0; i < answers; i++) {
		all[i] = (const char *)b->p + each;
		each += strlen(all[i]) + 1;
	}
	d->all = all;
	d->ids = d->ids ? (int32_t *)(void *)(b->p + ids) : NULL;
	d->text = kept(b, d->text, text);
	d->answer = kept(b, d->answer, answer);
	d->meta.data = kept(b, d->meta.data, meta);
	d->name = kept(b, d->name, name);
	d->source = kept(b, d->source, source);
	return RF_OK;
}

/* Room for one more document in the batch; NULL: out of memory. */
static struct job *new_job(struct rf_documents *d)
{
	if (d->n == d->room) {
		size_t room = d->room ? 2 * d->room : 1;
		struct job *more = realloc(d->job, room * sizeof *more);

		if (!more)
			return NULL;
		memset(more + d->room, 0, (room - d->room) * sizeof *more);
		d->job = more;
		d->room = room;
	}
	return &d->job[d->n];
}

static bool for_us(const struct rf_documents *d, uint64_t number)
{
	return !d->o->valid_every ||
	       (number % (uint64_t)d->o->valid_every == 0) == (d->o->split == RF_SPLIT_VALID);
}

/* Whether the batch, of so many bytes of text, is work enough. */
static bool full(const struct rf_documents *d, size_t bytes)
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
	while ((!d->n || !full(d, bytes)) && (rc = rf_text_next(d->text, &doc, &d->err)) == RF_OK) {
		if (!for_us(d, d->read++)) {
			d->passed++;
			continue;
		}
		if (!(j = new_job(d))) {
			rc = rf_fail(&d->err, RF_ENOMEM, "out of memory");
			break;
		}
		j->out.doc = *doc;
		if (d->threads > 1 && (rc = own(j, &d->err)) != RF_OK)
			break;
		bytes += doc->text_len + doc->answer_len + doc->count + doc->meta.size;
		d->n++;
	}
	return rc;
}

enum rf_code rf_documents_next(struct rf_documents *d, struct rf_encoded **out, struct rf_err *e)
{
	struct job *j = d->at ? &d->job[d->at - 1] : NULL;
	enum rf_code rc;

	/* a long one that was handed out must not keep its memory, or every job could come to have as much */
	if (j && d->threads > 1 && j->own.cap + j->cap * sizeof *j->buf > KEPT)
		empty(j);
	if (d->at == d->n) {
		if (d->rc == RF_OK)
			d->rc = next_batch(d);
		else
			d->n = d->at = 0;
		if (!d->n) {
			if (e && d->rc != RF_EOF)
				*e = d->err;
			return d->rc;
		}
		if (d->threads > 1)
			encode_all(d);
	}
	j = &d->job[d->at++];
	if ((d->threads == 1 || j->failed) && (rc = encode(d, j, e)) != RF_OK)
		return rc;
	*out = &j->out;
	return RF_OK;
}
