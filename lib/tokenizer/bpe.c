/* bpe.c -- merges the symbols of a piece, by a heap of pairs in order of their ranks.
 *
 * Models like those of SentencePiece have no pre-tokenizer.  Their text is cut between two characters that
 * are neighbours in no token: no merge crosses such a place.
 *
 * Texts of byte-level tokens are kept as the bytes that they stand for, so pieces need no translation.  Most
 * pieces are words that occurred before, so their ids are remembered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/utf8.h"
#include "tokenizer/bpe.h"

struct token {
	uint32_t at, n;
	bool there, bytes;
}; /* bytes: the text stands for bytes, see rf_bpe_bytes() */
struct merge {
	uint64_t pair;
	int32_t rank, id;
}; /* rank -1: an empty slot */

enum { BMP = 1 << 16, NEIGHBOURS = 1 << 20 };

struct rf_bpe {
	bool byte_level;
	struct rf_bpe_options o;
	char *text; /* texts of all tokens, as the vocabulary writes them */
	char *key;  /* keys of all tokens, by which they are looked up: bytes if byte_level */
	size_t text_n, text_cap;
	struct token *token; /* by id */
	uint32_t *key_n;     /* length of each key in bytes */
	int size, cap, count;
	int32_t *slot; /* hash table of ids by key; -1: empty */
	size_t slots;
	struct merge *merge; /* hash table by pair */
	size_t merge_slots;
	int32_t merges;
	int32_t byte[256]; /* each byte's symbol (byte_level) or fallback token; -1: none */
	int32_t *bmp;      /* token of each character below BMP; -1: none */
	uint8_t *side;     /* bits by hash: two characters are neighbours in some token */
};

/* ---- bytes as characters ------------------------------------------------------------------- */

/* Returns the byte for a character of GPT-2's byte-level alphabet, in which printable bytes stand for
 * themselves and the other 68 are written as U+0100 and up; -1: the character is not in it. */
static int byte_of(int32_t c)
{
	if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF))
		return c;
	if (c < 0x100 || c > 0x143)
		return -1;
	c -= 0x100;
	return c <= 0x20 ? c : c <= 0x20 + 34 ? 0x7F + c - 0x21 : 0xAD;
}

size_t rf_bpe_bytes(const char *text, size_t n, char *out)
{
	size_t w = 0;
	int32_t c;

	for (size_t i = 0; i < n; w++) {
		i += rf_utf8_next(text + i, n - i, &c);
		int byte = byte_of(c);

		if (byte < 0) {
			memcpy(out, text, n);
			return n;
		}
		out[w] = (char)byte;
	}
	return w;
}

/* Returns whether every character stands for a byte. */
static bool is_bytes(const char *text, size_t n)
{
	int32_t c;

	for (size_t i = 0; i < n;) {
		i += rf_utf8_next(text + i, n - i, &c);
		if (byte_of(c) < 0)
			return false;
	}
	return true;
}

/* ---- the vocabulary ------------------------------------------------------------------------ */

enum rf_code rf_bpe_new(struct rf_bpe **out, bool byte_level, struct rf_err *e)
{
	struct rf_bpe *b = calloc(1, sizeof *b);

	*out = b;
	if (!b)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	b->byte_level = byte_level;
	return RF_OK;
}

void rf_bpe_free(struct rf_bpe *b)
{
	if (!b)
		return;
	free(b->text);
	free(b->key);
	free(b->token);
	free(b->key_n);
	free(b->slot);
	free(b->merge);
	free(b->bmp);
	free(b->side);
	free(b);
}

static int32_t *find_slot(const struct rf_bpe *b, const char *key, size_t n)
{
	size_t i = XXH3_64bits(key, n) & (b->slots - 1);

	for (;; i = (i + 1) & (b->slots - 1)) {
		int32_t id = b->slot[i];

		if (id < 0 || (b->key_n[id] == n && !memcmp(b->key + b->token[id].at, key, n)))
			return &b->slot[i];
	}
}

static int find(const struct rf_bpe *b, const char *key, size_t n)
{
	return b->slots ? *find_slot(b, key, n) : -1;
}

/* Doubles the table of slots, which is at most half full. */
static bool grow_slots(struct rf_bpe *b)
{
	size_t slots = b->slots ? 2 * b->slots : 1 << 10;
	int32_t *old = b->slot;

	if (!(b->slot = malloc(slots * sizeof *b->slot))) {
		b->slot = old;
		return false;
	}
	b->slots = slots;
	memset(b->slot, 0xFF, slots * sizeof *b->slot);
	for (int id = 0; id < b->size; id++)
		if (b->token[id].there && b->token[id].bytes)
			*find_slot(b, b->key + b->token[id].at, b->key_n[id]) = id;
	free(old);
	return true;
}

static bool grow_ids(struct rf_bpe *b, int id)
{
	int cap = id < b->cap ? b->cap : id + 1 > 2 * b->cap ? id + 1 : 2 * b->cap;
	struct token *token;
	uint32_t *key_n;

	if (cap > b->cap) {
		if (!(token = realloc(b->token, (size_t)cap * sizeof *token)))
			return false;
		b->token = token;
		if (!(key_n = realloc(b->key_n, (size_t)cap * sizeof *key_n)))
			return false;
		b->key_n = key_n;
		b->cap = cap;
	}
	for (; b->size <= id; b->size++)
		b->token[b->size] = (struct token){ 0 };
	return true;
}

static bool grow_text(struct rf_bpe *b, size_t n)
{
	size_t cap = b->text_n + n > b->text_cap ? 2 * (b->text_n + n) + 4096 : b->text_cap;
	char *p;

	if (cap > UINT32_MAX)
		return false;
	if (cap > b->text_cap) {
		if (!(p = realloc(b->text, cap)))
			return false;
		b->text = p;
		if (!(p = realloc(b->key, cap)))
			return false;
		b->key = p;
		b->text_cap = cap;
	}
	return true;
}

enum rf_code rf_bpe_token(struct rf_bpe *b, const char *text, size_t n, int64_t id, struct rf_err *e)
{
	char q[80];
	int32_t *slot;
	bool bytes = !b->byte_level || is_bytes(text, n);

	if (id < 0 || id >= RF_BPE_TOKENS)
		return rf_fail(e, RF_EDATA, "the id %lld of token '%s' is outside 0 to %d", (long long)id,
		               rf_quote(q, sizeof q, text, n), RF_BPE_TOKENS - 1);
	if (n > RF_BPE_LONGEST)
		return rf_fail(e, RF_EDATA, "token %lld has %zu bytes, more than the limit of %d",
		               (long long)id, n, RF_BPE_LONGEST);
	if (id < b->size && b->token[id].there)
		return rf_fail(e, RF_EDATA, "the id %lld occurs twice", (long long)id);
	if (!grow_ids(b, (int)id) || !grow_text(b, n) ||
	    ((size_t)(b->count + 1) * 2 > b->slots && !grow_slots(b)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	b->token[id] = (struct token){ (uint32_t)b->text_n, (uint32_t)n, true, bytes };
	memcpy(b->text + b->text_n, text, n);
	b->key_n[id] = (uint32_t)(b->byte_level ? rf_bpe_bytes(text, n, b->key + b->text_n) : n);
	if (!b->byte_level)
		memcpy(b->key + b->text_n, text, n);
	if (bytes) {
		if (*(slot = find_slot(b, b->key + b->text_n, b->key_n[id])) >= 0) {
			b->token[id].there = false;
			return rf_fail(e, RF_EDATA, "the token '%s' occurs twice",
			               rf_quote(q, sizeof q, text, n));
		}
		*slot = (int32_t)id;
	}
	b->text_n += n;
	b->count++;
	return RF_OK;
}

int rf_bpe_id(const struct rf_bpe *b, const char *text, size_t n)
{
	char small[256], *key = n <= sizeof small ? small : malloc(n);
	int id = -1;

	if (!b->byte_level)
		id = find(b, text, n);
	else if (key && is_bytes(text, n))
		id = find(b, key, rf_bpe_bytes(text, n, key));
	else
		for (int i = 0; i < b->size && id < 0; i++)
			if (b->token[i].there && b->token[i].n == n &&
			    !memcmp(b->text + b->token[i].at, text, n))
				id = i;
	if (key != small)
		free(key);
	return id;
}

const char *rf_bpe_text(const struct rf_bpe *b, int id, size_t *n)
{
	if (id < 0 || id >= b->size || !b->token[id].there)
		return NULL;
	*n = b->token[id].n;
	return b->text + b->token[id].at;
}

int rf_bpe_size(const struct rf_bpe *b) { return b->size; }
int rf_bpe_count(const struct rf_bpe *b) { return b->count; }

/* ---- merges -------------------------------------------------------------------------------- */

static uint64_t pair_of(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static struct merge *merge_slot(const struct rf_bpe *b, uint64_t pair)
{
	size_t i = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (b->merge_slots - 1);

	while (b->merge[i].rank >= 0 && b->merge[i].pair != pair)
		i = (i + 1) & (b->merge_slots - 1);
	return &b->merge[i];
}

static bool grow_merges(struct rf_bpe *b)
{
	size_t old_slots = b->merge_slots, slots = old_slots ? 2 * old_slots : 1 << 10;
	struct merge *old = b->merge, *all = malloc(slots * sizeof *all);

	if (!all)
		return false;
	memset(all, 0xFF, slots * sizeof *all);
	b->merge = all;
	b->merge_slots = slots;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].rank >= 0)
			*merge_slot(b, old[i].pair) = old[i];
	free(old);
	return true;
}

enum rf_code rf_bpe_merge(struct rf_bpe *b, const char *left, size_t n, const char *right, size_t m,
                          struct rf_err *e)
{
	char both[2 * 256], *join = n + m <= sizeof both ? both : malloc(n + m), q[80], r[80];
	int l = rf_bpe_id(b, left, n), k = rf_bpe_id(b, right, m), id = -1;
	enum rf_code rc = RF_OK;

	if (!join)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	memcpy(join, left, n);
	memcpy(join + n, right, m);
	if (l >= 0 && k >= 0)
		id = rf_bpe_id(b, join, n + m);
	if (id < 0)
		rc = rf_fail(e, RF_EDATA, "'%s' and '%s': %s is no token of the vocabulary",
		             rf_quote(q, sizeof q, left, n), rf_quote(r, sizeof r, right, m),
		             l < 0   ? "the first"
		             : k < 0 ? "the second"
		                     : "what they make together");
	if (join != both)
		free(join);
	if (rc != RF_OK)
		return rc;
	if ((size_t)(b->merges + 1) * 2 > b->merge_slots && !grow_merges(b))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	*merge_slot(b, pair_of(l, k)) = (struct merge){ pair_of(l, k), b->merges++, id };
	return RF_OK;
}

static uint32_t neighbours(int32_t left, int32_t right)
{
	return (uint32_t)((pair_of(left, right) * UINT64_C(0x9E3779B97F4A7C15)) >> 44) % NEIGHBOURS;
}

static void note_neighbours(struct rf_bpe *b, const char *s, size_t n)
{
	int32_t left = -1, right;

	for (size_t i = 0; i < n; left = right) {
		i += rf_utf8_next(s + i, n - i, &right);
		if (left >= 0)
			b->side[neighbours(left, right) / 8] |= (uint8_t)(1 << neighbours(left, right) % 8);
	}
}

enum rf_code rf_bpe_ready(struct rf_bpe *b, const struct rf_bpe_options *o, struct rf_err *e)
{
	b->o = *o;
	if (!b->slots && !grow_slots(b))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (!b->merge_slots && !grow_merges(b))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < 256; i++) {
		char text[8] = { (char)i };
		size_t n = b->byte_level ? 1 : (size_t)snprintf(text, sizeof text, "<0x%02X>", i);

		b->byte[i] = b->byte_level || o->byte_fallback ? find(b, text, n) : -1;
	}
	if (b->byte_level)
		return RF_OK;
	if (!(b->bmp = malloc(BMP * sizeof *b->bmp)) || !(b->side = calloc(NEIGHBOURS / 8, 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	memset(b->bmp, 0xFF, BMP * sizeof *b->bmp);
	for (int id = 0; id < b->size; id++) {
		const struct token *t = &b->token[id];
		int32_t c;

		if (t->there)
			note_neighbours(b, b->text + t->at, t->n);
		if (t->there && t->n && rf_utf8_next(b->text + t->at, t->n, &c) == t->n && c >= 0 && c < BMP)
			b->bmp[c] = id;
	}
	return RF_OK;
}

/* ---- encoding ------------------------------------------------------------------------------ */

struct symbol {
	int32_t id, prev, next;
}; /* next, prev: -1 at an end; id -1: merged into another */
struct found {
	int32_t rank, at, left, right;
}; /* a pair of neighbours in the heap */

enum { REMEMBER = 1 << 16, PIECE = 32, IDS = 14 }; /* remembered pieces; their most bytes and ids */
struct memory {
	char text[PIECE];
	int32_t id[IDS];
	uint8_t n, ids;
};

struct rf_bpe_work {
	struct symbol *s;
	struct found *heap;
	size_t cap, heap_n;
	int32_t *out;
	struct memory *memory; /* by hash; a newer piece replaces an older one */
};

struct rf_bpe_work *rf_bpe_work_new(void)
{
	struct rf_bpe_work *w = calloc(1, sizeof *w);

	if (w && !(w->memory = calloc(REMEMBER, sizeof *w->memory))) {
		free(w);
		return NULL;
	}
	return w;
}

void rf_bpe_work_free(struct rf_bpe_work *w)
{
	if (!w)
		return;
	free(w->s);
	free(w->heap);
	free(w->out);
	free(w->memory);
	free(w);
}

static bool before(const struct found *a, const struct found *b)
{
	return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void sift_up(struct found *heap, size_t i)
{
	struct found x = heap[i];

	for (; i && before(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = x;
}

static void sift_down(struct found *heap, size_t n, size_t i)
{
	struct found x = heap[i];

	for (size_t c; (c = 2 * i + 1) < n; i = c) {
		if (c + 1 < n && before(&heap[c + 1], &heap[c]))
			c++;
		if (!before(&heap[c], &x))
			break;
		heap[i] = heap[c];
	}
	heap[i] = x;
}

/* Puts the pair that begins at symbol i into the heap, if it has a merge. */
static void push_pair(const struct rf_bpe *b, struct rf_bpe_work *w, int32_t i)
{
	const struct symbol *s = w->s;
	const struct merge *m;

	if (i < 0 || s[i].next < 0)
		return;
	m = merge_slot(b, pair_of(s[i].id, s[s[i].next].id));
	if (m->rank < 0)
		return;
	w->heap[w->heap_n] = (struct found){ m->rank, i, s[i].id, s[s[i].next].id };
	sift_up(w->heap, w->heap_n++);
}

static void merge_all(const struct rf_bpe *b, struct rf_bpe_work *w, size_t n)
{
	struct symbol *s = w->s;

	w->heap_n = 0;
	for (size_t i = 0; i + 1 < n; i++)
		push_pair(b, w, (int32_t)i);
	while (w->heap_n) {
		struct found top = w->heap[0];
		int32_t i = top.at, j;

		w->heap[0] = w->heap[--w->heap_n];
		if (w->heap_n)
			sift_down(w->heap, w->heap_n, 0);
		/* a neighbour may have been merged meanwhile */
		if (s[i].id != top.left || (j = s[i].next) < 0 || s[j].id != top.right)
			continue;
		s[i].id = merge_slot(b, pair_of(top.left, top.right))->id;
		s[i].next = s[j].next;
		s[j].id = -1;
		if (s[i].next >= 0)
			s[s[i].next].prev = i;
		push_pair(b, w, s[i].prev);
		push_pair(b, w, i);
	}
}

/* Makes room for n symbols and their pairs: each symbol begins at most one pair at first, and each merge at
 * most two more. */
static enum rf_code reserve_symbols(struct rf_bpe_work *w, size_t n, struct rf_err *e)
{
	struct symbol *s;
	struct found *heap;
	int32_t *out;

	if (n <= w->cap)
		return RF_OK;
	if (n > INT32_MAX / 4)
		return rf_fail(e, RF_EDATA, "a piece of %zu bytes is too long", n);
	n += n / 2 + 64;
	if ((s = realloc(w->s, n * sizeof *s)))
		w->s = s;
	if ((heap = realloc(w->heap, 3 * n * sizeof *heap)))
		w->heap = heap;
	if ((out = realloc(w->out, n * sizeof *out)))
		w->out = out;
	if (!s || !heap || !out)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	w->cap = n;
	return RF_OK;
}

static int symbol_of(const struct rf_bpe *b, const char *s, size_t n, int32_t c)
{
	return c < BMP ? b->bmp[c] : find(b, s, n);
}

/* Divides a piece into its first symbols.  Returns their number. */
static size_t make_symbols(const struct rf_bpe *b, struct symbol *s, const char *piece, size_t n)
{
	size_t count = 0;
	int pending = -1; /* an unknown character that may be fused with the next */
	int32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		int id;

		if (b->byte_level) {
			len = 1;
			id = b->byte[(unsigned char)piece[i]];
		} else {
			len = rf_utf8_next(piece + i, n - i, &c);
			id = symbol_of(b, piece + i, len, c);
		}
		if (id >= 0) {
			if (pending >= 0)
				s[count++].id = pending;
			pending = -1;
			s[count++].id = id;
			continue;
		}
		if (b->o.byte_fallback && !b->byte_level) {
			bool all = true;

			for (size_t j = 0; j < len; j++)
				all &= b->byte[(unsigned char)piece[i + j]] >= 0;
			for (size_t j = 0; all && j < len; j++)
				s[count++].id = b->byte[(unsigned char)piece[i + j]];
			if (all)
				continue;
		}
		if (b->o.unk < 0)
			continue;
		if (pending >= 0 && !b->o.fuse_unk)
			s[count++].id = pending;
		pending = b->o.unk;
	}
	if (pending >= 0)
		s[count++].id = pending;
	for (size_t i = 0; i < count; i++) {
		s[i].prev = (int32_t)i - 1;
		s[i].next = i + 1 < count ? (int32_t)i + 1 : -1;
	}
	return count;
}

static enum rf_code encode_word(const struct rf_bpe *b, struct rf_bpe_work *w, const char *piece, size_t n,
                                struct rf_id_list *ids, struct rf_err *e)
{
	struct memory *m = n && n <= PIECE ? &w->memory[XXH3_64bits(piece, n) % REMEMBER] : NULL;
	enum rf_code rc;
	size_t count, k = 0;

	if (m && m->n == n && !memcmp(m->text, piece, n))
		return rf_id_list_add(ids, m->id, m->ids, e);
	if ((rc = reserve_symbols(w, n, e)) != RF_OK)
		return rc;
	count = make_symbols(b, w->s, piece, n);
	merge_all(b, w, count);
	for (size_t i = 0; i < count; i++)
		if (w->s[i].id >= 0)
			w->out[k++] = w->s[i].id;
	if (m && k <= IDS) {
		memcpy(m->text, piece, n);
		memcpy(m->id, w->out, k * sizeof *w->out);
		m->n = (uint8_t)n;
		m->ids = (uint8_t)k;
	}
	return rf_id_list_add(ids, w->out, k, e);
}

enum rf_code rf_bpe_encode(const struct rf_bpe *b, struct rf_bpe_work *w, const char *piece, size_t n,
                           struct rf_id_list *ids, struct rf_err *e)
{
	size_t from = 0;
	int32_t left = -1, right;
	bool known = false;
	enum rf_code rc = RF_OK;
	int id;

	if (b->o.ignore_merges && (id = find(b, piece, n)) >= 0)
		return rf_id_list_add(ids, &(int32_t){ id }, 1, e);
	if (b->byte_level || n <= PIECE)
		return encode_word(b, w, piece, n, ids, e);
	for (size_t i = 0, len; i < n && rc == RF_OK; i += len, left = right) {
		bool was_known = known;

		len = rf_utf8_next(piece + i, n - i, &right);
		known = symbol_of(b, piece + i, len, right) >= 0;
		if (known && was_known &&
		    !(b->side[neighbours(left, right) / 8] >> neighbours(left, right) % 8 & 1)) {
			rc = encode_word(b, w, piece + from, i - from, ids, e);
			from = i;
		}
	}
	return rc == RF_OK ? encode_word(b, w, piece + from, n - from, ids, e) : rc;
}
