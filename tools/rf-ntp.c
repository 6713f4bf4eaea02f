/* rf-ntp -- next-token prediction: training, and evaluation. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli_model.h"
#include "entropy.h"
#include "progress.h"
#include "stream.h"
#include "trainer.h"

static struct rf_trainer trainer = RF_TRAINER_DEFAULTS;
static struct rf_entropy pass = { .engine = &trainer.engine }; /* of --eval */
static struct rf_progress progress;

/* --eval: one line of JSON; with -o also each record's nll. */
static void evaluate(struct rf_in *in, struct rf_head *head, const char *output)
{
	struct rf_eval sum = { 0 };
	struct rf_out *out = NULL;
	struct rf_record *r;
	struct rf_err err;
	enum rf_code rc;

	rf_engine_sign(&trainer.engine, head, false);
	if (output && rf_out_open(&out, output, head, &err) != RF_OK)
		rf_die_err(&err);
	while ((rc = rf_progress_next(&progress, in, &r, &err)) == RF_OK) {
		if ((rc = rf_eval_record(&pass, r, trainer.train.loss, &sum, &err)) != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
		if (out && (rc = rf_put(out, r, &err)) != RF_OK)
			break;
	}
	rf_progress_end(&progress);
	if (rc != RF_EOF || (out && rf_out_finish(out, &err) != RF_OK))
		rf_die_err(&err);
	if (!sum.tokens && !trainer.allow_empty)
		rf_die(65, "%s: no tokens to evaluate (--allow-empty)", rf_in_name(in));
	double n = sum.tokens ? (double)sum.tokens : 1;
	if (!output || output[0] != '-' || output[1])
		printf("{\"nll\":%.9g,\"perplexity\":%.9g,\"accuracy\":%.9g,\"probability\":%.9g,\"tokens\":%" PRIu64 ",\"sequences\":%" PRIu64 "}\n",
		       sum.nll / n, exp(sum.nll / n), sum.correct / n, sum.prob / n, sum.tokens, sum.sequences);
	rf_engine_close(&trainer.engine);
	rf_cli_finish();
}

static void train(struct rf_in *in)
{
	struct rf_record *r;
	struct rf_err err;
	enum rf_code rc;

	while ((rc = rf_progress_next(&progress, in, &r, &err)) == RF_OK) {
		rf_record_drop_rollout(r); /* next tokens only, whatever the stream has */
		if ((rc = rf_trainer_add(&trainer, r, &err)) != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
	}
	rf_progress_end(&progress);
	if (rc != RF_EOF)
		rf_die_err(&err);
	rf_cli_commit(&trainer, in);
	rf_trainer_close(&trainer);
}

int main(int argc, char *argv[])
{
	const char *output = NULL;
	uint64_t max_record = RF_MAX_RECORD;
	bool eval = false;
	struct rf_opt model[8], run[10], optimizer[10], show[4];
	const struct rf_opt method[] = {
		{ "eval", 0, RF_OPT_FLAG, &eval, 0, 0, NULL, "change nothing; print mean nll, accuracy and probability", true },
		{ "loss", 0, RF_OPT_ENUM, &trainer.train.loss, 0, 0, "all|response", "tokens that count", true },
		{ "grad-in", 0, RF_OPT_TEXT, &trainer.grad_in, 0, 0, "file", "add this gradient (rf-grpo --grad-out) before the step", false },
		{ "ntp-coef", 0, RF_OPT_REAL, &trainer.train.ntp_coef, 0, 1e6, "c", "weight of the loss", true },
		{ "output", 'o', RF_OPT_TEXT, &output, 0, 0, "file", "with --eval: the records with nll and correct", false },
		{ "max-record", 0, RF_OPT_SIZE, &max_record, 0, 0, "size", "refuse records of more bytes", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-ntp",
		.usage = "-m run [--at step] [options] [file] | --eval -m model [options] [file]",
		.summary = "Trains a run on next tokens and commits the next step; or evaluates a model.",
		.example = "rf-cat --range 0:32 corpus.rf | rf-ntp -m RUN --at 0;  rf-ntp --eval -m RUN valid.rf",
		.also = "rf-grpo(1), rf-init(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model, method, run, optimizer, show, NULL },
		.max_args = 1,
	};
	struct rf_err err;
	struct rf_head head;
	struct rf_in *in;

	trainer.train.rl_coef = 0;
	rf_engine_options(&trainer.engine, model);
	rf_trainer_options(&trainer, run);
	rf_train_options(&trainer.train, optimizer);
	rf_progress_options(&progress, show);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (eval ? trainer.grad_in != NULL : output != NULL)
		rf_die(64, "--%s --eval (try --help)", eval ? "grad-in does not go with" : "output goes with");

	trainer.stop = &rf_cli_stop;
	pass.nll = output != NULL;
	if (eval) {
		trainer.engine.needs = rf_entropy_needs;
		trainer.engine.stage = &pass;
	}
	if ((eval ? rf_engine_open(&trainer.engine, NULL, false, &err) : rf_trainer_open(&trainer, &err)) != RF_OK)
		rf_die_err(&err);
	if (trainer.done_before) {
		rf_say("already at step %" PRId64, trainer.step);
		rf_cli_drain(argv[1]);
		return 0;
	}
	rf_cli_notes(&trainer.engine);
	in = rf_cli_model_input(&cli, &trainer.engine, argv[1], max_record, &head);
	if (eval)
		evaluate(in, &head, output);
	else
		train(in);
	rf_in_close(in);
	rf_head_free(&head);
	return 0;
}
