/* msg.c -- checks whether an untrusted message is well-formed.
 *
 * The check is one pass with a stack of RF_MSG_DEPTH counters.  Every length that the message claims is
 * compared with the bytes left before it is used, so the time is bounded by the number of bytes.  The keys of
 * a map are sorted in an array on the stack to find duplicates in n log n steps; for that qsort_r(3) may need
 * as much memory once more, at most 400 kB for the largest map that RF_MSG_NODES allows. */
#define _GNU_SOURCE /* qsort_r */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "stream/msg.h"
#include "stream/pack.h"

static const char too_many[] = "more than 100000 values in one message";

/* Returns the key that begins at p. */
static struct rf_mp_item key_at(const unsigned char *p, const unsigned char *end)
{
	struct rf_mp m = { p, end };
	struct rf_mp_item key;

	rf_mp_next(&m, &key);
	return key;
}

static int compare_keys(const void *a, const void *b, void *end)
{
	struct rf_mp_item x = key_at(*(const unsigned char *const *)a, end);
	struct rf_mp_item y = key_at(*(const unsigned char *const *)b, end);
	int order = memcmp(x.data, y.data, x.n < y.n ? x.n : y.n);

	return order ? order : (x.n > y.n) - (x.n < y.n);
}

/* Checks the keys of a map of n pairs that begins at m.  Returns NULL, or what is wrong with them.  The
 * values are only skipped; the main loop checks them later. */
static const char *check_keys(struct rf_mp m, size_t n)
{
	const unsigned char *keys[RF_MSG_NODES / 2];
	struct rf_mp_item it;
	const char *why;

	for (size_t i = 0; i < n; i++) {
		keys[i] = m.p;
		if ((why = rf_mp_next(&m, &it)))
			return why;
		if (it.type != RF_MP_STR)
			return "a map key is not a string";
		if (memchr(it.data, 0, it.n))
			return "a map key contains a NUL";
		if ((why = rf_mp_skip_some(&m, RF_MSG_NODES)))
			return why;
	}
	qsort_r(keys, n, sizeof *keys, compare_keys, (void *)m.end);
	for (size_t i = 1; i < n; i++)
		if (!compare_keys(&keys[i - 1], &keys[i], (void *)m.end))
			return "a map key occurs twice";
	return NULL;
}

/* Returns NULL, or what is wrong with the object; m is then where the mistake is. */
static const char *check_object(struct rf_mp *m)
{
	uint64_t left[RF_MSG_DEPTH] = { 0 };
	struct rf_mp_item it;
	const char *why;
	uint64_t nodes = 0;
	int depth = 0;

	do {
		struct rf_mp at = *m;

		if (depth)
			left[depth - 1]--;
		if (++nodes > RF_MSG_NODES)
			return too_many;
		if ((why = rf_mp_next(m, &it)))
			return why;
		if (it.type == RF_MP_STR && !rf_utf8(it.data, it.n))
			why = "a string is not UTF-8";
		else if (it.type == RF_MP_REAL && !isfinite(it.f))
			why = "a number is NaN or infinite";
		else if (it.type == RF_MP_MAP && it.n > RF_MSG_NODES / 2)
			why = too_many;
		else if (it.type == RF_MP_MAP)
			why = check_keys(*m, it.n);
		else
			why = NULL;
		if (!why && (it.type == RF_MP_ARRAY || it.type == RF_MP_MAP)) {
			if (depth == RF_MSG_DEPTH)
				why = "it is nested more than 8 levels deep";
			else
				left[depth++] = (uint64_t)it.n * (it.type == RF_MP_MAP ? 2 : 1);
		}
		if (why) {
			*m = at;
			return why;
		}
		while (depth && !left[depth - 1])
			depth--;
	} while (depth);
	return m->p == m->end ? NULL : "bytes follow the first object";
}

enum rf_code rf_msg_check(const void *msg, size_t n, struct rf_err *e)
{
	struct rf_mp m = { msg, (const unsigned char *)msg + n };
	const char *why = check_object(&m);

	if (why)
		return rf_fail(e, RF_EDATA, "bad msgpack at byte %zu of the message: %s",
		               (size_t)(m.p - (const unsigned char *)msg), why);
	return RF_OK;
}
