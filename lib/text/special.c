/* special.c -- reads the special tokens that files next to a tokenizer name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/warn.h"
#include "io/file.h"
#include "io/jscan.h"
#include "text/normal.h"
#include "text/special.h"

enum { MAX_FILE = 64 << 20, MAX_TOKENS = 10000 };
enum { CONFIG, MAP, ADDED, FILES };

static const char *const file_names[FILES] = { "tokenizer_config.json", "special_tokens_map.json",
                                               "added_tokens.json" };

/* Keys of one token each, in the order in which transformers adds tokens. */
enum { BOS, EOS, NAMED = 7 };
static const char *const named[NAMED] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token" };

/* An optional file; text NULL: it does not exist. */
struct sidecar { char *text; struct rf_jvalue all; };

/* Turns a failure in a file into RF_EMODEL, and names the file in front of its sentence. */
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
	if ((rc = rf_file_read_optional(file, MAX_FILE, &f->text, &n, e)) == RF_OK && f->text &&
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

/* Adds a token: a string, or an object with "content" and flags.  Its text is copied. */
static enum rf_code add_token(struct rf_special *s, const struct rf_jvalue *v, const char *key, int64_t id,
                              const char *file, struct rf_err *e)
{
	struct rf_special_token *t;
	struct rf_jvalue content = *v;
	enum rf_code rc;

	if (s->n == MAX_TOKENS)
		return rf_fail(e, RF_EMODEL, "%s: more than %d special tokens", file, MAX_TOKENS);
	if (!(s->n & (s->n - 1))) {
		if (!(t = realloc(s->t, (size_t)(s->n ? 2 * s->n : 1) * sizeof *t)))
			return rf_fail(e, RF_ENOMEM, "out of memory");
		s->t = t;
	}
	t = &s->t[s->n];
	*t = (struct rf_special_token){ .file = file, .id = id, .special = true };
	if (rf_jscan_is_object(v)) {
		if (rf_jscan_get(v, "content", &content, NULL) != RF_OK)
			return rf_fail(e, RF_EMODEL, "%s: '%s' has no content", file, key);
		if ((rc = rf_flag_read(v, "special", id < 0, &t->special, e)) != RF_OK ||
		    (rc = rf_flag_read(v, "single_word", false, &t->single_word, e)) != RF_OK ||
		    (rc = rf_flag_read(v, "lstrip", false, &t->lstrip, e)) != RF_OK ||
		    (rc = rf_flag_read(v, "rstrip", false, &t->rstrip, e)) != RF_OK ||
		    (rc = rf_flag_read(v, "normalized", !t->special, &t->normalized, e)) != RF_OK) {
			rf_blame(e, "'%s'", key);
			return described(e, file);
		}
		t->described = true;
	}
	if (!rf_jscan_is_string(&content))
		return no_token(&content, key, file, e);
	if ((rc = rf_string_copy(&content, key, &t->text, &t->n, e)) == RF_OK && !t->n)
		free(t->text); /* as in transformers, an empty token is none */
	s->n += rc == RF_OK && t->n;
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
		if ((rc = add_token(s, &v, key_name, id, file_names[CONFIG], e)) != RF_OK)
			return rc;
	}
	return RF_OK;
}

static bool same_text(const char *a, size_t n, const char *b, size_t m)
{
	return a && b && n == m && !memcmp(a, b, n);
}

/* Marks the tokens of added_tokens.json that another file names as special. */
static void mark_special(struct rf_special *s)
{
	for (int i = 0; i < s->n; i++) {
		struct rf_special_token *t = &s->t[i];

		if (t->file != file_names[ADDED])
			continue;
		t->special = same_text(t->text, t->n, s->eos.text, s->eos.n) ||
		             same_text(t->text, t->n, s->bos.text, s->bos.n);
		for (int k = 0; k < s->n; k++)
			t->special |= k != i && same_text(t->text, t->n, s->t[k].text, s->t[k].n);
		t->normalized = !t->special;
	}
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
		if ((rc = add_token(s, &key, "a token", id, file_names[ADDED], e)) != RF_OK)
			return rc;
	}
	return RF_OK;
}

/* Adds tokens that a config names at keys of its own, such as image_token. */
static enum rf_code read_more(struct rf_special *s, const struct sidecar *config, struct rf_err *e)
{
	static const char end[] = "_token";
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc = RF_OK;
	bool known;

	while (config->text && rc == RF_OK && rf_jscan_next(&config->all, &key, &v)) {
		known = false;
		for (int i = 0; i < NAMED; i++)
			known |= rf_jscan_equals(&key, named[i]);
		if (!known && rf_jscan_is_string(&v) && key.n > sizeof end + 1 &&
		    !memcmp(key.s + key.n - sizeof end, end, sizeof end - 1))
			rc = add_token(s, &v, "a token", -1, file_names[CONFIG], e);
	}
	return rc;
}

/* Adds the tokens of a list, or of an object whose values are tokens. */
static enum rf_code read_list(struct rf_special *s, const struct rf_jvalue *list, const char *key,
                              const char *file, struct rf_err *e)
{
	struct rf_jvalue name, v = { NULL, 0 };
	enum rf_code rc = RF_OK;
	bool object;

	if (rf_is_absent(list))
		return RF_OK;
	object = rf_jscan_is_object(list);
	if (!object && !rf_jscan_is_list(list))
		return rf_fail(e, RF_EMODEL, "%s: '%s' is %s, not a list", file, key, rf_jscan_kind(list));
	while (rc == RF_OK && rf_jscan_next(list, object ? &name : NULL, &v))
		if (!rf_is_absent(&v))
			rc = add_token(s, &v, key, -1, file, e);
	return rc;
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

/* Notes that the two files name different tokens at a key, of which `used` counts. */
static void note_contradiction(struct rf_special *s, const char *key, const struct rf_special_name *a,
                               const struct rf_special_name *b, const struct rf_special_name *used)
{
	char q[60], r[60];

	if (!a->text || !b->text || same_text(a->text, a->n, b->text, b->n))
		return;
	rf_warn(s->warning, sizeof s->warning,
	        "%s of %s is '%s', that of %s is '%s': %s counts, as in transformers", key, a->file,
	         rf_quote(q, sizeof q, a->text, a->n), b->file, rf_quote(r, sizeof r, b->text, b->n),
	         used->file);
}

/* Reads the name of a token; one without a text is none. */
static enum rf_code name_of(struct rf_special *s, const struct rf_jvalue *v, const char *key,
                            const char *file, struct rf_special_name *name, struct rf_err *e)
{
	enum rf_code rc;
	int before;

	*name = (struct rf_special_name){ NULL, 0, file };
	if (rf_is_absent(v))
		return RF_OK;
	before = s->n;
	if ((rc = add_token(s, v, key, -1, file, e)) != RF_OK || s->n == before)
		return rc;
	s->n--;
	name->text = s->t[s->n].text;
	name->n = s->t[s->n].n;
	return RF_OK;
}

/* Reads the tokens at the keys eos_token, pad_token and so on.  Those of bos and eos are only names: a
 * tokenizer must have them already. */
static enum rf_code read_named(struct rf_special *s, const struct rf_jvalue *config,
                               const struct rf_jvalue *map, bool map_counts, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (int i = 0; i < NAMED && rc == RF_OK; i++) {
		struct rf_special_name *to = i == EOS ? &s->eos : &s->bos;
		struct rf_special_name a, b = { NULL, 0, NULL };
		const bool of_map = map_counts && !rf_is_absent(&map[i]);
		const struct rf_jvalue *v = of_map ? &map[i] : &config[i];

		if (i != EOS && i != BOS) {
			if (!rf_is_absent(v))
				rc = add_token(s, v, named[i], -1, file_names[of_map], e);
			continue;
		}
		if ((rc = name_of(s, &config[i], named[i], file_names[CONFIG], &a, e)) != RF_OK)
			return rc;
		rc = name_of(s, &map[i], named[i], file_names[MAP], &b, e);
		/* transformers 4 wrote a key to one file or to both */
		*to = of_map || !a.text ? b : a;
		note_contradiction(s, named[i], &a, &b, to);
		free(to->text == a.text ? b.text : a.text);
	}
	return rc;
}

static enum rf_code read_all(struct rf_special *s, const struct sidecar *f, struct rf_err *e)
{
	enum { DECODER = NAMED, EXTRA, ADDITIONAL, PREFIX, KEYS };
	static const char *const more[] = { "added_tokens_decoder", "extra_special_tokens",
	                                    "additional_special_tokens", "add_prefix_space" };
	const char *keys[KEYS];
	struct rf_jvalue config[KEYS], map[KEYS], lists[2];
	enum rf_code rc;
	bool decoder;

	for (int i = 0; i < KEYS; i++)
		keys[i] = i < NAMED ? named[i] : more[i - NAMED];
	if ((rc = pick(&f[CONFIG], file_names[CONFIG], keys, KEYS, config, e)) != RF_OK ||
	    (rc = pick(&f[MAP], file_names[MAP], keys, KEYS, map, e)) != RF_OK)
		return rc;
	s->prefix_space = rf_is_absent(&config[PREFIX]) ? -1 : *config[PREFIX].s == 't';
	decoder = !rf_is_absent(&config[DECODER]);
	if (decoder)
		rc = read_decoder(s, &config[DECODER], e);
	else if (f[ADDED].text)
		rc = read_added(s, &f[ADDED].all, e);
	if (rc == RF_OK && s->n)
		qsort(s->t, (size_t)s->n, sizeof *s->t, by_id);
	if (rc != RF_OK || (rc = read_named(s, config, map, !decoder, e)) != RF_OK ||
	    (rc = read_more(s, &f[CONFIG], e)) != RF_OK)
		return rc;
	for (int i = 0; i < 2 && rc == RF_OK; i++) {
		const bool of_map = !decoder && !rf_is_absent(&map[EXTRA + i]);

		lists[i] = of_map ? map[EXTRA + i] : config[EXTRA + i];
		rc = read_list(s, &lists[i], keys[EXTRA + i], file_names[of_map], e);
	}
	mark_special(s);
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
		                     : rf_fail(e, RF_EMODEL, "%.*s%s", (int)(rf_file_name(path) - path),
		                               path, why.msg);
	for (int i = 0; i < FILES; i++)
		free(f[i].text);
	return rc;
}

enum rf_code rf_special_add_names(struct rf_special *s, struct rf_err *e)
{
	const struct rf_special_name *const names[] = { &s->eos, &s->bos };
	struct rf_special_token *t = realloc(s->t, (size_t)(s->n + 2) * sizeof *t);

	if (!t)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->t = t;
	for (int i = 0; i < 2; i++) {
		if (!names[i]->text)
			continue;
		t[s->n] = (struct rf_special_token){ .n = names[i]->n, .file = names[i]->file, .id = -1,
		                                     .special = true };
		if (!(t[s->n].text = malloc(names[i]->n + 1)))
			return rf_fail(e, RF_ENOMEM, "out of memory");
		memcpy(t[s->n++].text, names[i]->text, names[i]->n + 1);
	}
	return RF_OK;
}

void rf_special_free(struct rf_special *s)
{
	for (int i = 0; i < s->n; i++)
		free(s->t[i].text);
	free(s->t);
	free(s->eos.text);
	free(s->bos.text);
	*s = (struct rf_special){ .prefix_space = -1 };
}
