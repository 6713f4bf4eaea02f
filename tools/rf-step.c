/* rf-step -- ReFINE's whole step in one program, batch after batch. */
#include <stdlib.h>

#include "cli/cli_copy.h"
#include "cli/cli_model.h"
#include "train/step.h"

static struct rf_trainer trainer = RF_TRAINER_DEFAULTS;
static struct rf_step step = RF_STEP_DEFAULTS;
static struct rf_reference reference;
static struct rf_reward_exec_settings command = RF_REWARD_EXEC_DEFAULTS;
static struct rf_ask *exec; /* the command of the current batch; NULL: rewards are computed here */
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static struct rf_copy copy;
static struct rf_read batch;
static struct rf_group_stats *groups; /* groups of the batch's records */
static int learned;                   /* number of records of the batch that have advantages */
static struct rf_err err;

static void must(enum rf_code rc)
{
	if (rc != RF_OK)
		rf_die_err(&err);
}

/* Stops the command, however this program ends. */
static void stop_exec(void)
{
	rf_ask_stop(exec);
	exec = NULL;
}

static enum rf_code fits(const struct rf_head *h, struct rf_record *r, struct rf_err *e)
{
	(void)h;
	rf_record_drop_rollout(r);
	return rf_train_check(&trainer.train, r, e);
}

/* Computes the advantages of a record with rewards and, for the first mini-batch, its gradient.  Records come
 * in the order of the batch; with --exec they come later than they were sent. */
static enum rf_code learn(void *arg, struct rf_record *r, struct rf_err *e)
{
	(void)arg;
	if (rf_step_advantage(&step, r, e) != RF_OK || rf_step_gradient(&step, r, e) != RF_OK ||
	    rf_copy_put(&copy, r, e) != RF_OK || rf_read_replace(&batch, learned, r, e) != RF_OK)
		rf_stage_blame(&stage, &batch, learned, e);
	groups[learned++] = step.groups;
	return RF_OK;
}

/* Begins the rollouts of a batch.  Returns the number of its records in the first mini-batch. */
static int begin(void)
{
	const int first = rf_trainer_first(&trainer, batch.n);
	struct rf_totals all;

	learned = 0;
	if (!(groups = realloc(groups, ((size_t)batch.n + 1) * sizeof *groups)))
		rf_die(EX_OSERR, "out of memory (a batch)");
	rf_step_totals(&step, batch.r, first, &all);
	must(rf_trainer_announce(&trainer, &all, &err));
	must(rf_step_begin(&step, trainer.open.step, command.ask.command ? NULL : &all, &err));
	rf_engine_sign(&trainer.engine, &stage.head, true);
	if (trainer.open.unsaved.batches) /* weights that were not saved have no hash yet */
		*stage.head.weights = 0;
	stage.head.step = trainer.open.step;
	rf_copy_open(&copy, &stage, &trainer);
	if (command.ask.command)
		must(rf_reward_exec_start(&exec, &command, &stage.head, learn, NULL, &err));
	return first;
}

/* Computes the rollouts of a batch with the current weights, their rewards and their advantages. */
static void roll_out(void)
{
	const int first = begin();

	/* README shows this loop, with a line for each stage */
	/* clang-format off */
	for (int i = 0; i < batch.n; i++) {
		struct rf_record *r = batch.r[i];

		if (fits(NULL, r, &err) != RF_OK ||
		    rf_step_entropy(&step, r, i < first, &err) != RF_OK ||
		    rf_step_select(&step, r, &err) != RF_OK ||
		    rf_step_rollout(&step, r, &err) != RF_OK ||
		    rf_step_reward(&step, r, &err) != RF_OK)
			rf_stage_blame(&stage, &batch, i, &err);
		must(exec ? rf_ask_record(exec, r, -1, &err) : learn(NULL, r, &err));
	}
	/* clang-format on */
	if (exec)
		must(rf_ask_finish(exec, &err));
	stop_exec();
}

/* Trains on a batch of the stream: rollouts, then an optimizer step for each mini-batch, then the commit.
 * Returns whether another batch follows. */
static bool train(void)
{
	bool rolls = trainer.train.rl_coef != 0, more;

	rf_stage_read(&stage, &batch, rf_trainer_share(&trainer));
	must(rf_trainer_more(&trainer, batch.more, &more, &err));
	if (more && trainer.weights_out)
		rf_die(EX_USAGE,
		       "--weights-out takes one batch, but the stream has more than %d records (--batch)",
		       trainer.batch);
	if (more && stage.output && !rf_copy_many(&stage))
		rf_die(EX_USAGE,
		       "-o: '%s' is for one batch, but the stream has more than %d records "
		       "(--batch): name an existing folder",
		       stage.output, trainer.batch);
	if (rolls)
		roll_out();
	else
		rf_copy_open(&copy, &stage, &trainer);
	for (int i = 0; i < batch.n; i++)
		if ((!rolls && (fits(NULL, batch.r[i], &err) != RF_OK ||
		                rf_copy_put(&copy, batch.r[i], &err) != RF_OK)) ||
		    rf_trainer_add(&trainer, batch.r[i], rolls ? &groups[i] : NULL, &err) != RF_OK)
			rf_stage_blame(&stage, &batch, i, &err);
	rf_copy_end(&copy);
	rf_cli_end(&trainer, &stage, !more);
	return more;
}

int main(int argc, char *argv[])
{
	struct rf_opts model = { 0 }, method = { 0 }, asks = { 0 }, policy = { 0 }, loss = { 0 },
		       batches = { 0 }, trains = { 0 }, stream = { 0 };
	char name[RF_ASK_NAME];
	const struct rf_cli cli = {
		.name = "rf-step",
		.usage = "-m run [--at step] [--batch n] [options] [file]\n"
			 "       rf-step -m model --weights-out dir [options] [file]",
		.summary = "Trains with ReFINE: rf-entropy to rf-grpo in one program, batch after batch.",
		.example = "rf-cat --range 0:640 corpus.rf | rf-step -m RUN --at 0 --mini-batch 32",
		.also = "rf-grpo(1), rf-rollout(1), rf-reward(1), rf-stream(5)",
		/* clang-format off */
		.opts = (const struct rf_opt *const[]){ model.row, method.row, asks.row, policy.row,
		                                        loss.row, batches.row, trains.row,
		                                        stream.row, NULL },
		.sections = (const struct rf_cli_section[]){
			{ "Positions and rollouts", "chunks length smooth tau mode margin select-shift "
			  "strict rollouts temperature top-p top-k eos seed draw-step" },
			{ "Rewards", "kind shift per-token exec text tokenizer no-hidden kind-name timeout "
			             "queue-limit" },
			{ "Losses", "batch mini-batch rl-coef ntp-coef loss mean outer need-rollouts" },
			RF_CLI_POLICY("reference "),
			RF_CLI_OPTIMIZER, RF_CLI_RANKS,
			{ "Run and files", "at commit-every keep keep-every allow-empty log log-gradients "
			                   "weights-out output max-record" },
			RF_CLI_MACHINE, { NULL, NULL } }, .about = rf_dev_about,
		/* clang-format on */
		.max_args = 1,
	};

	trainer.batch = 128;
	trainer.mini_batch = 32;
	trainer.commit_every = "1";
	trainer.train.meter = &stage.progress.meter;
	step.train = &trainer.train;
	rf_engine_options(&trainer.engine, "run to train", &model);
	rf_step_options(&step, &method);
	rf_reward_exec_options(&command, &asks);
	rf_opts_remove(&asks, "model");
	rf_trainer_policy_options(&trainer, &policy);
	rf_reference_options(&reference, &policy);
	rf_trainer_loss_options(&trainer, &loss);
	rf_trainer_batch_options(&trainer, &batches);
	rf_cli_trainer_options(&trainer, &trains);
	rf_opts_remove(&trains, "steps records");
	rf_stage_options(&stage, "write the records with their advantages to this file", &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	rf_cli_trainer_settle(&trainer, trains.row, loss.row);
	if (trainer.weights_out)
		rf_cli_without(batches.row, "commit-every", "cannot be combined with --weights-out");
	rf_cli_policy_settle(&trainer, policy.row, method.row);
	step.reference = rf_cli_reference_settle(&trainer, &reference, policy.row);
	if (command.ask.command) {
		rf_cli_without(method.row, "kind", "cannot be combined with --exec");
		rf_cli_without(method.row, "shift", "cannot be combined with --exec");
		rf_cli_without(method.row, "per-token", "cannot be combined with --exec");
	} else {
		rf_cli_without(asks.row, NULL, "requires --exec");
	}
	if (command.ask.command && !command.kind)
		command.kind = rf_reward_exec_name(command.ask.command, name);
	command.ask.model = command.ask.tokenizer ? NULL : trainer.engine.path;
	must(rf_step_settle(&step, &command, &err));
	atexit(stop_exec);
	rf_work_init(&trainer.work, &trainer.engine,
	             rf_step_use(&step, &trainer.work, rf_train_use(&trainer.train)));
	trainer.engine.fits = fits;
	rf_cli_trainer_open(&trainer, &stage, &cli, argv[1]);
	rf_cli_fit_end(&trainer.engine);
	rf_cli_reference_open(&trainer, step.reference, &stage);
	while (train())
		rf_cli_batch(&trainer, &stage);
	rf_stage_close(&stage);
	rf_step_remark(&step, stage.records, rf_say);
	rf_reference_close(step.reference);
	rf_trainer_close(&trainer);
	if (copy.late.code != RF_OK)
		rf_die_err(&copy.late);
	return 0;
}
