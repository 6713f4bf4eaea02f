#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_model.h"
#include "dry.h"

void rf_cli_notes(const struct rf_engine *g)
{
	if (g->note)
		rf_say("%s", g->note);
	if (g->ckpt->warning[0])
		rf_say("%s: %s", g->ckpt->dir, g->ckpt->warning);
}

void rf_cli_drain(const char *path)
{
	static char waste[1 << 16];
	struct stat st;

	if ((path && strcmp(path, "-")) || fstat(STDIN_FILENO, &st) < 0 || !S_ISFIFO(st.st_mode))
		return;
	while (read(STDIN_FILENO, waste, sizeof waste) > 0)
		;
}

noreturn static void dry_run(const struct rf_cli *cli, struct rf_engine *g, const char *path, uint64_t max_record)
{
	const struct rf_dry dry = { g, cli->opts, path, max_record };
	struct rf_err err;
	char *text;

	if (rf_dry_run(&dry, &text, &err) != RF_OK)
		rf_die_err(&err);
	fputs(text, stdout);
	rf_cli_finish();
	exit(0);
}

struct rf_in *rf_cli_model_input(const struct rf_cli *cli, struct rf_engine *g, const char *path, uint64_t max_record,
                                 struct rf_head *head)
{
	struct rf_in *in;
	struct rf_err err;

	if (g->dry_run)
		dry_run(cli, g, path, max_record);
	in = rf_cli_input(cli, path, max_record, head);
	if (rf_engine_check_head(g, head, &err) != RF_OK) {
		rf_blame(&err, "%s", rf_in_name(in));
		rf_die_err(&err);
	}
	if (rf_engine_ahead(g, rf_in_head(in), &err) != RF_OK)
		rf_die_err(&err);
	return in;
}

void rf_cli_commit(struct rf_trainer *t, const struct rf_in *in)
{
	char hash[17], remark[300];
	struct rf_err err;

	snprintf(hash, sizeof hash, "%016" PRIx64, rf_in_hash(in));
	if (rf_trainer_rest(t, &err) != RF_OK)
		rf_die_err(&err);
	rf_cli_catch();
	if (rf_trainer_commit(t, hash, &err) != RF_OK) {
		rf_cli_stopped();
		rf_die_err(&err);
	}
	if (*rf_trainer_remark(t, remark, sizeof remark))
		rf_say("%s", remark);
}
