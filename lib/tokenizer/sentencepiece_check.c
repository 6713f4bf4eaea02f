/* sentencepiece_check.c -- reads a tokenizer.model as protobuf (protobuf.dev, "Encoding"), and follows the
 * tries that libsentencepiece follows.
 *
 * A precompiled_charsmap is the size of a trie in 4 bytes, the trie, and texts that end with NUL.  The trie
 * is a double array of Darts-clone: units of 32 bits, little-endian.  From the unit at position p, the child
 * for the byte c is the unit at (p XOR offset of the unit) XOR c, if its label is c.  A unit with the leaf
 * flag ends a key, and the unit at (p XOR offset) then has the position of the key's text.  A text can make
 * the library look at a child for any byte, so all 256 places must be in the array.  Keys may share the ends
 * of their paths: the units are an acyclic graph, of which each unit is visited once. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tokenizer/sentencepiece_check.h"

struct bytes {
	const unsigned char *p;
	size_t n;
};

/* A field of a message: its value for wire type 0, its bytes for type 2. */
struct field {
	uint32_t number, type;
	uint64_t value;
	struct bytes bytes;
};

enum { VARINT, FIXED64, LENGTH, FIXED32 = 5 };

/* ---- protobuf ------------------------------------------------------------------------------ */

/* Takes a number of at most `most` bytes off the front of m. */
static bool take_varint(struct bytes *m, int most, uint64_t *v)
{
	*v = 0;
	for (int i = 0; i < most && m->n; i++) {
		const unsigned char c = *m->p++;

		m->n--;
		*v |= (uint64_t)(c & 127) << (7 * i);
		if (c < 128)
			return true;
	}
	return false;
}

static bool take_bytes(struct bytes *m, uint64_t n, struct bytes *v)
{
	if (n > m->n)
		return false;
	*v = (struct bytes){ m->p, (size_t)n };
	m->p += n;
	m->n -= (size_t)n;
	return true;
}

/* Takes the next field off the front of m.  Returns RF_EOF at the end, RF_EDATA if the remaining bytes are
 * not a field.  Groups, which protobuf still reads, are refused, because no model has them. */
static enum rf_code take_field(struct bytes *m, struct field *f)
{
	uint64_t tag, n;
	bool good;

	if (!m->n)
		return RF_EOF;
	if (!take_varint(m, 5, &tag) || tag > UINT32_MAX || tag < 8)
		return RF_EDATA;
	*f = (struct field){ .number = (uint32_t)tag >> 3, .type = tag & 7 };
	switch (f->type) {
	case VARINT: good = take_varint(m, 10, &f->value); break;
	case FIXED64: good = take_bytes(m, 8, &f->bytes); break;
	case FIXED32: good = take_bytes(m, 4, &f->bytes); break;
	case LENGTH: good = take_varint(m, 5, &n) && take_bytes(m, n, &f->bytes); break;
	default: good = false;
	}
	return good ? RF_OK : RF_EDATA;
}

static enum rf_code not_protobuf(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "it is cut, or not protobuf");
}

/* ---- the map of characters ----------------------------------------------------------------- */

/* The keys below a unit; height 0: the unit was not visited yet. */
struct below {
	uint16_t height;
	uint8_t keys;
};

struct map {
	struct bytes trie, texts;
	size_t units;
	struct below *below; /* (units) */
	const char *what;    /* normalizer or denormalizer */
};

static uint32_t unit_at(const struct map *m, size_t at)
{
	const unsigned char *p = m->trie.p + 4 * at;

	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static enum rf_code bad_map(const struct map *m, const char *why, struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "the precompiled_charsmap of its %s %s", m->what, why);
}

/* Finds the position to which the byte of a child is added.  Errors: RF_EDATA: a child would be outside. */
static enum rf_code base_of(const struct map *m, size_t at, size_t *base, struct rf_err *e)
{
	const uint32_t unit = unit_at(m, at);

	*base = at ^ ((size_t)(unit >> 10) << ((unit & 1u << 9) >> 6));
	return (*base | 255) < m->units ? RF_OK : bad_map(m, "leads outside its trie", e);
}

static enum rf_code check_text(const struct map *m, uint32_t at, struct rf_err *e)
{
	size_t left;

	if (at >= m->texts.n)
		return bad_map(m, "leads outside its texts", e);
	left = m->texts.n - at;
	if (memchr(m->texts.p + at, 0, left < RF_CHARSMAP_TEXT + 1 ? left : RF_CHARSMAP_TEXT + 1))
		return RF_OK;
	return rf_fail(e, RF_EDATA, "the precompiled_charsmap of its %s has a text of more than %d bytes",
	               m->what, RF_CHARSMAP_TEXT);
}

/* Records the height and the number of keys below the unit: its own key, and the maximum over its
 * children. */
static enum rf_code finish(struct map *m, size_t at, struct below most, bool root, struct rf_err *e)
{
	const uint32_t unit = unit_at(m, at);
	size_t base;
	enum rf_code rc;

	if ((unit & 1u << 8) && !root) {
		if ((rc = base_of(m, at, &base, e)) != RF_OK ||
		    (rc = check_text(m, unit_at(m, base) & 0x7FFFFFFF, e)) != RF_OK)
			return rc;
		most.keys++;
	}
	m->below[at] = (struct below){ (uint16_t)(most.height + 1), most.keys };
	if (most.keys > RF_CHARSMAP_PREFIXES)
		return rf_fail(e, RF_EDATA,
		               "the precompiled_charsmap of its %s has more than %d rules of which each "
		               "begins the next",
		               m->what, RF_CHARSMAP_PREFIXES);
	return RF_OK;
}

/* Visits all units that a text can reach.  A key that is too long also ends a circle of units. */
static enum rf_code follow(struct map *m, struct rf_err *e)
{
	struct {
		size_t at, base;
		int next;
		struct below most;
	} path[RF_CHARSMAP_KEY + 1];
	enum rf_code rc;
	int n = 1;

	path[0].at = 0;
	path[0].next = 0;
	path[0].most = (struct below){ 0, 0 };
	if ((rc = base_of(m, 0, &path[0].base, e)) != RF_OK)
		return rc;
	while (n) {
		const int c = path[n - 1].next++;
		size_t child;

		if (c == 256) {
			if ((rc = finish(m, path[n - 1].at, path[n - 1].most, n == 1, e)) != RF_OK)
				return rc;
			n--;
			if (!n)
				break;
			path[n - 1].next--; /* its parent takes what is below it */
			continue;
		}
		child = path[n - 1].base ^ (size_t)c;
		if ((unit_at(m, child) & 0x800000FF) != (uint32_t)c)
			continue;
		if (!m->below[child].height) {
			if (n == RF_CHARSMAP_KEY + 1)
				return bad_map(m, "has a key that is too long, or a circle", e);
			path[n].at = child;
			path[n].next = 0;
			path[n].most = (struct below){ 0, 0 };
			if ((rc = base_of(m, child, &path[n].base, e)) != RF_OK)
				return rc;
			n++;
			continue;
		}
		if (m->below[child].height > path[n - 1].most.height)
			path[n - 1].most.height = m->below[child].height;
		if (m->below[child].keys > path[n - 1].most.keys)
			path[n - 1].most.keys = m->below[child].keys;
		if (path[n - 1].most.height > RF_CHARSMAP_KEY)
			return bad_map(m, "has a key that is too long", e);
	}
	return RF_OK;
}

static enum rf_code check_map(struct bytes blob, const char *what, struct rf_err *e)
{
	struct map m = { .what = what };
	struct bytes size;
	uint32_t n;
	enum rf_code rc;

	if (!blob.n)
		return RF_OK; /* the library ignores it, too */
	if (blob.n > RF_CHARSMAP_BYTES)
		return rf_fail(e, RF_EDATA, "the precompiled_charsmap of its %s has %zu bytes, more than %d",
		               what, blob.n, RF_CHARSMAP_BYTES);
	if (!take_bytes(&blob, 4, &size))
		return bad_map(&m, "is cut", e);
	m.trie = size;
	n = unit_at(&m, 0);
	if (!n || n % 4 || !take_bytes(&blob, n, &m.trie))
		return bad_map(&m, "gives a wrong size of its trie", e);
	m.texts = blob;
	m.units = n / 4;
	if (!m.texts.n || m.texts.p[m.texts.n - 1])
		return bad_map(&m, "does not end its last text", e);
	if (!(m.below = calloc(m.units, sizeof *m.below)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rc = follow(&m, e);
	free(m.below);
	return rc;
}

/* Checks a NormalizerSpec. */
static enum rf_code check_normalizer(struct bytes spec, const char *what, struct rf_err *e)
{
	enum { CHARSMAP = 2 };
	struct field f;
	enum rf_code rc;

	while ((rc = take_field(&spec, &f)) == RF_OK)
		if (f.number == CHARSMAP && f.type == LENGTH && (rc = check_map(f.bytes, what, e)) != RF_OK)
			return rc;
	return rc == RF_EOF ? RF_OK : not_protobuf(e);
}

/* ---- user-defined symbols ------------------------------------------------------------------ */

struct symbols {
	struct bytes *of;
	size_t n, cap;
};

static int in_order(const void *a, const void *b)
{
	const struct bytes *x = a, *y = b;
	const int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Reads a SentencePiece, and adds it to the list if it is a user-defined symbol. */
static enum rf_code read_piece(struct symbols *s, struct bytes piece, struct rf_err *e)
{
	enum { TEXT = 1, TYPE = 3, USER_DEFINED = 4, TYPES = 6 };
	struct bytes text = { NULL, 0 };
	const unsigned char *nul;
	struct field f;
	enum rf_code rc;
	int32_t type = 0;

	while ((rc = take_field(&piece, &f)) == RF_OK)
		if (f.number == TEXT && f.type == LENGTH)
			text = f.bytes;
		else if (f.number == TYPE && f.type == VARINT && (int32_t)f.value > 0 &&
		         (int32_t)f.value <= TYPES)
			type = (int32_t)f.value; /* protobuf cuts the number, too, and skips others */
	if (rc != RF_EOF)
		return not_protobuf(e);
	if (type != USER_DEFINED || !text.n)
		return RF_OK;
	if (!rf_grow(&s->of, s->n, &s->cap, sizeof *s->of))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	/* the library takes it for a C string */
	if ((nul = memchr(text.p, 0, text.n)))
		text.n = (size_t)(nul - text.p);
	s->of[s->n++] = text;
	return RF_OK;
}

/* Checks the symbols in sorted order, in which all prefixes of a symbol precede it. */
static enum rf_code check_symbols(struct symbols *s, struct rf_err *e)
{
	const struct bytes *begins[RF_SYMBOL_PREFIXES + 1];
	int n = 0;

	if (s->n)
		qsort(s->of, s->n, sizeof *s->of, in_order);
	for (size_t i = 0; i < s->n; i++) {
		const struct bytes *of = &s->of[i];

		while (n && (begins[n - 1]->n > of->n || memcmp(begins[n - 1]->p, of->p, begins[n - 1]->n)))
			n--;
		if (n == RF_SYMBOL_PREFIXES)
			return rf_fail(e, RF_EDATA,
			               "more than %d of its user-defined symbols begin one another",
			               RF_SYMBOL_PREFIXES);
		begins[n++] = of;
	}
	return RF_OK;
}

enum rf_code rf_sentencepiece_check(const void *model, size_t n, struct rf_err *e)
{
	enum { PIECE = 1, NORMALIZER = 3, DENORMALIZER = 5 };
	struct bytes m = { model, n };
	struct symbols s = { NULL, 0, 0 };
	struct field f;
	enum rf_code rc, ended;

	for (rc = RF_OK; rc == RF_OK && (ended = take_field(&m, &f)) != RF_EOF;)
		if (ended != RF_OK)
			rc = not_protobuf(e);
		else if (f.type == LENGTH && f.number == PIECE)
			rc = read_piece(&s, f.bytes, e);
		else if (f.type == LENGTH && f.number == NORMALIZER)
			rc = check_normalizer(f.bytes, "normalizer", e);
		else if (f.type == LENGTH && f.number == DENORMALIZER)
			rc = check_normalizer(f.bytes, "denormalizer", e);
	if (rc == RF_OK)
		rc = check_symbols(&s, e);
	free(s.of);
	return rc;
}
