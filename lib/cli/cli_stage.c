/* cli_stage.c -- the loop that every filter is, written once: read, work, write; and the end record only
 * after all of it went well. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli_stage.h"
#include "io/file.h"

void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opt opts[RF_STAGE_OPTS])
{
	const struct rf_opt table[] = {
		{ "output", 'o', RF_OPT_TEXT, &s->output, 0, 0, "file",
		  output ? output : "write to this file, not to stdout; it appears whole or not at all",
		  RF_OPT_OF_BATCH },
		{ "max-record", 0, RF_OPT_SIZE, &s->max_record, 0, 0, "size", "refuse larger records",
		  RF_OPT_OF_BATCH },
	};

	RF_OPT_FILL(opts, table, RF_STAGE_OPTS - RF_PROGRESS_OPTS);
	rf_progress_options(&s->progress, opts + RF_STAGE_OPTS - RF_PROGRESS_OPTS);
}

void rf_stage_patience_options(struct rf_stage *s, struct rf_opt opts[RF_STAGE_PATIENCE_OPTS])
{
	const struct rf_opt table[] = {
		{ "follow-timeout", 0, RF_OPT_INT, &s->patience, 0, 1 << 30, "seconds",
		  "in a long stream, give up if nothing happens for so long; 0: never", RF_OPT_OF_BATCH },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_STAGE_PATIENCE_OPTS);
}

void rf_stage_follow_options(struct rf_stage *s, struct rf_opt opts[RF_STAGE_FOLLOW_OPTS])
{
	opts[0] = (struct rf_opt){ "follow", 0, RF_OPT_FLAG, &s->follow, 0, 0, NULL,
		                   "read and write a long stream, batch after batch", false };
	rf_stage_patience_options(s, opts + 1);
	s->follows = opts;
}

void rf_stage_head(struct rf_stage *s, const struct rf_cli *cli)
{
	struct rf_err err;

	rf_head_free(&s->head);
	rf_head_init(&s->head);
	if (rf_head_copy(&s->head, rf_in_head(s->in), &err) != RF_OK ||
	    rf_cli_history(cli, &s->head, &err) != RF_OK)
		rf_die_err(&err);
}

double rf_stage_patience(const struct rf_stage *s)
{
	return s->patience ? s->patience + 1 : 0;
}

int rf_stage_watched(const struct rf_stage *s)
{
	/* a trainer's output is no part of the pipeline */
	return s->follow && !s->on_batch && !s->output ? STDOUT_FILENO : -1;
}

noreturn void rf_stage_fail(const struct rf_stage *s, const struct rf_err *e)
{
	if (rf_file_abandoned(rf_stage_watched(s)))
		raise(SIGPIPE);
	rf_die_err(e);
}

/* The mark of a batch was read: it goes on to the programs behind at once, and then the head is read. */
static void begin_batch(struct rf_stage *s, const struct rf_cli *cli)
{
	const int64_t number = rf_in_batch(s->in);
	struct rf_err err;

	if (s->on_batch ? s->on_batch(s->batch_arg, number, &err) != RF_OK
	                : rf_out_batch(s->out, number, &err) != RF_OK) {
		rf_blame(&err, "%s", s->on_batch ? rf_in_name(s->in) : "the output");
		rf_die_err(&err);
	}
	if (rf_in_begin(s->in, &err) != RF_OK)
		rf_stage_fail(s, &err);
	rf_stage_head(s, cli);
}

void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path)
{
	struct rf_err err;
	enum rf_code rc;

	if (s->follows && !s->follow)
		rf_cli_without(s->follows, "follow-timeout", "requires --follow");
	rc = s->follow ? rf_in_follow(&s->in, path, s->max_record, rf_stage_patience(s), rf_stage_watched(s),
	                              &err)
	               : rf_in_open(&s->in, path, s->max_record, &err);
	if (rc != RF_OK)
		rf_stage_fail(s, &err);
	if (s->follow && !s->on_batch && rf_out_follow(&s->out, s->output, s->patience, &err) != RF_OK)
		rf_die_err(&err);
	rf_head_init(&s->head);
	if (s->follow)
		begin_batch(s, cli);
	else
		rf_stage_head(s, cli);
	rf_progress_begin(&s->progress, cli->name, &path, path != NULL);
}

void rf_stage_create(struct rf_stage *s)
{
	struct rf_err err;
	enum rf_code rc = s->follow ? rf_out_begin(s->out, &s->head, &err)
	                            : rf_out_open(&s->out, s->output, &s->head, &err);

	if (rc != RF_OK)
		rf_die_err(&err);
	rf_out_limit(s->out, s->max_record);
}

/* Reads a record and calls f for it. */
static enum rf_code take(struct rf_stage *s, rf_stage_fn *f, void *arg, struct rf_record **r,
                         struct rf_err *e)
{
	struct rf_progress *p = &s->progress;
	enum rf_code rc;

	rf_progress_doing(p, "waiting for input");
	if ((rc = rf_next(s->in, r, e)) != RF_OK)
		return rc;
	rf_meter_read(&p->meter, rf_in_bytes(s->in));
	s->records++;
	rf_progress_doing(p, "computing");
	if ((rc = f(arg, *r, e)) != RF_OK)
		rf_in_blame(s->in, e);
	return rc;
}

static enum rf_code put(struct rf_stage *s, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc;

	rf_progress_doing(&s->progress, "waiting for the reader of its output");
	if ((rc = rf_put(s->out, r, e)) == RF_OK)
		rf_meter_done(&s->progress.meter, r->T);
	return rc;
}

/* One record's way. */
static enum rf_code work(struct rf_stage *s, rf_stage_fn *f, void *arg, struct rf_err *e)
{
	struct rf_record *r;
	enum rf_code rc = take(s, f, arg, &r, e);

	if (rc != RF_OK)
		return rc;
	return s->pass_on ? s->pass_on(arg, r, e) : s->out ? put(s, r, e) : RF_OK;
}

void rf_stage_each(struct rf_stage *s, rf_stage_fn *f, void *arg)
{
	struct rf_err err;
	enum rf_code rc;

	while ((rc = work(s, f, arg, &err)) == RF_OK)
		;
	if (rc != RF_EOF)
		rf_stage_fail(s, &err);
	rf_progress_doing(&s->progress, "computing");
}

/* Copies of records, since the input keeps only the last, and where they were read. */
struct held { struct rf_record *r; struct rf_place *place; int n; };

/* Works on all that are held, writes them, and holds none. */
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
			rc = put(s, &h->r[i], e);
		rf_record_free(&h->r[i]);
	}
	h->n = 0;
	return rc;
}

/* Holds a record, and works on the others first if they have no room for it. */
static enum rf_code hold(struct rf_stage *s, struct held *h, const struct rf_batches *b, void *arg,
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
	while (rc == RF_OK && (rc = take(s, b->check, arg, &r, &err)) == RF_OK)
		rc = hold(s, &h, b, arg, r, &err);
	if (rc != RF_EOF || run_held(s, &h, b, arg, &err) != RF_OK)
		rf_die_err(&err);
	free(h.r);
	free(h.place);
}

bool rf_stage_again(struct rf_stage *s, const struct rf_cli *cli)
{
	struct rf_err err;
	enum rf_code rc;

	if (!s->follow)
		return false;
	rf_progress_doing(&s->progress, "waiting for the next batch");
	if ((s->out && rf_out_end(s->out, &err) != RF_OK) ||
	    ((rc = rf_in_again(s->in, &err)) != RF_OK && rc != RF_EOF))
		rf_stage_fail(s, &err);
	if (rc == RF_EOF)
		return false;
	begin_batch(s, cli);
	return true;
}

void rf_stage_fits(const struct rf_stage *s, const char *what, const char *writer, const char *so)
{
	if (s->records && !s->fit && !s->told)
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
