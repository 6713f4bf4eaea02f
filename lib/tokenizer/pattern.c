/* pattern.c -- compiles and matches with Oniguruma, within limits that a tokenizer's file cannot raise. */
#include <oniguruma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/pattern.h"

/* Limits: a text that needs more attempts is an attack, or the pattern is broken.  RETRIES is Oniguruma's own
 * limit for one place, at which `tokenizers` fails, too.  All places of a search together have ten times this
 * limit, and PER_BYTE more for each byte.  An entry of the stack has 40 bytes. */
enum { RETRIES = 10 * 1000 * 1000, PER_BYTE = 100, STACK = 4 << 20 };

struct rf_pattern {
	regex_t *code;
};

struct rf_pattern_work {
	OnigRegion *region;
	OnigMatchParam *limits;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Compares the start of a pattern with a construct.  Oniguruma ignores case, blanks, hyphens and underscores
 * in the name of a property, and \P is \p here. */
static bool begins_with(const char *s, size_t n, const char *with)
{
	bool property = with[1] == 'p';

	for (size_t i = 0; *with; i++) {
		char c = i < n ? s[i] : 0;

		if (property && i > 2 && c && strchr(" _-", c))
			continue;
		if (c != *with && !(property && (c | 0x20) == *with))
			return false;
		with++;
	}
	return true;
}

static void initialize(void)
{
	OnigEncoding utf8 = ONIG_ENCODING_UTF8;

	onig_initialize(&utf8, 1);
}

/* Checks for the constructs that versions of Oniguruma read differently: before 6.9.9, [:punct:] has no
 * symbols, a repeated \R misses line ends, and \p{Word} has superscripts. */
static enum rf_code check_versions(const char *s, size_t n, struct rf_err *e)
{
	static const char *const names[] = { "[:punct:]", "[:^punct:]", "\\R", "\\p{word}", "\\p{^word}" };

	for (size_t i = 0; i < n; i += s[i] == '\\' && i + 1 < n ? 2 : 1)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (begins_with(s + i, n - i, names[k]))
				return rf_fail(e, RF_EMODEL,
				               "'%s' in a pattern is not supported: versions of Oniguruma "
				               "differ in it",
				               names[k]);
	return RF_OK;
}

enum rf_code rf_pattern_new(struct rf_pattern **out, const char *s, size_t n, bool literal, struct rf_err *e)
{
	const OnigUChar *from = (const OnigUChar *)s;
	struct rf_pattern *p;
	OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
	OnigErrorInfo info;
	enum rf_code rc;
	int code;

	*out = NULL;
	if (!literal && (rc = check_versions(s, n, e)) != RF_OK)
		return rc;
	p = calloc(1, sizeof *p);
	if (!p)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	pthread_once(&once, initialize);
	code = onig_new(&p->code, from, from + n, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
	                literal ? ONIG_SYNTAX_ASIS : ONIG_SYNTAX_ONIGURUMA, &info);
	if (code == ONIG_NORMAL) {
		*out = p;
		return RF_OK;
	}
	free(p);
	if (code == ONIGERR_MEMORY)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	onig_error_code_to_str(why, code, &info);
	return rf_fail(e, RF_EDATA, "a pattern does not compile: %s", (char *)why);
}

void rf_pattern_free(struct rf_pattern *p)
{
	if (p)
		onig_free(p->code);
	free(p);
}

struct rf_pattern_work *rf_pattern_work_new(void)
{
	struct rf_pattern_work *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->region = onig_region_new();
	w->limits = onig_new_match_param();
	if (!w->region || !w->limits) {
		rf_pattern_work_free(w);
		return NULL;
	}
	onig_initialize_match_param(w->limits);
	onig_set_retry_limit_in_match_of_match_param(w->limits, RETRIES);
	onig_set_match_stack_limit_size_of_match_param(w->limits, STACK);
	return w;
}

void rf_pattern_work_free(struct rf_pattern_work *w)
{
	if (!w)
		return;
	if (w->region)
		onig_region_free(w->region, 1);
	if (w->limits)
		onig_free_match_param(w->limits);
	free(w);
}

enum rf_code rf_pattern_next(struct rf_matches *m, bool *found, size_t *at, size_t *end, struct rf_err *e)
{
	const OnigUChar *s = (const OnigUChar *)m->s, *stop = s + m->n;
	OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
	int32_t c;
	int place;

	for (*found = false; m->n && m->from <= m->n;) {
		onig_set_retry_limit_in_search_of_match_param(m->w->limits,
		                                              10 * RETRIES + PER_BYTE * (m->n - m->from));
		place = onig_search_with_param(m->p->code, s, stop, s + m->from, stop, m->w->region,
		                               ONIG_OPTION_NONE, m->w->limits);
		if (place == ONIG_MISMATCH)
			break;
		if (place < 0) {
			onig_error_code_to_str(why, place);
			return rf_fail(e, RF_EDATA, "a pattern of the tokenizer fails on the text: %s",
			               (char *)why);
		}
		*at = (size_t)m->w->region->beg[0];
		*end = (size_t)m->w->region->end[0];
		if (*end == *at && m->any && *end == m->end) {
			m->from += m->from < m->n ? rf_utf8_next(m->s + m->from, m->n - m->from, &c) : 1;
			continue;
		}
		m->from = m->end = *end;
		m->any = *found = true;
		break;
	}
	return RF_OK;
}

int32_t rf_character_before(const char *s, size_t at, size_t *len)
{
	int32_t c;

	for (*len = 1; *len < 4 && *len < at && ((unsigned char)s[at - *len] & 0xC0) == 0x80;)
		++*len;
	return rf_utf8_next(s + at - *len, *len, &c) == *len ? c : -1;
}

bool rf_is_white_space(int32_t c)
{
	return rf_utf8_blank(c) && (c < 0x1C || c > 0x1F); /* str.isspace() also knows four separators */
}
