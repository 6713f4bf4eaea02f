/* cli_stage.c -- the loop that every filter is, written once: read, work, write; and the end record only
 * after all of it went well. */
#include <inttypes.h>

#include "cli/cli_stage.h"

void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opt opts[RF_STAGE_OPTS])
{
	const struct rf_opt table[] = {
		{ "output", 'o', RF_OPT_TEXT, &s->output, 0, 0, "file",
		  output ? output : "write to this file, not to stdout; it appears whole or not at all",
		  false },
		{ "max-record", 0, RF_OPT_SIZE, &s->max_record, 0, 0, "size", "refuse larger records",
		  false },
	};

	RF_OPT_FILL(opts, table, RF_STAGE_OPTS - RF_PROGRESS_OPTS);
	rf_progress_options(&s->progress, opts + RF_STAGE_OPTS - RF_PROGRESS_OPTS);
}

void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path)
{
	struct rf_err err;

	if (rf_in_open(&s->in, path, s->max_record, &err) != RF_OK)
		rf_die_err(&err);
	rf_head_init(&s->head);
	if (rf_head_copy(&s->head, rf_in_head(s->in), &err) != RF_OK ||
	    rf_cli_history(cli, &s->head, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_begin(&s->progress, cli->name, &path, path != NULL);
}

void rf_stage_create(struct rf_stage *s)
{
	struct rf_err err;

	if (rf_out_open(&s->out, s->output, &s->head, &err) != RF_OK)
		rf_die_err(&err);
	rf_out_limit(s->out, s->max_record);
}

/* One record's way. */
static enum rf_code work(struct rf_stage *s, rf_stage_fn *f, void *arg, struct rf_err *e)
{
	struct rf_progress *p = &s->progress;
	struct rf_record *r;
	enum rf_code rc;

	rf_progress_doing(p, "waiting for input");
	if ((rc = rf_next(s->in, &r, e)) != RF_OK)
		return rc;
	rf_meter_read(&p->meter, rf_in_bytes(s->in));
	s->records++;
	rf_progress_doing(p, "computing");
	if ((rc = f(arg, r, e)) != RF_OK) {
		rf_in_blame(s->in, e);
		return rc;
	}
	if (s->pass_on)
		return s->pass_on(arg, r, e);
	if (!s->out)
		return RF_OK;
	rf_progress_doing(p, "waiting for the reader of its output");
	if ((rc = rf_put(s->out, r, e)) == RF_OK)
		rf_meter_done(&p->meter, r->T);
	return rc;
}

void rf_stage_each(struct rf_stage *s, rf_stage_fn *f, void *arg)
{
	struct rf_err err;
	enum rf_code rc;

	while ((rc = work(s, f, arg, &err)) == RF_OK)
		;
	if (rc != RF_EOF)
		rf_die_err(&err);
	rf_progress_doing(&s->progress, "computing");
}

void rf_stage_fits(const struct rf_stage *s, const char *what, const char *writer, const char *so)
{
	if (s->records && !s->fit)
		rf_say("none of %" PRIu64 " record%s has %s (%s writes them)%s", s->records,
		       s->records == 1 ? "" : "s", what, writer, so);
}

void rf_stage_close(struct rf_stage *s)
{
	struct rf_err err;

	if (s->out && rf_out_finish(s->out, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&s->progress);
	rf_in_close(s->in);
	rf_head_free(&s->head);
}
