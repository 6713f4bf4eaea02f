/* rf-ntp -- trains on next tokens, and evaluates. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli_model.h"
#include "decode/eval.h"

static struct rf_trainer trainer = RF_TRAINER_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static struct rf_entropy entropy = { .work = &trainer.work, .nll = true }; /* of --eval */
static struct rf_eval sum;

static enum rf_code fits(const struct rf_head *h, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc = rf_train_find_k(&trainer.train, h, r, e);

	sum.k = trainer.train.k;
	return rc == RF_OK ? rf_train_check(&trainer.train, r, e) : rc;
}

static enum rf_code evaluate(void *arg, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc = fits(rf_in_head(stage.in), r, e);

	(void)arg;
	if (rc == RF_OK)
		rc = rf_eval_record(&entropy, r, &sum, e);
	if (rc == RF_OK && !stage.output)
		rf_meter_done(&stage.progress.meter, r->T);
	return rc;
}

static enum rf_code take(void *arg, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc = fits(rf_in_head(stage.in), r, e);

	(void)arg;
	rf_record_drop_rollout(r); /* train on next tokens only, even if the stream has rollouts */
	return rc == RF_OK ? rf_trainer_add(&trainer, r, NULL, e) : rc;
}

/* Evaluates (--eval): prints one line of JSON, and with -o writes each record's nll. */
static void eval_all(const struct rf_cli *cli, char *path)
{
	const char *const *needs = rf_eval_needs[trainer.train.loss];
	struct rf_buf line = { 0 };

	rf_work_init(&trainer.work, &trainer.engine, rf_entropy_use(&entropy));
	rf_cli_filter_open(&stage, cli, &trainer.engine, path);
	rf_engine_sign(&trainer.engine, &stage.head, false);
	if (stage.output)
		rf_stage_create(&stage);
	rf_stage_each(&stage, evaluate, NULL);
	if (!sum.tokens && sum.sequences && sum.loss && !trainer.allow_empty)
		rf_die(EX_DATAERR, "%s: no record has %s (%s; --allow-empty accepts it)",
		       rf_in_name(stage.in), needs[0], needs[1]);
	if (!sum.tokens && !trainer.allow_empty)
		rf_die(EX_DATAERR, "%s: no tokens to evaluate (--allow-empty accepts it)",
		       rf_in_name(stage.in));
	rf_cli_filter_close(&stage, &trainer.engine);
	if (sum.none && sum.loss)
		rf_say("%" PRIu64 " of %" PRIu64 " records have no %s and were not counted (%s)", sum.none,
		       sum.sequences, needs[0], needs[1]);
	rf_eval_json(&sum, &line);
	if (line.failed)
		rf_die(EX_OSERR, "out of memory");
	if (!stage.output || strcmp(stage.output, "-"))
		fwrite(line.p, 1, line.n, stdout);
	rf_buf_free(&line);
	rf_engine_close(&trainer.engine);
	rf_cli_finish();
}

static void train(const struct rf_cli *cli, char *path)
{
	trainer.train.meter = &stage.progress.meter;
	rf_cli_trainer_open(&trainer, &stage, cli, path);
	rf_stage_each(&stage, take, NULL);
	rf_cli_commit(&trainer, &stage);
	rf_stage_close(&stage);
	rf_trainer_close(&trainer);
}

int main(int argc, char *argv[])
{
	bool eval = false;
	struct rf_opts model = { 0 }, loss = { 0 }, positions = { 0 }, trains = { 0 }, stream = { 0 };
	const struct rf_opt method[] = {
		OPT_FLAG("eval", &eval,
		         "evaluate; accuracy: arg max; ntp_accuracy: expected share of drawn tokens that are "
		         "right",
		         .noted = RF_OPT_RESULT | RF_OPT_OF_BATCH),
		OPT_TEXT("grad-in", &trainer.grad_in, "file",
		         "add the gradient in this file, written by rf-grpo --grad-out"),
		OPT_END,
	};
	const struct rf_cli cli = {
		.name = "rf-ntp",
		.usage = "-m run [--at step] [options] [file]\n"
			 "       rf-ntp -m model --weights-out dir [options] [file]\n"
			 "       rf-ntp --eval -m model [options] [file]",
		.summary = "Trains a run on next tokens and commits the next step; or evaluates a model.",
		.example = "rf-cat --range 0:32 corpus.rf | rf-ntp -m RUN --at 0;  rf-ntp --eval -m RUN "
			   "valid.rf",
		.also = "rf-grpo(1), rf-init(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model.row, method, loss.row, positions.row,
		                                        trains.row, stream.row, NULL },
		.sections =
			(const struct rf_cli_section[]){
				{ "Method", "eval loss length mean mini-batch steps records ntp-coef "
		                            "position-coef outer grad-in" },
				RF_CLI_OPTIMIZER,
				RF_CLI_RANKS,
				{ "Run and files", "at keep keep-every allow-empty log weights-out output "
		                                   "max-record" },
				RF_CLI_MACHINE,
				{ NULL, NULL } },
		.max_args = 1,
		.about = rf_dev_about,
	};

	trainer.train.rl_coef = 0;
	trainer.train.engine = &trainer.engine;
	trainer.engine.fits = fits;
	rf_engine_options(&trainer.engine, "run to train; with --eval a run or a checkpoint", &model);
	rf_trainer_loss_options(&trainer, &loss);
	rf_trainer_position_options(&trainer, &loss, &positions);
	rf_cli_trainer_options(&trainer, &trains);
	rf_stage_options(&stage, "with --eval: write the records with nll and correct to this file", &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (!rf_train_needs_positions(&trainer.train))
		rf_cli_without(positions.row, "length", "requires --loss positions or --position-coef");
	if (eval) {
		rf_cli_without(method, "grad-in", "cannot be combined with --eval");
		rf_cli_without(trains.row, NULL, "cannot be combined with --eval");
		rf_cli_without(loss.row, "ntp-coef", "cannot be combined with --eval");
		rf_cli_without(loss.row, "outer", "cannot be combined with --eval");
		rf_cli_without(positions.row, "position-coef", "cannot be combined with --eval");
		sum.loss = trainer.train.loss;
		sum.mean = trainer.train.mean;
		eval_all(&cli, argv[1]);
	} else {
		rf_cli_without(stream.row, "output", "requires --eval");
		rf_cli_trainer_settle(&trainer, trains.row, loss.row);
		train(&cli, argv[1]);
	}
	return 0;
}
