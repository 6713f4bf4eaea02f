/* rf-doctor -- prints what a bug report needs to know of the machine and of a run, and what is wrong. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "doctor/doctor.h"

int main(int argc, char *argv[])
{
	struct rf_doctor doctor = { .version = rf_cli_version, .commit = rf_cli_built_from };
	const struct rf_cli cli = {
		.name = "rf-doctor",
		.usage = "[run]",
		.summary = "Prints what a bug report needs to know of this machine and of a run, and what is "
			   "wrong.",
		.example = "rf-doctor runs/a",
		.also = "rf-dump(1), rf-devices(7), rf-ranks(7), rf-tools(7)",
		.opts = (const struct rf_opt *const[]){ NULL },
		.max_args = 1,
	};
	struct rf_err err;
	char *text;
	int wrong;

	if (rf_cli_parse(&cli, argc, argv))
		doctor.run = argv[1];
	if (rf_doctor(&doctor, &text, &wrong, &err) != RF_OK)
		rf_die_err(&err);
	fputs(text, stdout);
	free(text);
	rf_cli_finish();
	return wrong ? EX_UNAVAILABLE : 0;
}
