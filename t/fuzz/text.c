/* text -- feeds any bytes as a file of documents to the reader of texts, and as JSON to the scanner.  All
 * records keep their rules, whatever the options are.  The strict scanner accepts the texts that jansson
 * accepts, and reads the same values from them; all values of a text that only the lenient scanner accepts
 * can be read.
 *
 * The first byte chooses format and options, the second one lengths; the rest is the file, whose length
 * chooses the options of prompts and the number of threads. */
#include <jansson.h>
#include <math.h>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "io/jscan.h"
#include "stream/stream.h"
#include "text/sequences.h"
#include "text/text.h"
#include "tokenizer/tokenizer.h"

static void check_same_values(struct rf_jvalue *v, const json_t *j)
{
	struct rf_jvalue key, each = { NULL, 0 }, next = { NULL, 0 };
	size_t n = 0;
	int64_t i;
	double x;

	if (rf_jscan_is_list(v)) {
		/* reading a string changes it, so the cursor finds the next element first */
		for (bool more = rf_jscan_next(v, NULL, &next); more; n++) {
			each = next;
			more = rf_jscan_next(v, NULL, &next);
			check_same_values(&each, json_array_get(j, n));
		}
		insist(json_is_array(j) && n == json_array_size(j), "a list differs");
	} else if (rf_jscan_is_object(v)) {
		while (rf_jscan_next(v, &key, &each))
			n++;
		insist(json_is_object(j) && n >= json_object_size(j), "an object differs");
		if (n > json_object_size(j))
			return; /* an object has a key twice, of which jansson keeps the last */
		for (bool more = rf_jscan_next(v, &key, &next); more;) {
			struct rf_jvalue this_key = key;
			each = next;
			more = rf_jscan_next(v, &key, &next);
			const char *name = rf_jscan_text(&this_key, &n);
			insist(json_object_get(j, name) != NULL, "a key differs");
			check_same_values(&each, json_object_get(j, name));
		}
	} else if (rf_jscan_is_string(v)) {
		const char *s = rf_jscan_text(v, &n);
		insist(json_is_string(j) && n == json_string_length(j) && !memcmp(s, json_string_value(j), n),
		       "a string differs");
	} else if (rf_jscan_int(v, &i)) {
		insist(json_is_integer(j) && i == json_integer_value(j), "an integer differs");
	} else if (rf_jscan_real(v, &x)) {
		insist(json_is_real(j) && x == json_real_value(j), "a real differs");
	} else {
		insist(v->s[0] == 't'   ? json_is_true(j)
		       : v->s[0] == 'f' ? json_is_false(j)
		       : v->s[0] == 'n' ? json_is_null(j)
		                        : v->n > 300,
		       "a value differs");
	}
}

/* Reads every value of a text that passed the lenient check. */
static void read_all_values(struct rf_jvalue *v)
{
	struct rf_jvalue key, next = { NULL, 0 };
	bool object = rf_jscan_is_object(v);
	int64_t i;
	double x;
	size_t n;

	insist(*rf_jscan_kind(v) != 0, "a kind has no name");
	if (*v->s == '"') {
		const bool whole = rf_jscan_is_string(v);
		const char *s = rf_jscan_text(v, &n);
		insist(rf_utf8(s, n) == whole, "a string is UTF-8 and broken, or neither");
		return;
	}
	if (!object && !rf_jscan_is_list(v)) {
		insist(!rf_jscan_real(v, &x) || isfinite(x), "a number is not finite");
		rf_jscan_int(v, &i);
		return;
	}
	for (bool more = rf_jscan_next(v, object ? &key : NULL, &next); more;) {
		struct rf_jvalue each = next, name = key;
		more = rf_jscan_next(v, object ? &key : NULL, &next);
		read_all_values(&each);
		if (object)
			rf_jscan_text(&name, &n);
	}
}

static void compare_lenient(const uint8_t *data, size_t size, bool strict)
{
	char *copy = malloc(size + 1);
	struct rf_jvalue v;
	bool good;

	insist(copy != NULL, "out of memory");
	memcpy(copy, data, size);
	good = rf_jscan_check(copy, size, &v, NULL) == RF_OK;
	insist(good || !strict, "the lenient check refuses what the strict check accepts");
	if (good)
		read_all_values(&v);
	free(copy);
}

static void compare_with_jansson(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);
	struct rf_jvalue v;
	struct rf_err err;
	json_error_t error;
	bool strict;
	json_t *j;

	insist(copy != NULL, "out of memory");
	memcpy(copy, data, size);
	j = json_loadb(copy, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	strict = rf_jscan_check_strict(copy, size, &v, &err) == RF_OK;
	compare_lenient(data, size, strict);
	if (!strict)
		/* jansson accepts deeper nesting, and a zero byte after a number */
		insist(!j || strstr(err.msg, "shallower nesting") || memchr(data, 0, size),
		       "the strict check refuses what jansson accepts");
	else if (j)
		check_same_values(&v, j);
	else
		insist(json_error_code(&error) == json_error_numeric_overflow ||
		               json_error_code(&error) == json_error_null_byte_in_key,
		       "the strict check accepts what jansson refuses");
	json_decref(j);
	free(copy);
}

/* Chooses options that divide texts into prompts and answers. */
static void choose_parts(struct rf_text_options *o, struct rf_sequences_options *c, unsigned lengths,
                         size_t size)
{
	static const enum rf_truncate how[] = { RF_TRUNCATE_UNSAID, RF_TRUNCATE_ERROR, RF_TRUNCATE_RIGHT,
		                                RF_TRUNCATE_MIDDLE };

	c->max_prompt = lengths & 7;
	c->truncate = c->max_prompt ? how[lengths >> 3 & 3] : RF_TRUNCATE_UNSAID;
	c->max_answer = lengths >> 5 & 3;
	if (size & 1)
		o->prompt_suffix_key = "suffix";
	if (size & 2) {
		o->answers_key = o->answer_key;
		o->answer_key = NULL;
	} else if (size & 4 && o->answer_key) {
		o->answer_prefix = " ";
	}
}

static void check_parts(const struct rf_record *r, const struct rf_text_options *o,
                        const struct rf_sequences_options *c)
{
	int answer = r->T - r->prompt_len;

	insist(r->prompt_len <= r->T && (r->prompt_len >= 0) == (o->prompt_key != NULL), "a bad prompt_len");
	insist(!c->max_prompt || r->prompt_len <= c->max_prompt, "a prompt that is too long");
	insist(!o->prompt_key || o->answer_key || !answer, "an answer in the tokens");
	insist(!o->answer_key || !c->max_answer ||
	               answer <= c->max_answer + (r->tokens[r->T - 1] == RF_BYTES_EOS),
	       "an answer that is too long");
}

static void read_documents(const uint8_t *data, size_t size, unsigned how, unsigned lengths)
{
	char path[40], *const paths[] = { path };
	struct rf_text_options o = RF_TEXT_DEFAULTS;
	struct rf_sequences_options c = RF_SEQUENCES_DEFAULTS;
	struct rf_tokenizer *tok;
	struct rf_sequences *s;
	struct rf_text *text;
	const struct rf_record *r;
	struct rf_err err;
	enum rf_code rc;
	uint64_t id = 0;
	int fd = memory_file(data, size, path);

	o.format = (enum rf_text_format)(1 + how % 3);
	o.max_record = 1 << 16;
	if (o.format == RF_TEXT_JSONL && how & 4) {
		o.prompt_key = "prompt";
		if (how & 8)
			o.answer_key = "answers";
	}
	if (o.format != RF_TEXT_PLAIN && how & 16)
		o.meta_key = "meta,task";
	if (o.format != RF_TEXT_PLAIN && how & 32)
		o.source_key = "source";
	else
		o.source = how & 64;
	c.documents.no_eos = how & 128;
	c.documents.threads = size & 8 ? 2 : 1;
	c.max_len = lengths & 15;
	c.truncate = c.max_len ? (enum rf_truncate)(lengths >> 4 & 3) : RF_TRUNCATE_ERROR;
	if (o.prompt_key && lengths & 128) {
		c.max_len = 0;
		choose_parts(&o, &c, lengths, size);
	}
	if (c.max_len > 1)
		c.min_len = 1 + (int)(lengths >> 6);
	if (c.min_len > c.max_len && c.max_len)
		c.min_len = c.max_len;

	insist(rf_tokenizer_bytes(&tok, &err) == RF_OK, "the byte tokenizer does not open");
	insist(rf_text_open(&text, &o, paths, 1, &err) != RF_EUSAGE, "options of the reader are refused");
	if (text) {
		insist(rf_sequences_open(&s, &c, tok, text, o.max_record, &err) == RF_OK,
		       "options of sequences are refused");
		while ((rc = rf_sequences_next(s, &r, &err)) == RF_OK) {
			insist(rf_record_check(r, rf_sequences_vocab(s), &err) == RF_OK, "a bad record");
			insist(r->id == id++ && r->T >= c.min_len && (!c.max_len || r->T <= c.max_len),
			       "a bad length");
			check_parts(r, &o, &c);
			insist(!r->source || !o.source || r->source[0], "a bad source");
		}
		insist(rc == RF_EOF || rc == RF_EDATA, "reading ends with a wrong error code");
		rf_sequences_close(s);
	}
	rf_text_close(text);
	rf_tokenizer_free(tok);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	compare_with_jansson(data + 2, size - 2);
	read_documents(data + 2, size - 2, data[0], data[1]);
	return 0;
}
