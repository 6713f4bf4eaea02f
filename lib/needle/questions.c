/* questions.c -- reads questions, their answers, and the paragraphs with the answers.  A paragraph that
 * several questions share is kept once. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/ids.h"
#include "base/memory.h"
#include "io/jscan.h"
#include "io/lines.h"
#include "needle/task.h"

enum { MAX_QUESTION = 64 << 20, MAX_LIST = 10000 };

/* State while the file is read: for each paragraph that was read, the index of the kept paragraph. */
struct reading {
	struct rf_questions *to;
	struct rf_ids seen, titles;
	uint32_t *kept;
	size_t cap;
};

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory"); }

/* Copies the text of a string into the memory of *q, with a NUL after it.  The copy comes first, because
 * unescaping changes the string in place. */
static enum rf_code keep_text(struct rf_questions *q, const struct rf_jvalue *v, const char *key,
                              const char **text, size_t *n, struct rf_err *e)
{
	struct rf_jvalue copy = { NULL, v->n };

	if (!rf_jscan_is_string(v))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a string", key, rf_jscan_kind(v));
	if (!(copy.s = rf_region_alloc(&q->memory, v->n + 1, 1)))
		return no_memory(e);
	memcpy(copy.s, v->s, v->n);
	*text = rf_jscan_text(&copy, n);
	if (!*n || strlen(*text) != *n)
		return rf_fail(e, RF_EDATA, "'%s' %s", key, *n ? "contains a NUL" : "is empty");
	return RF_OK;
}

static enum rf_code add_paragraph(struct reading *r, struct rf_paragraph p, uint32_t *which, struct rf_err *e)
{
	struct rf_questions *q = r->to;
	uint64_t hash = XXH64(p.s, p.n, 0), before;
	enum rf_code rc;

	if (!rf_grow(&r->kept, r->seen.total, &r->cap, sizeof *r->kept))
		return no_memory(e);
	if ((rc = rf_ids_add(&r->seen, hash, &before, e)) != RF_OK)
		return rc;
	if (before) {
		*which = r->kept[r->seen.total - 1] = r->kept[rf_ids_first(&r->seen, hash) - 1];
		return RF_OK;
	}
	if (!rf_grow(&q->p, q->paragraphs, &q->paragraphs_cap, sizeof *q->p))
		return no_memory(e);
	*which = r->kept[r->seen.total - 1] = (uint32_t)q->paragraphs;
	q->p[q->paragraphs++] = p;
	return RF_OK;
}

static enum rf_code count_elements(const struct rf_jvalue *list, const char *key, uint32_t *n,
                                   struct rf_err *e)
{
	struct rf_jvalue v = { NULL, 0 };

	if (!rf_jscan_is_list(list))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a list", key, rf_jscan_kind(list));
	for (*n = 0; *n <= MAX_LIST && rf_jscan_next(list, NULL, &v);)
		++*n;
	if (*n == 0 || *n > MAX_LIST)
		return rf_fail(e, RF_EDATA, "'%s' %s", key, *n ? "has more than 10000 values" : "is empty");
	return RF_OK;
}

static enum rf_code read_question(struct reading *r, const struct rf_jvalue *line, struct rf_err *e)
{
	enum { QUESTION, ANSWERS, CONTEXT, PARAGRAPHS, TITLE, KEYS };
	static const char *const keys[KEYS] = { "question", "answers", "context", "paragraphs", "title" };
	struct rf_question q = { .own = 1 };
	struct rf_jvalue v[KEYS], each = { NULL, 0 };
	struct rf_paragraph *own;
	uint64_t title = 0, hash, before;
	const char *text;
	enum rf_code rc;
	size_t n;

	if ((rc = rf_jscan_pick(line, keys, KEYS, v, e)) != RF_OK)
		return rc;
	for (int k = QUESTION; k <= ANSWERS; k++)
		if (!v[k].s)
			return rf_fail(e, RF_EDATA, "the key '%s' is missing", keys[k]);
	if (!v[CONTEXT].s == !v[PARAGRAPHS].s)
		return rf_fail(e, RF_EDATA, "there must be either 'context' or 'paragraphs'");
	if ((rc = keep_text(r->to, &v[QUESTION], keys[QUESTION], &q.text, &n, e)) != RF_OK ||
	    (rc = count_elements(&v[ANSWERS], keys[ANSWERS], &q.answers, e)) != RF_OK ||
	    (v[PARAGRAPHS].s && (rc = count_elements(&v[PARAGRAPHS], keys[PARAGRAPHS], &q.own, e)) != RF_OK))
		return rc;
	if (v[TITLE].s) {
		if ((rc = keep_text(r->to, &v[TITLE], keys[TITLE], &text, &n, e)) != RF_OK)
			return rc;
		hash = XXH64(text, n, 0);
		if ((rc = rf_ids_add(&r->titles, hash, &before, e)) != RF_OK)
			return rc;
		title = rf_ids_first(&r->titles, hash);
	}
	q.answer = rf_region_alloc(&r->to->memory, q.answers, sizeof *q.answer);
	q.paragraph = rf_region_alloc(&r->to->memory, q.own, sizeof *q.paragraph);
	own = rf_region_alloc(&r->to->memory, q.own, sizeof *own);
	if (!q.answer || !q.paragraph || !own)
		return no_memory(e);
	for (uint32_t i = 0; rc == RF_OK && rf_jscan_next(&v[ANSWERS], NULL, &each); i++)
		rc = keep_text(r->to, &each, keys[ANSWERS], &q.answer[i], &n, e);
	each.s = NULL;
	if (rc == RF_OK && v[CONTEXT].s)
		rc = keep_text(r->to, &v[CONTEXT], keys[CONTEXT], &own->s, &own->n, e);
	else
		for (uint32_t i = 0; rc == RF_OK && rf_jscan_next(&v[PARAGRAPHS], NULL, &each); i++)
			rc = keep_text(r->to, &each, keys[PARAGRAPHS], &own[i].s, &own[i].n, e);
	/* add the parts of the line to the lists only now that the whole line is valid */
	for (uint32_t i = 0; rc == RF_OK && i < q.own; i++) {
		own[i].title = title;
		rc = add_paragraph(r, own[i], &q.paragraph[i], e);
	}
	if (rc != RF_OK)
		return rc;
	if (!rf_grow(&r->to->q, r->to->n, &r->to->cap, sizeof *r->to->q))
		return no_memory(e);
	r->to->q[r->to->n++] = q;
	return RF_OK;
}

enum rf_code rf_questions_open(struct rf_questions *q, const char *path, struct rf_skip *skip,
                               struct rf_err *e)
{
	struct reading r = { .to = q };
	struct rf_jvalue line;
	struct rf_lines *l;
	enum rf_code rc;

	memset(q, 0, sizeof *q);
	if ((rc = rf_lines_open(&l, path, MAX_QUESTION, e)) != RF_OK)
		return rc;
	while (rc == RF_OK) {
		if ((rc = rf_lines_next_object(l, &line, e)) == RF_OK &&
		    (rc = read_question(&r, &line, e)) != RF_OK)
			rf_lines_blame(l, e);
		if (rc == RF_EDATA && rf_lines_goes_on(l))
			rc = rf_skip_line(skip, rc, e);
	}
	if (rc == RF_EOF)
		rc = q->n ? RF_OK : rf_fail(e, RF_EDATA, "%s: there are no questions", rf_lines_name(l));
	rf_lines_close(l);
	rf_ids_free(&r.seen);
	rf_ids_free(&r.titles);
	free(r.kept);
	return rc;
}

void rf_questions_free(struct rf_questions *q)
{
	free(q->q);
	free(q->p);
	rf_region_free(&q->memory);
}
