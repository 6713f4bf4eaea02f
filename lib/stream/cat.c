/* cat.c -- joins, cuts, shuffles and repeats streams.  Records pass one at a time.  If they are shuffled or
 * repeated, all of them are kept in memory, as the compressed frames in which they arrived.
 *
 * A shuffle sorts by a random number that is drawn for each record's id.  So the order depends on the seed
 * and on the set of records, but not on the order in which they arrived.  Each repetition draws new
 * numbers. */
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/rng.h"
#include "stream/cat.h"
#include "stream/wire.h"

/* The joined inputs. */
struct joined {
	char *const *paths;
	int n, opened;       /* number of paths, and of inputs opened so far */
	struct rf_in *in;    /* the input that is open */
	struct rf_head head; /* head of the first input, with which the other heads must agree */
	char *first;         /* name of the first input */
	uint64_t from, to;   /* the range */
	uint64_t passed;     /* bytes of the inputs before this one */
	uint64_t index;      /* index of the next record */
	struct rf_ids ids;
	uint64_t same; /* number of records that came before the last one and have its id */
};

/* The records that are shuffled or repeated. */
struct kept {
	bool complete; /* whether all records have been read */
	struct rf_buf frames;
	struct kept_record {
		size_t offset, size; /* where its frame is in `frames` */
		uint64_t id, same;   /* same: number of records with this id that came before it */
		double key;
	} * record;
	size_t n, cap, next;
	int round; /* number of the repetition, from 0 */
};

/* The records of a mini-batch that belong to this rank. */
struct share {
	struct rf_record **record;
	size_t n, cap, next;
	int64_t mini_batch; /* number of the next mini-batch to deal */
	bool ended;         /* whether the last mini-batch was dealt */
};

struct rf_cat {
	struct rf_cat_options o;
	struct joined inputs;
	struct kept kept;
	struct share share;
	struct rf_head shown; /* head of the output, which the caller may change */
	uint64_t written;
};

/* ---- options ------------------------------------------------------------------------------- */

/* Reads --range. */
static enum rf_code read_range(struct rf_cat *c, struct rf_err *e)
{
	struct joined *j = &c->inputs;
	const char *s = c->o.range, *colon;

	j->to = UINT64_MAX;
	if (!s)
		return RF_OK;
	colon = strchr(s, ':');
	if (!colon || !rf_number(s, (size_t)(colon - s), &j->from) ||
	    (colon[1] && !rf_number(colon + 1, strlen(colon + 1), &j->to)) || j->from > j->to)
		return rf_fail(e, RF_EUSAGE, "--range: '%s' is not I:J, I: or :J with I <= J", s);
	return RF_OK;
}

bool rf_cat_changes(const struct rf_cat *c)
{
	return c->inputs.n > 1 || c->o.range || c->o.part != RF_PART_ALL ||
	       c->o.response != RF_RESPONSE_STAYS || c->o.shuffle || c->o.repeat > 1 || c->o.renumber;
}

struct rf_head *rf_cat_head(struct rf_cat *c) { return &c->shown; }

/* ---- joining ------------------------------------------------------------------------------- */

static enum rf_code same_text(const struct rf_cat *c, const char *what, const char *first, const char *next,
                              struct rf_err *e)
{
	if (*first && *next && strcmp(first, next))
		return rf_fail(e, RF_EDATA,
		               "%s: its %s is %.12s, that of '%s' is %.12s: the streams cannot be joined",
		               rf_in_name(c->inputs.in), what, next, c->inputs.first, first);
	return RF_OK;
}

static enum rf_code same_number(const struct rf_cat *c, const char *what, int64_t first, int64_t next,
                                int64_t none, struct rf_err *e)
{
	if (first != none && next != none && first != next)
		return rf_fail(e, RF_EDATA,
		               "%s: its %s is %lld, that of '%s' is %lld: the streams cannot be joined",
		               rf_in_name(c->inputs.in), what, (long long)next, c->inputs.first,
		               (long long)first);
	return RF_OK;
}

/* Compares the values that both heads have. */
static enum rf_code heads_agree(const struct rf_cat *c, struct rf_err *e)
{
	const struct rf_head *a = &c->inputs.head, *b = rf_in_head(c->inputs.in);
	enum rf_code rc = same_number(c, "vocab", a->vocab, b->vocab, 0, e);

	if (rc == RF_OK)
		rc = same_text(c, "tokenizer", a->tokenizer_kind, b->tokenizer_kind, e);
	if (rc == RF_OK)
		rc = same_text(c, "tokenizer hash", a->tokenizer_hash, b->tokenizer_hash, e);
	if (rc == RF_OK)
		rc = same_text(c, "model arch", a->arch, b->arch, e);
	if (rc == RF_OK)
		rc = same_text(c, "model weights", a->weights, b->weights, e);
	return rc == RF_OK ? same_number(c, "model step", a->step, b->step, -1, e) : rc;
}

/* Opens the next input, and compares its head with the first one. */
static enum rf_code open_next(struct rf_cat *c, struct rf_err *e)
{
	struct joined *j = &c->inputs;
	enum rf_code rc;

	if (j->in)
		j->passed += rf_in_bytes(j->in);
	rf_in_close(j->in);
	j->in = NULL;
	rc = rf_in_open(&j->in, j->n ? j->paths[j->opened] : NULL, c->o.max_record, e);
	if (rc == RF_OK && j->opened++)
		rc = heads_agree(c, e);
	return rc;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Skips n records of the input. */
static enum rf_code skip_records(struct rf_cat *c, uint64_t n, struct rf_err *e)
{
	struct joined *j = &c->inputs;
	uint64_t before = rf_in_count(j->in);
	enum rf_code rc = rf_skip(j->in, n, e);

	j->index += rf_in_count(j->in) - before;
	return rc;
}

/* Counts an id, and refuses an id that occurs twice unless new ids are assigned. */
static enum rf_code note_id(struct rf_cat *c, uint64_t id, struct rf_err *e)
{
	struct joined *j = &c->inputs;
	enum rf_code rc = rf_ids_add(&j->ids, id, &j->same, e);

	if (rc == RF_OK && j->same && !c->o.renumber && c->o.repeat == 1) {
		rf_fail(e, RF_EDATA, "id %llu occurs twice (--renumber assigns new ids)",
		        (unsigned long long)id);
		rc = rf_in_blame(j->in, e);
	}
	return rc;
}

/* Reads the next record of the joined inputs that is in the range. */
static enum rf_code read_in_range(struct rf_cat *c, struct rf_record **rec, struct rf_err *e)
{
	struct joined *j = &c->inputs;
	enum rf_code rc = RF_OK;

	for (;;) {
		if (j->index < j->from)
			rc = skip_records(c, j->from - j->index, e);
		else if (j->index >= j->to)
			rc = skip_records(c, UINT64_MAX, e); /* to the end, which verifies the count */
		else if ((rc = rf_next(j->in, rec, e)) == RF_OK)
			break;
		if (rc == RF_EOF) {
			if (j->opened >= j->n || j->index >= j->to)
				return RF_EOF;
			rc = open_next(c, e);
		}
		if (rc != RF_OK)
			return rc;
	}
	j->index++;
	rf_meter_read(c->o.meter, j->passed + rf_in_bytes(j->in));
	/* the head of a later input may lack the vocabulary */
	if (rf_in_head(j->in)->vocab != j->head.vocab && rf_record_check(*rec, j->head.vocab, e) != RF_OK)
		return rf_in_blame(j->in, e);
	return note_id(c, (*rec)->id, e);
}

/* ---- cutting ------------------------------------------------------------------------------- */

/* Returns RF_EDATA, with a sentence that names the option which needs prompt_len. */
static enum rf_code no_prompt_len(const struct rf_record *r, const char *option, struct rf_err *e)
{
	return rf_fail(e, RF_EDATA,
	               "id %llu has no prompt_len, which %s needs (rf-tokenize --prompt-key writes it)",
	               (unsigned long long)r->id, option);
}

/* Cuts a record to its prompt or its response. */
static enum rf_code cut_record(struct rf_record *r, enum rf_record_part part, struct rf_err *e)
{
	if (part == RF_PART_ALL)
		return RF_OK;
	if (r->prompt_len < 0)
		return no_prompt_len(r, "--part", e);
	if (r->prompt_len == (part == RF_PART_PROMPT ? 0 : r->T))
		return rf_fail(e, RF_EDATA, "id %llu has an empty %s", (unsigned long long)r->id,
		               part == RF_PART_PROMPT ? "prompt" : "response");
	if (part == RF_PART_PROMPT) {
		r->T = r->prompt_len;
	} else {
		r->tokens += r->prompt_len;
		r->T -= r->prompt_len;
		r->prompt_len = 0;
	}
	rf_record_drop_computed(r);
	return RF_OK;
}

/* Moves the tokens after the prompt to the response. */
static enum rf_code split_response(struct rf_record *r, struct rf_err *e)
{
	if (r->prompt_len < 0)
		return no_prompt_len(r, "--split-response", e);
	if (!r->prompt_len)
		return rf_fail(e, RF_EDATA, "id %llu has an empty prompt", (unsigned long long)r->id);
	if (r->prompt_len < r->T) {
		r->response = r->tokens + r->prompt_len;
		r->response_len = r->T - r->prompt_len;
	}
	r->T = r->prompt_len;
	r->prompt_len = -1;
	rf_record_drop_computed(r);
	return RF_OK;
}

/* Appends the response to the prompt. */
static enum rf_code join_response(struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc;

	if (r->prompt_len >= 0)
		return rf_fail(e, RF_EDATA,
		               "id %llu has prompt_len, so its response was not split off (rf-cat "
		               "--split-response)",
		               (unsigned long long)r->id);
	if ((rc = rf_record_join(r, e)) == RF_OK)
		rf_record_drop_computed(r);
	return rc;
}

/* Changes a record as --part, --split-response or --join-response say. */
static enum rf_code change_record(const struct rf_cat_options *o, struct rf_record *r, struct rf_err *e)
{
	return o->response == RF_RESPONSE_SPLIT  ? split_response(r, e)
	       : o->response == RF_RESPONSE_JOIN ? join_response(r, e)
	                                         : cut_record(r, o->part, e);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Keeps the frames of all records. */
static enum rf_code keep_frames(struct rf_cat *c, struct rf_err *e)
{
	struct joined *j = &c->inputs;
	struct kept *k = &c->kept;
	struct rf_record *rec;
	enum rf_code rc;

	while ((rc = read_in_range(c, &rec, e)) == RF_OK) {
		const void *frame;
		size_t n;

		if (!rf_grow(&k->record, k->n, &k->cap, sizeof *k->record))
			return rf_fail(e, RF_ENOMEM, "out of memory (%zu records to shuffle or repeat)",
			               k->n);
		rf_in_frame(j->in, &frame, &n);
		k->record[k->n++] = (struct kept_record){ k->frames.n, n, rec->id, j->same, 0 };
		rf_buf_add(&k->frames, frame, n);
		if (k->frames.failed)
			return rf_fail(e, RF_ENOMEM, "out of memory (%zu records to shuffle or repeat)",
			               k->n);
	}
	if (rc != RF_EOF)
		return rc;
	k->complete = true;
	k->next = k->n; /* so that the first round begins */
	return RF_OK;
}

static int by_key(const void *a, const void *b)
{
	const struct kept_record *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->same < y->same ? -1 : x->same > y->same;
}

/* Puts the kept records into the order of this repetition. */
static void shuffle_records(struct rf_cat *c)
{
	struct kept *k = &c->kept;
	for (size_t i = 0; i < k->n; i++) {
		struct kept_record *w = &k->record[i];
		w->key = rf_draw(rf_draw_key(c->o.seed, RF_DRAW_SHUFFLE,
		                             (uint64_t)c->o.epoch + (uint64_t)k->round, w->id, w->same, 0),
		                 0);
	}
	if (k->n)
		qsort(k->record, k->n, sizeof *k->record, by_key);
}

/* Decodes the next of the records that were kept, round after round. */
static enum rf_code next_kept(struct rf_cat *c, struct rf_record **rec, struct rf_err *e)
{
	struct kept *k = &c->kept;
	enum rf_code rc = k->complete ? RF_OK : keep_frames(c, e);
	const struct kept_record *w;

	if (rc != RF_OK)
		return rc;
	if (k->next == k->n) {
		k->round++;
		k->next = 0;
	}
	if (!k->n || k->round == c->o.repeat)
		return RF_EOF;
	if (!k->next && c->o.shuffle)
		shuffle_records(c);
	w = &k->record[k->next++];
	return rf_in_reread(c->inputs.in, k->frames.p + w->offset, w->size, rec, e);
}

/* Reads the next record of the output of all ranks. */
static enum rf_code next_of_all(struct rf_cat *c, struct rf_record **rec, struct rf_err *e)
{
	bool waits = c->o.shuffle || c->o.repeat > 1;
	enum rf_code rc = waits ? next_kept(c, rec, e) : read_in_range(c, rec, e);

	if (rc == RF_OK && (rc = change_record(&c->o, *rec, e)) != RF_OK)
		return waits ? rf_blame(e, "%s", rf_in_name(c->inputs.in)) : rf_in_blame(c->inputs.in, e);
	if (rc == RF_OK && (c->o.renumber || c->o.repeat > 1))
		(*rec)->id = c->written;
	c->written++;
	return rc;
}

/* ---- dealing ------------------------------------------------------------------------------- */

static void free_record(struct rf_record **r)
{
	if (*r)
		rf_record_free(*r);
	free(*r);
	*r = NULL;
}

/* Keeps a copy of a record of the mini-batch. */
static enum rf_code hold_record(struct rf_cat *c, const struct rf_record *r, struct rf_err *e)
{
	struct share *h = &c->share;
	struct rf_record *copy;

	if (!rf_grow(&h->record, h->n, &h->cap, sizeof *h->record) || !(copy = malloc(sizeof *copy)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%zu records to deal)", h->n);
	rf_record_init(copy);
	h->record[h->n++] = copy;
	return rf_record_copy(copy, r, e);
}

static int longest_first(const void *a, const void *b)
{
	const struct rf_record *const x = *(struct rf_record *const *)a;
	const struct rf_record *const y = *(struct rf_record *const *)b;

	if (x->T != y->T)
		return x->T > y->T ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* Takes the next mini-batch, and keeps this rank's records of it, in the order of the stream. */
static enum rf_code deal_mini_batch(struct rf_cat *c, struct rf_err *e)
{
	struct share *h = &c->share;
	const struct rf_shard *s = &c->o.shard;
	const int64_t size = rf_shard_size(s, h->mini_batch++);
	struct rf_record *r, **sorted;
	enum rf_code rc = RF_OK;
	size_t mine = 0;

	h->n = h->next = 0;
	while ((int64_t)h->n < size && (rc = next_of_all(c, &r, e)) == RF_OK &&
	       (rc = hold_record(c, r, e)) == RF_OK)
		;
	if (rc == RF_EOF)
		h->ended = true;
	else if (rc != RF_OK)
		return rc;
	if (!h->n)
		return RF_OK;
	if (!(sorted = malloc(h->n * sizeof *sorted)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%zu records to deal)", h->n);
	memcpy(sorted, h->record, h->n * sizeof *sorted);
	qsort(sorted, h->n, sizeof *sorted, longest_first);
	for (size_t place = 0; place < h->n; place++)
		if (rf_shard_rank(s, (int64_t)place) != s->rank)
			sorted[place]->T = 0; /* marks a record of another rank */
	free(sorted);
	for (size_t i = 0; i < h->n; i++)
		if (h->record[i]->T)
			h->record[mine++] = h->record[i];
		else
			free_record(&h->record[i]);
	h->n = mine;
	return RF_OK;
}

enum rf_code rf_cat_next(struct rf_cat *c, struct rf_record **rec, struct rf_err *e)
{
	struct share *h = &c->share;
	enum rf_code rc = RF_OK;

	if (c->o.shard.ranks <= 1)
		return next_of_all(c, rec, e);
	if (h->next)
		free_record(&h->record[h->next - 1]);
	while (h->next == h->n && !h->ended && rc == RF_OK)
		rc = deal_mini_batch(c, e);
	if (rc != RF_OK)
		return rc;
	if (h->next == h->n)
		return RF_EOF;
	*rec = h->record[h->next++];
	return RF_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Makes the head of the output, to which the caller may add. */
static enum rf_code make_head(struct rf_cat *c, struct rf_err *e)
{
	const struct rf_cat_options *o = &c->o;
	enum rf_code rc = rf_head_copy(&c->shown, &c->inputs.head, e);

	if (rc != RF_OK)
		return rc;
	if (o->shard.ranks > 1)
		c->shown.shard = o->shard;
	else if (rf_cat_changes(c)) /* a stream made of shares is not a share */
		c->shown.shard = (struct rf_shard){ 0 };
	if (o->part != RF_PART_ALL || o->response != RF_RESPONSE_STAYS) {
		c->shown.arch[0] = c->shown.weights[0] = 0;
		c->shown.step = -1;
	}
	return RF_OK;
}

enum rf_code rf_cat_open(struct rf_cat **to, const struct rf_cat_options *o, char *const *paths, int n,
                         struct rf_err *e)
{
	struct rf_cat *c = calloc(1, sizeof *c);
	enum rf_code rc;

	*to = NULL;
	if (!c)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	c->o = *o;
	c->inputs.paths = paths;
	c->inputs.n = n;
	c->kept.round = -1;
	rf_head_init(&c->inputs.head);
	rf_head_init(&c->shown);
	rc = read_range(c, e);
	if (rc == RF_OK)
		rc = open_next(c, e);
	if (rc == RF_OK && !(c->inputs.first = strdup(rf_in_name(c->inputs.in))))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK)
		rc = rf_head_copy(&c->inputs.head, rf_in_head(c->inputs.in), e);
	if (rc == RF_OK)
		rc = make_head(c, e);
	if (rc != RF_OK) {
		rf_cat_close(c);
		return rc;
	}
	*to = c;
	return RF_OK;
}

void rf_cat_close(struct rf_cat *c)
{
	if (!c)
		return;
	rf_in_close(c->inputs.in);
	rf_head_free(&c->inputs.head);
	rf_head_free(&c->shown);
	rf_ids_free(&c->inputs.ids);
	rf_buf_free(&c->kept.frames);
	free(c->kept.record);
	for (size_t i = c->share.next ? c->share.next - 1 : 0; i < c->share.n; i++)
		free_record(&c->share.record[i]);
	free(c->share.record);
	free(c->inputs.first);
	free(c);
}
