/* show.c -- what a researcher wants to read of a record: where the text was left, what the model wrote there, what the
 * text says, how that was rewarded and how sure the model was of each token. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

#include "show.h"

enum { LABEL = 15, TEXT_LINES = 4, TOKEN_LINES = 8, TOP = 8, BEGINNING = 200, CUT = 80 };

#define BOLD   "1"
#define PLACE  "36"
#define EQUAL  "32"
#define DIFFER "33"

static const char *paint(const struct rf_show *s, const char *colour)
{
	return s->colour ? colour : NULL;
}

/* ---- text that has to fit --------------------------------------------------------------------------------------- */

/* Safe text in quotes (numbers stand without), its beginning or its end if it is too long. */
static void fit(struct rf_page *p, const struct rf_show *s, const struct rf_page *text, int columns, bool tail)
{
	const char *q = s->words.tokenizer ? "\"" : "", *t = text->text ? text->text : "";
	size_t n = text->n;
	bool cut;

	columns -= 2 * (int)strlen(q);
	if ((cut = rf_columns(t, n) > columns)) {
		n = tail ? rf_columns_tail(t, n, columns - 3) : rf_columns_head(t, n, columns - 3);
		t += tail ? text->n - n : 0;
	}
	rf_page_printf(p, "%s%s", q, cut && tail ? "..." : "");
	rf_page_add(p, t, n);
	rf_page_printf(p, "%s%s", cut && !tail ? "..." : "", q);
	p->failed |= text->failed;
}

/* The same behind a label, over several lines. */
static void wrap(struct rf_page *p, const struct rf_show *s, const struct rf_page *text)
{
	const char *q = s->words.tokenizer ? "\"" : "", *t = text->text ? text->text : "";
	int columns = s->width - LABEL - 4;
	size_t left = text->n;

	rf_page_puts(p, q);
	for (int line = 0; left; line++) {
		size_t n = line == TEXT_LINES ? 0 : rf_columns_head(t, left, columns);
		if (!n) {
			rf_page_puts(p, "...");
			break;
		}
		rf_page_add(p, t, n);
		t += n;
		if (left -= n) {
			rf_page_puts(p, "\n");
			rf_page_fill(p, ' ', LABEL);
		}
	}
	rf_page_printf(p, "%s\n", q);
	p->failed |= text->failed;
}

static void item_text(struct rf_flow *f, const char *name, const char *value, const char *colour)
{
	struct rf_page safe = { 0 }, item = { 0 };

	rf_page_safe(&safe, value, strlen(value), true);
	rf_page_printf(&item, *name ? "%s \"" : "%s\"", name);
	if (rf_columns(safe.text ? safe.text : "", safe.n) > CUT) {
		rf_page_add(&item, safe.text, rf_columns_head(safe.text, safe.n, CUT - 3));
		rf_page_puts(&item, "...");
	} else {
		rf_page_add(&item, safe.text, safe.n);
	}
	rf_page_puts(&item, "\"");
	rf_flow_item(f, item.text ? item.text : "", item.n, colour);
	f->p->failed |= safe.failed || item.failed;
	rf_page_free(&safe);
	rf_page_free(&item);
}

/* ---- msgpack values --------------------------------------------------------------------------------------------- */

/* The shortest decimal that reads back as the same double. */
static void write_real(struct rf_page *p, double x)
{
	char text[40];

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
	rf_page_puts(p, text);
}

static void write_string(struct rf_page *p, const char *s, size_t n)
{
	rf_page_puts(p, "\"");
	rf_page_safe(p, s, n, true);
	rf_page_puts(p, "\"");
}

/* rf_msg_check() bounded the depth. */
static void write_value(struct rf_page *p, const msgpack_object *o)
{
	switch (o->type) {
	case MSGPACK_OBJECT_BOOLEAN:          rf_page_puts(p, o->via.boolean ? "true" : "false"); break;
	case MSGPACK_OBJECT_POSITIVE_INTEGER: rf_page_printf(p, "%llu", (unsigned long long)o->via.u64); break;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER: rf_page_printf(p, "%lld", (long long)o->via.i64); break;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:          write_real(p, o->via.f64); break;
	case MSGPACK_OBJECT_STR:              write_string(p, o->via.str.ptr, o->via.str.size); break;
	case MSGPACK_OBJECT_BIN:              rf_page_printf(p, "<%u bytes>", (unsigned)o->via.bin.size); break;
	case MSGPACK_OBJECT_ARRAY:
		rf_page_puts(p, "[");
		for (uint32_t i = 0; i < o->via.array.size; i++) {
			rf_page_puts(p, i ? ", " : "");
			write_value(p, &o->via.array.ptr[i]);
		}
		rf_page_puts(p, "]");
		break;
	case MSGPACK_OBJECT_MAP:
		rf_page_puts(p, "{");
		for (uint32_t i = 0; i < o->via.map.size; i++) {
			rf_page_puts(p, i ? ", " : "");
			write_value(p, &o->via.map.ptr[i].key);
			rf_page_puts(p, ": ");
			write_value(p, &o->via.map.ptr[i].val);
		}
		rf_page_puts(p, "}");
		break;
	default:
		rf_page_puts(p, "nil");
	}
}

static bool is(const msgpack_object *o, const char *word)
{
	return o->type == MSGPACK_OBJECT_STR && o->via.str.size == strlen(word) && !memcmp(o->via.str.ptr, word, o->via.str.size);
}

static const msgpack_object *get(const msgpack_object *map, const char *key)
{
	if (map->type == MSGPACK_OBJECT_MAP)
		for (uint32_t i = 0; i < map->via.map.size; i++)
			if (is(&map->via.map.ptr[i].key, key))
				return &map->via.map.ptr[i].val;
	return NULL;
}

/* A word of a shell's command line. */
static void write_word(struct rf_page *p, const char *s, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
	bool simple = n > 0;

	for (size_t i = 0; i < n; i++)
		simple &= s[i] && strchr(plain, s[i]);
	if (simple) {
		rf_page_add(p, s, n);
		return;
	}
	rf_page_puts(p, "'");
	for (size_t i = 0, run; i < n; i += run + 1) {
		const char *q = memchr(s + i, '\'', n - i);
		run = q ? (size_t)(q - s) - i : n - i;
		rf_page_safe(p, s + i, run, false);
		rf_page_puts(p, q ? "'\\''" : "");
	}
	rf_page_puts(p, "'");
}

/* {tool, version, options} as a command, the version as its comment. */
static void write_stage(struct rf_page *p, const msgpack_object *stage)
{
	const msgpack_object *tool = get(stage, "tool"), *version = get(stage, "version"), *options = get(stage, "options");

	rf_page_puts(p, "  ");
	if (!tool || tool->type != MSGPACK_OBJECT_STR) {
		write_value(p, stage);
		rf_page_puts(p, "\n");
		return;
	}
	write_word(p, tool->via.str.ptr, tool->via.str.size);
	for (uint32_t i = 0; options && options->type == MSGPACK_OBJECT_MAP && i < options->via.map.size; i++) {
		const msgpack_object *key = &options->via.map.ptr[i].key, *v = &options->via.map.ptr[i].val;

		if (v->type == MSGPACK_OBJECT_BOOLEAN && !v->via.boolean)
			continue;
		rf_page_puts(p, key->via.str.size == 1 ? " -" : " --");
		write_word(p, key->via.str.ptr, key->via.str.size);
		if (v->type == MSGPACK_OBJECT_BOOLEAN)
			continue;
		rf_page_puts(p, " ");
		if (v->type == MSGPACK_OBJECT_STR)
			write_word(p, v->via.str.ptr, v->via.str.size);
		else
			write_value(p, v);
	}
	if (version && version->type == MSGPACK_OBJECT_STR) {
		rf_page_puts(p, "  # ");
		rf_page_safe(p, version->via.str.ptr, version->via.str.size, false);
	}
	rf_page_puts(p, "\n");
}

static void write_entry(struct rf_page *p, const msgpack_object *key, const msgpack_object *v)
{
	struct rf_page name = { 0 };

	rf_page_safe(&name, key->via.str.ptr, key->via.str.size, false);
	rf_page_printf(p, "%-10.*s", (int)name.n, name.n ? name.text : "");
	rf_page_free(&name);
	if (v->type == MSGPACK_OBJECT_MAP && v->via.map.size) {
		for (uint32_t i = 0; i < v->via.map.size; i++) {
			const msgpack_object *k = &v->via.map.ptr[i].key, *x = &v->via.map.ptr[i].val;

			rf_page_puts(p, i ? "  " : "");
			rf_page_safe(p, k->via.str.ptr, k->via.str.size, false);
			rf_page_puts(p, " ");
			if (x->type == MSGPACK_OBJECT_STR)
				rf_page_safe(p, x->via.str.ptr, x->via.str.size, false);
			else
				write_value(p, x);
		}
	} else {
		write_value(p, v);
	}
	rf_page_puts(p, "\n");
}

void rf_show_head(struct rf_page *p, const void *msg, size_t n)
{
	const msgpack_object *body, *history = NULL;
	msgpack_unpacked u;
	size_t at = 0;

	msgpack_unpacked_init(&u);
	if (msgpack_unpack_next(&u, msg, n, &at) != MSGPACK_UNPACK_SUCCESS || u.data.type != MSGPACK_OBJECT_ARRAY
	    || u.data.via.array.size != 3 || (body = &u.data.via.array.ptr[2])->type != MSGPACK_OBJECT_MAP) {
		p->failed = true; /* rf_next_message() saw to everything but memory */
		goto out;
	}
	for (uint32_t i = 0; i < body->via.map.size; i++)
		if (is(&body->via.map.ptr[i].key, "history"))
			history = &body->via.map.ptr[i].val;
		else
			write_entry(p, &body->via.map.ptr[i].key, &body->via.map.ptr[i].val);
	rf_page_puts(p, "history");
	if (!history || history->type != MSGPACK_OBJECT_ARRAY || !history->via.array.size)
		rf_page_puts(p, "   none");
	rf_page_puts(p, "\n");
	for (uint32_t i = 0; history && history->type == MSGPACK_OBJECT_ARRAY && i < history->via.array.size; i++)
		write_stage(p, &history->via.array.ptr[i]);
out:
	msgpack_unpacked_destroy(&u);
}

/* ---- a record --------------------------------------------------------------------------------------------------- */

static void heading(struct rf_page *p, const struct rf_show *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	struct rf_flow f;

	rf_flow_begin(&f, p, NULL, 0, s->width, 0);
	if (s->files)
		item_text(&f, "", row->file, paint(s, BOLD));
	rf_flow_printf(&f, paint(s, BOLD), "record %llu", (unsigned long long)row->record);
	rf_flow_printf(&f, paint(s, BOLD), "id %llu", (unsigned long long)rec->id);
	if (rec->source)
		item_text(&f, "", rec->source, paint(s, BOLD));
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
		rf_flow_printf(&f, NULL, "n %d  k %d  temperature %g", rec->rollout.n, rec->rollout.k, rec->rollout.temperature);
	if (rec->reward.kind)
		item_text(&f, "reward", rec->reward.kind, NULL);
	if (!isnan(row->reward.mean))
		rf_flow_printf(&f, NULL, "mean %.4f", row->reward.mean);
	for (int i = 0; i < rec->answers; i++)
		item_text(&f, "answer", rec->answer[i], NULL);
	rf_flow_end(&f);
	if (rec->meta.data) {
		struct rf_page text = { 0 };
		msgpack_unpacked u;
		size_t at = 0;

		msgpack_unpacked_init(&u);
		if (msgpack_unpack_next(&u, rec->meta.data, rec->meta.size, &at) == MSGPACK_UNPACK_SUCCESS)
			write_value(&text, &u.data);
		msgpack_unpacked_destroy(&u);
		rf_page_puts(p, "  meta ");
		rf_page_add(p, text.text, rf_columns_head(text.text ? text.text : "", text.n, s->width - 10));
		rf_page_puts(p, text.n && rf_columns(text.text, text.n) > s->width - 10 ? "...\n" : "\n");
		rf_page_free(&text);
	}
}

static void position(struct rf_page *p, const struct rf_show *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	struct rf_page text = { 0 };
	struct rf_flow f;

	rf_flow_begin(&f, p, NULL, 2, s->width, 0);
	rf_flow_printf(&f, paint(s, PLACE), "position %d  s %d", row->i, row->t + 1);
	if (rec->entropy)
		rf_flow_printf(&f, NULL, "entropy %.3f", rec->entropy[row->t]);
	if (rec->nll)
		rf_flow_printf(&f, NULL, "nll %.3f", rec->nll[row->t]);
	rf_flow_end(&f);
	rf_page_printf(p, "%-*s", LABEL, "    prefix");
	rf_words_prefix(&text, &s->words, rec, row->t + 1);
	fit(p, s, &text, s->width - LABEL, true);
	rf_page_puts(p, "\n");
	rf_page_clear(&text);
	rf_page_printf(p, "%-*s", LABEL, "    truth");
	rf_words_truth(&text, &s->words, rec, row->t + 1);
	wrap(p, s, &text);
	rf_page_free(&text);
}

static void rollout(struct rf_page *p, const struct rf_show *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	const struct rf_rollout *o = &rec->rollout;
	const struct rf_reward *y = &rec->reward;
	size_t at = (size_t)row->i * (size_t)o->n + (size_t)row->r, first = at * (size_t)o->k;
	struct rf_page text = { 0 };
	char name[40];
	struct rf_flow f;

	snprintf(name, sizeof name, "    rollout %d", row->r);
	rf_flow_begin(&f, p, name, LABEL, s->width, 0);
	if (y->kind && row->r < y->n) {
		size_t g = (size_t)row->i * (size_t)y->n + (size_t)row->r;
		rf_flow_printf(&f, paint(s, BOLD), "reward %.4f", y->total[g]);
		if (y->cosine)
			rf_flow_printf(&f, NULL, "cosine %.4f", y->cosine[g]);
		if (y->binary)
			rf_flow_printf(&f, NULL, "binary %.4f", y->binary[g]);
		if (y->edit)
			rf_flow_printf(&f, NULL, "edit %.4f", y->edit[g]);
	}
	if (rec->advantage)
		rf_flow_printf(&f, NULL, "advantage %+.4f", rec->advantage[at]);
	if (o->logp) {
		double sum = 0;
		for (int j = 0; j < o->k; j++)
			sum += o->logp[first + (size_t)j];
		rf_flow_printf(&f, NULL, "logp %.3f", sum / o->k);
	}
	rf_flow_end(&f);
	if (s->words.tokenizer) {
		rf_page_fill(p, ' ', LABEL);
		rf_words(&text, &s->words, o->tokens + first, o->k, false);
		wrap(p, s, &text);
	}
	rf_flow_begin(&f, p, NULL, LABEL, s->width, TOKEN_LINES);
	for (int j = 0; j < o->k; j++) {
		int32_t token = o->tokens[first + (size_t)j];
		bool equal = row->t + 1 + j < rec->T && rec->tokens[row->t + 1 + j] == token;

		rf_page_clear(&text);
		rf_words(&text, &s->words, &token, 1, true);
		if (equal)
			rf_page_puts(&text, "=");
		if (o->logp)
			rf_page_printf(&text, " %.2f", o->logp[first + (size_t)j]);
		rf_flow_item(&f, text.text ? text.text : "", text.n, paint(s, equal ? EQUAL : DIFFER));
		p->failed |= text.failed;
	}
	rf_flow_end(&f);
	rf_page_free(&text);
}

/* One token with what is known of the prediction behind it: the text up to it, a bar, what follows. */
static void token(struct rf_page *p, const struct rf_show *s, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;
	struct rf_page line = { 0 }, text = { 0 };
	int room, t = row->t;

	rf_page_printf(&line, "  t %-7d", t);
	if (rec->entropy)
		rf_page_printf(&line, " entropy %.3f ", rec->entropy[t]);
	if (rec->nll && t < rec->T - 1)
		rf_page_printf(&line, " nll %.3f ", rec->nll[t]);
	if (rec->correct && t < rec->T - 1)
		rf_page_puts(&line, rec->correct[t] > 0.5f ? " right" : " wrong");
	room = s->width - (int)line.n - 5;
	room = room < 30 ? 30 : room;
	rf_page_puts(&line, " ");
	rf_words_prefix(&text, &s->words, rec, t + 1);
	fit(&line, s, &text, room * 2 / 3, true);
	rf_page_puts(&line, " | ");
	rf_page_clear(&text);
	rf_words(&text, &s->words, rec->tokens + t + 1, rec->T - 1 - t < RF_AHEAD ? rec->T - 1 - t : RF_AHEAD, false);
	fit(&line, s, &text, room / 3, false);
	rf_page_puts(&line, "\n");
	rf_page_add(p, line.text, line.n);
	p->failed |= line.failed;
	rf_page_free(&line);
	rf_page_free(&text);
}

/* The rows where the model knew least what comes next, the highest entropy first. */
static void uncertain(struct rf_page *p, const struct rf_show *s, struct rf_row row)
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
		token(p, s, &row);
	}
}

static void beginning(struct rf_page *p, const struct rf_show *s, const struct rf_record *rec)
{
	struct rf_page text = { 0 };

	rf_words(&text, &s->words, rec->tokens, rec->T < BEGINNING ? rec->T : BEGINNING, false);
	rf_page_printf(p, "%-*s", LABEL, "  text");
	wrap(p, s, &text);
	rf_page_free(&text);
}

static void whole_record(struct rf_page *p, const struct rf_show *s, struct rf_row row)
{
	const struct rf_record *rec = row.rec;
	enum rf_rows rows = rec->rollout.tokens ? RF_ROWS_ROLLOUT : RF_ROWS_POSITION;
	uint64_t n = rf_row_count(rec, rows);

	for (uint64_t i = 0; i < n; i++) {
		rf_row_at(&row, rows, i);
		if (row.r <= 0)
			position(p, s, &row);
		if (row.r >= 0)
			rollout(p, s, &row);
	}
	if (!n && rec->entropy)
		uncertain(p, s, row);
	else if (!n)
		beginning(p, s, rec);
}

void rf_show_row(struct rf_page *p, const struct rf_show *s, enum rf_rows rows, const struct rf_row *row, size_t *lead, size_t *lead_part)
{
	size_t at = p->n;

	heading(p, s, row);
	*lead = p->n - at;
	*lead_part = 0;
	if (row->r >= 0) {
		position(p, s, row);
		*lead_part = p->n - at - *lead;
		rollout(p, s, row);
	} else if (row->i >= 0) {
		position(p, s, row);
	} else if (rows == RF_ROWS_TOKEN) {
		token(p, s, row);
	} else {
		whole_record(p, s, *row);
	}
}
