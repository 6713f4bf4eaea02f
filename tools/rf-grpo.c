/* rf-grpo -- one batch of rollouts becomes optimizer steps: advantages, policy loss, next-token loss, AdamW, commit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advantage.h"
#include "cli_model.h"
#include "progress.h"
#include "stream.h"
#include "trainer.h"

static struct rf_trainer trainer = RF_TRAINER_DEFAULTS;
static struct rf_advantage advantage;

/* One record: advantages, the copy for -o, the trainer.  A reader of -o that leaves does not end the training: that is
 * said after the commit. */
static enum rf_code take(struct rf_record *r, const struct rf_head *head, struct rf_out **out, struct rf_err *late, struct rf_err *e)
{
	struct rf_group_stats groups = { 0, 0 };
	enum rf_code rc = rf_advantage_record(&advantage, r, &groups, e);

	if (rc == RF_OK && r->rollout.tokens && trainer.train.rl_coef != 0)
		rc = rf_trainer_check_weights(&trainer, head, e);
	if (rc != RF_OK)
		return rc;
	trainer.groups += groups.groups;
	trainer.spread_free += groups.spread_free;
	if (*out && (rc = rf_put(*out, r, late)) != RF_OK) {
		rf_out_abandon(*out);
		*out = NULL;
		if (rc != RF_EIO) {
			*e = *late;
			return rc;
		}
	}
	return rf_trainer_add(&trainer, r, e);
}

int main(int argc, char *argv[])
{
	struct rf_train *train = &trainer.train;
	const char *output = NULL;
	uint64_t max_record = RF_MAX_RECORD;
	struct rf_progress progress = { 0 };
	struct rf_opt model[8], run[10], optimizer[10], show[4];
	const struct rf_opt method[] = {
		{ "rl-coef", 0, RF_OPT_REAL, &train->rl_coef, 0, 1e6, "c", "weight of the policy loss", true },
		{ "ntp-coef", 0, RF_OPT_REAL, &train->ntp_coef, 0, 1e6, "c", "weight of the next-token loss", true },
		{ "loss", 0, RF_OPT_ENUM, &train->loss, 0, 0, "all|response", "tokens of the next-token loss", true },
		{ "clip", 0, RF_OPT_REAL, &train->policy.clip, 0, 1, "eps", "the ratio's clip", true },
		{ "dual-clip", 0, RF_OPT_REAL, &train->policy.dual_clip, 1, 1e6, "c", "bound of the loss where the advantage is negative", true },
		{ "group", 0, RF_OPT_ENUM, &advantage.group, 0, 0, "auto|sequence|position", "rollouts that are compared with one another", true },
		{ "no-std", 0, RF_OPT_FLAG, &advantage.no_std, 0, 0, NULL, "advantages are not divided by the spread", true },
		{ "allow-single", 0, RF_OPT_FLAG, &advantage.allow_single, 0, 0, NULL, "a group of one has its reward as advantage", true },
		{ "stale", 0, RF_OPT_TEXT, &trainer.stale, 0, 0, "n|any", "commits that may lie between rollouts and weights", false },
		{ "log-gradients", 0, RF_OPT_FLAG, &train->log_gradients, 0, 0, NULL, "log both losses' gradients apart; takes twice as long", false },
		{ "grad-out", 0, RF_OPT_TEXT, &trainer.grad_out, 0, 0, "file", "write the gradient instead of stepping", false },
		{ "output", 'o', RF_OPT_TEXT, &output, 0, 0, "file", "the records with their advantages", false },
		{ "max-record", 0, RF_OPT_SIZE, &max_record, 0, 0, "size", "refuse records of more bytes", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-grpo",
		.usage = "-m run [--at step] [options] [file]",
		.summary = "Trains a run on a batch of rollouts (GRPO) and on its next tokens, and commits the next step.",
		.example = "... | rf-reward --kind cosine | rf-grpo -m RUN --at 0 --log RUN/log.jsonl",
		.also = "rf-reward(1), rf-ntp(1), rf-init(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model, method, run, optimizer, show, NULL },
		.max_args = 1,
	};
	struct rf_err err, late = { .code = RF_OK };
	struct rf_head head;
	struct rf_record *r;
	struct rf_in *in;
	struct rf_out *out = NULL;
	enum rf_code rc;

	trainer.mini_batch = 32;
	rf_engine_options(&trainer.engine, model);
	rf_trainer_options(&trainer, run);
	rf_train_options(train, optimizer);
	rf_progress_options(&progress, show);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;

	rf_cli_ignore_pipe();
	trainer.stop = &rf_cli_stop;
	if (rf_trainer_open(&trainer, &err) != RF_OK)
		rf_die_err(&err);
	if (trainer.done_before) {
		rf_say("already at step %" PRId64, trainer.step);
		rf_cli_drain(argv[1]);
		return 0;
	}
	rf_cli_notes(&trainer.engine);
	in = rf_cli_model_input(&cli, &trainer.engine, argv[1], max_record, &head);
	if (output && rf_out_open(&out, output, &head, &late) != RF_OK && (late.code != RF_EIO || strcmp(output, "-")))
		rf_die_err(&late);

	while ((rc = rf_progress_next(&progress, in, &r, &err)) == RF_OK)
		if ((rc = take(r, &head, &out, &late, &err)) != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
	rf_progress_end(&progress);
	if (rc != RF_EOF)
		rf_die_err(&err);
	if (out)
		rf_out_finish(out, &late);
	rf_cli_commit(&trainer, in);
	rf_in_close(in);
	rf_head_free(&head);
	rf_trainer_close(&trainer);
	if (late.code != RF_OK)
		rf_die_err(&late);
	return 0;
}
