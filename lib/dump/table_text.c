/* table_text.c -- chooses the columns of a table, and writes its lines as TSV or CSV. */
#include <math.h>
#include <string.h>

#include "dump/columns.h"
#include "dump/table.h"

/* ---- --columns, --where, --sort ------------------------------------------------------------ */

static enum rf_code read_columns(struct rf_table *t, const char *s, struct rf_err *e)
{
	for (;; s++) {
		size_t n = strcspn(s, ",");
		enum rf_code rc;

		if (t->columns == RF_MAX_COLUMNS)
			return rf_fail(e, RF_EUSAGE, "--columns: more than %d columns", RF_MAX_COLUMNS);
		if ((rc = rf_table_find(t, "--columns", s, n, &t->column[t->columns++], e)) != RF_OK)
			return rc;
		if (!*(s += n))
			return RF_OK;
	}
}

/* Appends the column of a part, unless the table shows it already. */
static void show_part(struct rf_table *t, const char *name)
{
	int column = rf_column_of_part(t, name, strlen(name), NULL);

	for (int i = 0; i < t->columns; i++)
		if (t->column[i] == column)
			return;
	if (column >= 0)
		t->column[t->columns++] = column;
}

/* Makes the default columns the table's columns. */
static void show_default(struct rf_table *t, const struct rf_table_spec *spec)
{
	t->unasked = true;
	for (int i = 0; i < rf_column_count; i++) {
		const struct rf_column *k = &rf_column_list[i];
		const bool shown =
			k->file ? spec->files : k->shown & 1 << t->rows && (spec->stats || !k->stats);

		if (shown) {
			t->column[t->columns++] = i;
			t->tokens |= k->tokens;
		}
		for (int j = 0; shown && k->parts && rf_part_known(j); j++)
			show_part(t, rf_part_known(j));
	}
}

/* Inserts the columns of the record's parts after the existing columns of parts. */
static void show_parts(struct rf_table *t, const struct rf_reward *y)
{
	int behind[RF_MAX_COLUMNS], last = t->columns - 1, n;

	while (last >= 0 && rf_column_at(t->column[last]) && !rf_column_at(t->column[last])->parts)
		last--;
	n = t->columns - ++last;
	memcpy(behind, t->column + last, (size_t)n * sizeof *behind);
	t->columns = last;
	for (int i = 0; i < y->parts; i++)
		show_part(t, y->part[i].name);
	memcpy(t->column + t->columns, behind, (size_t)n * sizeof *behind);
	t->columns += n;
}

enum rf_code rf_table_open(struct rf_table *t, const struct rf_table_spec *spec, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	*t = (struct rf_table){ .rows = spec->rows == RF_ROWS_AUTO ? RF_ROWS_ROLLOUT : spec->rows,
		                .sort = -1 };
	if (spec->columns)
		rc = read_columns(t, spec->columns, e);
	else
		show_default(t, spec);
	if (spec->where && rc == RF_OK)
		rc = rf_where_read(t, spec->where, e);
	if (spec->sort && rc == RF_OK) {
		const char *name = spec->sort + (*spec->sort == '-');

		t->descending = *spec->sort == '-';
		rc = rf_table_find(t, "--sort", name, strlen(name), &t->sort, e);
		if (rc == RF_OK && rf_column_is_text(t->sort))
			rc = rf_fail(e, RF_EUSAGE, "--sort: column '%s' is text: rows are sorted by numbers",
			             rf_column_name(t, t->sort));
	}
	t->stats |= spec->stats;
	t->csv = spec->csv;
	return rc;
}

void rf_table_close(struct rf_table *t) { rf_where_free(t); }

enum rf_code rf_table_meet(struct rf_table *t, const struct rf_record *rec, struct rf_err *e)
{
	const struct rf_reward *y = &rec->reward;

	if (t->unasked && !t->began && t->rows == RF_ROWS_ROLLOUT && y->kind)
		show_parts(t, y);
	t->began = true;
	for (int i = 0; y->kind && !t->met && i < t->parts; i++) {
		const struct rf_table_part *p = &t->part[i];

		if (p->option && !rf_part(y, p->name))
			return rf_column_unknown(t, rec, p->option, p->name, strlen(p->name), e);
	}
	t->met |= y->kind != NULL;
	return RF_OK;
}

enum rf_code rf_table_end(const struct rf_table *t, struct rf_err *e)
{
	for (int i = 0; !t->met && i < t->parts; i++) {
		const struct rf_table_part *p = &t->part[i];

		if (p->option)
			return rf_column_unknown(t, NULL, p->option, p->name, strlen(p->name), e);
	}
	return RF_OK;
}

/* Puts the text from offset `from` to the end of p between quotes, and doubles the quotes in it (RFC
 * 4180). */
static void quote_text(struct rf_buf *p, size_t from)
{
	struct rf_buf text = { 0 };

	rf_buf_add(&text, p->p + from, p->failed ? 0 : p->n - from);
	p->n = p->failed ? p->n : from;
	rf_print_text(p, "\"");
	for (size_t i = 0; i < text.n; i++)
		rf_buf_add(p, text.p[i] == '"' ? "\"\"" : (const char *)text.p + i, text.p[i] == '"' ? 2 : 1);
	rf_print_text(p, "\"");
	p->failed |= text.failed;
	rf_buf_free(&text);
}

void rf_table_names(const struct rf_table *t, struct rf_buf *p)
{
	for (int i = 0; i < t->columns; i++) {
		const char *name = rf_column_name(t, t->column[i]);
		size_t from;

		if (i)
			rf_print_text(p, t->csv ? "," : "\t");
		from = p->n;
		rf_print_text(p, name);
		if (t->csv && strpbrk(name, ",\""))
			quote_text(p, from);
	}
	rf_print_text(p, "\n");
}

/* Appends a value.  digits: of a real number; a number that is computed from float32 values has at most 7.
 * Returns false if the value is missing. */
static bool write_value(struct rf_buf *p, struct rf_cell v, int digits, bool csv)
{
	switch (v.is) {
	case RF_MISSING: break;
	case RF_WHOLE: rf_print(p, "%llu", (unsigned long long)v.whole); break;
	case RF_SINGLE: rf_print_single(p, (float)v.real); break;
	case RF_REAL:
		if (isinf(v.real))
			rf_print_text(p, csv ? v.real > 0 ? "inf" : "-inf" : v.real > 0 ? "Inf" : "-Inf");
		else
			rf_print(p, "%.*g", digits, v.real);
	}
	return v.is != RF_MISSING;
}

void rf_table_line(const struct rf_table *t, const struct rf_token_text *w, const struct rf_row *row,
                   struct rf_buf *p)
{
	for (int i = 0; i < t->columns; i++) {
		const int at = t->column[i];
		const struct rf_column *listed = rf_column_at(at);
		const bool text = rf_column_is_text(at);
		size_t from;
		bool there;

		if (i)
			rf_print_text(p, t->csv ? "," : "\t");
		from = p->n;
		there = text ? listed->write(row, w, p)
		             : write_value(p, rf_column_value(t, at, row), listed && listed->stats ? 9 : 7,
		                           t->csv);
		if (!there && !t->csv)
			rf_print_text(p, "NaN");
		else if (there && text && t->csv)
			quote_text(p, from);
	}
	rf_print_text(p, "\n");
}

double rf_table_key(const struct rf_table *t, const struct rf_row *row)
{
	struct rf_cell v;

	if (t->sort < 0)
		return 0;
	v = rf_column_value(t, t->sort, row);
	return v.is == RF_MISSING ? NAN : t->descending ? -v.real : v.real;
}
