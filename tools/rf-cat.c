/* rf-cat -- joins, cuts, shuffles and repeats streams; writes streams from JSON. */
#include <stdio.h>
#include <string.h>

#include "cli/cli_stage.h"
#include "ranks/ranks.h"
#include "stream/cat.h"

static struct rf_cat_options o = RF_CAT_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;
static struct rf_opt stream[RF_STAGE_OPTS];
static bool json, split, join;
static const char *shard;

static const struct rf_opt options[] = {
	{ "range", 0, RF_OPT_TEXT, &o.range, 0, 0, "I:J",
	  "only records I to J-1 of all inputs; the first is record 0", true },
	{ "part", 0, RF_OPT_ENUM, &o.part, 0, 0, RF_PART_WORDS, "part of each record to keep", true },
	{ "split-response", 0, RF_OPT_FLAG, &split, 0, 0, NULL,
	  "put what follows each prompt into the key response", true },
	{ "join-response", 0, RF_OPT_FLAG, &join, 0, 0, NULL,
	  "append the key response to the tokens again", true },
	{ "shuffle", 0, RF_OPT_FLAG, &o.shuffle, 0, 0, NULL, "shuffle the records", true },
	{ "seed", 0, RF_OPT_U64, &o.seed, 0, 0, "N", "random seed of the shuffle", true },
	{ "epoch", 0, RF_OPT_INT, &o.epoch, 0, 1 << 30, "N",
	  "number of the epoch; each epoch of a seed has its own order", true },
	{ "repeat", 0, RF_OPT_INT, &o.repeat, 1, 1 << 30, "N",
	  "N epochs in one stream; implies --renumber", true },
	{ "shard", 0, RF_OPT_TEXT, &shard, 0, 0, "r/R|auto",
	  "only the share of rank r of R, from 0; auto: of this process", false },
	{ 0 },
};

static const struct rf_opt shares[] = {
	{ "mini-batch", 0, RF_OPT_INT, &o.shard.mini_batch, 0, 1 << 24, "n",
	  "sequences that are divided among the ranks; 0: the whole stream", false },
	{ "steps", 0, RF_OPT_INT, &o.shard.steps, 0, 1 << 24, "n",
	  "so many mini-batches of --records in all, instead of --mini-batch", false },
	{ "records", 0, RF_OPT_INT, &o.shard.records, 0, 1 << 24, "n", "number of records, for --steps",
	  false },
	{ 0 },
};

static const struct rf_opt both[] = {
	{ "renumber", 0, RF_OPT_FLAG, &o.renumber, 0, 0, NULL,
	  "renumber ids from 0 in output order; with --json: messages", true },
	{ "json", 0, RF_OPT_FLAG, &json, 0, 0, NULL, "read JSON lines in the form of rf-dump --json", false },
	{ 0 },
};

static const struct rf_cli cli = {
	.name = "rf-cat",
	.usage = "[-o file] [options] [file ...]\n"
	         "       rf-cat --json [-o file] [options] [file]",
	.summary = "Joins, cuts, shuffles and repeats streams of sequence records; writes them from JSON.",
	.example = "rf-cat --range 0:128 corpus.rf | rf-entropy -m RUN | rf-dump",
	.also = "rf-dump(1), rf-tokenize(1), rf-stream(5)",
	.opts = (const struct rf_opt *const[]){ options, shares, both, stream, NULL },
	.min_args = 0,
	.max_args = -1,
};

/* --shard, as the trainers of the ranks will see it. */
static void read_shard(void)
{
	struct rf_shard *s = &o.shard;
	struct rf_err err;
	int n = 0;

	if (!shard) {
		rf_cli_without(shares, NULL, "requires --shard");
		return;
	}
	if (!o.shard.steps != !o.shard.records)
		rf_die(EX_USAGE, "--steps and --records require each other");
	if (s->steps) {
		rf_cli_without(shares, "mini-batch", "cannot be combined with --steps");
		s->mini_batch = 0;
	}
	if (!strcmp(shard, "auto") && rf_ranks_launched(&s->rank, &s->ranks, &err) != RF_OK)
		rf_die_err(&err);
	if (strcmp(shard, "auto") && (sscanf(shard, "%9d/%9d%n", &s->rank, &s->ranks, &n) != 2 || shard[n] ||
	                              s->rank < 0 || s->rank >= s->ranks))
		rf_die(EX_USAGE, "--shard: '%.40s' is neither r/R, where r is below R, nor auto", shard);
}

static void from_json(int argc, char *argv[])
{
	struct rf_err err;

	if (argc > 1)
		rf_die(EX_USAGE, "--json reads one file, not %d: join the streams afterwards", argc);
	rf_cli_without(options, NULL, "cannot be combined with --json: pipe the result into another rf-cat");
	if (rf_cat_json(argc ? argv[1] : NULL, stage.output, &o, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&stage.progress);
}

int main(int argc, char *argv[])
{
	struct rf_meter *meter = &stage.progress.meter;
	struct rf_cat *cat;
	struct rf_record *rec;
	struct rf_out *out;
	struct rf_err err;
	enum rf_code rc;

	rf_stage_options(&stage, NULL, stream);
	o.shard.mini_batch = 32;
	argc = rf_cli_parse(&cli, argc, argv);
	if (!o.shuffle) {
		rf_cli_without(options, "seed", "requires --shuffle");
		rf_cli_without(options, "epoch", "requires --shuffle");
	}
	if (split || join)
		rf_cli_without(options, "part",
		               "cannot be combined with --split-response and --join-response");
	if (split)
		rf_cli_without(options, "join-response", "cannot be combined with --split-response");
	read_shard();
	o.response = split ? RF_RESPONSE_SPLIT : join ? RF_RESPONSE_JOIN : RF_RESPONSE_STAYS;
	o.max_record = stage.max_record;
	o.meter = meter;
	rf_progress_begin(&stage.progress, cli.name, argv + 1, argc);
	if (json) {
		from_json(argc, argv);
		return 0;
	}
	if (rf_cat_open(&cat, &o, argv + 1, argc, &err) != RF_OK)
		rf_die_err(&err);
	if (rf_cat_changes(cat) && rf_cli_history(&cli, rf_cat_head(cat), &err) != RF_OK)
		rf_die_err(&err);
	if (rf_out_open(&out, stage.output, rf_cat_head(cat), &err) != RF_OK)
		rf_die_err(&err);
	while ((rc = rf_cat_next(cat, &rec, &err)) == RF_OK && (rc = rf_put(out, rec, &err)) == RF_OK)
		rf_meter_done(meter, rec->T);
	if (rc != RF_EOF)
		rf_die_err(&err);
	if (rf_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&stage.progress);
	rf_cat_close(cat);
	return 0;
}
