/* select.c -- the positions that get rollouts.
 *
 * One position per chunk spreads the positions over the sequence.  The entropies are smoothed (paper, eq. 6),
 * so that within a chunk the draw prefers places where the model is uncertain over the length of a rollout,
 * not only at a single row.  The arg max and arg min of the ablation use the entropies without smoothing. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "refine/select.h"

enum { MAX_CHUNKS = 65536, MAX_K = 65536, MAX_MARGIN = 1 << 30, MAX_SHIFT = 65536 };

void rf_select_options(struct rf_select *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("chunks", &s->chunks, 1, MAX_CHUNKS, "n",
		        "chunks per sequence; one position is chosen in each", .noted = RF_OPT_RESULT),
		OPT_INT("length", &s->k, 1, MAX_K, "tokens",
		        "tokens per rollout; they must fit after a position", .letter = 'k',
		        .noted = RF_OPT_RESULT),
		OPT_INT("smooth", &s->smooth, 0, MAX_K, "n",
		        "width of the moving average over entropies; 0: as -k", .noted = RF_OPT_RESULT),
		OPT_REAL("tau", &s->tau, 1e-6, 1e6, "x",
		         "temperature of the softmax over the averaged entropies", .noted = RF_OPT_RESULT),
		OPT_ENUM("mode", &s->mode, RF_SELECT_WORDS, "how a position is chosen",
		         .noted = RF_OPT_RESULT),
		OPT_INT("margin", &s->margin, 0, MAX_MARGIN, "n",
		        "least distance of a position from either end; nearer ones are moved",
		        .noted = RF_OPT_RESULT),
		OPT_INT("shift", &s->shift, 0, MAX_SHIFT, "n",
		        "choose token t by the entropy of row t - n; 1: the index of the paper",
		        .noted = RF_OPT_RESULT),
		OPT_U64("seed", &s->seed, "n", "random seed", .noted = RF_OPT_RESULT),
		OPT_INT("draw-step", &s->draw_step, -1, INT_MAX, "n",
		        "training step for the random numbers; -1: the step of the model",
		        .noted = RF_OPT_RESULT),
		OPT_FLAG("strict", &s->strict, "fail if a sequence is too short"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

void rf_smooth(const float *H, int T, int kernel, double *out)
{
	int half = kernel / 2;

	for (int t = 0; t < T; t++) {
		int from = t < half ? 0 : t - half, to = T - 1 - t < half ? T - 1 : t + half;
		double sum = 0;

		for (int i = from; i <= to; i++)
			sum += H[i];
		out[t] = sum / (2 * half + 1);
	}
}

void rf_select_probabilities(const double *H, int n, double tau, double *p)
{
	double max = H[0], sum = 0;

	for (int t = 1; t < n; t++)
		max = H[t] > max ? H[t] : max;
	for (int t = 0; t < n; t++)
		sum += p[t] = exp((H[t] - max) / tau);
	for (int t = 0; t < n; t++)
		p[t] /= sum;
}

int rf_draw_index(const double *p, int n, double u)
{
	double total = 0, sum = 0;
	int last = 0; /* the last index with a probability above 0 */

	for (int t = 0; t < n; t++)
		total += p[t];
	for (int t = 0; t < n; t++) {
		sum += p[t];
		if (sum > u * total)
			return t;
		if (p[t] > 0)
			last = t;
	}
	return last;
}

/* Returns the lowest index of the greatest (sign 1) or least (sign -1) entropy. */
static int index_of_extreme(const float *H, int n, int sign)
{
	int best = 0;

	for (int t = 1; t < n; t++)
		if (sign > 0 ? H[t] > H[best] : H[t] < H[best])
			best = t;
	return best;
}

/* Returns the first row at which a rollout may begin: one row must precede it. */
static int first_row(const struct rf_select *s) { return s->margin > 1 ? s->margin : 1; }
/* Returns how many rows must follow the row at which the last rollout begins, this row included. */
static int rows_after(const struct rf_select *s) { return s->k > s->margin ? s->k : s->margin; }

/* Returns the entropy of row t - shift for each token t, and 0 for the first tokens; NULL: out of memory. */
static const float *entropies_about(const struct rf_select *s, struct rf_record *r)
{
	const size_t T = (size_t)r->T, shift = s->shift < r->T ? (size_t)s->shift : T;
	float *about;

	if (!shift)
		return r->entropy;
	if ((about = rf_record_alloc(r, T, sizeof *about))) {
		memset(about, 0, shift * sizeof *about);
		memcpy(about + shift, r->entropy, (T - shift) * sizeof *about);
	}
	return about;
}

int rf_select_least(const struct rf_select *s)
{
	int both = first_row(s) + rows_after(s);

	return s->chunks > both ? s->chunks : both;
}

enum rf_code rf_select_record(const struct rf_select *s, uint64_t step, struct rf_record *r, bool *short_one,
                              struct rf_err *e)
{
	int kernel = s->smooth ? s->smooth : s->k;
	const int first = first_row(s), after = rows_after(s);
	int n = r->T / s->chunks;
	int32_t *positions;
	const float *about;
	double *H = NULL, *p = NULL;

	*short_one = false;
	if (s->mode != RF_SELECT_UNIFORM && !r->entropy)
		return rf_fail(e, RF_EDATA,
		               "the record has no entropy (rf-entropy writes it; --mode uniform needs "
		               "none)");
	rf_record_drop_rollout(r);
	r->positions = NULL;
	r->c = 0;
	if (r->T < rf_select_least(s)) {
		*short_one = true;
		if (s->strict)
			return rf_fail(e, RF_EDATA,
			               "a sequence of %d tokens is too short: %d chunks, rollouts of %d "
			               "tokens and margin %d need %d",
			               r->T, s->chunks, s->k, s->margin, rf_select_least(s));
		return RF_OK;
	}

	positions = rf_record_alloc(r, (size_t)s->chunks, sizeof *positions);
	if (s->mode == RF_SELECT_ENTROPY) {
		H = rf_record_alloc(r, (size_t)r->T, sizeof *H);
		p = rf_record_alloc(r, (size_t)n, sizeof *p);
	}
	about = s->mode == RF_SELECT_UNIFORM ? NULL : entropies_about(s, r);
	if (!positions || (s->mode == RF_SELECT_ENTROPY && (!H || !p)) ||
	    (s->mode != RF_SELECT_UNIFORM && !about))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (H)
		rf_smooth(about, r->T, kernel, H);

	for (int i = 0; i < s->chunks; i++) {
		double u = rf_draw(rf_draw_key(s->seed, RF_DRAW_SELECT, step, r->id, (uint64_t)i, 0), 0);
		/* the first `shift` tokens have no entropy: if a chunk has only such tokens, its last token
		   is taken */
		int from = s->shift > i * n ? s->shift : i * n, t, start;

		from = from < (i + 1) * n ? from : (i + 1) * n - 1;
		t = from;
		switch (s->mode) {
		case RF_SELECT_ENTROPY:
			rf_select_probabilities(H + from, (i + 1) * n - from, s->tau, p);
			t += rf_draw_index(p, (i + 1) * n - from, u);
			break;
		case RF_SELECT_UNIFORM: t = i * n + (int)(u * n); break;
		/* clang-format off */
		case RF_SELECT_MAX:     t += index_of_extreme(about + from, (i + 1) * n - from, 1); break;
		case RF_SELECT_MIN:     t += index_of_extreme(about + from, (i + 1) * n - from, -1); break;
			/* clang-format on */
		}
		start = t + 1 < first ? first : t + 1;
		positions[i] = start > r->T - after ? r->T - after : start;
	}
	r->positions = positions;
	r->c = s->chunks;
	return RF_OK;
}
