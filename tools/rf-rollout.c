/* rf-rollout -- continues each sequence below its chosen positions, or scores continuations that are there. */
#include "cli_model.h"
#include "progress.h"
#include "rollout.h"
#include "stream.h"

int main(int argc, char *argv[])
{
	struct rf_engine engine = RF_ENGINE_DEFAULTS;
	struct rf_rollouts rollouts = RF_ROLLOUTS_DEFAULTS;
	const char *output = NULL;
	uint64_t max_record = RF_MAX_RECORD;
	struct rf_progress progress = { 0 };
	struct rf_opt model[8], method[10], show[4];
	const struct rf_opt stream[] = {
		{ "output", 'o', RF_OPT_TEXT, &output, 0, 0, "file", "instead of stdout; appears whole or not at all", false },
		{ "max-record", 0, RF_OPT_SIZE, &max_record, 0, 0, "size", "refuse records of more bytes", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-rollout",
		.usage = "-m model [-k tokens] [-n rollouts] [-o file] [options] [file]",
		.summary = "Draws n continuations of k tokens at each chosen position, with their hidden states.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select -k 5 | rf-rollout -m RUN -k 5 -n 8 | rf-reward",
		.also = "rf-select(1), rf-reward(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model, method, stream, show, NULL },
		.max_args = 1,
	};
	struct rf_err err;
	struct rf_head head;
	struct rf_record *r;
	struct rf_in *in;
	struct rf_out *out;
	enum rf_code rc;

	rollouts.engine = &engine;
	rf_engine_options(&engine, model);
	rf_rollout_options(&rollouts, method);
	rf_progress_options(&progress, show);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;

	engine.needs = rf_rollout_needs;
	engine.stage = &rollouts;
	if (rf_engine_open(&engine, NULL, false, &err) != RF_OK)
		rf_die_err(&err);
	rf_cli_notes(&engine);
	in = rf_cli_model_input(&cli, &engine, argv[1], max_record, &head);
	rf_engine_sign(&engine, &head, !rollouts.score);
	if (rf_out_open(&out, output, &head, &err) != RF_OK)
		rf_die_err(&err);

	while ((rc = rf_progress_next(&progress, in, &r, &err)) == RF_OK) {
		if ((rc = rf_rollout_record(&rollouts, r, &err)) != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
		if ((rc = rf_put(out, r, &err)) != RF_OK)
			break;
	}
	rf_progress_end(&progress);
	if (rc != RF_EOF)
		rf_die_err(&err);
	if (rf_dev_sync(&engine.dev, &err) != RF_OK || rf_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	rf_in_close(in);
	rf_head_free(&head);
	rf_engine_close(&engine);
	return 0;
}
