/* html.c -- writes records as a page: the text with its entropies, the positions with their rollouts, the
 * answers to a prompt, and a summary. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dump/html.h"
#include "dump/record_text.h"
#include "stream/wire.h"

/* ---- numbers ------------------------------------------------------------------------------- */

static void add(struct rf_html_sum *s, double x)
{
	s->sum += x;
	s->n++;
}

static void add_all(struct rf_html_sum *s, const float *x, size_t n)
{
	for (size_t i = 0; x && i < n; i++)
		add(s, x[i]);
}

static struct rf_html_sum *part_named(struct rf_html *h, const char *name)
{
	for (int i = 0; i < h->parts; i++)
		if (!strcmp(h->part[i].name, name))
			return &h->part[i];
	if (h->parts == RF_PARTS)
		return NULL;
	strcpy(h->part[h->parts].name, name);
	return &h->part[h->parts++];
}

void rf_html_count(struct rf_html *h, const struct rf_record *rec)
{
	const size_t T = (size_t)rec->T, groups = (size_t)rec->c * (size_t)rec->reward.n;

	h->records++;
	h->texts += T;
	h->positions += (uint64_t)rec->c;
	add_all(&h->entropy, rec->entropy, T);
	add_all(&h->nll, rec->nll, T - 1);
	add_all(&h->correct, rec->correct, T - 1);
	for (size_t t = 0; rec->entropy && t < T; t++)
		rf_histogram_add(&h->entropies, rec->entropy[t]);
	if (rec->rollout.tokens)
		h->rollouts += (uint64_t)rec->c * (uint64_t)rec->rollout.n;
	for (size_t i = 0; rec->reward.kind && i < groups; i++)
		rf_histogram_add(&h->rewards, rec->reward.total[i]);
	if (rec->reward.kind)
		add_all(&h->reward, rec->reward.total, groups);
	for (int i = 0; rec->reward.kind && i < rec->reward.parts; i++) {
		struct rf_html_sum *s = part_named(h, rec->reward.part[i].name);

		if (s)
			add_all(s, rec->reward.part[i].value, groups);
	}
	if (rec->generation.tokens) {
		h->samples += (uint64_t)rec->generation.n;
		add_all(&h->score, rec->generation.score, (size_t)rec->generation.n);
	}
}

/* Appends a number with at most two decimals, and none that are zeros. */
static void write_short(struct rf_buf *p, double x)
{
	char s[64]; /* the largest float has 39 digits */
	int n = snprintf(s, sizeof s, "%.2f", x);

	while (n > 1 && s[n - 1] == '0')
		n--;
	if (s[n - 1] == '.')
		n--;
	if (n == 2 && s[0] == '-' && s[1] == '0') /* -0 */
		s[0] = '0', n = 1;
	rf_buf_add(p, s, (size_t)n);
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* Appends the text of a record, one element a token. */
static void write_tokens(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec,
                         const struct rf_record *other)
{
	const bool chunked = h->chunks && rec->c == h->chunks;
	const int chunk = chunked ? rec->T / rec->c : 0;
	const bool nll = other && rec->nll && other->nll;

	rf_print_text(p, "<div class=\"t x\">");
	for (int t = 0; t < rec->T; t++) {
		const bool differ = other && (!nll || t < rec->T - 1);
		const double difference = !differ ? 0
		                          : nll   ? (double)rec->nll[t] - (double)other->nll[t]
		                                  : (double)rec->entropy[t] - (double)other->entropy[t];
		const char level = other          ? rf_html_difference(difference)
		                   : rec->entropy ? rf_html_level(rec->entropy[t])
		                                  : 0;

		if (chunked && t && t % chunk == 0 && t / chunk <= rec->c)
			rf_print_text(p, "<hr>");
		rf_print_text(p, "<p");
		if (level && level != 'a')
			rf_print(p, " %c", level);
		for (int i = 0; i < rec->c; i++)
			if (rec->positions[i] == t) {
				rf_print(p, " z=%d", i);
				break;
			}
		rf_print(p, " i=%d", (int)rec->tokens[t]);
		if (rec->entropy) {
			rf_print_text(p, " h=");
			write_short(p, rec->entropy[t]);
		}
		if (rec->nll && t < rec->T - 1) {
			rf_print_text(p, " n=");
			write_short(p, rec->nll[t]);
		}
		if (differ) {
			rf_print_text(p, " d=");
			write_short(p, difference);
		}
		rf_print_text(p, ">");
		rf_html_token(p, h->tokens, rec->tokens, rec->T, t);
	}
	rf_print_text(p, "</div>\n");
}

/* Numbers of the tokens of a line.  Each array may be NULL. */
struct line_values {
	const float *logp;  /* log-probabilities */
	const float *other; /* those of the model of --against; NULL without logp */
	const float *ref;   /* those of a reference model */
	const float *kept;  /* probabilities of all tokens that could be drawn */
};

/* Appends a line of n tokens, such as a rollout.  truth: `truths` tokens of the text at the same place; equal
 * ones are underlined. */
static void write_line(const struct rf_html *h, struct rf_buf *p, const int32_t *ids, int n,
                       struct line_values v, const int32_t *truth, int truths)
{
	rf_print_text(p, "<div class=l>");
	for (int j = 0; j < n; j++) {
		char level = v.other  ? rf_html_difference((double)v.other[j] - (double)v.logp[j])
		             : v.logp ? rf_html_level(-(double)v.logp[j])
		                      : 0;

		rf_print_text(p, "<p");
		if (level && level != 'a')
			rf_print(p, " %c", level);
		rf_print(p, " title=\"id %d", (int)ids[j]);
		if (v.logp)
			rf_print(p, ", log-probability %.3f", v.logp[j]);
		if (v.other)
			rf_print(p, ", of the other model %.3f", v.other[j]);
		if (v.ref)
			rf_print(p, ", of the reference model %.3f", v.ref[j]);
		if (v.kept)
			rf_print(p, ", kept %.3f", v.kept[j]);
		const bool equal = j < truths && truth[j] == ids[j];

		rf_print_text(p, equal ? "\"><b>" : "\">");
		rf_html_token(p, h->tokens, ids, n, j);
		rf_print_text(p, equal ? "</b>" : "");
	}
	rf_print_text(p, "</div>");
}

/* ---- positions ----------------------------------------------------------------------------- */

struct rank {
	double reward;
	int r;
};

/* Sorts by reward, the highest first; equal ones stay in order. */
static int by_reward(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	return x->reward != y->reward ? (x->reward < y->reward) - (x->reward > y->reward) : x->r - y->r;
}

/* Appends a row of the table for each rollout of position i, the best first; for only one of them if it is
 * not -1. */
static void write_rollouts(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec,
                           const struct rf_record *other, int i, int only)
{
	const struct rf_rollout *o = &rec->rollout;
	const struct rf_reward *y = &rec->reward;
	const int s = rec->positions[i];
	struct rank *rank = calloc((size_t)o->n, sizeof *rank);

	p->failed |= !rank;
	for (int r = 0; rank && r < o->n; r++)
		rank[r] = (struct rank){ y->kind && r < y->n ? y->total[i * y->n + r] : 0, r };
	if (rank)
		qsort(rank, (size_t)o->n, sizeof *rank, by_reward);
	for (int at = 0; rank && at < o->n; at++) {
		const int r = rank[at].r;
		const size_t g = (size_t)i * (size_t)o->n + (size_t)r, first = g * (size_t)o->k;
		const int n = rf_rollout_length(o, g);
		const float *of_other = o->logp && other ? other->rollout.logp : NULL;
		const struct line_values v = { .logp = o->logp ? o->logp + first : NULL,
			                       .other = of_other ? of_other + first : NULL,
			                       .ref = o->logp_ref ? o->logp_ref + first : NULL,
			                       .kept = o->kept ? o->kept + first : NULL };

		if (only >= 0 && r != only)
			continue;
		rf_print(p, "<tr><td>%d", r);
		if (y->kind && r < y->n) {
			const size_t of = (size_t)i * (size_t)y->n + (size_t)r;

			rf_print(p, "<td>%.3f", y->total[of]);
			for (int x = 0; x < y->parts; x++)
				rf_print(p, "<td>%.3f", y->part[x].value[of]);
		}
		if (rec->advantage)
			rf_print(p, "<td>%+.2f", rec->advantage[g]);
		rf_print_text(p, "<td class=t>");
		write_line(h, p, o->tokens + first, n, v, rec->tokens + s, rec->T - s);
	}
	free(rank);
}

/* Appends position i: the tokens before it, and the text and the rollouts after it.  only: as above. */
static void write_position(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec,
                           const struct rf_record *other, int i, int only)
{
	const struct rf_reward *y = &rec->reward;
	const int s = rec->positions[i], before = s < h->tokens->context ? s : h->tokens->context,
		  k = rec->rollout.tokens ? rec->rollout.k : RF_AHEAD, n = k < rec->T - s ? k : rec->T - s;
	struct rf_html_sum reward = { .n = 0 };

	rf_print(p, "<details open><summary><b>position %d</b> s %d", i, s);
	if (rec->entropy)
		rf_print(p, ", entropy before it %.3f", rec->entropy[s - 1]);
	if (y->kind) {
		double spread = 0;

		add_all(&reward, y->total + (size_t)i * (size_t)y->n, (size_t)y->n);
		for (int r = 0; r < y->n; r++)
			spread += pow(y->total[i * y->n + r] - reward.sum / (double)reward.n, 2);
		rf_print(p, ", reward %.3f", reward.sum / (double)reward.n);
		if (y->n > 1)
			rf_print(p, ", std %.3f", sqrt(spread / (double)reward.n));
	}
	rf_print_text(p, "</summary><div class=w><table><tr><th>");
	if (rec->rollout.tokens && y->kind) {
		rf_print_text(p, "<th>reward");
		for (int x = 0; x < y->parts; x++) {
			rf_print_text(p, "<th>");
			rf_html_string(p, y->part[x].name);
		}
	}
	if (rec->rollout.tokens && rec->advantage)
		rf_print_text(p, "<th>advantage");
	rf_print_text(p, "<th class=t>...");
	for (int t = s - before; t < s; t++)
		rf_html_token(p, h->tokens, rec->tokens, rec->T, t);
	rf_print_text(p, "\n<tr><td>text");
	for (int x = 0; x < (rec->rollout.tokens ? (y->kind ? 1 + y->parts : 0) + !!rec->advantage : 0); x++)
		rf_print_text(p, "<td>");
	rf_print_text(p, "<td class=t>");
	write_line(h, p, rec->tokens + s, n, (struct line_values){ .logp = NULL }, NULL, 0);
	if (rec->rollout.tokens)
		write_rollouts(h, p, rec, other, i, only);
	rf_print_text(p, "</table></div></details>\n");
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Appends the end of the prompt that samples or choices continue, and its references. */
static void write_prompt(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec)
{
	const int end = rec->prompt_len >= 0 ? rec->prompt_len : rec->T;

	rf_print_text(p, "<p class=f>The prompt ends:<div class=t>");
	for (int t = end > h->tokens->context ? end - h->tokens->context : 0; t < end; t++) {
		rf_print(p, "<p title=\"id %d\">", (int)rec->tokens[t]);
		rf_html_token(p, h->tokens, rec->tokens, rec->T, t);
	}
	rf_print_text(p, "</div>\n");
	for (int i = 0; i < rec->answers; i++) {
		rf_print_text(p, "<p class=f>reference: <span class=t>");
		rf_html_visible(p, rec->answer[i], strlen(rec->answer[i]));
		rf_print_text(p, "</span>");
	}
}

/* Marks the bytes of a text in which one of the record's references occurs, in any case. */
static void mark_references(const struct rf_buf *text, const struct rf_record *rec, char *marks)
{
	for (int a = 0; a < rec->answers; a++) {
		const size_t n = strlen(rec->answer[a]);

		for (size_t i = 0; n && i + n <= text->n; i++)
			if (!strncasecmp((const char *)text->p + i, rec->answer[a], n))
				memset(marks + i, 1, n);
	}
}

/* Appends the tokens of a sample; those in which a reference occurs are marked. */
static void write_answer(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec,
                         const int32_t *ids, int n)
{
	struct rf_buf text = { 0 };
	size_t *end = calloc((size_t)n + 1, sizeof *end);
	char *marks = NULL;

	for (int j = 0; end && j < n; j++) {
		if (!rf_html_token_special(h->tokens, ids[j]))
			rf_html_token_bytes(&text, h->tokens, ids[j]);
		end[j + 1] = text.n;
	}
	p->failed |= !end || text.failed || !(marks = calloc(1, text.n + 1));
	if (!p->failed)
		mark_references(&text, rec, marks);
	for (int j = 0; !p->failed && j < n; j++) {
		const bool marked = memchr(marks + end[j], 1, end[j + 1] - end[j]);

		rf_print(p, "<p title=\"id %d\">%s", (int)ids[j], marked ? "<u>" : "");
		rf_html_token(p, h->tokens, ids, n, j);
		rf_print_text(p, marked ? "</u>" : "");
	}
	free(marks);
	free(end);
	rf_buf_free(&text);
}

/* Appends all samples, or only one. */
static void write_samples(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec, int only)
{
	const struct rf_generation *g = &rec->generation;

	for (int i = only < 0 ? 0 : only; i < (only < 0 ? g->n : only + 1); i++) {
		rf_print(p, "<details open><summary><b>sample %d</b> %s, %d tokens", i, g->stop[i],
		         (int)g->length[i]);
		if (g->score)
			rf_print(p, ", score %.3f", g->score[i]);
		if (g->metric) {
			rf_print_text(p, " (");
			rf_html_visible(p, g->metric, strlen(g->metric));
			rf_print_text(p, ")");
		}
		rf_print_text(p, "</summary><div class=t>");
		write_answer(h, p, rec, g->tokens + (size_t)i * (size_t)g->m, g->length[i]);
		rf_print_text(p, "</div></details>\n");
	}
}

/* Appends all choices, or only one. */
static void write_choices(const struct rf_html *h, struct rf_buf *p, const struct rf_record *rec, int only)
{
	const struct rf_choice *c = &rec->choice;

	rf_print(p, "<div class=w><table><tr><th>choice%s%s<th>", c->logp ? "<th>log-probability" : "",
	         c->greedy ? "<th>greedy" : "");
	for (int i = only < 0 ? 0 : only; i < (only < 0 ? c->n : only + 1); i++) {
		const int from = c->from ? c->from[i] : 0;

		rf_print(p, "<tr><td>%d", i);
		if (c->logp)
			rf_print(p, "<td>%.3f", c->logp[i]);
		if (c->greedy)
			rf_print_text(p, c->greedy[i] ? "<td>yes" : "<td>no");
		rf_print_text(p, "<td class=t>");
		write_line(h, p, c->tokens + (size_t)i * (size_t)c->m + from, c->length[i] - from,
		           (struct line_values){ .logp = NULL }, NULL, 0);
	}
	rf_print_text(p, "</table></div>\n");
}

/* ---- a page -------------------------------------------------------------------------------- */

void rf_html_begin(struct rf_html *h, struct rf_buf *p)
{
	(void)h;
	rf_print_text(p, "<!doctype html>\n<html lang=en><meta charset=utf-8>"
	                 "<meta name=viewport content=\"width=device-width\">"
	                 "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
	                 "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
	                 "<title>rf-dump</title>\n<style>\n");
	rf_print_text(p, rf_html_style);
	rf_print_text(p, "</style>\n<body>\n");
}

void rf_html_stream(struct rf_html *h, struct rf_buf *p, const char *name, const struct rf_head *head)
{
	struct rf_buf text = { 0 }, message = { 0 };
	struct rf_msg m = { .seq = 0 };
	int64_t chunks;

	h->name = name;
	h->chunks =
		rf_head_asked(head, "rf-select", "chunks", &chunks) && chunks <= INT32_MAX ? (int)chunks : 0;
	rf_print_safe(&text, name, strlen(name), false);
	rf_print_text(p, h->streams++ ? "<header><details><summary>" : "<header><details open><summary>");
	rf_print_text(p, "<h1>");
	rf_html_escape(p, text.p, text.n);
	rf_print_clear(&text);
	rf_head_encode(&message, head);
	if (!message.failed && rf_msg_open(&m, message.p, message.n, NULL) == RF_OK)
		rf_record_text_head(&text, m.body);
	rf_print_text(p, "</h1></summary><pre>");
	rf_html_escape(p, text.p, text.n);
	rf_print_text(p, "</pre></details></header>\n");
	p->failed |= text.failed || message.failed;
	rf_buf_free(&text);
	rf_buf_free(&message);
}

static void write_fact(struct rf_buf *p, const char *name, double x)
{
	rf_print(p, "<span>%s %.3f</span>", name, x);
}

/* Appends the heading of a record. */
static void write_heading(struct rf_html *h, struct rf_buf *p, const struct rf_row *row)
{
	const struct rf_record *rec = row->rec;

	rf_print(p, "<section data-n=%llu", (unsigned long long)h->sections++);
	if (rec->entropy)
		rf_print(p, " data-h=%.6g", row->entropy.mean);
	if (rec->nll && rec->T > 1)
		rf_print(p, " data-l=%.6g", row->nll.mean);
	if (!isnan(row->reward.mean))
		rf_print(p, " data-r=%.6g", row->reward.mean);
	rf_print_text(p, "><h2>");
	if (h->several)
		rf_html_visible(p, h->name, strlen(h->name));
	rf_print(p, "%srecord %llu, id %llu ", h->several ? ", " : "", (unsigned long long)row->record,
	         (unsigned long long)rec->id);
	if (rec->source)
		rf_html_visible(p, rec->source, strlen(rec->source));
	rf_print(p, "</h2><p class=f><span>%d tokens</span>", rec->T);
	if (rec->entropy)
		write_fact(p, "entropy", row->entropy.mean);
	if (rec->nll && rec->T > 1)
		write_fact(p, "nll", row->nll.mean);
	if (rec->correct && rec->T > 1)
		write_fact(p, "accuracy", row->correct.mean);
	if (!isnan(row->reward.mean)) {
		write_fact(p, "reward", row->reward.mean);
		write_fact(p, "least", row->reward.min);
		write_fact(p, "most", row->reward.max);
	}
}

void rf_html_record(struct rf_html *h, struct rf_buf *p, const struct rf_row *row,
                    const struct rf_record *other)
{
	const struct rf_record *rec = row->rec;

	write_heading(h, p, row);
	if (!rec->generation.tokens && !rec->choice.tokens) {
		rf_print_text(p, "<details open><summary>text</summary>");
		write_tokens(h, p, rec, other);
		rf_print_text(p, "</details>");
	} else {
		write_prompt(h, p, rec);
	}
	for (int i = 0; i < rec->c; i++)
		write_position(h, p, rec, other, i, -1);
	if (rec->generation.tokens)
		write_samples(h, p, rec, -1);
	if (rec->choice.tokens)
		write_choices(h, p, rec, -1);
	rf_print_text(p, "</section>\n");
}

void rf_html_row(struct rf_html *h, struct rf_buf *p, const struct rf_row *row)
{
	write_heading(h, p, row);
	if (row->sample >= 0) {
		write_prompt(h, p, row->rec);
		write_samples(h, p, row->rec, row->sample);
	} else if (row->choice >= 0) {
		write_prompt(h, p, row->rec);
		write_choices(h, p, row->rec, row->choice);
	} else if (row->i >= 0) {
		write_position(h, p, row->rec, NULL, row->i, row->r);
	}
	rf_print_text(p, "</section>\n");
}

static void write_mean(struct rf_buf *p, const char *name, const struct rf_html_sum *s)
{
	if (!s->n)
		return;
	rf_print_text(p, "<span>");
	rf_html_string(p, name);
	rf_print(p, " %.4f</span>", s->sum / (double)s->n);
}

static void write_count(struct rf_buf *p, uint64_t n, const char *of)
{
	if (n)
		rf_print(p, "<span>%llu %s%s</span>", (unsigned long long)n, of, n == 1 ? "" : "s");
}

/* Appends the meaning of the colours. */
static void write_legend(const struct rf_html *h, struct rf_buf *p)
{
	static const double differences[] = { -3, -1, -.3, -.1, -.02, .02, .1, .3, 1, 3 };

	if (h->against) {
		rf_print_text(p, "less and more than the other model, nats: ");
		for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
			rf_print(p, "<span %c>&nbsp;%+g&nbsp;</span>", rf_html_difference(differences[i]),
			         differences[i]);
	} else if (h->entropy.n || h->rollouts) {
		rf_print_text(p, "nats of entropy, or of surprise in rollouts: ");
		for (int i = 0; i < RF_HTML_LEVELS; i++)
			rf_print(p, "<span %c>&nbsp;%g&nbsp;</span>", rf_html_level(rf_html_from(i)),
			         rf_html_from(i));
	}
}

void rf_html_end(struct rf_html *h, struct rf_buf *p)
{
	rf_print_text(p, "<div id=summary><p class=f>");
	write_count(p, h->records, "record");
	write_count(p, h->texts, "token");
	write_count(p, h->positions, "position");
	write_count(p, h->rollouts, "rollout");
	write_count(p, h->samples, "sample");
	if (h->shown < h->matched)
		rf_print(p, "<span>shown: %llu of %llu</span>", (unsigned long long)h->shown,
		         (unsigned long long)h->matched);
	rf_print_text(p, "<p class=f>");
	write_mean(p, "mean entropy", &h->entropy);
	write_mean(p, "mean nll", &h->nll);
	write_mean(p, "accuracy", &h->correct);
	write_mean(p, "mean reward", &h->reward);
	for (int i = 0; i < h->parts; i++)
		write_mean(p, h->part[i].name, &h->part[i]);
	write_mean(p, "mean score", &h->score);
	rf_print_text(p, "<div>");
	rf_histogram_draw(&h->rewards, "rewards", p);
	rf_histogram_draw(&h->entropies, "entropies, nats", p);
	rf_print_text(p, "</div><p class=f>");
	write_legend(h, p);
	rf_print_text(p, "<select id=sort hidden><option value=n>order of the stream"
	                 "<option value=r>highest reward first<option value=h>highest entropy first"
	                 "<option value=l>highest nll first</select></div>\n<script>");
	rf_print_text(p, rf_html_script);
	rf_print_text(p, "</script>\n");
}
