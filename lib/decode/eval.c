/* eval.c -- how well a model predicts sequences: sums over the tokens that count, in the order of the
 * records.  A token has the weight 1 or, for the mean of the sequences' means, 1 / the number of tokens of
 * its sequence. */
#include <math.h>

#include "base/jline.h"
#include "decode/eval.h"

const char *const rf_eval_needs[][2] = {
	[RF_LOSS_RESPONSE] = { "tokens after the prompt", "rf-tokenize --truncate left keeps answers" },
	[RF_LOSS_POSITIONS] = { "positions", "rf-select writes them" },
};

/* Adds token t.  Row t-1 has its loss. */
static void add_token(struct rf_eval *sum, const struct rf_record *r, int t, double weight)
{
	sum->nll += weight * (double)r->nll[t - 1];
	sum->prob += weight * exp(-(double)r->nll[t - 1]);
	sum->correct += weight * (double)r->correct[t - 1];
}

enum rf_code rf_eval_record(struct rf_entropy *s, struct rf_record *r, struct rf_eval *sum, struct rf_err *e)
{
	const bool response = sum->loss == RF_LOSS_RESPONSE, positions = sum->loss == RF_LOSS_POSITIONS;
	const int from = response && r->prompt_len > 1 ? r->prompt_len : 1, c = r->positions ? r->c : 0;
	const uint64_t count = positions     ? (uint64_t)c * (uint64_t)sum->k
	                       : r->T > from ? (uint64_t)(r->T - from)
	                                     : 0;
	const double weight = sum->mean == RF_MEAN_SEQUENCES && count ? 1.0 / (double)count : 1;
	const enum rf_code rc = rf_entropy_record(s, r, e);

	if (rc != RF_OK)
		return rc;
	for (int t = from; !positions && t < r->T; t++)
		add_token(sum, r, t, weight);
	for (int i = 0; positions && i < c; i++)
		for (int t = r->positions[i]; t < r->positions[i] + sum->k; t++)
			add_token(sum, r, t, weight);
	if (count)
		sum->weight += sum->mean == RF_MEAN_SEQUENCES ? 1 : (double)count;
	sum->tokens += count;
	sum->sequences++;
	sum->none += !count;
	return RF_OK;
}

void rf_eval_json(const struct rf_eval *sum, struct rf_buf *line)
{
	double n = sum->tokens ? sum->weight : 1;

	rf_jline_begin(line);
	rf_jline_real(line, "nll", sum->nll / n);
	rf_jline_real(line, "perplexity", exp(sum->nll / n));
	rf_jline_real(line, "accuracy", sum->correct / n);
	rf_jline_real(line, "ntp_accuracy", sum->prob / n);
	rf_jline_int(line, "tokens", (int64_t)sum->tokens);
	rf_jline_int(line, "sequences", (int64_t)sum->sequences);
	rf_jline_end(line);
}
