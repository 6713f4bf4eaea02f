/* select_exec.c -- asks a command for positions, and reads its answers. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "refine/ask_text.h"
#include "refine/select_exec.h"

void rf_select_exec_options(struct rf_select_exec_settings *s, struct rf_opts *opts)
{
	rf_ask_options(&s->ask, "shell command that chooses the positions: JSON lines in and out",
	               "send the text of each token to the command, too", opts);
}

void rf_select_exec_note(struct rf_select_exec_settings *s, struct rf_opts *opts)
{
	s->noted = rf_ask_name(s->ask.command, s->name);
	for (struct rf_opt *o = opts->row; o->name; o++)
		if (o->to == &s->ask.command) {
			o->to = &s->noted;
			o->noted = RF_OPT_RESULT;
		}
}

int rf_select_exec_least(const struct rf_select_exec_settings *s) { return s->ask.k + 1; }

enum rf_code rf_select_exec_record(const struct rf_select_exec_settings *s, struct rf_record *r,
                                   bool *short_one, struct rf_err *e)
{
	rf_record_drop_rollout(r);
	r->positions = NULL;
	r->c = 0;
	*short_one = r->T < rf_select_exec_least(s);
	if (*short_one && s->strict)
		return rf_fail(e, RF_EDATA,
		               "a sequence of %d tokens is too short: a position and a rollout of %d tokens "
		               "need %d",
		               r->T, s->ask.k, rf_select_exec_least(s));
	return RF_OK;
}

static bool asks(const void *of, const struct rf_record *r) { return r->T >= rf_select_exec_least(of); }

static void add_head(const void *of, const struct rf_head *head, struct rf_buf *line)
{
	const struct rf_select_exec_settings *s = of;

	rf_ask_add_number(line, "k", s->ask.k, head, "rf-select", "length");
}

/* Appends a list with the text of each token; together they are the text of the sequence.  A token is decoded
 * together with the tokens before it, from the last but one place at which a character was complete.  So the
 * blank before a word is kept, and a run of tokens for single bytes begins with a whole character. */
static enum rf_code add_text(const struct rf_tokenizer *t, const struct rf_record *r, struct rf_buf *line,
                             struct rf_err *e)
{
	int32_t *room = malloc((size_t)r->T * sizeof *room);
	enum rf_code rc = room ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory (the text of a record)");
	size_t bytes, final, done = 0; /* done: the bytes of the text from `from` on that are printed */
	int from = 0, complete = 0;
	char *text;

	rf_print_text(line, "[");
	for (int i = 0; rc == RF_OK && i < r->T; i++) {
		rc = rf_ask_decode(t, r->tokens + from, i + 1 - from, room, &text, &bytes, &final, e);
		if (rc != RF_OK)
			break;
		final = i + 1 < r->T ? final : bytes;
		rf_print_text(line, i ? "," : "");
		rf_print_string(line, text + (done < final ? done : final), done < final ? final - done : 0);
		done = done < final ? final : done; /* of an unfinished run no byte may be final */
		free(text);
		if (final < bytes)
			continue;
		from = complete;
		complete = i + 1;
		rc = rf_ask_decode(t, r->tokens + from, i + 1 - from, room, &text, &done, &final, e);
		if (rc == RF_OK)
			free(text);
	}
	rf_print_text(line, "]");
	free(room);
	return rc;
}

static enum rf_code read_answer(const void *of, const json_t *answer, struct rf_record *r, struct rf_err *e)
{
	const struct rf_select_exec_settings *s = of;
	const json_t *list = json_object_get(answer, "positions");
	const size_t c = json_array_size(list);
	const int last = r->T - s->ask.k;
	int32_t *positions;

	if (!json_is_array(list))
		return rf_fail(e, RF_EDATA, "the list 'positions' is missing");
	if (!c)
		return RF_OK;
	if (!(positions = rf_record_alloc(r, c, sizeof *positions)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (size_t i = 0; i < c; i++) {
		const json_t *x = json_array_get(list, i);
		const double value = json_number_value(x);

		if (!json_is_number(x) || value != floor(value))
			return rf_fail(e, RF_EDATA, "positions[%zu] is not a whole number", i);
		if (value < 1 || value > last)
			return rf_fail(e, RF_EDATA,
			               "positions[%zu] is %.15g, but with %d tokens in the sequence and %d "
			               "in a rollout it must be from 1 to %d",
			               i, value, r->T, s->ask.k, last);
		positions[i] = (int32_t)value;
	}
	r->positions = positions;
	r->c = (int)c;
	return RF_OK;
}

enum rf_code rf_select_exec_start(struct rf_ask **a, const struct rf_select_exec_settings *s,
                                  const struct rf_head *head, rf_ask_pass *pass, void *arg, struct rf_err *e)
{
	static const struct rf_ask_kind kind = { asks, add_head, add_text, read_answer };

	return rf_ask_start(a, &s->ask, &kind, s, head, pass, arg, e);
}
