/* ask.c -- a queue of records that wait for a command's answers.
 *
 * A command may answer a line immediately, some lines later, or at the end of its input.  So after each
 * record that is sent, the queue waits for an answer or for the next record, whichever comes first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "base/utf8.h"
#include "proc/exec.h"
#include "refine/ask.h"
#include "refine/ask_text.h"
#include "stream/msg.h"

struct waiting {
	struct waiting *next;
	struct rf_record r;
	uint64_t bytes;
};

struct rf_ask {
	struct rf_ask_settings s;
	const struct rf_ask_kind *kind;
	const void *of;
	struct rf_exec *x;
	struct rf_tokenizer *tokenizer; /* the tokenizer of the stream; NULL: not opened */
	rf_ask_pass *pass;              /* the function that is called for each answered record */
	void *arg;
	struct waiting *first, **last;
	uint64_t bytes; /* of the records in the queue */
	bool heard;     /* whether the command has given a correct answer */
};

void rf_ask_options(struct rf_ask_settings *s, const char *exec, const char *text, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_TEXT("exec", &s->command, "command", exec),
		OPT_FLAG("text", &s->text, text),
		OPT_TEXT("model", &s->model, "dir", "run or checkpoint whose tokenizer to use for --text",
		         .letter = 'm'),
		OPT_TEXT("tokenizer", &s->tokenizer, "file|bytes",
		         "tokenizer file or directory for --text; bytes: the byte tokenizer"),
		OPT_FLAG("no-hidden", &s->no_hidden,
		         "send records to the command without hidden states and logits"),
		OPT_REAL("timeout", &s->timeout, 0, 1e9, "s",
		         "seconds to wait while the command is idle; 0: no limit"),
		OPT_SIZE("queue-limit", &s->queue_limit, "size",
		         "most bytes of records to hold until the command answers them"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

bool rf_ask_is_name(const char *name, size_t n)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	return n && n < RF_ASK_NAME && strspn(name, letters) >= n;
}

/* Returns the length of the suffix that marks n bytes as the name of a script; 0: no such suffix. */
static size_t script_suffix(const char *s, size_t n)
{
	static const char *const suffix[] = {
		".py", ".sh", ".bash", ".pl", ".rb", ".lua", ".js", ".jl", ".R"
	};

	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
		const size_t m = strlen(suffix[i]);

		if (n > m && !memcmp(s + n - m, suffix[i], m))
			return m;
	}
	return 0;
}

char *rf_ask_name(const char *command, char name[RF_ASK_NAME])
{
	static const char between[] = " \t\n'\"|;&()<>=/";
	size_t n, m;

	strcpy(name, "exec");
	for (const char *s = command; *(s += strspn(s, between)); s += n) {
		n = strcspn(s, between);
		if (s[n] == '/' || !(m = script_suffix(s, n)))
			continue;
		if (rf_ask_is_name(s, n - m)) {
			memcpy(name, s, n - m);
			name[n - m] = 0;
		}
		break;
	}
	return name;
}

/* Adds a hint about the head, unless the command has given a correct answer.  A program that takes the head
 * for a record dies, answers without an id, or prints a line that is not JSON. */
static void add_hint(const struct rf_ask *a, struct rf_err *e)
{
	static const char text[] = " (the command's first line is the stream's head, which needs no answer)";
	size_t n = strlen(e->msg);

	if (!a->heard && n + sizeof text <= sizeof e->msg)
		memcpy(e->msg + n, text, sizeof text);
}

/* Puts the command in front of a message about it. */
static enum rf_code blame_command(const struct rf_ask *a, struct rf_err *e)
{
	char name[80];

	return rf_blame(e, "--exec '%s'", rf_quote(name, sizeof name, a->s.command, strlen(a->s.command)));
}

static enum rf_code collect_answers(struct rf_ask *a, int other, uint64_t rest, struct rf_err *e);

void rf_ask_add_number(struct rf_buf *line, const char *key, int known, const struct rf_head *head,
                       const char *tool, const char *option)
{
	int64_t value = known;

	if (known || rf_head_asked(head, tool, option, &value))
		rf_print(line, ",\"%s\":%lld", key, (long long)value);
	else
		rf_print(line, ",\"%s\":null", key);
}

/* Turns a buffer into a line for rf_exec_send(), which frees it.  what: the name of the line in a message. */
static enum rf_code finish_line(struct rf_buf *b, char **line, size_t *len, const char *what,
                                struct rf_err *e)
{
	*len = b->n;
	rf_buf_add(b, "", 1);
	if (b->failed) {
		rf_buf_free(b);
		return rf_fail(e, RF_ENOMEM, "out of memory (%s)", what);
	}
	*line = (char *)b->p;
	return RF_OK;
}

/* Sends the head, with the keys of the kind and the path of the tokenizer. */
static enum rf_code send_head(struct rf_ask *a, const struct rf_head *head, struct rf_err *e)
{
	const char *path = a->s.tokenizer ? a->s.tokenizer : a->s.model;
	struct rf_buf b = { 0 };
	enum rf_code rc;
	char *line;
	size_t len;

	if ((rc = rf_head_to_json(head, &line, &len, e)) != RF_OK)
		return rc;
	rf_buf_add(&b, line, len - 1);
	free(line);
	a->kind->add_head(a->of, head, &b);
	rf_print_text(&b, ",\"tokenizer\":");
	if (path && rf_utf8(path, strlen(path)))
		rf_print_string(&b, path, strlen(path));
	else
		rf_print_text(&b, "null");
	rf_print_text(&b, "}");
	if ((rc = finish_line(&b, &line, &len, "a line of JSON", e)) != RF_OK)
		return rc;
	rf_exec_send(a->x, line, len);
	return collect_answers(a, RF_EXEC_NOW, UINT64_MAX, e);
}

enum rf_code rf_ask_start(struct rf_ask **ap, const struct rf_ask_settings *s, const struct rf_ask_kind *kind,
                          const void *of, const struct rf_head *head, rf_ask_pass *pass, void *arg,
                          struct rf_err *e)
{
	struct rf_ask *a;

	*ap = NULL;
	if (!(a = calloc(1, sizeof *a)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	a->s = *s;
	a->kind = kind;
	a->of = of;
	a->pass = pass;
	a->arg = arg;
	a->last = &a->first;
	/* without --text the command only gets the path of the tokenizer, which must belong to the stream */
	if ((s->text || s->tokenizer) &&
	    rf_ask_tokenizer(&a->tokenizer, head, s->tokenizer, s->model, e) != RF_OK)
		rf_blame(e, s->text ? "--text" : "--tokenizer");
	else if (rf_exec_start(&a->x, s->command, s->timeout, e) != RF_OK)
		blame_command(a, e);
	else if (send_head(a, head, e) == RF_OK) {
		*ap = a;
		return RF_OK;
	}
	rf_ask_stop(a);
	return e->code;
}

/* Removes the first record from the queue. */
static void drop_first(struct rf_ask *a)
{
	struct waiting *w = a->first;

	a->first = w->next;
	if (!a->first)
		a->last = &a->first;
	a->bytes -= w->bytes;
	rf_record_free(&w->r);
	free(w);
}

void rf_ask_stop(struct rf_ask *a)
{
	if (!a)
		return;
	rf_exec_stop(a->x);
	while (a->first)
		drop_first(a);
	rf_tokenizer_free(a->tokenizer);
	free(a);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Returns whether the id of an answer is `want`: a number or, for ids above 2^53, a string. */
static bool same_id(const json_t *id, uint64_t want)
{
	char text[24];

	if (json_is_integer(id))
		return json_integer_value(id) >= 0 && (uint64_t)json_integer_value(id) == want;
	snprintf(text, sizeof text, "%llu", (unsigned long long)want);
	return json_is_string(id) && !strcmp(json_string_value(id), text);
}

/* Returns whether a line that is not JSON has NaN or Infinity where a number could stand, as several
 * languages print them. */
static bool has_nonfinite(const char *line, size_t len)
{
	static const char *const words[] = { "NaN", "nan", "Infinity", "inf" };

	for (size_t i = 1; i < len; i++)
		for (size_t w = 0; w < sizeof words / sizeof *words && strchr("[,:- ", line[i - 1]); w++)
			if (len - i >= strlen(words[w]) && !memcmp(line + i, words[w], strlen(words[w])))
				return true;
	return false;
}

/* Reads the answer to the first record. */
static enum rf_code read_first_answer(struct rf_ask *a, const char *line, size_t len, struct rf_err *e)
{
	struct rf_record *r = &a->first->r;
	char shown[60], why[100];
	json_error_t je = { .text = "it has a NUL" }; /* jansson does not report a NUL after a number */
	const bool nul = memchr(line, 0, len);
	json_t *answer = nul ? NULL : json_loadb(line, len, JSON_REJECT_DUPLICATES, &je), *id;
	enum rf_code rc = RF_OK;
	bool of_head = false; /* whether this may be an answer to the head */

	if (!answer && has_nonfinite(line, len)) {
		rc = rf_fail(e, RF_EDATA, "'%s' has a number that is not finite, which JSON does not allow",
		             rf_quote(shown, sizeof shown, line, len));
	} else if (!answer && json_error_code(&je) == json_error_duplicate_key) {
		rc = rf_fail(e, RF_EDATA, "'%s' has a key twice: %s",
		             rf_quote(shown, sizeof shown, line, len),
		             rf_quote(why, sizeof why, je.text, strlen(je.text)));
	} else if (!json_is_object(answer)) {
		of_head = true;
		rc = rf_fail(e, RF_EDATA, "'%s' is not a JSON object%s%s",
		             rf_quote(shown, sizeof shown, line, len), answer ? "" : ": ",
		             answer ? "" : rf_quote(why, sizeof why, je.text, strlen(je.text)));
	} else if (!(id = json_object_get(answer, "id"))) {
		of_head = true;
		rc = rf_fail(e, RF_EDATA, "the key 'id' is missing");
	} else if (!same_id(id, r->id)) {
		char *text = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);

		of_head = json_is_null(id);
		rc = rf_fail(e, RF_EDATA, "it has the id %s",
		             text ? rf_quote(shown, sizeof shown, text, strlen(text)) : "?");
		free(text);
	} else {
		rc = a->kind->read(a->of, answer, r, e);
	}
	if (rc != RF_OK) {
		rf_blame(e, "the answer to record id %llu", (unsigned long long)r->id);
		if (of_head)
			add_hint(a, e);
		blame_command(a, e);
	}
	a->heard |= rc == RF_OK;
	json_decref(answer);
	return rc;
}

/* Fails because the command ended before it answered the first record. */
static enum rf_code fail_unanswered(struct rf_ask *a, struct rf_err *e)
{
	bool well;
	const char *fate = rf_exec_fate(a->x, RF_EXEC_LAST_WORDS, &well);

	rf_fail(e, RF_EDATA, "the command %s before it answered record id %llu", fate,
	        (unsigned long long)a->first->r.id);
	add_hint(a, e);
	return blame_command(a, e);
}

/* Fails because the command printed a line that answers no record. */
static enum rf_code fail_surplus(struct rf_ask *a, const char *line, size_t len, struct rf_err *e)
{
	char shown[60];

	rf_fail(e, RF_EDATA, "the command printed more lines than it got records: '%s'",
	        rf_quote(shown, sizeof shown, line, len));
	add_hint(a, e);
	return blame_command(a, e);
}

/* Passes on the first records of the queue that need no answer; answered: the first record has its answer. */
static enum rf_code pass_on(struct rf_ask *a, bool answered, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && a->first && (answered || !a->kind->asks(a->of, &a->first->r))) {
		rc = a->pass(a->arg, &a->first->r, e);
		rf_meter_done(a->s.meter, a->first->r.T);
		drop_first(a);
		answered = false;
	}
	return rc;
}

/* Reads answers until at most `rest` bytes of records wait, or until `other` ends the wait, as for
 * rf_exec_receive(). */
static enum rf_code collect_answers(struct rf_ask *a, int other, uint64_t rest, struct rf_err *e)
{
	enum rf_code rc = pass_on(a, false, e);
	const char *line;
	size_t len;

	while (rc == RF_OK && (a->bytes > rest || rf_exec_sending(a->x))) {
		if ((rc = rf_exec_receive(a->x, other, &line, &len, e)) == RF_EOF)
			return a->first ? fail_unanswered(a, e) : RF_OK;
		if (rc != RF_OK)
			return blame_command(a, e);
		if (!line)
			break;
		if (!a->first)
			return fail_surplus(a, line, len, e);
		if ((rc = read_first_answer(a, line, len, e)) == RF_OK)
			rc = pass_on(a, true, e);
	}
	return rc;
}

/* ---- questions ----------------------------------------------------------------------------- */

/* Returns about how many bytes a waiting record occupies. */
static uint64_t bytes_waiting(const struct rf_record *r)
{
	const struct rf_rollout *o = &r->rollout;
	uint64_t T = (uint64_t)r->T, c = (uint64_t)r->c, n = (uint64_t)o->n, k = (uint64_t)o->k, floats,
		 bytes;

	floats = T * (uint64_t)(2 + !!r->nll + !!r->correct + r->d + r->N) + c;
	if (o->tokens)
		floats += c * n * k * (2 + (uint64_t)o->d + !!r->reward.per_token) + c * k * (uint64_t)o->d +
		          c * n * (1 + (uint64_t)r->reward.parts + !!o->length);
	bytes = sizeof(struct waiting) + 4 * floats + r->meta.size + r->unknown.pairs.size;
	for (int i = 0; i < r->answers; i++)
		bytes += strlen(r->answer[i]);
	return bytes;
}

static enum rf_code send_record(struct rf_ask *a, const struct rf_record *r, struct rf_err *e)
{
	struct rf_record shown = *r;
	struct rf_buf b = { 0 };
	enum rf_code rc;
	char *line;
	size_t len;

	if (a->s.no_hidden)
		rf_record_hide(&shown);
	if ((rc = rf_record_to_json(&shown, &line, &len, e)) != RF_OK)
		return rc;
	if (a->s.text) {
		rf_buf_add(&b, line, len - 1);
		free(line);
		rf_print_text(&b, ",\"text\":");
		if ((rc = a->kind->add_text(a->tokenizer, r, &b, e)) != RF_OK) {
			rf_buf_free(&b);
			return rc;
		}
		rf_print_text(&b, "}");
		if ((rc = finish_line(&b, &line, &len, "the text of a record", e)) != RF_OK)
			return rc;
	}
	rf_exec_send(a->x, line, len);
	return RF_OK;
}

enum rf_code rf_ask_record(struct rf_ask *a, const struct rf_record *r, int next, struct rf_err *e)
{
	struct waiting *w = calloc(1, sizeof *w);
	enum rf_code rc;

	if (!w)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rf_record_init(&w->r);
	if ((rc = rf_record_copy(&w->r, r, e)) != RF_OK) {
		rf_record_free(&w->r);
		free(w);
		return rc;
	}
	a->bytes += w->bytes = bytes_waiting(r);
	*a->last = w;
	a->last = &w->next;
	if (a->kind->asks(a->of, r) && (rc = send_record(a, r, e)) != RF_OK)
		return rc;
	if ((rc = collect_answers(a, next < 0 ? RF_EXEC_NOW : next, 0, e)) != RF_OK)
		return rc;
	if (a->bytes <= a->s.queue_limit || !a->first->next)
		return RF_OK;
	if (a->heard)
		return collect_answers(a, RF_EXEC_ALONE, a->s.queue_limit, e);
	rf_fail(e, RF_EDATA,
	        "the command has not answered yet, and more than %llu bytes of records wait for it: make it "
	        "answer and flush earlier, or raise --queue-limit",
	        (unsigned long long)a->s.queue_limit);
	return blame_command(a, e);
}

enum rf_code rf_ask_finish(struct rf_ask *a, struct rf_err *e)
{
	const char *line, *fate;
	size_t len;
	bool well;
	enum rf_code rc;

	rf_exec_close_input(a->x);
	if ((rc = collect_answers(a, RF_EXEC_ALONE, 0, e)) != RF_OK)
		return rc;
	if ((rc = rf_exec_receive(a->x, RF_EXEC_ALONE, &line, &len, e)) == RF_OK)
		return fail_surplus(a, line, len, e);
	if (rc != RF_EOF)
		return blame_command(a, e);
	fate = rf_exec_fate(a->x, a->s.timeout, &well);
	if (!well) {
		rf_fail(e, RF_EDATA, "the command %s after its last answer", fate);
		return blame_command(a, e);
	}
	return RF_OK;
}
