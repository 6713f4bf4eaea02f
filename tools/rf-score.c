/* rf-score -- scores answers against their references, by the rules of the benchmarks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli_stage.h"
#include "io/folder.h"
#include "score/score.h"

static struct rf_score_settings how = RF_SCORE_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static struct rf_skip skip = { .first = rf_cli_skip };
static struct rf_opt_list others;

static const struct rf_opt compare[] = {
	OPT_LIST("against", &others, "path",
	         "other answers to the same questions; also print the paired differences"),
	OPT_END,
};

static void score(struct rf_scorer *c, const char *path, const struct rf_cli *cli)
{
	struct rf_err err;
	struct rf_head head;
	struct rf_in *in;
	struct rf_out *out = NULL;

	rf_progress_doing(&stage.progress, "scoring");
	if (rf_score_is_jsonl(&how, path)) {
		if (cli && stage.output)
			rf_die(EX_USAGE, "-o writes records, and %s is JSON lines", path ? path : "<stdin>");
		if (rf_scorer_lines(c, path, &err) != RF_OK)
			rf_die_err(&err);
		return;
	}
	if (skip.most)
		rf_die(EX_USAGE,
		       "--skip-bad is for JSON lines: %s is a stream, whose records must be complete",
		       path ? path : "<stdin>");
	if (rf_in_open(&in, path, stage.max_record, &err) != RF_OK)
		rf_die_err(&err);
	if (cli && stage.output) {
		if (rf_head_copy(&head, rf_in_head(in), &err) != RF_OK ||
		    rf_cli_history(cli, &head, &err) != RF_OK ||
		    rf_out_open(&out, stage.output, &head, &err) != RF_OK)
			rf_die_err(&err);
		rf_head_free(&head);
		rf_out_limit(out, stage.max_record);
	}
	if (rf_scorer_stream(c, in, out, &err) != RF_OK || (out && rf_out_finish(out, &err) != RF_OK))
		rf_die_err(&err);
	rf_in_close(in);
}

int main(int argc, char *argv[])
{
	struct rf_opts rules = { 0 }, bad = { 0 }, stream = { 0 };
	const struct rf_cli cli = {
		.name = "rf-score",
		.usage = "[--rules rules] [--by keys] [--against path] [-o file] [options] [file ...]",
		.summary = "Scores answers by the rules of RULER and LongBench: means, errors, differences.",
		.example = "rf-generate -m RUN questions.rf | rf-score --by task,length",
		.also = "rf-generate(1), rf-needle(1), rf-dump(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ rules.row, compare, bad.row, stream.row, NULL },
		.max_args = -1,
	};
	struct rf_scorer *mine, *theirs = NULL;
	struct rf_folder folder;
	struct rf_buf text = { 0 };
	struct rf_err err;
	enum rf_code rc;
	int n;

	rf_score_options(&how, &rules);
	rf_skip_options(&skip, &bad);
	rf_stage_options(&stage, "write the records, with the score of each sample", &stream);
	n = rf_cli_parse(&cli, argc, argv);
	if (how.each && others.n)
		rf_cli_without(compare, "against", "cannot be combined with --each");
	if (how.check && (how.each || how.partial || others.n || stage.output))
		rf_die(EX_USAGE, "--check reads no answers: it cannot be combined with --each, --partial, "
		                 "--against or -o");
	if (stage.output && n > 1)
		rf_die(EX_USAGE, "-o takes one input, not %d: rf-cat joins them", n);
	if (skip.most && others.n)
		rf_cli_without(bad.row, NULL,
		               "cannot be combined with --against, which pairs lines by their order");
	how.skip = &skip;
	how.max_record = stage.max_record;
	how.meter = &stage.progress.meter;
	rf_progress_begin(&stage.progress, cli.name, argv + 1, n);
	if (rf_scorer_open(&mine, &how, &err) != RF_OK || rf_scorer_open(&theirs, &how, &err) != RF_OK)
		rf_die_err(&err);
	for (int i = 0; i < (n ? n : 1); i++)
		score(mine, n ? argv[i + 1] : NULL, &cli);
	for (int i = 0; i < others.n; i++) {
		if (rf_folder_open(&folder, others.s[i], &err) != RF_OK)
			rf_die_err(&err);
		for (int j = 0; j < folder.n; j++)
			score(theirs, folder.path[j], NULL);
		rf_folder_free(&folder);
	}
	rc = how.check  ? rf_scorer_counts(mine, &text, &err)
	     : how.each ? rf_scorer_each(mine, &text, &err)
	                : rf_scorer_report(mine, others.n ? theirs : NULL, &text, &err);
	if (rc != RF_OK || rf_skip_end(&skip, text.n, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&stage.progress);
	if (text.n)
		fwrite(text.p, 1, text.n, stdout);
	else
		rf_say("there are no questions");
	rf_cli_skipped(&skip);
	rf_cli_finish();
	rf_buf_free(&text);
	rf_scorer_close(mine);
	rf_scorer_close(theirs);
	return 0;
}
