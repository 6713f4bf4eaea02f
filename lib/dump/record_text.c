/* record_text.c -- shows a record to a researcher: the positions at which rollouts begin, the text of the
 * rollouts and the true text, their rewards, and how sure the model was of each token. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dump/record_text.h"

enum { LABEL = 15, TEXT_LINES = 4, TOKEN_LINES = 8, TOP = 8, BEGINNING = 200, CUT = 80 };

#define BOLD   "1"
#define PLACE  "36"
#define EQUAL  "32"
#define DIFFER "33"

static const char *colour_of(const struct rf_record_text *s, const char *colour)
{
	return s->colour ? colour : NULL;
}

/* ---- text that has to fit ------------------------------------------------------------------ */

/* Appends a safe text in quotes, or numbers without quotes.  If the text is too long, appends its beginning
 * or, with tail, its end. */
static void write_fitted(struct rf_buf *p, const struct rf_record_text *s, const struct rf_buf *text,
                         int columns, bool tail)
{
	const char *q = s->tokens.tokenizer ? "\"" : "", *t = (const char *)text->p;
	size_t n = text->n;
	bool cut;

	columns -= 2 * (int)strlen(q);
	if ((cut = rf_columns(t, n) > columns)) {
		n = tail ? rf_columns_tail(t, n, columns - 3) : rf_columns_head(t, n, columns - 3);
		t += tail ? text->n - n : 0;
	}
	rf_print(p, "%s%s", q, cut && tail ? "..." : "");
	rf_buf_add(p, t, n);
	rf_print(p, "%s%s", cut && !tail ? "..." : "", q);
	p->failed |= text->failed;
}

/* Appends a safe text after a label, over several lines.  more: whether the text continues after its end
 * here. */
static void write_wrapped(struct rf_buf *p, const struct rf_record_text *s, const struct rf_buf *text,
                          bool more)
{
	const char *q = s->tokens.tokenizer ? "\"" : "", *t = (const char *)text->p;
	int columns = s->width - LABEL - 4;
	size_t left = text->n;

	rf_print_text(p, q);
	for (int line = 0; left; line++) {
		size_t n = line == TEXT_LINES ? 0 : rf_columns_head(t, left, columns);
		if (!n) {
			more = true;
			break;
		}
		rf_buf_add(p, t, n);
		t += n;
		if (left -= n) {
			rf_print_text(p, "\n");
			rf_print_fill(p, ' ', LABEL);
		}
	}
	rf_print(p, more ? "...%s\n" : "%s\n", q);
	p->failed |= text->failed;
}

/* Adds an item: a name and a text in quotes, which is cut if it is too long. */
static void add_text_item(struct rf_flow *f, const char *name, const char *value, const char *colour)
{
	int most = f->width - 20 < CUT ? f->width - 20 : CUT;
	struct rf_buf safe = { 0 }, item = { 0 };

	rf_print_safe(&safe, value, strlen(value), true);
	rf_print(&item, *name ? "%s \"" : "%s\"", name);
	if (rf_columns(safe.p, safe.n) > most) {
		rf_buf_add(&item, safe.p, rf_columns_head(safe.p, safe.n, most - 3));
		rf_print_text(&item, "...");
	} else {
		rf_buf_add(&item, safe.p, safe.n);
	}
	rf_print_text(&item, "\"");
	rf_flow_item(f, item.p, item.n, colour);
	f->p->failed |= safe.failed || item.failed;
	rf_buf_free(&safe);
	rf_buf_free(&item);
}

/* ---- a record ------------------------------------------------------------------------------ */

/* Writes the heading of a record. */
static void write_heading(struct rf_buf *p, const struct rf_record_text *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	struct rf_flow f;

	rf_flow_begin(&f, p, NULL, 0, s->width, 0);
	if (s->files)
		add_text_item(&f, "", row->file, colour_of(s, BOLD));
	rf_flow_printf(&f, colour_of(s, BOLD), "record %llu", (unsigned long long)row->record);
	f.indent = 2; /* indent of the lines that follow */
	rf_flow_printf(&f, colour_of(s, BOLD), "id %llu", (unsigned long long)rec->id);
	if (rec->source)
		add_text_item(&f, "", rec->source, colour_of(s, BOLD));
	rf_flow_printf(&f, NULL, "T %d", rec->T);
	if (rec->prompt_len >= 0)
		rf_flow_printf(&f, NULL, "prompt_len %d", rec->prompt_len);
	if (rec->entropy)
		rf_flow_printf(&f, NULL, "entropy mean %.3f max %.3f", row->entropy.mean, row->entropy.max);
	if (rec->nll && rec->T > 1)
		rf_flow_printf(&f, NULL, "nll %.3f", row->nll.mean);
	if (rec->correct && rec->T > 1)
		rf_flow_printf(&f, NULL, "accuracy %.3f", row->correct.mean);
	if (rec->positions)
		rf_flow_printf(&f, NULL, "c %d", rec->c);
	if (rec->rollout.tokens)
		rf_flow_printf(&f, NULL, "n %d  k %d  temperature %g", rec->rollout.n, rec->rollout.k,
		               rec->rollout.temperature);
	if (rec->reward.kind)
		add_text_item(&f, "reward", rec->reward.kind, NULL);
	if (!isnan(row->reward.mean))
		rf_flow_printf(&f, NULL, "mean %.3f min %.3f max %.3f", row->reward.mean, row->reward.min,
		               row->reward.max);
	if (rec->response)
		rf_flow_printf(&f, NULL, "response %d", rec->response_len);
	if (rec->generation.tokens)
		rf_flow_printf(&f, NULL, "samples %d  temperature %g", rec->generation.n,
		               rec->generation.temperature);
	if (rec->choice.tokens)
		rf_flow_printf(&f, NULL, "choices %d", rec->choice.n);
	for (int i = 0; i < rec->answers; i++)
		add_text_item(&f, "answer", rec->answer[i], NULL);
	rf_flow_end(&f);
	if (rec->meta.data) {
		struct rf_buf text = { 0 };
		struct rf_mp meta = { rec->meta.data,
			              (const unsigned char *)rec->meta.data + rec->meta.size };

		rf_record_text_value(&text, &meta);
		rf_print_text(p, "  meta ");
		rf_buf_add(p, text.p, rf_columns_head(text.p, text.n, s->width - 10));
		rf_print_text(p, text.n && rf_columns(text.p, text.n) > s->width - 10 ? "...\n" : "\n");
		rf_buf_free(&text);
	}
}

/* Writes the heading of a position: the text before it and the true text after it. */
static void write_position(struct rf_buf *p, const struct rf_record_text *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	struct rf_buf text = { 0 };
	struct rf_flow f;

	rf_flow_begin(&f, p, NULL, 2, s->width, 0);
	rf_flow_printf(&f, colour_of(s, PLACE), "position %d  s %d", row->i, row->t + 1);
	if (rec->entropy)
		rf_flow_printf(&f, NULL, "entropy %.3f", rec->entropy[row->t]);
	if (rec->nll)
		rf_flow_printf(&f, NULL, "nll %.3f", rec->nll[row->t]);
	rf_flow_end(&f);
	rf_print(p, "%-*s", LABEL, "    prefix");
	rf_token_text_prefix(&text, &s->tokens, rec, row->t + 1);
	write_fitted(p, s, &text, s->width - LABEL, true);
	rf_print_text(p, "\n");
	rf_print_clear(&text);
	rf_print(p, "%-*s", LABEL, "    truth");
	rf_token_text_truth(&text, &s->tokens, rec, row->t + 1);
	write_wrapped(p, s, &text, false);
	rf_buf_free(&text);
}

/* Adds the mean of the numbers of a rollout's tokens; x NULL: adds nothing. */
static void add_mean(struct rf_flow *f, const char *name, const float *x, int length)
{
	if (x)
		rf_flow_printf(f, NULL, "%s %.3f", name, rf_range_of(x, (size_t)length).mean);
}

/* Returns the numbers of the tokens of a rollout whose first token is number `first` of all tokens; NULL if
 * the record has no such numbers. */
static const float *of_rollout(const float *x, size_t first) { return x ? x + first : NULL; }

/* Writes a rollout: its numbers, its text, and each of its tokens. */
static void write_rollout(struct rf_buf *p, const struct rf_record_text *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	const struct rf_rollout *o = &rec->rollout;
	const struct rf_reward *y = &rec->reward;
	size_t at = (size_t)row->i * (size_t)o->n + (size_t)row->r, first = at * (size_t)o->k;
	const int length = rf_rollout_length(o, at);
	struct rf_buf text = { 0 };
	char name[40];
	struct rf_flow f;

	snprintf(name, sizeof name, "    rollout %d", row->r);
	rf_flow_begin(&f, p, name, LABEL, s->width, 0);
	if (y->kind && row->r < y->n) {
		size_t g = (size_t)row->i * (size_t)y->n + (size_t)row->r;
		rf_flow_printf(&f, colour_of(s, BOLD), "reward %.3f", y->total[g]);
		for (int i = 0; i < y->parts; i++)
			rf_flow_printf(&f, NULL, "%s %.3f", y->part[i].name, y->part[i].value[g]);
	}
	if (rec->advantage)
		rf_flow_printf(&f, NULL, "advantage %+.3f", rec->advantage[at]);
	add_mean(&f, "logp", of_rollout(o->logp, first), length);
	add_mean(&f, "logp_ref", of_rollout(o->logp_ref, first), length);
	add_mean(&f, "kept", of_rollout(o->kept, first), length);
	if (o->length)
		rf_flow_printf(&f, NULL, "length %d", length);
	rf_flow_end(&f);
	if (s->tokens.tokenizer) {
		rf_print_fill(p, ' ', LABEL);
		rf_token_text(&text, &s->tokens, o->tokens + first, length, false);
		write_wrapped(p, s, &text, false);
	}
	rf_flow_begin(&f, p, NULL, LABEL, s->width, TOKEN_LINES);
	for (int j = 0; j < length; j++) {
		int32_t token = o->tokens[first + (size_t)j];
		bool equal = row->t + 1 + j < rec->T && rec->tokens[row->t + 1 + j] == token;

		rf_print_clear(&text);
		rf_token_text(&text, &s->tokens, &token, 1, true);
		if (equal)
			rf_print_text(&text, "=");
		if (o->logp)
			rf_print(&text, " %.2f", o->logp[first + (size_t)j]);
		if (o->logp_ref)
			rf_print(&text, " ref %.2f", o->logp_ref[first + (size_t)j]);
		if (o->kept)
			rf_print(&text, " kept %.2f", o->kept[first + (size_t)j]);
		if (y->per_token)
			rf_print(&text, " reward %.2f", y->per_token[first + (size_t)j]);
		if (rec->advantage_per_token)
			rf_print(&text, " advantage %+.2f", rec->advantage_per_token[first + (size_t)j]);
		rf_flow_item(&f, text.p, text.n, colour_of(s, equal ? EQUAL : DIFFER));
		p->failed |= text.failed;
	}
	rf_flow_end(&f);
	rf_buf_free(&text);
}

/* Writes a token on one line: the numbers of the prediction after it, the text up to the token, a bar, and
 * the text that follows. */
static void write_token(struct rf_buf *p, const struct rf_record_text *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	struct rf_buf line = { 0 }, text = { 0 };
	int room, t = row->t;

	rf_print(&line, "  t %-7d", t);
	if (rec->entropy)
		rf_print(&line, " entropy %6.3f ", rec->entropy[t]);
	if (rec->nll && t < rec->T - 1)
		rf_print(&line, " nll %6.3f ", rec->nll[t]);
	if (rec->correct && t < rec->T - 1)
		rf_print_text(&line, rec->correct[t] > 0.5f ? " right" : " wrong");
	room = s->width - (int)line.n - 5;
	room = room < 20 ? 20 : room;
	rf_print_text(&line, " ");
	rf_token_text_prefix(&text, &s->tokens, rec, t + 1);
	write_fitted(&line, s, &text, room * 2 / 3, true);
	rf_print_text(&line, " | ");
	rf_print_clear(&text);
	rf_token_text(&text, &s->tokens, rec->tokens + t + 1,
	              rec->T - 1 - t < RF_AHEAD ? rec->T - 1 - t : RF_AHEAD, false);
	write_fitted(&line, s, &text, room / 3, false);
	rf_print_text(&line, "\n");
	rf_buf_add(p, line.p, line.n);
	p->failed |= line.failed;
	rf_buf_free(&line);
	rf_buf_free(&text);
}

/* Writes the tokens after which the model was least certain, the highest entropy first. */
static void write_uncertain(struct rf_buf *p, const struct rf_record_text *s, struct rf_row row)
{
	const float *H = row.rec->entropy;
	int top[TOP], n = 0;

	for (int t = 0; t < row.rec->T; t++) {
		int j = n < TOP ? n++ : TOP - 1;
		if (j == TOP - 1 && n == TOP && t >= TOP && !(H[t] > H[top[j]]))
			continue;
		for (; j > 0 && H[t] > H[top[j - 1]]; j--)
			top[j] = top[j - 1];
		top[j] = t;
	}
	for (int j = 0; j < n; j++) {
		row.t = top[j];
		write_token(p, s, &row);
	}
}

/* Writes the beginning of the text. */
static void write_beginning(struct rf_buf *p, const struct rf_record_text *s, const struct rf_record *rec)
{
	struct rf_buf text = { 0 };

	rf_token_text(&text, &s->tokens, rec->tokens, rec->T < BEGINNING ? rec->T : BEGINNING, false);
	rf_print(p, "%-*s", LABEL, "  text");
	write_wrapped(p, s, &text, rec->T > BEGINNING);
	rf_buf_free(&text);
}

/* Writes the end of the prompt that a generation or a choice continues. */
static void write_prompt(struct rf_buf *p, const struct rf_record_text *s, const struct rf_record *rec)
{
	struct rf_buf text = { 0 };

	rf_token_text_prefix(&text, &s->tokens, rec, rec->prompt_len >= 0 ? rec->prompt_len : rec->T);
	rf_print(p, "%-*s", LABEL, "  prompt");
	write_fitted(p, s, &text, s->width - LABEL, true);
	rf_print_text(p, "\n");
	rf_buf_free(&text);
}

static void write_sample(struct rf_buf *p, const struct rf_record_text *s, const struct rf_row *row)
{
	const struct rf_generation *g = &row->rec->generation;
	struct rf_buf text = { 0 };
	char name[40];
	struct rf_flow f;

	snprintf(name, sizeof name, "  sample %d", row->sample);
	rf_flow_begin(&f, p, name, LABEL, s->width, 0);
	rf_flow_printf(&f, colour_of(s, BOLD), "%s", g->stop[row->sample]);
	rf_flow_printf(&f, NULL, "length %d", g->length[row->sample]);
	rf_flow_end(&f);
	rf_print_fill(p, ' ', LABEL);
	rf_token_text_sample(&text, &s->tokens, g, row->sample);
	write_wrapped(p, s, &text, false);
	rf_buf_free(&text);
}

static void write_choice(struct rf_buf *p, const struct rf_record_text *s, const struct rf_row *row)
{
	const struct rf_choice *c = &row->rec->choice;
	struct rf_buf text = { 0 };
	char name[40];
	struct rf_flow f;

	snprintf(name, sizeof name, "  choice %d", row->choice);
	rf_flow_begin(&f, p, name, LABEL, s->width, 0);
	if (c->logp)
		rf_flow_printf(&f, colour_of(s, BOLD), "logp %.3f", c->logp[row->choice]);
	if (c->greedy)
		rf_flow_printf(&f, NULL, c->greedy[row->choice] ? "greedy" : "not greedy");
	rf_flow_printf(&f, NULL, "length %d", c->length[row->choice]);
	if (c->from && c->from[row->choice])
		rf_flow_printf(&f, NULL, "from %d", c->from[row->choice]);
	rf_flow_end(&f);
	rf_print_fill(p, ' ', LABEL);
	rf_token_text_choice(&text, &s->tokens, c, row->choice);
	write_wrapped(p, s, &text, false);
	rf_buf_free(&text);
}

/* Writes all rows of a record, or the tokens that say most about a record without rows. */
static void write_record(struct rf_buf *p, const struct rf_record_text *s, struct rf_row row)
{
	const struct rf_record *rec = row.rec;
	enum rf_row_kind rows = rec->rollout.tokens ? RF_ROWS_ROLLOUT : RF_ROWS_POSITION;
	uint64_t n = rf_row_count(rec, rows);

	for (uint64_t i = 0; i < n; i++) {
		rf_row_at(&row, rows, i);
		if (row.r <= 0)
			write_position(p, s, &row);
		if (row.r >= 0)
			write_rollout(p, s, &row);
	}
	if (rec->generation.tokens || rec->choice.tokens)
		write_prompt(p, s, rec);
	for (uint64_t i = 0; i < rf_row_count(rec, RF_ROWS_SAMPLE); i++) {
		rf_row_at(&row, RF_ROWS_SAMPLE, i);
		write_sample(p, s, &row);
	}
	for (uint64_t i = 0; i < rf_row_count(rec, RF_ROWS_CHOICE); i++) {
		rf_row_at(&row, RF_ROWS_CHOICE, i);
		write_choice(p, s, &row);
	}
	if (n || rec->generation.tokens || rec->choice.tokens)
		return;
	if (rec->entropy)
		write_uncertain(p, s, row);
	else
		write_beginning(p, s, rec);
}

void rf_record_text_row(struct rf_buf *p, const struct rf_record_text *s, enum rf_row_kind rows,
                        const struct rf_row *row, size_t *lead, size_t *lead_position)
{
	size_t at = p->n;

	write_heading(p, s, row);
	*lead = p->n - at;
	*lead_position = 0;
	if (row->r >= 0) {
		write_position(p, s, row);
		*lead_position = p->n - at - *lead;
		write_rollout(p, s, row);
	} else if (row->i >= 0) {
		write_position(p, s, row);
	} else if (rows == RF_ROWS_TOKEN) {
		write_token(p, s, row);
	} else if (rows == RF_ROWS_SAMPLE) {
		write_prompt(p, s, row->rec);
		*lead_position = p->n - at - *lead;
		write_sample(p, s, row);
	} else if (rows == RF_ROWS_CHOICE) {
		write_prompt(p, s, row->rec);
		*lead_position = p->n - at - *lead;
		write_choice(p, s, row);
	} else {
		write_record(p, s, *row);
	}
}
