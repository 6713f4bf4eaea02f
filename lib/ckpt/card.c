/* card.c -- writes README.md of an exported step, the page that Hugging Face shows for a model.  The page has
 * no times and no names of hosts, so equal runs give equal exports. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/print.h"
#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "io/file.h"
#include "io/json.h"
#include "io/lines.h"

enum { MOST_LINE = 16 << 20 };

static const char *text_at(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* Removes from a text the folders of absolute paths, which mean nothing elsewhere: /home/me/a.py becomes
 * a.py.  A path begins at the start of a word, also in quotes; "$RUN"/a.py is one word and stays. */
static void shorten_paths(char *s)
{
	char *to = s, before = 0;
	bool begins = true; /* the next character may begin a path */

	for (size_t n; *s; s += n) {
		n = 1;
		if (*s == '/' && begins) {
			n = strcspn(s, " \t\n\"'=,;|()<>");
			while (n > 1 && s[n - 1] == '/')
				n--;
			while (memchr(s, '/', n) && n > 1) {
				s++;
				n--;
			}
			begins = false;
		} else if (*s == '\\' && s[1]) {
			begins = begins && strchr("\"'", s[1]);
			n = 2;
		} else if (*s == '"' || *s == '\'') {
			/* a quote is not a part of its word; JSON has quotes after these characters */
			begins = begins || (before && strchr("[{:", before));
		} else {
			begins = strchr(" \t\n=,;|(<>", *s);
		}
		memmove(to, s, n);
		before = s[n - 1];
		to += n;
	}
	*to = 0;
}

/* Returns what follows the expansion ${NAME:+TEXT} or ${NAME:-TEXT} at s; its TEXT is [*from, *to).  NULL: s
 * does not begin like one. */
static char *find_expansion(char *s, char **from, char **to)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	int depth = 1;

	if (strncmp(s, "${", 2))
		return NULL;
	*from = s + 2 + strspn(s + 2, letters);
	if (**from != ':' || ((*from)[1] != '+' && (*from)[1] != '-'))
		return NULL;
	*from += 2;
	for (*to = *from; depth && **to; ++*to)
		depth += **to == '}' ? -1 : !strncmp(*to, "${", 2);
	if (depth)
		return NULL;
	--*to;
	return *to + 1;
}

/* Makes the line of a batch readable: leaves out ${NAME:+TEXT}, which the pipelines have for words that are
 * rarely given; ${NAME:-TEXT} becomes TEXT, and several blanks become one. */
static void simplify_line(char *s)
{
	char *const line = s, *to = s, *from, *end, *next, quote = 0;

	while (*s) {
		if (quote != '\'' && (next = find_expansion(s, &from, &end))) {
			if (from[-1] == '-') {
				memmove(to, from, (size_t)(end - from));
				to += end - from;
			}
			s = next;
		} else if (!quote && strchr(" \t\n", *s)) {
			s += strspn(s, " \t\n");
			*to++ = ' ';
		} else {
			if (*s == '\'' || *s == '"')
				quote = !quote ? *s : quote == *s ? 0 : quote;
			*to++ = *s++;
		}
		if (!quote && (to == line || to[-1] == ' '))
			s += strspn(s, " \t\n");
	}
	to -= to > line && to[-1] == ' ';
	*to = 0;
}

/* Adds a value, which is not empty, between backquotes, in one line. */
static void add_code(struct rf_buf *p, const char *s)
{
	const char *fence = strchr(s, '`') ? "``" : "`";

	rf_print(p, "%s%s", fence, *s == '`' ? " " : "");
	for (; *s; s++)
		rf_print(p, "%c", (unsigned char)*s < ' ' ? ' ' : *s);
	rf_print(p, "%s%s", s[-1] == '`' ? " " : "", fence);
}

/* Returns whether s is the name of a model on Hugging Face: two parts of letters, digits, '-', '_' and
 * '.'. */
static bool is_repository(const char *s, size_t n)
{
	static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
	const size_t first = strspn(s, may), second = first < n ? strspn(s + first + 1, may) : 0;

	return first && *s != '.' && s[first] == '/' && second && first + 1 + second == n;
}

/* Writes into id the model of a path through a folder of Hugging Face's cache (models--OWNER--NAME).  Returns
 * false for any other path. */
static bool of_cache(const char *path, char id[300])
{
	static const char prefix[] = "models--";

	for (const char *part = path, *end; *part; part = end + (*end == '/')) {
		const char *owner = part + sizeof prefix - 1, *name;

		end = part + strcspn(part, "/");
		if (strncmp(part, prefix, sizeof prefix - 1) || !(name = strstr(owner, "--")) || name >= end)
			continue;
		if (snprintf(id, 300, "%.*s/%.*s", (int)(name - owner), owner, (int)(end - name - 2),
		             name + 2) < 300 &&
		    is_repository(id, strlen(id)))
			return true;
	}
	return false;
}

/* Adds the model that the run began with, if its config or a folder of Hugging Face's cache names it.  A path
 * that exists here does not name a repository. */
static void add_base(struct rf_buf *p, const struct rf_ckpt *c, const json_t *newest)
{
	json_t *config = json_loads(c->cfg.text, 0, NULL);
	const char *name = text_at(config, "_name_or_path");
	char id[300];

	if (of_cache(name, id))
		rf_print(p, "base_model: %s\n", id);
	else if (is_repository(name, strlen(name)) && access(name, F_OK))
		rf_print(p, "base_model: %s\n", name);
	else if (of_cache(text_at(json_object_get(newest, "begun"), "from"), id))
		rf_print(p, "base_model: %s\n", id);
	json_decref(config);
}

/* Returns the next line of *text without its end, \n or \r\n, and moves *text after that end. */
static const char *next_line(const char **text, size_t *n)
{
	const char *const line = *text;

	*n = strcspn(line, "\n");
	*text = line + *n + (line[*n] == '\n');
	*n -= *n && line[*n - 1] == '\r';
	return line;
}

static bool is_dashes(const char *line, size_t n) { return n == 3 && !memcmp(line, "---", 3); }

/* Copies licence and language from the card that the run began with: the lines between its two lines of
 * dashes that begin with these words, and the lines that continue them.  Copies nothing if a line of dashes
 * is missing. */
static void add_licence(struct rf_buf *p, const char *dir)
{
	struct rf_buf lines = { 0 };
	bool taken = false, closed = false;
	char path[4096], *text = NULL;
	const char *rest, *line;
	size_t n;

	if (rf_file_join(path, dir, "README.md", NULL) != RF_OK ||
	    rf_file_read(path, RF_MOST_CARD, &text, &n, NULL) != RF_OK)
		return;
	rest = text;
	line = next_line(&rest, &n);
	for (bool begun = is_dashes(line, n); begun && *rest && !closed;) {
		line = next_line(&rest, &n);
		closed = is_dashes(line, n);
		if (!n || !strchr(" -", *line))
			taken = !strncmp(line, "license", 7) || !strncmp(line, "language", 8);
		if (taken && !closed) {
			rf_buf_add(&lines, line, n);
			rf_print_text(&lines, "\n");
		}
	}
	if (closed)
		rf_buf_add(p, lines.p, lines.n);
	p->failed |= lines.failed;
	rf_buf_free(&lines);
	free(text);
}

static void add_cell(struct rf_buf *p, const char *value)
{
	char *text = strdup(value);

	if (text)
		shorten_paths(text);
	p->failed |= !text;
	rf_print_text(p, "| ");
	for (const char *s = text ? text : ""; *s; s++)
		rf_print(p, *s == '|' || *s == '\\' ? "\\%c" : (unsigned char)*s < ' ' ? " " : "%c", *s);
	rf_print_text(p, " ");
	free(text);
}

static void add_row(struct rf_buf *p, const char *key, const char *value)
{
	add_cell(p, key);
	add_cell(p, value);
	rf_print_text(p, "|\n");
}

/* Adds the values of an object as rows of a table, except for one key. */
static void add_table(struct rf_buf *p, const char *title, const json_t *o, const char *without)
{
	bool any = false;
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)o, key, v) {
		struct rf_buf text = { 0 };

		if (!strcmp(key, without) || json_is_object(v) || json_is_null(v))
			continue;
		if (json_is_string(v))
			rf_print_text(&text, json_string_value(v));
		else
			rf_json_print(&text, v);
		rf_buf_add(&text, "", 1);
		if (!any)
			rf_print(p, "\n## %s\n\n| | |\n|---|---|\n", title);
		any = true;
		add_row(p, key, text.failed ? "" : (const char *)text.p);
		p->failed |= text.failed;
		rf_buf_free(&text);
	}
}

/* Returns the figures of a log that are not about time, from the last line with this step; NULL: there is no
 * such line. */
static json_t *figures_of(const char *run, const char *file, json_int_t step)
{
	json_t *figures = NULL, *one, *v;
	struct rf_lines *lines;
	char path[4096], *line;
	const char *key;
	void *next;
	size_t n;

	if (rf_file_join(path, run, file, NULL) != RF_OK || rf_file_check(path, UINT64_MAX, NULL) != RF_OK ||
	    rf_lines_open(&lines, path, MOST_LINE, NULL) != RF_OK)
		return NULL;
	/* a line that a crash cut is not JSON */
	while (rf_lines_next(lines, &line, &n, NULL) == RF_OK) {
		if (rf_json_parse(&one, line, n, 8, NULL) != RF_OK)
			continue;
		v = json_object_get(one, "step");
		if (json_is_integer(v) && json_integer_value(v) == step) {
			json_decref(figures);
			figures = json_incref(one);
		}
		json_decref(one);
	}
	rf_lines_close(lines);
	json_object_foreach_safe (figures, next, key, v)
		if (!json_is_number(v) || !strncmp(key, "timing_s/", 9) || !strncmp(key, "perf/", 5) ||
		    !strcmp(key, "world"))
			json_object_del(figures, key);
	return figures;
}

static void add_figures(struct rf_buf *p, const struct rf_ckpt *c, const char *run)
{
	/* the log counts steps from 0 */
	json_t *last = figures_of(run, "log.jsonl", c->step - 1);
	json_t *held_out = figures_of(run, "eval.jsonl", c->step);

	add_table(p, "Last step", last, "step");
	add_table(p, "Held-out text", held_out, "step");
	json_decref(last);
	json_decref(held_out);
}

static void add_hashes(struct rf_buf *p, const struct rf_ckpt *c, const json_t *newest)
{
	const json_t *start = json_object_get(newest, "start"), *begun = json_object_get(newest, "begun");
	json_t *script;
	size_t i;

	rf_print_text(p, "\n## Hashes\n\n| | |\n|---|---|\n");
	add_row(p, "weights at the start", text_at(start, "weights"));
	add_row(p, "weights", c->weights);
	add_row(p, "architecture", c->arch);
	if (*c->tokenizer)
		add_row(p, "tokenizer", c->tokenizer);
	if (*text_at(begun, "hash"))
		add_row(p, "data", text_at(begun, "hash"));
	if (*text_at(begun, "words"))
		add_row(p, "files", text_at(begun, "words"));
	json_array_foreach (json_object_get(newest, "scripts"), i, script)
		add_row(p, text_at(script, "file"), text_at(script, "xxh64"));
}

static void add_device(struct rf_buf *p, const json_t *newest)
{
	const json_t *device = json_object_get(newest, "device");

	if (!device)
		return;
	rf_print_text(p, "\n## Computed on\n\n| | |\n|---|---|\n");
	add_row(p, "device", *text_at(device, "model") ? text_at(device, "model") : text_at(device, "name"));
	if (*text_at(device, "isa"))
		add_row(p, "instructions", text_at(device, "isa"));
	add_row(p, "matrix products", text_at(device, "dtype"));
}

/* Returns the Python library that knows the model's type: transformers for Qwen, and for any type whose
 * config names code of its own; fla for the types of flash-linear-attention; "": none. */
static const char *library_of(const struct rf_ckpt *c)
{
	json_t *config = json_loads(c->cfg.text, 0, NULL);
	const bool own = json_is_object(json_object_get(config, "auto_map"));

	json_decref(config);
	if (own || !strncmp(c->cfg.model_type, "qwen", 4))
		return "transformers";
	if (!strcmp(c->cfg.model_type, "delta_net") || !strcmp(c->cfg.model_type, "gated_deltanet"))
		return "fla";
	return "";
}

static void write_card(struct rf_buf *p, const struct rf_ckpt *c, const char *run, const json_t *newest)
{
	const json_t *program = json_object_get(newest, "program");
	const char *library = library_of(c);
	char *line = strdup(text_at(json_object_get(newest, "begun"), "line"));

	p->failed |= !line;
	rf_print_text(p, "---\n");
	if (*library)
		rf_print(p, "library_name: %s\n", library);
	rf_print_text(p, "pipeline_tag: text-generation\n");
	add_base(p, c, newest);
	add_licence(p, c->dir);
	rf_print(p, "tags:\n- rf-tools\n- %s\n", c->cfg.model_type);
	if (!strcmp(text_at(program, "name"), "rf-grpo"))
		rf_print_text(p, "- refine\n- arxiv:2602.16704\n");
	rf_print(p, "---\n\n# A %s model, step %lld\n\n", c->cfg.model_type, (long long)c->step);
	rf_print(p, "Trained with rf-tools %s (%s)", text_at(program, "version"), text_at(program, "commit"));
	rf_print(p, ", %lld commit%s after its start.", (long long)c->commits, c->commits == 1 ? "" : "s");
	if (!strcmp(library, "fla"))
		rf_print_text(p, " In Python, `import fla` (flash-linear-attention) lets transformers load "
		                 "it.");
	if (line)
		simplify_line(line);
	if (line && *line) {
		shorten_paths(line);
		rf_print_text(p, " Each batch was trained on by\n\n");
		add_code(p, line);
	}
	free(line);
	rf_print_text(p, "\n");
	add_table(p, "Words", json_object_get(newest, "words"), "RUN");
	add_table(p, "Options of the trainer", json_object_get(program, "options"), "");
	add_hashes(p, c, newest);
	add_device(p, newest);
	add_table(p, "Libraries", json_object_get(newest, "libraries"), "");
	add_figures(p, c, run);
}

enum rf_code rf_card(const struct rf_ckpt *c, char **text, struct rf_err *e)
{
	json_t *lines = NULL, *newest = NULL;
	struct rf_buf p = { 0 };
	char run[4096];
	enum rf_code rc;

	*text = NULL;
	if (!c->in_run)
		return RF_OK;
	/* not by the step's folder where its name says the run: a trainer may have removed the step
	   meanwhile */
	snprintf(run, sizeof run, "%.*s", rf_run_of_step(c->dir), c->dir);
	if ((!*run && (rc = rf_file_join(run, c->dir, "..", e)) != RF_OK) ||
	    (rc = rf_manifest_read(run, &lines, e)) != RF_OK)
		return rc;
	/* the card of an older step leaves out later lines */
	for (size_t i = json_array_size(lines); i-- > 1;)
		if (json_integer_value(json_object_get(json_array_get(lines, i), "step")) > c->step)
			json_array_remove(lines, i);
	if (json_array_size(lines)) {
		newest = rf_manifest_newest(lines);
		if (newest)
			write_card(&p, c, run, newest);
		rf_buf_add(&p, "", 1);
		if (!newest || p.failed) {
			rf_buf_free(&p);
			rc = rf_fail(e, RF_ENOMEM, "out of memory (README.md)");
		}
		*text = (char *)p.p;
	}
	json_decref(newest);
	json_decref(lines);
	return rc;
}
