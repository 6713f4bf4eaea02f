/* eval.c -- how well a model predicts sequences: sums over the tokens that count, in the order of the
 * records. */
#include <math.h>

#include "base/jline.h"
#include "method/eval.h"

enum rf_code rf_eval_record(struct rf_entropy *s, struct rf_record *r, bool response, struct rf_eval *sum,
                            struct rf_err *e)
{
	size_t T = (size_t)r->T;
	float *entropy = rf_entropy_array(r, T, e), *logp = rf_entropy_array(r, T, e),
	      *nll = rf_entropy_array(r, T, e), *correct = rf_entropy_array(r, T, e);
	int32_t *top = rf_entropy_array(r, T, e);
	int from = response ? r->prompt_len : 1;
	uint64_t before = sum->tokens;
	enum rf_code rc;

	if (!entropy || !logp || !nll || !correct || !top)
		return RF_ENOMEM;
	if (response && r->prompt_len < 0)
		return rf_fail(e, RF_EDATA,
		               "--loss response needs prompt_len, which the record lacks (rf-tokenize "
		               "--prompt-key writes it)");
	if ((rc = rf_entropy_pass(s, r, entropy, logp, top, e)) != RF_OK)
		return rc;
	for (int t = from < 1 ? 1 : from; t < r->T; t++) {
		sum->nll -= (double)logp[t - 1];
		sum->prob += exp((double)logp[t - 1]);
		sum->correct += top[t - 1] == r->tokens[t];
		sum->tokens++;
	}
	sum->sequences++;
	sum->none += sum->tokens == before;
	if (s->nll) {
		r->entropy = entropy;
		rf_entropy_nll(r, logp, top, nll, correct);
	}
	return RF_OK;
}

void rf_eval_json(const struct rf_eval *sum, struct rf_buf *line)
{
	double n = sum->tokens ? (double)sum->tokens : 1;

	rf_jline_begin(line);
	rf_jline_real(line, "nll", sum->nll / n);
	rf_jline_real(line, "perplexity", exp(sum->nll / n));
	rf_jline_real(line, "accuracy", sum->correct / n);
	rf_jline_real(line, "probability", sum->prob / n);
	rf_jline_int(line, "tokens", (int64_t)sum->tokens);
	rf_jline_int(line, "sequences", (int64_t)sum->sequences);
	rf_jline_end(line);
}
