/* needle.c -- the table of tasks, the settings, and a sample as a line of JSON. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/print.h"
#include "needle/needle.h"
#include "needle/task.h"
#include "tokenizer/tokenizer.h"

enum { SHORTEST = 512, LONGEST = 16 << 20, LENGTHS = 64, TRIES = 64 };

#define NIAH .draw = rf_niah_draw, .render = rf_niah_render, .max_new = 128

const struct rf_task rf_tasks[] = {
	{ "niah_single_1", 1, NIAH, .haystack = RF_NOISES, .keys = 1, .values = 1, .queries = 1 },
	{ "niah_single_2", 2, NIAH, .haystack = RF_ESSAY, .keys = 1, .values = 1, .queries = 1 },
	{ "niah_single_3", 3, NIAH, .haystack = RF_ESSAY, .uuid_values = true, .keys = 1, .values = 1,
	  .queries = 1 },
	{ "niah_multikey_1", 4, NIAH, .haystack = RF_ESSAY, .keys = 4, .values = 1, .queries = 1 },
	{ "niah_multikey_2", 5, NIAH, .haystack = RF_NEEDLES, .keys = 1, .values = 1, .queries = 1 },
	{ "niah_multikey_3", 6, NIAH, .haystack = RF_NEEDLES, .uuid_keys = true, .uuid_values = true,
	  .keys = 1, .values = 1, .queries = 1 },
	{ "niah_multivalue", 7, NIAH, .haystack = RF_ESSAY, .keys = 1, .values = 4, .queries = 1 },
	{ "niah_multiquery", 8, NIAH, .haystack = RF_ESSAY, .keys = 4, .values = 1, .queries = 4 },
	{ "vt", 9, 30, .haystack = RF_NOISES, .draw = rf_vt_draw, .render = rf_vt_render },
	{ "cwe", 10, 120, .draw = rf_cwe_draw, .render = rf_cwe_render, .shrink = rf_cwe_shrink },
	{ "fwe", 11, 50, .draw = rf_fwe_draw, .render = rf_fwe_render },
	{ "qa_1", 12, 32, .questions = 1, .draw = rf_qa_draw, .render = rf_qa_render },
	{ "qa_2", 13, 32, .questions = 2, .draw = rf_qa_draw, .render = rf_qa_render },
	OPT_END,
};

enum { TASKS = sizeof rf_tasks / sizeof *rf_tasks - 1 };

struct rf_needle {
	struct rf_material of;
	struct rf_tokenizer *tokenizer;
	const struct rf_task *task[TASKS];
	int tasks, length[LENGTHS], lengths;
	uint64_t from, to;      /* the range of samples to write */
	int at_task, at_length; /* task and length of the next sample */
	uint64_t at;
	bool skip_short;    /* leave out a task at a length at which a sample does not fit */
	bool looked;        /* the samples of the current task and length are known to fit */
	uint64_t all;       /* number of samples for each task and length */
	struct rf_buf left; /* the tasks left out, as text with a NUL at its end; or empty */
};

void rf_needle_options(struct rf_needle_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_TEXT("task", &s->tasks, "name,...", "tasks, or all", .noted = RF_OPT_RESULT),
		OPT_TEXT("length", &s->lengths, "tokens,...",
		         "lengths of prompt and answer together; suffixes k, M", .noted = RF_OPT_RESULT),
		OPT_INT("samples", &s->n, 1, INT_MAX, "n", "samples of each task and length", .letter = 'n',
		        .noted = RF_OPT_RESULT),
		OPT_TEXT("range", &s->range, "I:J", "only samples I to J-1, counted from 0",
		         .noted = RF_OPT_RESULT),
		OPT_INT("digits", &s->digits, 3, 9, "n", "digits of the numbers that are values",
		        .noted = RF_OPT_RESULT),
		OPT_U64("seed", &s->seed, "n", "random seed", .noted = RF_OPT_RESULT),
		OPT_TEXT("tokenizer", &s->tokenizer, "bytes|dir|file",
		         "tokenizer of a checkpoint or run, or a tokenizer file", .noted = RF_OPT_RESULT),
		OPT_TEXT("haystack", &s->haystack, "file", "text for the tasks with an essay: text or jsonl",
		         .noted = RF_OPT_RESULT),
		OPT_LIST("qa", &s->qa, "file", "questions of task qa_1; give a second file for qa_2",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("adjectives", &s->adjectives, "file", "words of keys, one per line",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("nouns", &s->nouns, "file", "words of keys, one per line", .noted = RF_OPT_RESULT),
		OPT_TEXT("template", &s->templates, "file", "JSON file with other wordings of the prompts",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("skip-short", &s->skip_short,
		         "leave out a task at lengths that are too short for it, and report it",
		         .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

/* ---- settings ------------------------------------------------------------------------------------- */

/* Returns the next part of a list separated by commas; NULL: the list has ended. */
static const char *next_part(const char **list, size_t *n)
{
	const char *s = *list;

	if (!s)
		return NULL;
	*n = strcspn(s, ",");
	*list = s[*n] ? s + *n + 1 : NULL;
	return s;
}

static enum rf_code read_tasks(struct rf_needle *n, const char *list, struct rf_err *e)
{
	const char *s;
	char q[60];
	size_t len;
	int i;

	if (!list)
		return rf_fail(e, RF_EUSAGE, "--task is missing (try --help)");
	if (!strcmp(list, "all")) {
		for (; n->tasks < TASKS; n->tasks++)
			n->task[n->tasks] = &rf_tasks[n->tasks];
		return RF_OK;
	}
	while ((s = next_part(&list, &len))) {
		for (i = 0; i < TASKS; i++)
			if (strlen(rf_tasks[i].name) == len && !memcmp(rf_tasks[i].name, s, len))
				break;
		rf_quote(q, sizeof q, s, len);
		if (i == TASKS)
			return rf_fail(e, RF_EUSAGE,
			               "--task: '%s' is no task (niah_single_1 to 3, niah_multikey_1 "
			               "to 3, niah_multivalue, niah_multiquery, vt, cwe, fwe, qa_1, qa_2, or "
			               "all)",
			               q);
		for (int j = 0; j < n->tasks; j++)
			if (n->task[j] == &rf_tasks[i])
				return rf_fail(e, RF_EUSAGE, "--task: '%s' is named twice", q);
		n->task[n->tasks++] = &rf_tasks[i];
	}
	return RF_OK;
}

static enum rf_code read_lengths(struct rf_needle *n, const char *list, struct rf_err *e)
{
	const char *s;
	uint64_t v;
	char q[60];
	size_t len;

	while ((s = next_part(&list, &len))) {
		int shift = len && s[len - 1] == 'k' ? 10 : len && s[len - 1] == 'M' ? 20 : 0;

		rf_quote(q, sizeof q, s, len);
		len -= shift > 0;
		if (!len || !rf_number(s, len, &v) || v > (uint64_t)LONGEST >> shift ||
		    v << shift < (uint64_t)SHORTEST)
			return rf_fail(e, RF_EUSAGE, "--length: '%s' is not a whole number from %d to %d", q,
			               SHORTEST, LONGEST);
		for (int j = 0; j < n->lengths; j++)
			if (n->length[j] == (int)(v << shift))
				return rf_fail(e, RF_EUSAGE, "--length: %s is named twice", q);
		if (n->lengths == LENGTHS)
			return rf_fail(e, RF_EUSAGE, "--length: more than %d lengths", LENGTHS);
		n->length[n->lengths++] = (int)(v << shift);
	}
	return RF_OK;
}

static enum rf_code read_range(struct rf_needle *n, const struct rf_needle_settings *o, struct rf_err *e)
{
	const char *s = o->range, *colon;

	n->to = (uint64_t)o->n;
	if (!s)
		return RF_OK;
	colon = strchr(s, ':');
	if (!colon || !rf_number(s, (size_t)(colon - s), &n->from) ||
	    (colon[1] && !rf_number(colon + 1, strlen(colon + 1), &n->to)) || n->from > n->to ||
	    n->to > (uint64_t)o->n)
		return rf_fail(e, RF_EUSAGE, "--range: '%s' is not I:J, I: or :J with I <= J <= %d (-n)", s,
		               o->n);
	return RF_OK;
}

static enum rf_code check_needs(const struct rf_needle *n, const struct rf_needle_settings *o,
                                struct rf_err *e)
{
	for (int i = 0; i < n->tasks; i++) {
		if (n->task[i]->haystack == RF_ESSAY && !o->haystack)
			return rf_fail(e, RF_EUSAGE, "%s needs a text: --haystack", n->task[i]->name);
		if (n->task[i]->questions && !o->qa.n)
			return rf_fail(e, RF_EUSAGE, "%s needs questions: --qa", n->task[i]->name);
	}
	if (o->qa.n > 2)
		return rf_fail(e, RF_EUSAGE, "--qa is given more than twice");
	if (!o->tokenizer)
		return rf_fail(e, RF_EUSAGE, "--tokenizer is missing (try --help)");
	return RF_OK;
}

static enum rf_code read_material(struct rf_needle *n, const struct rf_needle_settings *o, struct rf_err *e)
{
	struct rf_material *m = &n->of;
	const struct rf_template *noise = &m->wording.t[RF_NOISE];
	enum rf_code rc;

	m->seed = o->seed;
	m->digits = o->digits;
	m->bytes = !strcmp(o->tokenizer, "bytes");
	if ((rc = m->bytes ? rf_tokenizer_bytes(&n->tokenizer, e)
	                   : rf_tokenizer_open(&n->tokenizer, o->tokenizer, e)) != RF_OK)
		return rc;
	m->tokenizer = n->tokenizer;
	m->bytes = !strcmp(rf_tokenizer_kind(m->tokenizer), "bytes");
	if ((rc = rf_templates_open(&m->wording, o->templates, e)) != RF_OK ||
	    (rc = rf_vocabulary_open(&m->words, o->adjectives, o->nouns, e)) != RF_OK)
		return rc;
	m->noise.joint = '\n';
	rf_units_add(&m->noise, noise->text, noise->piece[0].n);
	if (m->noise.failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (o->haystack && (rc = rf_units_read(&m->essay, o->haystack, o->skip, e)) != RF_OK)
		return rc;
	for (; rc == RF_OK && m->files < o->qa.n; m->files++)
		rc = rf_questions_open(&m->questions[m->files], o->qa.s[m->files], o->skip, e);
	return rc;
}

enum rf_code rf_needle_open(struct rf_needle **to, const struct rf_needle_settings *o, struct rf_err *e)
{
	struct rf_needle *n = calloc(1, sizeof *n);
	enum rf_code rc;

	*to = NULL;
	if (!n)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = read_tasks(n, o->tasks, e)) == RF_OK && (rc = read_lengths(n, o->lengths, e)) == RF_OK &&
	    (rc = read_range(n, o, e)) == RF_OK && (rc = check_needs(n, o, e)) == RF_OK)
		rc = read_material(n, o, e);
	n->at = n->from;
	n->skip_short = o->skip_short;
	n->all = (uint64_t)o->n;
	if (rc == RF_OK)
		*to = n;
	else
		rf_needle_close(n);
	return rc;
}

void rf_needle_close(struct rf_needle *n)
{
	if (!n)
		return;
	rf_vocabulary_free(&n->of.words);
	rf_templates_free(&n->of.wording);
	rf_units_free(&n->of.noise);
	rf_units_free(&n->of.essay);
	for (int i = 0; i < 2; i++)
		rf_questions_free(&n->of.questions[i]);
	free(n->of.ids.p);
	rf_buf_free(&n->left);
	rf_tokenizer_free(n->tokenizer);
	free(n);
}

/* ---- lines ---------------------------------------------------------------------------------------- */

static void text_of(struct rf_buf *b, const char *key, const void *s, size_t n)
{
	rf_print(b, ",\"%s\":", key);
	rf_print_string(b, s, n);
}

static size_t characters(const unsigned char *s, size_t n)
{
	size_t c = 0;

	for (size_t i = 0; i < n; i++)
		c += (s[i] & 0xc0) != 0x80;
	return c;
}

/* Writes the depth of each needle: the characters of the context before it, as a share of all other
 * characters. */
static void places_of(struct rf_buf *b, const struct rf_prompt *s)
{
	const unsigned char *context = s->context.p;
	size_t all = characters(context, s->context.n), to_context = characters(s->prompt.p, s->context_at);

	rf_print(b, ",\"context\":[%zu,%zu],\"needles\":[", to_context, to_context + all);
	for (size_t i = 0; i < s->places; i++) {
		size_t before = characters(context, s->place[i].at);
		size_t own = characters(context + s->place[i].at, s->place[i].n);

		rf_print(b, "%s[%zu,%zu]", i ? "," : "", to_context + before, to_context + before + own);
	}
	rf_print_text(b, "],\"depth\":[");
	for (size_t i = 0; i < s->places; i++) {
		size_t before = characters(context, s->place[i].at);
		size_t own = characters(context + s->place[i].at, s->place[i].n);

		rf_print(b, "%s%.6f", i ? "," : "", all > own ? (double)before / (double)(all - own) : 0.0);
	}
	rf_print_text(b, "],\"drawn\":[");
	for (size_t i = 0; i < s->places; i++)
		rf_print(b, "%s%.6f", i ? "," : "", s->place[i].drawn);
	rf_print_text(b, "]");
}

static void write_line(struct rf_buf *b, const struct rf_prompt *s)
{
	b->n = 0;
	rf_print(b, "{\"index\":%llu", (unsigned long long)s->number);
	text_of(b, "task", s->task->name, strlen(s->task->name));
	rf_print(b, ",\"length\":%d,\"tokens\":%zu,\"max_new_tokens\":%d,\"units\":%zu", s->length, s->tokens,
	         s->task->max_new, s->units);
	places_of(b, s);
	text_of(b, "query", s->query, strlen(s->query));
	rf_print_text(b, ",\"outputs\":[");
	for (size_t i = 0; i < s->answers; i++) {
		rf_print_text(b, i ? "," : "");
		rf_print_string(b, s->answer[i], strlen(s->answer[i]));
	}
	rf_print_text(b, "]");
	text_of(b, "input", s->prompt.p, s->input);
	text_of(b, "answer_prefix", s->prompt.p + s->input, s->prompt.n - s->input);
	rf_print_text(b, "}\n");
}

/* Fails with the least length at which all samples fit.  A longer prompt may come with longer examples, so
 * the length is raised step by step. */
static enum rf_code too_short(struct rf_needle *n, const struct rf_task *task, int length, struct rf_err *e)
{
	size_t least = (size_t)length, tokens;
	enum rf_code rc;
	bool fits = false;

	for (int i = 0; i < TRIES && !fits && least <= LONGEST; i++) {
		size_t at = least;

		fits = true;
		for (uint64_t k = n->from; k < n->to; k++) {
			if ((rc = rf_prompt_least(&n->of, task, k, (int)at, &tokens, e)) != RF_OK)
				return rc;
			fits = fits && tokens <= at;
			least = tokens > least ? tokens : least;
		}
	}
	return rf_fail(e, RF_EDATA, "%s does not fit the length %d: the least length is %zu", task->name,
	               length, least);
}

/* Moves on to the next length, or to the first one of the next task. */
static void next_pair(struct rf_needle *n)
{
	n->at = n->from;
	n->looked = false;
	if (++n->at_length == n->lengths) {
		n->at_length = 0;
		n->at_task++;
	}
}

/* Computes the least length of all samples at the current length, including samples outside the range, so
 * that all ranges give the same result. */
static enum rf_code least_length(struct rf_needle *n, size_t *least, struct rf_err *e)
{
	size_t tokens;
	enum rf_code rc = RF_OK;

	*least = 0;
	for (uint64_t k = 0; k < n->all && rc == RF_OK; k++) {
		rc = rf_prompt_least(&n->of, n->task[n->at_task], k, n->length[n->at_length], &tokens, e);
		if (rc == RF_OK && tokens > *least)
			*least = tokens;
	}
	return rc;
}

/* Moves on to a task and length at which all samples fit, and lists the tasks and lengths that are left
 * out. */
static enum rf_code skip_short(struct rf_needle *n, struct rf_err *e)
{
	size_t least;
	enum rf_code rc;

	while (!n->looked && n->at_task < n->tasks) {
		if ((rc = least_length(n, &least, e)) != RF_OK)
			return rc;
		if (least <= (size_t)n->length[n->at_length]) {
			n->looked = true;
			break;
		}
		if (n->left.n)
			n->left.n--; /* the NUL */
		rf_print(&n->left, "%s%s at length %d (it needs %zu)", n->left.n ? ", " : "",
		         n->task[n->at_task]->name, n->length[n->at_length], least);
		rf_buf_add(&n->left, "", 1);
		next_pair(n);
	}
	return n->left.failed ? rf_fail(e, RF_ENOMEM, "out of memory") : RF_OK;
}

const char *rf_needle_left(const struct rf_needle *n) { return n->left.n ? (const char *)n->left.p : ""; }

const char *rf_needle_warning(const struct rf_needle *n) { return rf_tokenizer_warning(n->tokenizer); }

enum rf_code rf_needle_next(struct rf_needle *n, struct rf_buf *line, int *tokens, struct rf_err *e)
{
	const struct rf_task *task;
	struct rf_prompt s;
	enum rf_code rc;
	int length;

	if (n->at == n->to)
		next_pair(n);
	if (n->skip_short && n->from != n->to && (rc = skip_short(n, e)) != RF_OK)
		return rc;
	if (n->at_task == n->tasks || n->from == n->to)
		return RF_EOF;
	task = n->task[n->at_task];
	length = n->length[n->at_length];
	rc = rf_prompt_make(&s, &n->of, task, n->at, length, e);
	if (rc == RF_EOF)
		rc = too_short(n, task, length, e);
	if (rc == RF_OK) {
		write_line(line, &s);
		if (line->failed)
			rc = rf_fail(e, RF_ENOMEM, "out of memory");
	}
	*tokens = (int)s.tokens;
	rf_prompt_free(&s);
	n->at++;
	return rc;
}
