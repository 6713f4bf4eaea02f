/* head_text.c -- shows values of msgpack and the head of a stream as text.  The stages of the history become
 * commands that the shell can run. */
#include <string.h>

#include "dump/record_text.h"

enum { LABEL = 11 };

static void write_string(struct rf_buf *p, const struct rf_mp_item *s)
{
	rf_print_text(p, "\"");
	rf_print_safe(p, s->data, s->n, true);
	rf_print_text(p, "\"");
}

void rf_record_text_value(struct rf_buf *p, struct rf_mp *m)
{
	struct rf_mp_item it;

	if (rf_mp_next(m, &it))
		return;
	switch (it.type) {
	case RF_MP_NIL: rf_print_text(p, "nil"); break;
	case RF_MP_BOOL: rf_print_text(p, it.b ? "true" : "false"); break;
	case RF_MP_UINT: rf_print(p, "%llu", (unsigned long long)it.u); break;
	case RF_MP_INT: rf_print(p, "%lld", (long long)it.i); break;
	case RF_MP_REAL: rf_print_real(p, it.f); break;
	/* clang-format off */
	case RF_MP_STR:  write_string(p, &it); break;
	case RF_MP_BIN:  rf_print(p, "<%u bytes>", (unsigned)it.n); break;
	/* clang-format on */
	case RF_MP_ARRAY:
		rf_print_text(p, "[");
		for (uint32_t i = 0; i < it.n; i++) {
			rf_print_text(p, i ? ", " : "");
			rf_record_text_value(p, m);
		}
		rf_print_text(p, "]");
		break;
	case RF_MP_MAP:
		rf_print_text(p, "{");
		for (uint32_t i = 0; i < it.n; i++) {
			rf_print_text(p, i ? ", " : "");
			rf_record_text_value(p, m);
			rf_print_text(p, ": ");
			rf_record_text_value(p, m);
		}
		rf_print_text(p, "}");
	}
}

static bool get_string(struct rf_mp map, const char *word, struct rf_mp_item *s)
{
	struct rf_mp v = rf_mp_get(map, word);

	return v.p && !rf_mp_next(&v, s) && s->type == RF_MP_STR;
}

/* Appends a word as the shell reads it. */
static void write_word(struct rf_buf *p, const struct rf_mp_item *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
	const unsigned char *s = word->data;
	bool simple = word->n > 0;

	for (size_t i = 0; i < word->n; i++)
		simple &= s[i] && strchr(plain, s[i]);
	rf_print_text(p, simple ? "" : "'");
	for (size_t i = 0; i < word->n; i++)
		if (s[i] == '\'')
			rf_print_text(p, "'\\''");
		else {
			size_t from = i;
			while (i + 1 < word->n && s[i + 1] != '\'')
				i++;
			rf_print_safe(p, s + from, i + 1 - from, false);
		}
	rf_print_text(p, simple ? "" : "'");
}

/* Appends an option as it is typed. */
static void write_option(struct rf_buf *p, const struct rf_mp_item *name, struct rf_mp value)
{
	struct rf_mp after = value;
	struct rf_buf text = { 0 };
	struct rf_mp_item it;

	rf_mp_next(&after, &it);
	if (it.type == RF_MP_ARRAY) { /* the option was given several times */
		for (uint32_t i = 0; i < it.n; i++) {
			struct rf_mp one = after;

			rf_mp_skip(&after);
			one.end = after.p;
			write_option(p, name, one);
		}
		return;
	}
	if (it.type == RF_MP_BOOL && !it.b)
		return;
	rf_print_text(p, name->n == 1 ? " -" : " --");
	write_word(p, name);
	if (it.type == RF_MP_BOOL)
		return;
	rf_print_text(p, " ");
	if (it.type != RF_MP_STR) { /* also quoted for the shell */
		rf_record_text_value(&text, &value);
		it.data = text.p;
		it.n = (uint32_t)text.n;
	}
	write_word(p, &it);
	p->failed |= text.failed;
	rf_buf_free(&text);
}

/* Appends a part of the comment after a command.  *before: the text before the part. */
static void write_remark(struct rf_buf *p, const char **before, const char *name, const struct rf_mp_item *s)
{
	rf_print(p, "%s%s", *before, name);
	rf_print_safe(p, s->data, s->n, false);
	*before = ", ";
}

/* Writes {tool, version, model, options} as a command.  The version, the hash of the model's weights and a
 * note, as far as they exist, become a comment. */
static void write_stage(struct rf_buf *p, struct rf_mp stage)
{
	struct rf_mp options = rf_mp_get(stage, "options"), model = rf_mp_get(stage, "model"), value;
	struct rf_mp_item it, key, note;
	const char *before = "  # ";
	bool noted = false;

	rf_print_text(p, "  ");
	if (!get_string(stage, "tool", &it)) { /* no command */
		rf_print_text(p, "# ");
		rf_record_text_value(p, &stage);
		rf_print_text(p, "\n");
		return;
	}
	write_word(p, &it);
	if (options.p && !rf_mp_next(&options, &it) && it.type == RF_MP_MAP)
		for (uint32_t i = 0; i < it.n; i++) {
			rf_mp_pair(&options, &key, &value);
			if (!rf_mp_is(&key, "note") || rf_mp_next(&value, &note) || note.type != RF_MP_STR)
				write_option(p, &key, value);
			else
				noted = true;
		}
	if (get_string(stage, "version", &it))
		write_remark(p, &before, "", &it);
	if (get_string(model, "weights", &it))
		write_remark(p, &before, "weights ", &it);
	if (noted)
		write_remark(p, &before, "", &note);
	rf_print_text(p, "\n");
}

/* Writes a key of the head and its value.  The keys and values of a map follow one another on the line. */
static void write_entry(struct rf_buf *p, const struct rf_mp_item *key, struct rf_mp value)
{
	struct rf_mp in = value, v;
	struct rf_mp_item it, k;
	size_t at = p->n;

	rf_print_safe(p, key->data, key->n, false);
	rf_print_fill(p, ' ', p->n - at < LABEL ? LABEL - (p->n - at) : 1);
	rf_mp_next(&in, &it);
	if (it.type != RF_MP_MAP)
		rf_record_text_value(p, &value);
	else
		for (uint32_t i = 0; i < it.n; i++) {
			rf_mp_pair(&in, &k, &v);
			rf_print_text(p, i ? "  " : "");
			rf_print_safe(p, k.data, k.n, false);
			rf_print_text(p, " ");
			rf_record_text_value(p, &v);
		}
	rf_print_text(p, "\n");
}

void rf_record_text_head(struct rf_buf *p, struct rf_mp body)
{
	struct rf_mp history = rf_mp_get(body, "history"), value;
	struct rf_mp_item it, key;

	rf_mp_next(&body, &it);
	for (uint32_t i = 0; i < it.n; i++) {
		rf_mp_pair(&body, &key, &value);
		if (!rf_mp_is(&key, "history"))
			write_entry(p, &key, value);
	}
	if (!history.p || rf_mp_next(&history, &it) || it.type != RF_MP_ARRAY || !it.n)
		return;
	rf_print_text(p, "history\n");
	for (uint32_t i = 0; i < it.n; i++) {
		write_stage(p, history);
		rf_mp_skip(&history);
	}
}
