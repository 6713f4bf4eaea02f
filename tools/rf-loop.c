/* rf-loop -- takes a run through a corpus: one line of the shell and one commit per batch. */
#include <limits.h>
#include <string.h>

#include "cli/cli.h"
#include "loop/loop.h"

static struct rf_loop loop = RF_LOOP_DEFAULTS;
static const char *phase;
static int stop_status = EX_TEMPFAIL;

static void say(const struct rf_loop *l, const char *text)
{
	(void)l;
	rf_say("%s: %s", phase, text);
}

static void need(const char *value, const char *option)
{
	if (!value)
		rf_die(EX_USAGE, "missing option: %s (try --help)", option);
}

int main(int argc, char *argv[])
{
	const struct rf_opt corpus[] = {
		{ "model", 'm', RF_OPT_TEXT, &loop.run, 0, 0, "run",
		  "run to train; it is begun if it does not exist", false },
		{ "from", 0, RF_OPT_TEXT, &loop.from, 0, 0, "model",
		  "checkpoint or run from which to begin the run", false },
		{ "data", 0, RF_OPT_TEXT, &loop.data, 0, 0, "file", "stream of sequences to train on",
		  false },
		{ "make", 0, RF_OPT_TEXT, &loop.make, 0, 0, "command",
		  "shell command that makes the data if they do not exist", false },
		{ "batches", 0, RF_OPT_INT, &loop.batches, 0, INT_MAX, "n",
		  "number of batches in all, those already done included", false },
		{ "epochs", 0, RF_OPT_INT, &loop.epochs, 0, INT_MAX, "n",
		  "in place of --batches: so many times all of the data; 0: not so", false },
		{ "batch", 0, RF_OPT_INT, &loop.batch, 1, INT_MAX, "n", "sequences per batch", false },
		{ "rest", 0, RF_OPT_FLAG, &loop.rest, 0, 0, NULL,
		  "an epoch's last sequences, fewer than a batch, are one too", false },
		{ "order", 0, RF_OPT_ENUM, &loop.order, 0, 0, RF_LOOP_ORDER_WORDS,
		  "order of the sequences: drawn for each epoch, or the file's", false },
		{ "seed", 0, RF_OPT_U64, &loop.seed, 0, 0, "n",
		  "random seed of the order of the sequences", false },
		{ "len", 0, RF_OPT_INT, &loop.len, 0, INT_MAX, "n",
		  "report a first batch with fewer than n / 2 tokens per sequence; 0: do not", false },
		{ "len-advice", 0, RF_OPT_TEXT, &loop.len_advice, 0, 0, "text",
		  "with --len: what the report says to do", false },
		{ "words", 0, RF_OPT_TEXT, &loop.words, 0, 0, "text",
		  "more text that must be the same when the run is continued", false },
		{ "scripts", 0, RF_OPT_TEXT, &loop.scripts, 0, 0, "files",
		  "files, one a line, that must not change while the run goes on", false },
		{ .name = NULL },
	};
	const struct rf_opt others[] = {
		{ "outputs", 0, RF_OPT_TEXT, &loop.outputs, 0, 0, "folder",
		  "in the run: $OUTPUT is a file there, for each batch", false },
		{ "count", 0, RF_OPT_ENUM, &loop.count, 0, 0, RF_LOOP_COUNT_WORDS,
		  "a batch is done when it is committed, or when $OUTPUT is there", false },
		{ "after", 0, RF_OPT_TEXT, &loop.after, 0, 0, "command",
		  "shell command to run after each commit", false },
		{ "launch", 0, RF_OPT_TEXT, &loop.launch, 0, 0, "command",
		  "start each line by this command, which makes ranks of it", false },
		{ "many", 0, RF_OPT_FLAG, &loop.many, 0, 0, NULL,
		  "start a line for all batches that are left of an epoch, which commits each", false },
		{ "commit-every", 0, RF_OPT_TEXT, &loop.commit_every, 0, 0, "n|time",
		  "with --many: $COMMIT_EVERY, batches or time between two commits", false },
		{ "keep-streams", 0, RF_OPT_FLAG, &loop.keep_streams, 0, 0, NULL,
		  "set $STREAM, so that the line keeps its streams", false },
		{ "wait", 0, RF_OPT_FLAG, &loop.wait, 0, 0, NULL,
		  "if another loop works on the run, wait for its end", false },
		{ "stop-status", 0, RF_OPT_INT, &stop_status, 0, 255, "n",
		  "exit status after the run's file 'stop' ended the loop", false },
		{ "phase", 0, RF_OPT_TEXT, &phase, 0, 0, "name",
		  "name at the start of messages; default: the run", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-loop",
		.usage = "-m run --data file [--from model] [--batches n] [--batch n] [options] -- line",
		.summary = "Trains a run on a corpus: one shell command line and one commit per batch.",
		.example = "rf-loop -m RUN --from ckpt --data corpus.rf --batches 100 --batch 128 --\n"
		           "      'rf-cat --range $FROM:$TO \"$ORDER\" | rf-ntp -m \"$RUN\" --at $AT'",
		.also = "rf-grpo(1), rf-init(1), rf-tools(7)",
		.opts = (const struct rf_opt *const[]){ corpus, others, NULL },
		.max_args = -1,
	};
	int words = rf_cli_parse(&cli, argc, argv), status;
	struct rf_err err;

	need(loop.run, "-m run");
	need(loop.data, "--data file");
	if (loop.count == RF_LOOP_OUTPUTS) {
		need(loop.outputs, "--outputs folder, for --count outputs");
		rf_cli_without(others, "after", "cannot be combined with --count outputs");
		rf_cli_without(others, "many", "cannot be combined with --count outputs");
	}
	if (!loop.many)
		rf_cli_without(others, "commit-every", "requires --many");
	if (!loop.len)
		rf_cli_without(corpus, "len-advice", "requires --len");
	if (loop.epochs)
		rf_cli_without(corpus, "batches", "cannot be combined with --epochs");
	if (loop.outputs && strchr(loop.outputs, '/'))
		rf_die(EX_USAGE, "--outputs: '%s' is not the name of a folder", loop.outputs);
	if (words == 1 && !*argv[1])
		rf_die(EX_USAGE, "the line after -- is empty (try --help)");
	if (!words)
		rf_die(EX_USAGE, "missing argument: the line to run, after -- (try --help)");
	if (words > 1)
		rf_die(EX_USAGE, "unexpected argument after the line: quote the line as one argument");
	loop.line = argv[1];
	loop.say = say;
	phase = phase ? phase : loop.run;
	status = rf_loop(&loop, &err);
	if (status == EX_TEMPFAIL && loop.stopped)
		status = stop_status;
	if (status)
		rf_die(status, "%s: %s", phase, err.msg);
	if (loop.stopped)
		rf_say("%s: %s", phase, err.msg);
	return 0;
}
