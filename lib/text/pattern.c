/* pattern.c -- Oniguruma's syntax to PCRE2's, then PCRE2's compiler and its JIT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "text/pattern.h"

/* The 25 characters of White_Space, and all the others. */
#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
               "\\x{202f}\\x{205f}\\x{3000}"
#define OTHERS "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}" \
               "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}" \
               "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"

/* A text that needs more than this is not a piece of a document, but an attack or a broken pattern. */
enum { MATCH_LIMIT = 10 * 1000 * 1000, HEAP_KIB = 64 << 10, STACK = 1 << 20 };

struct rf_pattern {
	pcre2_code *code;
	bool jit;
};

struct rf_pattern_work {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

static void put(struct rf_buf *b, const char *s) { rf_buf_add(b, s, strlen(s)); }

static enum rf_code refuse(const char *what, size_t n, struct rf_err *e)
{
	char q[40];

	return rf_fail(e, RF_EMODEL, "'%s' in a pattern is not supported", rf_quote(q, sizeof q, what, n));
}

/* An escape of which both mean the same, or that can be written so; *i is moved past it. */
static enum rf_code escape(struct rf_buf *out, const char *s, size_t n, size_t *i, bool in_class,
                           struct rf_err *e)
{
	static const char same[] = "rntfvae0123456789dDpPxAzZ";
	size_t at = *i;
	char c;

	if (at + 1 >= n)
		return rf_fail(e, RF_EDATA, "a pattern ends with a backslash");
	c = s[at + 1];
	*i = at + 2;
	if (c == 's' || c == 'S') {
		put(out, in_class ? "" : "[");
		put(out, c == 's' ? SPACES : OTHERS);
		put(out, in_class ? "" : "]");
		return RF_OK;
	}
	if (c == 'u') { /* four digits */
		if (at + 6 > n || strspn(s + at + 2, "0123456789abcdefABCDEF") < 4)
			return refuse(s + at, 2, e);
		put(out, "\\x{");
		rf_buf_add(out, s + at + 2, 4);
		put(out, "}");
		*i = at + 6;
		return RF_OK;
	}
	if (c == 'p' || c == 'P' || c == 'x') {
		size_t end = at + 2;

		if (end < n && s[end] == '{') {
			while (end < n && s[end] != '}')
				end++;
			if (end == n)
				return rf_fail(e, RF_EDATA, "a pattern has a '{' without its '}'");
			rf_buf_add(out, s + at, end + 1 - at);
			*i = end + 1;
			return RF_OK;
		}
		if (c != 'x')
			return refuse(s + at, 2, e);
	}
	/* a letter or digit that means something else to one of the two; punctuation is itself */
	if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) &&
	    (!strchr(same, c) || (in_class && strchr("AzZ", c)) || (c >= '1' && c <= '9')))
		return refuse(s + at, 2, e);
	rf_buf_add(out, s + at, 2);
	return RF_OK;
}

/* [...]: sets within sets, intersections and [:names:] are Oniguruma's own. */
static enum rf_code set(struct rf_buf *out, const char *s, size_t n, size_t *i, struct rf_err *e)
{
	size_t at = *i;
	enum rf_code rc;

	rf_buf_add(out, s + at++, 1);
	if (at < n && s[at] == '^')
		rf_buf_add(out, s + at++, 1);
	if (at < n && s[at] == ']')
		return refuse("[]", 2, e);
	while (at < n && s[at] != ']') {
		if (s[at] == '[' || (s[at] == '&' && at + 1 < n && s[at + 1] == '&'))
			return refuse(s + at, 2 < n - at ? 2 : n - at, e);
		if (s[at] == '\\') {
			if ((rc = escape(out, s, n, &at, true, e)) != RF_OK)
				return rc;
		} else {
			rf_buf_add(out, s + at++, 1);
		}
	}
	if (at == n)
		return rf_fail(e, RF_EDATA, "a pattern has a '[' without its ']'");
	rf_buf_add(out, s + at++, 1);
	*i = at;
	return RF_OK;
}

/* What begins with (?: the groups that both know.  Options but i mean different things. */
static bool known_group(const char *s, size_t n)
{
	static const char *const known[] = {"(?:", "(?=",  "(?!",  "(?<=", "(?<!",
	                                    "(?>", "(?i:", "(?i)", "(?-i:"};

	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (n >= strlen(known[k]) && !memcmp(s, known[k], strlen(known[k])))
			return true;
	return false;
}

static enum rf_code translate(struct rf_buf *out, const char *s, size_t n, struct rf_err *e)
{
	enum rf_code rc;

	for (size_t i = 0; i < n;) {
		if (s[i] == '\\') {
			if ((rc = escape(out, s, n, &i, false, e)) != RF_OK)
				return rc;
			continue;
		}
		if (s[i] == '[') {
			if ((rc = set(out, s, n, &i, e)) != RF_OK)
				return rc;
			continue;
		}
		if (s[i] == '(' && i + 1 < n && (s[i + 1] == '?' || s[i + 1] == '*') &&
		    !known_group(s + i, n - i))
			return refuse(s + i, 4 < n - i ? 4 : n - i, e);
		if (s[i] == '}' && i + 1 < n && s[i + 1] == '+') /* greedy to one, possessive to the other */
			return refuse("}+", 2, e);
		rf_buf_add(out, s + i++, 1);
	}
	return RF_OK;
}

enum rf_code rf_pattern_new(struct rf_pattern **out, const char *s, size_t n, bool literal, struct rf_err *e)
{
	struct rf_buf text = { 0 };
	struct rf_pattern *p = NULL;
	PCRE2_UCHAR why[120];
	PCRE2_SIZE at;
	enum rf_code rc = RF_OK;
	int code;

	*out = NULL;
	if (literal)
		rf_buf_add(&text, s, n);
	else
		rc = translate(&text, s, n, e);
	if (rc == RF_OK && (text.failed || !(p = calloc(1, sizeof *p))))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK && !(p->code = pcre2_compile(text.n ? text.p : (PCRE2_SPTR)"", text.n,
	                                             literal ? PCRE2_UTF | PCRE2_LITERAL
	                                                     : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
	                                             &code, &at, NULL))) {
		pcre2_get_error_message(code, why, sizeof why);
		rc = rf_fail(e, RF_EDATA, "a pattern does not compile: %s", (char *)why);
	}
	rf_buf_free(&text);
	if (rc != RF_OK) {
		free(p);
		return rc;
	}
	p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
	*out = p;
	return RF_OK;
}

void rf_pattern_free(struct rf_pattern *p)
{
	if (p)
		pcre2_code_free(p->code);
	free(p);
}

struct rf_pattern_work *rf_pattern_work_new(void)
{
	struct rf_pattern_work *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->data = pcre2_match_data_create(1, NULL);
	w->context = pcre2_match_context_create(NULL);
	w->stack = pcre2_jit_stack_create(32 << 10, STACK, NULL);
	if (!w->data || !w->context) {
		rf_pattern_work_free(w);
		return NULL;
	}
	pcre2_set_match_limit(w->context, MATCH_LIMIT);
	pcre2_set_heap_limit(w->context, HEAP_KIB);
	if (w->stack)
		pcre2_jit_stack_assign(w->context, NULL, w->stack);
	return w;
}

void rf_pattern_work_free(struct rf_pattern_work *w)
{
	if (!w)
		return;
	pcre2_match_data_free(w->data);
	pcre2_match_context_free(w->context);
	pcre2_jit_stack_free(w->stack);
	free(w);
}

enum rf_code rf_pattern_find(const struct rf_pattern *p, struct rf_pattern_work *w, const char *s, size_t n,
                             size_t from, bool *found, size_t *at, size_t *end, struct rf_err *e)
{
	PCRE2_UCHAR why[120];
	int rc = p->jit && w->stack
	                 ? pcre2_jit_match(p->code, (PCRE2_SPTR)s, n, from, 0, w->data, w->context)
	                 : pcre2_match(p->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, w->data,
	                               w->context);
	const PCRE2_SIZE *place;

	*found = rc >= 0;
	if (rc == PCRE2_ERROR_NOMATCH)
		return RF_OK;
	if (rc < 0) {
		pcre2_get_error_message(rc, why, sizeof why);
		return rf_fail(e, RF_EDATA, "a pattern of the tokenizer fails on the text: %s", (char *)why);
	}
	place = pcre2_get_ovector_pointer(w->data);
	*at = place[0];
	*end = place[1];
	return RF_OK;
}

size_t rf_pattern_from(const char *s, size_t n, size_t at, size_t end)
{
	int32_t c;

	if (end > at)
		return end;
	return end + (end < n ? rf_utf8_next(s + end, n - end, &c) : 1);
}

bool rf_is_white_space(int32_t c)
{
	return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
	       c == 0x3000;
}
