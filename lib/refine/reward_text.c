/* reward_text.c -- decodes the rollouts of a record.
 *
 * The truth and the rollouts are decoded together with the last tokens of their prefix (ask_text.h). */
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "refine/ask_text.h"
#include "refine/reward_text.h"

enum { BEFORE = 16 }; /* tokens of the prefix that are decoded together with the truth or a rollout */

/* Appends the JSON object of position i.  ids: room for 2 (T + k) tokens. */
static enum rf_code add_position(struct rf_buf *b, const struct rf_tokenizer *t, const struct rf_record *r,
                                 int i, int32_t *ids, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	int s = r->positions[i], n = s < BEFORE ? s : BEFORE;
	size_t first = (size_t)i * (size_t)o->n;
	int32_t *room = ids + r->T + o->k;
	size_t bytes, final;
	enum rf_code rc;
	char *prefix;

	if ((rc = rf_ask_decode(t, r->tokens, s, room, &prefix, &bytes, &final, e)) != RF_OK)
		return rc;
	rf_print_text(b, i ? ",{\"prefix\":" : "{\"prefix\":");
	rf_print_string(b, prefix, final);
	free(prefix);
	memcpy(ids, r->tokens + s - n, (size_t)n * sizeof *ids);
	rf_print_text(b, ",\"truth\":");
	rc = rf_ask_add_after(b, t, ids, n, r->tokens + s, o->k < r->T - s ? o->k : r->T - s, room, e);
	rf_print_text(b, ",\"rollouts\":[");
	for (int j = 0; rc == RF_OK && j < o->n; j++) {
		rf_print_text(b, j ? "," : "");
		rc = rf_ask_add_after(b, t, ids, n, o->tokens + (first + (size_t)j) * (size_t)o->k,
		                      rf_rollout_length(o, first + (size_t)j), room, e);
	}
	rf_print_text(b, "]}");
	return rc;
}

enum rf_code rf_reward_text(const struct rf_tokenizer *t, const struct rf_record *r, struct rf_buf *b,
                            struct rf_err *e)
{
	int32_t *ids = malloc(2 * ((size_t)r->T + (size_t)r->rollout.k) * sizeof *ids);
	enum rf_code rc = RF_OK;

	if (!ids)
		return rf_fail(e, RF_ENOMEM, "out of memory (the text of a record)");
	rf_print_text(b, "[");
	for (int i = 0; rc == RF_OK && i < r->c; i++)
		rc = add_position(b, t, r, i, ids, e);
	rf_print_text(b, "]");
	free(ids);
	return rc;
}
