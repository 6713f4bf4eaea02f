/* record_copy.c -- copies a record, in one walk over the table of fields. */
#include <string.h>

#include "stream/fields.h"

/* Returns a copy of n bytes that belongs to the record.  Clears *ok if memory ran out. */
static void *copy_bytes(struct rf_record *r, const void *data, size_t n, bool *ok)
{
	void *p = rf_record_alloc(r, n, 1);

	if (p && n)
		memcpy(p, data, n);
	*ok = *ok && p;
	return p;
}

/* Copies the parts that have no key of their own.  The list of parts is already a copy, but its entries still
 * point into the old record. */
static void copy_parts(struct rf_record *to, size_t count, bool *ok)
{
	for (int i = 0; i < to->reward.parts && *ok; i++) {
		struct rf_part *p = &to->reward.part[i];

		if (rf_part_has_key(p->name))
			continue;
		p->name = copy_bytes(to, p->name, strlen(p->name) + 1, ok);
		p->value = copy_bytes(to, p->value, count * sizeof *p->value, ok);
	}
}

/* Returns a copy of n texts that belongs to the record.  Clears *ok if memory ran out. */
static const char **copy_texts(struct rf_record *to, const char *const *from, size_t n, bool *ok)
{
	const char **copy = rf_record_alloc(to, n, sizeof *copy);

	for (size_t i = 0; i < n && (*ok = *ok && copy); i++)
		copy[i] = copy_bytes(to, from[i], strlen(from[i]) + 1, ok);
	*ok = *ok && copy;
	return copy;
}

/* Copies what the members of a map point to.  The members themselves are already copies. */
static void copy_fields(struct rf_record *to, const struct rf_record *from, const struct rf_field_group *g,
                        bool *ok)
{
	struct rf_unknown *unknown = rf_field_unknown(to, g);
	struct rf_value v;

	for (const struct rf_field *f = g->fields; f->key && *ok; f++) {
		if (!rf_field_value(from, f, &v))
			continue;
		switch (f->type) {
		case RF_OF_TEXT: rf_field_set(to, f, copy_bytes(to, v.p, strlen(v.p) + 1, ok)); break;
		case RF_OF_TEXTS: rf_field_set(to, f, copy_texts(to, v.p, v.count, ok)); break;
		case RF_OF_MAP: to->meta.data = copy_bytes(to, from->meta.data, from->meta.size, ok); break;
		case RF_OF_I4:
		case RF_OF_F4:
		case RF_OF_PART:
			if ((*ok = v.count != SIZE_MAX))
				rf_field_set(to, f, copy_bytes(to, v.p, 4 * v.count, ok));
			break;
		case RF_OF_GROUP: copy_fields(to, from, f->group, ok); break;
		case RF_OF_PARTS:
			if ((*ok = v.count != SIZE_MAX))
				copy_parts(to, v.count, ok);
			break;
		case RF_OF_ID:
		case RF_OF_LENGTH:
		case RF_OF_REAL: break;
		}
	}
	if (unknown->n && *ok)
		unknown->pairs.data = copy_bytes(to, unknown->pairs.data, unknown->pairs.size, ok);
}

enum rf_code rf_record_copy(struct rf_record *to, const struct rf_record *from, struct rf_err *e)
{
	struct rf_region region;
	bool ok = true;

	rf_record_clear(to);
	region = to->region;
	*to = *from;
	to->region = region;
	copy_fields(to, from, &rf_record_group, &ok);
	if (!ok) {
		rf_record_clear(to);
		return rf_fail(e, RF_ENOMEM, "out of memory (a copy of record id %llu)",
		               (unsigned long long)from->id);
	}
	return RF_OK;
}
