/* special.c -- reads the special tokens that files next to a tokenizer name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/warn.h"
#include "io/file.h"
#include "io/jscan.h"
#include "tokenizer/normal.h"
#include "tokenizer/special.h"

enum { MAX_TOKENS = 10000 };
enum { CONFIG, MAP, ADDED, FILES };

static const char *const file_names[FILES] = { "tokenizer_config.json", "special_tokens_map.json",
	                                       "added_tokens.json" };

/* Keys of one token each, in the order in which transformers adds tokens. */
enum { BOS, EOS, NAMED = 7 };
static const char *const named[NAMED] = { "bos_token", "eos_token", "unk_token", "sep_token",
	                                  "pad_token", "cls_token", "mask_token" };

/* Where a token comes from: two lists of ids, eos_token or bos_token, another key, extra_special_tokens of
 * special_tokens_map.json, or another list.  Tokens from OF_NAME to OF_MAP are special, whatever their
 * flags. */
enum origin { OF_DECODER, OF_ADDED, OF_NAME, OF_KEY, OF_MAP, OF_LIST };

/* An optional file; text NULL: it does not exist. */
struct sidecar {
	char *text;
	struct rf_jvalue all;
};

/* A value of a file; v.s NULL: the file does not have the key. */
struct field {
	struct rf_jvalue v;
	const char *key, *file;
};

/* The tokens that have keys of their own, such as image_token, in the order of a Python dictionary: a later
 * value at the same key replaces the first one. */
struct members {
	struct {
		struct rf_jvalue key;
		struct field token;
	} * m;
	int n, puts;
	size_t cap;
};

/* The lists of tokens; those that do not count name the field that counts instead. */
struct lists {
	struct field used[2], ignored[4], instead[4];
	int n_used, n_ignored;
	bool marks; /* the tokens make those of added_tokens.json special */
};

/* Turns a failure in a file into RF_EMODEL, and prepends the file's name to its sentence. */
static enum rf_code described(struct rf_err *e, const char *file)
{
	if (e)
		e->code = RF_EMODEL;
	rf_blame(e, "%s", file);
	return RF_EMODEL;
}

/* Opens one of the optional files in the folder of `path`. */
static enum rf_code open_sidecar(struct sidecar *f, const char *path, const char *name, struct rf_err *e)
{
	char file[4096];
	size_t n;
	enum rf_code rc;

	if (snprintf(file, sizeof file, "%.*s%s", (int)(rf_file_name(path) - path), path, name) >=
	    (int)sizeof file)
		return rf_fail(e, RF_EIO, "%s: the path is too long", name);
	if ((rc = rf_file_read_optional(file, RF_MOST_TOKENIZER, &f->text, &n, e)) == RF_OK && f->text &&
	    ((rc = rf_jscan_check(f->text, n, &f->all, e)) != RF_OK || !rf_jscan_is_object(&f->all))) {
		if (rc == RF_OK)
			rf_fail(e, RF_EMODEL, "the file is %s, not an object", rf_jscan_kind(&f->all));
		rc = described(e, file);
	}
	return rc;
}

static enum rf_code no_token(const struct rf_jvalue *v, const char *key, const char *file, struct rf_err *e)
{
	return rf_fail(e, RF_EMODEL, "%s: '%s' is %s, not a token", file, key, rf_jscan_kind(v));
}

static bool is_list(const struct rf_jvalue *v) { return v->s && rf_jscan_is_list(v); }
static bool is_object(const struct rf_jvalue *v) { return v->s && rf_jscan_is_object(v); }

static bool same_text(const char *a, size_t n, const char *b, size_t m)
{
	return a && b && n == m && !memcmp(a, b, n);
}

/* Returns whether a value is an object that transformers reads as a token in any place. */
static bool is_typed(const struct rf_jvalue *v)
{
	struct rf_jvalue type;

	return rf_jscan_is_object(v) && rf_jscan_get(v, "__type", &type, NULL) == RF_OK &&
	       rf_jscan_is_string(&type) && rf_jscan_equals(&type, "AddedToken");
}

/* Reads a token: a string, or an object with "content" and flags.  Its text is malloc'd, and NULL for an
 * empty token, which transformers ignores, too. */
static enum rf_code read_token(struct rf_special_token *t, const struct rf_jvalue *v, enum origin from,
                               const char *key, const char *file, struct rf_err *e)
{
	const bool special = from >= OF_NAME && from <= OF_MAP;
	struct rf_jvalue content = *v, given;
	enum rf_code rc;

	*t = (struct rf_special_token){ .file = file,
		                        .id = -1,
		                        .special = from != OF_ADDED,
		                        .normalized = from == OF_ADDED,
		                        .replaces = from == OF_DECODER,
		                        .named = from == OF_NAME || from == OF_KEY,
		                        .is_name = from == OF_NAME };
	if (rf_jscan_is_object(v)) {
		if (rf_jscan_get(v, "content", &content, NULL) != RF_OK)
			return rf_fail(e, RF_EMODEL, "%s: '%s' has no content", file, key);
		t->special = from == OF_LIST && !is_typed(v);
		if ((rc = rf_flag_read(v, "special", t->special, &t->special, e)) != RF_OK ||
		    (t->special |= special, rc = rf_flag_read(v, "single_word", false, &t->single_word, e)) !=
		            RF_OK ||
		    (rc = rf_flag_read(v, "lstrip", false, &t->lstrip, e)) != RF_OK ||
		    (rc = rf_flag_read(v, "rstrip", false, &t->rstrip, e)) != RF_OK ||
		    (rc = rf_flag_read(v, "normalized", false, &t->normalized, e)) != RF_OK) {
			rf_blame(e, "'%s'", key);
			return described(e, file);
		}
		t->defaults = rf_jscan_get(v, "normalized", &given, NULL) != RF_OK;
	}
	if (!rf_jscan_is_string(&content))
		return no_token(&content, key, file, e);
	t->plain = rf_jscan_is_string(v);
	if ((rc = rf_string_copy(&content, key, &t->text, &t->n, e)) == RF_OK && !t->n) {
		free(t->text);
		t->text = NULL;
	}
	return rc;
}

/* Joins a token to an earlier one with the same text, if there is one.  As in transformers, the flags of the
 * earlier token count if that token is of a list of ids; otherwise those of the later one do, but a string
 * counts only once. */
static bool join_token(struct rf_special *s, const struct rf_special_token *t, bool marks)
{
	for (int i = 0; i < s->n; i++) {
		struct rf_special_token *o = &s->t[i];

		if (!same_text(o->text, o->n, t->text, t->n))
			continue;
		if (o->id < 0 && !(o->plain && t->plain)) {
			o->single_word = t->single_word;
			o->lstrip = t->lstrip;
			o->rstrip = t->rstrip;
			o->normalized = t->defaults ? !(t->special || o->named || t->named) : t->normalized;
			o->defaults = false;
			o->plain |= t->plain;
		}
		if (o->id < 0) {
			o->special |= t->special;
			o->is_name &= t->is_name;
		} else if (marks && !o->replaces) {
			o->special = true;
			o->normalized = false;
		}
		o->named |= t->named;
		o->special |= t->named;
		return true;
	}
	return false;
}

/* Adds a token.  id: -1 except in the two lists of ids.  marks: the token makes the same one of
 * added_tokens.json special. */
static enum rf_code add_token(struct rf_special *s, const struct rf_jvalue *v, enum origin from,
                              const char *key, int64_t id, const char *file, bool marks, struct rf_err *e)
{
	struct rf_special_token t;
	enum rf_code rc;

	if ((rc = read_token(&t, v, from, key, file, e)) != RF_OK || !t.text)
		return rc;
	t.id = id;
	if (id < 0 && join_token(s, &t, marks)) {
		free(t.text);
		return RF_OK;
	}
	if (s->n == MAX_TOKENS)
		rc = rf_fail(e, RF_EMODEL, "%s: more than %d special tokens", file, MAX_TOKENS);
	else if (!rf_grow(&s->t, (size_t)s->n, &s->cap, sizeof *s->t))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK)
		s->t[s->n++] = t;
	else
		free(t.text);
	return rc;
}

/* Reads an id: the key of added_tokens_decoder, a string of digits. */
static bool id_of_key(const struct rf_jvalue *key, int64_t *id)
{
	struct rf_jvalue digits = { key->s + 1, key->n - 2 };

	return key->n > 2 && rf_jscan_int(&digits, id) && *id >= 0;
}

static int by_id(const void *a, const void *b)
{
	const struct rf_special_token *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static enum rf_code read_decoder(struct rf_special *s, const struct rf_jvalue *list, struct rf_err *e)
{
	static const char key_name[] = "added_tokens_decoder";
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc;
	int64_t id;

	if (!rf_jscan_is_object(list))
		return no_token(list, key_name, file_names[CONFIG], e);
	while (rf_jscan_next(list, &key, &v)) {
		if (!id_of_key(&key, &id) || !rf_jscan_is_object(&v))
			return rf_fail(e, RF_EMODEL, "%s: '%s' has something that is not an id with a token",
			               file_names[CONFIG], key_name);
		if ((rc = add_token(s, &v, OF_DECODER, key_name, id, file_names[CONFIG], false, e)) != RF_OK)
			return rc;
	}
	return RF_OK;
}

/* Reads added_tokens.json, an object of texts with ids. */
static enum rf_code read_added(struct rf_special *s, const struct rf_jvalue *all, struct rf_err *e)
{
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc;
	int64_t id;

	while (rf_jscan_next(all, &key, &v)) {
		if (!rf_jscan_int(&v, &id) || id < 0)
			return rf_fail(e, RF_EMODEL, "%s: the file has %s instead of an id",
			               file_names[ADDED], rf_jscan_kind(&v));
		if ((rc = add_token(s, &key, OF_ADDED, "a token", id, file_names[ADDED], false, e)) != RF_OK)
			return rc;
	}
	return RF_OK;
}

static enum rf_code pick(const struct sidecar *f, const char *file, const char *const *keys, int n,
                         struct rf_jvalue *v, struct rf_err *e)
{
	for (int i = 0; i < n; i++)
		v[i] = (struct rf_jvalue){ NULL, 0 };
	if (!f->text || rf_jscan_pick(&f->all, keys, n, v, e) == RF_OK)
		return RF_OK;
	return described(e, file);
}

/* ---- the end and the beginning of a text ---------------------------------------------------- */

/* Adds to the warning that the two files name different tokens at a key, and that `used` is taken. */
static void note_contradiction(struct rf_special *s, const char *key, const struct rf_special_name *a,
                               const struct rf_special_name *b, const struct rf_special_name *used)
{
	char q[60], r[60];

	if (!a->given || !b->given || (!a->text && !b->text) || same_text(a->text, a->n, b->text, b->n))
		return;
	snprintf(q, sizeof q, "null");
	snprintf(r, sizeof r, "null");
	rf_warn(s->warning, sizeof s->warning,
	        "%s of %s is '%s', that of %s is '%s': %s counts, as in transformers", key, a->file,
	        a->text ? rf_quote(q, sizeof q, a->text, a->n) : q, b->file,
	        b->text ? rf_quote(r, sizeof r, b->text, b->n) : r, used->file);
}

/* Reads the name of a token; a name without text counts as missing. */
static enum rf_code read_name(struct rf_special_name *name, const struct field *f, struct rf_err *e)
{
	struct rf_special_token t = { .text = NULL };
	enum rf_code rc = RF_OK;

	if (!rf_is_absent(&f->v))
		rc = read_token(&t, &f->v, OF_NAME, f->key, f->file, e);
	*name = (struct rf_special_name){ t.text, t.n, f->file, f->v.s };
	return rc;
}

/* Reads the name at eos_token or bos_token of both files, and stores which of them counts.  transformers 4
 * wrote a key to one file or to both. */
static enum rf_code choose_name(struct rf_special *s, struct rf_special_name *to, const struct field *config,
                                const struct field *map, bool map_counts, struct rf_err *e)
{
	struct rf_special_name a, b;
	const struct field *used;
	enum rf_code rc;

	if ((rc = read_name(&a, config, e)) != RF_OK)
		return rc;
	if ((rc = read_name(&b, map, e)) != RF_OK) {
		free(a.text);
		return rc;
	}
	used = b.given && (map_counts || !a.given) ? map : config;
	*to = used == map ? b : a;
	note_contradiction(s, config->key, &a, &b, to);
	free(used == map ? a.text : b.text);
	return to->text ? add_token(s, &used->v, OF_NAME, used->key, -1, used->file, !is_typed(&used->v), e)
	                : RF_OK;
}

/* ---- tokens at keys of their own ------------------------------------------------------------- */

/* Reads the tokens at the keys eos_token, pad_token and so on. */
static enum rf_code read_named(struct rf_special *s, const struct rf_jvalue *config,
                               const struct rf_jvalue *map, bool map_counts, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (int i = 0; i < NAMED && rc == RF_OK; i++) {
		const struct field a = { config[i], named[i], file_names[CONFIG] };
		const struct field b = { map[i], named[i], file_names[MAP] };
		const struct field *f = map_counts && b.v.s ? &b : &a;

		if (i == EOS || i == BOS)
			rc = choose_name(s, i == EOS ? &s->eos : &s->bos, &a, &b, map_counts, e);
		else if (!rf_is_absent(&f->v))
			rc = add_token(s, &f->v, OF_KEY, f->key, -1, f->file, f == &b || !is_typed(&f->v), e);
	}
	return rc;
}

static enum rf_code put(struct members *m, const struct rf_jvalue *key, const struct field *token,
                        struct rf_err *e)
{
	int i = 0;

	while (i < m->n && !same_text(m->m[i].key.s, m->m[i].key.n, key->s, key->n))
		i++;
	if (i == MAX_TOKENS)
		return rf_fail(e, RF_EMODEL, "%s: more than %d special tokens", token->file, MAX_TOKENS);
	if (i == m->n) {
		if (!rf_grow(&m->m, (size_t)m->n, &m->cap, sizeof *m->m))
			return rf_fail(e, RF_ENOMEM, "out of memory");
		m->m[m->n++].key = *key;
	}
	m->m[i].token = *token;
	m->puts++;
	return RF_OK;
}

/* Puts the tokens of a file at keys such as image_token, which are strings, or objects if `objects` says
 * so. */
static enum rf_code put_keys(struct members *m, const struct sidecar *f, const char *file, bool strings,
                             bool (*objects)(const struct rf_jvalue *v), struct rf_err *e)
{
	static const char end[] = "_token";
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc = RF_OK;
	bool known;

	while (f->text && rc == RF_OK && rf_jscan_next(&f->all, &key, &v)) {
		known = false;
		for (int i = 0; i < NAMED; i++)
			known |= rf_jscan_equals(&key, named[i]);
		if (!known && ((strings && rf_jscan_is_string(&v)) || (objects && objects(&v))) &&
		    key.n > sizeof end && !memcmp(key.s + key.n - sizeof end, end, sizeof end - 1))
			rc = put(m, &key, &(struct field){ v, "a token", file }, e);
	}
	return rc;
}

/* Puts the tokens of an object; a value of another type has no tokens. */
static enum rf_code put_object(struct members *m, const struct field *f, struct rf_err *e)
{
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && is_object(&f->v) && rf_jscan_next(&f->v, &key, &v))
		rc = put(m, &key, &(struct field){ v, f->key, f->file }, e);
	return rc;
}

/* Reads the tokens at keys of their own, in the order in which transformers adds them.  own: the object
 * model_specific_special_tokens, which counts only if the config has no other such token. */
static enum rf_code read_members(struct rf_special *s, const struct sidecar *f, const struct field *extra,
                                 const struct field *of_map, const struct field *own, bool map_counts,
                                 struct rf_err *e)
{
	struct members m = { .n = 0 };
	enum rf_code rc;
	int before;

	if ((rc = put_keys(&m, &f[CONFIG], file_names[CONFIG], false, is_typed, e)) == RF_OK && map_counts)
		rc = put_keys(&m, &f[MAP], file_names[MAP], true, rf_jscan_is_object, e);
	before = m.puts;
	if (rc == RF_OK && (rc = put_keys(&m, &f[CONFIG], file_names[CONFIG], true, NULL, e)) == RF_OK &&
	    (rc = put_object(&m, extra, e)) == RF_OK && m.puts == before)
		rc = rf_is_absent(&own->v) || is_object(&own->v)
		             ? put_object(&m, own, e)
		             : rf_fail(e, RF_EMODEL, "%s: '%s' is %s, not an object", own->file, own->key,
		                       rf_jscan_kind(&own->v));
	if (rc == RF_OK && map_counts)
		rc = put_object(&m, of_map, e);
	for (int i = 0; i < m.n && rc == RF_OK; i++) {
		const struct field *t = &m.m[i].token;

		if (!rf_is_absent(&t->v))
			rc = add_token(s, &t->v, OF_KEY, t->key, -1, t->file, false, e);
	}
	free(m.m);
	return rc;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Returns whether Python takes a value for false. */
static bool is_empty(const struct rf_jvalue *v)
{
	struct rf_jvalue key, first = { NULL, 0 };
	double x;

	if (rf_is_absent(v) || *v->s == 'f' || (*v->s == '"' && v->n == 2))
		return true;
	if (rf_jscan_is_list(v) || rf_jscan_is_object(v))
		return !rf_jscan_next(v, *v->s == '{' ? &key : NULL, &first);
	return rf_jscan_real(v, &x) && x == 0;
}

static void ignore(struct lists *l, struct field *list, const struct field *instead)
{
	if (is_list(&list->v)) {
		l->ignored[l->n_ignored] = *list;
		l->instead[l->n_ignored++] = *instead;
	}
	list->v.s = NULL;
}

/* Chooses which of the lists extra_special_tokens and additional_special_tokens of both files count: if
 * either is in the config, or the first one is in the map, the second one of the map does not.  An object at
 * the first key has tokens with keys of their own, so it is not a list. */
static void choose_lists(struct lists *l, struct field *extra, struct field *more, struct field *map_extra,
                         struct field *map_more, const struct field *decoder)
{
	*l = (struct lists){ .n_used = 0 };
	if (more->v.s && is_empty(&extra->v)) {
		*extra = *more;
		more->v.s = NULL;
	}
	if (decoder->v.s) {
		ignore(l, map_extra, decoder);
		ignore(l, map_more, decoder);
	}
	if (map_more->v.s) {
		ignore(l, more, map_more);
		*more = *map_more;
	}
	if (map_extra->v.s && !is_list(&map_extra->v) && !is_object(&extra->v))
		ignore(l, extra, map_extra);
	if (extra->v.s && !is_object(&extra->v))
		l->used[l->n_used++] = *extra;
	if (map_extra->v.s && !is_object(&map_extra->v))
		l->used[l->n_used++] = *map_extra;
	l->marks = l->n_used;
	if (l->n_used)
		ignore(l, more, &l->used[0]);
	else if (more->v.s)
		l->used[l->n_used++] = *more;
}

static enum rf_code read_list(struct rf_special *s, const struct field *f, bool marks, struct rf_err *e)
{
	struct rf_jvalue v = { NULL, 0 };
	const bool of_map = f->file == file_names[MAP];
	enum rf_code rc = RF_OK;

	if (rf_is_absent(&f->v))
		return RF_OK;
	if (!rf_jscan_is_list(&f->v))
		return rf_fail(e, RF_EMODEL, "%s: '%s' is %s, not a list", f->file, f->key,
		               rf_jscan_kind(&f->v));
	while (rc == RF_OK && rf_jscan_next(&f->v, NULL, &v))
		if (!rf_is_absent(&v))
			rc = add_token(s, &v, of_map && marks ? OF_MAP : OF_LIST, f->key, -1, f->file,
			               marks && (of_map || rf_jscan_is_string(&v)), e);
	return rc;
}

/* Keeps the texts of a list that does not count. */
static enum rf_code keep_ignored(struct rf_special *s, const struct field *f, const struct field *instead,
                                 struct rf_err *e)
{
	struct rf_jvalue v = { NULL, 0 };
	struct rf_special_token t;
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && rf_jscan_next(&f->v, NULL, &v)) {
		if (read_token(&t, &v, OF_LIST, f->key, f->file, NULL) != RF_OK || !t.text)
			continue;
		if (!rf_grow(&s->ignored, (size_t)s->n_ignored, &s->ignored_cap, sizeof *s->ignored)) {
			free(t.text);
			return rf_fail(e, RF_ENOMEM, "out of memory");
		}
		s->ignored[s->n_ignored++] = (struct rf_special_ignored){
			t.text, t.n, f->key, f->file, instead->key, instead->file
		};
	}
	return rc;
}

/* ---- all files ------------------------------------------------------------------------------- */

/* Reads a key that is true or false. */
static enum rf_code read_flag(const struct field *f, int *flag, struct rf_err *e)
{
	bool is = false;

	if (rf_is_absent(&f->v))
		return RF_OK;
	if (rf_flag(&f->v, f->key, false, &is, e) != RF_OK)
		return described(e, f->file);
	*flag = is;
	return RF_OK;
}

static enum rf_code read_all(struct rf_special *s, const struct sidecar *f, struct rf_err *e)
{
	enum { DECODER = NAMED, EXTRA, MORE, OWN, PREFIX, SPLIT, KEYS };
	static const char *const more[] = { "added_tokens_decoder",      "extra_special_tokens",
		                            "additional_special_tokens", "model_specific_special_tokens",
		                            "add_prefix_space",          "split_special_tokens" };
	const char *keys[KEYS];
	struct rf_jvalue config[KEYS], map[KEYS];
	struct field a[KEYS], b[KEYS];
	struct lists l;
	enum rf_code rc;
	bool decoder;

	for (int i = 0; i < KEYS; i++)
		keys[i] = i < NAMED ? named[i] : more[i - NAMED];
	if ((rc = pick(&f[CONFIG], file_names[CONFIG], keys, KEYS, config, e)) != RF_OK ||
	    (rc = pick(&f[MAP], file_names[MAP], keys, KEYS, map, e)) != RF_OK)
		return rc;
	decoder = !rf_is_absent(&config[DECODER]);
	if (!decoder)
		config[DECODER].s = NULL;
	for (int i = 0; i < KEYS; i++) {
		a[i] = (struct field){ config[i], keys[i], file_names[CONFIG] };
		b[i] = (struct field){ map[i], keys[i], file_names[MAP] };
	}
	for (int i = PREFIX; i <= SPLIT; i++)
		if ((rc = read_flag(!decoder && b[i].v.s ? &b[i] : &a[i],
		                    i == PREFIX ? &s->prefix_space : &s->split, e)) != RF_OK)
			return rc;
	if (decoder)
		rc = read_decoder(s, &config[DECODER], e);
	else if (f[ADDED].text)
		rc = read_added(s, &f[ADDED].all, e);
	if (rc == RF_OK && s->n)
		qsort(s->t, (size_t)s->n, sizeof *s->t, by_id);
	choose_lists(&l, &a[EXTRA], &a[MORE], &b[EXTRA], &b[MORE], &a[DECODER]);
	if (rc != RF_OK || (rc = read_named(s, config, map, !decoder, e)) != RF_OK ||
	    (rc = read_members(s, f, &a[EXTRA], &b[EXTRA], &a[OWN], !decoder, e)) != RF_OK)
		return rc;
	for (int i = 0; i < l.n_used && rc == RF_OK; i++)
		rc = read_list(s, &l.used[i], l.marks, e);
	for (int i = 0; i < l.n_ignored && rc == RF_OK; i++)
		rc = keep_ignored(s, &l.ignored[i], &l.instead[i], e);
	for (int i = 0; i < s->n; i++) {
		/* with added_tokens_decoder a name makes no token of tokenizer.json special */
		s->t[i].named &= !decoder || s->t[i].id >= 0;
		if (s->t[i].defaults)
			s->t[i].normalized = !s->t[i].special;
	}
	return rc;
}

enum rf_code rf_special_read(struct rf_special *s, const char *path, struct rf_err *e)
{
	struct sidecar f[FILES] = { { NULL, { NULL, 0 } } };
	enum rf_code rc = RF_OK;
	struct rf_err why;

	*s = (struct rf_special){ .prefix_space = -1 };
	for (int i = 0; i < FILES && rc == RF_OK; i++)
		rc = open_sidecar(&f[i], path, file_names[i], e);
	if (rc == RF_OK && (rc = read_all(s, f, &why)) != RF_OK)
		rc = rc == RF_ENOMEM ? rf_fail(e, rc, "%s", why.msg)
		                     : rf_fail(e, RF_EMODEL, "%.*s%s", (int)(rf_file_name(path) - path), path,
		                               why.msg);
	for (int i = 0; i < FILES; i++)
		free(f[i].text);
	return rc;
}

enum rf_code rf_special_add_names(struct rf_special *s, struct rf_err *e)
{
	const struct rf_special_name *const names[] = { &s->eos, &s->bos };
	const int n = s->n;

	for (int i = 0; i < 2; i++) {
		struct rf_special_token add = { .id = -1, .special = true };

		if (!names[i]->text)
			continue;
		for (int k = 0; k < n; k++)
			if (s->t[k].is_name &&
			    same_text(s->t[k].text, s->t[k].n, names[i]->text, names[i]->n))
				add = s->t[k];
		add.is_name = false;
		add.file = names[i]->file;
		add.n = names[i]->n;
		if (!rf_grow(&s->t, (size_t)s->n, &s->cap, sizeof *s->t) || !(add.text = malloc(add.n + 1)))
			return rf_fail(e, RF_ENOMEM, "out of memory");
		memcpy(add.text, names[i]->text, add.n + 1);
		s->t[s->n++] = add;
	}
	return RF_OK;
}

void rf_special_free(struct rf_special *s)
{
	for (int i = 0; i < s->n; i++)
		free(s->t[i].text);
	for (int i = 0; i < s->n_ignored; i++)
		free(s->ignored[i].text);
	free(s->t);
	free(s->ignored);
	free(s->eos.text);
	free(s->bos.text);
	*s = (struct rf_special){ .prefix_space = -1 };
}
