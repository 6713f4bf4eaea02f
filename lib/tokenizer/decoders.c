/* decoders.c -- runs the decoders in their order; each changes the texts of tokens for the next one. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoders.h"
#include "tokenizer/normal.h"

enum { DECODERS = 8 };
enum decoder { BYTE_LEVEL, METASPACE, REPLACE, BYTE_FALLBACK, FUSE, STRIP };

struct decode_step {
	enum decoder kind;
	struct rf_pattern *pattern;
	char *text; /* for REPLACE, STRIP and METASPACE */
	size_t n;
	bool drops_first;     /* for METASPACE: drop the marks of the first token */
	uint64_t start, stop; /* for STRIP: the most characters at the start and at the end */
};

struct rf_decoders {
	struct decode_step step[DECODERS];
	int n;
};

/* ---- reading ------------------------------------------------------------------------------- */

static enum rf_code read_strip(struct decode_step *s, const struct rf_jvalue *json, struct rf_err *e)
{
	static const char *const keys[] = { "start", "stop" };
	uint64_t *const counts[] = { &s->start, &s->stop };
	struct rf_jvalue v;
	enum rf_code rc;

	for (int i = 0; i < 2; i++) {
		if ((rc = rf_jscan_get(json, keys[i], &v, e)) != RF_OK)
			return rc;
		if (!rf_jscan_uint(&v, counts[i]))
			return rf_fail(e, RF_EDATA, "'%s' is %.40s, not a whole number from 0", keys[i],
			               *v.s == '"' ? rf_jscan_kind(&v)
			                           : rf_quote((char[40]){ 0 }, 40, v.s, v.n));
	}
	return rf_character_read(json, "content", &s->text, &s->n, e);
}

/* Reads a decoder that has the members of the pre-tokenizer of its name; two of the members are used. */
static enum rf_code read_metaspace(struct decode_step *s, const struct rf_jvalue *json, struct rf_err *e)
{
	enum rf_scheme scheme = RF_NEVER;
	bool unused;
	enum rf_code rc = rf_metaspace_read(json, &s->text, &s->n, &scheme, &unused, e);

	s->drops_first = scheme != RF_NEVER;
	return rc;
}

/* Checks the members of a decoder that has those of the pre-tokenizer of its name; none of them is used. */
static enum rf_code check_byte_level(const struct rf_jvalue *json, struct rf_err *e)
{
	static const char *const keys[] = { "add_prefix_space", "trim_offsets", "use_regex" };
	enum rf_code rc = RF_OK;
	bool unused;

	for (int i = 0; i < 3 && rc == RF_OK; i++)
		rc = rf_flag_read(json, keys[i], true, &unused, e);
	return rc;
}

static enum rf_code read_decoder(void *decoders, const struct rf_jvalue *json, int kind, struct rf_err *e)
{
	struct rf_decoders *d = decoders;
	struct decode_step *s = &d->step[d->n];
	struct rf_jvalue v;
	enum rf_code rc;

	if (d->n == DECODERS)
		return rf_fail(e, RF_EMODEL, "more than %d decoders are not supported", DECODERS);
	d->n++;
	s->kind = (enum decoder)kind;
	switch (s->kind) {
	case REPLACE:
		if ((rc = rf_jscan_get(json, "pattern", &v, e)) == RF_OK)
			rc = rf_pattern_read(&s->pattern, &v, e);
		return rc == RF_OK ? rf_string_read(json, "content", &s->text, &s->n, e) : rc;
	case STRIP: return read_strip(s, json, e);
	case METASPACE: return read_metaspace(s, json, e);
	case BYTE_LEVEL: return check_byte_level(json, e);
	default: return RF_OK;
	}
}

enum rf_code rf_decoders_read(struct rf_decoders **out, const struct rf_jvalue *json, struct rf_err *e)
{
	static const char *const types[] = { "ByteLevel", "Metaspace", "Replace", "ByteFallback",
		                             "Fuse",      "Strip",     NULL };
	struct rf_decoders *d = calloc(1, sizeof *d);

	*out = d;
	if (!d)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	return rf_parts_read(&(struct rf_parts){ "decoder", "decoders", types, read_decoder, d }, json, e);
}

void rf_decoders_free(struct rf_decoders *d)
{
	for (int i = 0; d && i < d->n; i++) {
		rf_pattern_free(d->step[i].pattern);
		free(d->step[i].text);
	}
	free(d);
}

int rf_decoders_count(const struct rf_decoders *d) { return d->n; }

/* ---- decoding ------------------------------------------------------------------------------ */

static const char *piece(const struct rf_token_texts *t, size_t i, size_t *n)
{
	size_t from = i ? t->end[i - 1] : 0;

	*n = t->end[i] - from;
	return *n ? (const char *)t->text.p + from : "";
}

static void byte_level(const struct rf_token_texts *from, struct rf_token_texts *to)
{
	char *room = malloc(from->text.n + 1); /* a decoder before this one may have joined all pieces */
	struct rf_buf bytes = { 0 };
	size_t n;

	for (size_t i = 0; i < from->n && room; i++) {
		const char *s = piece(from, i, &n);

		rf_buf_add(&bytes, room, rf_bpe_bytes(s, n, room));
	}
	rf_add_valid(&to->text, bytes.p, bytes.n, 0);
	to->held = rf_utf8_unfinished(bytes.p, bytes.n) ? 3 : 0;
	to->text.failed |= bytes.failed || !room;
	free(room);
	rf_buf_free(&bytes);
	to->end[0] = to->text.n;
	to->n = 1;
}

/* Returns the byte of a token such as "<0xE2>"; -1: the token is not of this form. */
static int fallback(const char *s, size_t n)
{
	if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || !isxdigit((unsigned char)s[3]) ||
	    !isxdigit((unsigned char)s[4]))
		return -1;
	return (int)strtol((const char[]){ s[3], s[4], 0 }, NULL, 16);
}

static void end_run(struct rf_token_texts *to, struct rf_buf *run)
{
	if (!run->n)
		return;
	if (rf_utf8(run->p, run->n))
		rf_buf_add(&to->text, run->p, run->n);
	else
		for (size_t i = 0; i < run->n; i++)
			rf_buf_add(&to->text, "\xEF\xBF\xBD", 3);
	run->n = 0;
	to->end[to->n++] = to->text.n;
}

static void byte_fallback(const struct rf_token_texts *from, struct rf_token_texts *to)
{
	struct rf_buf run = { 0 };
	size_t n, open;

	for (size_t i = 0; i < from->n; i++) {
		const char *s = piece(from, i, &n);
		int byte = fallback(s, n);

		if (byte >= 0) {
			rf_buf_add(&run, &(char){ (char)byte }, 1);
			continue;
		}
		end_run(to, &run);
		rf_buf_add(&to->text, s, n);
		to->end[to->n++] = to->text.n;
	}
	open = rf_utf8_unfinished(run.p, run.n);
	to->held = open && rf_utf8(run.p, run.n - open) ? 3 * run.n : 0;
	end_run(to, &run);
	to->text.failed |= run.failed;
	rf_buf_free(&run);
}

static void strip(const struct decode_step *d, const char *s, size_t n, struct rf_buf *to)
{
	for (uint64_t i = 0; i < d->start && d->n && n >= d->n && !memcmp(s, d->text, d->n); i++)
		s += d->n, n -= d->n;
	for (uint64_t i = 0; i < d->stop && d->n && n >= d->n && !memcmp(s + n - d->n, d->text, d->n); i++)
		n -= d->n;
	rf_buf_add(to, s, n);
}

static void metaspace(const struct decode_step *d, const char *s, size_t n, bool first, struct rf_buf *to)
{
	for (size_t i = 0; i < n;) {
		if (d->n && n - i >= d->n && !memcmp(s + i, d->text, d->n)) {
			rf_buf_add(to, " ", !(first && d->drops_first));
			i += d->n;
		} else {
			rf_buf_add(to, s + i++, 1);
		}
	}
}

static enum rf_code decode_step(const struct decode_step *d, struct rf_pattern_work *w,
                                const struct rf_token_texts *from, size_t most, struct rf_token_texts *to,
                                struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	size_t n;

	to->text.n = to->n = 0;
	to->held = from->held;
	if (d->kind == BYTE_LEVEL) {
		byte_level(from, to);
		return RF_OK;
	}
	if (d->kind == BYTE_FALLBACK) {
		byte_fallback(from, to);
		return RF_OK;
	}
	if (d->kind == FUSE) {
		rf_buf_add(&to->text, from->text.p, from->text.n);
		to->end[to->n++] = to->text.n;
		return RF_OK;
	}
	for (size_t i = 0; i < from->n && rc == RF_OK; i++) {
		const char *s = piece(from, i, &n);

		if (d->kind == REPLACE)
			rc = rf_pattern_replace(d->pattern, w, s, n, d->text, d->n, most, &to->text, e);
		else if (d->kind == STRIP)
			strip(d, s, n, &to->text);
		else
			metaspace(d, s, n, !i, &to->text);
		to->end[to->n++] = to->text.n;
	}
	return rc;
}

enum rf_code rf_decoders_apply(const struct rf_decoders *d, struct rf_pattern_work *w,
                               struct rf_token_texts *t, struct rf_err *e)
{
	struct rf_token_texts other = { .end = calloc(t->n + 1, sizeof *other.end) }, swap;
	const size_t most = rf_growth_most(t->text.n);
	enum rf_code rc = RF_OK;

	if (!other.end)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < d->n && rc == RF_OK; i++) {
		rc = decode_step(&d->step[i], w, t, most, &other, e);
		swap = *t, *t = other, other = swap;
	}
	free(other.end);
	rf_buf_free(&other.text);
	return rc == RF_EDATA ? rf_blame(e, "the decoder") : rc;
}
