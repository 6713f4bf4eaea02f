/* cli_stage.c -- the loop of every filter: reads a record, works on it, and writes it.  The end record is
 * written only if all of this succeeded. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli_stage.h"

void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_TEXT("output", &s->output, "file",
		         output ? output
		                : "write to this file, not to stdout; it appears whole or not at all",
		         .letter = 'o', .noted = RF_OPT_OF_BATCH),
		OPT_SIZE("max-record", &s->max_record, "size", "refuse larger records",
		         .noted = RF_OPT_OF_BATCH),
		OPT_END,
	};

	rf_opts_add(opts, table);
	rf_progress_options(&s->progress, opts);
}

void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path)
{
	struct rf_err err;

	rf_head_init(&s->head);
	if (rf_in_open(&s->in, path, s->max_record, &err) != RF_OK ||
	    rf_head_copy(&s->head, rf_in_head(s->in), &err) != RF_OK ||
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

static enum rf_code read_next(struct rf_stage *s, struct rf_record **r, struct rf_err *e)
{
	enum rf_code rc;

	rf_progress_doing(&s->progress, "waiting for input");
	if ((rc = rf_next(s->in, r, e)) != RF_OK)
		return rc;
	rf_meter_read(&s->progress.meter, rf_in_bytes(s->in));
	s->records++;
	return RF_OK;
}

/* Reads a record and calls f for it. */
static enum rf_code read_and_call(struct rf_stage *s, rf_stage_fn *f, void *arg, struct rf_record **r,
                                  struct rf_err *e)
{
	enum rf_code rc = read_next(s, r, e);

	if (rc != RF_OK)
		return rc;
	rf_progress_doing(&s->progress, "computing");
	if ((rc = f(arg, *r, e)) != RF_OK)
		rf_in_blame(s->in, e);
	return rc;
}

static enum rf_code put_record(struct rf_stage *s, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc;

	rf_progress_doing(&s->progress, "waiting for the reader of its output");
	if ((rc = rf_put(s->out, r, e)) == RF_OK)
		rf_meter_done(&s->progress.meter, r->T);
	return rc;
}

/* Reads a record, calls f, and writes the record. */
static enum rf_code work_on_record(struct rf_stage *s, rf_stage_fn *f, void *arg, struct rf_err *e)
{
	struct rf_record *r;
	enum rf_code rc = read_and_call(s, f, arg, &r, e);

	if (rc != RF_OK)
		return rc;
	return s->pass_on ? s->pass_on(arg, r, e) : s->out ? put_record(s, r, e) : RF_OK;
}

void rf_stage_each(struct rf_stage *s, rf_stage_fn *f, void *arg)
{
	struct rf_err err;
	enum rf_code rc;

	while ((rc = work_on_record(s, f, arg, &err)) == RF_OK)
		;
	if (rc != RF_EOF)
		rf_die_err(&err);
	rf_progress_doing(&s->progress, "computing");
}

/* Copies of records and the places where they were read; the input itself keeps only its last record. */
struct held {
	struct rf_record *r;
	struct rf_place *place;
	int n;
};

/* Works on all held records, writes them, and empties the list. */
static enum rf_code run_held(struct rf_stage *s, struct held *h, const struct rf_batches *b, void *arg,
                             struct rf_err *e)
{
	enum rf_code rc;
	int bad = 0;

	if (!h->n)
		return RF_OK;
	rf_progress_doing(&s->progress, "computing");
	if ((rc = b->run(arg, h->r, h->n, &bad, e)) != RF_OK)
		return rf_in_blame_at(s->in, h->place[bad], e);
	for (int i = 0; i < h->n; i++) {
		if (rc == RF_OK)
			rc = put_record(s, &h->r[i], e);
		rf_record_free(&h->r[i]);
	}
	h->n = 0;
	return rc;
}

/* Adds a record to the list; if it has no room there, first works on the records in the list. */
static enum rf_code hold_record(struct rf_stage *s, struct held *h, const struct rf_batches *b, void *arg,
                                const struct rf_record *r, struct rf_err *e)
{
	int n = h->n;
	enum rf_code rc;

	h->place[n] = rf_in_place(s->in);
	if ((rc = rf_record_copy(&h->r[n], r, e)) != RF_OK)
		return rc;
	if (n && n + 1 > b->room(arg, h->r, n + 1)) {
		if ((rc = run_held(s, h, b, arg, e)) != RF_OK)
			return rc;
		h->r[0] = h->r[n];
		h->place[0] = h->place[n];
		rf_record_init(&h->r[n]);
	}
	h->n++;
	return h->n >= b->room(arg, h->r, h->n) ? run_held(s, h, b, arg, e) : RF_OK;
}

void rf_stage_batches(struct rf_stage *s, const struct rf_batches *b, void *arg)
{
	struct held h = { calloc((size_t)b->most, sizeof *h.r), calloc((size_t)b->most, sizeof *h.place), 0 };
	struct rf_record *r;
	struct rf_err err;
	enum rf_code rc = RF_OK;

	if (!h.r || !h.place)
		rc = rf_fail(&err, RF_ENOMEM, "out of memory (%d records)", b->most);
	for (int i = 0; i < b->most && rc == RF_OK; i++)
		rf_record_init(&h.r[i]);
	while (rc == RF_OK && (rc = read_and_call(s, b->check, arg, &r, &err)) == RF_OK)
		rc = hold_record(s, &h, b, arg, r, &err);
	if (rc != RF_EOF || run_held(s, &h, b, arg, &err) != RF_OK)
		rf_die_err(&err);
	free(h.r);
	free(h.place);
}

/* ---- records that are read ahead ------------------------------------------------------------- */

/* Makes room for n + 1 records. */
static enum rf_code room_for(struct rf_read *b, int n, struct rf_err *e)
{
	const size_t room = (size_t)n + (size_t)n / 2 + 8;
	struct rf_record **r;
	struct rf_place *place;

	if (n < b->room)
		return RF_OK;
	if ((r = realloc(b->r, room * sizeof *r)))
		b->r = r;
	if ((place = realloc(b->place, room * sizeof *place)))
		b->place = place;
	if (!r || !place)
		return rf_fail(e, RF_ENOMEM, "out of memory (a batch of %d records)", n);
	for (size_t i = (size_t)b->room; i < room; i++)
		b->r[i] = NULL;
	b->room = (int)room;
	return RF_OK;
}

static enum rf_code keep_record(struct rf_stage *s, struct rf_read *b, const struct rf_record *r,
                                struct rf_err *e)
{
	enum rf_code rc = room_for(b, b->n + 1, e);
	struct rf_record *copy;

	if (rc != RF_OK || !(copy = malloc(sizeof *copy)))
		return rc != RF_OK ? rc : rf_fail(e, RF_ENOMEM, "out of memory (a batch)");
	rf_record_init(copy);
	b->place[b->n] = rf_in_place(s->in);
	b->r[b->n++] = copy;
	return rf_record_copy(copy, r, e);
}

static void drop_record(struct rf_read *b, int i)
{
	rf_record_free(b->r[i]);
	free(b->r[i]);
	b->r[i] = NULL;
}

int rf_stage_read(struct rf_stage *s, struct rf_read *b, int most)
{
	enum rf_code rc = RF_OK;
	struct rf_record *r;
	struct rf_err err;

	for (int i = 0; i < b->n; i++)
		drop_record(b, i);
	if (b->more) { /* the record read ahead comes after the others */
		b->r[0] = b->r[b->n];
		b->place[0] = b->place[b->n];
		b->r[b->n] = b->n ? NULL : b->r[0];
	}
	b->n = b->more;
	while (!b->ended && b->n <= most && (rc = read_next(s, &r, &err)) == RF_OK &&
	       (rc = keep_record(s, b, r, &err)) == RF_OK)
		;
	if (rc != RF_OK && rc != RF_EOF)
		rf_die_err(&err);
	b->ended |= rc == RF_EOF;
	b->more = b->n > most;
	b->n -= b->more;
	return b->n;
}

enum rf_code rf_read_replace(struct rf_read *b, int i, const struct rf_record *r, struct rf_err *e)
{
	struct rf_record lean = *r, *copy = malloc(sizeof *copy);
	enum rf_code rc;

	if (!copy)
		return rf_fail(e, RF_ENOMEM, "out of memory (a batch)");
	rf_record_hide(&lean);
	rf_record_init(copy);
	rc = rf_record_copy(copy, &lean, e);
	drop_record(b, i);
	b->r[i] = copy;
	return rc;
}

noreturn void rf_stage_blame(const struct rf_stage *s, const struct rf_read *b, int i, struct rf_err *e)
{
	rf_in_blame_at(s->in, b->place[i], e);
	rf_die_err(e);
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
