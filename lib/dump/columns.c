/* columns.c -- the columns as one list: the name of each, the rows that have it, the function that gets its
 * value.  The header line of a table, its cells, --where, --sort and the error that names the known columns
 * all come from this list. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dump/columns.h"
#include "dump/table.h"

static struct rf_cell whole_value(uint64_t v) { return (struct rf_cell){ RF_WHOLE, v, (double)v }; }

static struct rf_cell whole_value_if(bool there, int64_t v)
{
	return there && v >= 0 ? whole_value((uint64_t)v) : (struct rf_cell){ .is = RF_MISSING };
}

static struct rf_cell real_value(double v)
{
	return isnan(v) ? (struct rf_cell){ .is = RF_MISSING } : (struct rf_cell){ .is = RF_REAL, .real = v };
}

static struct rf_cell single_value(float v) { return (struct rf_cell){ .is = RF_SINGLE, .real = (double)v }; }

static struct rf_cell element_at(const float *x, int at, int n)
{
	return x && at >= 0 && at < n ? single_value(x[at]) : (struct rf_cell){ .is = RF_MISSING };
}

/* Returns element (i, r) of an array (c, n). */
static struct rf_cell of_group(const struct rf_row *w, const float *x, int n)
{
	if (!x || w->r < 0 || w->r >= n)
		return (struct rf_cell){ .is = RF_MISSING };
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

static struct rf_cell token_at(const struct rf_record *rec, int t)
{
	return t < 0 ? (struct rf_cell){ .is = RF_MISSING } : whole_value((uint64_t)rec->tokens[t]);
}

#define GET(name, ...) \
	static struct rf_cell get_##name(const struct rf_row *w) { return __VA_ARGS__; }
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
GET(greedy,
    whole_value_if(w->rec->choice.greedy, w->rec->choice.greedy ? w->rec->choice.greedy[w->choice] : -1))
GET(score, real_value(w->sample < 0 || !w->rec->generation.score ? NAN : w->rec->generation.score[w->sample]))
GET(step, whole_value_if(true, w->step->step))
GET(commits, whole_value_if(true, w->step->commits))
GET(bytes, whole_value(w->step ? w->step->bytes : w->tensor->bytes))

GET(rank, whole_value_if(true, w->rank->rank))
GET(exchanges, whole_value(w->rank->calls))
GET(process, whole_value_if(true, w->rank->pid))

/* Returns the seconds since the rank wrote its sign, by the clock of this machine.  A network file system may
 * have another clock. */
static struct rf_cell get_age(const struct rf_row *w)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return real_value((double)now.tv_sec + (double)now.tv_nsec * 1e-9 - w->rank->written);
}

static struct rf_cell get_s(const struct rf_row *w) { return whole_value_if(w->i >= 0, w->t + 1); }

static struct rf_cell get_chosen(const struct rf_row *w)
{
	bool chosen = false;

	for (int i = 0; i < w->rec->c; i++)
		chosen |= w->rec->positions[i] - 1 == w->t;
	return whole_value_if(w->rec->positions != NULL, chosen);
}

static struct rf_cell get_temperature(const struct rf_row *w)
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
static struct rf_cell token_mean(const struct rf_row *w, const float *x)
{
	const struct rf_rollout *o = &w->rec->rollout;

	if (w->r < 0 || !x)
		return real_value(NAN);
	return real_value(
		rf_range_of(x + rollout_of(w) * (size_t)o->k, (size_t)rf_rollout_length(o, rollout_of(w)))
			.mean);
}

static struct rf_cell get_logp(const struct rf_row *w)
{
	if (w->choice >= 0)
		return element_at(w->rec->choice.logp, w->choice, w->rec->choice.n);
	return token_mean(w, w->rec->rollout.logp);
}

GET(logp_ref, token_mean(w, w->rec->rollout.logp_ref))
GET(kept, token_mean(w, w->rec->rollout.kept))

static struct rf_cell get_advantage(const struct rf_row *w)
{
	if (w->rec->advantage_per_token)
		return token_mean(w, w->rec->advantage_per_token);
	return of_group(w, w->rec->advantage, w->rec->rollout.n);
}

static struct rf_cell get_length(const struct rf_row *w)
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
/* clang-format off */
static struct rf_cell get_reward_min(const struct rf_row *w)  { return real_value(reward_range(w).min); }
static struct rf_cell get_reward_max(const struct rf_row *w)  { return real_value(reward_range(w).max); }
/* clang-format on */

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
	R = 1 << RF_ROWS_RECORD,
	P = 1 << RF_ROWS_POSITION,
	O = 1 << RF_ROWS_ROLLOUT,
	K = 1 << RF_ROWS_TOKEN,
	G = 1 << RF_ROWS_SAMPLE,
	H = 1 << RF_ROWS_CHOICE,
	N = 1 << RF_ROWS_TENSOR,
	S = 1 << RF_ROWS_STEP,
	W = 1 << RF_ROWS_RANK,
	REC = R | P | O | K | G | H,
	ALL = REC | N | S | W,
};

const struct rf_column rf_column_list[] = {
	/* clang-format off */
	{ "file",         ALL,           0,             .write = write_file, .file = true },
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
	{ "logp_ref",     O,             0,             .get = get_logp_ref },
	{ "kept",         O,             0,             .get = get_kept },
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
	/* clang-format on */
};
const int rf_column_count = sizeof rf_column_list / sizeof *rf_column_list;
_Static_assert(sizeof rf_column_list / sizeof *rf_column_list + RF_MAX_PARTS <= RF_MAX_COLUMNS,
               "RF_MAX_COLUMNS");

const struct rf_column *rf_column_at(int column)
{
	return column < rf_column_count ? &rf_column_list[column] : NULL;
}

const char *rf_column_name(const struct rf_table *t, int column)
{
	const struct rf_column *listed = rf_column_at(column);

	return listed ? listed->name : t->part[column - rf_column_count].head;
}

struct rf_cell rf_column_value(const struct rf_table *t, int column, const struct rf_row *row)
{
	const struct rf_column *listed = rf_column_at(column);
	const struct rf_reward *y = row->rec ? &row->rec->reward : NULL;

	return listed ? listed->get(row)
	              : of_group(row, rf_part(y, t->part[column - rf_column_count].name), y->n);
}

bool rf_column_is_text(int column)
{
	const struct rf_column *listed = rf_column_at(column);

	return listed && listed->write;
}

int rf_column_find(const char *name, size_t n)
{
	for (int i = 0; i < rf_column_count; i++)
		if (strlen(rf_column_list[i].name) == n && !memcmp(rf_column_list[i].name, name, n))
			return i;
	return -1;
}

/* ---- parts of the reward ------------------------------------------------------------------- */

static const char in_reward[] = "reward.";
enum { IN_REWARD = sizeof in_reward - 1 };

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
	return rf_column_find(name, n) < 0 ? "" : in_reward;
}

int rf_column_of_part(struct rf_table *t, const char *name, size_t n, const char *option)
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
	return rf_column_count + i;
}

/* ---- columns of a table --------------------------------------------------------------------- */

static int mask_of(const struct rf_table *t) { return 1 << t->rows; }

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

enum rf_code rf_column_unknown(const struct rf_table *t, const struct rf_record *rec, const char *option,
                               const char *name, size_t n, struct rf_err *e)
{
	struct rf_buf known = { 0 };
	char quoted[60];

	for (int i = 0; i < rf_column_count; i++) {
		if (rf_column_list[i].has & mask_of(t))
			rf_print(&known, known.n ? ", %s" : "%s", rf_column_list[i].name);
		if (rf_column_list[i].parts && rf_column_list[i].has & mask_of(t))
			list_parts(rec, &known);
	}
	rf_quote(quoted, sizeof quoted, name, n);
	rf_fail(e, RF_EUSAGE, "%s: unknown column '%s'; the columns are %.*s%s%s", option, quoted,
	        (int)known.n, (char *)known.p,
	        rec ? "; if only other records have this part, use reward." : "", rec ? quoted : "");
	rf_buf_free(&known);
	return RF_EUSAGE;
}

enum rf_code rf_table_find(struct rf_table *t, const char *option, const char *name, size_t n, int *found,
                           struct rf_err *e)
{
	size_t skip = n > IN_REWARD && !memcmp(name, in_reward, IN_REWARD) ? IN_REWARD : 0;
	bool sure = skip || is_known(name, n);

	*found = rf_column_find(name, n);
	if (*found >= 0 && rf_column_list[*found].has & mask_of(t)) {
		t->stats |= rf_column_list[*found].stats;
		t->tokens |= rf_column_list[*found].tokens;
		return RF_OK;
	}
	if (*found >= 0 || t->rows != RF_ROWS_ROLLOUT || !rf_part_named(name + skip, n - skip))
		return rf_column_unknown(t, NULL, option, name, n, e);
	if ((*found = rf_column_of_part(t, name + skip, n - skip, sure ? NULL : option)) < 0)
		return rf_fail(e, RF_EUSAGE, "%s: more than %d parts of the reward", option, RF_MAX_PARTS);
	return RF_OK;
}
