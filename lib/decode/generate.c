/* generate.c -- decodes the continuations of several prompts together (rf-design(7), The tree).
 *
 * Row b of a step is sample b % n of record b / n, whose prompt is position b / n of the tree.  A sample that
 * has ended is still decoded until the last sample of its batch ends, but its tokens are not read. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "decode/generate.h"
#include "device/arena.h"
#include "io/file.h"
#include "stream/meta.h"
#include "stream/pack.h"

/* MOST: the most records together by default.  More rows make a step slower, and all records wait until the
 * longest has ended.  MOST_NEW: the most tokens of a sample. */
enum { MOST = 32, MOST_NEW = 1 << 20 };
/* No more records are read for a batch whose records take this many bytes, with hidden states and logits that
 * only pass through. */
enum { HELD = 64 << 20 };

void rf_generate_options(struct rf_generate_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("max-new", &s->max_new, 1, MOST_NEW, "tokens", "write at most this many tokens",
		        .noted = RF_OPT_RESULT),
		OPT_TEXT("max-new-key", &s->max_new_key, "key",
		         "key of meta with each record's own --max-new", .noted = RF_OPT_RESULT),
		OPT_INT("samples", &s->n, 1, 65536, "n", "samples of each prompt", .letter = 'n',
		        .noted = RF_OPT_RESULT),
		OPT_REAL("temperature", &s->temperature, 0, 1e3, "t",
		         "sampling temperature; 0: the most likely token", .noted = RF_OPT_RESULT),
		OPT_INT("top-k", &s->top_k, 0, RF_MAX_VOCAB, "k",
		        "sample from the k most likely tokens; 0: all", .noted = RF_OPT_RESULT),
		OPT_REAL("top-p", &s->top_p, 1e-6, 1, "p",
		         "sample from the most likely tokens, the fewest that sum up to p",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("ignore-eos", &s->ignore_eos, "do not stop at the model's end tokens",
		         .noted = RF_OPT_RESULT),
		OPT_LIST("stop", &s->stop, "string",
		         "stop when the text has this string; may be given several times",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("stop-key", &s->stop_key, "key",
		         "key of meta with stop strings of each record, in addition to --stop",
		         .noted = RF_OPT_RESULT),
		OPT_U64("seed", &s->seed, "n", "random seed", .noted = RF_OPT_RESULT),
		OPT_INT("draw-step", &s->draw_step, -1, INT_MAX, "n",
		        "training step for the random numbers; -1: the step of the model",
		        .noted = RF_OPT_RESULT),
		OPT_INT("batch", &s->batch, 0, 4096, "records",
		        "records to decode together; 0: as many as memory allows, at most 32"),
		OPT_TEXT("tokenizer", &s->tokenizer, "FILE|bytes",
		         "tokenizer of the text; default: the model's"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

enum rf_code rf_generate_ready(const struct rf_generate_settings *s, struct rf_err *e)
{
	if (s->temperature > 0 && s->temperature < 1e-3)
		return rf_fail(e, RF_EUSAGE, "--temperature: %g is neither 0 nor a number from 0.001 to 1000",
		               s->temperature);
	return RF_OK;
}

/* ---- the tokenizer ------------------------------------------------------------------------- */

/* Opens the tokenizer of the model, or of bytes.  If its kind is not supported, generations have tokens but
 * no text. */
static enum rf_code open_models(struct rf_generate_settings *s, const struct rf_head *h, struct rf_err *e)
{
	const struct rf_ckpt *c = s->work->engine->ckpt;
	enum rf_code rc;

	if (*c->tokenizer) {
		rc = rf_tokenizer_open(&s->words, c->dir, e);
		/* a trainer may have removed this step meanwhile: the next step has the same tokenizer */
		if (access(c->dir, F_OK) && errno == ENOENT) {
			rf_tokenizer_free(s->words);
			rc = rf_tokenizer_open(&s->words, s->work->engine->path, e);
		}
		if (rc != RF_EMODEL)
			return rc;
		snprintf(s->note, sizeof s->note, "%.190s", e->msg);
	} else if (!strcmp(h->tokenizer_kind, "bytes")) {
		return rf_tokenizer_bytes(&s->words, e);
	}
	return RF_OK;
}

static enum rf_code fit_model(struct rf_generate_settings *s, struct rf_err *e)
{
	const struct rf_ckpt *c = s->work->engine->ckpt;
	char file[4096];
	enum rf_code rc = rf_file_join(file, c->dir, "config.json", e);

	return rc == RF_OK ? rf_tokenizer_fit(s->words, &c->cfg, file, s->warning, e) : rc;
}

enum rf_code rf_generate_open(struct rf_generate_settings *s, const struct rf_head *h, struct rf_err *e)
{
	enum rf_code rc = !s->tokenizer ? open_models(s, h, e)
	                                : rf_tokenizer_open_option(&s->words, s->tokenizer, NULL, e);

	if (rc != RF_OK)
		return rc;
	if (s->words && (rc = fit_model(s, e)) != RF_OK)
		return rc;
	if (s->words && *h->tokenizer_hash && strcmp(h->tokenizer_hash, rf_tokenizer_hash(s->words)))
		return rf_tokenizer_differs(h->tokenizer_hash, rf_tokenizer_hash(s->words),
		                            s->tokenizer ? s->tokenizer : s->work->engine->ckpt->dir, e);
	if (!s->words && (s->stop.n || s->stop_key))
		return rf_fail(e, RF_EUSAGE, "--stop%s needs a tokenizer, which --tokenizer gives: %s",
		               s->stop.n ? "" : "-key",
		               *s->note ? s->note : "neither the model nor the stream has one");
	return RF_OK;
}

void rf_generate_close(struct rf_generate_settings *s)
{
	rf_tokenizer_free(s->words);
	s->words = NULL;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void place_memory(void *stage, const struct rf_shape *shape, struct rf_arena *a)
{
	struct rf_generate_settings *s = stage;
	struct rf_generate_place *p = &s->at;
	const struct rf_config *c = &s->work->engine->ckpt->cfg;
	size_t nb = (size_t)shape->c * (size_t)shape->n;

	p->first = rf_arena_f32(a, nb * (size_t)c->d);
	p->sure = rf_arena_f32(a, nb);
	p->token = rf_arena_i32(a, (size_t)shape->k * nb);
	p->zeros = rf_arena_i32(a, (size_t)shape->n);
	p->u = rf_arena_f64(a, nb);
	p->z = s->temperature > 0 ? rf_arena_f32(a, nb * (size_t)c->vocab) : NULL;
}

static int larger(int a, int b) { return a > b ? a : b; }

/* Returns whether the memory for a shape is at most that of the weights or 1 GiB. */
static bool is_modest(const struct rf_generate_settings *s, const struct rf_shape *shape)
{
	const struct rf_use use = rf_generate_use((struct rf_generate_settings *)s);
	const size_t weights = rf_model_bytes(&s->work->engine->ckpt->params, NULL, false),
		     least = (size_t)1 << 30, bytes = rf_work_bytes(s->work->engine, &use, shape);

	return bytes && bytes <= (weights > least ? weights : least);
}

/* Returns how many records with prompts of T tokens and k tokens after them are decoded together. */
static int records_together(const struct rf_generate_settings *s, int T, int k)
{
	struct rf_shape shape = { T, s->batch ? s->batch : MOST, s->n, k };

	while (shape.c > 1 && !s->batch && !is_modest(s, &shape))
		shape.c--;
	return shape.c;
}

int rf_generate_most(const struct rf_generate_settings *s) { return s->batch ? s->batch : MOST; }

static void decide_shape(const void *stage, struct rf_shape *shape)
{
	const struct rf_generate_settings *s = stage;

	shape->n = s->n;
	shape->k = s->max_new;
	shape->c = records_together(s, shape->T, shape->k);
}

struct rf_use rf_generate_use(struct rf_generate_settings *s)
{
	return (struct rf_use){ .stage = s,
		                .decide = decide_shape,
		                .place = place_memory,
		                .tree = { .decode = true, .apart = true } };
}

/* Makes room for a batch.  Frees the memory of earlier batches if both together would be too large. */
static enum rf_code reserve_memory(const struct rf_generate_settings *s, const struct rf_shape *want,
                                   struct rf_err *e)
{
	struct rf_work *w = s->work;
	const struct rf_shape *now = &w->shape, both = { larger(want->T, now->T), larger(want->c, now->c),
		                                         want->n, larger(want->k, now->k) };
	enum rf_code rc;

	if (w->tree && !is_modest(s, &both) && (want->T > now->T || want->c > now->c || want->k > now->k))
		rf_work_forget(w);
	if ((rc = rf_work_reserve(w, want, e)) != RF_OK)
		return rc;
	rf_work_decodes(w, want->c * want->n, want->k);
	return rf_dev_sync(&w->engine->dev, e);
}

/* ---- the records --------------------------------------------------------------------------- */

static int prompt_of(const struct rf_record *r) { return r->prompt_len >= 0 ? r->prompt_len : r->T; }

/* Returns the most tokens that may follow the prompt of a record; 0: its meta has no valid number. */
static int limit_of(const struct rf_generate_settings *s, const struct rf_record *r)
{
	const unsigned char *meta = r->meta.data;
	struct rf_mp value = { NULL, NULL };
	struct rf_mp_item it;

	if (!s->max_new_key)
		return s->max_new;
	if (meta)
		value = rf_mp_get((struct rf_mp){ meta, meta + r->meta.size }, s->max_new_key);
	if (!value.p || rf_mp_next(&value, &it) || it.type != RF_MP_UINT || it.u > MOST_NEW)
		return 0;
	return (int)it.u;
}

/* Reads the strings that end the samples of a record in addition to those of --stop: a text, or a list of
 * texts, which may be empty, or null. */
static enum rf_code stops_of(const struct rf_generate_settings *s, const struct rf_record *r,
                             struct rf_region *p, struct rf_texts *to, struct rf_err *e)
{
	const unsigned char *meta = r->meta.data;
	enum rf_code rc;

	*to = (struct rf_texts){ NULL, 0 };
	if (!s->stop_key)
		return RF_OK;
	if (!meta || !rf_mp_get((struct rf_mp){ meta, meta + r->meta.size }, s->stop_key).p)
		return rf_fail(e, RF_EDATA, "meta has no '%.40s' (rf-tokenize --meta-key)", s->stop_key);
	if ((rc = rf_meta_texts(r, s->stop_key, p, to, e)) != RF_OK)
		return rc;
	for (int i = 0; i < to->n; i++)
		if (!*to->s[i])
			return rf_fail(e, RF_EDATA,
			               "meta's '%.40s' has an empty text, at which nothing can "
			               "stop",
			               s->stop_key);
	return RF_OK;
}

enum rf_code rf_generate_expect(struct rf_generate_settings *s, const struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc = rf_generate_check(s, r, e);

	if (rc == RF_OK)
		s->max_new = limit_of(s, r);
	return rc;
}

enum rf_code rf_generate_check(const struct rf_generate_settings *s, const struct rf_record *r,
                               struct rf_err *e)
{
	struct rf_record prompt = *r;
	struct rf_region region = { NULL };
	struct rf_texts stops;
	enum rf_code rc;

	prompt.T = prompt_of(r);
	prompt.rollout.tokens = NULL;
	if (!prompt.T)
		return rf_fail(e, RF_EDATA,
		               "the prompt is empty: there is nothing to continue (rf-tokenize "
		               "--bos yes)");
	if (!limit_of(s, r))
		return rf_fail(e, RF_EDATA,
		               "meta has no '%.40s' that is a whole number from 1 to %d (rf-tokenize "
		               "--meta-key, or --max-new for all records)",
		               s->max_new_key, MOST_NEW);
	rc = stops_of(s, r, &region, &stops, e);
	rf_region_free(&region);
	if (rc != RF_OK)
		return rc;
	return rf_engine_check_record(s->work->engine, &prompt, e);
}

int rf_generate_room(const struct rf_generate_settings *s, const struct rf_record *r, int n)
{
	int T = s->work->engine->max_len, k = 0, room;
	size_t bytes = 0;

	for (int i = 0; i < n; i++) {
		T = larger(T, prompt_of(&r[i]));
		k = larger(k, limit_of(s, &r[i]));
		bytes += rf_record_bytes(&r[i]);
	}
	room = records_together(s, T, k);
	return bytes >= HELD && room > n ? n : room;
}

/* ---- decoding ------------------------------------------------------------------------------ */

/* A sample that is being decoded. */
struct sample {
	int length, limit;
	bool ended;
	enum rf_stop why;
	char *text; /* (bytes): malloc'd when the sample has ended */
	size_t bytes;
};

/* The batch in hand. */
struct job {
	struct rf_generate_settings *s;
	struct rf_record *r;
	int batch, k; /* the number of records; their largest limit */
	size_t nb;
	struct rf_generate_place at;
	struct sample *sample;  /* (nb) */
	int32_t *token, *row;   /* (k, nb); (k): the tokens of one sample */
	float *sure;            /* (nb) */
	double *u;              /* (nb) */
	struct rf_texts *stops; /* (batch): the stop strings of each record, in region */
	struct rf_region region;
	int bad; /* the record that has an error */
};

/* Runs all prompts, and copies their last rows to `first`. */
static void run_prompts(const struct job *job)
{
	struct rf_engine *g = job->s->work->engine;
	struct rf_tree *t = job->s->work->tree;
	size_t d = (size_t)g->ckpt->cfg.d, n = (size_t)job->s->n;

	g->dev.ops->zero(&g->dev, job->at.zeros, n * 4);
	rf_tree_clear(t);
	for (int i = 0; i < job->batch; i++) {
		rf_f32 hidden = NULL;
		int last;

		rf_tree_add(t, job->r[i].tokens, prompt_of(&job->r[i]));
		for (int j = 0; j < t->segments; j++)
			hidden = rf_tree_forward(t, j);
		last = rf_tree_rows(t, t->segments - 1) - 1;
		RF_RUN(&g->dev, rows, .n = (int)n, .d = (int)d, .from = rf_at(hidden, (size_t)last * d),
		       .fi = job->at.zeros, .to = rf_at(job->at.first, (size_t)i * n * d));
	}
	rf_tree_decode_begin(t, job->s->n);
}

/* Chooses or draws the tokens of step j, from the hidden states h (nb, d). */
static void choose_tokens(const struct job *job, int j, rf_f32 h)
{
	const struct rf_generate_settings *s = job->s;
	const struct rf_generate_place *at = &job->at;
	struct rf_engine *g = s->work->engine;
	const struct rf_config *c = &g->ckpt->cfg;
	uint64_t step = rf_draw_step(s->draw_step, g->ckpt->step);
	rf_i32 token = rf_at_i32(at->token, (size_t)j * job->nb);

	if (s->temperature <= 0) {
		RF_RUN(&g->dev, head_fwd, .rows = (int)job->nb, .d = c->d, .N = c->vocab, .inv_temp = 1,
		       .h = h, .w = rf_w(&g->model, g->model.head), .half = g->model.head.half,
		       .entropy = at->sure, .top = token);
		return;
	}
	for (size_t b = 0; b < job->nb; b++)
		job->u[b] = rf_draw(rf_draw_key(s->seed, RF_DRAW_GENERATE, step, job->r[b / (size_t)s->n].id,
		                                0, b % (size_t)s->n),
		                    (uint32_t)j);
	g->dev.ops->upload(&g->dev, at->u, job->u, job->nb * sizeof *job->u);
	rf_linear_fwd(&g->model, g->model.head, RF_NO_WEIGHT, (int)job->nb, h, at->z, 0, false);
	RF_RUN(&g->dev, sample, .rows = (int)job->nb, .n = 1, .N = c->vocab, .top_k = s->top_k,
	       .top_p = s->top_p, .inv_temp = (float)(1 / s->temperature), .z = at->z, .u = at->u,
	       .token = token, .logp = at->sure);
}

/* Returns where the first of the strings begins in the first n bytes of a text, or `first` if none begins
 * before it. */
static size_t find_stop(const char *const *stop, int stops, const char *text, size_t n, size_t first)
{
	for (int i = 0; i < stops; i++) {
		const char *s = strstr(text, stop[i]);
		size_t at = s ? (size_t)(s - text) : n;

		if (at < first && at + strlen(stop[i]) <= n)
			first = at;
	}
	return first;
}

/* Copies the tokens of a sample that have text to job->row, and returns their number.  Tokens outside the
 * vocabulary of the tokenizer, which a padded model may write, have no text.  The end token is left out. */
static size_t copy_tokens(const struct job *job, size_t b)
{
	const struct sample *x = &job->sample[b];
	const int length = x->length - (x->ended && x->why == RF_STOP_EOS),
		  vocab = rf_tokenizer_vocab(job->s->words);
	size_t n = 0;

	for (int j = 0; j < length; j++) {
		int32_t token = job->token[(size_t)j * job->nb + b];

		if (token < vocab)
			job->row[n++] = token;
	}
	return n;
}

/* Looks for a stop string that ends a sample, and stores the text of a sample that has ended.  Stop strings
 * are searched in the text with special tokens, such as the mark at the end of a turn.  The stored text has
 * no special tokens. */
static enum rf_code read_text(const struct job *job, size_t b, struct rf_err *e)
{
	const struct rf_generate_settings *s = job->s;
	const struct rf_texts *own = &job->stops[b / (size_t)s->n];
	struct sample *x = &job->sample[b];
	const size_t n = copy_tokens(job, b);
	size_t bytes, whole, end;
	char *text;
	enum rf_code rc;

	if ((rc = rf_tokenizer_named(s->words, job->row, n, &text, &bytes, &whole, e)) != RF_OK)
		return rc;
	end = find_stop(s->stop.s, s->stop.n, text, whole, whole);
	end = find_stop(own->s, own->n, text, whole, end);
	free(text);
	if (!x->ended && end == whole)
		return RF_OK;
	if (end < whole && !(x->ended && x->why == RF_STOP_EOS))
		x->why = RF_STOP_STRING;
	x->ended = true;
	return end < whole ? rf_tokenizer_text_before(s->words, job->row, n, end, &x->text, &x->bytes, e)
	                   : rf_tokenizer_text(s->words, job->row, n, &x->text, &x->bytes, &whole, e);
}

/* Downloads the tokens of step j, and ends samples.  *open: whether any sample continues. */
static enum rf_code read_step(struct job *job, int j, bool *open, struct rf_err *e)
{
	const struct rf_generate_settings *s = job->s;
	struct rf_engine *g = s->work->engine;
	int32_t *token = job->token + (size_t)j * job->nb;
	enum rf_code rc;

	g->dev.ops->download(&g->dev, token, rf_at_i32(job->at.token, (size_t)j * job->nb), job->nb * 4);
	g->dev.ops->download(&g->dev, job->sure, job->at.sure, job->nb * 4);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		return rc;
	*open = false;
	for (size_t b = 0; b < job->nb; b++) {
		struct sample *x = &job->sample[b];

		if (x->ended)
			continue;
		job->bad = (int)(b / (size_t)s->n);
		if (!isfinite(job->sure[b]))
			return rf_fail(e, RF_ENUMERIC, "the logits of token %d of sample %zu are not finite",
			               j, b % (size_t)s->n);
		x->length++;
		if (!s->ignore_eos && rf_config_ends(&g->ckpt->cfg, token[b])) {
			x->ended = true;
			x->why = RF_STOP_EOS;
		} else if (x->length == x->limit) {
			x->ended = true;
			x->why = RF_STOP_LENGTH;
		}
		if (s->words && (x->ended || s->stop.n || job->stops[b / (size_t)s->n].n) &&
		    (rc = read_text(job, b, e)) != RF_OK)
			return rc;
		*open |= !x->ended;
	}
	return RF_OK;
}

static enum rf_code decode_batch(struct job *job, struct rf_err *e)
{
	rf_f32 h = job->at.first;
	bool open = true;
	enum rf_code rc;

	run_prompts(job);
	for (int j = 0;; j++) {
		choose_tokens(job, j, h);
		if ((rc = read_step(job, j, &open, e)) != RF_OK || !open)
			return rc;
		h = rf_tree_decode(job->s->work->tree, rf_at_i32(job->at.token, (size_t)j * job->nb));
	}
}

/* ---- results ------------------------------------------------------------------------------- */

static const char *const words[] = { "eos", "length", "stop" };

/* Returns a copy of n bytes of text in the memory of the record.  A NUL becomes U+FFFD, because it would end
 * the text in the stream.  NULL: out of memory. */
static char *copy_text(struct rf_record *r, const char *s, size_t n)
{
	static const char instead[] = "\xef\xbf\xbd";
	size_t nuls = 0, at = 0;
	char *to;

	for (size_t i = 0; i < n; i++)
		nuls += !s[i];
	if (!(to = rf_record_alloc(r, n + nuls * (sizeof instead - 2) + 1, 1)))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const size_t bytes = s[i] ? 1 : sizeof instead - 1;

		memcpy(to + at, s[i] ? s + i : instead, bytes);
		at += bytes;
	}
	to[at] = 0;
	return to;
}

/* Writes the generation of record i. */
static enum rf_code store_generation(const struct job *job, int i, struct rf_err *e)
{
	const struct rf_generate_settings *s = job->s;
	const struct rf_config *c = &s->work->engine->ckpt->cfg;
	struct rf_record *r = &job->r[i];
	size_t n = (size_t)s->n, m = 0;
	struct rf_generation out = { .temperature = s->temperature, .n = s->n };
	struct sample *x = &job->sample[(size_t)i * n];

	for (size_t b = 0; b < n; b++)
		m = (size_t)x[b].length > m ? (size_t)x[b].length : m;
	out.m = (int)m;
	out.tokens = rf_record_alloc(r, n * m, sizeof *out.tokens);
	out.length = rf_record_alloc(r, n, sizeof *out.length);
	out.stop = rf_record_alloc(r, n, sizeof *out.stop);
	out.text = s->words ? rf_record_alloc(r, n, sizeof *out.text) : NULL;
	if (!out.tokens || !out.length || !out.stop || (s->words && !out.text))
		return rf_fail(e, RF_ENOMEM, "out of memory (a generation)");
	for (size_t b = 0; b < n; b++) {
		for (size_t j = 0; j < m; j++)
			out.tokens[b * m + j] = j < (size_t)x[b].length
			                                ? job->token[j * job->nb + (size_t)i * n + b]
			                        : c->eos_count ? c->eos[0]
			                                       : 0;
		out.length[b] = x[b].length;
		out.stop[b] = words[x[b].why];
		if (out.text) {
			if (!(out.text[b] = copy_text(r, x[b].text, x[b].bytes)))
				return rf_fail(e, RF_ENOMEM, "out of memory (a text of %zu bytes)",
				               x[b].bytes);
		}
	}
	rf_record_drop_generation(r);
	r->generation = out;
	return RF_OK;
}

/* Adds to an error why the numbers of a record are not finite.  The tree can only examine a single record, so
 * the records of a batch run again, one after the other; the first that fails is reported. */
static enum rf_code find_cause(struct job *job, struct rf_err *e)
{
	char what[sizeof e->msg], why[100];

	for (int i = 0; job->batch > 1 && i < job->batch; i++) {
		int unused;

		if (rf_generate_records(job->s, &job->r[i], 1, &unused, e) == RF_OK)
			continue;
		job->bad = i;
		return e->code;
	}
	if (job->batch > 1)
		return rf_fail(e, RF_ENUMERIC,
		               "the model overflows where records are decoded side by side "
		               "(--batch 1)");
	snprintf(what, sizeof what, "%s", e->msg);
	return rf_fail(e, RF_ENUMERIC, "%.200s: %s", what,
	               rf_tree_blame(job->s->work->tree, job->at.token, why) ? why
	                                                                     : "the head overflows there");
}

enum rf_code rf_generate_records(struct rf_generate_settings *s, struct rf_record *r, int count, int *bad,
                                 struct rf_err *e)
{
	struct job job = { .s = s, .r = r, .batch = count, .nb = (size_t)count * (size_t)s->n };
	struct rf_shape want = { 0, count, s->n, 0 };
	enum rf_code rc;

	*bad = 0; /* the record with the largest limit, if memory runs out */
	for (int i = 0; i < count; i++) {
		if (limit_of(s, &r[i]) > limit_of(s, &r[*bad]))
			*bad = i;
		want.T = larger(want.T, prompt_of(&r[i]));
		want.k = larger(want.k, limit_of(s, &r[i]));
	}
	if ((rc = reserve_memory(s, &want, e)) != RF_OK)
		return rc;
	job.at = s->at;
	job.k = want.k;
	job.sample = calloc(job.nb, sizeof *job.sample);
	job.token = malloc((size_t)job.k * job.nb * sizeof *job.token);
	job.row = malloc((size_t)job.k * sizeof *job.row);
	job.sure = malloc(job.nb * sizeof *job.sure);
	job.u = malloc(job.nb * sizeof *job.u);
	job.stops = rf_region_alloc(&job.region, (size_t)count, sizeof *job.stops);
	for (int i = 0; i < count && job.stops && rc == RF_OK; i++)
		rc = stops_of(s, &r[i], &job.region, &job.stops[i], e);
	if (rc == RF_OK && job.sample && job.token && job.row && job.sure && job.u && job.stops) {
		for (size_t b = 0; b < job.nb; b++)
			job.sample[b].limit = limit_of(s, &r[b / (size_t)s->n]);
		rc = decode_batch(&job, e);
		if (rc == RF_ENUMERIC)
			rc = find_cause(&job, e);
		*bad = job.bad;
		for (int i = 0; i < count && rc == RF_OK; i++)
			rc = store_generation(&job, i, e);
	} else if (rc == RF_OK) {
		rc = rf_fail(e, RF_ENOMEM, "out of memory (%d records side by side)", count);
	}
	for (size_t b = 0; job.sample && b < job.nb; b++)
		free(job.sample[b].text);
	free(job.sample);
	free(job.token);
	free(job.row);
	free(job.sure);
	free(job.u);
	rf_region_free(&job.region);
	return rc;
}
