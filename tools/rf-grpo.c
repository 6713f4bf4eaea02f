/* rf-grpo -- trains on one batch of rollouts: advantages, policy loss, next-token loss, AdamW, commit. */
#include "cli/cli_copy.h"
#include "cli/cli_model.h"
#include "refine/advantage.h"

static struct rf_trainer trainer = RF_TRAINER_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static struct rf_copy copy;

static struct rf_group_stats groups; /* groups of the current record */
static unsigned long long replaced;  /* number of records whose own advantages were not used */

/* Computes the record's advantages, and checks that it can be trained on. */
static enum rf_code fits(const struct rf_head *h, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc;

	groups = (struct rf_group_stats){ 0, 0 };
	rc = rf_advantage_record(&trainer.train.advantage, r, &groups, e);
	if (rc == RF_OK && r->rollout.tokens && trainer.train.rl_coef != 0)
		rc = rf_trainer_check_weights(&trainer, h, e);
	return rc == RF_OK ? rf_train_check(&trainer.train, r, e) : rc;
}

static enum rf_code take(void *arg, struct rf_record *r, struct rf_err *e)
{
	const bool had = r->advantage || r->advantage_per_token;
	enum rf_code rc = fits(rf_in_head(stage.in), r, e);

	(void)arg;
	replaced += had && trainer.train.advantage.from != RF_FROM_STREAM;
	if (rc != RF_OK)
		return rc;
	stage.fit += r->rollout.tokens || trainer.train.rl_coef == 0;
	return (rc = rf_copy_put(&copy, r, e)) == RF_OK ? rf_trainer_add(&trainer, r, &groups, e) : rc;
}

int main(int argc, char *argv[])
{
	struct rf_train *train = &trainer.train;
	struct rf_opts model = { 0 }, loss = { 0 }, policy = { 0 }, group = { 0 }, trains = { 0 },
		       stream = { 0 };
	const struct rf_opt method[] = {
		OPT_TEXT("stale", &trainer.stale, "n|any",
		         "accept rollouts from weights up to n commits old; any: do not check"),
		OPT_TEXT("grad-out", &trainer.grad_out, "file",
		         "write the gradient to this file instead of updating weights"),
		OPT_END,
	};
	const struct rf_cli cli = {
		.name = "rf-grpo",
		.usage = "-m run [--at step] [options] [file]\n"
			 "       rf-grpo -m run --grad-out file [options] [file]\n"
			 "       rf-grpo -m model --weights-out dir [options] [file]",
		.summary = "Trains a run on a batch of rollouts (GRPO) and on its next tokens, and commits "
			   "the next step.",
		.example = "... | rf-reward --kind cosine | rf-grpo -m RUN --at 0 --log RUN/log.jsonl",
		.also = "rf-reward(1), rf-ntp(1), rf-init(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model.row, policy.row, loss.row, group.row, method,
		                                        trains.row, stream.row, NULL },
		/* clang-format off */
		.sections = (const struct rf_cli_section[]){
			{ "Method", "mini-batch steps records rl-coef ntp-coef loss mean outer "
			            "need-rollouts stale" },
			RF_CLI_POLICY(""),
			RF_CLI_OPTIMIZER, RF_CLI_RANKS,
			{ "Run and files", "at keep keep-every allow-empty log log-gradients grad-out "
			                   "weights-out output max-record" },
			RF_CLI_MACHINE, { NULL, NULL } },
		/* clang-format on */
		.max_args = 1,
		.about = rf_dev_about,
	};

	trainer.mini_batch = 32;
	train->meter = &stage.progress.meter;
	rf_engine_options(&trainer.engine, "run to train", &model);
	rf_trainer_loss_options(&trainer, &loss);
	rf_trainer_policy_options(&trainer, &policy);
	rf_advantage_options(&train->advantage, &group);
	rf_cli_trainer_options(&trainer, &trains);
	rf_stage_options(&stage, "write the records with their advantages to this file", &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	rf_cli_trainer_settle(&trainer, trains.row, loss.row);
	rf_cli_policy_settle(&trainer, policy.row, group.row);

	trainer.engine.fits = fits;
	rf_cli_trainer_open(&trainer, &stage, &cli, argv[1]);
	rf_copy_open(&copy, &stage, &trainer);
	rf_stage_each(&stage, take, NULL);
	rf_copy_end(&copy);
	rf_cli_commit(&trainer, &stage);
	rf_stage_close(&stage);
	rf_stage_fits(&stage, "rollouts", "rf-rollout",
	              trainer.train.ntp_coef != 0 ? ": this was training on next tokens alone" : "");
	if (replaced)
		rf_say("the advantages that %llu records had were replaced (--advantage stream trains on "
		       "them)",
		       replaced);
	rf_trainer_close(&trainer);
	if (copy.late.code != RF_OK)
		rf_die_err(&copy.late);
	return 0;
}
