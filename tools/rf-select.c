/* rf-select -- chooses the positions of each sequence that get rollouts. */
#include <limits.h>

#include "cli.h"
#include "select.h"
#include "stream.h"

int main(int argc, char *argv[])
{
	struct rf_select select = RF_SELECT_DEFAULTS;
	const char *output = NULL;
	uint64_t max_record = RF_MAX_RECORD;
	bool strict = false, short_one;
	int draw_step = -1;
	struct rf_opt method[8];
	const struct rf_opt stream[] = {
		{ "draw-step", 0, RF_OPT_INT, &draw_step, -1, INT_MAX, "n", "step for the random numbers; -1: the model's", true },
		{ "strict", 0, RF_OPT_FLAG, &strict, 0, 0, NULL, "a sequence that is too short is an error", false },
		{ "output", 'o', RF_OPT_TEXT, &output, 0, 0, "file", "instead of stdout; appears whole or not at all", false },
		{ "max-record", 0, RF_OPT_SIZE, &max_record, 0, 0, "size", "refuse records of more bytes", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-select",
		.usage = "[-k n] [-o file] [options] [file]",
		.summary = "Chooses one position per chunk of each sequence, where rollouts will start.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select --chunks 8 -k 5 | rf-rollout -m RUN",
		.also = "rf-entropy(1), rf-rollout(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ method, stream, NULL },
		.max_args = 1,
	};
	struct rf_err err;
	struct rf_head head;
	struct rf_record *r;
	struct rf_in *in;
	struct rf_out *out;
	unsigned long long missed = 0;
	enum rf_code rc;

	rf_select_options(&select, method);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (!select.smooth)
		select.smooth = select.k; /* so that the history says it */

	in = rf_cli_input(&cli, argv[1], max_record, &head);
	if (rf_out_open(&out, output, &head, &err) != RF_OK)
		rf_die_err(&err);

	int64_t step = draw_step >= 0 ? draw_step : head.step > 0 ? head.step : 0;
	while ((rc = rf_next(in, &r, &err)) == RF_OK) {
		if ((rc = rf_select_record(&select, (uint64_t)step, r, &short_one, &err)) == RF_OK && short_one && strict)
			rc = rf_fail(&err, RF_EDATA, "%d tokens are too few for %d chunks and rollouts of %d tokens with margin %d",
			             r->T, select.chunks, select.k, select.margin);
		if (rc != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
		missed += short_one;
		if ((rc = rf_put(out, r, &err)) != RF_OK)
			break;
	}
	if (rc != RF_EOF)
		rf_die_err(&err);
	if (rf_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	if (missed)
		rf_say("%llu of %llu sequences were too short and have no positions", missed,
		       (unsigned long long)rf_in_count(in));
	rf_in_close(in);
	rf_head_free(&head);
	return 0;
}
