/* pieces.c -- divides a text by the pre-tokenizers.  Each one divides the pieces of the one before it: a
 * piece goes through the whole list before the next piece is cut. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/normal.h"
#include "tokenizer/pieces.h"

enum kind { SPLIT, DIGITS, METASPACE, BYTE_LEVEL };
enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };
enum { STEPS = 16 };

struct step {
	enum kind kind;
	enum behavior behavior; /* for SPLIT */
	bool invert;
	struct rf_pattern *pattern; /* for SPLIT; GPT-2's pattern for a BYTE_LEVEL that divides */
	bool individual;            /* for DIGITS */
	enum rf_scheme scheme;      /* for METASPACE */
	bool split;
	char *mark; /* the mark for a blank */
	size_t mark_n;
	bool prefix_space; /* for BYTE_LEVEL */
};

struct rf_pieces {
	struct step step[STEPS];
	int n;
};

/* A part of the text: a match, or the text between two matches. */
struct part {
	size_t from, end;
	bool match;
};
struct parts {
	struct part *p;
	size_t n, cap;
};
struct rf_pieces_work {
	struct parts parts[STEPS];
	struct rf_buf text[STEPS];
};

struct walk {
	const struct rf_pieces *p;
	struct rf_pieces_work *w;
	struct rf_pattern_work *pw;
	enum rf_code (*each)(void *to, const char *piece, size_t n, struct rf_err *e);
	void *to;
};

/* ---- reading ------------------------------------------------------------------------------- */

static enum rf_code read_split(struct step *s, const struct rf_jvalue *json, struct rf_err *e)
{
	static const char *const words[] = { "Removed",        "Isolated",   "MergedWithPrevious",
		                             "MergedWithNext", "Contiguous", NULL };
	struct rf_jvalue v;
	enum rf_code rc;
	int i;

	if ((rc = rf_jscan_get(json, "pattern", &v, e)) != RF_OK ||
	    (rc = rf_pattern_read(&s->pattern, &v, e)) != RF_OK ||
	    (rc = rf_word_read(json, "behavior", words, REMOVED, &i, e)) != RF_OK)
		return rc;
	s->behavior = (enum behavior)i;
	return rf_flag_read(json, "invert", false, &s->invert, e);
}

static enum rf_code read_byte_level(struct step *s, const struct rf_jvalue *json, struct rf_err *e)
{
	static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
				   "\\s+(?!\\S)|\\s+";

	bool divides, unused;
	enum rf_code rc;

	if ((rc = rf_flag_read(json, "add_prefix_space", true, &s->prefix_space, e)) != RF_OK ||
	    (rc = rf_flag_read(json, "trim_offsets", true, &unused, e)) != RF_OK ||
	    (rc = rf_flag_read(json, "use_regex", true, &divides, e)) != RF_OK)
		return rc;
	return divides ? rf_pattern_new(&s->pattern, gpt2, sizeof gpt2 - 1, false, e) : RF_OK;
}

static const char *const types[] = { "Split", "Digits", "Metaspace", "ByteLevel", NULL };

static enum rf_code read_step(void *pieces, const struct rf_jvalue *json, int kind, struct rf_err *e)
{
	struct rf_pieces *p = pieces;
	struct step *s = &p->step[p->n];

	if (rf_pieces_byte_level(p))
		return rf_fail(e, RF_EMODEL, "the pre-tokenizer '%s' after ByteLevel is not supported",
		               types[kind]);
	if (p->n == STEPS)
		return rf_fail(e, RF_EMODEL, "more than %d pre-tokenizers are not supported", STEPS);
	p->n++;
	s->kind = (enum kind)kind;
	if (s->kind == SPLIT)
		return read_split(s, json, e);
	if (s->kind == METASPACE)
		return rf_metaspace_read(json, &s->mark, &s->mark_n, &s->scheme, &s->split, e);
	if (s->kind == BYTE_LEVEL)
		return read_byte_level(s, json, e);
	return rf_flag_read(json, "individual_digits", false, &s->individual, e);
}

enum rf_code rf_pieces_read(struct rf_pieces **out, const struct rf_jvalue *json, struct rf_err *e)
{
	struct rf_pieces *p = calloc(1, sizeof *p);

	*out = p;
	if (!p)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	return rf_parts_read(&(struct rf_parts){ "pre-tokenizer", "pretokenizers", types, read_step, p },
	                     json, e);
}

void rf_pieces_free(struct rf_pieces *p)
{
	for (int i = 0; p && i < STEPS; i++) {
		rf_pattern_free(p->step[i].pattern);
		free(p->step[i].mark);
	}
	free(p);
}

bool rf_pieces_byte_level(const struct rf_pieces *p) { return p->n && p->step[p->n - 1].kind == BYTE_LEVEL; }

int rf_pieces_prefix_space(const struct rf_pieces *p)
{
	if (rf_pieces_byte_level(p))
		return p->step[p->n - 1].prefix_space;
	for (int i = 0; i < p->n; i++)
		if (p->step[i].kind == METASPACE)
			return p->step[i].scheme != RF_NEVER;
	return -1;
}

struct rf_pieces_work *rf_pieces_work_new(void) { return calloc(1, sizeof(struct rf_pieces_work)); }

void rf_pieces_work_free(struct rf_pieces_work *w)
{
	for (int i = 0; w && i < STEPS; i++) {
		free(w->parts[i].p);
		rf_buf_free(&w->text[i]);
	}
	free(w);
}

/* ---- dividing ------------------------------------------------------------------------------ */

static enum rf_code add(struct parts *a, size_t from, size_t end, bool match, struct rf_err *e)
{
	if (!rf_grow(&a->p, a->n, &a->cap, sizeof *a->p))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	a->p[a->n++] = (struct part){ from, end, match };
	return RF_OK;
}

/* Lists the matches of a pattern and the parts between them. */
static enum rf_code list_matches(const struct step *s, struct rf_pattern_work *pw, const char *text, size_t n,
                                 struct parts *a, struct rf_err *e)
{
	struct rf_matches m = { s->pattern, pw, text, n, 0, 0, false };
	size_t done = 0, at, end;
	enum rf_code rc = RF_OK;
	bool found;

	a->n = 0;
	while (rc == RF_OK && (rc = rf_pattern_next(&m, &found, &at, &end, e)) == RF_OK && found) {
		if (at > done)
			rc = add(a, done, at, false, e);
		if (rc == RF_OK)
			rc = add(a, at, end, true, e);
		done = end;
	}
	return rc == RF_OK && done < n ? add(a, done, n, false, e) : rc;
}

/* Divides a text at its digits and other numbers, as Rust's char::is_numeric() defines them. */
static enum rf_code list_digits(const struct step *s, const char *text, size_t n, struct parts *a,
                                struct rf_err *e)
{
	size_t from = 0;
	bool before = false;
	enum rf_code rc = RF_OK;
	int32_t c;

	a->n = 0;
	for (size_t i = 0, len; i < n && rc == RF_OK; i += len) {
		len = rf_utf8_next(text + i, n - i, &c);
		utf8proc_category_t of = utf8proc_category(c);
		bool is = of == UTF8PROC_CATEGORY_ND || of == UTF8PROC_CATEGORY_NL ||
		          of == UTF8PROC_CATEGORY_NO;

		if (i > from && (is != before || (is && s->individual))) {
			rc = add(a, from, i, before, e);
			from = i;
		}
		before = is;
	}
	return rc == RF_OK && n > from ? add(a, from, n, before, e) : rc;
}

/* Joins neighbours as the behavior says; ends are moved, and parts that are left out become empty. */
static void join(enum behavior behavior, bool invert, struct parts *a)
{
	size_t k = 0;
	bool previous = false;

	for (size_t i = 0; i < a->n && invert; i++)
		a->p[i].match = !a->p[i].match;
	switch (behavior) {
	case ISOLATED: return;
	case REMOVED:
		for (size_t i = 0; i < a->n; i++)
			if (!a->p[i].match)
				a->p[k++] = a->p[i];
		break;
	case CONTIGUOUS:
	case MERGED_WITH_PREVIOUS:
		for (size_t i = 0; i < a->n; i++) {
			bool match = a->p[i].match;
			bool joins = behavior == CONTIGUOUS ? match == previous : match && !previous;

			if (joins && k)
				a->p[k - 1].end = a->p[i].end;
			else
				a->p[k++] = a->p[i];
			previous = match;
		}
		break;
	case MERGED_WITH_NEXT: /* as MERGED_WITH_PREVIOUS, from the end */
		k = a->n;
		for (size_t i = a->n; i-- > 0;) {
			bool match = a->p[i].match;

			if (match && !previous && k < a->n)
				a->p[k].from = a->p[i].from;
			else
				a->p[--k] = a->p[i];
			previous = match;
		}
		memmove(a->p, a->p + k, (a->n - k) * sizeof *a->p);
		k = a->n - k;
		break;
	}
	a->n = k;
}

/* Returns the number of the head's bytes at and after `from`. */
static size_t head_after(size_t head, size_t from) { return head > from ? head - from : 0; }

static enum rf_code divide_from(const struct walk *t, int i, const char *s, size_t n, size_t head,
                                struct rf_err *e);

static enum rf_code each_part(const struct walk *t, int i, const char *s, const struct parts *a, size_t head,
                              struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (size_t k = 0; k < a->n && rc == RF_OK; k++)
		if (a->p[k].end > a->p[k].from)
			rc = divide_from(t, i + 1, s + a->p[k].from, a->p[k].end - a->p[k].from,
			                 head_after(head, a->p[k].from), e);
	return rc;
}

/* Passes on isolated matches without a list.  All byte-level models use this function, so it is the fast
 * one. */
static enum rf_code isolated(const struct walk *t, int i, const char *s, size_t n, size_t head,
                             struct rf_err *e)
{
	struct rf_matches m = { t->p->step[i].pattern, t->pw, s, n, 0, 0, false };
	size_t done = 0, at, end;
	enum rf_code rc = RF_OK;
	bool found;

	while (rc == RF_OK && (rc = rf_pattern_next(&m, &found, &at, &end, e)) == RF_OK && found) {
		if (at > done)
			rc = divide_from(t, i + 1, s + done, at - done, head_after(head, done), e);
		if (end > at && rc == RF_OK)
			rc = divide_from(t, i + 1, s + at, end - at, head_after(head, at), e);
		done = end;
	}
	return rc == RF_OK && done < n ? divide_from(t, i + 1, s + done, n - done, head_after(head, done), e)
	                               : rc;
}

static bool begins_with(const char *s, size_t n, const char *with, size_t len)
{
	return n >= len && !memcmp(s, with, len);
}

static enum rf_code metaspace(const struct walk *t, int i, const char *s, size_t n, size_t head,
                              struct rf_err *e)
{
	const struct step *step = &t->p->step[i];
	struct rf_buf *to = &t->w->text[i];
	struct parts *a = &t->w->parts[i];
	const size_t m = step->mark_n;
	size_t from = 0, marks = 0;
	enum rf_code rc = RF_OK;

	to->n = 0;
	for (size_t k = 0; k < n && k < head; k++) /* blanks in the head become marks, too */
		marks += s[k] == ' ';
	if ((step->scheme == RF_ALWAYS || (step->scheme == RF_FIRST && head)) && n && *s != ' ' &&
	    !begins_with(s, n, step->mark, m)) {
		rf_buf_add(to, step->mark, m);
		head += head ? m : 0;
	}
	head += marks * m - marks;
	for (size_t k = 0, len; k < n; k += len) {
		const char *blank = memchr(s + k, ' ', n - k);

		len = blank ? (size_t)(blank - (s + k)) : n - k;
		rf_buf_add(to, s + k, len);
		if (blank) {
			rf_buf_add(to, step->mark, m);
			len++;
		}
	}
	if (to->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s = (const char *)to->p, n = to->n;
	if (!step->split)
		return divide_from(t, i + 1, s, n, head, e);
	a->n = 0;
	for (size_t k = 0; k + m <= n && m && rc == RF_OK;) { /* each mark begins a piece */
		if (memcmp(s + k, step->mark, m)) {
			k++;
			continue;
		}
		if (k > from)
			rc = add(a, from, k, false, e);
		from = k;
		k += m;
		/* a mark before another mark is a separate piece */
	}
	if (rc == RF_OK && n > from)
		rc = add(a, from, n, false, e);
	return rc == RF_OK ? each_part(t, i, s, a, head, e) : rc;
}

static enum rf_code divide_from(const struct walk *t, int i, const char *s, size_t n, size_t head,
                                struct rf_err *e)
{
	const struct step *step = &t->p->step[i];
	struct parts *a = &t->w->parts[i];
	struct rf_buf *to = &t->w->text[i];
	enum rf_code rc;

	if (i == t->p->n)
		return n ? t->each(t->to, s, n, e) : RF_OK;
	switch (step->kind) {
	case METASPACE: return metaspace(t, i, s, n, head, e);
	case DIGITS:
		if ((rc = list_digits(step, s, n, a, e)) != RF_OK)
			return rc;
		break;
	case BYTE_LEVEL:
		if (step->prefix_space && n && *s != ' ') {
			to->n = 0;
			rf_buf_add(to, " ", 1);
			rf_buf_add(to, s, n);
			if (to->failed)
				return rf_fail(e, RF_ENOMEM, "out of memory");
			s = (const char *)to->p, n = to->n;
		}
		return step->pattern ? isolated(t, i, s, n, head, e) : divide_from(t, i + 1, s, n, head, e);
	case SPLIT:
		if (step->behavior == ISOLATED)
			return isolated(t, i, s, n, head, e);
		if ((rc = list_matches(step, t->pw, s, n, a, e)) != RF_OK)
			return rc;
		join(step->behavior, step->invert, a);
		break;
	}
	return each_part(t, i, s, a, head, e);
}

enum rf_code rf_pieces_divide(const struct rf_pieces *p, struct rf_pieces_work *w, struct rf_pattern_work *pw,
                              const char *s, size_t n, size_t head,
                              enum rf_code (*each)(void *to, const char *piece, size_t n, struct rf_err *e),
                              void *to, struct rf_err *e)
{
	const struct walk t = { p, w, pw, each, to };

	return divide_from(&t, 0, s, n, head, e);
}
