/* template.c -- the built-in wording of the prompts, and the file that replaces it.  A doubled brace is a
 * brace. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "io/jscan.h"
#include "io/lines.h"
#include "needle/template.h"
#include "tokenizer/normal.h"

enum { MAX_FILE = 1 << 20, MAX_BLANKS = 32 };

static const char *const blanks[RF_BLANKS] = {
	/* clang-format off */
	[RF_CONTEXT] = "context", [RF_QUERY] = "query",       [RF_TYPE] = "type_needle_v",
	[RF_KEY] = "key",         [RF_VALUE] = "value",       [RF_NAME] = "name",
	[RF_FROM] = "from",       [RF_COUNT] = "count",       [RF_I] = "i",
	[RF_WORD] = "word",       [RF_DOCUMENT] = "document", [RF_INPUT] = "input",
	[RF_PREFIX] = "answer_prefix", [RF_ANSWER] = "answer", [RF_ANSWERS] = "answers",
	/* clang-format on */
};

#define B(x)    (1u << RF_##x)
#define EXAMPLE "{input}{answer_prefix} {answers}\n\n"

/* must, may: the blanks that a text must have, and those that it may have. */
static const struct wording {
	const char *section, *key, *text;
	unsigned must, may;
} wordings[RF_WORDINGS] = {
	[RF_NOISE] = { "noise", "line",
	               "The lake is calm. The road is long. The bread is warm. On we walk. Soon we are home.",
	               0, 0 },
	[RF_TYPE_NUMBER] = { "types", "number", "number", 0, 0 },
	[RF_TYPE_NUMBERS] = { "types", "numbers", "numbers", 0, 0 },
	[RF_TYPE_UUID] = { "types", "uuid", "uuid", 0, 0 },
	[RF_TYPE_UUIDS] = { "types", "uuids", "uuids", 0, 0 },

	[RF_NIAH_NEEDLE] = { "niah", "needle", "Among the hidden {type_needle_v}, that of {key} is {value}.",
	                     B(KEY) | B(VALUE), B(TYPE) },
	[RF_NIAH_INPUT] = { "niah", "input",
	                    /* clang-format off */
		"Several {type_needle_v} are hidden in the text below, each under a name. Keep them in mind, "
		"for a question about the {type_needle_v} follows the text.\n{context}\n"
		"Which hidden {type_needle_v} does the text give for {query}?",
		B(CONTEXT) | B(QUERY), B(TYPE) },
	[RF_NIAH_PREFIX] = { "niah", "answer_prefix",
		" The hidden {type_needle_v} that the text gives for {query} are", 0, B(QUERY) | B(TYPE) },
	[RF_NIAH_INPUT_ONE] = { "niah", "input_one",
		"A {type_needle_v} is hidden in the text below, under a name. Keep it in mind, for "
		"a question about the {type_needle_v} follows the text.\n{context}\n"
		"Which hidden {type_needle_v} does the text give for {query}?",
		B(CONTEXT) | B(QUERY), B(TYPE) },
	/* clang-format on */
	[RF_NIAH_PREFIX_ONE] = { "niah", "answer_prefix_one",
	                         " The hidden {type_needle_v} that the text gives for {query} is", 0,
	                         B(QUERY) | B(TYPE) },
	[RF_NIAH_AND] = { "niah", "and", ", and ", 0, 0 },

	[RF_VT_FIRST] = { "vt", "first", "LET {name} = {value}", B(NAME) | B(VALUE), 0 },
	[RF_VT_NEXT] = { "vt", "next", "LET {name} = {from}", B(NAME) | B(FROM), 0 },
	[RF_VT_INPUT] = { "vt", "input",
	                  /* clang-format off */
		"In the text below names are given values, some of them by way of other names. Keep track of "
		"the value that each name has.\n\n{context}\nQuestion: to which names does the text above "
		"give the value {query}?", B(CONTEXT) | B(QUERY), B(COUNT) },
	/* clang-format on */
	[RF_VT_PREFIX] = { "vt", "answer_prefix",
	                   " Answer: the text above gives the value {query} to {count} names, which are:", 0,
	                   B(QUERY) | B(COUNT) },
	[RF_VT_EXAMPLE] = { "vt", "example", EXAMPLE, B(INPUT) | B(ANSWERS), B(PREFIX) },
	[RF_VT_ANSWER] = { "vt", "answer", "{answer}", B(ANSWER), B(I) },
	[RF_VT_JOINT] = { "vt", "joint", " ", 0, 0 },

	[RF_CWE_ITEM] = { "cwe", "item", "{i}. {word}", B(WORD), B(I) },
	[RF_CWE_INPUT] = { "cwe", "input",
	                   /* clang-format off */
		"In the numbered list of words below some occur more often than the others. Find out which.\n"
		"{context}\nQuestion: which {count} words occur most often in the list above?", B(CONTEXT),
		B(COUNT) },
	/* clang-format on */
	[RF_CWE_PREFIX] = { "cwe", "answer_prefix",
	                    " Answer: the {count} words that occur most often in the list are:", 0,
	                    B(COUNT) },
	[RF_CWE_EXAMPLE] = { "cwe", "example", EXAMPLE, B(INPUT) | B(ANSWERS), B(PREFIX) },
	[RF_CWE_ANSWER] = { "cwe", "answer", "{i}. {answer}", B(ANSWER), B(I) },
	[RF_CWE_JOINT] = { "cwe", "joint", " ", 0, 0 },

	[RF_FWE_INPUT] = { "fwe", "input",
	                   /* clang-format off */
		"The text below is in code. Count how often each word of the code occurs; dots are no words."
		"\n{context}\nQuestion: which three words of the code occur most often in the text above? "
		"Give the words and nothing else.", B(CONTEXT), 0 },
	/* clang-format on */
	[RF_FWE_PREFIX] = { "fwe", "answer_prefix",
	                    " Answer: the three words of the code that occur most often are:", 0, 0 },

	[RF_QA_DOCUMENT] = { "qa", "document", "Document {i}:\n{document}", B(DOCUMENT), B(I) },
	[RF_QA_INPUT] = { "qa", "input",
	                  /* clang-format off */
		"A question follows these documents. Find its answer in them, and give nothing but the "
		"answer.\n\n{context}\n\nThe documents end here. Give nothing but the answer that they have."
		"\n\nQuestion: {query}", B(CONTEXT) | B(QUERY), 0 },
	/* clang-format on */
	[RF_QA_PREFIX] = { "qa", "answer_prefix", " Answer:", 0, B(QUERY) },
};

static bool is_prefix(enum rf_wording w) { return !strncmp(wordings[w].key, "answer_prefix", 13); }

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory"); }

/* Returns the blank whose name begins at s, after a brace; *n: the length of the name. */
static enum rf_blank blank_at(const char *s, size_t left, size_t *n)
{
	const char *end = memchr(s, '}', left);
	int b = 0;

	*n = end ? (size_t)(end - s) : 0;
	while (b < RF_BLANKS && (!end || strlen(blanks[b]) != *n || memcmp(blanks[b], s, *n)))
		b++;
	return (enum rf_blank)b;
}

/* Cuts n bytes into pieces.  The memory is one copy of the text, and one piece for each brace. */
static enum rf_code cut_text(struct rf_template *t, enum rf_wording what, const char *s, size_t n,
                             struct rf_err *e)
{
	const struct wording *w = &wordings[what];
	size_t most = 1, out = 0, len;
	unsigned have = 0;
	char q[40];

	for (size_t i = 0; i < n; i++)
		most += s[i] == '{';
	free(t->text);
	free(t->piece);
	t->pieces = 0;
	t->text = malloc(n + 1);
	t->piece = calloc(most, sizeof *t->piece);
	if (!t->text || !t->piece)
		return no_memory(e);
	for (size_t i = 0; i < n; i++) {
		enum rf_blank b;

		if ((s[i] == '{' || s[i] == '}') && i + 1 < n && s[i + 1] == s[i])
			i++;
		else if (s[i] == '}')
			return rf_fail(e, RF_EDATA, "a brace closes nothing (a doubled one is a brace)");
		else if (s[i] == '{') {
			b = blank_at(s + i + 1, n - i - 1, &len);
			if (b == RF_BLANKS || !((w->must | w->may) & 1u << b))
				return rf_fail(e, RF_EDATA, "'%s' is nothing that can stand in braces here",
				               rf_quote(q, sizeof q, s + i, len ? len + 2 : n - i));
			if (b == RF_CONTEXT && have & B(CONTEXT))
				return rf_fail(e, RF_EDATA, "{context} occurs twice");
			if (t->pieces == MAX_BLANKS)
				return rf_fail(e, RF_EDATA, "there are more than %d words in braces",
				               MAX_BLANKS);
			have |= 1u << b;
			t->piece[t->pieces].n = out - t->piece[t->pieces].at;
			t->piece[t->pieces++].blank = b;
			t->piece[t->pieces].at = out;
			i += len + 1;
			continue;
		}
		t->text[out++] = s[i];
	}
	t->text[out] = 0;
	t->piece[t->pieces].n = out - t->piece[t->pieces].at;
	t->piece[t->pieces++].blank = RF_BLANKS;
	for (int b = 0; b < RF_BLANKS; b++)
		if (w->must & ~have & 1u << b)
			return rf_fail(e, RF_EDATA, "{%s} is missing", blanks[b]);
	if (memchr(s, 0, n))
		return rf_fail(e, RF_EDATA, "there is a NUL in it");
	if (is_prefix(what) && s[0] != ' ')
		return rf_fail(e, RF_EDATA, "an answer_prefix begins with a blank");
	if (what == RF_NOISE && !n)
		return rf_fail(e, RF_EDATA, "the line is empty");
	return RF_OK;
}

static enum rf_code read_wording(struct rf_templates *t, const char *section, const struct rf_jvalue *key,
                                 const struct rf_jvalue *v, bool seen[], struct rf_err *e)
{
	enum rf_code rc;
	char *s, q[60];
	size_t n;
	int w = 0;

	while (w < RF_WORDINGS &&
	       (strcmp(wordings[w].section, section) || !rf_jscan_equals(key, wordings[w].key)))
		w++;
	if (w == RF_WORDINGS)
		return rf_fail(e, RF_EDATA, "'%s' has no key %s", section,
		               rf_quote(q, sizeof q, key->s, key->n));
	if (seen[w])
		return rf_fail(e, RF_EDATA, "'%s.%s' occurs twice", section, wordings[w].key);
	seen[w] = true;
	if ((rc = rf_string_copy(v, wordings[w].key, &s, &n, e)) == RF_OK)
		rc = cut_text(&t->t[w], (enum rf_wording)w, s, n, e);
	free(s);
	return rc == RF_OK ? rc : rf_blame(e, "'%s.%s'", section, wordings[w].key);
}

static bool is_section(const struct rf_jvalue *key, const char **name)
{
	for (int w = 0; w < RF_WORDINGS; w++)
		if (rf_jscan_equals(key, *name = wordings[w].section))
			return true;
	return false;
}

/* Reads the object of a section.  *at: the place of a failure. */
static enum rf_code read_object(struct rf_templates *t, const struct rf_jvalue *all, const char **at,
                                struct rf_err *e)
{
	struct rf_jvalue section, key, of = { NULL, 0 }, v;
	bool seen[RF_WORDINGS] = { false };
	enum rf_code rc = RF_OK;
	const char *name;
	char q[60];

	*at = all->s;
	if (!rf_jscan_is_object(all))
		return rf_fail(e, RF_EDATA, "the file is %s, not an object", rf_jscan_kind(all));
	while (rc == RF_OK && rf_jscan_next(all, &section, &of)) {
		*at = section.s;
		if (!is_section(&section, &name))
			return rf_fail(e, RF_EDATA, "unknown key %s",
			               rf_quote(q, sizeof q, section.s, section.n));
		if (!rf_jscan_is_object(&of))
			return rf_fail(e, RF_EDATA, "'%s' is %s, not an object", name, rf_jscan_kind(&of));
		for (v.s = NULL; rc == RF_OK && rf_jscan_next(&of, &key, &v);) {
			*at = key.s;
			rc = read_wording(t, name, &key, &v, seen, e);
		}
	}
	return rc;
}

enum rf_code rf_templates_open(struct rf_templates *t, const char *path, struct rf_err *e)
{
	struct rf_jvalue all;
	struct rf_lines *l;
	const char *at;
	enum rf_code rc = RF_OK;
	unsigned line = 1;
	size_t n;
	char *s;

	memset(t, 0, sizeof *t);
	for (int w = 0; rc == RF_OK && w < RF_WORDINGS; w++)
		rc = cut_text(&t->t[w], (enum rf_wording)w, wordings[w].text, strlen(wordings[w].text), e);
	if (rc != RF_OK || !path || (rc = rf_lines_open(&l, path, MAX_FILE, e)) != RF_OK)
		return rc;
	if ((rc = rf_lines_rest(l, &s, &n, e)) == RF_OK) {
		if ((rc = rf_jscan_check(s, n, &all, e)) != RF_OK) {
			rf_blame(e, "%s", rf_lines_name(l));
		} else if ((rc = read_object(t, &all, &at, e)) != RF_OK) {
			for (const char *c = s; c < at; c++)
				line += *c == '\n';
			rf_blame(e, "%s: line %u", rf_lines_name(l), line);
		}
	}
	rf_lines_close(l);
	return rc;
}

void rf_templates_free(struct rf_templates *t)
{
	for (int w = 0; w < RF_WORDINGS; w++) {
		free(t->t[w].text);
		free(t->t[w].piece);
	}
}

size_t rf_template_fill(const struct rf_templates *all, enum rf_wording what, const struct rf_fill *f,
                        struct rf_buf *to)
{
	const struct rf_template *t = &all->t[what];
	size_t begin = to->n, context = 0;

	for (size_t i = 0; i < t->pieces; i++) {
		enum rf_blank b = t->piece[i].blank;

		rf_buf_add(to, t->text + t->piece[i].at, t->piece[i].n);
		if (b == RF_CONTEXT)
			context = to->n - begin;
		if (b != RF_BLANKS && f->s[b])
			rf_buf_add(to, f->s[b], f->n[b] ? f->n[b] : strlen(f->s[b]));
	}
	return context;
}
