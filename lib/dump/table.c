/* table.c -- the columns as one list: the name of each, the rows that have it, the function that gets its
 * value.  The header line of a table, its cells, --where, --sort and the error that names the known columns
 * all come from this list. */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "dump/table.h"

/* ---- columns ------------------------------------------------------------------------------- */

struct value {
	enum { MISSING, WHOLE, SINGLE, REAL } is; /* SINGLE: a float32 of the stream */
	uint64_t whole;
	double real;
};

static struct value whole_value(uint64_t v)
{
	return (struct value){ WHOLE, v, (double)v };
}

static struct value whole_value_if(bool there, int64_t v)
{
	return there && v >= 0 ? whole_value((uint64_t)v) : (struct value){ .is = MISSING };
}

static struct value real_value(double v)
{
	return isnan(v) ? (struct value){ .is = MISSING } : (struct value){ .is = REAL, .real = v };
}

static struct value single_value(float v)
{
	return (struct value){ .is = SINGLE, .real = (double)v };
}

static struct value element_at(const float *x, int at, int n)
{
	return x && at >= 0 && at < n ? single_value(x[at]) : (struct value){ .is = MISSING };
}

/* Returns element (i, r) of an array (c, n). */
static struct value of_group(const struct rf_row *w, const float *x, int n)
{
	if (!x || w->r < 0 || w->r >= n)
		return (struct value){ .is = MISSING };
	return single_value(x[(size_t)w->i * (size_t)n + (size_t)w->r]);
}

/* Returns the mean probability of the tokens; NaN without nll. */
static double mean_probability(const struct rf_record *rec)
{
	double sum = 0;

	if (!rec->nll || rec->T < 2)
		return NAN;
	for (int t = 0; t < rec->T - 1; t++)
		sum += exp(-(double)rec->nll[t]);
	return sum / (rec->T - 1);
}

static struct value token_at(const struct rf_record *rec, int t)
{
	return t < 0 ? (struct value){ .is = MISSING } : whole_value((uint64_t)rec->tokens[t]);
}

#define GET(name, ...) static struct value get_##name(const struct rf_row *w) { return __VA_ARGS__; }
GET(record, whole_value(w->record))
GET(id, whole_value(w->rec->id))
GET(T, whole_value((uint64_t)w->rec->T))
GET(prompt_len, whole_value_if(true, w->rec->prompt_len))
GET(positions, whole_value((uint64_t)w->rec->c))
GET(position, whole_value_if(true, w->i))
GET(t, whole_value_if(true, w->t))
GET(token, token_at(w->rec, w->t))
GET(entropy, element_at(w->rec->entropy, w->t, w->rec->T))
GET(nll, element_at(w->rec->nll, w->t, w->rec->T - 1))
GET(correct, element_at(w->rec->correct, w->t, w->rec->T - 1))
GET(rollout, whole_value_if(true, w->r))
GET(n, whole_value_if(w->rec->rollout.tokens, w->rec->rollout.n))
GET(k, whole_value_if(w->rec->rollout.tokens, w->rec->rollout.k))
GET(reward, of_group(w, w->rec->reward.total, w->rec->reward.n))
GET(entropy_mean, real_value(w->entropy.mean))
GET(entropy_max, real_value(w->entropy.max))
GET(nll_mean, real_value(w->nll.mean))
GET(accuracy, real_value(w->correct.mean))
GET(ntp_accuracy, real_value(mean_probability(w->rec)))
GET(count, whole_value(w->tensor->count))
GET(min, real_value(w->stats.min))
GET(max, real_value(w->stats.max))
GET(mean, real_value(w->stats.mean))
GET(std, real_value(w->stats.std))
GET(norm, real_value(w->stats.norm))
GET(nonfinite, whole_value(w->stats.nonfinite))
GET(sample, whole_value_if(true, w->sample))
GET(choice, whole_value_if(true, w->choice))
GET(from, whole_value_if(w->choice >= 0, w->rec->choice.from ? w->rec->choice.from[w->choice] : 0))
GET(greedy, whole_value_if(w->rec->choice.greedy,
                           w->rec->choice.greedy ? w->rec->choice.greedy[w->choice] : -1))
GET(score, real_value(w->sample < 0 || !w->rec->generation.score ? NAN : w->rec->generation.score[w->sample]))
GET(step, whole_value_if(true, w->step->step))
GET(commits, whole_value_if(true, w->step->commits))
GET(bytes, whole_value(w->step ? w->step->bytes : w->tensor->bytes))

GET(rank, whole_value_if(true, w->rank->rank))
GET(exchanges, whole_value(w->rank->calls))
GET(process, whole_value_if(true, w->rank->pid))

/* Returns the seconds since the rank wrote its sign, by the clock of this machine.  A network file system may
 * have another clock. */
static struct value get_age(const struct rf_row *w)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return real_value((double)now.tv_sec + (double)now.tv_nsec * 1e-9 - w->rank->written);
}

static struct value get_s(const struct rf_row *w)
{
	return whole_value_if(w->i >= 0, w->t + 1);
}

static struct value get_chosen(const struct rf_row *w)
{
	bool chosen = false;

	for (int i = 0; i < w->rec->c; i++)
		chosen |= w->rec->positions[i] - 1 == w->t;
	return whole_value_if(w->rec->positions != NULL, chosen);
}

static struct value get_temperature(const struct rf_row *w)
{
	if (w->sample >= 0)
		return real_value(w->rec->generation.temperature);
	return real_value(w->rec->rollout.tokens ? w->rec->rollout.temperature : NAN);
}

/* Returns the index of the row's rollout among all rollouts of the record. */
static size_t rollout_of(const struct rf_row *w)
{
	return (size_t)w->i * (size_t)w->rec->rollout.n + (size_t)w->r;
}

/* Returns the mean of the numbers of the rollout's tokens in an array (c, n, k). */
static struct value token_mean(const struct rf_row *w, const float *x)
{
	const struct rf_rollout *o = &w->rec->rollout;

	if (w->r < 0 || !x)
		return real_value(NAN);
	return real_value(rf_range_of(x + rollout_of(w) * (size_t)o->k,
	                              (size_t)rf_rollout_length(o, rollout_of(w))).mean);
}

static struct value get_logp(const struct rf_row *w)
{
	if (w->choice >= 0)
		return element_at(w->rec->choice.logp, w->choice, w->rec->choice.n);
	return token_mean(w, w->rec->rollout.logp);
}

static struct value get_advantage(const struct rf_row *w)
{
	if (w->rec->advantage_per_token)
		return token_mean(w, w->rec->advantage_per_token);
	return of_group(w, w->rec->advantage, w->rec->rollout.n);
}

static struct value get_length(const struct rf_row *w)
{
	if (w->choice >= 0)
		return whole_value((uint64_t)w->rec->choice.length[w->choice]);
	if (w->sample >= 0)
		return whole_value((uint64_t)w->rec->generation.length[w->sample]);
	return whole_value_if(w->r >= 0, w->r >= 0 ? rf_rollout_length(&w->rec->rollout, rollout_of(w)) : -1);
}

/* Returns the range of the rewards of the position, or of the record for a row without a position. */
static struct rf_range reward_range(const struct rf_row *w)
{
	const struct rf_reward *y = &w->rec->reward;

	return w->i < 0 || !y->kind ? w->reward
	                            : rf_range_of(y->total + (size_t)w->i * (size_t)y->n, (size_t)y->n);
}

GET(reward_mean, real_value(reward_range(w).mean))
static struct value get_reward_min(const struct rf_row *w)  { return real_value(reward_range(w).min); }
static struct value get_reward_max(const struct rf_row *w)  { return real_value(reward_range(w).max); }

static bool write_string(const char *s, struct rf_buf *p)
{
	if (s)
		rf_print_safe(p, s, strlen(s), false);
	return s != NULL;
}

#define TEXT(name, text) \
	static bool write_##name(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p) \
	{ \
		(void)g; \
		return write_string(text, p); \
	}
TEXT(file, w->file)
TEXT(source, w->rec->source)
TEXT(stop, w->sample < 0 ? NULL : w->rec->generation.stop[w->sample])
TEXT(answer, w->rec->answers > 0 ? w->rec->answer[0] : NULL)
TEXT(name, w->tensor->name)
TEXT(dtype, rf_tensor_type(w->tensor))
TEXT(host, w->rank->host)
TEXT(doing, w->rank->doing)
TEXT(weights, w->step->weights)

static bool write_prefix(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	if (w->i >= 0)
		rf_token_text_prefix(p, g, w->rec, w->t + 1);
	return w->i >= 0;
}

static bool write_truth(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	if (w->i >= 0)
		rf_token_text_truth(p, g, w->rec, w->t + 1);
	return w->i >= 0;
}

static bool write_generated(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	const struct rf_rollout *o = &w->rec->rollout;

	if (w->r >= 0)
		rf_token_text(p, g, o->tokens + rollout_of(w) * (size_t)o->k,
		              rf_rollout_length(o, rollout_of(w)), false);
	return w->r >= 0;
}

static bool write_text(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	if (w->choice >= 0)
		rf_token_text_choice(p, g, &w->rec->choice, w->choice);
	else
		rf_token_text(p, g, w->rec->tokens + w->t, 1, false);
	return true;
}

static bool write_written(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	if (w->sample >= 0)
		rf_token_text_sample(p, g, &w->rec->generation, w->sample);
	return w->sample >= 0;
}

/* Appends the prompt.  If a record has no prompt_len, its samples continue all of it, and the record itself
 * has no prompt. */
static bool write_prompt(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	const bool whole = w->rec->prompt_len < 0;

	if (whole && w->sample < 0)
		return false;
	rf_token_text(p, g, w->rec->tokens, whole ? w->rec->T : w->rec->prompt_len, false);
	return true;
}

void rf_table_shape(const struct rf_tensor *t, struct rf_buf *p)
{
	if (!t->ndim)
		rf_print_text(p, "scalar");
	for (int i = 0; i < t->ndim; i++)
		rf_print(p, i ? ",%lld" : "%lld", (long long)t->shape[i]);
}

static bool write_shape(const struct rf_row *w, const struct rf_token_text *g, struct rf_buf *p)
{
	(void)g;
	rf_table_shape(w->tensor, p);
	return true;
}

enum {
	R = 1 << RF_ROWS_RECORD, P = 1 << RF_ROWS_POSITION, O = 1 << RF_ROWS_ROLLOUT, K = 1 << RF_ROWS_TOKEN,
	G = 1 << RF_ROWS_SAMPLE, H = 1 << RF_ROWS_CHOICE, N = 1 << RF_ROWS_TENSOR, S = 1 << RF_ROWS_STEP,
	W = 1 << RF_ROWS_RANK, REC = R | P | O | K | G | H, ALL = REC | N | S | W,
};

static const struct column {
	const char *name;
	int has, shown;           /* rows that have the column; rows whose tables show it by default */
	struct value (*get)(const struct rf_row *);
	/* for a column of text: appends the text; false: the row has no text */
	bool (*write)(const struct rf_row *, const struct rf_token_text *, struct rf_buf *);
	bool stats;               /* whether the value is computed from a tensor's elements */
	bool parts;               /* whether the parts of the reward follow the column */
	bool tokens;              /* whether the value is the text of tokens */
} columns[] = {
	{ "file",         ALL,           0,             .write = write_file },
	{ "record",       REC,           0,             .get = get_record },
	{ "id",           REC,           REC,           .get = get_id },
	{ "T",            REC,           R | H,         .get = get_T },
	{ "prompt_len",   REC,           R | G,         .get = get_prompt_len },
	{ "position",     P | O,         P | O,         .get = get_position },
	{ "s",            P | O,         P | O,         .get = get_s },
	{ "t",            P | O | K,     K,             .get = get_t },
	{ "token",        P | O | K,     K,             .get = get_token },
	{ "entropy",      P | O | K,     P | O | K,     .get = get_entropy },
	{ "nll",          P | O | K,     P | K,         .get = get_nll },
	{ "correct",      P | O | K,     K,             .get = get_correct },
	{ "chosen",       K,             K,             .get = get_chosen },
	{ "positions",    R | P | O | K, R,             .get = get_positions },
	{ "n",            R | P | O,     R | P,         .get = get_n },
	{ "rollout",      O,             O,             .get = get_rollout },
	{ "k",            R | P | O,     R | P | O,     .get = get_k },
	{ "temperature",  R | P | O | G, R | G,         .get = get_temperature },
	{ "reward",       O,             O,             .get = get_reward, .parts = true },
	{ "advantage",    O,             O,             .get = get_advantage },
	{ "choice",       H,             H,             .get = get_choice },
	{ "logp",         O | H,         O | H,         .get = get_logp },
	{ "greedy",       H,             H,             .get = get_greedy },
	{ "reward_mean",  R | P | O,     R | P,         .get = get_reward_mean },
	{ "reward_min",   R | P | O,     R | P,         .get = get_reward_min },
	{ "reward_max",   R | P | O,     R | P,         .get = get_reward_max },
	{ "entropy_mean", R | P | O | K, R,             .get = get_entropy_mean },
	{ "entropy_max",  R | P | O | K, R,             .get = get_entropy_max },
	{ "nll_mean",     R | P | O | K, R,             .get = get_nll_mean },
	{ "accuracy",     R | P | O | K, R,             .get = get_accuracy },
	{ "ntp_accuracy", R,             0,             .get = get_ntp_accuracy },
	{ "source",       REC,           R | O,         .write = write_source },
	{ "prefix",       P | O,         P | O,         .write = write_prefix, .tokens = true },
	{ "generated",    O,             O,             .write = write_generated, .tokens = true },
	{ "truth",        P | O,         P | O,         .write = write_truth, .tokens = true },
	{ "text",         K | H,         K,             .write = write_text, .tokens = true },
	{ "sample",       G,             G,             .get = get_sample },
	{ "length",       O | G | H,     G | H,         .get = get_length },
	{ "from",         H,             H,             .get = get_from },
	{ "stop",         G,             G,             .write = write_stop },
	{ "score",        G,             G,             .get = get_score },
	{ "prompt",       R | G,         0,             .write = write_prompt, .tokens = true },
	{ "answer",       R | G,         G,             .write = write_answer },
	{ "written",      G,             G,             .write = write_written, .tokens = true },
	{ "name",         N,             N,             .write = write_name },
	{ "dtype",        N,             N,             .write = write_dtype },
	{ "shape",        N,             N,             .write = write_shape },
	{ "count",        N,             N,             .get = get_count },
	{ "step",         S,             S,             .get = get_step },
	{ "commits",      S,             S,             .get = get_commits },
	{ "weights",      S,             S,             .write = write_weights },
	{ "bytes",        N | S,         N | S,         .get = get_bytes },
	{ "rank",         W,             W,             .get = get_rank },
	{ "host",         W,             W,             .write = write_host },
	{ "process",      W,             W,             .get = get_process },
	{ "exchanges",    W,             W,             .get = get_exchanges },
	{ "doing",        W,             W,             .write = write_doing },
	{ "age",          W,             W,             .get = get_age },
	{ "min",          N,             N,             .get = get_min, .stats = true },
	{ "max",          N,             N,             .get = get_max, .stats = true },
	{ "mean",         N,             N,             .get = get_mean, .stats = true },
	{ "std",          N,             N,             .get = get_std, .stats = true },
	{ "norm",         N,             N,             .get = get_norm, .stats = true },
	{ "nonfinite",    N,             N,             .get = get_nonfinite, .stats = true },
};
static const int COLUMNS = sizeof columns / sizeof *columns;
_Static_assert(sizeof columns / sizeof *columns + RF_MAX_PARTS <= RF_MAX_COLUMNS, "RF_MAX_COLUMNS");

/* Returns the name of a column.  A column is an index in the list, or a part of the table if it is COLUMNS or
 * more. */
static const char *name_of(const struct rf_table *t, int column)
{
	return column < COLUMNS ? columns[column].name : t->part[column - COLUMNS].head;
}

static struct value value_of(const struct rf_table *t, int column, const struct rf_row *row)
{
	const struct rf_reward *y = row->rec ? &row->rec->reward : NULL;

	return column < COLUMNS ? columns[column].get(row)
	                        : of_group(row, rf_part(y, t->part[column - COLUMNS].name), y->n);
}

/* ---- parts of the reward ------------------------------------------------------------------- */

static const char in_reward[] = "reward.";
enum { IN_REWARD = sizeof in_reward - 1 };

/* Returns the index of a name in the list, whichever rows have the column; -1 if the list lacks it. */
static int find_listed(const char *name, size_t n)
{
	for (int i = 0; i < COLUMNS; i++)
		if (strlen(columns[i].name) == n && !memcmp(columns[i].name, name, n))
			return i;
	return -1;
}

/* Returns whether a part has a key of its own in the reward. */
static bool is_known(const char *name, size_t n)
{
	const char *known;

	for (int i = 0; (known = rf_part_known(i)); i++)
		if (strlen(known) == n && !memcmp(known, name, n))
			return true;
	return false;
}

/* Returns the prefix of a part's column: none, unless another column has the name of the part. */
static const char *part_prefix(const char *name, size_t n)
{
	return find_listed(name, n) < 0 ? "" : in_reward;
}

/* Returns the column of a part, which is added if the table lacks it; -1 if there are too many parts. */
static int part_column(struct rf_table *t, const char *name, size_t n, const char *option)
{
	struct rf_table_part *p;
	int i = 0;

	while (i < t->parts && (strlen(t->part[i].name) != n || memcmp(t->part[i].name, name, n)))
		i++;
	if (i == RF_MAX_PARTS)
		return -1;
	p = &t->part[i];
	if (i == t->parts) {
		*p = (struct rf_table_part){ .option = option };
		memcpy(p->name, name, n);
		snprintf(p->head, sizeof p->head, "%s%.*s", part_prefix(name, n), (int)n, name);
		t->parts++;
	} else if (!option) {
		p->option = NULL;
	}
	return COLUMNS + i;
}


/* ---- --columns, --where, --sort ------------------------------------------------------------ */

static int mask_of(const struct rf_table *t)
{
	return 1 << t->rows;
}

/* Appends the names of the parts' columns: first the parts with their own keys, then the other parts of the
 * record (NULL: none). */
static void list_parts(const struct rf_record *rec, struct rf_buf *to)
{
	const struct rf_reward *y = rec ? &rec->reward : NULL;

	for (int i = 0; rf_part_known(i); i++)
		rf_print(to, ", %s", rf_part_known(i));
	for (int i = 0; y && i < y->parts; i++) {
		const char *name = y->part[i].name;

		if (!is_known(name, strlen(name)))
			rf_print(to, ", %s%s", part_prefix(name, strlen(name)), name);
	}
}

/* Returns RF_EUSAGE, with a sentence that lists the known columns. */
static enum rf_code no_column(const struct rf_table *t, const struct rf_record *rec, const char *option,
                              const char *name, size_t n, struct rf_err *e)
{
	struct rf_buf known = { 0 };
	char quoted[60];

	for (int i = 0; i < COLUMNS; i++) {
		if (columns[i].has & mask_of(t))
			rf_print(&known, known.n ? ", %s" : "%s", columns[i].name);
		if (columns[i].parts && columns[i].has & mask_of(t))
			list_parts(rec, &known);
	}
	rf_quote(quoted, sizeof quoted, name, n);
	rf_fail(e, RF_EUSAGE, "%s: unknown column '%s'; the columns are %.*s%s%s", option, quoted,
	        (int)known.n, (char *)known.p,
	        rec ? "; if only other records have this part, use reward." : "", rec ? quoted : "");
	rf_buf_free(&known);
	return RF_EUSAGE;
}

/* Finds the column with a name of n bytes that an option has. */
static enum rf_code find_column(struct rf_table *t, const char *option, const char *name, size_t n,
                                int *found, struct rf_err *e)
{
	size_t skip = n > IN_REWARD && !memcmp(name, in_reward, IN_REWARD) ? IN_REWARD : 0;
	bool sure = skip || is_known(name, n);

	*found = find_listed(name, n);
	if (*found >= 0 && columns[*found].has & mask_of(t)) {
		t->stats |= columns[*found].stats;
		t->tokens |= columns[*found].tokens;
		return RF_OK;
	}
	if (*found >= 0 || t->rows != RF_ROWS_ROLLOUT || !rf_part_named(name + skip, n - skip))
		return no_column(t, NULL, option, name, n, e);
	if ((*found = part_column(t, name + skip, n - skip, sure ? NULL : option)) < 0)
		return rf_fail(e, RF_EUSAGE, "%s: more than %d parts of the reward", option, RF_MAX_PARTS);
	return RF_OK;
}

static bool is_text(int column)
{
	return column < COLUMNS && columns[column].write;
}

static size_t count_blanks(const char *s)
{
	return strspn(s, " \t");
}

static size_t name_length(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
}

enum { LT, LE, GT, GE, EQ, NE, HAS, LACKS };
/* If a word begins with another one, it stands before that one. */
static const struct { const char *word; int op; } operators[] = {
	{ "<=", LE }, { ">=", GE }, { "!=", NE }, { "==", EQ }, { "!~", LACKS }, { "<", LT }, { ">", GT },
	{ "=", EQ }, { "~", HAS },
};

/* Reads a text in quotes, in which two quotes stand for one quote, and moves *s after it.  Errors: RF_EUSAGE,
 * without a sentence: no such text begins there; RF_ENOMEM. */
static enum rf_code read_quoted(const char **s, struct rf_table_term *term, struct rf_err *e)
{
	const char *from = *s, *to;

	if (*from != '"')
		return RF_EUSAGE;
	for (to = ++from; *to && (*to != '"' || to[1] == '"'); to++)
		to += *to == '"';
	if (!*to)
		return RF_EUSAGE;
	if (!(term->text = malloc((size_t)(to - from) + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (term->n = 0; from < to; from++) {
		term->text[term->n++] = *from;
		from += *from == '"';
	}
	*s = to + 1;
	return RF_OK;
}

/* Reads the number or text that a column is compared with, and moves *s after it.  Errors: RF_EUSAGE: the
 * column cannot be compared in this way; RF_EDATA, without a sentence: there is no number; RF_ENOMEM. */
static enum rf_code read_operand(const char **s, struct rf_table_term *term, struct rf_err *e)
{
	char *end;

	if (is_text(term->column)) {
		enum rf_code rc = term->op < EQ ? RF_EUSAGE : read_quoted(s, term, e);

		return rc != RF_EUSAGE
		               ? rc
		               : rf_fail(e, rc, "--where: column '%s' is text: conditions on it are like "
		                                "%s~\"word\" (~ !~ = !=)", columns[term->column].name,
		                         columns[term->column].name);
	}
	if (term->op >= HAS)
		return rf_fail(e, RF_EUSAGE,
		               "--where: ~ and !~ are for columns of text: this one has numbers");
	term->number = strtod(*s, &end);
	if (end == *s || !isfinite(term->number))
		return RF_EDATA;
	term->is_whole = rf_number(*s, (size_t)(end - *s), &term->whole);
	*s = end;
	return RF_OK;
}

/* Reads one condition at *s, and moves *s after it and after the comma or the "and" that follows. */
static enum rf_code read_term(struct rf_table *t, const char **s, struct rf_err *e)
{
	struct rf_table_term *term = &t->term[t->terms];
	const char *at = *s + count_blanks(*s), *name = at, *end;
	size_t n = name_length(at), op;
	char quoted[60];
	enum rf_code rc;

	if (t->terms == RF_MAX_TERMS)
		return rf_fail(e, RF_EUSAGE, "--where: more than %d comparisons", RF_MAX_TERMS);
	at += n;
	at += count_blanks(at);
	for (op = 0; op < sizeof operators / sizeof *operators; op++)
		if (!strncmp(at, operators[op].word, strlen(operators[op].word)))
			break;
	if (!n || op == sizeof operators / sizeof *operators)
		goto unreadable;
	at += strlen(operators[op].word);
	at += count_blanks(at);
	if ((rc = find_column(t, "--where", name, n, &term->column, e)) != RF_OK)
		return rc;
	term->op = operators[op].op;
	t->terms++;
	if ((rc = read_operand(&at, term, e)) == RF_EDATA)
		goto unreadable;
	if (rc != RF_OK)
		return rc;
	end = at + count_blanks(at);
	if (*end == ',')
		*s = end + 1;
	else if (end > at && !strncmp(end, "and", 3) && count_blanks(end + 3))
		*s = end + 3;
	else if (!*end)
		*s = end;
	else
		goto unreadable;
	if (end != *s && !(*s)[count_blanks(*s)])
		goto unreadable;
	return RF_OK;
unreadable:
	return rf_fail(e, RF_EUSAGE,
	               "--where: '%s' is not a list of conditions like reward<0.1,text~\"word\" "
	               "(< <= > >= = != and, for text, ~ !~)",
	               rf_quote(quoted, sizeof quoted, name, strlen(name)));
}

static enum rf_code read_columns(struct rf_table *t, const char *s, struct rf_err *e)
{
	for (;; s++) {
		size_t n = strcspn(s, ",");
		enum rf_code rc;

		if (t->columns == RF_MAX_COLUMNS)
			return rf_fail(e, RF_EUSAGE, "--columns: more than %d columns", RF_MAX_COLUMNS);
		if ((rc = find_column(t, "--columns", s, n, &t->column[t->columns++], e)) != RF_OK)
			return rc;
		if (!*(s += n))
			return RF_OK;
	}
}

/* Appends the column of a part, unless the table shows it already. */
static void show_part(struct rf_table *t, const char *name)
{
	int column = part_column(t, name, strlen(name), NULL);

	for (int i = 0; i < t->columns; i++)
		if (t->column[i] == column)
			return;
	if (column >= 0)
		t->column[t->columns++] = column;
}

/* Makes the default columns the table's columns. */
static void show_default(struct rf_table *t, const struct rf_table_spec *spec)
{
	t->unasked = true;
	for (int i = 0; i < COLUMNS; i++) {
		bool shown = columns[i].write == write_file
		                     ? spec->files
		                     : columns[i].shown & mask_of(t) && (spec->stats || !columns[i].stats);

		if (shown) {
			t->column[t->columns++] = i;
			t->tokens |= columns[i].tokens;
		}
		for (int j = 0; shown && columns[i].parts && rf_part_known(j); j++)
			show_part(t, rf_part_known(j));
	}
}

/* Inserts the columns of the record's parts after the existing columns of parts. */
static void show_parts(struct rf_table *t, const struct rf_reward *y)
{
	int behind[RF_MAX_COLUMNS], last = t->columns - 1, n;

	while (last >= 0 && t->column[last] < COLUMNS && !columns[t->column[last]].parts)
		last--;
	n = t->columns - ++last;
	memcpy(behind, t->column + last, (size_t)n * sizeof *behind);
	t->columns = last;
	for (int i = 0; i < y->parts; i++)
		show_part(t, y->part[i].name);
	memcpy(t->column + t->columns, behind, (size_t)n * sizeof *behind);
	t->columns += n;
}

enum rf_code rf_table_open(struct rf_table *t, const struct rf_table_spec *spec, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	*t = (struct rf_table){ .rows = spec->rows == RF_ROWS_AUTO ? RF_ROWS_ROLLOUT : spec->rows,
	                        .sort = -1 };
	if (spec->columns)
		rc = read_columns(t, spec->columns, e);
	else
		show_default(t, spec);
	if (spec->where && rc == RF_OK)
		for (const char *s = spec->where; (rc = read_term(t, &s, e)) == RF_OK && *s;)
			;
	if (spec->sort && rc == RF_OK) {
		t->descending = *spec->sort == '-';
		rc = find_column(t, "--sort", spec->sort + t->descending, strlen(spec->sort + t->descending),
		                 &t->sort, e);
		if (rc == RF_OK && is_text(t->sort))
			rc = rf_fail(e, RF_EUSAGE, "--sort: column '%s' is text: rows are sorted by numbers",
			             columns[t->sort].name);
	}
	t->stats |= spec->stats;
	t->csv = spec->csv;
	return rc;
}

void rf_table_close(struct rf_table *t)
{
	for (int i = 0; i < t->terms; i++)
		free(t->term[i].text);
	rf_buf_free(&t->cell);
}

enum rf_code rf_table_meet(struct rf_table *t, const struct rf_record *rec, struct rf_err *e)
{
	const struct rf_reward *y = &rec->reward;

	if (t->unasked && !t->began && t->rows == RF_ROWS_ROLLOUT && y->kind)
		show_parts(t, y);
	t->began = true;
	for (int i = 0; y->kind && !t->met && i < t->parts; i++) {
		const struct rf_table_part *p = &t->part[i];

		if (p->option && !rf_part(y, p->name))
			return no_column(t, rec, p->option, p->name, strlen(p->name), e);
	}
	t->met |= y->kind != NULL;
	return RF_OK;
}

enum rf_code rf_table_end(const struct rf_table *t, struct rf_err *e)
{
	for (int i = 0; !t->met && i < t->parts; i++) {
		const struct rf_table_part *p = &t->part[i];

		if (p->option)
			return no_column(t, NULL, p->option, p->name, strlen(p->name), e);
	}
	return RF_OK;
}

/* Puts the text from offset `from` to the end of p between quotes, and doubles the quotes in it (RFC
 * 4180). */
static void quote_text(struct rf_buf *p, size_t from)
{
	struct rf_buf text = { 0 };

	rf_buf_add(&text, p->p + from, p->failed ? 0 : p->n - from);
	p->n = p->failed ? p->n : from;
	rf_print_text(p, "\"");
	for (size_t i = 0; i < text.n; i++)
		rf_buf_add(p, text.p[i] == '"' ? "\"\"" : (const char *)text.p + i, text.p[i] == '"' ? 2 : 1);
	rf_print_text(p, "\"");
	p->failed |= text.failed;
	rf_buf_free(&text);
}

void rf_table_names(const struct rf_table *t, struct rf_buf *p)
{
	for (int i = 0; i < t->columns; i++) {
		const char *name = name_of(t, t->column[i]);
		size_t from;

		if (i)
			rf_print_text(p, t->csv ? "," : "\t");
		from = p->n;
		rf_print_text(p, name);
		if (t->csv && strpbrk(name, ",\""))
			quote_text(p, from);
	}
	rf_print_text(p, "\n");
}

/* Appends a value.  digits: of a real number; a number that is computed from float32 values has at most 7.
 * Returns false if the value is missing. */
static bool write_value(struct rf_buf *p, struct value v, int digits, bool csv)
{
	switch (v.is) {
	case MISSING:
		break;
	case WHOLE:
		rf_print(p, "%llu", (unsigned long long)v.whole);
		break;
	case SINGLE:
		rf_print_single(p, (float)v.real);
		break;
	case REAL:
		if (isinf(v.real))
			rf_print_text(p, csv ? v.real > 0 ? "inf" : "-inf" : v.real > 0 ? "Inf" : "-Inf");
		else
			rf_print(p, "%.*g", digits, v.real);
	}
	return v.is != MISSING;
}

void rf_table_line(const struct rf_table *t, const struct rf_token_text *w, const struct rf_row *row,
                   struct rf_buf *p)
{
	for (int i = 0; i < t->columns; i++) {
		int at = t->column[i];

		const bool text = at < COLUMNS && columns[at].write;
		size_t from;
		bool there;

		if (i)
			rf_print_text(p, t->csv ? "," : "\t");
		from = p->n;
		there = text ? columns[at].write(row, w, p)
		             : write_value(p, value_of(t, at, row), at < COLUMNS && columns[at].stats ? 9 : 7,
		                           t->csv);
		if (!there && !t->csv)
			rf_print_text(p, "NaN");
		else if (there && text && t->csv)
			quote_text(p, from);
	}
	rf_print_text(p, "\n");
}

const char *rf_table_missing(const struct rf_table *t)
{
	for (int i = 0; i < t->terms; i++)
		if (!t->term[i].there)
			return name_of(t, t->term[i].column);
	return NULL;
}

/* Returns -1, 0 or 1: a whole number, which a double may not hold, is less than, equal to or greater than the
 * number of a condition. */
static int compare_whole(uint64_t x, const struct rf_table_term *term)
{
	const double y = term->number;
	uint64_t below = term->whole;

	if (!term->is_whole) {
		if (y < 0 || y >= 0x1p64)
			return y < 0 ? 1 : -1;
		below = (uint64_t)y;
	}
	if (x != below)
		return x < below ? -1 : 1;
	return !term->is_whole && (double)below < y ? -1 : 0;
}

/* Returns whether a condition on a number holds. */
static bool number_holds(const struct rf_table *t, struct rf_table_term *term, const struct rf_row *row)
{
	const struct value v = value_of(t, term->column, row);
	/* binary=0.2 means the float32 next to 0.2 */
	const double x = v.real, y = v.is == SINGLE ? (double)(float)term->number : term->number;
	const int sign = v.is == WHOLE ? compare_whole(v.whole, term) : (x > y) - (x < y);

	term->there |= v.is != MISSING;
	if (v.is == MISSING)
		return false;
	switch (term->op) {
	case LT: return sign < 0;
	case LE: return sign <= 0;
	case GT: return sign > 0;
	case GE: return sign >= 0;
	case EQ: return sign == 0;
	default: return sign != 0;
	}
}

/* Returns whether a condition holds for a text, as a table shows the text. */
static bool text_holds(struct rf_table *t, struct rf_table_term *term, const struct rf_token_text *w,
                       const struct rf_row *row)
{
	struct rf_buf *cell = &t->cell;
	bool has;

	rf_print_clear(cell);
	if (!columns[term->column].write(row, w, cell))
		return false;
	term->there = true;
	if (cell->failed)
		return true;
	if (term->op == HAS || term->op == LACKS)
		has = !term->n || (cell->n && memmem(cell->p, cell->n, term->text, term->n));
	else
		has = cell->n == term->n && !(term->n && memcmp(cell->p, term->text, term->n));
	return has == (term->op == HAS || term->op == EQ);
}

bool rf_table_match(struct rf_table *t, const struct rf_token_text *w, const struct rf_row *row)
{
	bool all = true;

	for (int i = 0; i < t->terms; i++) {
		struct rf_table_term *term = &t->term[i];
		const bool holds = is_text(term->column) ? text_holds(t, term, w, row)
		                                         : number_holds(t, term, row);

		all = all && holds;
	}
	return all;
}

double rf_table_key(const struct rf_table *t, const struct rf_row *row)
{
	struct value v;

	if (t->sort < 0)
		return 0;
	v = value_of(t, t->sort, row);
	return v.is == MISSING ? NAN : t->descending ? -v.real : v.real;
}
