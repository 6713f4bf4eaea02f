/* score.c -- scores the answers of streams and JSON lines, and writes scores as lines of JSON. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/memory.h"
#include "base/print.h"
#include "io/file.h"
#include "io/jscan.h"
#include "io/json.h"
#include "io/lines.h"
#include "score/score.h"
#include "stream/meta.h"

enum { KEYS = 8 };

struct rf_scorer {
	const struct rf_score_settings *s;
	char *by, *show; /* the keys, each followed by a NUL */
	const char *key[KEYS], *shown[KEYS];
	int keys, shows;
	struct rf_tally tally;
	struct rf_region region; /* memory of one question */
};

void rf_score_options(struct rf_score_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("rules", &s->how.rules, RF_RULES_WORDS,
		         "rules of scoring: of the benchmarks, or of ReFINE's evaluation code",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("metric", &s->how.metric, RF_METRIC_WORDS, "auto: the one of each question's task",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("task", &s->task, "NAME", "task of questions that name none",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("by", &s->by, "KEY,...", "keys of meta; print a line for each of their values"),
		OPT_FLAG("partial", &s->partial,
		         "leave out questions without an answer, and report their number"),
		OPT_FLAG("check", &s->check, "read no answers; check that each question can be scored"),
		OPT_FLAG("each", &s->each, "print a line for each question instead"),
		OPT_TEXT("show", &s->show, "KEY,...",
		         "with --each: print the values of these keys of meta too"),
		OPT_ENUM("format", &s->format, RF_SCORE_WORDS, "format of the input; name: by the file name"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory (a score)"); }

static enum rf_code split(const char *list, const char *option, char **copy, const char *key[KEYS], int *n,
                          struct rf_err *e)
{
	if (!(*copy = strdup(list)))
		return no_memory(e);
	for (char *rest = *copy; rest; ++*n) {
		char *one = strsep(&rest, ",");
		if (!*one || *n == KEYS)
			return rf_fail(e, RF_EUSAGE,
			               "--%s takes 1 to %d keys, separated by commas, not '%.60s'", option,
			               KEYS, list);
		key[*n] = one;
	}
	return RF_OK;
}

enum rf_code rf_scorer_open(struct rf_scorer **to, const struct rf_score_settings *s, struct rf_err *e)
{
	struct rf_scorer *c;
	enum rf_code rc;

	*to = NULL;
	if (s->show && !s->each)
		return rf_fail(e, RF_EUSAGE, "--show is for the lines of --each");
	if (!(c = calloc(1, sizeof *c)))
		return no_memory(e);
	c->s = s;
	if ((rc = split(s->by, "by", &c->by, c->key, &c->keys, e)) != RF_OK ||
	    (s->show && (rc = split(s->show, "show", &c->show, c->shown, &c->shows, e)) != RF_OK)) {
		rf_scorer_close(c);
		return rc;
	}
	*to = c;
	return RF_OK;
}

void rf_scorer_close(struct rf_scorer *c)
{
	if (!c)
		return;
	free(c->by);
	free(c->show);
	rf_tally_free(&c->tally);
	rf_region_free(&c->region);
	free(c);
}

bool rf_score_is_jsonl(const struct rf_score_settings *s, const char *path)
{
	size_t n = path ? strlen(path) : 0;

	if (s->format != RF_SCORE_BY_NAME)
		return s->format == RF_SCORE_JSONL;
	return n && (rf_file_ends(path, n, ".jsonl") || rf_file_ends(path, n, ".jsonl.zst"));
}

/* ---- a question's group -------------------------------------------------------------------- */

/* The name of a question's group: the value of the first key of --by as JSON, and the values of the other
 * keys as an object, both in the scorer's region. */
struct group_name {
	const char *first, *others;
};

/* Names the group of these values of the keys, each a new reference or NULL, which it takes.  Errors:
 * RF_EDATA: one is NULL; RF_ENOMEM. */
static enum rf_code name_group(struct rf_scorer *c, json_t *const value[KEYS], struct group_name *name,
                               struct rf_err *e)
{
	struct rf_buf first = { 0 }, others = { 0 };
	json_t *rest = json_object();
	enum rf_code rc = rest ? RF_OK : no_memory(e);

	for (int i = 0; i < c->keys; i++) {
		if (!value[i] && rc == RF_OK)
			rc = rf_fail(e, RF_EDATA, "the question has no '%s' that is a text or a number%s",
			             c->key[i],
			             strcmp(c->key[i], "task")
			                     ? ""
			                     : " (--task NAME gives one to all questions; a task that is not "
			                       "one of the benchmarks also needs --metric)");
		else if (rc != RF_OK)
			json_decref(value[i]);
		else if (i && json_object_set_new(rest, c->key[i], value[i]))
			rc = no_memory(e);
		else if (!i) {
			rf_json_print(&first, value[0]);
			json_decref(value[0]);
		}
	}
	if (rc == RF_OK) {
		rf_json_print(&others, rest);
		name->first = first.failed ? NULL : rf_region_text(&c->region, first.p, first.n);
		name->others = others.failed ? NULL : rf_region_text(&c->region, others.p, others.n);
		rc = name->first && name->others ? RF_OK : no_memory(e);
	}
	rf_buf_free(&first);
	rf_buf_free(&others);
	json_decref(rest);
	return rc;
}

/* Writes the additional keys of a line of --each as a JSON object in the scorer's region: with metric
 * `all` which references were found, from sums over n samples, and the values of --show, null where
 * `shown` has none.  *to does not change without --each.  Errors: RF_ENOMEM. */
static enum rf_code add_shown(struct rf_scorer *c, const struct rf_verdict *v, int n,
                              const char *const shown[KEYS], const char **to, struct rf_err *e)
{
	struct rf_buf text = { 0 };
	json_t *line, *found, *x;

	if (!c->s->each)
		return RF_OK;
	line = json_object();

	if (v->metric == RF_METRIC_ALL) {
		json_object_set_new(line, "found", found = json_array());
		for (int i = 0; i < v->references; i++)
			json_array_append_new(found, json_real(v->of[i] / n));
	}
	for (int i = 0; i < c->shows; i++) {
		x = shown[i] ? json_loads(shown[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
		json_object_set_new(line, c->shown[i], x ? x : json_null());
	}
	rf_json_print(&text, line);
	*to = text.failed ? NULL : rf_region_text(&c->tally.names, text.p, text.n);
	rf_buf_free(&text);
	json_decref(line);
	return *to ? RF_OK : no_memory(e);
}

/* Returns the group of these values, and makes it if it does not exist; NULL: memory ran out.  Called only
 * for a question that counts. */
static struct rf_score_group *find_group(struct rf_scorer *c, const struct group_name *name)
{
	return rf_tally_group(&c->tally, name->first, name->others);
}

static enum rf_code add_unanswered(struct rf_scorer *c, const struct group_name *name, const char *what,
                                   struct rf_err *e)
{
	struct rf_score_group *g;

	if (!c->s->partial)
		return rf_fail(e, RF_EDATA, "%s (--partial leaves such questions out)", what);
	if (!(g = find_group(c, name)))
		return no_memory(e);
	g->unanswered++;
	return RF_OK;
}

static enum rf_code add_score(struct rf_scorer *c, const struct group_name *name, struct rf_scored q,
                              struct rf_err *e)
{
	struct rf_score_group *g = find_group(c, name);

	return g ? rf_tally_add(g, q, e) : no_memory(e);
}

/* ---- records ------------------------------------------------------------------------------- */

/* Returns a value of meta that is a text or a number, as JSON; NULL: meta does not have it. */
static json_t *meta_value(const struct rf_record *r, const char *key)
{
	json_t *v = rf_meta_json(r, key);

	if (json_is_string(v) || json_is_number(v))
		return v;
	json_decref(v);
	return NULL;
}

static uint64_t question_of(const struct rf_record *r)
{
	uint64_t h =
		XXH64(r->tokens, (size_t)(r->prompt_len >= 0 ? r->prompt_len : r->T) * sizeof *r->tokens, 0);

	for (int i = 0; i < r->answers; i++)
		h = XXH64(r->answer[i], strlen(r->answer[i]) + 1, h);
	return h;
}

static const char *metric_name(enum rf_rules rules, enum rf_metric metric)
{
	static const char *const names[2][RF_METRICS] = {
		{ "", "official f1", "official rouge", "official class", "official code",
		  "official levenshtein", "official all", "official part", "official count",
		  "official retrieval" },
		{ "", "refine f1", "refine rouge", "refine class", "refine code", "refine levenshtein",
		  "refine all", "refine part", "refine count", "refine retrieval" },
	};

	return names[rules][metric];
}

/* Scores the samples.  *all: the sums over them. */
static enum rf_code score_samples(struct rf_scorer *c, struct rf_record *r, struct rf_answered *a,
                                  struct rf_verdict *all, struct rf_err *e)
{
	struct rf_generation *made = &r->generation;
	struct rf_verdict v;
	enum rf_code rc;

	if (!(made->score = rf_record_alloc(r, (size_t)made->n, sizeof *made->score)))
		return no_memory(e);
	for (int i = 0; i < made->n; i++) {
		a->pred = made->text[i];
		if ((rc = rf_metric_score(&c->s->how, a, &c->region, &v, e)) != RF_OK)
			return rc;
		made->score[i] = (float)v.score;
		if (!i) {
			*all = v;
			continue;
		}
		all->score += v.score;
		for (int k = 0; k < v.references; k++)
			all->of[k] += v.of[k];
	}
	made->metric = metric_name(c->s->how.rules, all->metric);
	return RF_OK;
}

/* Reads the classes in a record's meta, if it has them. */
static enum rf_code classes_of(struct rf_scorer *c, const struct rf_record *r, struct rf_answered *a,
                               struct rf_err *e)
{
	json_t *all = rf_meta_json(r, "all_classes"), *one;
	size_t n = json_is_array(all) ? json_array_size(all) : json_is_string(all);
	const char **text = n ? rf_region_alloc(&c->region, n, sizeof *text) : NULL;
	enum rf_code rc = n && !text ? no_memory(e) : RF_OK;

	if (all && !n && !json_is_null(all) && !json_is_array(all))
		rc = rf_fail(e, RF_EDATA, "meta's 'all_classes' is neither a text nor a list of texts");
	for (size_t i = 0; i < n && rc == RF_OK; i++) {
		one = json_is_array(all) ? json_array_get(all, i) : all;
		if (!json_is_string(one))
			rc = rf_fail(e, RF_EDATA, "meta's 'all_classes' has an element that is not a text");
		else if (!(text[i] = rf_chars_text(&c->region, json_string_value(one),
		                                   json_string_length(one))))
			rc = no_memory(e);
	}
	a->class_ = text;
	a->classes = (int)n;
	json_decref(all);
	return rc;
}

static enum rf_code score_record(struct rf_scorer *c, struct rf_record *r, struct rf_err *e)
{
	struct rf_generation *made = &r->generation;
	struct rf_answered a = { .answer = r->answer, .answers = r->answers };
	json_t *task = meta_value(r, "task"), *value[KEYS], *x;
	const char *shown[KEYS];
	char *text;
	struct group_name name;
	struct rf_scored q = { .id = r->id, .question = question_of(r) };
	struct rf_verdict all = { .score = 0 };
	enum rf_code rc;

	rf_region_clear(&c->region);
	if (json_is_string(task)) {
		a.task = rf_chars_text(&c->region, json_string_value(task), json_string_length(task));
		if (!a.task)
			return no_memory(e);
	} else
		a.task = c->s->task;
	json_decref(task);
	for (int i = 0; i < c->keys; i++)
		if (!(value[i] = meta_value(r, c->key[i])) && !strcmp(c->key[i], "task") && c->s->task)
			value[i] = json_string(c->s->task);
	if ((rc = name_group(c, value, &name, e)) != RF_OK || (rc = classes_of(c, r, &a, e)) != RF_OK)
		return rc;
	if (c->s->check) {
		a.pred = "";
		rc = rf_metric_score(&c->s->how, &a, &c->region, &all, e);
		return rc == RF_OK ? add_score(c, &name, q, e) : rc;
	}
	if (!made->tokens)
		return add_unanswered(c, &name, "there is no generation: rf-generate writes it", e);
	if (!made->text)
		return rf_fail(e, RF_EDATA,
		               "the generation has no text: rf-generate writes it if the model "
		               "has a tokenizer");
	if ((rc = score_samples(c, r, &a, &all, e)) != RF_OK)
		return rc;
	q.score = all.score / made->n;
	for (int i = 0; i < c->shows; i++) {
		x = rf_meta_json(r, c->shown[i]);
		text = x ? json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
		shown[i] = text ? rf_region_text(&c->region, text, strlen(text)) : NULL;
		free(text);
		json_decref(x);
	}
	if ((rc = add_shown(c, &all, made->n, shown, &q.more, e)) != RF_OK)
		return rc;
	return add_score(c, &name, q, e);
}

enum rf_code rf_scorer_stream(struct rf_scorer *c, struct rf_in *in, struct rf_out *out, struct rf_err *e)
{
	struct rf_record *r;
	enum rf_code rc;

	while ((rc = rf_next(in, &r, e)) == RF_OK) {
		rf_meter_read(c->s->meter, rf_in_bytes(in));
		if (score_record(c, r, e) != RF_OK)
			return rf_in_blame(in, e);
		if (out && (rc = rf_put(out, r, e)) != RF_OK)
			return rc;
		rf_meter_done(c->s->meter, r->T);
	}
	return rc == RF_EOF ? RF_OK : rc;
}

/* ---- JSON lines ---------------------------------------------------------------------------- */

/* Returns the text of a string as rf_chars_text() writes it, and changes the string in place; NULL: memory
 * ran out. */
static const char *text_of(struct rf_scorer *c, struct rf_jvalue *v)
{
	size_t n;
	const char *s = rf_jscan_text(v, &n);

	return memchr(s, 0, n) ? rf_chars_text(&c->region, s, n) : s;
}

/* Reads the texts of a list, or a single text. */
static enum rf_code read_texts(struct rf_scorer *c, const struct rf_jvalue *v, const char *what,
                               const char *const **to, int *n, struct rf_err *e)
{
	struct rf_jvalue one = { NULL, 0 }, list = *v;
	const char **text;

	*n = 0;
	if (rf_jscan_is_string(v))
		*n = 1;
	else if (rf_jscan_is_list(v))
		while (rf_jscan_next(&list, NULL, &one))
			++*n;
	else
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a text or a list of texts", what,
		               rf_jscan_kind(v));
	if (!(text = rf_region_alloc(&c->region, (size_t)*n, sizeof *text)))
		return no_memory(e);
	*to = text;
	if (rf_jscan_is_string(v)) {
		return (*text = text_of(c, &list)) ? RF_OK : no_memory(e);
	}
	/* find the next text before this one is unescaped in place */
	one.s = NULL;
	for (bool more = rf_jscan_next(&list, NULL, &one); more; text++) {
		struct rf_jvalue this = one;
		if (!rf_jscan_is_string(&one))
			return rf_fail(e, RF_EDATA, "'%s' has an element that is %s, not a text", what,
			               rf_jscan_kind(&one));
		more = rf_jscan_next(&list, NULL, &one);
		if (!(*text = text_of(c, &this)))
			return no_memory(e);
	}
	return RF_OK;
}

enum { PRED, ANSWERS, OUTPUTS, ANSWER, CLASSES, TASK, DATASET, SOURCE, WORDS };
static const char *const words[WORDS] = { "pred",        "answers", "outputs", "answer",
	                                  "all_classes", "task",    "dataset", "data_source" };

/* Reads the value of a key as JSON; *to is NULL if there is none.  Errors: RF_EDATA: strict JSON cannot hold
 * it. */
static enum rf_code load_value(const struct rf_jvalue *v, const char *key, json_t **to, struct rf_err *e)
{
	*to = v->s ? json_loadb(v->s, v->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
	if (!v->s || *to)
		return RF_OK;
	return rf_fail(e, RF_EDATA,
	               "'%s' (%s) cannot be shown as JSON (it is or has NaN, an infinity, an unpaired "
	               "surrogate, a number out of range or a NUL in a key)",
	               key, rf_jscan_kind(v));
}

/* Names the group of a line.  task: the value of its task, or none.  Must be called before text_of(), which
 * changes the line in place. */
static enum rf_code name_line(struct rf_scorer *c, const struct rf_jvalue *object,
                              const struct rf_jvalue *task, struct group_name *name, struct rf_err *e)
{
	json_t *value[KEYS] = { NULL };
	struct rf_jvalue by;
	enum rf_code rc = RF_OK;

	for (int i = 0; i < c->keys && rc == RF_OK; i++) {
		if (rf_jscan_get(object, c->key[i], &by, NULL) == RF_OK && !rf_jscan_is_list(&by) &&
		    !rf_jscan_is_object(&by) && *by.s != 'n')
			rc = load_value(&by, c->key[i], &value[i], e);
		if (rc == RF_OK && !value[i] && !strcmp(c->key[i], "task")) {
			rc = load_value(task, c->key[i], &value[i], e);
			if (!value[i] && c->s->task)
				value[i] = json_string(c->s->task);
		}
	}
	if (rc == RF_OK)
		return name_group(c, value, name, e);
	for (int i = 0; i < c->keys; i++)
		json_decref(value[i]);
	return rc;
}

/* Reads the task of a line; without one, *task becomes that of --task.  *of: the task's value, or none.
 * Errors: RF_EDATA: the task is of another type. */
static enum rf_code read_task(struct rf_scorer *c, const struct rf_jvalue v[WORDS], struct rf_jvalue *of,
                              const char **task, struct rf_err *e)
{
	const int which = v[TASK].s ? TASK : v[DATASET].s ? DATASET : SOURCE;
	struct rf_jvalue copy = v[which];

	*of = (struct rf_jvalue){ NULL, 0 };
	*task = c->s->task;
	if (!copy.s || *copy.s != '"')
		return RF_OK;
	if (!rf_jscan_is_string(&copy))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a text", words[which], rf_jscan_kind(&copy));
	*of = copy;
	if (!(copy.s = rf_region_alloc(&c->region, copy.n, 1)))
		return no_memory(e);
	memcpy(copy.s, of->s, copy.n);
	return (*task = text_of(c, &copy)) ? RF_OK : no_memory(e);
}

static enum rf_code score_line(struct rf_scorer *c, const struct rf_jvalue *object, struct rf_err *e)
{
	struct rf_answered a = { .pred = "" };
	struct rf_jvalue v[WORDS], task, show;
	const char *shown[KEYS];
	struct group_name name;
	struct rf_scored q = { .question = 0 };
	struct rf_verdict verdict;
	struct rf_score_group *g;
	json_t *json;
	enum rf_code rc;
	int how;

	rf_region_clear(&c->region);
	if ((rc = rf_jscan_pick(object, words, WORDS, v, e)) != RF_OK ||
	    (rc = read_task(c, v, &task, &a.task, e)) != RF_OK ||
	    (rc = name_line(c, object, &task, &name, e)) != RF_OK)
		return rc;
	for (int i = 0; i < c->shows; i++) { /* before texts are unescaped in place */
		if (rf_jscan_get(object, c->shown[i], &show, NULL) != RF_OK)
			show.s = NULL;
		if ((rc = load_value(&show, c->shown[i], &json, e)) != RF_OK)
			return rc;
		json_decref(json);
		if (!(shown[i] = show.s ? rf_region_text(&c->region, show.s, show.n) : NULL) && show.s)
			return no_memory(e);
	}
	how = v[ANSWERS].s ? ANSWERS : v[OUTPUTS].s ? OUTPUTS : ANSWER;
	if (!v[how].s)
		return rf_fail(e, RF_EDATA, "there are no 'answers', 'outputs' or 'answer' to compare with");
	if ((rc = read_texts(c, &v[how], words[how], &a.answer, &a.answers, e)) != RF_OK)
		return rc;
	if (v[CLASSES].s && *v[CLASSES].s != 'n' &&
	    (rc = read_texts(c, &v[CLASSES], words[CLASSES], &a.class_, &a.classes, e)) != RF_OK)
		return rc;
	if (c->s->check) {
		rc = rf_metric_score(&c->s->how, &a, &c->region, &verdict, e);
		return rc == RF_OK ? add_score(c, &name, q, e) : rc;
	}
	if (!v[PRED].s || *v[PRED].s != '"')
		return add_unanswered(c, &name, "there is no 'pred' that is a text", e);
	if (!rf_jscan_is_string(&v[PRED]))
		return rf_fail(e, RF_EDATA, "'pred' is %s, not a text", rf_jscan_kind(&v[PRED]));
	if (!(a.pred = text_of(c, &v[PRED])))
		return no_memory(e);
	for (int i = 0; i < a.answers; i++)
		q.question = XXH64(a.answer[i], strlen(a.answer[i]) + 1, q.question);
	if ((rc = rf_metric_score(&c->s->how, &a, &c->region, &verdict, e)) != RF_OK)
		return rc;
	q.score = verdict.score;
	if ((rc = add_shown(c, &verdict, 1, shown, &q.more, e)) != RF_OK)
		return rc;
	if (!(g = find_group(c, &name)))
		return no_memory(e);
	q.id = g->n + g->unanswered;
	return rf_tally_add(g, q, e);
}

enum rf_code rf_scorer_lines(struct rf_scorer *c, const char *path, struct rf_err *e)
{
	struct rf_jvalue object;
	struct rf_lines *l;
	enum rf_code rc = rf_lines_open(&l, path, c->s->max_record, e);

	if (rc != RF_OK)
		return rc;
	rf_lines_advise(l);
	while (rc == RF_OK) {
		if ((rc = rf_lines_next_object(l, &object, e)) == RF_OK &&
		    (rc = score_line(c, &object, e)) != RF_OK)
			rf_lines_blame(l, e);
		rf_meter_read(c->s->meter, rf_lines_bytes(l));
		if (rc == RF_OK)
			rf_meter_done(c->s->meter, 0);
		else if (rc == RF_EDATA && rf_lines_goes_on(l))
			rc = rf_skip_line(c->s->skip, rc, e);
	}
	rf_lines_close(l);
	return rc == RF_EOF ? RF_OK : rc;
}

/* ---- reports ------------------------------------------------------------------------------- */

/* Returns an object such as {"task":"trec","length":4096}; first: JSON, or the word mean */
static json_t *name_object(const struct rf_scorer *c, const char *first, const char *rest)
{
	json_t *line = json_object(), *others = json_loads(rest, JSON_ALLOW_NUL, NULL);

	json_object_set_new(line, c->key[0], json_loads(first, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
	json_object_update(line, others);
	json_decref(others);
	return line;
}

static enum rf_code put_line(json_t *line, struct rf_buf *to, struct rf_err *e)
{
	rf_json_print(to, line);
	rf_print_text(to, "\n");
	json_decref(line);
	return to->failed ? no_memory(e) : RF_OK;
}

/* Sets a key to a number, or to null if x is not finite. */
static void set_number(json_t *line, const char *key, double x)
{
	json_object_set_new(line, key, isfinite(x) ? json_real(x) : json_null());
}

static void set_mean(json_t *line, const char *key, const struct rf_mean *m)
{
	set_number(line, key, 100 * m->mean);
	set_number(line, "se", 100 * m->se);
	set_number(line, "low", 100 * m->low);
	set_number(line, "high", 100 * m->high);
}

/* Sets the keys of a comparison; questions: the pairs are questions, and not means of tasks. */
static void set_pairs(json_t *line, double other, const struct rf_pairs *p, bool questions)
{
	json_t *a = json_object();

	set_number(a, "score", 100 * other);
	set_mean(a, "difference", &p->difference);
	if (questions) {
		json_object_set_new(a, "better", json_integer((json_int_t)p->better));
		json_object_set_new(a, "worse", json_integer((json_int_t)p->worse));
	}
	json_object_set_new(line, "against", a);
}

enum rf_code rf_scorer_each(const struct rf_scorer *c, struct rf_buf *to, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (size_t i = 0; i < c->tally.n; i++) {
		const struct rf_score_group *g = &c->tally.group[i];
		for (size_t k = 0; k < g->n && rc == RF_OK; k++) {
			json_t *line = name_object(c, g->first, g->rest);
			json_object_set_new(line, "id", json_integer((json_int_t)g->of[k].id));
			json_object_set_new(line, "score", json_real(g->of[k].score));
			if (g->of[k].more) {
				json_t *more_ = json_loads(g->of[k].more, JSON_ALLOW_NUL, NULL);
				json_object_update(line, more_);
				json_decref(more_);
			}
			rc = put_line(line, to, e);
		}
	}
	return rc;
}

enum rf_code rf_scorer_counts(const struct rf_scorer *c, struct rf_buf *to, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (size_t i = 0; i < c->tally.n && rc == RF_OK; i++) {
		json_t *line = name_object(c, c->tally.group[i].first, c->tally.group[i].rest);
		json_object_set_new(line, "n", json_integer((json_int_t)c->tally.group[i].n));
		rc = put_line(line, to, e);
	}
	return rc;
}

/* Sums over the lines of one set, for the line of their mean. */
struct means {
	struct rf_mean *score, *difference;
	size_t k, unanswered;
	double other;
};

static enum rf_code group_line(struct rf_scorer *c, struct rf_scorer *against, struct rf_score_group *g,
                               struct means *m, struct rf_buf *to, struct rf_err *e)
{
	json_t *line = name_object(c, g->first, g->rest);
	struct rf_score_group *o;
	struct rf_pairs pairs;
	enum rf_code rc;

	m->score[m->k] = rf_tally_mean(g);
	json_object_set_new(line, "n", json_integer((json_int_t)g->n));
	if (g->unanswered)
		json_object_set_new(line, "unanswered", json_integer((json_int_t)g->unanswered));
	set_mean(line, "score", &m->score[m->k]);
	json_object_set_new(line, "rules", json_string(c->s->how.rules ? "refine" : "official"));
	if (against) {
		if (!(o = rf_tally_group(&against->tally, g->first, g->rest)))
			rc = no_memory(e);
		else
			rc = rf_tally_pairs(g, o, &pairs, e);
		if (rc != RF_OK) {
			json_decref(line);
			return rc;
		}
		m->difference[m->k] = pairs.difference;
		m->other += m->score[m->k].mean - pairs.difference.mean;
		set_pairs(line, m->score[m->k].mean - pairs.difference.mean, &pairs, true);
	}
	m->unanswered += g->unanswered;
	m->k++;
	return put_line(line, to, e);
}

static enum rf_code mean_line(const struct rf_scorer *c, bool against, const char *rest,
                              const struct means *m, struct rf_buf *to, struct rf_err *e)
{
	struct rf_mean mean = rf_tally_mean_of(m->score, m->k);
	json_t *line = name_object(c, "\"mean\"", rest);

	json_object_set_new(line, "n", json_integer((json_int_t)mean.n));
	if (m->unanswered)
		json_object_set_new(line, "unanswered", json_integer((json_int_t)m->unanswered));
	set_mean(line, "score", &mean);
	json_object_set_new(line, "rules", json_string(c->s->how.rules ? "refine" : "official"));
	json_object_set_new(line, "of", json_integer((json_int_t)m->k));
	if (against) {
		struct rf_pairs pairs = { .difference = rf_tally_mean_of(m->difference, m->k) };
		set_pairs(line, m->other / (double)m->k, &pairs, false);
	}
	return put_line(line, to, e);
}

/* Writes the lines of the groups that share all keys but the first with the i-th and, if there are several,
 * the line of their mean.  Writes nothing if the i-th is not the first of them. */
static enum rf_code set_lines(struct rf_scorer *c, struct rf_scorer *against, size_t i, struct means *m,
                              struct rf_buf *to, struct rf_err *e)
{
	struct rf_tally *t = &c->tally;
	enum rf_code rc = RF_OK;

	for (size_t j = 0; j < i; j++)
		if (!strcmp(t->group[j].rest, t->group[i].rest))
			return RF_OK;
	m->k = m->unanswered = 0;
	m->other = 0;
	for (size_t j = i; j < t->n && rc == RF_OK; j++)
		if (!strcmp(t->group[j].rest, t->group[i].rest)) {
			if (!t->group[j].n)
				rc = rf_fail(e, RF_EDATA, "%s: none of its %zu questions has an answer",
				             t->group[j].first, t->group[j].unanswered);
			else
				rc = group_line(c, against, &t->group[j], m, to, e);
		}
	return rc == RF_OK && m->k > 1 ? mean_line(c, against != NULL, t->group[i].rest, m, to, e) : rc;
}

static enum rf_code has_partner(const struct rf_tally *t, const struct rf_score_group *g, struct rf_err *e)
{
	const bool alone = !strcmp(g->rest, "{}");

	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->group[i].first, g->first) && !strcmp(t->group[i].rest, g->rest))
			return RF_OK;
	return rf_fail(e, RF_EDATA,
	               "--against has questions of %s%s%s, and the input has none (compare runs with "
	               "the same tasks, lengths and questions)",
	               g->first, alone ? "" : " ", alone ? "" : g->rest);
}

enum rf_code rf_scorer_report(struct rf_scorer *c, struct rf_scorer *against, struct rf_buf *to,
                              struct rf_err *e)
{
	struct means m = { calloc(c->tally.n + 1, sizeof *m.score),
		           calloc(c->tally.n + 1, sizeof *m.difference), 0, 0, 0 };
	size_t n = c->tally.n;
	enum rf_code rc = m.score && m.difference ? RF_OK : no_memory(e);

	for (size_t i = 0; rc == RF_OK && against && i < against->tally.n; i++)
		rc = has_partner(&c->tally, &against->tally.group[i], e);
	for (size_t i = 0; i < n && rc == RF_OK; i++)
		rc = set_lines(c, against, i, &m, to, e);
	free(m.score);
	free(m.difference);
	return rc;
}
