/* trainer_options.c -- the options that rf-grpo, rf-ntp and rf-step share. */
#include "train/trainer.h"

void rf_trainer_options(struct rf_trainer *t, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("mini-batch", &t->mini_batch, 0, 1 << 24, "n",
			"sequences per optimizer step; 0: the whole batch"),
		OPT_INT("steps", &t->steps, 0, 1 << 24, "n",
			"split the stream into n optimizer steps, instead of --mini-batch",
			.noted = RF_OPT_OF_BATCH),
		OPT_INT("records", &t->expected, 0, 1 << 24, "n",
			"number of records that the stream must have; for --steps",
			.noted = RF_OPT_OF_BATCH),
		OPT_INT("at", &t->at, -1, 1 << 30, "step",
			"step that the run must be at; a run that is past it is left as it is; -1: any",
			.noted = RF_OPT_OF_BATCH),
		OPT_INT("keep", &t->keep, 1, 1 << 30, "n", "number of newest steps to keep",
			.noted = RF_OPT_OF_BATCH),
		OPT_INT("keep-every", &t->keep_every, 0, 1 << 30, "n",
			"also keep steps whose number is a multiple of n; 0: none",
			.noted = RF_OPT_OF_BATCH),
		OPT_ENUM("on-nan", &t->on_nan, RF_ON_NAN_WORDS,
			"if a gradient is not finite: stop, or count the step but skip it"),
		OPT_TEXT("log", &t->log, "file",
			"append one line of JSON per optimizer step to this file",
			.noted = RF_OPT_OF_BATCH),
		OPT_TEXT("weights-out", &t->weights_out, "dir",
			"write a checkpoint there instead of a step; -m: any model"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

void rf_trainer_loss_options(struct rf_trainer *t, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_REAL("ntp-coef", &t->train.ntp_coef, 0, 1e6, "c", "weight of the next-token loss",
			.noted = RF_OPT_RESULT),
		OPT_ENUM("loss", &t->train.loss, RF_LOSS_WORDS,
			"tokens that count in the next-token loss", .noted = RF_OPT_RESULT),
		OPT_ENUM("mean", &t->train.mean, RF_MEAN_WORDS,
			"next-token loss: mean of all tokens, or of the sequences' means",
			.noted = RF_OPT_RESULT),
		OPT_ENUM("outer", &t->outer, RF_OUTER_WORDS,
			"response: after all steps, one more on the records' responses",
			.noted = RF_OPT_RESULT),
		OPT_FLAG("allow-empty", &t->allow_empty,
			"do nothing if the stream is empty, instead of failing",
			.noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

void rf_trainer_policy_options(struct rf_trainer *t, struct rf_opts *opts)
{
	struct rf_train *train = &t->train;
	const struct rf_opt table[] = {
		OPT_REAL("rl-coef", &train->rl_coef, 0, 1e6, "c", "weight of the policy loss",
			.noted = RF_OPT_RESULT),
		OPT_REAL("clip", &train->policy.clip, 0, 1, "eps",
			"clip the probability ratio to [1 - eps, 1 + eps]", .noted = RF_OPT_RESULT),
		OPT_REAL("dual-clip", &train->policy.dual_clip, 1, 1e6, "c",
			"where the advantage A is negative, the loss is at most -A c",
			.noted = RF_OPT_RESULT),
		OPT_FLAG("need-rollouts", &t->need_rollouts,
			"fail if no record of a batch has rollouts"),
		OPT_FLAG("log-gradients", &train->log_gradients,
			"log norms and cosine of both losses' gradients; takes twice as long"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

void rf_trainer_position_options(struct rf_trainer *t, struct rf_opts *loss, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_REAL("position-coef", &t->train.position_coef, 0, 1e6, "c",
			"also train on the text's tokens at each position, with this weight",
			.noted = RF_OPT_RESULT),
		OPT_INT("length", &t->train.k, 0, 65536, "tokens",
			"tokens that count at each position; 0: as many as rf-select was given",
			.letter = 'k', .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
	rf_opts_find(loss, "loss")->arg = RF_LOSS_WORDS_POSITIONS;
}

void rf_trainer_batch_options(struct rf_trainer *t, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("batch", &t->batch, 0, 1 << 24, "n",
			"sequences whose rollouts are made by the same weights; 0: the whole stream",
			.noted = RF_OPT_RESULT),
		OPT_TEXT("commit-every", &t->commit_every, "n|time",
			"commit every n batches, or every 10m; and the last", .noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
}
