/* params.c -- the table of the weights of a model: collects it, sorts it by name, finds a weight. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev.h"
#include "model/params.h"

enum { ALIGN = 16 };

static struct rf_weight place_of(const struct rf_params *t, const struct rf_param *p)
{
	return (struct rf_weight){ t->halved ? p->place : p->offset, true, p->shape[0],
		                   p->ndim > 1 ? p->shape[p->ndim - 1] : 1, t->halved && p->product };
}

struct rf_weight rf_params_weight(struct rf_params *t, struct rf_initializer init, const int shape[4],
                                  const char *fmt, ...)
{
	/* clang-format off */
	struct rf_param p = { .count = 1, .decay = init.decay, .init = init.init, .scale = init.scale,
	                      .low = init.low, .high = init.high, .f32 = init.f32, .product = init.product },
	                *more;
	/* clang-format on */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p.name, sizeof p.name, fmt, ap);
	va_end(ap);
	if (t->sorted)
		return place_of(t, rf_params_find(t, p.name));
	while (p.ndim < 4 && shape[p.ndim]) {
		p.shape[p.ndim] = shape[p.ndim];
		p.count *= (size_t)shape[p.ndim++];
	}
	if (t->n == t->room) {
		if (!(more = realloc(t->p, ((size_t)t->room * 2 + 64) * sizeof *more))) {
			t->failed = true;
			return place_of(t, &p);
		}
		t->p = more;
		t->room = t->room * 2 + 64;
	}
	t->p[t->n++] = p;
	return place_of(t, &p);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rf_param *)a)->name, ((const struct rf_param *)b)->name);
}

enum rf_code rf_params_whole(struct rf_params *t, struct rf_err *e)
{
	if (t->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	/* in the order of declaration, so that products by several weights find them adjacent */
	for (int i = 0; i < t->n; i++) {
		size_t *end = t->p[i].product ? &t->halves : &t->singles;

		t->p[i].place = *end;
		*end += (t->p[i].count + ALIGN - 1) / ALIGN * ALIGN;
	}
	qsort(t->p, (size_t)t->n, sizeof *t->p, by_name);
	/* 64 bits are enough: at most 2^10 layers of some ten matrices of 2^40, and two of 2^44 */
	for (int i = 0; i < t->n; i++) {
		t->p[i].offset = t->total;
		t->total += (t->p[i].count + ALIGN - 1) / ALIGN * ALIGN;
	}
	t->sorted = true;
	return RF_OK;
}

struct rf_span rf_params_part(const struct rf_params *t, int i, int parts)
{
	const size_t tiles = (t->total + RF_DOT_TILE - 1) / RF_DOT_TILE;
	const size_t first = tiles * (size_t)i / (size_t)parts * RF_DOT_TILE,
		     end = tiles * (size_t)(i + 1) / (size_t)parts * RF_DOT_TILE;

	return (struct rf_span){ first, (end < t->total ? end : t->total) - first };
}

struct rf_span rf_span_of(const struct rf_span *part, size_t from, size_t n)
{
	const size_t end = from + n < part->first + part->n ? from + n : part->first + part->n;

	from = from > part->first ? from : part->first;
	return (struct rf_span){ from, end > from ? end - from : 0 };
}

uint64_t rf_params_bytes(const struct rf_params *t, int size)
{
	uint64_t sum = 0;

	for (int i = 0; i < t->n; i++)
		sum += t->p[i].count * (uint64_t)(t->p[i].f32 ? 4 : size);
	return sum;
}

const struct rf_param *rf_params_find(const struct rf_params *t, const char *name)
{
	int lo = 0, hi = t->n;

	while (lo < hi) {
		int mid = lo + (hi - lo) / 2, c = strcmp(name, t->p[mid].name);
		if (c == 0)
			return &t->p[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

void rf_params_free(struct rf_params *t)
{
	free(t->p);
	*t = (struct rf_params){ .p = NULL };
}
