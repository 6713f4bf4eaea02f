/* rf-dump -- shows streams, runs and checkpoints: text, JSON, TSV, CSV, HTML, event files; verifies them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "dump/dump.h"
#include "dump/tfevents.h"
#include "stream/stream.h"

static enum rf_code write_stdout(void *to, const char *text, size_t n, struct rf_err *e)
{
	(void)to;
	if (fwrite(text, 1, n, stdout) != n || fflush(stdout))
		return rf_fail(e, RF_EIO, "<stdout>: write: %s", strerror(errno));
	return RF_OK;
}

int main(int argc, char *argv[])
{
	struct rf_dump d = { .max_record = RF_MAX_RECORD, .show.tokens.context = 40, .write = write_stdout };
	const char *tfevents = NULL;
	bool follow = false, json = false, tsv = false, csv = false, pred = false, html = false;
	int colour = RF_COLOUR_AUTO, rows = RF_ROWS_AUTO, n;
	struct rf_progress progress = { .asked = false };
	struct rf_opts show = { 0 };
	struct rf_err err;

	const struct rf_opt forms[] = {
		OPT_FLAG("json", &json, "print JSON lines, which rf-cat --json reads"),
		OPT_FLAG("tsv", &tsv, "print a table: column names, then one line per row"),
		OPT_FLAG("csv", &csv, "print the table with commas, and with quotes around texts"),
		OPT_FLAG("html", &html, "print a page for a browser, with texts and rollouts"),
		OPT_FLAG("pred", &pred, "print samples as JSON lines with the benchmarks' own field names"),
		OPT_TEXT("tfevents", &tfevents, "DIR",
		         "write the logs of runs to DIR as TensorBoard's event files"),
		OPT_FLAG("head", &d.head, "print only the head: model, options, history"),
		OPT_FLAG("check", &d.check, "only verify, and report the complete files"),
		OPT_FLAG("no-drain", &d.no_drain, "do not read a pipe to its end after -n or --head"),
		OPT_END,
	};
	const struct rf_opt of_form[] = {
		OPT_FLAG("quiet", &d.quiet, "do not report complete files", .letter = 'q'),
		OPT_TEXT("columns", &d.table.columns, "NAME,...", "columns of --tsv or --csv, in this order"),
		OPT_FLAG("no-header", &d.no_header, "omit the column names"),
		OPT_FLAG("no-hidden", &d.no_hidden, "leave hidden states and logits out of --json"),
		OPT_TEXT("against", &d.against, "FILE",
		         "a stream with the same texts of another model, whose values are subtracted"),
		OPT_FLAG("follow", &follow, "go on with new lines of the logs until interrupted"),
		OPT_END,
	};
	const struct rf_opt picks[] = {
		OPT_ENUM("rows", &rows, RF_ROWS_WORDS, "what a row stands for"),
		OPT_TEXT("where", &d.table.where, "CONDITIONS",
		         "only rows that meet these, such as 'reward<0.1,text~\"word\"'"),
		OPT_TEXT("sort", &d.table.sort, "[-]COLUMN",
		         "sort rows by this column; with - in descending order"),
		OPT_U64("sample", &d.sample, "N", "only N random rows; 0: all"),
		OPT_U64("seed", &d.seed, "N", "random seed of --sample"),
		OPT_U64("first", &d.first, "N", "only the first N rows; 0: all", .letter = 'n'),
		OPT_FLAG("stats", &d.table.stats, "show min, max, mean, std and norm of tensors"),
		OPT_END,
	};
	const struct rf_opt looks[] = {
		OPT_TEXT("model", &d.model, "DIR", "run or checkpoint whose tokenizer to use", .letter = 'm'),
		OPT_TEXT("tokenizer", &d.tokenizer, "FILE|bytes",
		         "tokenizer file or directory; bytes: the byte tokenizer"),
		OPT_INT("context", &d.show.tokens.context, 1, 100000, "N",
		        "number of tokens to show before a position"),
		OPT_ENUM("color", &colour, RF_COLOUR_WORDS, "auto: colours on a terminal"),
		OPT_SIZE("max-record", &d.max_record, "size", "refuse larger records"),
		OPT_END,
	};
	const struct rf_cli cli = {
		.name = "rf-dump",
		.usage = "[--json | --tsv | --csv | --html | --pred | --tfevents DIR | --head | --check]\n"
			 "               [options] [file ...]",
		.summary = "Shows streams, runs and checkpoints as text, JSON lines, TSV, CSV, HTML or event "
			   "files, and verifies them.",
		.example = "rf-dump --where 'reward<0.1' --sort reward -n 20 rewarded.rf",
		.also = "rf-cat(1), rf-stream(5), rf-tools(7)",
		.opts = (const struct rf_opt *const[]){ forms, of_form, picks, looks, show.row, NULL },
		.max_args = -1,
	};

	rf_progress_options(&progress, &show);
	n = rf_cli_parse(&cli, argc, argv);
	const char *why = rf_cli_one_of(forms, (const char *const[]){ "json", "tsv", "csv", "html", "pred",
	                                                              "check", "tfevents", NULL });
	if (why && !json)
		rf_cli_without(forms, "head", why);
	if (d.head || d.check || tfevents)
		rf_cli_without(picks, NULL, d.head ? "cannot be combined with --head" : why);
	if (pred)
		rf_cli_without(picks, "rows", why);
	if (!d.check)
		rf_cli_without(of_form, "quiet", "requires --check");
	if (!tsv && !csv) {
		rf_cli_without(of_form, "columns", "requires --tsv or --csv");
		rf_cli_without(of_form, "no-header", "requires --tsv or --csv");
	}
	if (!json)
		rf_cli_without(of_form, "no-hidden", "requires --json");
	if (!html)
		rf_cli_without(of_form, "against", "requires --html");
	if (!tfevents)
		rf_cli_without(of_form, "follow", "requires --tfevents");
	else
		rf_cli_without(looks, NULL, why);
	d.form = json         ? RF_DUMP_JSON
	         : tsv || csv ? RF_DUMP_TABLE
	         : html       ? RF_DUMP_HTML
	         : pred       ? RF_DUMP_PRED
	                      : RF_DUMP_TEXT;
	d.table.rows = (enum rf_row_kind)(pred ? RF_ROWS_SAMPLE : rows);
	d.table.csv = csv;
	if (!d.model && !d.tokenizer && (d.fallback = getenv("RF_TOKENIZER")) && !*d.fallback)
		d.fallback = NULL;
	d.fallback_name = "RF_TOKENIZER";
	d.show.colour = rf_terminal_colours(colour);
	d.show.width = rf_terminal_width();
	d.meter = &progress.meter;
	if (progress.asked || !isatty(STDOUT_FILENO)) /* on a terminal the output itself shows progress */
		rf_progress_begin(&progress, cli.name, argv + 1, n);

	const char *const standard_input[] = { "-" };
	enum rf_code rc =
		tfevents ? rf_tfevents(tfevents, (const char *const *)argv + 1, n, follow, &err)
			 : rf_dump(&d, n ? (const char *const *)argv + 1 : standard_input, n ? n : 1, &err);
	if (rc != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&progress);
	if (*d.note)
		rf_say("%s", d.note);
	rf_cli_finish();
	return 0;
}
