/* fields.h -- the keys of a record: one table for each of its maps.
 *
 * A table gives for every key its kind, its place in the struct and its dimensions; reading, checking,
 * copying and writing all follow these tables, in their order, which is that of rf-stream(5).  A dimension is
 * a letter: the first array that has it sets its size, and later arrays must agree.
 *
 * The parts of a reward are a list of names.  Three of them, those of the first version of the format, have
 * keys of their own in the reward; all others are in its map `parts`.  In memory they are all alike. */
#ifndef RF_FIELDS_H
#define RF_FIELDS_H

#include "stream/record.h"

enum rf_kind {
	RF_OF_ID,
	RF_OF_LENGTH,
	RF_OF_TEXT,
	RF_OF_TEXTS,
	RF_OF_MAP,
	RF_OF_REAL,
	RF_OF_I4,
	RF_OF_F4,
	RF_OF_GROUP,
	RF_OF_PART,
	RF_OF_PARTS,
};

struct rf_group;

struct rf_field {
	const char *key;             /* NULL: the end of the table */
	enum rf_kind kind;
	bool needed;                 /* without it the map says nothing */
	size_t at;                   /* offset in struct rf_record; a part is found by its name */
	const char *dims;            /* of texts and arrays */
	const struct rf_group *group; /* of a map */
};

/* A map of keys: the record itself, or one in it. */
struct rf_group {
	const char *name, *prefix;   /* "rollout", "rollout."; of the record "record", "" */
	const struct rf_field *fields;
	size_t there;                /* offset of the pointer that is NULL where the map is absent */
	size_t unknowns, unknown;    /* offsets of the keys that we do not know */
};

extern const struct rf_group rf_record_group;
enum { RF_FIELDS_MAX = 20 };         /* keys of a map, at most */

/* The offset of a member, by which a field is recognized. */
#define RF_AT(member) offsetof(struct rf_record, member)

/* The size that a letter stands for; NULL: of t (T - 1), which has none of its own. */
int *rf_field_size(struct rf_record *r, char letter);
int rf_field_size_now(const struct rf_record *r, char letter);
/* Numbers in an array, of a map of parts in each; false: more than fit in memory. */
bool rf_field_count(const struct rf_record *r, const struct rf_field *f, size_t *n);

bool rf_field_there(const struct rf_record *r, const struct rf_field *f);
/* The pointer of an array, of texts or of a text. */
void *rf_field_get(const struct rf_record *r, const struct rf_field *f);
void rf_field_set(struct rf_record *r, const struct rf_field *f, void *p);
double *rf_field_real(const struct rf_record *r, const struct rf_field *f);
/* The keys of the map that we do not know, and how many they are. */
struct rf_raw *rf_group_unknown(const struct rf_record *r, const struct rf_group *g, int **count);

/* The place of the part with this name in w->part[]; w->parts if there is none. */
int rf_part_find(const struct rf_reward *w, const char *name);
/* Whether the part has a key of its own in the reward. */
bool rf_part_has_key(const char *name);
/* How many have none. */
int rf_parts_in_map(const struct rf_reward *w);
/* RF_EDATA, with the sentence. */
enum rf_code rf_part_bad_name(const char *name, size_t n, struct rf_err *e);
enum rf_code rf_part_too_many(struct rf_err *e);

#endif
