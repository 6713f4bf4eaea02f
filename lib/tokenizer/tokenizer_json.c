/* tokenizer_json.c -- tokenizer.json, the format of the Rust library `tokenizers`, as far as it is BPE.
 *
 * A text goes through added tokens (added.h), a normalizer (normal.h), pre-tokenizers (pieces.h) and the
 * merges of BPE (bpe.h); decoders turn ids back into text.  Each of these modules reads its own part of the
 * file, and refuses a part that it does not support, by name.
 *
 * The file is read by cursors (jscan.h), because jansson takes 0.4 s to build a tree of the 450,000 strings
 * of a vocabulary of 151,000. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/print.h"
#include "base/utf8.h"
#include "base/warn.h"
#include "io/file.h"
#include "io/jscan.h"
#include "io/lines.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoders.h"
#include "tokenizer/normal.h"
#include "tokenizer/pieces.h"
#include "tokenizer/processor.h"
#include "tokenizer/special.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_kind.h"

enum { MOST_TEXT = 1 << 30 }; /* most bytes of the text of ids that are decoded together */

/* Scratch memory of one call. */
struct work {
	struct work *next;
	struct rf_bpe_work *bpe;
	struct rf_pieces_work *pieces;
	struct rf_pattern_work *pattern;
	struct rf_buf valid, normal;
};

struct json {
	struct rf_bpe *bpe;
	struct rf_added added;
	struct rf_normal *normal;
	struct rf_pieces *pieces;
	struct rf_decoders *decoders;
	int other_ids, other_flags; /* number of tokens with other ids, other flags in other files */
	size_t matches;             /* bytes of the texts by which added tokens are found */
	int last;                   /* the largest id of an added token; -1: there is none */
	char unlike[300];           /* warning: the Rust library gives added tokens other ids; "": none */
	struct rf_id_list before;   /* the ids that the post-processor puts before a text */
	pthread_mutex_t lock;       /* of free_work */
	struct work *free_work;
};

/* ---- reading ------------------------------------------------------------------------------- */

/* Checks that a value is of the type that begins with this byte. */
static enum rf_code must_be(const struct rf_jvalue *v, const char *key, char begins, struct rf_err *e)
{
	if (!v->s)
		return rf_fail(e, RF_EDATA, "the key '%s' is missing", key);
	if (*v->s == begins)
		return RF_OK;
	return rf_fail(e, RF_EDATA, "'%s' is %s, not %s", key, rf_jscan_kind(v),
	               begins == '{' ? "an object" : "a list");
}

/* Reads the vocabulary.  Texts lose their escapes in place, so the JSON around them cannot be read
 * afterwards. */
static enum rf_code read_vocab(struct json *j, const struct rf_jvalue *vocab, struct rf_err *e)
{
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && rf_jscan_next(vocab, &key, &v)) {
		struct rf_jvalue text = key;
		int64_t id;
		size_t n;
		const char *s;

		if (!rf_jscan_int(&v, &id))
			return rf_fail(e, RF_EDATA, "the vocabulary has %s instead of an id",
			               rf_jscan_kind(&v));
		s = rf_jscan_text(&text, &n);
		rc = rf_bpe_token(j->bpe, s, n, id, e);
	}
	return rc;
}

/* Reads "left right" or ["left", "right"].  A file may have the first line of a merges.txt, too. */
static enum rf_code read_merge(struct json *j, struct rf_jvalue v, struct rf_err *e)
{
	static const char version[] = "#version";
	struct rf_jvalue a = { NULL, 0 }, b, more;
	char *left, *right, q[60];
	size_t n, m;

	if (rf_jscan_is_string(&v)) {
		left = rf_jscan_text(&v, &n);
		if (n >= strlen(version) && !memcmp(left, version, strlen(version)))
			return RF_OK;
		right = memchr(left, ' ', n);
		if (!right || memchr(right + 1, ' ', n - (size_t)(right + 1 - left)))
			return rf_fail(e, RF_EDATA, "'%s' is not two tokens with a blank between them",
			               rf_quote(q, sizeof q, left, n));
		m = n - (size_t)(right + 1 - left);
		n = (size_t)(right++ - left);
		return rf_bpe_merge(j->bpe, left, n, right, m, e);
	}
	if (!rf_jscan_is_list(&v) || !rf_jscan_next(&v, NULL, &a) || (b = a, !rf_jscan_next(&v, NULL, &b)) ||
	    (more = b, rf_jscan_next(&v, NULL, &more)) || !rf_jscan_is_string(&a) || !rf_jscan_is_string(&b))
		return rf_fail(e, RF_EDATA, "a merge is %s, not two strings", rf_jscan_kind(&v));
	left = rf_jscan_text(&a, &n);
	right = rf_jscan_text(&b, &m);
	return rf_bpe_merge(j->bpe, left, n, right, m, e);
}

static enum rf_code read_merges(struct json *j, const struct rf_jvalue *merges, struct rf_err *e)
{
	struct rf_jvalue v = { NULL, 0 };
	enum rf_code rc = RF_OK;

	for (int i = 0; rc == RF_OK && rf_jscan_next(merges, NULL, &v); i++)
		if ((rc = read_merge(j, v, e)) != RF_OK)
			rf_blame(e, "merge %d", i);
	return rc;
}

static enum rf_code read_model(struct json *j, const struct rf_jvalue *model, struct rf_err *e)
{
	enum { VOCAB, MERGES, UNK, FUSED, FALLBACK, IGNORE, ABSENT, KEYS = ABSENT + 3 };
	static const char *const keys[KEYS] = { "vocab",
		                                "merges",
		                                "unk_token",
		                                "fuse_unk",
		                                "byte_fallback",
		                                "ignore_merges",
		                                "dropout",
		                                "continuing_subword_prefix",
		                                "end_of_word_suffix" };
	struct rf_bpe_options o = { .unk = -1 };
	struct rf_jvalue v[KEYS];
	enum rf_code rc;
	double dropout;
	char *unk = NULL, q[40];
	size_t n = 0;

	if ((rc = must_be(model, "model", '{', e)) != RF_OK ||
	    (rc = rf_jscan_pick(model, keys, KEYS, v, e)) != RF_OK ||
	    (rc = must_be(&v[VOCAB], "vocab", '{', e)) != RF_OK ||
	    (rc = must_be(&v[MERGES], "merges", '[', e)) != RF_OK)
		return rc;
	if (v[ABSENT].s && rf_jscan_real(&v[ABSENT], &dropout) && dropout == 0)
		v[ABSENT].s = NULL;
	for (int i = ABSENT; i < KEYS; i++)
		if (!rf_is_absent(&v[i]) && !(rf_jscan_is_string(&v[i]) && rf_jscan_equals(&v[i], "")))
			return rf_fail(e, RF_EMODEL, "'%s' of the model is not supported", keys[i]);
	for (int i = FUSED; i <= IGNORE; i++)
		if (rf_is_absent(&v[i]))
			v[i].s = NULL;
	if ((rc = rf_flag(&v[FUSED], keys[FUSED], false, &o.fuse_unk, e)) != RF_OK ||
	    (rc = rf_flag(&v[FALLBACK], keys[FALLBACK], false, &o.byte_fallback, e)) != RF_OK ||
	    (rc = rf_flag(&v[IGNORE], keys[IGNORE], false, &o.ignore_merges, e)) != RF_OK)
		return rc;
	if (!rf_is_absent(&v[UNK]) && (rc = rf_string_copy(&v[UNK], keys[UNK], &unk, &n, e)) != RF_OK)
		return rc;
	if ((rc = rf_bpe_new(&j->bpe, rf_pieces_byte_level(j->pieces), e)) == RF_OK &&
	    (rc = read_vocab(j, &v[VOCAB], e)) == RF_OK)
		rc = read_merges(j, &v[MERGES], e);
	if (rc == RF_OK && unk && (o.unk = rf_bpe_id(j->bpe, unk, n)) < 0)
		rc = rf_fail(e, RF_EDATA, "the unk_token '%s' is no token of the vocabulary",
		             rf_quote(q, sizeof q, unk, n));
	free(unk);
	return rc == RF_OK ? rf_bpe_ready(j->bpe, &o, e) : rc;
}

/* Makes room for one more added token, *t. */
static enum rf_code grow_added(struct json *j, struct rf_added_token **t, struct rf_err *e)
{
	if (!rf_grow(&j->added.t, (size_t)j->added.n, &j->added.cap, sizeof *j->added.t))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	*t = &j->added.t[j->added.n++];
	**t = (struct rf_added_token){ .id = -1 };
	return RF_OK;
}

/* Sets the text by which a token is found. */
static enum rf_code set_match(struct json *j, struct rf_added_token *t, struct rf_err *e)
{
	struct rf_pattern_work *w = rf_pattern_work_new();
	struct rf_buf normal = { 0 };
	enum rf_code rc = RF_OK;
	size_t head = 0;

	if (!w)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (t->normalized)
		rc = rf_normal_apply(j->normal, w, t->text, t->n, rf_growth_most(t->n), &normal, &head, e);
	else
		rf_buf_add(&normal, t->text, t->n);
	rf_pattern_work_free(w);
	free(t->match);
	t->match = (char *)normal.p;
	t->match_n = normal.n;
	j->matches += normal.n;
	if (rc == RF_OK && normal.failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK && j->matches > RF_MOST_TOKENIZER)
		return rf_fail(e, RF_EDATA, "the normalizer makes more than %d bytes of the added tokens",
		               RF_MOST_TOKENIZER);
	return rc;
}

static enum rf_code read_flags(const struct rf_jvalue *v, struct rf_added_token *t, struct rf_err *e)
{
	enum rf_code rc;

	if ((rc = rf_flag_read(v, "single_word", false, &t->single_word, e)) != RF_OK ||
	    (rc = rf_flag_read(v, "lstrip", false, &t->lstrip, e)) != RF_OK ||
	    (rc = rf_flag_read(v, "rstrip", false, &t->rstrip, e)) != RF_OK ||
	    (rc = rf_flag_read(v, "normalized", false, &t->normalized, e)) != RF_OK)
		return rc;
	return rf_flag_read(v, "special", false, &t->special, e);
}

/* Reads the id of a token.  Returns false if the value is not a number from 0 to RF_BPE_TOKENS - 1. */
static bool read_id(const struct rf_jvalue *v, int *id)
{
	int64_t number;

	if (!rf_jscan_int(v, &number) || number < 0 || number >= RF_BPE_TOKENS)
		return false;
	*id = (int)number;
	return true;
}

/* Returns the added token with this text; NULL: there is no such token. */
static struct rf_added_token *find_added(const struct json *j, const char *text, size_t n)
{
	for (int i = 0; i < j->added.n; i++)
		if (j->added.t[i].n == n && !memcmp(j->added.t[i].text, text, n))
			return &j->added.t[i];
	return NULL;
}

static int id_of(const struct json *j, const char *text, size_t n)
{
	const struct rf_added_token *t = find_added(j, text, n);

	return t ? t->id : rf_bpe_id(j->bpe, text, n);
}

/* Returns the id that the Rust library gives a token that it adds: the one that the token has, else the
 * next. */
static int next_id(const struct json *j, const char *text, size_t n)
{
	const int id = id_of(j, text, n), count = rf_bpe_count(j->bpe);

	return id >= 0 ? id : j->last >= count ? j->last + 1 : count;
}

/* Reads an added token.  The Rust library gives these tokens ids by their order, whatever the file says.  The
 * model may have been trained with the ids of the file or of the library, so the user is told where they
 * differ.  A token has one id, and an id one token. */
static enum rf_code read_added_token(struct json *j, const struct rf_jvalue *v, struct rf_err *e)
{
	struct rf_added_token *t, a = { .id = -1 };
	struct rf_jvalue id;
	enum rf_code rc;
	char q[60];
	size_t n;
	int given;

	if (!rf_jscan_is_object(v))
		return rf_fail(e, RF_EDATA, "an added token is %s, not an object", rf_jscan_kind(v));
	if ((rc = rf_jscan_get(v, "id", &id, e)) != RF_OK ||
	    (rc = rf_string_read(v, "content", &a.text, &a.n, e)) != RF_OK)
		return rc;
	rf_quote(q, sizeof q, a.text, a.n);
	given = next_id(j, a.text, a.n);
	if (!read_id(&id, &a.id))
		rc = rf_fail(e, RF_EDATA, "the id of the added token '%s' is no number from 0 to %d", q,
		             RF_BPE_TOKENS - 1);
	for (int i = 0; i < j->added.n && rc == RF_OK; i++)
		if (j->added.t[i].id == a.id)
			rc = rf_fail(e, RF_EDATA, "the id %d of the added token '%s' occurs twice", a.id, q);
	if (rc == RF_OK && a.n && a.id != given && id_of(j, a.text, a.n) >= 0)
		rc = rf_fail(e, RF_EMODEL, "the added token '%s' has the id %d, but %d, too", q, a.id, given);
	else if (rc == RF_OK && a.n && a.id == given && id_of(j, a.text, a.n) < 0 &&
	         rf_bpe_text(j->bpe, a.id, &n))
		rc = rf_fail(e, RF_EMODEL, "the id %d of the added token '%s' is another token's", a.id, q);
	else if (rc == RF_OK && a.n && a.id != given && rf_bpe_text(j->bpe, a.id, &n))
		rc = rf_fail(e, RF_EMODEL,
		             "the id %d of the added token '%s' is another token's; tokenizers and "
		             "transformers give it %d, the next free id",
		             a.id, q, given);
	else if (rc == RF_OK && a.n && a.id != given && !*j->unlike)
		rf_warn(j->unlike, sizeof j->unlike,
		        "the added token '%s' has the id %d in tokenizer.json, which counts, but "
		        "tokenizers and transformers give it %d, the next free id: use the ids that the "
		        "model was trained with",
		        q, a.id, given);
	if (rc == RF_OK && (rc = read_flags(v, &a, e)) != RF_OK)
		rf_blame(e, "the added token '%s'", q);
	if (rc != RF_OK || !a.n || (rc = grow_added(j, &t, e)) != RF_OK) {
		free(a.text); /* the Rust library ignores a token without text, too */
		return rc;
	}
	*t = a;
	j->last = a.id > j->last ? a.id : j->last;
	return set_match(j, t, e);
}

static enum rf_code read_added(struct json *j, const struct rf_jvalue *list, struct rf_err *e)
{
	struct rf_jvalue v = { NULL, 0 };
	enum rf_code rc = RF_OK;

	if (rf_is_absent(list))
		return RF_OK;
	if (!rf_jscan_is_list(list))
		return rf_fail(e, RF_EDATA, "'added_tokens' is %s, not a list", rf_jscan_kind(list));
	while (rc == RF_OK && rf_jscan_next(list, NULL, &v))
		rc = read_added_token(j, &v, e);
	return rc;
}

static enum rf_code read_file(struct json *j, const struct rf_jvalue *file, struct rf_err *e)
{
	enum { NORMALIZER, PIECES, DECODER, PROCESSOR, ADDED, MODEL, KEYS };
	static const char *const keys[KEYS] = { "normalizer",     "pre_tokenizer", "decoder",
		                                "post_processor", "added_tokens",  "model" };
	struct rf_jvalue v[KEYS];
	enum rf_code rc;

	if (!rf_jscan_is_object(file))
		return rf_fail(e, RF_EDATA, "the file is %s, not an object", rf_jscan_kind(file));
	if ((rc = rf_jscan_pick(file, keys, KEYS, v, e)) != RF_OK ||
	    (rc = rf_normal_read(&j->normal, &v[NORMALIZER], e)) != RF_OK ||
	    (rc = rf_pieces_read(&j->pieces, &v[PIECES], e)) != RF_OK)
		return rc;
	if ((rc = rf_decoders_read(&j->decoders, &v[DECODER], e)) != RF_OK ||
	    (rc = rf_processor_read(&v[PROCESSOR], &j->before, e)) != RF_OK ||
	    (rc = read_model(j, &v[MODEL], e)) != RF_OK)
		return rc;
	return read_added(j, &v[ADDED], e);
}

/* Returns whether a token of another file changes the flags of the same token in tokenizer.json.  As in the
 * Rust library, a special token remains special. */
static bool changes_flags(const struct rf_special_token *b, const struct rf_added_token *a)
{
	return b->replaces &&
	       (a->single_word != b->single_word || a->lstrip != b->lstrip || a->rstrip != b->rstrip ||
	        a->normalized != b->normalized || a->special < b->special);
}

/* Adds a token that another file has, as transformers does, or changes one that tokenizer.json has. */
static enum rf_code add_special(struct rf_tokenizer *t, const struct rf_special_token *s, struct rf_err *e)
{
	struct json *j = t->data;
	struct rf_added_token *a = find_added(j, s->text, s->n);
	char q[60], *text;
	enum rf_code rc;
	size_t n;
	int id;

	rf_quote(q, sizeof q, s->text, s->n);
	id = a ? a->id : next_id(j, s->text, s->n);
	if (s->id >= 0 && s->id != id && !j->other_ids++)
		rf_warn(t->warning, sizeof t->warning,
		        "the token '%s' has the id %lld in %s, but %d by tokenizer.json, which counts", q,
		        (long long)s->id, s->file, id);
	else if (a && changes_flags(s, a) && !j->other_flags++)
		rf_warn(t->warning, sizeof t->warning,
		        "tokenizer.json and %s describe the token '%s' "
		        "differently: %s counts, as in transformers",
		        s->file, q, s->file);
	if (a && !changes_flags(s, a)) {
		a->special |= s->named;
		return RF_OK;
	}
	if (!a && s->is_name && rf_bpe_id(j->bpe, s->text, s->n) < 0)
		return RF_OK; /* find_name() reports it */
	if (id >= RF_BPE_TOKENS)
		return rf_fail(e, RF_EMODEL, "%s: there is no id left for the token '%s'", s->file, q);
	if (!a && rf_bpe_id(j->bpe, s->text, s->n) < 0 && rf_bpe_text(j->bpe, id, &n))
		return rf_fail(e, RF_EMODEL,
		               "%s: the id %d, which the token '%s' would get as the next one, is another "
		               "token's (add the token to tokenizer.json)",
		               s->file, id, q);
	if (!a) {
		if (!(text = malloc(s->n + 1)))
			return rf_fail(e, RF_ENOMEM, "out of memory");
		memcpy(text, s->text, s->n + 1);
		if ((rc = grow_added(j, &a, e)) != RF_OK) {
			free(text);
			return rc;
		}
		*a = (struct rf_added_token){ .text = text, .n = s->n, .id = id };
		j->last = id > j->last ? id : j->last;
	}
	a->single_word = s->single_word;
	a->lstrip = s->lstrip;
	a->rstrip = s->rstrip;
	a->normalized = s->normalized;
	a->special |= s->special;
	return set_match(j, a, e);
}

/* Finds the id of a token that files name at a key; -1: they name none.  A name without a token is an error,
 * because otherwise the documents would silently lack that token. */
static enum rf_code find_name(struct rf_tokenizer *t, const struct rf_special_name *name, const char *key,
                              const char *path, int *id, struct rf_err *e)
{
	char q[60];

	*id = name->text ? id_of(t->data, name->text, name->n) : -1;
	if (name->text && *id < 0)
		return rf_fail(e, RF_EMODEL, "%.*s%s: the %s '%s' is no token of tokenizer.json",
		               (int)(rf_file_name(path) - path), path, name->file, key,
		               rf_quote(q, sizeof q, name->text, name->n));
	return RF_OK;
}

/* Adds to the warning the first token that is only in a list which does not count. */
static void note_ignored(struct rf_tokenizer *t, const struct rf_special *s)
{
	char q[60];

	for (int i = 0; i < s->n_ignored; i++) {
		const struct rf_special_ignored *g = &s->ignored[i];

		if (find_added(t->data, g->text, g->n))
			continue;
		rf_warn(t->warning, sizeof t->warning,
		        "%s of %s does not count next to %s of %s, as in transformers, so '%s' is not a "
		        "special token",
		        g->key, g->file, g->other_key, g->other_file, rf_quote(q, sizeof q, g->text, g->n));
		return;
	}
}

/* Reads from the files next to tokenizer.json whatever changes ids. */
static enum rf_code read_special(struct rf_tokenizer *t, const char *path, struct rf_err *e)
{
	struct json *j = t->data;
	struct rf_special s;
	enum rf_code rc = rf_special_read(&s, path, e);
	int prefix = rf_pieces_prefix_space(j->pieces);

	if (prefix < 0)
		prefix = rf_normal_prepends(j->normal);
	j->added.split = s.split;
	for (int i = 0; i < s.n && rc == RF_OK; i++)
		rc = add_special(t, &s.t[i], e);
	if (rc == RF_OK && (rc = find_name(t, &s.eos, "eos_token", path, &t->eos.id, e)) == RF_OK)
		rc = find_name(t, &s.bos, "bos_token", path, &t->bos, e);
	t->eos.file = s.eos.file;
	if (j->other_ids + j->other_flags > 1)
		rf_warn(t->warning, sizeof t->warning, "the files differ in %d tokens in all",
		        j->other_ids + j->other_flags);
	if (*s.warning)
		rf_warn(t->warning, sizeof t->warning, "%s", s.warning);
	note_ignored(t, &s);
	if (s.prefix_space >= 0 && prefix != s.prefix_space)
		rf_warn(t->warning, sizeof t->warning,
		        "add_prefix_space is %s in tokenizer_config.json, but %s in tokenizer.json, which "
		        "counts (versions of transformers differ)",
		        s.prefix_space ? "true" : "false", prefix ? "true" : "false");
	rf_special_free(&s);
	return rc;
}

static int vocab_of(const struct json *j)
{
	int vocab = rf_bpe_size(j->bpe);

	for (int i = 0; i < j->added.n; i++)
		vocab = j->added.t[i].id >= vocab ? j->added.t[i].id + 1 : vocab;
	return vocab;
}

static void limit_json(struct rf_tokenizer *t, int vocab)
{
	struct json *j = t->data;
	int n = 0;

	for (int i = 0; i < j->added.n; i++) {
		if (j->added.t[i].id < vocab) {
			j->added.t[n++] = j->added.t[i];
			continue;
		}
		free(j->added.t[i].text);
		free(j->added.t[i].match);
	}
	j->added.n = n;
	t->vocab = vocab_of(j);
}

/* A tokenizer.json in memory.  It is read once, so its hash is that of the text from which its tokenizer is
 * made, even if another program replaces the file meanwhile. */
struct text {
	struct rf_lines *l;
	char *s;
	size_t n;
};

static enum rf_code read_text(struct text *t, const char *path, struct rf_err *e)
{
	enum rf_code rc = rf_lines_open_file(&t->l, path, RF_MOST_TOKENIZER, e);

	return rc == RF_OK ? rf_lines_rest(t->l, &t->s, &t->n, e) : rc;
}

/* Reads the text without building anything of it, and calls f for its outermost object. */
static enum rf_code scan(const struct text *t, const char *path,
                         void (*f)(const struct rf_jvalue *file, void *arg), void *arg, struct rf_err *e)
{
	struct rf_jvalue file;
	enum rf_code rc = rf_jscan_check(t->s, t->n, &file, e);

	if (rc != RF_OK)
		rf_blame(e, "%s", path);
	else if (rf_jscan_is_object(&file))
		f(&file, arg);
	return rc;
}

/* Advances to the next object in the list of added tokens; *content is its text. */
static bool next_added(const struct rf_jvalue *list, struct rf_jvalue *v, struct rf_jvalue *content)
{
	while (list->s && rf_jscan_is_list(list) && rf_jscan_next(list, NULL, v))
		if (rf_jscan_is_object(v) && rf_jscan_get(v, "content", content, NULL) == RF_OK &&
		    rf_jscan_is_string(content))
			return true;
	return false;
}

/* An end token, and its id once it is found. */
struct end {
	const char *text;
	int id;
};

/* Finds the id of the end token; -1: there is none, or it is malformed, which opening the tokenizer
 * reports. */
static void find_end(const struct rf_jvalue *file, void *arg)
{
	struct end *end = arg;
	struct rf_jvalue list, model, vocab, key, v = { NULL, 0 }, content, id;

	end->id = -1;
	rf_maybe(file, "added_tokens", &list);
	while (end->id < 0 && next_added(&list, &v, &content))
		if (rf_jscan_equals(&content, end->text) &&
		    (rf_jscan_get(&v, "id", &id, NULL) != RF_OK || !read_id(&id, &end->id)))
			return;
	rf_maybe(file, "model", &model);
	if (!model.s || !rf_jscan_is_object(&model))
		return;
	rf_maybe(&model, "vocab", &vocab);
	v.s = NULL;
	while (end->id < 0 && vocab.s && rf_jscan_is_object(&vocab) && rf_jscan_next(&vocab, &key, &v))
		if (rf_jscan_equals(&key, end->text) && !read_id(&v, &end->id))
			return;
}

static enum rf_code end_json(const char *path, struct rf_end_token *eos, struct rf_err *e)
{
	struct rf_special s;
	struct end end;
	struct text t = { NULL, NULL, 0 };
	enum rf_code rc = rf_special_read(&s, path, e);

	*eos = (struct rf_end_token){ -1, s.eos.file };
	end.text = s.eos.text;
	if (rc == RF_OK && s.eos.text && (rc = read_text(&t, path, e)) == RF_OK &&
	    (rc = scan(&t, path, find_end, &end, e)) == RF_OK)
		eos->id = end.id < 0 ? RF_TOKENIZER_OPEN : end.id; /* a file next to it adds the token */
	rf_lines_close(t.l);
	rf_special_free(&s);
	return rc;
}

/* Tokens of files next to tokenizer.json; the text is NULL if tokenizer.json has the same token. */
static void leave_new(const struct rf_jvalue *file, void *arg)
{
	struct rf_special *s = arg;
	struct rf_jvalue list, v = { NULL, 0 }, content;
	struct rf_added_token a;

	rf_maybe(file, "added_tokens", &list);
	while (next_added(&list, &v, &content)) {
		if (read_flags(&v, &a, NULL) != RF_OK)
			continue; /* opening the tokenizer reports it */
		for (int i = 0; i < s->n; i++)
			if (s->t[i].text && rf_jscan_equals(&content, s->t[i].text) &&
			    !changes_flags(&s->t[i], &a) && !(s->split && s->t[i].named && !a.special)) {
				free(s->t[i].text);
				s->t[i].text = NULL;
			}
	}
}

/* Hashes the text.  If files next to tokenizer.json add tokens or change them, these go into the hash, too,
 * since they change ids. */
static enum rf_code hash_text(const struct text *t, const char *path, char hash[17], struct rf_err *e)
{
	struct rf_buf all = { 0 };
	struct rf_special s;
	enum rf_code rc;

	rf_lines_hash(t->l, hash);
	if ((rc = rf_special_read(&s, path, e)) == RF_OK && (rc = rf_special_add_names(&s, e)) == RF_OK &&
	    s.n)
		rc = scan(t, path, leave_new, &s, e);
	if (s.split)
		rf_print(&all, "split_special_tokens ");
	for (int i = 0; i < s.n && rc == RF_OK; i++)
		if (s.t[i].text && !s.t[i].is_name) {
			rf_print(&all, "%d%d%d%d%d%zu ", s.t[i].single_word, s.t[i].lstrip, s.t[i].rstrip,
			         s.t[i].normalized, s.t[i].special, s.t[i].n);
			rf_buf_add(&all, s.t[i].text, s.t[i].n);
		}
	if (rc == RF_OK && all.n) {
		rf_print(&all, "%s", hash);
		rf_file_hash(all.p, all.n, hash);
	}
	if (rc == RF_OK && all.failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	rf_buf_free(&all);
	rf_special_free(&s);
	return rc;
}

static enum rf_code hash_json(const char *path, char hash[17], struct rf_err *e)
{
	struct text t;
	enum rf_code rc = read_text(&t, path, e);

	if (rc == RF_OK)
		rc = hash_text(&t, path, hash, e);
	rf_lines_close(t.l);
	return rc;
}

static enum rf_code open_json(struct rf_tokenizer *t, const char *path, struct rf_err *e)
{
	struct json *j = calloc(1, sizeof *j);
	struct rf_jvalue file;
	struct text text;
	enum rf_code rc;

	if (!(t->data = j))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	j->last = -1;
	pthread_mutex_init(&j->lock, NULL);
	if ((rc = read_text(&text, path, e)) == RF_OK && (rc = hash_text(&text, path, t->hash, e)) == RF_OK) {
		if ((rc = rf_jscan_check_strict(text.s, text.n, &file, e)) == RF_OK)
			rc = read_file(j, &file, e);
		if (rc != RF_OK)
			rf_blame(e, "%s", path);
	}
	rf_lines_close(text.l);
	if (rc != RF_OK)
		return rc;
	if (*j->unlike)
		rf_warn(t->warning, sizeof t->warning, "%s", j->unlike);
	t->own = vocab_of(j);
	if ((rc = read_special(t, path, e)) != RF_OK)
		return rc;
	t->vocab = vocab_of(j);
	for (size_t i = 0; i < j->before.n; i++)
		if (j->before.p[i] >= t->vocab)
			return rf_fail(e, RF_EDATA,
			               "%s: the post-processor puts the id %d before a text, outside the "
			               "vocabulary of %d",
			               path, (int)j->before.p[i], t->vocab);
	t->before = j->before.p;
	t->before_count = j->before.n;
	if (t->bos < 0 && t->before_count)
		t->bos = t->before[0];
	return RF_OK;
}

/* ---- encoding ------------------------------------------------------------------------------ */

static void free_work(struct work *w)
{
	if (!w)
		return;
	rf_bpe_work_free(w->bpe);
	rf_pieces_work_free(w->pieces);
	rf_pattern_work_free(w->pattern);
	rf_buf_free(&w->valid);
	rf_buf_free(&w->normal);
	free(w);
}

/* Takes unused scratch memory, or allocates it. */
static struct work *take_work(struct json *j)
{
	struct work *w;

	pthread_mutex_lock(&j->lock);
	if ((w = j->free_work))
		j->free_work = w->next;
	pthread_mutex_unlock(&j->lock);
	if (w)
		return w;
	if (!(w = calloc(1, sizeof *w)))
		return NULL;
	w->bpe = rf_bpe_work_new();
	w->pieces = rf_pieces_work_new();
	w->pattern = rf_pattern_work_new();
	if (w->bpe && w->pieces && w->pattern)
		return w;
	free_work(w);
	return NULL;
}

static void give_work(struct json *j, struct work *w)
{
	pthread_mutex_lock(&j->lock);
	w->next = j->free_work;
	j->free_work = w;
	pthread_mutex_unlock(&j->lock);
}

/* One call of encode.  left: the bytes that the normalizer may still make; most: the most ids. */
struct call {
	struct json *j;
	struct work *w;
	struct rf_id_list *ids;
	size_t left, most;
};

static enum rf_code encode_piece(void *to, const char *piece, size_t n, struct rf_err *e)
{
	struct call *c = to;

	if (c->ids->n > c->most)
		return rf_fail(e, RF_EDATA, "the pre-tokenizer makes more than %zu tokens of the text",
		               c->most);
	return rf_bpe_encode(c->j->bpe, c->w->bpe, piece, n, c->ids, e);
}

/* Encodes a normalized text: its added tokens, and the texts between them. */
static enum rf_code encode_normal(struct call *c, const char *s, size_t n, size_t head, struct rf_err *e)
{
	size_t scan = 0, done = 0, from, end;
	const struct rf_added_token *t;
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && (t = rf_added_find(&c->j->added, true, s, n, &scan, done, &from, &end))) {
		if (from > done)
			rc = rf_pieces_divide(c->j->pieces, c->w->pieces, c->w->pattern, s + done,
			                      from - done, head > done ? head - done : 0, encode_piece, c, e);
		if (rc == RF_OK)
			rc = rf_id_list_add(c->ids, &(int32_t){ t->id }, 1, e);
		done = end;
	}
	if (rc == RF_OK && done < n)
		rc = rf_pieces_divide(c->j->pieces, c->w->pieces, c->w->pattern, s + done, n - done,
		                      head > done ? head - done : 0, encode_piece, c, e);
	return rc;
}

static enum rf_code encode_between(struct call *c, const char *s, size_t n, bool at_start, struct rf_err *e)
{
	enum rf_code rc;
	size_t head = 0;
	int32_t first;

	if (!n)
		return RF_OK;
	if (at_start)
		head = rf_utf8_next(s, n, &first);
	c->w->normal.n = 0;
	rc = rf_normal_apply(c->j->normal, c->w->pattern, s, n, c->left, &c->w->normal, &head, e);
	c->left -= c->w->normal.n < c->left ? c->w->normal.n : c->left;
	return rc == RF_OK ? encode_normal(c, (char *)c->w->normal.p, c->w->normal.n, head, e) : rc;
}

static enum rf_code encode_text(struct call *c, const char *s, size_t n, struct rf_err *e)
{
	size_t scan = 0, done = 0, from, end;
	const struct rf_added_token *t;
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && (t = rf_added_find(&c->j->added, false, s, n, &scan, done, &from, &end))) {
		if ((rc = encode_between(c, s + done, from - done, !done, e)) == RF_OK)
			rc = rf_id_list_add(c->ids, &(int32_t){ t->id }, 1, e);
		done = end;
	}
	return rc == RF_OK ? encode_between(c, s + done, n - done, !done, e) : rc;
}

/* Replaces invalid bytes by U+FFFD. */
static enum rf_code make_valid(struct rf_buf *to, const char **s, size_t *n, struct rf_err *e)
{
	if (rf_utf8(*s, *n))
		return RF_OK;
	to->n = 0;
	rf_add_valid(to, *s, *n, 0);
	if (to->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	*s = (char *)to->p;
	*n = to->n;
	return RF_OK;
}

static enum rf_code encode_json(const struct rf_tokenizer *t, const char *text, size_t n,
                                struct rf_id_list *ids, struct rf_err *e)
{
	struct json *j = t->data;
	struct call c = { j, take_work(j), ids, 0, 0 };
	enum rf_code rc;

	if (!c.w)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = make_valid(&c.w->valid, &text, &n, e)) == RF_OK) {
		c.left = rf_growth_most(n);
		c.most = ids->n + c.left;
		rc = encode_text(&c, text, n, e);
	}
	give_work(j, c.w);
	return rc;
}

/* ---- decoding ------------------------------------------------------------------------------ */

/* Lists the text of each id, with or without special tokens, and with blanks between them if there is no
 * decoder. */
static enum rf_code tokens_of(const struct rf_tokenizer *t, const int32_t *ids, size_t count, bool special,
                              struct rf_token_texts *to, struct rf_err *e)
{
	const struct json *j = t->data;

	for (size_t i = 0; i < count; i++) {
		const struct rf_added_token *added = NULL;
		const char *s;
		size_t n = 0;

		if (ids[i] < 0 || ids[i] >= t->vocab)
			return rf_fail(e, RF_EDATA, "token id %d is not in the vocabulary of %d", (int)ids[i],
			               t->vocab);
		for (int k = 0; k < j->added.n && !added; k++)
			if (j->added.t[k].id == ids[i])
				added = &j->added.t[k];
		if (added && added->special && !special)
			continue;
		if (added)
			s = added->text, n = added->n;
		else if (!(s = rf_bpe_text(j->bpe, ids[i], &n)))
			continue; /* an id without a token, which the reference skips, too */
		if (to->text.n > MOST_TEXT)
			return rf_fail(e, RF_EDATA, "the text of %zu tokens is longer than %d bytes", count,
			               MOST_TEXT);
		if (to->n && !rf_decoders_count(j->decoders))
			rf_buf_add(&to->text, " ", 1);
		rf_buf_add(&to->text, s, n);
		to->end[to->n++] = to->text.n;
	}
	return RF_OK;
}

static enum rf_code decode_json(const struct rf_tokenizer *t, const int32_t *ids, size_t count, bool special,
                                char **text, size_t *n, size_t *held, struct rf_err *e)
{
	struct json *j = t->data;
	struct work *w = take_work(j);
	struct rf_token_texts texts = { 0 };
	enum rf_code rc = RF_OK;

	if (!w || !(texts.end = calloc(count + 1, sizeof *texts.end)))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK && (rc = tokens_of(t, ids, count, special, &texts, e)) == RF_OK)
		rc = rf_decoders_apply(j->decoders, w->pattern, &texts, e);
	if (w)
		give_work(j, w);
	free(texts.end);
	*held = texts.held;
	if (rc != RF_OK)
		rf_buf_free(&texts.text);
	else if (!rf_buf_give(&texts.text, text, n))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	return rc;
}

static void close_json(struct rf_tokenizer *t)
{
	struct json *j = t->data;

	if (!j)
		return;
	for (struct work *w = j->free_work, *next; w; w = next) {
		next = w->next;
		free_work(w);
	}
	rf_decoders_free(j->decoders);
	free(j->before.p);
	rf_added_free(&j->added);
	rf_bpe_free(j->bpe);
	rf_normal_free(j->normal);
	rf_pieces_free(j->pieces);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

const struct rf_tokenizer_kind rf_tokenizer_kind_json = {
	/* clang-format off */
	.name = "bpe", .class = "BPE", .open = open_json, .hash = hash_json, .end = end_json,
	.limit = limit_json, .encode = encode_json, .decode = decode_json,
	/* clang-format on */
	.close = close_json,
};
