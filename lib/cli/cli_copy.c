/* cli_copy.c -- writes the records that a trainer trains on. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli_copy.h"
#include "io/steps.h"

bool rf_copy_many(const struct rf_stage *s)
{
	struct stat st;

	return s->output && stat(s->output, &st) == 0 && S_ISDIR(st.st_mode);
}

static void output_name(char name[4096], const struct rf_stage *s, const struct rf_trainer *t)
{
	char step[32], suffix[16] = "";
	int n;

	rf_step_name(step, t->open.step);
	if (t->ranks.rank)
		snprintf(suffix, sizeof suffix, ".%d", t->ranks.rank);
	n = rf_copy_many(s) ? snprintf(name, 4096, "%s/%s.rf%s", s->output, step, suffix)
	                    : snprintf(name, 4096, "%s%s", s->output, suffix);
	if (n >= 4096)
		rf_die(EX_USAGE, "%s: the name is too long", s->output);
}

void rf_copy_open(struct rf_copy *c, const struct rf_stage *s, const struct rf_trainer *t)
{
	char name[4096];

	if (!s->output || c->late.code != RF_OK)
		return;
	output_name(name, s, t);
	if (rf_out_open(&c->out, name, &s->head, &c->late) != RF_OK &&
	    (c->late.code != RF_EIO || strcmp(name, "-")))
		rf_die_err(&c->late);
}

enum rf_code rf_copy_put(struct rf_copy *c, const struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc = c->out ? rf_put(c->out, r, &c->late) : RF_OK;

	if (rc == RF_OK)
		return rc;
	rf_out_abandon(c->out);
	c->out = NULL;
	if (rc == RF_EIO)
		return RF_OK;
	*e = c->late;
	return rc;
}

void rf_copy_end(struct rf_copy *c)
{
	if (c->out)
		rf_out_finish(c->out, &c->late);
	c->out = NULL;
}
