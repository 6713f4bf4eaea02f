/* fields.h -- the keys of a record as one table: for each key its type, its member of struct rf_record, its
 * shape and the rule that its value must keep.
 *
 * Checking, reading, writing and copying a record are one walk over this table each (record_check.c,
 * record_wire.c, record_copy.c), in the order of the table, which is the order of rf-stream(5).  A walk looks
 * up a field's value with rf_field_value().
 *
 * A shape is a string of letters, one for each dimension; rf_field_size() has the member that each stands
 * for.  The first array that is read sets the size of a letter, and later arrays must agree.
 *
 * In memory the parts of a reward are one list of names.  In a stream cosine, binary and edit are keys of
 * the reward, and all other parts are keys of its map `parts`. */
#ifndef RF_FIELDS_H
#define RF_FIELDS_H

#include "stream/record.h"

enum rf_field_type {
	RF_OF_ID,     /* uint64_t */
	RF_OF_LENGTH, /* int; -1: absent */
	RF_OF_REAL,   /* double */
	RF_OF_TEXT,   /* const char *; NULL: absent */
	RF_OF_TEXTS,  /* const char **, as many as the shape says */
	RF_OF_MAP,    /* struct rf_raw */
	RF_OF_I4,     /* int32_t * */
	RF_OF_F4,     /* float * */
	RF_OF_GROUP,  /* a map with a table of its own */
	RF_OF_PART,   /* float *, the part of the reward that has the key's name */
	RF_OF_PARTS,  /* all other parts of the reward */
};

enum rf_field_rule {
	RF_RULE_NONE,
	RF_RULE_FINITE,  /* each number is finite */
	RF_RULE_SHARE,   /* each number is from 0 to 1 */
	RF_RULE_ABOVE_0, /* finite and above 0 */
	RF_RULE_FROM_0,  /* finite, 0 or more */
	RF_RULE_TOKENS,  /* token ids: 0 or more, below the vocabulary */
	RF_RULE_UP_TO,   /* 1 to the size that `limit` stands for */
	RF_RULE_BITS,    /* 0 or 1 */
	RF_RULE_CONTEXT, /* of a choice: 0 or more, below its length */
	RF_RULE_PROMPT,  /* no more than there are tokens */
	RF_RULE_UTF8,
	RF_RULE_STOP,  /* UTF-8, and one of RF_STOP_WORDS */
	RF_RULE_MAP,   /* a valid map of msgpack */
	RF_RULE_PARTS, /* valid names that are distinct, finite numbers */
};

struct rf_field_group;

struct rf_field {
	const char *key; /* NULL: the end of the table */
	enum rf_field_type type;
	bool needed;       /* whether a map without the key is refused */
	size_t at;         /* offset of the member in struct rf_record; unused for groups, parts */
	const char *shape; /* NULL: neither an array nor a list */
	enum rf_field_rule rule;
	char limit;                         /* for RF_RULE_UP_TO */
	const struct rf_field_group *group; /* for RF_OF_GROUP */
};

/* A map of keys: the record itself, or a map inside it. */
struct rf_field_group {
	const char *name, *prefix; /* "rollout", "rollout."; for the record "record", "" */
	const struct rf_field *fields;
	size_t there;   /* offset of the pointer that is NULL where the map is absent */
	size_t unknown; /* offset of the struct rf_unknown */
};

extern const struct rf_field_group rf_record_group;
enum { RF_FIELDS_MAX = 20 }; /* keys of a map, at most */

/* The value that a record has for a field. */
struct rf_value {
	void *p;            /* the array, list, text or member; not used for groups and parts */
	int ndim, shape[4]; /* of an array or a list */
	size_t count;       /* numbers or texts; SIZE_MAX: more than memory can hold */
};

/* Finds the value of a field in a record.  Returns false if the value is absent; its shape is set all the
 * same.  The caller may write through v->p only if it may change the record. */
bool rf_field_value(const struct rf_record *r, const struct rf_field *f, struct rf_value *v);
/* Makes p the record's array, list or text for a field. */
void rf_field_set(struct rf_record *r, const struct rf_field *f, void *p);
/* Returns the member that a letter of a shape stands for; NULL for t, which is T - 1. */
int *rf_field_size(struct rf_record *r, char letter);
/* Returns the size that a letter of a shape stands for. */
int rf_field_size_now(const struct rf_record *r, char letter);
/* Returns the unknown keys of a map of the record. */
struct rf_unknown *rf_field_unknown(const struct rf_record *r, const struct rf_field_group *g);

/* Returns the index of the part with this name in w->part[]; w->parts if there is none. */
int rf_part_find(const struct rf_reward *w, const char *name);
/* Returns whether the part has a key of its own in the reward. */
bool rf_part_has_key(const char *name);
/* Returns how many parts of the reward have no key of their own. */
int rf_parts_in_map(const struct rf_reward *w);
/* Return RF_EDATA, with a sentence in e. */
enum rf_code rf_part_bad_name(const char *name, size_t n, struct rf_err *e);
enum rf_code rf_part_too_many(struct rf_err *e);

#endif
