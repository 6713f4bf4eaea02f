/* rf-cat -- joins, cuts, shuffles and repeats streams; writes streams from JSON. */
#include "cli/cli_stage.h"
#include "stream/cat.h"

static struct rf_cat_options o = RF_CAT_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static bool json;

static struct rf_opts options, shares, stream;
static const struct rf_opt both[] = {
	OPT_FLAG("renumber", &o.renumber, "renumber ids from 0 in output order; with --json: messages",
	         .noted = RF_OPT_RESULT),
	OPT_FLAG("json", &json, "read JSON lines in the form of rf-dump --json"),
	OPT_END,
};

static const struct rf_cli cli = {
	.name = "rf-cat",
	.usage = "[-o file] [options] [file ...]\n"
		 "       rf-cat --json [-o file] [options] [file]",
	.summary = "Joins, cuts, shuffles and repeats streams of sequence records; writes them from JSON.",
	.example = "rf-cat --range 0:128 corpus.rf | rf-entropy -m RUN | rf-dump",
	.also = "rf-dump(1), rf-tokenize(1), rf-stream(5)",
	.opts = (const struct rf_opt *const[]){ options.row, shares.row, both, stream.row, NULL },
	.min_args = 0,
	.max_args = -1,
};

/* Refuses options that have no effect with the others. */
static void check_options(void)
{
	struct rf_err err;

	if (!o.shuffle) {
		rf_cli_without(options.row, "seed", "requires --shuffle");
		rf_cli_without(options.row, "epoch", "requires --shuffle");
	}
	if (o.split || o.join)
		rf_cli_without(options.row, "part",
		               "cannot be combined with --split-response and --join-response");
	if (o.split)
		rf_cli_without(options.row, "join-response", "cannot be combined with --split-response");
	if (!o.share)
		rf_cli_without(shares.row, NULL, "requires --shard");
	if (o.shard.steps)
		rf_cli_without(shares.row, "mini-batch", "cannot be combined with --steps");
	if (rf_cat_settle(&o, &err) != RF_OK)
		rf_die_err(&err);
}

static void from_json(int argc, char *argv[])
{
	struct rf_err err;

	if (argc > 1)
		rf_die(EX_USAGE, "--json reads one file, not %d: join the streams afterwards", argc);
	rf_cli_without(options.row, NULL,
	               "cannot be combined with --json: pipe the result into another rf-cat");
	if (rf_cat_json(argc ? argv[1] : NULL, stage.output, &o, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&stage.progress);
}

static enum rf_code copy(struct rf_cat *cat, struct rf_out **out, struct rf_err *e)
{
	struct rf_record *rec;
	enum rf_code rc = RF_OK;

	if (rf_cat_changes(cat))
		rc = rf_cli_history(&cli, rf_cat_head(cat), e);
	if (rc == RF_OK)
		rc = rf_out_open(out, stage.output, rf_cat_head(cat), e);
	while (rc == RF_OK && (rc = rf_cat_next(cat, &rec, e)) == RF_OK &&
	       (rc = rf_put(*out, rec, e)) == RF_OK)
		rf_meter_done(&stage.progress.meter, rec->T);
	return rc == RF_EOF ? rf_out_finish(*out, e) : rc;
}

int main(int argc, char *argv[])
{
	struct rf_cat *cat;
	struct rf_out *out;
	struct rf_err err;

	rf_cat_options(&o, &options, &shares);
	rf_stage_options(&stage, NULL, &stream);
	argc = rf_cli_parse(&cli, argc, argv);
	check_options();
	o.max_record = stage.max_record;
	o.meter = &stage.progress.meter;
	rf_progress_begin(&stage.progress, cli.name, argv + 1, argc);
	if (json) {
		from_json(argc, argv);
		return 0;
	}
	if (rf_cat_open(&cat, &o, argv + 1, argc, &err) != RF_OK || copy(cat, &out, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&stage.progress);
	rf_cat_close(cat);
	return 0;
}
