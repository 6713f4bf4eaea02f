/* trainer_options.c -- the options that rf-grpo, rf-ntp and rf-step share. */
#include "train/trainer.h"

void rf_trainer_options(struct rf_trainer *t, struct rf_opt opts[RF_TRAINER_OPTS])
{
	const struct rf_opt table[] = {
		{ "mini-batch", 0, RF_OPT_INT, &t->mini_batch, 0, 1 << 24, "n",
		  "sequences per optimizer step; 0: the whole batch", false },
		{ "steps", 0, RF_OPT_INT, &t->steps, 0, 1 << 24, "n",
		  "optimizer steps on the whole stream, instead of --mini-batch; 0: as that says",
		  RF_OPT_OF_BATCH },
		{ "records", 0, RF_OPT_INT, &t->expected, 0, 1 << 24, "n",
		  "number of records that the stream must have; for --steps", RF_OPT_OF_BATCH },
		{ "at", 0, RF_OPT_INT, &t->at, -1, 1 << 30, "step",
		  "step the run must be at; if it is past that, nothing is done; -1: any", RF_OPT_OF_BATCH },
		{ "keep", 0, RF_OPT_INT, &t->keep, 1, 1 << 30, "n", "number of newest steps to keep",
		  RF_OPT_OF_BATCH },
		{ "keep-every", 0, RF_OPT_INT, &t->keep_every, 0, 1 << 30, "n",
		  "also keep steps whose number is a multiple of n; 0: none", RF_OPT_OF_BATCH },
		{ "on-nan", 0, RF_OPT_ENUM, &t->on_nan, 0, 0, RF_ON_NAN_WORDS,
		  "if a gradient is not finite: stop, or count the step but skip it", false },
		{ "log", 0, RF_OPT_TEXT, &t->log, 0, 0, "file",
		  "append one line of JSON per optimizer step to this file", RF_OPT_OF_BATCH },
		{ "weights-out", 0, RF_OPT_TEXT, &t->weights_out, 0, 0, "dir",
		  "write a checkpoint there instead of a step; -m: any model", false },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_TRAINER_OPTS);
}

void rf_trainer_loss_options(struct rf_trainer *t, struct rf_opt opts[RF_TRAINER_LOSS_OPTS])
{
	const struct rf_opt table[] = {
		{ "ntp-coef", 0, RF_OPT_REAL, &t->train.ntp_coef, 0, 1e6, "c",
		  "weight of the next-token loss", true },
		{ "loss", 0, RF_OPT_ENUM, &t->train.loss, 0, 0, RF_LOSS_WORDS,
		  "tokens that count in the next-token loss", true },
		{ "mean", 0, RF_OPT_ENUM, &t->train.mean, 0, 0, RF_MEAN_WORDS,
		  "next-token loss: mean of all tokens, or of the sequences' means", true },
		{ "outer", 0, RF_OPT_ENUM, &t->outer, 0, 0, RF_OUTER_WORDS,
		  "response: after all steps, one more on the records' responses", true },
		{ "allow-empty", 0, RF_OPT_FLAG, &t->allow_empty, 0, 0, NULL,
		  "do nothing if the stream is empty, instead of failing",
		  RF_OPT_OF_BATCH },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_TRAINER_LOSS_OPTS);
}

void rf_trainer_policy_options(struct rf_trainer *t, struct rf_opt opts[RF_TRAINER_POLICY_OPTS])
{
	struct rf_train *train = &t->train;
	const struct rf_opt table[] = {
		{ "rl-coef", 0, RF_OPT_REAL, &train->rl_coef, 0, 1e6, "c", "weight of the policy loss",
		  true },
		{ "clip", 0, RF_OPT_REAL, &train->policy.clip, 0, 1, "eps",
		  "clip the probability ratio to 1 - eps .. 1 + eps", true },
		{ "dual-clip", 0, RF_OPT_REAL, &train->policy.dual_clip, 1, 1e6, "c",
		  "where the advantage A is negative, the loss is at most -A c", true },
		{ "need-rollouts", 0, RF_OPT_FLAG, &t->need_rollouts, 0, 0, NULL,
		  "fail if no record of a batch has rollouts", false },
		{ "log-gradients", 0, RF_OPT_FLAG, &train->log_gradients, 0, 0, NULL,
		  "log norms and cosine of both losses' gradients; takes twice as long", false },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_TRAINER_POLICY_OPTS);
}

void rf_trainer_position_options(struct rf_trainer *t, struct rf_opt loss[RF_TRAINER_LOSS_OPTS],
                                 struct rf_opt opts[RF_TRAINER_POSITION_OPTS])
{
	const struct rf_opt table[] = {
		{ "position-coef", 0, RF_OPT_REAL, &t->train.position_coef, 0, 1e6, "c",
		  "also train on the text's tokens at each position, with this weight", true },
		{ "length", 'k', RF_OPT_INT, &t->train.k, 0, 65536, "tokens",
		  "tokens that count at each position; 0: as many as rf-select was given", true },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_TRAINER_POSITION_OPTS);
	for (struct rf_opt *o = loss; o->name; o++)
		if (!strcmp(o->name, "loss"))
			o->arg = RF_LOSS_WORDS_POSITIONS;
}

void rf_trainer_batch_options(struct rf_trainer *t, struct rf_opt opts[RF_TRAINER_BATCH_OPTS])
{
	const struct rf_opt table[] = {
		{ "batch", 0, RF_OPT_INT, &t->batch, 0, 1 << 24, "n",
		  "sequences whose rollouts are made by the same weights; 0: the whole stream",
		  RF_OPT_RESULT },
		{ "commit-every", 0, RF_OPT_TEXT, &t->commit_every, 0, 0, "n|time",
		  "commit every n batches, or every 10m; and the last", RF_OPT_OF_BATCH },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_TRAINER_BATCH_OPTS);
}
