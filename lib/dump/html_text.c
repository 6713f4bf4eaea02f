/* html_text.c -- makes bytes from outside harmless and visible in a page. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "dump/html.h"

void rf_html_escape(struct rf_buf *p, const void *s, size_t n)
{
	const char *text = s;

	for (size_t i = 0, from = 0; i <= n; i++) {
		const char *as = NULL;

		if (i < n && text[i] != '&' && text[i] != '<' && text[i] != '>' && text[i] != '"')
			continue;
		rf_buf_add(p, text + from, i - from);
		from = i + 1;
		if (i < n)
			as = text[i] == '&'   ? "&amp;"
			     : text[i] == '<' ? "&lt;"
			     : text[i] == '>' ? "&gt;"
			                      : "&quot;";
		if (as)
			rf_print_text(p, as);
	}
}

void rf_html_string(struct rf_buf *p, const char *s) { rf_html_escape(p, s, strlen(s)); }

/* Returns whether a blank at s + i would be overlooked: at the end of the text, or next to another one. */
static bool is_hidden_blank(const unsigned char *s, size_t n, size_t i)
{
	return i + 1 == n || s[i + 1] <= ' ' || (i && s[i - 1] <= ' ');
}

/* Appends a control character as its picture: U+2400 and the following characters. */
static void write_picture(struct rf_buf *p, unsigned char c)
{
	const unsigned char picture[] = { 0xE2, 0x90, c == 0x7F ? 0xA1 : (unsigned char)(0x80 + c) };

	rf_print_text(p, "<i>");
	rf_buf_add(p, picture, sizeof picture);
	rf_print_text(p, "</i>");
}

void rf_html_visible(struct rf_buf *p, const void *text, size_t n)
{
	const unsigned char *s = text;

	for (size_t i = 0, size; i < n; i += size) {
		int32_t c;

		size = rf_utf8_next(s + i, n - i, &c);
		if (c < 0) {
			rf_print_text(p, "<i>");
			for (size_t j = 0; j < size; j++)
				rf_print(p, j ? " %02X" : "%02X", s[i + j]);
			rf_print_text(p, "</i>");
		} else if (c == '\n') {
			rf_print_text(p, "<i>↵</i>\n");
		} else if (c == '\t') {
			rf_print_text(p, "<i>⇥</i>\t");
		} else if (c < ' ' || c == 0x7F) {
			write_picture(p, (unsigned char)c);
		} else if (c == ' ') {
			rf_print_text(p, is_hidden_blank(s, n, i) ? "<i>␣</i>" : " ");
		} else if (c > 0x7F && (rf_utf8_unsafe(c) || rf_utf8_blank(c))) {
			rf_print(p, "<i>U+%04X</i>", (unsigned)c);
		} else {
			rf_html_escape(p, s + i, size);
		}
	}
}

/* A tokenizer may drop the blank before the first word of a text.  So the token is decoded twice in a row,
 * and the second one is its text. */
bool rf_html_token_bytes(struct rf_buf *p, const struct rf_token_text *w, int32_t id)
{
	const int32_t twice[2] = { id, id };
	char *one = NULL, *two = NULL;
	size_t n = 0, m = 0;
	const bool known = w->tokenizer &&
	                   rf_tokenizer_decode(w->tokenizer, &id, 1, &one, &n, NULL) == RF_OK &&
	                   rf_tokenizer_decode(w->tokenizer, twice, 2, &two, &m, NULL) == RF_OK;

	if (known && m > n)
		rf_buf_add(p, two + n, m - n);
	free(one);
	free(two);
	return known;
}

/* A tokenizer may drop the first blank of a text, so a token that is a blank is asked for twice. */
bool rf_html_token_special(const struct rf_token_text *w, int32_t id)
{
	const int32_t twice[2] = { id, id };
	char *text = NULL;
	size_t n = 1, final;
	const bool known =
		w->tokenizer && rf_tokenizer_text(w->tokenizer, twice, 2, &text, &n, &final, NULL) == RF_OK;

	free(text);
	return known && !n;
}

/* Returns whether the text of token i of n begins and ends with other bytes than white space. */
static bool is_word(const struct rf_token_text *w, const int32_t *ids, int n, int i)
{
	struct rf_buf text = { 0 };
	const unsigned char *s;
	bool is;

	if (i < 0 || i >= n || !rf_html_token_bytes(&text, w, ids[i]))
		return false;
	s = (const unsigned char *)text.p;
	is = text.n && s[0] > ' ' && s[text.n - 1] > ' ';
	rf_buf_free(&text);
	return is;
}

void rf_html_token(struct rf_buf *p, const struct rf_token_text *w, const int32_t *ids, int n, int i)
{
	const int32_t id = ids[i];
	struct rf_buf text = { 0 };

	if (rf_html_token_bytes(&text, w, id)) {
		const bool special = rf_html_token_special(w, id);

		rf_print_text(p, special ? "<i>" : "");
		if (text.n == 1 && *text.p == ' ' && is_word(w, ids, n, i - 1) && is_word(w, ids, n, i + 1))
			rf_print_text(p, " ");
		else
			rf_html_visible(p, text.p, text.n);
		rf_print_text(p, special ? "</i>" : "");
	} else {
		if (!w->tokenizer && w->numbers)
			*w->numbers = true;
		rf_print(p, w->tokenizer ? "<i>%d</i>" : " %d", (int)id);
	}
	p->failed |= text.failed;
	rf_buf_free(&text);
}
