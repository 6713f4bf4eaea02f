/* rf-init -- makes a fresh checkpoint, begins a run, or exports one. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "ckpt/ckpt.h"
#include "ckpt/init.h"
#include "cli/cli.h"
#include "model/model.h"

static struct {
	const char *config, *from, *tokenizer;
	int dtype;
	uint64_t seed;
	bool dry_run, moments;
} opt = { .dtype = -1 };

static const enum rf_dtype dtypes[] = { RF_F32, RF_BF16, RF_F16 }; /* the words of --dtype */

static noreturn void fail(const struct rf_err *e)
{
	if (rf_cli_stop)
		rf_die(128 + rf_cli_stop, "interrupted");
	rf_die_err(e);
}

static void show_size(const struct rf_params *t, enum rf_dtype dtype)
{
	unsigned long long n = 0;

	for (int i = 0; i < t->n; i++)
		n += t->p[i].count;
	printf("parameters\t%llu\nweights\t%llu bytes\n", n,
	       (unsigned long long)rf_params_bytes(t, rf_dtype_size(dtype)));
	if (opt.dtype < 0)
		printf("a step of a run\t%llu bytes\n", 12 * n);
}

static void fresh(const char *dir)
{
	char warning[RF_TOKENIZER_WARNING];
	struct rf_config cfg;
	struct rf_params params;
	struct rf_err err;

	if (rf_config_read(&cfg, opt.config, &err) != RF_OK ||
	    rf_params_build(&params, &cfg, cfg.tied, &err) != RF_OK)
		rf_die_err(&err);
	if (*cfg.unknown)
		rf_say("%s: warning: these keys are unknown and have no effect: %s", opt.config, cfg.unknown);
	if (rf_init_tokenizer(&cfg, opt.config, &opt.tokenizer, warning, &err) != RF_OK)
		rf_die_err(&err);
	if (*warning)
		rf_say("warning: %s", warning);
	if (opt.dry_run)
		show_size(&params, RF_F32);
	else if (rf_init_fresh(&cfg, &params, opt.seed, opt.tokenizer, dir, &rf_cli_stop, &err) != RF_OK)
		fail(&err);
	rf_params_free(&params);
	rf_config_free(&cfg);
}

/* Copies the newest step.  *gone: a trainer has committed another step meanwhile and removed this one. */
static enum rf_code copy_from(const char *dir, bool *gone, struct rf_err *e)
{
	enum rf_dtype dtype = opt.dtype < 0 ? RF_F32 : dtypes[opt.dtype];
	struct rf_ckpt ckpt;
	enum rf_code rc;

	*gone = false;
	if ((rc = rf_ckpt_open(&ckpt, opt.from, e)) != RF_OK)
		return rc;
	if (*ckpt.warning)
		rf_say("%s: %s", opt.from, ckpt.warning);
	if (opt.dry_run)
		show_size(&ckpt.params, dtype);
	else if (opt.dtype < 0)
		rc = rf_run_begin(&ckpt, dir, opt.moments, &rf_cli_stop, e);
	else
		rc = rf_init_export(&ckpt, dtype, dir, &rf_cli_stop, e);
	*gone = access(ckpt.dir, F_OK) < 0 && errno == ENOENT;
	rf_ckpt_close(&ckpt);
	return rc;
}

static void from(const char *dir)
{
	struct rf_err err;
	bool gone;

	while (copy_from(dir, &gone, &err) != RF_OK)
		if (!gone || rf_cli_stop)
			fail(&err);
}

int main(int argc, char *argv[])
{
	const struct rf_opt opts[] = {
		OPT_TEXT("config", &opt.config, "file", "make a fresh checkpoint from this config.json"),
		OPT_U64("seed", &opt.seed, "n", "with --config: random seed of the weights"),
		OPT_TEXT("tokenizer", &opt.tokenizer, "bytes|dir",
		         "with --config: tokenizer of the checkpoint"),
		OPT_TEXT("from", &opt.from, "model", "begin a run from this checkpoint or run"),
		OPT_FLAG("moments", &opt.moments,
		         "with --from: keep the step's number and the optimizer's moments, too"),
		OPT_ENUM("dtype", &opt.dtype, "f32|bf16|f16",
		         "with --from: export a checkpoint of this type instead"),
		OPT_FLAG("dry-run", &opt.dry_run, "write nothing; print the number of parameters and bytes"),
		OPT_END,
	};
	const struct rf_cli cli = {
		.name = "rf-init",
		.usage = "--config file [--seed n] [--tokenizer bytes|dir] dir\n"
			 "       rf-init --from model [--moments | --dtype f32|bf16|f16] dir",
		.summary = "Makes a fresh checkpoint, begins a run, or exports a run as a checkpoint.",
		.example = "rf-init --config config.json --seed 1 ckpt && rf-init --from ckpt runs/a",
		.also = "rf-ntp(1), rf-grpo(1), rf-tools(7)",
		.opts = (const struct rf_opt *const[]){ opts, NULL },
		.max_args = 1,
	};
	int words = rf_cli_parse(&cli, argc, argv);

	if (!opt.config && !opt.from)
		rf_die(EX_USAGE, "missing option: --config or --from (try --help)");
	if (opt.config && opt.from)
		rf_die(EX_USAGE, "--config cannot be combined with --from (try --help)");
	if (opt.config && opt.dtype >= 0)
		rf_die(EX_USAGE, "--dtype cannot be combined with --config: fresh weights are float32");
	if (opt.from && (opt.tokenizer || opt.seed))
		rf_die(EX_USAGE, "%s requires --config", opt.tokenizer ? "--tokenizer" : "--seed");
	if (opt.moments && (!opt.from || opt.dtype >= 0))
		rf_die(EX_USAGE, "--moments %s",
		       opt.from ? "cannot be combined with --dtype" : "requires --from");
	if (!words && !opt.dry_run)
		rf_die(EX_USAGE, "missing argument: directory (try --help)");
	rf_cli_catch();
	(opt.config ? fresh : from)(argv[1]);
	rf_cli_finish();
	return 0;
}
