/* reward_exec.c -- asks a command for rewards, and reads its answers. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "refine/reward.h"
#include "refine/reward_exec.h"
#include "refine/reward_text.h"

void rf_reward_exec_options(struct rf_reward_exec_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_TEXT("kind-name", &s->kind, "name",
		         "name of the command's rewards in the stream; default: name of its script, or exec",
		         .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_ask_options(&s->ask, "shell command that computes the rewards: JSON lines in and out",
	               "send the text of prefixes, truths and rollouts to the command, too", opts);
	rf_opts_add(opts, table);
}

char *rf_reward_exec_name(const char *command, char name[RF_ASK_NAME])
{
	rf_ask_name(command, name);
	return rf_reward_kind(name) >= 0 ? strcpy(name, "exec") : name;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Reads c lists of n numbers.  what: their name in messages. */
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

/* Reads the rewards of tokens, c lists of n lists, into the record, and writes their mean for each rollout to
 * `total`.  A list has a number for each of the k tokens, or only for the tokens up to the end of the
 * rollout.  Numbers after the end are ignored. */
static enum rf_code read_tokens(const json_t *rows, struct rf_record *r, double *total, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	const size_t n = (size_t)o->n, k = (size_t)o->k;
	float *to = rf_reward_per_token_given(r, e);

	if (!to)
		return e->code;
	if (!json_is_array(rows))
		return rf_fail(e, RF_EDATA, "per_token is not a list");
	if (json_array_size(rows) != (size_t)r->c)
		return rf_fail(e, RF_EDATA, "per_token has %zu lists, but the record has %d positions",
		               json_array_size(rows), r->c);
	for (size_t g = 0; g < (size_t)r->c * n; g++, to += k) {
		const json_t *row = json_array_get(rows, g / n), *list = json_array_get(row, g % n), *x;
		const size_t given = json_array_size(list), length = (size_t)rf_rollout_length(o, g);
		double sum = 0;

		if (json_array_size(row) != n)
			return rf_fail(e, RF_EDATA,
			               "per_token[%zu] is not a list of %zu lists, one per rollout", g / n,
			               n);
		if (!json_is_array(list) || (given != k && given != length))
			return rf_fail(e, RF_EDATA,
			               "per_token[%zu][%zu] is not a list of %zu numbers, one for each token",
			               g / n, g % n, length);
		for (size_t t = 0; t < length; t++) {
			x = json_array_get(list, t);
			to[t] = (float)json_number_value(x);
			if (!json_is_number(x) || !isfinite(to[t]))
				return rf_fail(e, RF_EDATA, "per_token[%zu][%zu][%zu] is not a finite number",
				               g / n, g % n, t);
			sum += to[t];
		}
		total[g] = sum / (double)length;
	}
	return RF_OK;
}

/* Reads the parts that the command adds to the reward. */
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

/* Reads the rewards of the rollouts into the record, and those of tokens and the parts if the answer has
 * them. */
static enum rf_code read_answer(const void *of, const json_t *answer, struct rf_record *r, struct rf_err *e)
{
	const struct rf_reward_exec_settings *s = of;
	json_t *total = json_object_get(answer, "total"), *parts = json_object_get(answer, "parts");
	const json_t *tokens = json_object_get(answer, "per_token");
	double *value;
	enum rf_code rc = RF_OK;

	/* many languages print a missing value as null */
	total = tokens && json_is_null(total) ? NULL : total;
	tokens = json_is_null(tokens) ? NULL : tokens;
	if (!json_is_array(total) && (total || !tokens))
		return rf_fail(e, RF_EDATA, "the list 'total' is missing");
	if (!(value = calloc((size_t)r->c * (size_t)r->rollout.n, sizeof *value)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (tokens)
		rc = read_tokens(tokens, r, value, e);
	if (rc == RF_OK && total)
		rc = read_numbers(total, "total", r, value, e);
	if (rc == RF_OK)
		rc = rf_reward_record_given(r, s->kind, value, e);
	if (rc == RF_OK && parts)
		rc = read_parts(parts, r, value, e);
	free(value);
	return rc;
}

/* ---- questions ----------------------------------------------------------------------------- */

static bool asks(const void *of, const struct rf_record *r)
{
	(void)of;
	return r->rollout.tokens;
}

static void add_head(const void *of, const struct rf_head *head, struct rf_buf *line)
{
	const struct rf_reward_exec_settings *s = of;

	rf_ask_add_number(line, "k", s->ask.k, head, "rf-rollout", "length");
	rf_ask_add_number(line, "n", s->ask.n, head, "rf-rollout", "rollouts");
}

enum rf_code rf_reward_exec_start(struct rf_ask **a, const struct rf_reward_exec_settings *s,
                                  const struct rf_head *head, rf_ask_pass *pass, void *arg, struct rf_err *e)
{
	static const struct rf_ask_kind kind = { asks, add_head, rf_reward_text, read_answer };
	char name[80];

	*a = NULL;
	if (!rf_ask_is_name(s->kind, strlen(s->kind)))
		return rf_fail(e, RF_EUSAGE,
		               "--kind-name: '%s' is not a name of up to 64 letters, digits, '-', '_' and "
		               "'.'",
		               rf_quote(name, sizeof name, s->kind, strlen(s->kind)));
	return rf_ask_start(a, &s->ask, &kind, s, head, pass, arg, e);
}
