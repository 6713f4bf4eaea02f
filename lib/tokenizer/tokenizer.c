/* tokenizer.c -- finds out which kind of tokenizer a model has, and passes calls on to that kind.  To add a
 * kind, write a file tokenizer_NAME.c and add a line to `kinds`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/warn.h"
#include "io/file.h"
#include "io/jscan.h"
#include "io/lines.h"
#include "io/steps.h"
#include "model/config.h"
#include "tokenizer/normal.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_kind.h"

static const struct rf_tokenizer_kind *const kinds[] = { &rf_tokenizer_kind_bytes, &rf_tokenizer_kind_json,
	                                                 &rf_tokenizer_kind_sentencepiece };

static enum rf_code open_kind(struct rf_tokenizer **out, const struct rf_tokenizer_kind *kind,
                              const char *path, struct rf_err *e)
{
	struct rf_tokenizer *t = calloc(1, sizeof *t);
	enum rf_code rc;

	*out = NULL;
	if (!t)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	t->kind = kind;
	t->eos.id = t->bos = -1;
	if ((rc = kind->open(t, path, e)) != RF_OK)
		rf_tokenizer_free(t);
	else
		*out = t;
	if (rc == RF_OK && !t->own)
		t->own = t->vocab;
	return rc;
}

enum rf_code rf_tokenizer_bytes(struct rf_tokenizer **t, struct rf_err *e)
{
	return open_kind(t, &rf_tokenizer_kind_bytes, NULL, e);
}

/* Finds the string at `key` of the object `in`.  Returns false if there is no such string. */
static bool string_at(const struct rf_jvalue *in, const char *key, struct rf_jvalue *v)
{
	if (rf_jscan_get(in, key, v, NULL) == RF_OK && rf_jscan_is_string(v))
		return true;
	v->s = NULL;
	return false;
}

/* Reads the name of a tokenizer's kind from its file: tokenizer_config.json has a class, tokenizer.json the
 * type of its model; "": the file has no name. */
static enum rf_code read_name(const char *path, char name[80], struct rf_err *e)
{
	static const char *const keys[] = { "tokenizer_class", "model" };
	struct rf_jvalue file, in[2], v = { NULL, 0 };
	struct rf_lines *l;
	char *s;
	size_t n;
	enum rf_code rc = rf_lines_open_file(&l, path, RF_MOST_TOKENIZER, e);

	if (rc != RF_OK)
		return rc;
	if ((rc = rf_lines_rest(l, &s, &n, e)) == RF_OK && (rc = rf_jscan_check(s, n, &file, e)) != RF_OK)
		rc = rf_blame(e, "%s", rf_lines_name(l));
	if (rc == RF_OK && rf_jscan_is_object(&file)) {
		if ((rc = rf_jscan_pick(&file, keys, 2, in, e)) != RF_OK)
			rc = rf_blame(e, "%s", rf_lines_name(l));
		else if (in[0].s && rf_jscan_is_string(&in[0]))
			v = in[0];
		else if (in[1].s && rf_jscan_is_object(&in[1]))
			string_at(&in[1], "type", &v);
	}
	*name = 0;
	if (rc == RF_OK && v.s) {
		s = rf_jscan_text(&v, &n);
		rf_quote(name, 80, s, n);
	}
	rf_lines_close(l);
	if (rc == RF_EDATA && e && !strcmp(rf_file_name(path), "tokenizer_config.json"))
		e->code = rc = RF_EMODEL; /* a part of the checkpoint's description */
	return rc;
}

const char *const rf_tokenizer_files[] = { "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
	                                   NULL };

/* Finds the first of these files that dir has.  Errors: those of rf_file_optional(). */
static enum rf_code has_file(const char *dir, const char *const *names, char path[4096], bool *found,
                             struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (*found = false; *names && rc == RF_OK && !*found; names++)
		if ((rc = rf_file_join(path, dir, *names, e)) == RF_OK)
			rc = rf_file_optional(path, found, e);
	return rc;
}

/* Finds the first of these files that a checkpoint has, or the newest step of a run. */
static enum rf_code find_file(const char *dir, const char *const *names, char path[4096], bool *found,
                              struct rf_err *e)
{
	char step[4096], lost[RF_STEP_LOST];
	enum rf_code rc = has_file(dir, names, path, found, e);
	struct stat st;

	while (rc == RF_OK && !*found && rf_step_latest(dir, step, lost, NULL) == RF_OK) {
		rc = has_file(step, names, path, found, e);
		if (!stat(step, &st) || errno != ENOENT) /* else a trainer has removed the step */
			break;
	}
	return rc;
}

enum rf_code rf_tokenizer_differs(const char *stream, const char *own, const char *dir, struct rf_err *e)
{
	char file[4096], q[300];
	bool found;

	if (find_file(dir, rf_tokenizer_files, file, &found, NULL) != RF_OK || !found)
		snprintf(file, sizeof file, "%s", dir);
	rf_quote(q, sizeof q, file, strlen(file));
	return rf_fail(e, RF_EDATA,
	               "the stream was made with tokenizer %.12s, but %s is %.12s (if another program has "
	               "only rewritten the same tokenizer, as save_pretrained does, restore the former "
	               "file; else make the stream again: rf-tokenize --tokenizer %s)",
	               stream, q, own, q);
}

/* Returns whether a file belongs to a step of a run that a trainer has removed meanwhile.  The data read
 * from it may then be incomplete, and a newer step exists. */
static bool was_removed(const char *path, const char *file)
{
	char dir[4096];
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) && rf_file_directory(dir, file, NULL) == RF_OK &&
	       stat(dir, &st) && errno == ENOENT;
}

static const struct rf_tokenizer_kind *kind_of(const char *class)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(class, kinds[i]->class))
			return kinds[i];
	return NULL;
}

/* Hashes a tokenizer's file, which may be of a kind that is not supported. */
static enum rf_code hash_file(const char *file, char hash[17], struct rf_err *e)
{
	return rf_file_ends(file, strlen(file), ".model")
	               ? rf_file_hash_file(file, RF_MOST_TOKENIZER, hash, e)
	               : rf_tokenizer_kind_json.hash(file, hash, e);
}

enum rf_code rf_tokenizer_hash_dir(const char *dir, char hash[17], struct rf_err *e)
{
	const struct rf_tokenizer_kind *kind;
	char file[4096], name[80];
	struct rf_tokenizer *t;
	enum rf_code rc;
	bool found;

	*hash = 0;
	if ((rc = find_file(dir, rf_tokenizer_files, file, &found, e)) != RF_OK || !found)
		return rc;
	/* a config names a kind, but the files next to it may add tokens */
	if (strcmp(rf_file_name(file), "tokenizer_config.json"))
		return hash_file(file, hash, e);
	if ((rc = read_name(file, name, e)) == RF_ENOINPUT) { /* although the file exists */
		if (e)
			e->code = RF_EIO;
		return RF_EIO;
	}
	if (rc != RF_OK || !(kind = kind_of(name)))
		return rc;
	if ((rc = open_kind(&t, kind, file, e)) == RF_OK)
		strcpy(hash, t->hash);
	rf_tokenizer_free(t);
	return rc;
}

/* Finds the tokenizer's file for a path, and the name of its kind. */
static enum rf_code locate(const char *path, char file[4096], char name[80], struct rf_err *e)
{
	char q[200];
	enum rf_code rc;
	struct stat st;
	bool found = true;

	strcpy(name, "SentencePiece");
	if (snprintf(file, 4096, "%s", path) >= 4096)
		return rf_fail(e, RF_ENOINPUT, "%s: the path is too long",
		               rf_quote(q, sizeof q, path, strlen(path)));
	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		rc = rf_file_check(path, RF_MOST_TOKENIZER, e);
	else
		rc = find_file(path, rf_tokenizer_files, file, &found, e);
	if (rc != RF_OK)
		return rc;
	if (!found)
		return rf_fail(e, RF_EMODEL,
		               "%s: there is no tokenizer here (tokenizer.json, tokenizer.model, "
		               "tokenizer_config.json); the byte tokenizer needs no files (rf-tokenize "
		               "--bytes, rf-dump --tokenizer bytes)",
		               rf_quote(q, sizeof q, path, strlen(path)));
	return rf_file_ends(file, strlen(file), ".model") ? RF_OK : read_name(file, name, e);
}

static enum rf_code open_once(struct rf_tokenizer **t, const char *path, char file[4096], struct rf_err *e)
{
	char name[80], q[200];
	const struct rf_tokenizer_kind *kind;
	enum rf_code rc;

	*t = NULL;
	if ((rc = locate(path, file, name, e)) != RF_OK)
		return rc;
	if ((kind = kind_of(name)))
		return open_kind(t, kind, file, e);
	if (!*name)
		return rf_fail(e, RF_EMODEL,
		               "%s: the file names no kind of tokenizer (neither tokenizer_class nor "
		               "model.type)",
		               rf_quote(q, sizeof q, file, strlen(file)));
	if (!strcmp(rf_file_name(file), "tokenizer_config.json"))
		return rf_fail(e, RF_EMODEL,
		               "%s: it names the kind '%s', but there is no tokenizer.json or "
		               "tokenizer.model next to it",
		               rf_quote(q, sizeof q, file, strlen(file)), name);
	return rf_fail(e, RF_EMODEL,
	               "%s: tokenizers of the kind '%s' are not supported, only BPE and SentencePiece; "
	               "rf-tokenize --format ids --vocab N takes ids made with another program",
	               rf_quote(q, sizeof q, file, strlen(file)), name);
}

enum rf_code rf_tokenizer_open(struct rf_tokenizer **t, const char *path, struct rf_err *e)
{
	char file[4096];
	enum rf_code rc;

	*t = NULL;
	do {
		rf_tokenizer_free(*t);
		rc = open_once(t, path, file, e);
	} while (was_removed(path, file));
	return rc;
}

/* Reads as rf_tokenizer_model() does, for a run whose newest step may be removed meanwhile. */
static enum rf_code read_model(const char *path, struct rf_config *cfg, char file[4096], bool *found,
                               struct rf_err *e)
{
	static const char *const names[] = { "config.json", NULL };
	char generation[4096];
	enum rf_code rc;
	struct stat st;

	*cfg = (struct rf_config){ .d = 0 };
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		rc = find_file(path, names, file, found, e);
	} else {
		snprintf(file, 4096, "%.*sconfig.json", (int)(rf_file_name(path) - path), path);
		rc = rf_file_optional(file, found, e);
	}
	if (rc != RF_OK || !*found)
		return rc;
	if ((rc = rf_config_read(cfg, file, e)) != RF_OK)
		return rc;
	if (snprintf(generation, sizeof generation, "%.*sgeneration_config.json",
	             (int)(rf_file_name(file) - file), file) >= (int)sizeof generation)
		return rf_fail(e, RF_EIO, "%.100s...: the path is too long", file);
	return rf_config_read_generation(cfg, generation, e);
}

enum rf_code rf_tokenizer_model(const char *path, struct rf_config *cfg, char file[4096], bool *found,
                                struct rf_err *e)
{
	enum rf_code rc;

	*cfg = (struct rf_config){ .d = 0 };
	do {
		rf_config_free(cfg);
		rc = read_model(path, cfg, file, found, e);
	} while (was_removed(path, file));
	*found &= !cfg->foreign;
	return cfg->foreign ? RF_OK : rc;
}

/* Reads the vocabulary of the model next to a tokenizer; 0: there is no config. */
static enum rf_code read_vocab(const char *path, char file[4096], int *vocab, struct rf_err *e)
{
	struct rf_config cfg;
	bool found;
	enum rf_code rc = read_model(path, &cfg, file, &found, e);

	*vocab = rc == RF_OK && found ? cfg.vocab : 0;
	rf_config_free(&cfg);
	return rc;
}

static enum rf_code identify_once(const char *path, char file[4096], char kind[80], char hash[17], int *vocab,
                                  struct rf_err *e)
{
	struct rf_tokenizer *t;
	enum rf_code rc;
	struct stat st;
	struct rf_config cfg;
	char config[4096];
	bool found = true;

	*kind = *hash = 0;
	*vocab = 0;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    (rc = find_file(path, rf_tokenizer_files, file, &found, e)) != RF_OK)
		return rc;
	if (!found && ((rc = read_vocab(path, file, vocab, e)) != RF_OK || *vocab))
		return rc;
	if ((rc = locate(path, file, kind, e)) != RF_OK)
		return rc;
	if (kind_of(kind)) {
		if ((rc = open_kind(&t, kind_of(kind), file, e)) != RF_OK)
			return rc;
		snprintf(kind, 80, "%s", t->kind->name);
		strcpy(hash, t->hash);
		*vocab = t->vocab;
		rf_tokenizer_free(t);
		return RF_OK;
	}
	if ((rc = rf_tokenizer_model(file, &cfg, config, &found, e)) != RF_OK)
		return rc;
	*vocab = found ? cfg.vocab : 0;
	rf_config_free(&cfg);
	/* as rf_tokenizer_hash_dir(): a config alone is not the tokenizer */
	return strcmp(rf_file_name(file), "tokenizer_config.json") ? hash_file(file, hash, e) : RF_OK;
}

enum rf_code rf_tokenizer_open_option(struct rf_tokenizer **t, const char *given, const char *model,
                                      struct rf_err *e)
{
	enum rf_code rc;
	char hash[17];
	struct stat st;

	*t = NULL;
	if (given)
		return strcmp(given, "bytes") ? rf_tokenizer_open(t, given, e) : rf_tokenizer_bytes(t, e);
	if (!model)
		return RF_OK;
	if (stat(model, &st) == 0 && S_ISDIR(st.st_mode) &&
	    ((rc = rf_tokenizer_hash_dir(model, hash, e)) != RF_OK || !*hash))
		return rc;
	return rf_tokenizer_open(t, model, e);
}

bool rf_tokenizer_made(const struct rf_tokenizer *t, const char *kind, const char *hash)
{
	/* other programs may call a kind by another name */
	return *hash ? !strcmp(hash, t->hash) : strcmp(kind, "bytes") || !strcmp(t->kind->name, "bytes");
}

enum rf_code rf_tokenizer_check_made(const struct rf_tokenizer *t, const char *kind, const char *hash,
                                     struct rf_err *e)
{
	char q[200];

	if (rf_tokenizer_made(t, kind, hash))
		return RF_OK;
	return rf_fail(e, RF_EDATA, "the stream was made with the tokenizer '%s'%s%s, not with '%s' %s",
	               rf_quote(q, sizeof q, kind, strlen(kind)), *hash ? " " : "", hash, t->kind->name,
	               t->hash);
}

enum rf_code rf_tokenizer_identify(const char *path, char kind[80], char hash[17], int *vocab,
                                   struct rf_err *e)
{
	char file[4096];
	enum rf_code rc;

	do
		rc = identify_once(path, file, kind, hash, vocab, e);
	while (was_removed(path, file));
	return rc;
}

static enum rf_code end_once(const char *path, char file[4096], struct rf_end_token *eos, struct rf_err *e)
{
	const struct rf_tokenizer_kind *kind;
	struct rf_tokenizer *t;
	enum rf_code rc;
	char name[80];

	*eos = (struct rf_end_token){ .id = -1 };
	if ((rc = locate(path, file, name, e)) != RF_OK || !(kind = kind_of(name)))
		return rc;
	if (kind->end && ((rc = kind->end(file, eos, e)) != RF_OK || eos->id != RF_TOKENIZER_OPEN))
		return rc;
	*eos = (struct rf_end_token){ .id = -1 };
	if ((rc = open_kind(&t, kind, file, e)) == RF_OK)
		*eos = t->eos;
	rf_tokenizer_free(t);
	return rc;
}

enum rf_code rf_tokenizer_end(const char *path, struct rf_end_token *eos, struct rf_err *e)
{
	char file[4096];
	enum rf_code rc;

	do
		rc = end_once(path, file, eos, e);
	while (was_removed(path, file));
	return rc;
}

void rf_tokenizer_fit_end(const struct rf_end_token *eos, const struct rf_config *cfg, const char *config,
                          char warning[RF_TOKENIZER_WARNING])
{
	*warning = 0;
	for (int i = 0; i < cfg->eos_count; i++)
		if (cfg->eos[i] == eos->id)
			return;
	if (eos->id >= 0 && cfg->eos_count)
		rf_warn(warning, RF_TOKENIZER_WARNING,
		        "the tokenizer ends a text with token %d, the model with %d (let eos_token_id in %s "
		        "and eos_token in %s agree)",
		        eos->id, cfg->eos[0], config, eos->file);
}

enum rf_code rf_tokenizer_fit(struct rf_tokenizer *t, const struct rf_config *cfg, const char *config,
                              char warning[RF_TOKENIZER_WARNING], struct rf_err *e)
{
	const int all = t->vocab;
	int end = t->eos.id;

	for (size_t i = 0; i < t->before_count && end < cfg->vocab; i++)
		end = t->before[i];
	if (t->own > cfg->vocab)
		return rf_fail(e, RF_EMODEL, "%s: vocab_size is %d, but the tokenizer has %d ids", config,
		               cfg->vocab, t->own);
	if (end >= cfg->vocab)
		return rf_fail(e, RF_EMODEL,
		               "%s: vocab_size is %d, but a file next to the tokenizer gives its %s token "
		               "the id %d",
		               config, cfg->vocab, end == t->eos.id ? "end" : "first", end);
	rf_tokenizer_fit_end(&t->eos, cfg, config, warning);
	if (t->eos.id < 0 && cfg->eos_count)
		rf_warn(warning, RF_TOKENIZER_WARNING,
		        "the tokenizer names no end token, so no text ends with the model's, %d (name it as "
		        "eos_token in tokenizer_config.json)",
		        cfg->eos[0]);
	if (all <= cfg->vocab)
		return RF_OK;
	t->kind->limit(t, cfg->vocab);
	t->bos = t->bos < cfg->vocab ? t->bos : -1;
	rf_warn(warning, RF_TOKENIZER_WARNING,
	        "vocab_size is %d in %s, so tokens with the ids %d to %d, which files next to the tokenizer "
	        "add, are text",
	        cfg->vocab, config, cfg->vocab, all - 1);
	return RF_OK;
}

enum rf_code rf_tokenizer_fit_model(struct rf_tokenizer *t, const char *path, int *vocab,
                                    char warning[RF_TOKENIZER_WARNING], struct rf_err *e)
{
	struct rf_config cfg;
	char file[4096];
	enum rf_code rc;
	bool found;

	*warning = 0;
	*vocab = 0;
	if ((rc = rf_tokenizer_model(path, &cfg, file, &found, e)) == RF_OK && found) {
		*vocab = cfg.vocab;
		rc = rf_tokenizer_fit(t, &cfg, file, warning, e);
	}
	rf_config_free(&cfg);
	return rc;
}

enum rf_code rf_tokenizer_fit_copy(const char *dir, const struct rf_config *cfg, const char *config,
                                   char warning[RF_TOKENIZER_WARNING], struct rf_err *e)
{
	struct rf_config copy = *cfg; /* only its end tokens change */
	char file[4096], name[80];
	struct rf_tokenizer *t;
	enum rf_code rc;

	*warning = 0;
	if ((rc = rf_file_join(file, dir, "generation_config.json", e)) != RF_OK ||
	    (rc = rf_config_read_generation(&copy, file, e)) != RF_OK ||
	    (rc = locate(dir, file, name, e)) != RF_OK)
		return rc;
	if (!kind_of(name))
		return RF_OK;
	if ((rc = open_kind(&t, kind_of(name), file, e)) != RF_OK)
		return rc;
	if ((rc = rf_tokenizer_fit(t, &copy, config, warning, e)) == RF_OK && *t->warning)
		rf_warn(warning, RF_TOKENIZER_WARNING, "%s: %s", file, t->warning);
	rf_tokenizer_free(t);
	return rc;
}

void rf_tokenizer_free(struct rf_tokenizer *t)
{
	if (t && t->kind->close)
		t->kind->close(t);
	free(t);
}

const char *rf_tokenizer_kind(const struct rf_tokenizer *t) { return t->kind->name; }
const char *rf_tokenizer_warning(const struct rf_tokenizer *t) { return t->warning; }
const char *rf_tokenizer_hash(const struct rf_tokenizer *t) { return t->hash; }
int rf_tokenizer_vocab(const struct rf_tokenizer *t) { return t->vocab; }
int rf_tokenizer_eos(const struct rf_tokenizer *t) { return t->eos.id; }
int rf_tokenizer_bos(const struct rf_tokenizer *t) { return t->bos; }

const int32_t *rf_tokenizer_before(const struct rf_tokenizer *t, size_t *n)
{
	*n = t->before_count;
	return t->before;
}

enum rf_code rf_tokenizer_encode(const struct rf_tokenizer *t, const char *text, size_t n,
                                 struct rf_id_list *ids, struct rf_err *e)
{
	const size_t before = ids->n;
	enum rf_code rc = t->kind->encode(t, text, n, ids, e);

	if (rc != RF_OK)
		ids->n = before;
	return rc;
}

enum rf_code rf_tokenizer_decode(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                 size_t *n, struct rf_err *e)
{
	size_t held;

	return t->kind->decode(t, ids, count, true, text, n, &held, e);
}

/* Makes the caller's text from the bytes s that a kind decoded, of which the last `held` may change.  Frees
 * s. */
static enum rf_code hand_on(char *s, size_t len, size_t held, char **text, size_t *n, size_t *final,
                            struct rf_err *e)
{
	struct rf_buf out = { 0 };

	held = held < len ? held : len;
	rf_add_valid(&out, s, len - held, 1);
	*final = out.n;
	rf_add_valid(&out, s + len - held, held, 1);
	free(s);
	return rf_buf_give(&out, text, n) ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory");
}

enum rf_code rf_tokenizer_text(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                               size_t *n, size_t *final, struct rf_err *e)
{
	size_t len, held;
	enum rf_code rc;
	char *s;

	if ((rc = t->kind->decode(t, ids, count, false, &s, &len, &held, e)) != RF_OK)
		return rc;
	return hand_on(s, len, held, text, n, final, e);
}

/* Returns in *special whether a token is special: it has a name and no text. */
static enum rf_code is_special(const struct rf_tokenizer *t, int32_t id, bool *special, struct rf_err *e)
{
	size_t plain, named, held;
	enum rf_code rc;
	char *s;

	if ((rc = t->kind->decode(t, &id, 1, false, &s, &plain, &held, e)) != RF_OK)
		return rc;
	free(s);
	if ((rc = t->kind->decode(t, &id, 1, true, &s, &named, &held, e)) != RF_OK)
		return rc;
	free(s);
	*special = !plain && named;
	return RF_OK;
}

/* Raises *held to the bytes that the last tokens after any special token hold back, which a kind that writes
 * names may not report.  A character has four bytes, so at most three tokens can be the beginning of one. */
static enum rf_code held_back(const struct rf_tokenizer *t, const int32_t *ids, size_t count, size_t *held,
                              struct rf_err *e)
{
	size_t k = 0, len, more = 0;
	bool special = false;
	enum rf_code rc = RF_OK;
	char *s;

	while (rc == RF_OK && k < 3 && k < count &&
	       (rc = is_special(t, ids[count - 1 - k], &special, e)) == RF_OK && !special)
		k++;
	if (rc == RF_OK && k)
		rc = t->kind->decode(t, ids + count - k, k, false, &s, &len, &more, e);
	if (rc == RF_OK && k)
		free(s);
	*held = more > *held ? more : *held;
	return rc;
}

enum rf_code rf_tokenizer_named(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
                                size_t *n, size_t *final, struct rf_err *e)
{
	size_t len, held;
	enum rf_code rc;
	char *s;

	rc = t->kind->decode_named ? t->kind->decode_named(t, ids, count, &s, &len, &held, e)
	                           : t->kind->decode(t, ids, count, true, &s, &len, &held, e);
	if (rc != RF_OK)
		return rc;
	if (!held && (rc = held_back(t, ids, count, &held, e)) != RF_OK) {
		free(s);
		return rc;
	}
	return hand_on(s, len, held, text, n, final, e);
}

/* Measures the text of the first `count` ids, with names and without special tokens. */
static enum rf_code measure(const struct rf_tokenizer *t, const int32_t *ids, size_t count, size_t *named,
                            size_t *plain, struct rf_err *e)
{
	size_t final;
	enum rf_code rc;
	char *s;

	if ((rc = rf_tokenizer_named(t, ids, count, &s, named, &final, e)) != RF_OK)
		return rc;
	free(s);
	if ((rc = rf_tokenizer_text(t, ids, count, &s, plain, &final, e)) == RF_OK)
		free(s);
	return rc;
}

/* Cuts the text at the byte `at` of the text with names.  Between two special tokens both texts are the same,
 * except that the one with names may lack a blank at the beginning, so lengths are compared from the end. */
enum rf_code rf_tokenizer_text_before(const struct rf_tokenizer *t, const int32_t *ids, size_t count,
                                      size_t at, char **text, size_t *n, struct rf_err *e)
{
	size_t begin = 0, end = 0, named = 0, after, plain, final, back;
	bool special = false;
	enum rf_code rc;

	for (size_t i = 0; i <= count; i++) {
		if (i < count && (rc = is_special(t, ids[i], &special, e)) != RF_OK)
			return rc;
		if (i < count && !special)
			continue;
		if ((rc = measure(t, ids, i, &named, &end, e)) != RF_OK)
			return rc;
		if (at <= named || i == count)
			break;
		if ((rc = measure(t, ids, i + 1, &after, &plain, e)) != RF_OK)
			return rc;
		if (at < after) {
			named = at; /* inside the name of a special token */
			break;
		}
		begin = end;
	}
	back = named > at ? named - at : 0;
	if ((rc = rf_tokenizer_text(t, ids, count, text, n, &final, e)) != RF_OK)
		return rc;
	end = end - begin > back ? end - back : begin;
	*n = end < *n ? end : *n;
	while (*n && ((unsigned char)(*text)[*n] & 0xc0) == 0x80) /* cut between two characters */
		--*n;
	(*text)[*n] = 0;
	return RF_OK;
}
