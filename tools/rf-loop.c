/* rf-loop -- trains a run on a corpus: one shell command line and one commit for each batch. */
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
		OPT_TEXT("model", &loop.set.run, "run",
		         "run to train; created from --from if it does not exist", .letter = 'm'),
		OPT_TEXT("from", &loop.set.from, "model", "checkpoint or run from which to begin the run"),
		OPT_TEXT("data", &loop.set.data, "file", "stream of sequences to train on"),
		OPT_TEXT("make", &loop.set.make, "command",
		         "shell command that makes the data if they do not exist"),
		OPT_INT("batches", &loop.set.batches, 0, INT_MAX, "n",
		        "number of batches in all, including batches already done"),
		OPT_INT("epochs", &loop.set.epochs, 0, INT_MAX, "n",
		        "passes over the data, instead of --batches; 0: not used"),
		OPT_INT("batch", &loop.set.batch, 1, INT_MAX, "n", "sequences per batch"),
		OPT_FLAG("rest", &loop.set.rest,
		         "train also on the last sequences of an epoch, fewer than a batch"),
		OPT_ENUM("order", &loop.set.order, RF_LOOP_ORDER_WORDS,
		         "order of the sequences: drawn for each epoch, or as in the file"),
		OPT_U64("seed", &loop.set.seed, "n", "random seed of the order of the sequences"),
		OPT_INT("len", &loop.set.len, 0, INT_MAX, "n",
		        "report a first batch with fewer than n / 2 tokens per sequence; 0: do not"),
		OPT_TEXT("len-advice", &loop.set.len_advice, "text",
		         "with --len: advice at the end of the report"),
		OPT_TEXT("words", &loop.set.words, "text",
		         "more text that must be the same when the run is continued"),
		OPT_TEXT("scripts", &loop.set.scripts, "files",
		         "files, one a line, that must not change during the run"),
		OPT_END,
	};
	const struct rf_opt others[] = {
		OPT_TEXT("outputs", &loop.set.outputs, "folder",
		         "folder in the run; each batch gets a file in it as $OUTPUT"),
		OPT_ENUM("count", &loop.set.count, RF_LOOP_COUNT_WORDS,
		         "a batch is done when it is committed, or when $OUTPUT exists"),
		OPT_TEXT("after", &loop.set.after, "command", "shell command to run after each commit"),
		OPT_TEXT("launch", &loop.set.launch, "command",
		         "prefix each line with this launcher, such as 'mpirun -n 4'"),
		OPT_FLAG("many", &loop.set.many, "start one line for all batches that are left of an epoch"),
		OPT_TEXT("commit-every", &loop.set.commit_every, "n|time",
		         "with --many: batches or time between two commits ($COMMIT_EVERY)"),
		OPT_FLAG("keep-streams", &loop.set.keep_streams,
		         "set $STREAM, so that the line keeps its streams"),
		OPT_FLAG("wait", &loop.set.wait, "if another loop works on the run, wait until it ends"),
		OPT_INT("stop-status", &stop_status, 0, 255, "n",
		        "exit status after the run's file 'stop' ended the loop"),
		OPT_TEXT("phase", &phase, "name", "name at the start of messages; default: the run"),
		OPT_END,
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

	need(loop.set.run, "-m run");
	need(loop.set.data, "--data file");
	if (loop.set.count == RF_LOOP_OUTPUTS) {
		need(loop.set.outputs, "--outputs folder, for --count outputs");
		rf_cli_without(others, "after", "cannot be combined with --count outputs");
		rf_cli_without(others, "many", "cannot be combined with --count outputs");
	}
	if (!loop.set.many)
		rf_cli_without(others, "commit-every", "requires --many");
	if (!loop.set.len)
		rf_cli_without(corpus, "len-advice", "requires --len");
	if (loop.set.epochs)
		rf_cli_without(corpus, "batches", "cannot be combined with --epochs");
	if (loop.set.outputs && strchr(loop.set.outputs, '/'))
		rf_die(EX_USAGE, "--outputs: '%s' is not the name of a folder", loop.set.outputs);
	if (words == 1 && !*argv[1])
		rf_die(EX_USAGE, "the line after -- is empty (try --help)");
	if (!words)
		rf_die(EX_USAGE, "missing argument: the line to run, after -- (try --help)");
	if (words > 1)
		rf_die(EX_USAGE, "unexpected argument after the line: quote the line as one argument");
	loop.set.line = argv[1];
	loop.set.say = say;
	phase = phase ? phase : loop.set.run;
	status = rf_loop(&loop, &err);
	if (status == EX_TEMPFAIL && loop.stopped)
		status = stop_status;
	if (status)
		rf_die(status, "%s: %s", phase, err.msg);
	if (loop.stopped)
		rf_say("%s: %s", phase, err.msg);
	return 0;
}
