/* reward_exec.c -- a queue of records that wait for a command's answers.
 *
 * A command may answer each line at once, or some lines later, or all of them at the end, and we cannot know
 * which.  So after each record that we send we wait for whichever comes first, an answer or the next
 * record. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "base/utf8.h"
#include "io/exec.h"
#include "method/reward.h"
#include "method/reward_exec.h"
#include "method/reward_text.h"
#include "stream/msg.h"

struct waiting {
	struct waiting *next;
	struct rf_record r;
	uint64_t bytes;
};

struct rf_reward_exec {
	struct rf_reward_exec_settings s;
	struct rf_exec *x;
	struct rf_tokenizer *tokenizer; /* of the stream; NULL: not opened */
	rf_reward_pass *pass;        /* what takes the records that are answered */
	void *arg;
	struct waiting *first, **last;
	uint64_t bytes;         /* of the records in the queue */
	bool heard;             /* it has given an answer, and that was right */
	char name[RF_REWARD_EXEC_NAME];
};

void rf_reward_exec_options(struct rf_reward_exec_settings *s, struct rf_opt opts[RF_REWARD_EXEC_OPTS])
{
	const struct rf_opt table[] = {
		{ "exec", 0, RF_OPT_TEXT, &s->command, 0, 0, "command",
		  "shell command that computes the rewards: JSON lines in and out", false },
		{ "text", 0, RF_OPT_FLAG, &s->text, 0, 0, NULL,
		  "send the text of prefixes, truths and rollouts to the command, too", false },
		{ "model", 'm', RF_OPT_TEXT, &s->model, 0, 0, "dir",
		  "run or checkpoint whose tokenizer to use for --text", false },
		{ "tokenizer", 0, RF_OPT_TEXT, &s->tokenizer, 0, 0, "file|bytes",
		  "tokenizer file or directory for --text; bytes: the byte tokenizer", false },
		{ "no-hidden", 0, RF_OPT_FLAG, &s->no_hidden, 0, 0, NULL,
		  "send records to the command without hidden states and logits", false },
		{ "kind-name", 0, RF_OPT_TEXT, &s->kind, 0, 0, "name",
		  "name of the command's rewards in the stream; default: its script's, or exec", true },
		{ "timeout", 0, RF_OPT_REAL, &s->timeout, 0, 1e9, "s",
		  "seconds to wait while the command is idle; 0: no limit", false },
		{ "queue-limit", 0, RF_OPT_SIZE, &s->queue_limit, 0, 0, "size",
		  "most bytes of records to hold until the command answers them", false },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_REWARD_EXEC_OPTS);
}

/* Returns whether n bytes are a kind's name. */
static bool is_kind(const char *name, size_t n)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	return n && n < RF_REWARD_EXEC_NAME && strspn(name, letters) >= n;
}

/* Returns the length of the suffix that marks n bytes as a script's name; 0: there is none. */
static size_t script_suffix(const char *s, size_t n)
{
	static const char *const suffix[] = { ".py", ".sh", ".bash", ".pl", ".rb",
		                              ".lua", ".js", ".jl", ".R" };

	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
		const size_t m = strlen(suffix[i]);

		if (n > m && !memcmp(s + n - m, suffix[i], m))
			return m;
	}
	return 0;
}

char *rf_reward_exec_name(const char *command, char name[RF_REWARD_EXEC_NAME])
{
	static const char between[] = " \t\n'\"|;&()<>=/";
	size_t n, m;

	strcpy(name, "exec");
	for (const char *s = command; *(s += strspn(s, between)); s += n) {
		n = strcspn(s, between);
		if (s[n] == '/' || !(m = script_suffix(s, n)))
			continue;
		if (is_kind(s, n - m)) {
			memcpy(name, s, n - m);
			name[n - m] = 0;
			if (rf_reward_kind(name) >= 0)
				strcpy(name, "exec");
		}
		break;
	}
	return name;
}

/* Adds a hint about the head, unless an answer was right: a program that mistakes the head for a record dies,
 * or answers with something else than JSON or without an id. */
static void hint(const struct rf_reward_exec *j, struct rf_err *e)
{
	static const char text[] =
		" (the command's first line is the stream's head, which needs no answer)";
	size_t n = strlen(e->msg);

	if (!j->heard && n + sizeof text <= sizeof e->msg)
		memcpy(e->msg + n, text, sizeof text);
}

/* Puts the command's name in front of a sentence about it. */
static enum rf_code blame(const struct rf_reward_exec *j, struct rf_err *e)
{
	char name[80];

	return rf_blame(e, "--exec '%s'", rf_quote(name, sizeof name, j->s.command, strlen(j->s.command)));
}

static enum rf_code collect(struct rf_reward_exec *j, int other, uint64_t rest, struct rf_err *e);

/* Appends a key with a number: the one that is known, else that of the history, or null if it has none. */
static void add_number(struct rf_buf *b, const char *key, int known, const struct rf_head *head,
                       const char *option)
{
	int64_t value = known;

	if (known || rf_head_asked(head, "rf-rollout", option, &value))
		rf_print(b, ",\"%s\":%lld", key, (long long)value);
	else
		rf_print(b, ",\"%s\":null", key);
}

/* Sends the head, with the rollouts' sizes and where the tokenizer is. */
static enum rf_code send_head(struct rf_reward_exec *j, const struct rf_head *head, struct rf_err *e)
{
	const char *path = j->s.tokenizer ? j->s.tokenizer : j->s.model;
	struct rf_buf b = { 0 };
	enum rf_code rc;
	char *line;
	size_t len;

	if ((rc = rf_head_to_json(head, &line, &len, e)) != RF_OK)
		return rc;
	rf_buf_add(&b, line, len - 1);
	free(line);
	add_number(&b, "k", j->s.k, head, "length");
	add_number(&b, "n", j->s.n, head, "rollouts");
	rf_print_text(&b, ",\"tokenizer\":");
	if (path && rf_utf8(path, strlen(path)))
		rf_print_string(&b, path, strlen(path));
	else
		rf_print_text(&b, "null");
	rf_print_text(&b, "}");
	len = b.n;
	rf_buf_add(&b, "", 1);
	if (b.failed) {
		rf_buf_free(&b);
		return rf_fail(e, RF_ENOMEM, "out of memory (a line of JSON)");
	}
	rf_exec_send(j->x, (char *)b.p, len);
	return collect(j, RF_EXEC_NOW, UINT64_MAX, e);
}

enum rf_code rf_reward_exec_start(struct rf_reward_exec **jp, const struct rf_reward_exec_settings *s,
                                  const struct rf_head *head, rf_reward_pass *pass, void *arg,
                                  struct rf_err *e)
{
	struct rf_reward_exec *j;
	char name[80];

	*jp = NULL;
	if (s->kind && !is_kind(s->kind, strlen(s->kind)))
		return rf_fail(e, RF_EUSAGE,
		               "--kind-name: '%s' is not a name of up to 64 letters, digits, '-', '_' and "
		               "'.'", rf_quote(name, sizeof name, s->kind, strlen(s->kind)));
	if (!(j = calloc(1, sizeof *j)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	j->s = *s;
	if (!s->kind)
		j->s.kind = rf_reward_exec_name(s->command, j->name);
	j->pass = pass;
	j->arg = arg;
	j->last = &j->first;
	/* without --text the command is only told where the tokenizer is, which must be the stream's */
	if ((s->text || s->tokenizer) &&
	    rf_reward_tokenizer(&j->tokenizer, head, s->tokenizer, s->model, e) != RF_OK)
		rf_blame(e, s->text ? "--text" : "--tokenizer");
	else if (rf_exec_start(&j->x, s->command, s->timeout, e) != RF_OK)
		blame(j, e);
	else if (send_head(j, head, e) == RF_OK) {
		*jp = j;
		return RF_OK;
	}
	rf_reward_exec_stop(j);
	return e->code;
}

/* Takes the first record out of the queue. */
static void drop_first(struct rf_reward_exec *j)
{
	struct waiting *w = j->first;

	j->first = w->next;
	if (!j->first)
		j->last = &j->first;
	j->bytes -= w->bytes;
	rf_record_free(&w->r);
	free(w);
}

void rf_reward_exec_stop(struct rf_reward_exec *j)
{
	if (!j)
		return;
	rf_exec_stop(j->x);
	while (j->first)
		drop_first(j);
	rf_tokenizer_free(j->tokenizer);
	free(j);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Returns whether an answer's id is this one: a number or, as our JSON writes ids above 2^53, a string. */
static bool same_id(const json_t *id, uint64_t want)
{
	char text[24];

	if (json_is_integer(id))
		return json_integer_value(id) >= 0 && (uint64_t)json_integer_value(id) == want;
	snprintf(text, sizeof text, "%llu", (unsigned long long)want);
	return json_is_string(id) && !strcmp(json_string_value(id), text);
}

/* Reads c lists of n numbers; what: their name in messages. */
static enum rf_code read_numbers(const json_t *rows, const char *what, const struct rf_record *r, double *to,
                                 struct rf_err *e)
{
	int c = r->c, n = r->rollout.n;
	const json_t *row, *x;

	if (json_array_size(rows) != (size_t)c)
		return rf_fail(e, RF_EDATA, "%s has %zu lists, but the record has %d positions", what,
		               json_array_size(rows), c);
	for (int i = 0; i < c; i++) {
		row = json_array_get(rows, (size_t)i);
		if (!json_is_array(row) || json_array_size(row) != (size_t)n)
			return rf_fail(e, RF_EDATA, "%s[%d] is not a list of %d numbers, one per rollout",
			               what, i, n);
		for (int j = 0; j < n; j++) {
			x = json_array_get(row, (size_t)j);
			if (!json_is_number(x) || !isfinite((float)json_number_value(x)))
				return rf_fail(e, RF_EDATA, "%s[%d][%d] is not a finite number", what, i, j);
			*to++ = json_number_value(x);
		}
	}
	return RF_OK;
}

/* Reads the parts of the reward that the command names itself. */
static enum rf_code read_parts(json_t *parts, struct rf_record *r, double *value, struct rf_err *e)
{
	size_t G = (size_t)r->c * (size_t)r->rollout.n;
	char what[sizeof "parts." + RF_PART_NAME];
	const char *name;
	json_t *rows;
	float *to;

	if (!json_is_object(parts))
		return rf_fail(e, RF_EDATA, "'parts' is not an object of lists");
	json_object_foreach (parts, name, rows) {
		if (!(to = rf_reward_part_given(r, name, e)))
			return rf_blame(e, "parts");
		snprintf(what, sizeof what, "parts.%s", name);
		if (!json_is_array(rows))
			return rf_fail(e, RF_EDATA, "%s is not a list", what);
		if (read_numbers(rows, what, r, value, e) != RF_OK)
			return e->code;
		for (size_t g = 0; g < G; g++)
			to[g] = (float)value[g];
	}
	return RF_OK;
}

/* Reads the rewards of the rollouts, and their parts if the answer has any, into the record. */
static enum rf_code read_answer(const struct rf_reward_exec *j, const json_t *answer, struct rf_record *r,
                                struct rf_err *e)
{
	json_t *total = json_object_get(answer, "total"), *parts = json_object_get(answer, "parts");
	double *value;
	enum rf_code rc;

	if (!json_is_array(total))
		return rf_fail(e, RF_EDATA, "the list 'total' is missing");
	if (!(value = calloc((size_t)r->c * (size_t)r->rollout.n, sizeof *value)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = read_numbers(total, "total", r, value, e)) == RF_OK)
		rc = rf_reward_record_given(r, j->s.kind, value, e);
	if (rc == RF_OK && parts)
		rc = read_parts(parts, r, value, e);
	free(value);
	return rc;
}

/* Returns whether a line that is not JSON has NaN or Infinity where a number could stand, as several
 * languages print them. */
static bool not_a_number(const char *line, size_t len)
{
	static const char *const words[] = { "NaN", "nan", "Infinity", "inf" };

	for (size_t i = 1; i < len; i++)
		for (size_t w = 0; w < sizeof words / sizeof *words && strchr("[,:- ", line[i - 1]); w++)
			if (len - i >= strlen(words[w]) && !memcmp(line + i, words[w], strlen(words[w])))
				return true;
	return false;
}

/* Reads the first record's answer. */
static enum rf_code read_first_answer(struct rf_reward_exec *j, const char *line, size_t len,
                                      struct rf_err *e)
{
	struct rf_record *r = &j->first->r;
	char shown[60], why[100];
	json_error_t je = { .text = "it has a NUL" }; /* jansson loses one after a number */
	const bool nul = memchr(line, 0, len);
	json_t *answer = nul ? NULL : json_loadb(line, len, JSON_REJECT_DUPLICATES, &je), *id;
	enum rf_code rc = RF_OK;
	bool of_head = false; /* it may be the answer to the head */

	if (!answer && not_a_number(line, len)) {
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
		rc = read_answer(j, answer, r, e);
	}
	if (rc != RF_OK) {
		rf_blame(e, "the answer to record id %llu", (unsigned long long)r->id);
		if (of_head)
			hint(j, e);
		blame(j, e);
	}
	j->heard |= rc == RF_OK;
	json_decref(answer);
	return rc;
}

static enum rf_code unanswered(struct rf_reward_exec *j, struct rf_err *e)
{
	bool well;
	const char *fate = rf_exec_fate(j->x, RF_EXEC_LAST_WORDS, &well);

	rf_fail(e, RF_EDATA, "the command %s before it answered record id %llu", fate,
	        (unsigned long long)j->first->r.id);
	hint(j, e);
	return blame(j, e);
}

static enum rf_code too_many(struct rf_reward_exec *j, const char *line, size_t len, struct rf_err *e)
{
	char shown[60];

	rf_fail(e, RF_EDATA, "the command printed more lines than it got records: '%s'",
	        rf_quote(shown, sizeof shown, line, len));
	hint(j, e);
	return blame(j, e);
}

/* Passes on the records at the head of the queue that need no answer, or no further answer. */
static enum rf_code pass_on(struct rf_reward_exec *j, bool answered, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	while (rc == RF_OK && j->first && (answered || !j->first->r.rollout.tokens)) {
		rc = j->pass(j->arg, &j->first->r, e);
		rf_meter_done(j->s.meter, j->first->r.T);
		drop_first(j);
		answered = false;
	}
	return rc;
}

/* Reads answers until at most `rest` bytes of records wait, or until `other` says, as for
 * rf_exec_receive(). */
static enum rf_code collect(struct rf_reward_exec *j, int other, uint64_t rest, struct rf_err *e)
{
	enum rf_code rc = pass_on(j, false, e);
	const char *line;
	size_t len;

	while (rc == RF_OK && (j->bytes > rest || rf_exec_sending(j->x))) {
		if ((rc = rf_exec_receive(j->x, other, &line, &len, e)) == RF_EOF)
			return j->first ? unanswered(j, e) : RF_OK;
		if (rc != RF_OK)
			return blame(j, e);
		if (!line)
			break;
		if (!j->first)
			return too_many(j, line, len, e);
		if ((rc = read_first_answer(j, line, len, e)) == RF_OK)
			rc = pass_on(j, true, e);
	}
	return rc;
}

/* ---- questions ----------------------------------------------------------------------------- */

/* Returns about how many bytes a record occupies while it waits. */
static uint64_t size_of(const struct rf_record *r)
{
	const struct rf_rollout *o = &r->rollout;
	uint64_t T = (uint64_t)r->T, c = (uint64_t)r->c, n = (uint64_t)o->n, k = (uint64_t)o->k, floats,
		 bytes;

	floats = T * (uint64_t)(2 + !!r->nll + !!r->correct + r->d + r->N) + c;
	if (o->tokens)
		floats += c * n * k * (2 + (uint64_t)o->d) + c * k * (uint64_t)o->d +
		          c * n * (1 + (uint64_t)r->reward.parts);
	bytes = sizeof(struct waiting) + 4 * floats + r->meta.size + r->unknown.size;
	for (int i = 0; i < r->answers; i++)
		bytes += strlen(r->answer[i]);
	return bytes;
}

enum rf_code rf_reward_exec_record(struct rf_reward_exec *j, const struct rf_record *r, int next,
                                   struct rf_err *e)
{
	struct waiting *w = calloc(1, sizeof *w);
	enum rf_code rc;
	char *line;
	size_t len;

	if (!w)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rf_record_init(&w->r);
	if ((rc = rf_record_copy(&w->r, r, e)) != RF_OK) {
		rf_record_free(&w->r);
		free(w);
		return rc;
	}
	j->bytes += w->bytes = size_of(r);
	*j->last = w;
	j->last = &w->next;
	if (r->rollout.tokens) {
		struct rf_record shown = *r;
		if (j->s.no_hidden)
			rf_record_hide(&shown);
		if ((rc = rf_record_to_json(&shown, &line, &len, e)) != RF_OK)
			return rc;
		if (j->s.text && (rc = rf_reward_text(&line, &len, j->tokenizer, r, e)) != RF_OK)
			return rc;
		rf_exec_send(j->x, line, len);
	}
	if ((rc = collect(j, next < 0 ? RF_EXEC_NOW : next, 0, e)) != RF_OK)
		return rc;
	if (j->bytes <= j->s.queue_limit || !j->first->next)
		return RF_OK;
	if (j->heard)
		return collect(j, RF_EXEC_ALONE, j->s.queue_limit, e);
	rf_fail(e, RF_EDATA,
	        "the command has not answered yet, and more than %llu bytes of records wait for it: make it "
	        "answer and flush earlier, or raise --queue-limit", (unsigned long long)j->s.queue_limit);
	return blame(j, e);
}

enum rf_code rf_reward_exec_finish(struct rf_reward_exec *j, struct rf_err *e)
{
	const char *line, *fate;
	size_t len;
	bool well;
	enum rf_code rc;

	rf_exec_close_input(j->x);
	if ((rc = collect(j, RF_EXEC_ALONE, 0, e)) != RF_OK)
		return rc;
	if ((rc = rf_exec_receive(j->x, RF_EXEC_ALONE, &line, &len, e)) == RF_OK)
		return too_many(j, line, len, e);
	if (rc != RF_EOF)
		return blame(j, e);
	fate = rf_exec_fate(j->x, j->s.timeout, &well);
	if (!well) {
		rf_fail(e, RF_EDATA, "the command %s after its last answer", fate);
		return blame(j, e);
	}
	return RF_OK;
}
