/* rows.c -- counts and lists the rows of a record, and shows their tokens as text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dump/table.h"

/* ---- rows ---------------------------------------------------------------------------------- */

struct rf_range rf_range_of(const float *x, size_t n)
{
	struct rf_range g = { NAN, NAN, NAN };
	double sum = 0;

	if (!x || !n)
		return g;
	g.min = g.max = x[0];
	for (size_t i = 0; i < n; i++) {
		sum += x[i];
		g.min = x[i] < g.min ? x[i] : g.min;
		g.max = x[i] > g.max ? x[i] : g.max;
	}
	g.mean = sum / (double)n;
	return g;
}

static int rollouts_of(const struct rf_record *rec)
{
	return rec->positions && rec->rollout.tokens ? rec->rollout.n : 0;
}

static size_t rewards_of(const struct rf_record *rec)
{
	return rec->reward.kind ? (size_t)rec->c * (size_t)rec->reward.n : 0;
}

void rf_row_of(struct rf_row *row, const char *file, uint64_t record, const struct rf_record *rec)
{
	/* clang-format off */
	*row = (struct rf_row){ .file = file, .record = record, .rec = rec, .i = -1, .r = -1, .t = -1,
	                        .sample = -1, .choice = -1 };
	/* clang-format on */
	row->entropy = rf_range_of(rec->entropy, (size_t)rec->T);
	row->nll = rf_range_of(rec->nll, (size_t)rec->T - 1);
	row->correct = rf_range_of(rec->correct, (size_t)rec->T - 1);
	row->reward = rf_range_of(rec->reward.total, rewards_of(rec));
}

uint64_t rf_row_count(const struct rf_record *rec, enum rf_row_kind rows)
{
	uint64_t c = (uint64_t)rec->c, each = (uint64_t)rollouts_of(rec);

	switch (rows) {
	case RF_ROWS_RECORD: return 1;
	case RF_ROWS_POSITION: return c;
	/* clang-format off */
	case RF_ROWS_ROLLOUT:  return c * each;
	case RF_ROWS_TOKEN:    return (uint64_t)rec->T;
	case RF_ROWS_SAMPLE:   return rec->generation.tokens ? (uint64_t)rec->generation.n : 0;
	case RF_ROWS_CHOICE:   return rec->choice.tokens ? (uint64_t)rec->choice.n : 0;
	default:               return c && each ? c * each : c ? c : 1;
		/* clang-format on */
	}
}

void rf_row_at(struct rf_row *row, enum rf_row_kind rows, uint64_t index)
{
	const struct rf_record *rec = row->rec;
	int each = rows == RF_ROWS_ROLLOUT || rows == RF_ROWS_AUTO ? rollouts_of(rec) : 0;

	row->i = row->r = row->t = row->sample = row->choice = -1;
	if (rows == RF_ROWS_TOKEN) {
		row->t = (int)index;
	} else if (rows == RF_ROWS_SAMPLE) {
		row->sample = (int)index;
	} else if (rows == RF_ROWS_CHOICE) {
		row->choice = (int)index;
	} else if (rows != RF_ROWS_RECORD && rec->c) {
		row->i = (int)(each ? index / (uint64_t)each : index);
		row->r = each ? (int)(index % (uint64_t)each) : -1;
		row->t = rec->positions[row->i] - 1;
	}
}

/* ---- tokens as text ------------------------------------------------------------------------ */

/* Appends the text of tokens.  A token that the tokenizer does not know becomes its number in angle brackets.
 * cut: whether the tokens may begin inside a character. */
static void decode_tokens(struct rf_buf *p, const struct rf_tokenizer *t, const int32_t *ids, int n, bool cut,
                          bool quotes)
{
	char *text = NULL;
	size_t len = 0, at = 0;

	if (rf_tokenizer_decode(t, ids, (size_t)n, &text, &len, NULL) == RF_OK) {
		/* the rest of a character at the start is not an error of the text */
		while (cut && at < 3 && at < len && ((unsigned char)text[at] & 0xC0) == 0x80)
			at++;
		rf_print_safe(p, text + at, len - at, quotes);
	} else if (n == 1) {
		rf_print(p, "<%d>", (int)*ids);
	} else {
		for (int i = 0; i < n; i++)
			decode_tokens(p, t, ids + i, 1, false, quotes);
	}
	free(text);
}

static void show_tokens(struct rf_buf *p, const struct rf_token_text *w, const int32_t *ids, int n, bool cut,
                        bool quotes)
{
	if (w->tokenizer) {
		rf_print_text(p, quotes ? "\"" : "");
		decode_tokens(p, w->tokenizer, ids, n, cut, quotes);
		rf_print_text(p, quotes ? "\"" : "");
	} else {
		for (int i = 0; i < n; i++)
			rf_print(p, i ? " %d" : "%d", (int)ids[i]);
		if (w->numbers && n)
			*w->numbers = true;
	}
}

void rf_token_text(struct rf_buf *p, const struct rf_token_text *w, const int32_t *ids, int n, bool quotes)
{
	show_tokens(p, w, ids, n, false, quotes);
}

void rf_token_text_prefix(struct rf_buf *p, const struct rf_token_text *w, const struct rf_record *rec, int s)
{
	int n = s < w->context ? s : w->context;

	show_tokens(p, w, rec->tokens + s - n, n, n < s, false);
}

void rf_token_text_truth(struct rf_buf *p, const struct rf_token_text *w, const struct rf_record *rec, int s)
{
	int k = rec->rollout.tokens ? rec->rollout.k : RF_AHEAD;

	show_tokens(p, w, rec->tokens + s, k < rec->T - s ? k : rec->T - s, false, false);
}

void rf_token_text_sample(struct rf_buf *p, const struct rf_token_text *w, const struct rf_generation *g,
                          int sample)
{
	const char *text = g->text ? g->text[sample] : NULL;

	if (text)
		rf_print_safe(p, text, strlen(text), false);
	else
		show_tokens(p, w, g->tokens + (size_t)sample * (size_t)g->m, g->length[sample], false, false);
}

void rf_token_text_choice(struct rf_buf *p, const struct rf_token_text *w, const struct rf_choice *c,
                          int choice)
{
	int from = c->from ? c->from[choice] : 0;

	show_tokens(p, w, c->tokens + (size_t)choice * (size_t)c->m + (size_t)from, c->length[choice] - from,
	            false, false);
}
