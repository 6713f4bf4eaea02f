/* normal.c -- normalizes text.  utf8proc computes Unicode's forms; only the order of marks is computed
 * here. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/normal.h"

enum kind { UNICODE, LOWERCASE, STRIP, PREPEND, REPLACE };

/* One step; a sequence is a list of them. */
struct step {
	enum kind kind;
	utf8proc_option_t form;
	bool left, right; /* for STRIP */
	struct rf_pattern *pattern;
	char *text; /* for PREPEND and REPLACE */
	size_t n;
	struct step *next;
};

struct rf_normal {
	struct step *first, **last;
	int n;
};

enum { STEPS = 1000 };

bool rf_is_absent(const struct rf_jvalue *v) { return !v->s || *v->s == 'n'; }

void rf_maybe(const struct rf_jvalue *object, const char *key, struct rf_jvalue *v)
{
	if (rf_jscan_get(object, key, v, NULL) != RF_OK)
		v->s = NULL, v->n = 0;
}

enum rf_code rf_string_copy(const struct rf_jvalue *v, const char *key, char **text, size_t *n,
                            struct rf_err *e)
{
	struct rf_jvalue copy;
	const char *s;

	*text = NULL;
	if (!rf_jscan_is_string(v))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a string", key, rf_jscan_kind(v));
	if (!(copy.s = malloc(v->n + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	memcpy(copy.s, v->s, copy.n = v->n);
	s = rf_jscan_text(&copy, n);
	memmove(copy.s, s, *n + 1);
	*text = copy.s;
	return RF_OK;
}

enum rf_code rf_string_read(const struct rf_jvalue *object, const char *key, char **text, size_t *n,
                            struct rf_err *e)
{
	struct rf_jvalue v;
	enum rf_code rc = rf_jscan_get(object, key, &v, e);

	*text = NULL;
	return rc == RF_OK ? rf_string_copy(&v, key, text, n, e) : rc;
}

enum rf_code rf_pattern_read(struct rf_pattern **p, const struct rf_jvalue *json, struct rf_err *e)
{
	struct rf_jvalue v;
	bool literal;
	char *text;
	size_t n;
	enum rf_code rc;

	*p = NULL;
	if (!rf_jscan_is_object(json))
		return rf_fail(e, RF_EDATA, "a pattern is %s, not an object", rf_jscan_kind(json));
	literal = rf_jscan_get(json, "String", &v, NULL) == RF_OK;
	if (literal && rf_jscan_get(json, "Regex", &v, NULL) == RF_OK)
		return rf_fail(e, RF_EDATA, "a pattern has both the keys 'String' and 'Regex'");
	if ((rc = rf_string_read(json, literal ? "String" : "Regex", &text, &n, e)) != RF_OK)
		return rc;
	rc = rf_pattern_new(p, text, n, literal, e);
	free(text);
	return rc;
}

enum rf_code rf_flag(const struct rf_jvalue *v, const char *key, bool otherwise, bool *flag, struct rf_err *e)
{
	*flag = v->s ? *v->s == 't' : otherwise;
	if (!v->s || *v->s == 't' || *v->s == 'f')
		return RF_OK;
	return rf_fail(e, RF_EDATA, "'%s' is %s, not true or false", key, rf_jscan_kind(v));
}

enum rf_code rf_flag_read(const struct rf_jvalue *object, const char *key, bool otherwise, bool *flag,
                          struct rf_err *e)
{
	struct rf_jvalue v;
	enum rf_code rc = rf_jscan_pick(object, &key, 1, &v, e);

	return rc == RF_OK ? rf_flag(&v, key, otherwise, flag, e) : rc;
}

/* Reads the value as rf_flag_read() does, but null counts as a missing value. */
static enum rf_code flag_maybe(const struct rf_jvalue *object, const char *key, bool otherwise, bool *flag,
                               struct rf_err *e)
{
	struct rf_jvalue v;
	enum rf_code rc = rf_jscan_pick(object, &key, 1, &v, e);

	if (rc == RF_OK && rf_is_absent(&v))
		v.s = NULL;
	return rc == RF_OK ? rf_flag(&v, key, otherwise, flag, e) : rc;
}

enum rf_code rf_word_read(const struct rf_jvalue *object, const char *key, const char *const *words,
                          int otherwise, int *i, struct rf_err *e)
{
	struct rf_jvalue v;
	enum rf_code rc = rf_jscan_pick(object, &key, 1, &v, e);
	char q[40];

	*i = otherwise;
	if (rc != RF_OK || !v.s)
		return rc;
	if (!rf_jscan_is_string(&v))
		return rf_fail(e, RF_EDATA, "'%s' is %s, not a string", key, rf_jscan_kind(&v));
	for (*i = 0; words[*i]; ++*i)
		if (rf_jscan_equals(&v, words[*i]))
			return RF_OK;
	return rf_fail(e, RF_EMODEL, "'%s': %s is not supported", key, rf_quote(q, sizeof q, v.s, v.n));
}

enum rf_code rf_character_read(const struct rf_jvalue *object, const char *key, char **text, size_t *n,
                               struct rf_err *e)
{
	enum rf_code rc = rf_string_read(object, key, text, n, e);
	char q[40];
	int32_t c;

	if (rc != RF_OK || (*n && rf_utf8_next(*text, *n, &c) == *n))
		return rc;
	rf_fail(e, RF_EDATA, "'%s' is '%s', not one character", key, rf_quote(q, sizeof q, *text, *n));
	free(*text);
	*text = NULL;
	return RF_EDATA;
}

enum rf_code rf_metaspace_read(const struct rf_jvalue *json, char **mark, size_t *n, enum rf_scheme *scheme,
                               bool *split, struct rf_err *e)
{
	static const char *const words[] = { "always", "first", "never", NULL };
	enum rf_code rc = rf_character_read(json, "replacement", mark, n, e);
	bool prefix;
	int i;

	/* files from before 2023 have a flag instead of the scheme */
	if (rc != RF_OK || (rc = flag_maybe(json, "add_prefix_space", true, &prefix, e)) != RF_OK ||
	    (rc = rf_word_read(json, "prepend_scheme", words, prefix ? RF_ALWAYS : RF_NEVER, &i, e)) != RF_OK)
		return rc;
	*scheme = (enum rf_scheme)i;
	return flag_maybe(json, "split", true, split, e);
}

static enum rf_code read_parts(const struct rf_parts *p, const struct rf_jvalue *json, int depth,
                               struct rf_err *e)
{
	struct rf_jvalue list, v = { NULL, 0 };
	enum rf_code rc;
	char *type, q[40];
	int kind = 0;
	size_t n;

	if (!rf_jscan_is_object(json))
		return rf_fail(e, RF_EDATA, "a %s is %s, not an object", p->what, rf_jscan_kind(json));
	if ((rc = rf_string_read(json, "type", &type, &n, e)) != RF_OK)
		return rc;
	while (p->types[kind] && strcmp(type, p->types[kind]))
		kind++;
	if (!strcmp(type, "Sequence")) {
		if (depth > 8)
			rc = rf_fail(e, RF_EDATA, "%ss are nested too deep", p->what);
		else if ((rc = rf_jscan_get(json, p->list, &list, e)) == RF_OK && !rf_jscan_is_list(&list))
			rc = rf_fail(e, RF_EDATA, "'%s' is %s, not a list", p->list, rf_jscan_kind(&list));
		while (rc == RF_OK && rf_jscan_next(&list, NULL, &v))
			rc = read_parts(p, &v, depth + 1, e);
	} else if (!p->types[kind]) {
		rc = rf_fail(e, RF_EMODEL, "the %s '%s' is not supported", p->what,
		             rf_quote(q, sizeof q, type, n));
	} else {
		rc = p->read(p->to, json, kind, e);
	}
	free(type);
	return rc;
}

enum rf_code rf_parts_read(const struct rf_parts *p, const struct rf_jvalue *json, struct rf_err *e)
{
	return rf_is_absent(json) ? RF_OK : read_parts(p, json, 0, e);
}

static const char *const types[] = { "NFC",   "NFD",     "NFKC",    "NFKD", "Lowercase",
	                             "Strip", "Prepend", "Replace", NULL };

/* Reads the normalizer of types[k]. */
static enum rf_code read_step(void *normal, const struct rf_jvalue *json, int k, struct rf_err *e)
{
	static const struct {
		enum kind kind;
		utf8proc_option_t form;
	} known[] = {
		{ UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE },
		{ UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE },
		{ UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT },
		{ UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT },
		{ LOWERCASE, 0 },
		{ STRIP, 0 },
		{ PREPEND, 0 },
		{ REPLACE, 0 },
	};
	struct rf_normal *n = normal;
	struct rf_jvalue v;
	struct step *s;
	enum rf_code rc = RF_OK;

	if (n->n++ == STEPS)
		return rf_fail(e, RF_EMODEL, "more than %d normalizers are not supported", STEPS);
	if (!(s = calloc(1, sizeof *s)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	*n->last = s;
	n->last = &s->next;
	s->kind = known[k].kind;
	s->form = known[k].form;
	if (s->kind == STRIP && (rc = rf_flag_read(json, "strip_left", true, &s->left, e)) == RF_OK)
		rc = rf_flag_read(json, "strip_right", true, &s->right, e);
	if (s->kind == PREPEND)
		return rf_string_read(json, "prepend", &s->text, &s->n, e);
	if (s->kind != REPLACE)
		return rc;
	if ((rc = rf_jscan_get(json, "pattern", &v, e)) != RF_OK ||
	    (rc = rf_pattern_read(&s->pattern, &v, e)) != RF_OK)
		return rc;
	return rf_string_read(json, "content", &s->text, &s->n, e);
}

enum rf_code rf_normal_read(struct rf_normal **out, const struct rf_jvalue *json, struct rf_err *e)
{
	struct rf_normal *n = calloc(1, sizeof *n);

	*out = n;
	if (!n)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	n->last = &n->first;
	return rf_parts_read(&(struct rf_parts){ "normalizer", "normalizers", types, read_step, n }, json, e);
}

bool rf_normal_prepends(const struct rf_normal *n)
{
	for (const struct step *s = n ? n->first : NULL; s; s = s->next)
		if (s->kind == PREPEND)
			return true;
	return false;
}

void rf_normal_free(struct rf_normal *n)
{
	if (!n)
		return;
	for (struct step *s = n->first, *next; s; s = next) {
		next = s->next;
		rf_pattern_free(s->pattern);
		free(s->text);
		free(s);
	}
	free(n);
}

/* ---- steps --------------------------------------------------------------------------------- */

/* The buffer of a step's text, and the most bytes that it may have. */
struct sink {
	struct rf_buf *to;
	size_t most;
};

static enum rf_code too_long(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "it makes more of the text than %d times its bytes and %d bytes",
	               RF_GROWTH_TIMES, RF_GROWTH_MORE);
}

/* Adds n bytes, unless they would exceed the limit. */
static enum rf_code add_bytes(const struct sink *out, const void *s, size_t n, struct rf_err *e)
{
	if (out->to->n > out->most || n > out->most - out->to->n)
		return too_long(e);
	rf_buf_add(out->to, s, n);
	return out->to->failed ? rf_fail(e, RF_ENOMEM, "out of memory") : RF_OK;
}

/* Returns whether a character is newer than Unicode 10, the version of the reference's tables.  The reference
 * treats such a character as unassigned: it stays, and no mark moves or combines across it.  The ranges were
 * found by comparing all characters, single and between marks, with tokenizers 0.23. */
static bool is_later(int32_t c)
{
	static const struct {
		int32_t first, last;
	} later[] = {
		{ 0x7FD, 0x7FD },     { 0x898, 0x89F },     { 0x8CA, 0x8D3 },     { 0x9FE, 0x9FE },
		{ 0xC3C, 0xC3C },     { 0xD3B, 0xD3C },     { 0xEBA, 0xEBA },     { 0x1715, 0x1715 },
		{ 0x1ABF, 0x1ACE },   { 0x1DF6, 0x1DFA },   { 0x32FF, 0x32FF },   { 0xA7F2, 0xA7F4 },
		{ 0xA82C, 0xA82C },   { 0xAB69, 0xAB69 },   { 0x10781, 0x10785 }, { 0x10787, 0x107B0 },
		{ 0x107B2, 0x107BA }, { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF },
		{ 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x1133B, 0x1133B },
		{ 0x1145E, 0x1145E }, { 0x11839, 0x1183A }, { 0x11930, 0x11930 }, { 0x11935, 0x11935 },
		{ 0x11938, 0x11938 }, { 0x1193D, 0x1193E }, { 0x11943, 0x11943 }, { 0x119E0, 0x119E0 },
		{ 0x11A34, 0x11A34 }, { 0x11A47, 0x11A47 }, { 0x11A99, 0x11A99 }, { 0x11D42, 0x11D42 },
		{ 0x11D44, 0x11D45 }, { 0x11D97, 0x11D97 }, { 0x11F41, 0x11F42 }, { 0x16FF0, 0x16FF1 },
		{ 0x1E030, 0x1E06D }, { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE },
		{ 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF }, { 0x1F16C, 0x1F16C }, { 0x1FBF0, 0x1FBF9 },
	};
	size_t low = 0, high = sizeof later / sizeof *later;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (later[mid].last < c)
			low = mid + 1;
		else
			high = mid;
	}
	return low < sizeof later / sizeof *later && later[low].first <= c;
}

static int class_of(int32_t c) { return utf8proc_get_property(c)->combining_class; }

/* Sorts n marks by their classes; marks of the same class keep their order. */
static enum rf_code sort_marks(int32_t *marks, size_t n, struct rf_err *e)
{
	size_t from[257] = { 0 };
	int32_t *sorted = malloc(n * sizeof *sorted);

	if (!sorted)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		from[class_of(marks[i]) + 1]++;
	for (int i = 0; i < 256; i++)
		from[i + 1] += from[i];
	for (size_t i = 0; i < n; i++)
		sorted[from[class_of(marks[i])]++] = marks[i];
	memcpy(marks, sorted, n * sizeof *marks);
	free(sorted);
	return RF_OK;
}

/* Puts the marks after each character into the order that Unicode demands.  utf8proc_map() exchanges
 * neighbours, so its time grows with the square of their number. */
static enum rf_code order_marks(int32_t *c, size_t n, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	for (size_t from = 0, end; from < n && rc == RF_OK; from = end + 1) {
		bool ordered = true;
		int last = 0, class;

		for (end = from; end < n && (class = class_of(c[end])); end++) {
			ordered &= class >= last;
			last = class;
		}
		if (!ordered)
			rc = sort_marks(c + from, end - from, e);
	}
	return rc;
}

/* Does the work of utf8proc_map(), with the marks ordered by order_marks(). */
static enum rf_code map(utf8proc_option_t form, const char *s, size_t n, const struct sink *out,
                        struct rf_err *e)
{
	enum { MOST = 32 }; /* more characters than any character becomes */
	size_t made = 0, cap = n + MOST;
	int32_t *to = malloc((cap + 1) * sizeof *to), *more, c;
	utf8proc_ssize_t len = 0;
	int bound = 0;
	enum rf_code rc = RF_OK;

	if (!to)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (size_t i = 0; i < n && len >= 0; made += (size_t)(len < 0 ? 0 : len)) {
		if (made > out->most) { /* each character has at least one byte */
			free(to);
			return too_long(e);
		}
		if (cap - made < MOST) {
			cap += cap / 2 + MOST;
			if (!(more = realloc(to, (cap + 1) * sizeof *to))) {
				free(to);
				return rf_fail(e, RF_ENOMEM, "out of memory");
			}
			to = more;
		}
		i += rf_utf8_next(s + i, n - i, &c);
		len = utf8proc_decompose_char(c, to + made, MOST, form, &bound);
	}
	if (len >= 0) {
		rc = order_marks(to, made, e);
		if (rc == RF_OK && (len = utf8proc_reencode(to, (utf8proc_ssize_t)made, form)) >= 0)
			rc = add_bytes(out, to, (size_t)len, e);
	}
	if (len < 0)
		rc = rf_fail(e, len == UTF8PROC_ERROR_NOMEM ? RF_ENOMEM : RF_EDATA, "%s",
		             utf8proc_errmsg(len));
	free(to);
	return rc;
}

/* Converts text to a form of Unicode.  ASCII is in all four forms already, and characters below U+0300 are in
 * NFC and neither move nor combine. */
static enum rf_code unicode(utf8proc_option_t form, const char *s, size_t n, const struct sink *out,
                            struct rf_err *e)
{
	const int32_t plain = form == (UTF8PROC_STABLE | UTF8PROC_COMPOSE) ? 0x300 : 0x80;
	size_t done = 0;
	bool all = true;
	int32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		enum rf_code rc;

		len = rf_utf8_next(s + i, n - i, &c);
		all &= c < plain;
		if (c < 0x7FD || !is_later(c))
			continue;
		if ((rc = map(form, s + done, i - done, out, e)) != RF_OK ||
		    (rc = add_bytes(out, s + i, len, e)) != RF_OK)
			return rc;
		done = i + len;
	}
	return all ? add_bytes(out, s, n, e) : map(form, s + done, n - done, out, e);
}

static enum rf_code strip(const struct step *step, const char *s, size_t n, const struct sink *out,
                          size_t *head, struct rf_err *e)
{
	size_t from = 0, end = 0;
	int32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		len = rf_utf8_next(s + i, n - i, &c);
		if (step->left && from == i && rf_is_white_space(c))
			from = i + len;
		if (!step->right || !rf_is_white_space(c))
			end = i + len;
	}
	*head = *head > from ? *head - from : 0;
	return end > from ? add_bytes(out, s + from, end - from, e) : RF_OK;
}

static enum rf_code lowercase(const char *s, size_t n, const struct sink *out, struct rf_err *e)
{
	utf8proc_uint8_t one[4];
	enum rf_code rc = RF_OK;
	int32_t c;

	for (size_t i = 0, len; i < n && rc == RF_OK; i += len) {
		len = rf_utf8_next(s + i, n - i, &c);
		if (c == 0x130) /* the only letter whose small form has two characters */
			rc = add_bytes(out, "i\xCC\x87", 3, e);
		else
			rc = add_bytes(out, one, (size_t)utf8proc_encode_char(utf8proc_tolower(c), one), e);
	}
	return rc;
}

enum rf_code rf_pattern_replace(const struct rf_pattern *p, struct rf_pattern_work *w, const char *s,
                                size_t n, const char *with, size_t with_n, size_t most, struct rf_buf *to,
                                struct rf_err *e)
{
	struct rf_matches m = { p, w, s, n, 0, 0, false };
	const struct sink out = { to, most };
	size_t done = 0, at, end;
	bool found;
	enum rf_code rc;

	while ((rc = rf_pattern_next(&m, &found, &at, &end, e)) == RF_OK && found) {
		if ((rc = add_bytes(&out, s + done, at - done, e)) != RF_OK ||
		    (rc = add_bytes(&out, with, with_n, e)) != RF_OK)
			return rc;
		done = end;
	}
	return rc == RF_OK ? add_bytes(&out, s + done, n - done, e) : rc;
}

static enum rf_code apply(const struct step *step, struct rf_pattern_work *w, const char *s, size_t n,
                          const struct sink *out, struct rf_err *e)
{
	size_t head = 0;
	enum rf_code rc;

	switch (step->kind) {
	case UNICODE: return unicode(step->form, s, n, out, e);
	case LOWERCASE: return lowercase(s, n, out, e);
	case STRIP: return strip(step, s, n, out, &head, e);
	case PREPEND:
		rc = n ? add_bytes(out, step->text, step->n, e) : RF_OK;
		return rc == RF_OK ? add_bytes(out, s, n, e) : rc;
	case REPLACE:
		return rf_pattern_replace(step->pattern, w, s, n, step->text, step->n, out->most, out->to, e);
	}
	return RF_OK;
}

/* Follows the head through a replacement.  The place of the match's last character decides, so the
 * replacement belongs to the head only if the whole match does. */
static enum rf_code follow_replace(const struct step *step, struct rf_pattern_work *w, const char *s,
                                   size_t n, size_t *head, struct rf_err *e)
{
	struct rf_matches m = { step->pattern, w, s, n, 0, 0, false };
	size_t made = 0, done = 0, at, end;
	bool found;
	enum rf_code rc;

	while (done < *head) {
		if ((rc = rf_pattern_next(&m, &found, &at, &end, e)) != RF_OK)
			return rc;
		if (!found || at >= *head || end == at)
			break;
		made += at - done;
		done = end;
		if (end > *head) {
			*head = made;
			return RF_OK;
		}
		made += step->n;
	}
	*head = made + *head - done;
	return RF_OK;
}

/* Follows the head through a form of Unicode.  Marks after the head may combine with its last character. */
static enum rf_code follow_form(const struct step *step, const char *s, size_t n, size_t most, size_t *head,
                                struct rf_err *e)
{
	struct rf_buf alone = { 0 }, out = { 0 };
	size_t end = *head, len, i = 0;
	int32_t c;
	enum rf_code rc;

	while (end < n && (len = rf_utf8_next(s + end, n - end, &c),
	                   utf8proc_get_property(c)->combining_class && !is_later(c)))
		end += len;
	if ((rc = unicode(step->form, s, *head, &(struct sink){ &alone, most }, e)) == RF_OK &&
	    (rc = unicode(step->form, s, end, &(struct sink){ &out, most }, e)) == RF_OK) {
		for (size_t k = 0; k < alone.n && i < out.n; k += rf_utf8_next(alone.p + k, alone.n - k, &c))
			i += rf_utf8_next(out.p + i, out.n - i, &c);
		*head = i;
	}
	rf_buf_free(&alone);
	rf_buf_free(&out);
	return rc;
}

/* Computes the number of bytes that the first `head` bytes of a text become. */
static enum rf_code follow_head(const struct step *step, struct rf_pattern_work *w, const char *s, size_t n,
                                size_t most, size_t *head, struct rf_err *e)
{
	struct rf_buf out = { 0 };
	const struct sink to = { &out, most };
	enum rf_code rc;

	if (!*head)
		return RF_OK;
	if (step->kind == REPLACE)
		return follow_replace(step, w, s, n, head, e);
	if (step->kind == UNICODE)
		return follow_form(step, s, n, most, head, e);
	if (step->kind == STRIP) {
		rc = strip(step, s, n, &to, head, e);
		*head = *head < out.n ? *head : out.n;
	} else {
		rc = apply(step, w, s, *head, &to, e);
		*head = out.n;
	}
	rf_buf_free(&out);
	return rc;
}

enum rf_code rf_normal_apply(const struct rf_normal *n, struct rf_pattern_work *w, const char *s, size_t len,
                             size_t most, struct rf_buf *out, size_t *head, struct rf_err *e)
{
	struct rf_buf one = { 0 }, two = { 0 };
	enum rf_code rc = RF_OK;

	if (!n->first)
		return add_bytes(&(struct sink){ out, most }, s, len, e);
	for (const struct step *step = n->first; step && rc == RF_OK; step = step->next) {
		struct rf_buf *to = step->next ? &two : out, swap;

		if ((rc = follow_head(step, w, s, len, most, head, e)) == RF_OK)
			rc = apply(step, w, s, len, &(struct sink){ to, most }, e);
		if (step->next) {
			swap = one, one = two, two = swap;
			two.n = 0;
			s = (const char *)one.p, len = one.n;
		}
	}
	rf_buf_free(&one);
	rf_buf_free(&two);
	return rc == RF_EDATA ? rf_blame(e, "the normalizer") : rc;
}

size_t rf_growth_most(size_t n) { return RF_GROWTH_TIMES * n + RF_GROWTH_MORE; }

void rf_add_valid(struct rf_buf *to, const void *text, size_t n, int32_t least)
{
	const char *s = text;
	int32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		len = rf_utf8_next(s + i, n - i, &c);
		rf_buf_add(to, c < least ? "\xEF\xBF\xBD" : s + i, c < least ? 3 : len);
	}
}
