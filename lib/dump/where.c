/* where.c -- reads the conditions of --where, and tells whether a row meets them. */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "dump/columns.h"
#include "dump/table.h"

/* ---- reading ------------------------------------------------------------------------------- */

static size_t count_blanks(const char *s) { return strspn(s, " \t"); }

static size_t name_length(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
}

enum { LT, LE, GT, GE, EQ, NE, HAS, LACKS };
/* If a word begins with another one, it stands before that one. */
static const struct {
	const char *word;
	int op;
} operators[] = {
	{ "<=", LE }, { ">=", GE }, { "!=", NE }, { "==", EQ }, { "!~", LACKS },
	{ "<", LT },  { ">", GT },  { "=", EQ },  { "~", HAS },
};

/* Reads a text in quotes, in which two quotes stand for one quote, and moves *s after it.  Errors: RF_EUSAGE,
 * without a sentence: no such text begins there; RF_ENOMEM. */
static enum rf_code read_quoted(const char **s, struct rf_table_term *term, struct rf_err *e)
{
	const char *from = *s, *to;

	if (*from != '"')
		return RF_EUSAGE;
	for (to = ++from; *to && (*to != '"' || to[1] == '"'); to++)
		to += *to == '"';
	if (!*to)
		return RF_EUSAGE;
	if (!(term->text = malloc((size_t)(to - from) + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (term->n = 0; from < to; from++) {
		term->text[term->n++] = *from;
		from += *from == '"';
	}
	*s = to + 1;
	return RF_OK;
}

/* Reads the number or text that a column is compared with, and moves *s after it.  Errors: RF_EUSAGE: the
 * column cannot be compared in this way; RF_EDATA, without a sentence: there is no number; RF_ENOMEM. */
static enum rf_code read_operand(const char **s, struct rf_table_term *term, struct rf_err *e)
{
	char *end;

	if (rf_column_is_text(term->column)) {
		enum rf_code rc = term->op < EQ ? RF_EUSAGE : read_quoted(s, term, e);

		return rc != RF_EUSAGE ? rc
		                       : rf_fail(e, rc,
		                                 "--where: column '%s' is text: conditions on it are like "
		                                 "%s~\"word\" (~ !~ = !=)",
		                                 rf_column_list[term->column].name,
		                                 rf_column_list[term->column].name);
	}
	if (term->op >= HAS)
		return rf_fail(e, RF_EUSAGE,
		               "--where: ~ and !~ are for columns of text: this one has numbers");
	term->number = strtod(*s, &end);
	if (end == *s || !isfinite(term->number))
		return RF_EDATA;
	term->is_whole = rf_number(*s, (size_t)(end - *s), &term->whole);
	*s = end;
	return RF_OK;
}

/* Reads one condition at *s, and moves *s after it and after the comma or the "and" that follows. */
static enum rf_code read_term(struct rf_table *t, const char **s, struct rf_err *e)
{
	struct rf_table_term *term = &t->term[t->terms];
	const char *at = *s + count_blanks(*s), *name = at, *end;
	size_t n = name_length(at), op;
	char quoted[60];
	enum rf_code rc;

	if (t->terms == RF_MAX_TERMS)
		return rf_fail(e, RF_EUSAGE, "--where: more than %d comparisons", RF_MAX_TERMS);
	at += n;
	at += count_blanks(at);
	for (op = 0; op < sizeof operators / sizeof *operators; op++)
		if (!strncmp(at, operators[op].word, strlen(operators[op].word)))
			break;
	if (!n || op == sizeof operators / sizeof *operators)
		goto unreadable;
	at += strlen(operators[op].word);
	at += count_blanks(at);
	if ((rc = rf_table_find(t, "--where", name, n, &term->column, e)) != RF_OK)
		return rc;
	term->op = operators[op].op;
	t->terms++;
	if ((rc = read_operand(&at, term, e)) == RF_EDATA)
		goto unreadable;
	if (rc != RF_OK)
		return rc;
	end = at + count_blanks(at);
	if (*end == ',')
		*s = end + 1;
	else if (end > at && !strncmp(end, "and", 3) && count_blanks(end + 3))
		*s = end + 3;
	else if (!*end)
		*s = end;
	else
		goto unreadable;
	if (end != *s && !(*s)[count_blanks(*s)])
		goto unreadable;
	return RF_OK;
unreadable:
	return rf_fail(e, RF_EUSAGE,
	               "--where: '%s' is not a list of conditions like reward<0.1,text~\"word\" "
	               "(< <= > >= = != and, for text, ~ !~)",
	               rf_quote(quoted, sizeof quoted, name, strlen(name)));
}

enum rf_code rf_where_read(struct rf_table *t, const char *where, struct rf_err *e)
{
	enum rf_code rc;

	while ((rc = read_term(t, &where, e)) == RF_OK && *where)
		;
	return rc;
}

void rf_where_free(struct rf_table *t)
{
	for (int i = 0; i < t->terms; i++)
		free(t->term[i].text);
	rf_buf_free(&t->cell);
}

/* ---- matching ------------------------------------------------------------------------------ */

const char *rf_table_missing(const struct rf_table *t)
{
	for (int i = 0; i < t->terms; i++)
		if (!t->term[i].there)
			return rf_column_name(t, t->term[i].column);
	return NULL;
}

/* Returns -1, 0 or 1: a whole number, which a double may not hold, is less than, equal to or greater than the
 * number of a condition. */
static int compare_whole(uint64_t x, const struct rf_table_term *term)
{
	const double y = term->number;
	uint64_t below = term->whole;

	if (!term->is_whole) {
		if (y < 0 || y >= 0x1p64)
			return y < 0 ? 1 : -1;
		below = (uint64_t)y;
	}
	if (x != below)
		return x < below ? -1 : 1;
	return !term->is_whole && (double)below < y ? -1 : 0;
}

/* Returns whether a condition on a number holds. */
static bool number_holds(const struct rf_table *t, struct rf_table_term *term, const struct rf_row *row)
{
	const struct rf_cell v = rf_column_value(t, term->column, row);
	/* binary=0.2 means the float32 next to 0.2 */
	const double x = v.real, y = v.is == RF_SINGLE ? (double)(float)term->number : term->number;
	const int sign = v.is == RF_WHOLE ? compare_whole(v.whole, term) : (x > y) - (x < y);

	term->there |= v.is != RF_MISSING;
	if (v.is == RF_MISSING)
		return false;
	switch (term->op) {
	case LT: return sign < 0;
	case LE: return sign <= 0;
	case GT: return sign > 0;
	case GE: return sign >= 0;
	case EQ: return sign == 0;
	default: return sign != 0;
	}
}

/* Returns whether a condition holds for a text, as a table shows the text. */
static bool text_holds(struct rf_table *t, struct rf_table_term *term, const struct rf_token_text *w,
                       const struct rf_row *row)
{
	struct rf_buf *cell = &t->cell;
	bool has;

	rf_print_clear(cell);
	if (!rf_column_list[term->column].write(row, w, cell))
		return false;
	term->there = true;
	if (cell->failed)
		return true;
	if (term->op == HAS || term->op == LACKS)
		has = !term->n || (cell->n && memmem(cell->p, cell->n, term->text, term->n));
	else
		has = cell->n == term->n && !(term->n && memcmp(cell->p, term->text, term->n));
	return has == (term->op == HAS || term->op == EQ);
}

bool rf_table_match(struct rf_table *t, const struct rf_token_text *w, const struct rf_row *row)
{
	bool all = true;

	for (int i = 0; i < t->terms; i++) {
		struct rf_table_term *term = &t->term[i];
		const bool holds = rf_column_is_text(term->column) ? text_holds(t, term, w, row)
		                                                   : number_holds(t, term, row);

		all = all && holds;
	}
	return all;
}
