/* trainer_options.c -- the options that rf-grpo, rf-ntp and rf-step share, and the checks of their values. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "ckpt/writer.h"
#include "io/file.h"
#include "train/grad_file.h"
#include "train/trainer_internal.h"

void rf_trainer_options(struct rf_trainer *t, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("mini-batch", &t->mini_batch, 0, 1 << 24, "n",
		        "sequences per optimizer step; 0: the whole batch"),
		OPT_INT("steps", &t->steps, 0, 1 << 24, "n",
		        "split the stream into n optimizer steps, instead of --mini-batch",
		        .noted = RF_OPT_OF_BATCH),
		OPT_INT("records", &t->expected, 0, 1 << 24, "n",
		        "number of records that the stream must have; for --steps", .noted = RF_OPT_OF_BATCH),
		OPT_INT("at", &t->at, -1, 1 << 30, "step",
		        "step that the run must be at; a run that is past it is left as it is; -1: any",
		        .noted = RF_OPT_OF_BATCH),
		OPT_INT("keep", &t->keep, 1, 1 << 30, "n", "number of newest steps to keep",
		        .noted = RF_OPT_OF_BATCH),
		OPT_INT("keep-every", &t->keep_every, 0, 1 << 30, "n",
		        "also keep steps whose number is a multiple of n; 0: none", .noted = RF_OPT_OF_BATCH),
		OPT_ENUM("on-nan", &t->on_nan, RF_ON_NAN_WORDS,
		         "if a gradient is not finite: stop, or count the step but skip it"),
		OPT_TEXT("log", &t->log, "file", "append one line of JSON per optimizer step to this file",
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
		OPT_ENUM("loss", &t->train.loss, RF_LOSS_WORDS, "tokens that count in the next-token loss",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("mean", &t->train.mean, RF_MEAN_WORDS,
		         "next-token loss: mean of all tokens, or of the sequences' means",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("outer", &t->outer, RF_OUTER_WORDS,
		         "response: after all steps, one more on the records' responses",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("allow-empty", &t->allow_empty,
		         "do nothing if the stream is empty, instead of failing", .noted = RF_OPT_OF_BATCH),
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
		OPT_FLAG("need-rollouts", &t->need_rollouts, "fail if no record of a batch has rollouts"),
		OPT_FLAG("log-gradients", &train->log_gradients,
		         "log norms and cosine of both losses' gradients; takes twice as long"),
		OPT_END,
	};

	rf_opts_add(opts, table);
	rf_policy_options(&train->policy, opts);
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

/* ---- checks -------------------------------------------------------------------------------- */

/* Reads --commit-every: "10", or "30s", "10m", "2h". */
static enum rf_code read_commit_every(struct rf_trainer *t, struct rf_err *e)
{
	static const struct {
		char unit;
		int seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 } };
	const char *text = t->commit_every;
	size_t n = text ? strlen(text) : 0;
	uint64_t number = 0;
	int unit = 0;

	if (!text)
		return RF_OK;
	for (size_t i = 0; n && i < sizeof units / sizeof *units; i++)
		if (text[n - 1] == units[i].unit)
			unit = units[i].seconds;
	n -= unit != 0;
	if (!n || !rf_number(text, n, &number) || !number || number > 1 << 30)
		return rf_fail(e, RF_EUSAGE,
		               "--commit-every: '%.40s' is neither a number of batches nor a time such as "
		               "30s, 10m or 2h",
		               text);
	t->open.every = unit ? 0 : (int64_t)number;
	t->open.every_seconds = (double)number * unit;
	return RF_OK;
}

static enum rf_code read_stale(struct rf_trainer *t, struct rf_err *e)
{
	size_t n = strlen(t->stale);
	uint64_t commits = INT64_MAX;

	if (strcmp(t->stale, "any") && (!n || !rf_number(t->stale, n, &commits) || commits > INT64_MAX))
		return rf_fail(e, RF_EUSAGE,
		               "--stale: '%.40s' is neither a number of commits nor 'any' (try --help)",
		               t->stale);
	t->open.stale_commits = (int64_t)commits;
	return RF_OK;
}

/* Checks that no options contradict each other. */
static enum rf_code check_settings(const struct rf_trainer *t, struct rf_err *e)
{
	if (t->weights_out && t->grad_out)
		return rf_fail(e, RF_EUSAGE,
		               "--weights-out cannot be combined with --grad-out, which changes no weights");
	if (!t->steps != !t->expected)
		return rf_fail(e, RF_EUSAGE,
		               "--steps and --records require each other: the records are shared among the "
		               "steps");
	if (t->steps && (t->grad_out || t->grad_in))
		return rf_fail(e, RF_EUSAGE,
		               "--steps cannot be combined with --grad-out and --grad-in, which are of one "
		               "step");
	if (t->ranks.launch && (t->grad_out || t->grad_in))
		return rf_fail(e, RF_EUSAGE,
		               "--ranks cannot be combined with --grad-out and --grad-in, which are of one "
		               "process");
	if (t->ranks.launch && t->train.sum != RF_SUM_EXACT)
		return rf_fail(e, RF_EUSAGE,
		               "--ranks requires --sum exact: only so the number of ranks changes nothing");
	if (t->outer && t->grad_out)
		return rf_fail(e, RF_EUSAGE,
		               "--outer response cannot be combined with --grad-out: it follows the steps, "
		               "and --grad-out makes none");
	if (t->train.ntp_coef == 0 && t->train.loss == RF_LOSS_POSITIONS)
		return rf_fail(e, RF_EUSAGE,
		               "--loss positions cannot be combined with --ntp-coef 0, which leaves no loss");
	if (t->train.position_coef != 0 && t->train.loss == RF_LOSS_POSITIONS)
		return rf_fail(e, RF_EUSAGE,
		               "--position-coef cannot be combined with --loss positions, which counts the "
		               "same tokens");
	if (t->outer && t->train.loss == RF_LOSS_RESPONSE)
		return rf_fail(e, RF_EUSAGE,
		               "--outer response cannot be combined with --loss response: the response of a "
		               "record is not among its tokens");
	if (t->ranks.launch && t->batch && t->mini_batch && t->batch % t->mini_batch)
		return rf_fail(e, RF_EUSAGE,
		               "--batch must be a multiple of --mini-batch with --ranks: rf-cat --shard "
		               "divides the stream by mini-batches");
	if (t->train.adamw.schedule != RF_CONSTANT && t->train.adamw.total_steps <= t->train.adamw.warmup)
		return rf_fail(e, RF_EUSAGE,
		               "--lr-schedule cosine and linear require --total-steps to be more than "
		               "--warmup (%d)",
		               t->train.adamw.warmup);
	if (t->log && !strcmp(t->log, "-"))
		return rf_fail(e, RF_EUSAGE, "--log: '-' is not a file: name one ('./-' for one named '-')");
	if (!t->engine.path)
		return rf_fail(e, RF_EUSAGE,
		               "missing option: -m RUN (rf-init --from CHECKPOINT RUN begins a run)");
	return RF_OK;
}

enum rf_code rf_trainer_check_options(struct rf_trainer *t, struct rf_err *e)
{
	enum rf_code rc;

	if ((rc = read_stale(t, e)) != RF_OK || (rc = read_commit_every(t, e)) != RF_OK)
		return rc;
	return check_settings(t, e);
}

enum rf_code rf_trainer_check_places(const struct rf_trainer *t, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	char first = '{';
	struct stat st;
	int fd;

	if (t->log && (rc = rf_file_can_write(t->log, true, e)) != RF_OK)
		return rc;
	if (t->log && stat(t->log, &st) == 0 && S_ISREG(st.st_mode) &&
	    (fd = open(t->log, O_RDONLY | O_CLOEXEC)) >= 0) {
		if (read(fd, &first, 1) < 0)
			first = '{'; /* appending will report the error */
		close(fd);
	}
	if (first != '{')
		return rf_fail(e, RF_EUSAGE,
		               "--log: %s exists and is not a log, which begins with '{': use another name",
		               t->log);
	if (t->grad_out)
		return rf_grad_file_place(t->grad_out, t->engine.path, e);
	if (t->weights_out)
		return rf_ckpt_can_replace(&t->open.run.at, t->weights_out, e);
	return t->open.run.at.config_only ? RF_OK : rf_run_can_commit(&t->open.run, e);
}
