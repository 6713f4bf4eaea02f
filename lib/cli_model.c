#include <stdio.h>
#include <stdlib.h>

#include "cli_model.h"

void rf_cli_notes(const struct rf_engine *g)
{
	if (g->note)
		rf_say("%s", g->note);
	if (g->ckpt->warning[0])
		rf_say("%s: %s", g->ckpt->dir, g->ckpt->warning);
}

noreturn void rf_cli_dry_run(struct rf_engine *g, const struct rf_plan *want, size_t extra)
{
	char text[6000];

	rf_engine_describe(g, want, extra, text, sizeof text);
	fputs(text, stdout);
	rf_cli_finish();
	exit(0);
}

struct rf_in *rf_cli_model_input(const struct rf_cli *cli, const struct rf_engine *g, const char *path, uint64_t max_record,
                                 struct rf_head *head)
{
	struct rf_in *in = rf_cli_input(cli, path, max_record, head);
	struct rf_err err;

	if (rf_engine_check_head(g, head, &err) != RF_OK) {
		rf_blame(&err, "%s", rf_in_name(in));
		rf_die_err(&err);
	}
	return in;
}
