/* dump.c -- reads files and writes their rows.
 *
 * A file is opened, and its rows are offered one after the other.  A row is written immediately unless
 * --sort or --sample makes it wait.  With --json the rows of a stream are its messages, and a record is
 * shown if one of its rows meets the conditions. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/rng.h"
#include "dump/ckpt_text.h"
#include "dump/dump.h"
#include "dump/html.h"
#include "dump/pred.h"
#include "stream/msg.h"
#include "stream/stream.h"
#include "stream/wire.h"

enum { FULL = 64 << 10 }; /* bytes in the output buffer at which it is written */

struct job {
	struct rf_dump *d;
	struct rf_table table;
	bool has_table;  /* whether the table is open */
	bool of_tensors; /* whether its rows are of a checkpoint */
	bool headed;     /* whether the header line is in the output buffer */
	/* tokenizers of an option, of the environment and for bytes; NULL: not opened */
	struct rf_tokenizer *given, *fallback, *bytes;
	bool numbers; /* whether tokens of this stream were shown as numbers */
	bool other;   /* whether this stream was made with another tokenizer than `fallback` */
	struct rf_topn pick;
	struct rf_buf text, out;   /* text of this row; output buffer */
	uint64_t order, shown;     /* numbers of rows that were offered, and shown */
	uint64_t record, position; /* record and position whose headings were shown last */
	uint64_t records;          /* records of all files so far */
	uint64_t offered, matched; /* rows of all files; rows that met the conditions of --where */
	int file;
	uint64_t passed; /* bytes of the streams before this one */
	struct rf_html html;
	struct rf_in *against; /* the stream of --against; NULL: none */
};

/* Sets the note for the user, unless there is one already. */
static void __attribute__((format(printf, 2, 3))) set_note(struct job *j, const char *fmt, ...)
{
	va_list ap;

	if (*j->d->note)
		return;
	va_start(ap, fmt);
	vsnprintf(j->d->note, sizeof j->d->note, fmt, ap);
	va_end(ap);
}

/* ---- rows on their way out ----------------------------------------------------------------- */

/* Writes and empties the output buffer. */
static enum rf_code flush_output(struct job *j, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	if (j->out.failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	else if (j->out.n)
		rc = j->d->write(j->d->to, (char *)j->out.p, j->out.n, e);
	rf_print_clear(&j->out);
	return rc;
}

/* Adds the text of a row to the output buffer, without the headings that the row before it also had. */
static enum rf_code add_row(struct job *j, const struct rf_topn_row *row, struct rf_err *e)
{
	bool same = j->shown && row->lead && j->record == row->record;
	size_t skip = !same ? 0 : row->lead + (j->position == row->position ? row->lead_position : 0);

	if (row->lead && !same && j->shown)
		rf_print_text(&j->out, "\n");
	rf_buf_add(&j->out, row->text + skip, row->size - skip);
	j->record = row->record;
	j->position = row->position;
	j->shown++;
	j->html.shown++;
	return j->out.n < FULL ? RF_OK : flush_output(j, e);
}

/* Returns the name of a file for text and messages. */
static const char *name_of(const char *path) { return strcmp(path, "-") ? path : "<stdin>"; }

/* Writes the name of the next of several files, as head(1) does. */
static void write_title(struct job *j, const char *path)
{
	if (!j->d->table.files || j->d->form != RF_DUMP_TEXT)
		return;
	rf_print_text(&j->out, j->file ? "\n==> " : "==> ");
	rf_print_safe(&j->out, name_of(path), strlen(name_of(path)), false);
	rf_print_text(&j->out, " <==\n");
}

/* Returns whether all rows that -n allows were shown. */
static bool shown_enough(const struct job *j)
{
	return j->d->first && !rf_topn_holds(&j->pick) && j->shown == j->d->first;
}

static void begin_pick(struct job *j)
{
	struct rf_topn_spec spec = { j->d->table.sort, j->d->sample, j->d->first };

	rf_topn_begin(&j->pick, &spec);
	j->shown = 0;
}

/* Writes the rows that waited. */
static enum rf_code end_pick(struct job *j, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	if (rf_topn_holds(&j->pick)) {
		rf_topn_end(&j->pick);
		for (size_t i = 0; i < j->pick.n && rc == RF_OK; i++)
			rc = add_row(j, &j->pick.row[i], e);
	}
	rf_topn_free(&j->pick);
	j->shown = 0;
	return rc == RF_OK ? flush_output(j, e) : rc;
}

/* Returns the random number that decides whether a row is in the sample.  It depends on the number of the
 * file, the id and the place of the row in its record, not on the place of the record in the stream. */
static double draw_row(const struct job *j, uint64_t id, const struct rf_row *row)
{
	uint64_t i = row && row->i >= 0 ? (uint64_t)row->i : 0, r = row && row->r >= 0 ? (uint64_t)row->r : 0;
	uint32_t t = row && row->i < 0 && row->t >= 0 ? (uint32_t)row->t : 0;

	return j->d->sample
	               ? rf_draw(rf_draw_key(j->d->seed, RF_DRAW_SHUFFLE, (uint64_t)j->file, id, i, r), t)
	               : 0;
}

/* Writes the row whose text is in j->text, or keeps it until end_pick(). */
static enum rf_code show_or_keep(struct job *j, struct rf_topn_row *row, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	row->text = (char *)j->text.p;
	row->size = j->text.n;
	if (j->text.failed) {
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	} else if (!rf_topn_holds(&j->pick)) {
		rc = add_row(j, row, e);
	} else if (!(row->text = malloc(row->size ? row->size : 1))) {
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	} else {
		memcpy(row->text, j->text.p, row->size);
		rc = rf_topn_take(&j->pick, row, e);
	}
	rf_print_clear(&j->text);
	return rc;
}

/* Counts a record of a stream for the progress. */
static void count_record(struct job *j, const struct rf_in *in, int tokens)
{
	rf_meter_read(j->d->meter, j->passed + rf_in_bytes(in));
	rf_meter_done(j->d->meter, tokens);
}

/* Returns whether a row meets the conditions of --where, and counts it. */
static bool row_matches(struct job *j, const struct rf_row *row)
{
	bool match = rf_table_match(&j->table, &j->d->show.tokens, row);

	j->text.failed |= j->table.cell.failed;

	j->offered++;
	j->matched += match;
	return match;
}

/* Notes why no row is shown although records were read. */
static void say_nothing_found(struct job *j)
{
	const char *missing = j->has_table ? rf_table_missing(&j->table) : NULL;
	char all[48], where[200] = "";

	if (!j->has_table || j->matched || !(j->records + j->offered))
		return;
	if (j->d->table.where)
		rf_quote(where, sizeof where, j->d->table.where, strlen(j->d->table.where));
	if (j->of_tensors)
		snprintf(all, sizeof all, "%llu row%s", (unsigned long long)j->offered,
		         j->offered == 1 ? "" : "s");
	else
		snprintf(all, sizeof all, "%llu record%s", (unsigned long long)j->records,
		         j->records == 1 ? "" : "s");
	if (!j->offered)
		set_note(j, "no row: none of %s has %s", all,
		         j->table.rows == RF_ROWS_POSITION ? "positions"
		         : j->table.rows == RF_ROWS_SAMPLE ? "a generation"
		         : j->table.rows == RF_ROWS_CHOICE ? "choices"
		                                           : "rollouts");
	else if (missing)
		set_note(j, "--where '%s': none of %s has '%s'", where, all, missing);
	else
		set_note(j, "--where '%s': no row matches (%s)", where, all);
}

/* Writes the header line of a table, once. */
static void write_names(struct job *j)
{
	if (j->d->form == RF_DUMP_TABLE && !j->d->no_header && !j->headed)
		rf_table_names(&j->table, &j->out);
	j->headed = true;
}

/* Ends the table after the last row.  If -n ended the dump, the columns are not checked: the records that
 * were not read may have them. */
static enum rf_code end_table(struct job *j, struct rf_err *e)
{
	enum rf_code rc = shown_enough(j) ? RF_OK : rf_table_end(&j->table, e);

	if (rc != RF_OK)
		return rc;
	write_names(j);
	return flush_output(j, e);
}

/* ---- a stream ------------------------------------------------------------------------------ */

/* Shows the rows of a record that meet the conditions. */
static enum rf_code offer_rows(struct job *j, struct rf_row *row, struct rf_err *e)
{
	enum rf_row_kind rows = j->d->table.rows;
	uint64_t n = rf_row_count(row->rec, rows);
	bool counted = false;
	enum rf_code rc = n ? rf_table_meet(&j->table, row->rec, e) : RF_OK;

	if (rc == RF_OK && n)
		write_names(j);
	for (uint64_t i = 0; i < n && rc == RF_OK && !shown_enough(j); i++) {
		struct rf_topn_row p = { .record = j->records };

		rf_row_at(row, rows, i);
		if (!row_matches(j, row))
			continue;
		if (!counted && j->d->form == RF_DUMP_HTML)
			rf_html_count(&j->html, row->rec);
		counted = true;
		p.position = (uint64_t)row->i;
		p.key = (struct rf_topn_key){ rf_table_key(&j->table, row), draw_row(j, row->rec->id, row),
			                      j->order++ };
		if (rf_topn_holds(&j->pick) && !rf_topn_wants(&j->pick, &p.key))
			continue;
		if (j->d->form == RF_DUMP_TABLE)
			rf_table_line(&j->table, &j->d->show.tokens, row, &j->text);
		else if (j->d->form == RF_DUMP_PRED)
			rc = rf_pred_line(&j->text, &j->d->show.tokens, row, e);
		else if (j->d->form == RF_DUMP_HTML)
			rf_html_row(&j->html, &j->text, row);
		else
			rf_record_text_row(&j->text, &j->d->show, rows, row, &p.lead, &p.lead_position);
		rc = rc == RF_OK ? show_or_keep(j, &p, e) : rc;
	}
	return rc == RF_OK ? flush_output(j, e) : rc;
}

/* Returns whether to read a pipe to its end, so that its writer does not fail and mistakes in the rest are
 * found. */
static bool must_drain(const struct job *j, const char *path)
{
	struct stat st;

	if (j->d->no_drain || (strcmp(path, "-") ? stat(path, &st) : fstat(STDIN_FILENO, &st)))
		return false;
	return !S_ISREG(st.st_mode);
}

/* Notes a warning about files of a tokenizer that contradict each other. */
static void note_warning(struct job *j, const char *name, const struct rf_tokenizer *t)
{
	if (*rf_tokenizer_warning(t))
		set_note(j, "%s: warning: %s", name, rf_tokenizer_warning(t));
}

/* Opens the tokenizer that options name, and notes its warning. */
static enum rf_code open_tokenizer(struct job *j, struct rf_tokenizer **t, const char *given,
                                   const char *model, struct rf_err *e)
{
	enum rf_code rc = rf_tokenizer_open_option(t, given, model, e);

	if (rc == RF_OK && *t)
		note_warning(j, given ? given : model, *t);
	return rc;
}

/* Chooses the tokenizer that shows the stream's tokens: the tokenizer of an option, with which the stream
 * must have been made; else the stream's tokenizer if it is built in; else the tokenizer of the environment,
 * if the stream was made with it. */
static enum rf_code choose_tokenizer(struct job *j, const struct rf_in *in, struct rf_err *e)
{
	const struct rf_head *h = rf_in_head(in);
	const bool shown = j->d->form == RF_DUMP_TEXT || j->d->form == RF_DUMP_PRED ||
	                   j->d->form == RF_DUMP_HTML || j->table.tokens;
	enum rf_code rc;

	j->numbers = j->other = false;
	j->d->show.tokens.numbers = &j->numbers;
	j->d->show.tokens.tokenizer = j->given;
	if (j->given) {
		rc = rf_tokenizer_check_made(j->given, h->tokenizer_kind, h->tokenizer_hash, e);
		return rc == RF_OK ? rc : rf_blame(e, "%s", rf_in_name(in));
	}
	if (!strcmp(h->tokenizer_kind, "bytes")) {
		if (!j->bytes && (rc = rf_tokenizer_bytes(&j->bytes, e)) != RF_OK)
			return rc;
		j->d->show.tokens.tokenizer = j->bytes;
		return RF_OK;
	}
	if (j->d->model) /* fails and reports that the model has no tokenizer */
		return rf_tokenizer_open(&j->given, j->d->model, e);
	if (!shown || !j->d->fallback)
		return RF_OK;
	if (!j->fallback && (rc = open_tokenizer(j, &j->fallback, j->d->fallback, NULL, e)) != RF_OK)
		return rf_blame(e, "%s", j->d->fallback_name);
	if (rf_tokenizer_made(j->fallback, h->tokenizer_kind, h->tokenizer_hash))
		j->d->show.tokens.tokenizer = j->fallback;
	else
		j->other = true;
	return RF_OK;
}

/* Notes that the stream's tokenizer would be needed to show its tokens as text. */
static void note_numbers(struct job *j, const struct rf_in *in)
{
	const struct rf_head *h = rf_in_head(in);
	const char *const what = j->d->form == RF_DUMP_JSON   ? "tokens are compared as numbers"
	                         : j->d->form == RF_DUMP_PRED ? "no prompt has a text"
	                                                      : "tokens are shown as numbers";
	char kind[4 * sizeof h->tokenizer_kind];

	if (j->d->form == RF_DUMP_PRED ? !j->other : !j->numbers || (!*h->tokenizer_kind && !j->other))
		return;
	rf_quote(kind, sizeof kind, h->tokenizer_kind, strlen(h->tokenizer_kind));
	if (j->other)
		set_note(j,
		         "%s: %s: its tokenizer is '%s' %s, not that of %s, "
		         "give it with --tokenizer or -m",
		         rf_in_name(in), what, kind, h->tokenizer_hash, j->d->fallback_name);
	else
		set_note(j, "%s: %s: its tokenizer is '%s', give it with --tokenizer, -m or RF_TOKENIZER",
		         rf_in_name(in), what, kind);
}

static enum rf_code dump_rows(struct job *j, struct rf_in *in, const char *path, struct rf_err *e)
{
	struct rf_record *rec;
	struct rf_row row;
	enum rf_code rc;

	if ((rc = choose_tokenizer(j, in, e)) != RF_OK)
		return rc;
	if (j->d->form == RF_DUMP_HTML)
		rf_html_stream(&j->html, &j->out, rf_in_name(in), rf_in_head(in));
	for (uint64_t n = 1; !shown_enough(j) && (rc = rf_next(in, &rec, e)) == RF_OK; n++) {
		rf_row_of(&row, name_of(path), n, rec);
		if ((rc = offer_rows(j, &row, e)) != RF_OK)
			return rc;
		j->records++;
		count_record(j, in, rec->T);
	}
	note_numbers(j, in);
	if (shown_enough(j) && must_drain(j, path))
		while ((rc = rf_next(in, &rec, e)) == RF_OK)
			;
	return rc == RF_EOF ? RF_OK : rc;
}

/* Writes a message as a line of JSON, with --no-hidden a record without its hidden states. */
static enum rf_code message_json(const struct job *j, const void *msg, size_t size, char **line, size_t *len,
                                 struct rf_err *e)
{
	struct rf_buf lean = { 0 };
	struct rf_record rec;
	struct rf_msg m;
	enum rf_code rc;

	if (!j->d->no_hidden || (rc = rf_msg_open(&m, msg, size, e)) != RF_OK || m.type != RF_MSG_SEQ)
		return rf_msg_to_json(msg, size, line, len, e);
	rf_record_init(&rec);
	if ((rc = rf_record_decode(&rec, m.body.p, (size_t)(m.body.end - m.body.p), 0, e)) == RF_OK) {
		rf_record_hide(&rec);
		rf_record_encode(&lean, m.seq, &rec);
		rc = lean.failed ? rf_fail(e, RF_ENOMEM, "out of memory")
		                 : rf_msg_to_json(lean.p, lean.n, line, len, e);
	}
	rf_buf_free(&lean);
	rf_record_free(&rec);
	return rc;
}

/* Reads the next record of --against.  Errors name its stream. */
static enum rf_code next_against(struct job *j, struct rf_record **other, struct rf_err *e)
{
	enum rf_code rc = rf_next(j->against, other, e);

	return rc == RF_EOF
	               ? rf_fail(e, RF_EDATA, "--against %s: the stream has fewer records", j->d->against)
	               : rc;
}

/* Checks that the stream of --against ends where the other streams end. */
static enum rf_code end_against(struct job *j, struct rf_err *e)
{
	struct rf_record *rec;
	enum rf_code rc = rf_next(j->against, &rec, e);

	return rc == RF_EOF ? RF_OK
	       : rc == RF_OK
	               ? rf_fail(e, RF_EDATA, "--against %s: the stream has more records", j->d->against)
	               : rc;
}

/* Checks that the record of --against belongs to rec. */
static enum rf_code check_against(const struct job *j, const struct rf_record *rec, struct rf_record *other,
                                  struct rf_err *e)
{
	if (other->id != rec->id)
		return rf_fail(e, RF_EDATA, "id %llu, but the record of --against %s has id %llu",
		               (unsigned long long)rec->id, j->d->against, (unsigned long long)other->id);
	if (other->T != rec->T || memcmp(other->tokens, rec->tokens, (size_t)rec->T * sizeof *rec->tokens))
		return rf_fail(e, RF_EDATA, "id %llu: the record of --against %s has other tokens",
		               (unsigned long long)rec->id, j->d->against);
	if (!(rec->nll && other->nll) && !(rec->entropy && other->entropy))
		return rf_fail(e, RF_EDATA,
		               "id %llu: neither nll nor entropy is in both streams (rf-entropy --nll)",
		               (unsigned long long)rec->id);
	/* log-probabilities of other rollouts cannot be compared */
	if (rec->rollout.tokens &&
	    (!other->rollout.tokens || other->c != rec->c || other->rollout.n != rec->rollout.n ||
	     other->rollout.k != rec->rollout.k ||
	     memcmp(other->rollout.tokens, rec->rollout.tokens,
	            (size_t)rec->c * (size_t)rec->rollout.n * (size_t)rec->rollout.k * sizeof *rec->tokens)))
		other->rollout.logp = NULL;
	return RF_OK;
}

/* Shows the message of a record if one of its rows meets the conditions.  The message has the place of the
 * first such row. */
static enum rf_code offer_message(struct job *j, struct rf_record *rec, struct rf_record *other, uint64_t n,
                                  const void *msg, size_t size, struct rf_err *e)
{
	struct rf_topn_row p = { .record = j->records };
	bool match = false;
	struct rf_row row;
	struct rf_msg m;
	char *line;
	size_t len;
	enum rf_code rc = rf_msg_open(&m, msg, size, e);

	if (rc != RF_OK)
		return rc;
	if ((rc = rf_record_decode(rec, m.body.p, (size_t)(m.body.end - m.body.p), 0, e)) != RF_OK)
		return rc;
	if (j->against && (rc = check_against(j, rec, other, e)) != RF_OK)
		return rc;
	rf_row_of(&row, NULL, n, rec);
	if (rf_row_count(rec, j->d->table.rows) && (rc = rf_table_meet(&j->table, rec, e)) != RF_OK)
		return rc;
	for (uint64_t i = 0, rows = rf_row_count(rec, j->d->table.rows); i < rows; i++) {
		rf_row_at(&row, j->d->table.rows, i);
		if (row_matches(j, &row)) {
			double key = rf_table_key(&j->table, &row);
			if (!match || isnan(p.key.sort) || key < p.key.sort)
				p.key.sort = key;
			match = true;
		}
	}
	p.key.draw = draw_row(j, rec->id, NULL);
	p.key.order = j->order++;
	j->records++;
	if (match && j->d->form == RF_DUMP_HTML)
		rf_html_count(&j->html, rec);
	if (!match || (rf_topn_holds(&j->pick) && !rf_topn_wants(&j->pick, &p.key)))
		return RF_OK;
	if (j->d->form == RF_DUMP_HTML) {
		rf_html_record(&j->html, &j->text, &row, other);
		return show_or_keep(j, &p, e);
	}
	if ((rc = message_json(j, msg, size, &line, &len, e)) != RF_OK)
		return rc;
	rf_buf_add(&j->text, line, len);
	rf_print_text(&j->text, "\n");
	free(line);
	return show_or_keep(j, &p, e);
}

static enum rf_code write_message(struct job *j, const void *msg, size_t size, struct rf_err *e)
{
	char *line;
	size_t len;
	enum rf_code rc = message_json(j, msg, size, &line, &len, e);

	if (rc != RF_OK)
		return rc;
	rf_buf_add(&j->out, line, len);
	rf_print_text(&j->out, "\n");
	free(line);
	return RF_OK;
}

/* Shows the head of a stream: as JSON, or as the beginning of a page. */
static enum rf_code show_head(struct job *j, struct rf_in *in, const void *msg, size_t size, struct rf_err *e)
{
	if (j->d->form == RF_DUMP_JSON)
		return write_message(j, msg, size, e);
	rf_html_stream(&j->html, &j->out, rf_in_name(in), rf_in_head(in));
	return RF_OK;
}

/* Shows the messages of a stream as JSON, or its records as a part of a page. */
static enum rf_code dump_messages(struct job *j, struct rf_in *in, const char *path, struct rf_err *e)
{
	const struct rf_dump *d = j->d;
	const bool page = d->form == RF_DUMP_HTML;
	bool some = page || d->table.where || d->table.sort || d->sample || d->first;
	bool ended = false;
	struct rf_record rec, *other = NULL;
	const void *msg;
	size_t size;
	enum rf_code rc = RF_OK;

	if ((page || (d->table.where && j->table.tokens)) && (rc = choose_tokenizer(j, in, e)) != RF_OK)
		return rc;
	rf_record_init(&rec);
	begin_pick(j);
	for (uint64_t n = 0; !shown_enough(j) && (rc = rf_next_message(in, &msg, &size, e)) == RF_OK; n++) {
		ended = n && rf_in_count(in) < n; /* whether the message is the end record */
		if (ended && some)
			continue;
		if (n == 0)
			rc = show_head(j, in, msg, size, e);
		else if (!some)
			rc = write_message(j, msg, size, e);
		else if ((!j->against || (rc = next_against(j, &other, e)) == RF_OK) &&
		         (rc = offer_message(j, &rec, other, n, msg, size, e)) == RF_EDATA)
			rf_in_blame(in, e);
		if (rc != RF_OK || (rc = flush_output(j, e)) != RF_OK)
			break;
		if (n && rf_in_count(in) == n) /* neither the head nor the end record */
			count_record(j, in, 0);
	}
	if (shown_enough(j) && rc == RF_OK && must_drain(j, path))
		while ((rc = rf_next_message(in, &msg, &size, e)) == RF_OK)
			;
	rf_record_free(&rec);
	if (rc != RF_EOF && rc != RF_OK)
		return rc;
	note_numbers(j, in);
	/* the end record is shown if it was read; it counts all records, so the lines are not taken for
	 * all */
	if ((rc = end_pick(j, e)) == RF_OK && ended && some && !page &&
	    (rc = write_message(j, msg, size, e)) == RF_OK)
		rc = flush_output(j, e);
	return rc;
}

static enum rf_code dump_head(struct job *j, struct rf_in *in, const char *path, struct rf_err *e)
{
	const void *msg;
	struct rf_msg m;
	size_t size;
	enum rf_code rc = rf_next_message(in, &msg, &size, e);

	if (rc == RF_OK)
		rc = rf_msg_open(&m, msg, size, e);
	if (rc != RF_OK)
		return rc;
	if (j->d->form == RF_DUMP_JSON) {
		rc = write_message(j, msg, size, e);
	} else {
		write_title(j, path);
		rf_record_text_head(&j->out, m.body);
	}
	if (rc == RF_OK)
		rc = flush_output(j, e);
	if (must_drain(j, path))
		while (rc == RF_OK)
			rc = rf_next_message(in, &msg, &size, e);
	return rc == RF_EOF ? RF_OK : rc;
}

/* ---- a checkpoint -------------------------------------------------------------------------- */

static enum rf_code offer_inspected(struct job *j, const struct rf_ckpt_text *x, struct rf_row *row,
                                    uint64_t id, struct rf_err *e)
{
	bool stats = j->table.stats;
	struct rf_topn_row p = { 0 };
	enum rf_code rc = RF_OK;

	if (row->tensor && stats && (rc = rf_ckpt_text_stats(row->tensor, &row->stats, e)) != RF_OK)
		return rc;
	if (!row_matches(j, row))
		return RF_OK;
	p.key = (struct rf_topn_key){ rf_table_key(&j->table, row), draw_row(j, id, NULL), j->order++ };
	if (j->d->form == RF_DUMP_TABLE)
		rf_table_line(&j->table, &j->d->show.tokens, row, &j->text);
	else if (j->d->form == RF_DUMP_JSON)
		rf_ckpt_text_row_json(row, stats, &j->text);
	else
		rf_ckpt_text_print_row(x, row, stats, &j->text);
	return show_or_keep(j, &p, e);
}

static enum rf_code dump_inspected(struct job *j, const char *path, struct rf_err *e)
{
	const bool of_steps = j->table.rows == RF_ROWS_STEP, of_ranks = j->table.rows == RF_ROWS_RANK;
	struct rf_ckpt_text x;
	enum rf_code rc = rf_ckpt_text_open(&x, path, e);
	int rows;

	if (rc != RF_OK)
		return rc;
	if (x.ckpt && *x.ckpt->lost)
		set_note(j, "%s: %s", x.name, x.ckpt->lost);
	if (j->d->form != RF_DUMP_TABLE) {
		begin_pick(j);
		write_title(j, path);
		if (!of_steps && !of_ranks && j->d->form == RF_DUMP_TEXT)
			rf_ckpt_text_print(&x, j->d->show.width, &j->out);
		else if (!of_steps && !of_ranks)
			rf_ckpt_text_json(&x, &j->out);
		rc = flush_output(j, e);
	}
	rows = of_steps ? x.steps : of_ranks ? x.ranks : x.tensors->n;
	for (int i = 0; i < rows && rc == RF_OK && !shown_enough(j); i++) {
		struct rf_row row = { .file = path, .i = -1, .r = -1, .t = -1 };

		if (of_steps)
			row.step = &x.step[i];
		else if (of_ranks)
			row.rank = &x.rank[i];
		else
			row.tensor = &x.tensors->t[i];
		rc = offer_inspected(j, &x, &row, (uint64_t)i, e);
	}
	if (j->d->form != RF_DUMP_TABLE && rc == RF_OK)
		rc = end_pick(j, e);
	rf_ckpt_text_close(&x);
	return rc;
}

/* ---- --check ------------------------------------------------------------------------------- */

/* Reads a whole stream.  An id that occurs twice is reported at the end, since damage is more important. */
static enum rf_code check_stream(struct job *j, struct rf_in *in, struct rf_err *e)
{
	uint64_t before, twice = 0, id = 0, n;
	struct rf_ids ids = { 0 };
	struct rf_record *rec;
	enum rf_code rc;

	while ((rc = rf_next(in, &rec, e)) == RF_OK &&
	       (rc = rf_ids_add(&ids, rec->id, &before, e)) == RF_OK) {
		if (before && !twice) {
			twice = rf_in_count(in);
			id = rec->id;
		}
		count_record(j, in, rec->T);
	}
	if (rc == RF_EOF)
		rc = !twice ? RF_OK
		            : rf_fail(e, RF_EDATA, "%s: record %llu has the same id, %llu, as record %llu",
		                      rf_in_name(in), (unsigned long long)twice, (unsigned long long)id,
		                      (unsigned long long)rf_ids_first(&ids, id));
	rf_ids_free(&ids);
	n = rf_in_count(in);
	rf_print(&j->out, ": ok, %llu record%s, %llu bytes\n", (unsigned long long)n, n == 1 ? "" : "s",
	         (unsigned long long)rf_in_bytes(in));
	return rc;
}

static enum rf_code check_inspected(struct job *j, const char *path, struct rf_err *e)
{
	struct rf_ckpt_text x;
	enum rf_code rc = rf_ckpt_text_open(&x, path, e);

	if (rc != RF_OK)
		return rc;
	if (x.ckpt && *x.ckpt->unread)
		set_note(j, "%s: %s", x.name, x.ckpt->unread);
	rc = rf_ckpt_text_check(&x, e);
	rf_print(&j->out, ": ok, %d tensor%s, %llu bytes\n", x.tensors->n, x.tensors->n == 1 ? "" : "s",
	         (unsigned long long)x.bytes);
	rf_ckpt_text_close(&x);
	return rc;
}

static enum rf_code check_file(struct job *j, const char *path, struct rf_err *e)
{
	struct rf_in *in;
	enum rf_code rc;

	rf_print_safe(&j->out, name_of(path), strlen(name_of(path)), false);
	if (strcmp(path, "-") && rf_ckpt_text_is(path)) {
		rc = check_inspected(j, path, e);
	} else if ((rc = rf_in_open(&in, path, j->d->max_record, e)) == RF_OK) {
		rc = check_stream(j, in, e);
		j->passed += rf_in_bytes(in);
		rf_in_close(in);
	}
	if (rc != RF_OK || j->d->quiet)
		rf_print_clear(&j->out);
	return rc == RF_OK ? flush_output(j, e) : rc;
}

/* ---- files --------------------------------------------------------------------------------- */

/* Opens the table for the first file, and checks that each later file is of the same kind. */
static enum rf_code fit_table(struct job *j, const char *path, bool tensors, struct rf_err *e)
{
	struct rf_table_spec spec = j->d->table;
	char name[200];
	enum rf_code rc;

	rf_quote(name, sizeof name, path, strlen(path));
	if (j->has_table && tensors != j->of_tensors)
		return rf_fail(e, RF_EUSAGE,
		               "%s: a stream and a checkpoint have no columns in common: dump one at a time",
		               name);
	if (j->has_table)
		return RF_OK;
	if (spec.rows != RF_ROWS_AUTO && tensors != (spec.rows == RF_ROWS_TENSOR ||
	                                             spec.rows == RF_ROWS_STEP || spec.rows == RF_ROWS_RANK))
		return rf_fail(e, RF_EUSAGE, "--rows: %s: %s", name,
		               tensors ? "a checkpoint has tensors, steps and ranks"
		                       : "a stream has records, positions, rollouts and tokens");
	if (spec.rows == RF_ROWS_AUTO && tensors)
		spec.rows = RF_ROWS_TENSOR;
	if ((rc = rf_table_open(&j->table, &spec, e)) != RF_OK)
		return rc;
	j->has_table = true;
	j->of_tensors = tensors;
	if (tensors)
		write_names(j);
	return flush_output(j, e);
}

/* Returns whether records are shown whole. */
static bool shows_records(const struct rf_dump *d)
{
	return d->form == RF_DUMP_JSON || (d->form == RF_DUMP_HTML && (d->table.rows == RF_ROWS_AUTO ||
	                                                               d->table.rows == RF_ROWS_RECORD));
}

static enum rf_code dump_file(struct job *j, const char *path, struct rf_err *e)
{
	bool tensors = strcmp(path, "-") && rf_ckpt_text_is(path);
	struct rf_in *in;
	enum rf_code rc;

	if (tensors && j->d->form == RF_DUMP_HTML)
		return rf_fail(e, RF_EUSAGE, "--html: a checkpoint has no records; only a stream has");
	if (tensors && j->d->head)
		return rf_fail(e, RF_EUSAGE, "--head: a checkpoint has no head; only a stream has one");
	if (tensors)
		return (rc = fit_table(j, path, true, e)) == RF_OK ? dump_inspected(j, path, e) : rc;
	if ((rc = rf_in_open(&in, path, j->d->max_record, e)) != RF_OK)
		return rc;
	if (j->d->head)
		rc = dump_head(j, in, path, e);
	else if ((rc = fit_table(j, path, false, e)) == RF_OK)
		rc = shows_records(j->d) ? dump_messages(j, in, path, e) : dump_rows(j, in, path, e);
	j->passed += rf_in_bytes(in);
	rf_in_close(in);
	return rc;
}

enum rf_code rf_dump(struct rf_dump *d, const char *const *paths, int n, struct rf_err *e)
{
	struct job j = { .d = d };
	enum rf_code rc = RF_OK;

	*d->note = 0;
	if (!d->check && !d->head)
		rc = open_tokenizer(&j, &j.given, d->tokenizer, d->model, e);
	d->table.files = d->show.files = n > 1;
	begin_pick(&j);
	if (rc == RF_OK && d->form == RF_DUMP_HTML) {
		j.html.tokens = &d->show.tokens;
		rf_html_begin(&j.html, &j.out);
		j.html.against = d->against;
		j.html.several = n > 1;
		if (d->against && !shows_records(d))
			rc = rf_fail(
				e, RF_EUSAGE,
				"--against: it shows whole records, so it cannot be combined with --rows");
		else if (d->table.rows == RF_ROWS_TOKEN)
			rc = rf_fail(e, RF_EUSAGE,
			             "--html: a page has no rows for single tokens (--rows record)");
		else if (d->against)
			rc = rf_in_open(&j.against, d->against, d->max_record, e);
	}
	for (; j.file < n && rc == RF_OK && !shown_enough(&j); j.file++)
		rc = d->check ? check_file(&j, paths[j.file], e) : dump_file(&j, paths[j.file], e);
	if (rc == RF_OK && j.has_table)
		rc = end_table(&j, e);
	if (rc == RF_OK)
		rc = end_pick(&j, e);
	if (rc == RF_OK && j.against && !(d->first && !d->table.sort && !d->sample))
		rc = end_against(&j, e);
	if (rc == RF_OK && d->form == RF_DUMP_HTML) {
		j.html.matched = shows_records(d) ? j.html.records : j.matched;
		rf_html_end(&j.html, &j.out);
		rc = flush_output(&j, e);
	}
	if (rc == RF_OK)
		say_nothing_found(&j);
	rf_in_close(j.against);
	rf_topn_free(&j.pick);
	rf_table_close(&j.table);
	rf_tokenizer_free(j.given);
	rf_tokenizer_free(j.fallback);
	rf_tokenizer_free(j.bytes);
	rf_buf_free(&j.text);
	rf_buf_free(&j.out);
	return rc;
}
