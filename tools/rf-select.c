/* rf-select -- chooses the positions of each sequence that get rollouts. */
#include <stdlib.h>

#include "base/rng.h"
#include "cli/cli_stage.h"
#include "refine/select.h"
#include "refine/select_exec.h"

static struct rf_select how = RF_SELECT_DEFAULTS;
static struct rf_select_exec_settings command = RF_SELECT_EXEC_DEFAULTS;
static struct rf_ask *exec; /* NULL: positions are drawn here */
static uint64_t step;
/* number of sequences; of those that are too short; of those for which the command chose no position */
static unsigned long long seen, missed, none;
static struct rf_stage stage = RF_STAGE_DEFAULTS;

static enum rf_code choose(void *arg, struct rf_record *r, struct rf_err *e)
{
	bool short_one;
	enum rf_code rc = exec ? rf_select_exec_record(&command, r, &short_one, e)
	                       : rf_select_record(&how, step, r, &short_one, e);

	(void)arg;
	seen++;
	missed += short_one;
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
	none += !r->positions && r->T >= rf_select_exec_least(&command);
	return rf_put(stage.out, r, e);
}

/* Stops the command, however this program ends. */
static void stop_exec(void)
{
	rf_ask_stop(exec);
	exec = NULL;
}

static void start_exec(void)
{
	struct rf_err err;

	if (rf_select_exec_start(&exec, &command, &stage.head, put, NULL, &err) != RF_OK)
		rf_die_err(&err);
}

static void finish_exec(void)
{
	struct rf_err err;

	rf_progress_doing(&stage.progress, "waiting for the command");
	if (rf_ask_finish(exec, &err) != RF_OK)
		rf_die_err(&err);
	stop_exec();
}

/* Refuses options of the draw with --exec, and options of --exec without it. */
static void settle(struct rf_opts *method, struct rf_opts *asks)
{
	static const char *const drawn[] = { "chunks", "smooth", "tau",  "mode",
		                             "margin", "shift",  "seed", "draw-step" };

	if (command.ask.model && command.ask.tokenizer)
		rf_cli_without(asks->row, "model", "cannot be combined with --tokenizer");
	for (size_t i = 0; i < sizeof drawn / sizeof *drawn && command.ask.command; i++)
		rf_cli_without(method->row, drawn[i], "cannot be combined with --exec");
	if (how.mode == RF_SELECT_UNIFORM)
		rf_cli_without(method->row, "shift", "has no effect with --mode uniform");
	if (!command.ask.command)
		rf_cli_without(asks->row, NULL, "requires --exec");
	else
		rf_select_exec_note(&command, asks);
	command.ask.k = how.k;
	command.ask.meter = &stage.progress.meter;
	command.strict = how.strict;
	if (!how.smooth)
		how.smooth = how.k; /* so that the history has the value */
}

int main(int argc, char *argv[])
{
	struct rf_opts method = { 0 }, asks = { 0 }, stream = { 0 };
	const struct rf_cli cli = {
		.name = "rf-select",
		.usage = "[-k n] [--exec command] [-o file] [options] [file]",
		.summary = "Chooses the positions where rollouts start: one per chunk, or by a command.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select --chunks 8 -k 5 | rf-rollout -m RUN",
		.also = "rf-entropy(1), rf-rollout(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ method.row, asks.row, stream.row, NULL },
		.max_args = 1,
	};

	rf_select_options(&how, &method);
	rf_select_exec_options(&command, &asks);
	rf_stage_options(&stage, NULL, &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	settle(&method, &asks);

	rf_stage_open(&stage, &cli, argv[1]);
	if (command.ask.command)
		stage.pass_on = ask;
	atexit(stop_exec);
	rf_stage_create(&stage);
	step = rf_draw_step(how.draw_step, stage.head.step);
	if (command.ask.command)
		start_exec();
	rf_stage_each(&stage, choose, NULL);
	if (exec)
		finish_exec();
	rf_stage_close(&stage);
	if (missed && command.ask.command)
		rf_say("%llu of %llu sequences were too short and have no positions: -k needs %d tokens",
		       missed, seen, rf_select_exec_least(&command));
	else if (missed)
		rf_say("%llu of %llu sequences were too short and have no positions: --chunks, -k and "
		       "--margin need %d tokens",
		       missed, seen, rf_select_least(&how));
	if (none)
		rf_say("%llu of %llu sequences have no positions: the command chose none", none, seen);
	return 0;
}
