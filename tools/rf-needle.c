/* rf-needle -- writes prompts whose answers are hidden in a long context. */
#include "cli/cli.h"
#include "cli/progress.h"
#include "io/file.h"
#include "io/lines_out.h"
#include "needle/needle.h"

static struct rf_needle_settings how = RF_NEEDLE_DEFAULTS;
static struct rf_skip skip = { .first = rf_cli_skip };
static struct rf_progress progress;
static const char *output;

static const struct rf_opt own[] = {
	OPT_TEXT("output", &output, "file", "write to this file, not to stdout; compressed if named .zst",
	         .letter = 'o'),
	OPT_END,
};

static void keep_input(const char *input)
{
	if (input && output && rf_file_same(output, input))
		rf_die(EX_USAGE, "%s is an input, so it cannot be the output", output);
}

int main(int argc, char *argv[])
{
	struct rf_opts needles = { 0 }, bad = { 0 }, show = { 0 };
	const struct rf_cli cli = {
		.name = "rf-needle",
		.usage = "--task name,... --tokenizer bytes|dir|file [-o file] [options]",
		.summary = "Writes prompts whose answers are hidden in a long context, as JSON lines.",
		.example = "rf-needle --task niah_single_1,vt --length 4k,8k --tokenizer ckpt -o "
			   "needles.jsonl.zst",
		.also = "rf-tokenize(1), rf-generate(1), rf-score(1)",
		.opts = (const struct rf_opt *const[]){ needles.row, bad.row, own, show.row, NULL },
		.sections =
			(const struct rf_cli_section[]){
				{ "Samples", "task length samples skip-short range digits seed "
		                             "tokenizer" },
				{ "Texts", "haystack qa skip-bad adjectives nouns template" },
				{ "Output", "output progress" },
				{ NULL, NULL } },
	};
	struct rf_needle *needle;
	struct rf_lines_out *out;
	struct rf_buf line = { 0 };
	struct rf_err err;
	enum rf_code rc;
	int tokens;

	rf_needle_options(&how, &needles);
	rf_skip_options(&skip, &bad);
	how.skip = &skip;
	rf_progress_options(&progress, &show);
	rf_cli_parse(&cli, argc, argv);
	keep_input(how.tokenizer);
	keep_input(how.haystack);
	keep_input(how.adjectives);
	keep_input(how.nouns);
	keep_input(how.templates);
	for (int i = 0; i < how.qa.n; i++)
		keep_input(how.qa.s[i]);
	if (rf_needle_open(&needle, &how, &err) != RF_OK || rf_lines_out_open(&out, output, &err) != RF_OK)
		rf_die_err(&err);
	if (*rf_needle_warning(needle))
		rf_say("%s: warning: %s", how.tokenizer, rf_needle_warning(needle));
	rf_progress_begin(&progress, cli.name, NULL, 0);
	rf_progress_doing(&progress, "computing");
	while ((rc = rf_needle_next(needle, &line, &tokens, &err)) == RF_OK &&
	       (rc = rf_lines_out_put(out, line.p, line.n, &err)) == RF_OK) {
		rf_meter_read(&progress.meter, 0);
		rf_meter_done(&progress.meter, tokens);
	}
	if (rc != RF_EOF || rf_lines_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&progress);
	if (*rf_needle_left(needle))
		rf_say("left out, too short: %s", rf_needle_left(needle));
	rf_cli_skipped(&skip);
	rf_buf_free(&line);
	rf_needle_close(needle);
	return 0;
}
