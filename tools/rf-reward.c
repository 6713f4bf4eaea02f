/* rf-reward -- computes how well each rollout agrees with the text. */
#include <stdlib.h>

#include "base/rng.h"
#include "cli/cli_stage.h"
#include "refine/reward.h"
#include "refine/reward_exec.h"

static struct rf_reward_settings how = RF_REWARD_DEFAULTS;
static uint64_t step;
static unsigned long long seen, alone; /* number of records, and of those without another position */
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static struct rf_ask *exec;

static enum rf_code reward(void *arg, struct rf_record *r, struct rf_err *e)
{
	bool no_other = false;
	enum rf_code rc = rf_reward_record(&how, step, r, &no_other, e);

	(void)arg;
	seen++;
	stage.fit += r->rollout.tokens != NULL || no_other;
	alone += no_other;
	return rc;
}

static enum rf_code ask(void *arg, struct rf_record *r, struct rf_err *e)
{
	(void)arg;
	rf_progress_doing(&stage.progress, "waiting for the command");
	return rf_ask_record(exec, r, rf_in_fd(stage.in), e);
}

static enum rf_code put(void *arg, struct rf_record *r, struct rf_err *e)
{
	(void)arg;
	return rf_put(stage.out, r, e);
}

/* Stops the command, however this program ends. */
static void stop_exec(void) { rf_ask_stop(exec); }

int main(int argc, char *argv[])
{
	int64_t n;
	bool told; /* rf-rollout has reported already why no record has rollouts */
	struct rf_reward_exec_settings settings = RF_REWARD_EXEC_DEFAULTS;
	struct rf_opts opts = { 0 }, exec_opts = { 0 }, stream = { 0 };
	char name[RF_ASK_NAME];
	const struct rf_cli cli = {
		.name = "rf-reward",
		.usage = "[--kind kind | --exec command] [-o file] [options] [file]",
		.summary = "Rewards each rollout by its agreement with the text, or by a command's answer.",
		.example = "rf-rollout -m RUN selected.rf | rf-reward --kind hybrid | rf-grpo -m RUN --at 0",
		.also = "rf-rollout(1), rf-grpo(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ opts.row, exec_opts.row, stream.row, NULL },
		.max_args = 1,
	};
	struct rf_err err;

	rf_reward_options(&how, &opts);
	rf_reward_exec_options(&settings, &exec_opts);
	rf_stage_options(&stage, NULL, &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (settings.ask.model && settings.ask.tokenizer)
		rf_cli_without(exec_opts.row, "model", "cannot be combined with --tokenizer");
	if (settings.ask.command)
		rf_cli_without(opts.row, NULL, "cannot be combined with --exec");
	else
		rf_cli_without(exec_opts.row, NULL, "requires --exec");
	if (rf_reward_check(&how, &err) != RF_OK)
		rf_die_err(&err);
	if (settings.ask.command && !settings.kind)
		settings.kind = rf_reward_exec_name(settings.ask.command, name); /* for the history */

	rf_stage_open(&stage, &cli, argv[1]);
	if (settings.ask.command) {
		settings.ask.meter = &stage.progress.meter;
		stage.pass_on = ask;
		atexit(stop_exec);
	}
	rf_stage_create(&stage);
	told = rf_head_asked(&stage.head, "rf-rollout", "rollouts", &n);
	step = rf_draw_step(how.draw_step, stage.head.step);
	if (settings.ask.command &&
	    rf_reward_exec_start(&exec, &settings, &stage.head, put, NULL, &err) != RF_OK)
		rf_die_err(&err);
	rf_stage_each(&stage, reward, NULL);
	rf_progress_doing(&stage.progress, "waiting for the command");
	if (exec && rf_ask_finish(exec, &err) != RF_OK)
		rf_die_err(&err);
	rf_ask_stop(exec);
	exec = NULL;
	rf_stage_close(&stage);
	if (!told)
		rf_stage_fits(&stage, "rollouts", "rf-rollout", "");
	if (alone)
		rf_say("%llu of %llu sequences lost their rollouts: they have no other position for "
		       "--shift %d",
		       alone, seen, how.shift);
	return 0;
}
