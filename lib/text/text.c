/* text.c -- reads documents, each from a line or a file.  A line is checked as a whole; then its strings are
 * unescaped in place (they never grow).  So a document needs no memory except that of its line, and of lists
 * and metadata. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/region.h"
#include "io/file.h"
#include "io/jscan.h"
#include "io/lines.h"
#include "stream/msg.h"
#include "stream/pack.h"
#include "stream/stream.h"
#include "text/text.h"

/* Limits of a record: the depth of lists and objects in a value of the metadata (that of a message, less
 * message, body and the map), and the number of values of answers or metadata. */
enum { META_DEPTH = RF_MSG_DEPTH - 3, MAX_VALUES = RF_MSG_NODES / 4, MAX_KEY = 255 };

struct rf_text {
	struct rf_text_options o;
	char *const *paths;
	int count, next;            /* number of files; the next file */
	uint64_t passed;            /* bytes of the files before the current one */
	struct rf_lines *lines;     /* NULL between files */
	enum rf_text_format format; /* format of the current file */
	bool whole;                 /* the current file is a text file and was returned */
	struct rf_doc doc;
	struct rf_region memory;            /* memory of the document's lists */
	struct rf_buf meta, prompt, answer; /* the last two: texts joined from two parts */
	char source[600];
};

void rf_text_option_table(struct rf_text_options *o, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("format", &o->format, RF_TEXT_WORDS,
		         "format of the files; name: by file name, jsonl for stdin", .noted = RF_OPT_RESULT),
		OPT_TEXT("text-key", &o->text_key, "key", "jsonl: key of the text", .noted = RF_OPT_RESULT),
		OPT_TEXT("prompt-key", &o->prompt_key, "key",
		         "jsonl: key of the prompt, read instead of a text", .noted = RF_OPT_RESULT),
		OPT_TEXT("prompt-suffix-key", &o->prompt_suffix_key, "key",
		         "jsonl: key of a text that the prompt ends with", .noted = RF_OPT_RESULT),
		OPT_TEXT("answer-key", &o->answer_key, "key",
		         "jsonl: key of the answer, or of a list; the first follows the prompt",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("answer-prefix", &o->answer_prefix, "string",
		         "put this before the answer that follows the prompt", .noted = RF_OPT_RESULT),
		OPT_TEXT("answers-key", &o->answers_key, "key",
		         "jsonl: key of answers to keep in the record, none of them as tokens",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("choices-key", &o->choices_key, "key",
		         "jsonl: key of texts to compare, each of which continues the prompt",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("meta-key", &o->meta_key, "key[,key...]",
		         "keep the values of these keys as metadata", .noted = RF_OPT_RESULT),
		OPT_TEXT("source-key", &o->source_key, "key", "keep the value of this key as the source",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("source", &o->source, "keep file:line as the source", .noted = RF_OPT_RESULT),
		OPT_SIZE("max-record", &o->max_record, "size", "refuse longer lines, text files and records"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

/* Returns the name of the program that compressed a file, by the file's suffix, if such files are not read;
 * else NULL. */
static const char *packed_by_name(const char *path)
{
	static const struct {
		const char *end, *program;
	} known[] = {
		{ ".gz", "gzip" },
		{ ".bz2", "bzip2" },
		{ ".xz", "xz" },
		{ ".lz4", "lz4" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (rf_file_ends(path, strlen(path), known[i].end))
			return known[i].program;
	return NULL;
}

/* Returns the format by a file's suffix; RF_TEXT_BY_NAME: the suffix is unknown. */
static enum rf_text_format format_of(const struct rf_text_options *o, const char *path)
{
	static const struct {
		const char *end;
		enum rf_text_format format;
	} known[] = {
		{ ".jsonl", RF_TEXT_JSONL },
		{ ".ndjson", RF_TEXT_JSONL },
		{ ".txt", RF_TEXT_PLAIN },
		{ ".ids", RF_TEXT_IDS },
	};
	size_t n = strlen(path);

	if (o->format != RF_TEXT_BY_NAME)
		return o->format;
	if (!strcmp(path, "-"))
		return RF_TEXT_JSONL;
	if (rf_file_ends(path, n, ".zst"))
		n -= 4;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (rf_file_ends(path, n, known[i].end))
			return known[i].format;
	return RF_TEXT_BY_NAME;
}

static enum rf_code check_keys(const struct rf_text_options *o, struct rf_err *e)
{
	const char *keys[] = { o->prompt_key ? NULL : o->text_key,
		               o->prompt_key,
		               o->prompt_suffix_key,
		               o->answer_key,
		               o->answers_key,
		               o->choices_key,
		               o->source_key };
	static const char *const of_prompt[] = { "prompt-suffix-key", "answer-key", "answers-key",
		                                 "choices-key" };
	char q[200];

	for (int i = 0; i < 4; i++)
		if (keys[2 + i] && !o->prompt_key)
			return rf_fail(e, RF_EUSAGE, "--%s requires --prompt-key", of_prompt[i]);
	if (o->answers_key && o->answer_key)
		return rf_fail(e, RF_EUSAGE, "--answers-key cannot be combined with --answer-key");
	if (o->choices_key && o->answer_key)
		return rf_fail(e, RF_EUSAGE, "--choices-key cannot be combined with --answer-key");
	if (o->answer_prefix && !o->answer_key && !o->choices_key)
		return rf_fail(e, RF_EUSAGE, "--answer-prefix requires --answer-key or --choices-key");
	for (int i = 0; i < 7; i++)
		for (int j = 0; j < i; j++)
			if (keys[i] && keys[j] && !strcmp(keys[i], keys[j]))
				return rf_fail(e, RF_EUSAGE, "two options name the same key '%s'",
				               rf_quote(q, sizeof q, keys[i], strlen(keys[i])));
	for (const char *key = o->meta_key, *end; key; key = *end ? end + 1 : NULL) {
		end = key + strcspn(key, ",");
		if (end == key || end - key > MAX_KEY)
			return rf_fail(e, RF_EUSAGE, "--meta-key: a key is empty or longer than %d bytes",
			               MAX_KEY);
	}
	if (o->source_key && o->source)
		return rf_fail(e, RF_EUSAGE, "--source cannot be combined with --source-key");
	return RF_OK;
}

static enum rf_code check_options(const struct rf_text_options *o, char *const *paths, int count,
                                  struct rf_err *e)
{
	enum rf_code rc = check_keys(o, e);
	struct stat st;
	char q[200];

	if (rc != RF_OK)
		return rc;
	for (int i = 0; i < count; i++) {
		enum rf_text_format format = format_of(o, paths[i]);
		const char *packed = packed_by_name(paths[i]);

		rf_quote(q, sizeof q, paths[i], strlen(paths[i]));
		if (strcmp(paths[i], "-") && !stat(paths[i], &st) && S_ISDIR(st.st_mode))
			return rf_fail(e, RF_ENOINPUT, "%s: a folder: name its files, such as %s/*.txt", q,
			               q);
		if (format == RF_TEXT_BY_NAME && !packed)
			return rf_fail(e, RF_EUSAGE,
			               "'%s': unknown suffix (known: .jsonl, .txt, .ids, each "
			               "also .zst): use --format",
			               q);
		if (format == RF_TEXT_IDS && o->prompt_key)
			return rf_fail(e, RF_EUSAGE, "'%s': --prompt-key is for jsonl, not for ids", q);
		if (format == RF_TEXT_PLAIN && (o->prompt_key || o->meta_key || o->source_key))
			return rf_fail(e, RF_EUSAGE,
			               "'%s': a text file has no keys: --prompt-key, --meta-key and "
			               "--source-key are for jsonl",
			               q);
		if (strcmp(paths[i], "-") && access(paths[i], R_OK))
			return rf_fail(e, RF_ENOINPUT, "%s: %s", q, strerror(errno));
		if (format == RF_TEXT_BY_NAME)
			return rf_fail(e, RF_EDATA,
			               "%s: compressed with %s, by its suffix: decompress it, or compress it "
			               "with zstd",
			               q, packed);
	}
	return RF_OK;
}

static enum rf_code next_file(struct rf_text *t, struct rf_err *e)
{
	const char *path = t->paths[t->next++];
	enum rf_code rc;

	if (t->lines)
		t->passed += rf_lines_bytes(t->lines);
	rf_lines_close(t->lines);
	t->format = format_of(&t->o, path);
	t->whole = false;
	rc = rf_lines_open(&t->lines, path, t->o.max_record, e);
	if (rc == RF_OK)
		rf_lines_advise(t->lines);
	return rc;
}

enum rf_code rf_text_open(struct rf_text **out, const struct rf_text_options *o, char *const *paths,
                          int count, struct rf_err *e)
{
	static char stdin_name[] = "-", *const only_stdin[] = { stdin_name };
	struct rf_text *t;
	enum rf_code rc;

	*out = NULL;
	if (count == 0) {
		paths = only_stdin;
		count = 1;
	}
	if ((rc = check_options(o, paths, count, e)) != RF_OK)
		return rc;
	if (!(t = calloc(1, sizeof *t)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	t->o = *o;
	t->paths = paths;
	t->count = count;
	if ((rc = next_file(t, e)) != RF_OK)
		rf_text_close(t);
	else
		*out = t;
	return rc;
}

void rf_text_close(struct rf_text *t)
{
	if (!t)
		return;
	rf_lines_close(t->lines);
	rf_buf_free(&t->meta);
	rf_buf_free(&t->prompt);
	rf_buf_free(&t->answer);
	rf_region_free(&t->memory);
	free(t);
}

uint64_t rf_text_bytes(const struct rf_text *t)
{
	return t->passed + (t->lines ? rf_lines_bytes(t->lines) : 0);
}

void rf_text_holds(const struct rf_text *t, bool *texts, bool *ids)
{
	*texts = *ids = false;
	for (int i = 0; i < t->count; i++)
		*(format_of(&t->o, t->paths[i]) == RF_TEXT_IDS ? ids : texts) = true;
}

enum rf_code rf_doc_blame(const struct rf_doc *doc, struct rf_err *e)
{
	return doc->line ? rf_blame(e, "%s: line %llu", doc->name, (unsigned long long)doc->line)
	                 : rf_blame(e, "%s", doc->name);
}

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory"); }

/* Finds the value of a key as rf_jscan_get() does; if it is missing, the message lists the existing keys. */
static enum rf_code get_value(const struct rf_jvalue *line, const char *key, struct rf_jvalue *v,
                              struct rf_err *e)
{
	struct rf_jvalue name, value = { NULL, 0 };
	char list[200] = "", q[80];
	enum rf_code rc = rf_jscan_get(line, key, v, e);
	int n = 0, most = 0;

	if (rc == RF_OK || v->s)
		return rc;
	while (rf_jscan_next(line, &name, &value)) {
		char one[60]; /* the key with its quotes */

		n++;
		if (strlen(list) + 2 * sizeof one < sizeof list && n == most + 1)
			sprintf(list + strlen(list), "%s%s", most++ ? ", " : "",
			        rf_quote(one, sizeof one, name.s, name.n));
	}
	return rf_fail(e, RF_EDATA, "the key '%s' is missing; the line has %s%s%s",
	               rf_quote(q, sizeof q, key, strlen(key)), n ? list : "no keys", n > most ? ", ..." : "",
	               rf_jscan_get(line, "messages", &value, NULL) == RF_OK
	                       ? " (examples/chat.py makes prompts and answers of chats)"
	                       : "");
}

static enum rf_code get_string(const struct rf_jvalue *line, const char *key, struct rf_jvalue *v,
                               struct rf_err *e)
{
	char q[80];
	enum rf_code rc = get_value(line, key, v, e);

	if (rc == RF_OK && !rf_jscan_is_string(v))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a string",
		               rf_quote(q, sizeof q, key, strlen(key)), rf_jscan_kind(v));
	return rc;
}

/* Unescapes a string that the record keeps as a C string. */
static enum rf_code name_text(struct rf_jvalue *v, const char *key, const char **text, struct rf_err *e)
{
	size_t n;
	char q[80];

	*text = rf_jscan_text(v, &n);
	if (strlen(*text) != n)
		return rf_fail(e, RF_EDATA, "'%s' contains a NUL, which only a text or prompt may contain",
		               rf_quote(q, sizeof q, key, strlen(key)));
	return RF_OK;
}

/* Joins two texts in buf. */
static enum rf_code join_texts(struct rf_buf *buf, const char *a, size_t n, const char *b, size_t m,
                               const char **text, size_t *len, struct rf_err *e)
{
	buf->n = 0;
	rf_buf_add(buf, a, n);
	rf_buf_add(buf, b, m);
	*len = buf->n;
	rf_buf_add(buf, "", 1);
	*text = (const char *)buf->p;
	return buf->failed ? no_memory(e) : RF_OK;
}

/* Reads a string, or the strings of a list, into *all, *n of them, in memory of p.  They are unescaped in
 * place. */
static enum rf_code read_strings(const char *key, struct rf_jvalue *v, struct rf_region *p, const char ***all,
                                 int *n, struct rf_err *e)
{
	struct rf_jvalue each = { NULL, 0 }, next = { NULL, 0 };
	size_t count = rf_jscan_is_string(v);
	enum rf_code rc = RF_OK;
	char q[80];

	rf_quote(q, sizeof q, key, strlen(key));
	if (rf_jscan_is_list(v))
		for (; rf_jscan_next(v, NULL, &each); count++)
			if (!rf_jscan_is_string(&each))
				return rf_fail(e, RF_EDATA, "'%s' has %s at index %zu, not a string", q,
				               rf_jscan_kind(&each), count);
	if (count == 0)
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a string or a list of strings", q,
		               rf_jscan_is_list(v) ? "an empty list" : rf_jscan_kind(v));
	if (count > MAX_VALUES)
		return rf_fail(e, RF_EDATA, "'%s' has %zu strings, but a record can have at most %d", q,
		               count, MAX_VALUES);
	if (!(*all = rf_region_alloc(p, count, sizeof **all)))
		return no_memory(e);
	*n = (int)count;
	if (rf_jscan_is_string(v))
		return name_text(v, key, *all, e);
	/* find the next element before this one is unescaped, after which the cursor cannot use it */
	rf_jscan_next(v, NULL, &next);
	for (size_t i = 0; i < count && rc == RF_OK; i++) {
		each = next;
		rf_jscan_next(v, NULL, &next);
		rc = name_text(&each, key, &(*all)[i], e);
	}
	return rc;
}

static enum rf_code read_answers(struct rf_text *t, const char *key, struct rf_jvalue *v, struct rf_err *e)
{
	struct rf_doc *d = &t->doc;
	enum rf_code rc = read_strings(key, v, &t->memory, &d->all, &d->answers, e);

	if (rc != RF_OK || !t->o.answer_key)
		return rc;
	d->answer = d->all[0];
	d->answer_len = strlen(d->answer);
	if (t->o.answer_prefix)
		rc = join_texts(&t->answer, t->o.answer_prefix, strlen(t->o.answer_prefix), d->answer,
		                d->answer_len, &d->answer, &d->answer_len, e);
	return rc;
}

/* Reads the choices, and their contexts if the prompt is a list of contexts. */
static enum rf_code read_choices(struct rf_text *t, struct rf_jvalue *prompt, struct rf_jvalue *v,
                                 struct rf_err *e)
{
	struct rf_doc *d = &t->doc;
	int contexts;
	char q[80];
	enum rf_code rc = read_strings(t->o.choices_key, v, &t->memory, &d->choice, &d->choices, e);

	d->choice_prefix = t->o.answer_prefix ? t->o.answer_prefix : "";
	if (rc != RF_OK || rf_jscan_is_string(prompt))
		return rc;
	rc = read_strings(t->o.prompt_key, prompt, &t->memory, &d->context, &contexts, e);
	if (rc == RF_OK && contexts != d->choices)
		rc = rf_fail(e, RF_EDATA, "'%s' has %d contexts, but there are %d choices",
		             rf_quote(q, sizeof q, t->o.prompt_key, strlen(t->o.prompt_key)), contexts,
		             d->choices);
	return rc;
}

static enum rf_code pack_value(msgpack_packer *p, const struct rf_jvalue *v, int depth, int *values,
                               struct rf_err *e);

static enum rf_code pack_string(msgpack_packer *p, const struct rf_jvalue *v, struct rf_err *e)
{
	struct rf_jvalue copy;
	size_t n;

	if (!rf_jscan_is_string(v))
		return rf_fail(e, RF_EDATA, "%s cannot be kept in a record", rf_jscan_kind(v));
	copy = (struct rf_jvalue){ malloc(v->n), v->n };
	if (!copy.s)
		return no_memory(e);
	memcpy(copy.s, v->s, v->n);
	rf_jscan_text(&copy, &n);
	rf_pack_str(p, copy.s, n);
	free(copy.s);
	return RF_OK;
}

static enum rf_code pack_container(msgpack_packer *p, const struct rf_jvalue *v, int depth, int *values,
                                   struct rf_err *e)
{
	bool object = rf_jscan_is_object(v);
	struct rf_jvalue key, each = { NULL, 0 };
	struct rf_jvalue *k = object ? &key : NULL;
	size_t n = 0;
	enum rf_code rc = RF_OK;

	if (depth == 0)
		return rf_fail(e, RF_EDATA, "lists and objects are nested more than %d levels deep",
		               META_DEPTH);
	while (rf_jscan_next(v, k, &each))
		n++;
	if (n > (size_t)(MAX_VALUES - *values))
		return rf_fail(e, RF_EDATA, "there are more than %d values", MAX_VALUES);
	if (object)
		msgpack_pack_map(p, n);
	else
		msgpack_pack_array(p, n);
	for (each.s = NULL; rc == RF_OK && rf_jscan_next(v, k, &each);) {
		if (object)
			rc = pack_string(p, k, e);
		if (rc == RF_OK)
			rc = pack_value(p, &each, depth - 1, values, e);
	}
	return rc;
}

/* Writes a JSON value as msgpack. */
static enum rf_code pack_value(msgpack_packer *p, const struct rf_jvalue *v, int depth, int *values,
                               struct rf_err *e)
{
	int64_t i;
	uint64_t u;
	double x;

	if (++*values > MAX_VALUES)
		return rf_fail(e, RF_EDATA, "there are more than %d values", MAX_VALUES);
	if (rf_jscan_is_list(v) || rf_jscan_is_object(v))
		return pack_container(p, v, depth, values, e);
	if (*v->s == '"')
		return pack_string(p, v, e);
	if (rf_jscan_uint(v, &u))
		msgpack_pack_uint64(p, u);
	else if (rf_jscan_int(v, &i))
		msgpack_pack_int64(p, i);
	else if (rf_jscan_real(v, &x))
		msgpack_pack_double(p, x);
	else if (v->s[0] == 'n')
		msgpack_pack_nil(p);
	else if (v->s[0] == 't')
		msgpack_pack_true(p);
	else if (v->s[0] == 'f')
		msgpack_pack_false(p);
	else if (v->s[v->s[0] == '-'] == 'N' || v->s[v->s[0] == '-'] == 'I')
		return rf_fail(e, RF_EDATA, "%s cannot be kept in a record", rf_jscan_kind(v));
	else
		return rf_fail(e, RF_EDATA, "%s does not fit into 64 bits", rf_jscan_kind(v));
	return RF_OK;
}

static enum rf_code read_meta(struct rf_text *t, const struct rf_jvalue *line, struct rf_err *e)
{
	const char *keys = t->o.meta_key;
	msgpack_packer p;
	int values = 0;
	size_t count = 1;
	enum rf_code rc;

	t->meta.n = 0;
	rf_pack_init(&p, &t->meta);
	for (const char *c = keys; *c; c++)
		count += *c == ',';
	msgpack_pack_map(&p, count);
	for (; count > 0; count--) {
		char key[MAX_KEY + 1];
		size_t n = strcspn(keys, ",");
		struct rf_jvalue v;

		memcpy(key, keys, n);
		key[n] = 0;
		keys += n + 1;
		if ((rc = get_value(line, key, &v, e)) != RF_OK)
			return rc;
		rf_pack_text(&p, key);
		if ((rc = pack_value(&p, &v, META_DEPTH, &values, e)) != RF_OK)
			return rf_blame(e, "'%s'", rf_quote((char[80]){ 0 }, 80, key, n));
	}
	if (t->meta.failed)
		return no_memory(e);
	/* JSON allows a key twice in an object, the stream does not */
	if ((rc = rf_msg_check(t->meta.p, t->meta.n, e)) != RF_OK)
		return rf_blame(e, "meta data");
	t->doc.meta = (struct rf_raw){ t->meta.p, t->meta.n };
	return RF_OK;
}

static enum rf_code read_ids(struct rf_text *t, const struct rf_jvalue *v, struct rf_err *e)
{
	struct rf_jvalue each = { NULL, 0 };
	size_t n = 0;
	int64_t id;

	if (!rf_jscan_is_list(v))
		return rf_fail(e, RF_EDATA, "'tokens' is %s, not a list of token ids", rf_jscan_kind(v));
	/* commas separate the elements; if some elements are not numbers, there may be more commas */
	for (size_t i = 0; i < v->n; i++)
		n += v->s[i] == ',';
	int32_t *ids = rf_region_alloc(&t->memory, n + 1, sizeof *ids);
	if (!ids)
		return no_memory(e);
	for (n = 0; rf_jscan_next(v, NULL, &each); n++) {
		if (!rf_jscan_int(&each, &id) || id < 0 || id > INT32_MAX)
			return rf_fail(e, RF_EDATA, "'tokens' has '%s' at index %zu, not a token id",
			               rf_quote((char[40]){ 0 }, 40, each.s, each.n), n);
		ids[n] = (int32_t)id;
	}
	t->doc.ids = ids;
	t->doc.count = n;
	return RF_OK;
}

static enum rf_code read_line(struct rf_text *t, const struct rf_jvalue *line, struct rf_err *e)
{
	const struct rf_text_options *o = &t->o;
	const char *answers_key = o->answer_key ? o->answer_key : o->answers_key, *end;
	struct rf_doc *d = &t->doc;
	struct rf_jvalue text, suffix, answers, choices, source;
	enum rf_code rc;
	size_t n;

	/* all keys are found before any string is unescaped */
	if (t->format == RF_TEXT_IDS)
		rc = get_value(line, "tokens", &text, e);
	else if (o->choices_key && !o->prompt_suffix_key)
		rc = get_value(line, o->prompt_key, &text, e);
	else
		rc = get_string(line, o->prompt_key ? o->prompt_key : o->text_key, &text, e);
	if (rc == RF_OK && o->prompt_suffix_key)
		rc = get_string(line, o->prompt_suffix_key, &suffix, e);
	if (rc == RF_OK && answers_key)
		rc = get_value(line, answers_key, &answers, e);
	if (rc == RF_OK && o->choices_key)
		rc = get_value(line, o->choices_key, &choices, e);
	if (rc == RF_OK && o->source_key)
		rc = get_string(line, o->source_key, &source, e);
	if (rc == RF_OK && o->meta_key)
		rc = read_meta(t, line, e);

	if (rc == RF_OK && t->format == RF_TEXT_IDS)
		rc = read_ids(t, &text, e);
	if (rc == RF_OK && answers_key)
		rc = read_answers(t, answers_key, &answers, e);
	if (rc == RF_OK && o->choices_key)
		rc = read_choices(t, &text, &choices, e);
	if (rc == RF_OK && o->source_key)
		rc = name_text(&source, o->source_key, &d->source, e);
	if (rc == RF_OK && t->format == RF_TEXT_JSONL) {
		d->is_prompt = o->prompt_key != NULL;
		if (!d->context) {
			d->text = rf_jscan_text(&text, &d->text_len);
		} else {
			d->text = d->context[0];
			d->text_len = strlen(d->text);
		}
	}
	if (rc == RF_OK && o->prompt_suffix_key) {
		end = rf_jscan_text(&suffix, &n);
		rc = join_texts(&t->prompt, d->text, d->text_len, end, n, &d->text, &d->text_len, e);
	}
	return rc;
}

/* Sets the source to "name:line", where name is the last part of the path, as printable ASCII. */
static void name_source(struct rf_text *t)
{
	const char *path = t->paths[t->next - 1], *name = strcmp(path, "-") ? rf_file_name(path) : "<stdin>";
	char line[32] = "";

	if (t->format != RF_TEXT_PLAIN)
		snprintf(line, sizeof line, ":%llu", (unsigned long long)rf_lines_number(t->lines));
	rf_quote(t->source, sizeof t->source - sizeof line, name, strlen(name));
	strcat(t->source, line);
	t->doc.source = t->source;
}

/* Reads the next line of this file as an object, or the whole file as one text.  Returns RF_EOF at the end of
 * the file. */
static enum rf_code next_part(struct rf_text *t, struct rf_jvalue *part, struct rf_err *e)
{
	if (t->format != RF_TEXT_PLAIN)
		return rf_lines_next_object(t->lines, part, e);
	if (t->whole)
		return RF_EOF;
	t->whole = true;
	return rf_lines_rest(t->lines, &part->s, &part->n, e);
}

enum rf_code rf_text_next(struct rf_text *t, const struct rf_doc **doc, struct rf_err *e)
{
	struct rf_jvalue part;
	enum rf_code rc;

	while ((rc = next_part(t, &part, e)) == RF_EOF) {
		if (t->next == t->count)
			return RF_EOF;
		if ((rc = next_file(t, e)) != RF_OK)
			return rc;
	}
	if (rc != RF_OK)
		return rc;
	rf_region_clear(&t->memory);
	t->doc = (struct rf_doc){ .answers = -1, .name = rf_lines_name(t->lines) };
	if (t->format != RF_TEXT_PLAIN)
		t->doc.line = rf_lines_number(t->lines);
	if (t->format == RF_TEXT_PLAIN) {
		t->doc.text = part.s;
		t->doc.text_len = part.n;
	} else if ((rc = read_line(t, &part, e)) != RF_OK) {
		return rf_doc_blame(&t->doc, e);
	}
	if (t->o.source)
		name_source(t);
	*doc = &t->doc;
	return RF_OK;
}

bool rf_text_goes_on(const struct rf_text *t)
{
	return t->lines && t->format != RF_TEXT_PLAIN && rf_lines_goes_on(t->lines);
}
