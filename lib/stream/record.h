/* record.h -- one sequence record, typed and validated: what travels through the pipe (rf-stream(5)).
 *
 * T tokens, c positions, n rollouts per position, k tokens per rollout, d hidden width, N vocabulary.  Arrays
 * are C order, owned by the record and aligned for their type; a NULL pointer says that the key is absent.
 * Whatever is pointed to lives until rf_record_clear() or the next record is read into it. */
#ifndef RF_RECORD_H
#define RF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_arena_block;

struct rf_raw { const void *data; size_t size; }; /* msgpack bytes as read; data NULL: absent */

struct rf_rollout {
	double temperature;
	int n, k, d;            /* d 0: neither h_pred nor h_gt */
	int32_t *tokens;        /* (c, n, k); NULL: the record has no rollout */
	/* (c, n, k), nats, at the temperature; NULL in rollouts that were made elsewhere */
	float *logp;
	float *h_pred;          /* (c, n, k, d) */
	float *h_gt;            /* (c, k, d) */
	int unknowns;           /* keys of the map that we do not know, as read */
	struct rf_raw unknown;
};

enum { RF_PARTS = 32, RF_PART_NAME = 32 }; /* parts of a reward, bytes of a part's name: at most */

struct rf_part { const char *name; float *value; }; /* (c, n) */

struct rf_reward {
	const char *kind;       /* NULL: the record has no reward */
	int n;                  /* rollouts per position */
	float *total;           /* (c, n), what is trained on */
	int parts;
	struct rf_part part[RF_PARTS]; /* no name twice */
	int unknowns;           /* keys of the map that we do not know, as read */
	struct rf_raw unknown;
};

struct rf_record {
	uint64_t id;
	int T;
	int32_t *tokens;        /* (T) */
	int prompt_len;         /* -1: absent */
	int answers;            /* how many; -1: absent */
	const char **answer;    /* (answers) */
	const char *source;
	struct rf_raw meta;     /* a map */
	float *entropy;         /* (T), nats */
	float *nll, *correct;   /* (T-1) each */
	int d;                  /* width of hidden; 0: absent */
	float *hidden;          /* (T, d) */
	int N;                  /* width of logits; 0: absent */
	float *logits;          /* (T, N) */
	int c;                  /* positions; 0 where positions is NULL */
	int32_t *positions;     /* (c): the first rollout index s of each */
	struct rf_rollout rollout;
	struct rf_reward reward;
	float *advantage;       /* (c, n), n = rollout.n */
	int unknowns;           /* keys we do not know: they pass through unchanged */
	struct rf_raw unknown;  /* their keys and values, one after the other, as read */
	struct rf_arena_block *arena;
};

/* A record with nothing in it; rf_record_free() gives its memory back. */
void rf_record_init(struct rf_record *r);
void rf_record_clear(struct rf_record *r);
void rf_record_free(struct rf_record *r);

/* Memory of the record's own, uninitialised, 64-byte aligned, gone with it.  NULL: out of memory. */
void *rf_record_alloc(struct rf_record *r, size_t count, size_t size);

/* Whether a part may be called so: 1 to RF_PART_NAME letters, digits and '_', a letter first. */
bool rf_part_named(const char *name, size_t n);
/* The i-th of the parts whose names the format knows, in its order; NULL: there are no more. */
const char *rf_part_known(int i);
/* The values of the part of this name; NULL: there is none. */
float *rf_part(const struct rf_reward *w, const char *name);
/* Room for the (c, n) values of a new part, uninitialised.  NULL: RF_EDATA where the name is none or is
 * taken, or there are RF_PARTS already; RF_ENOMEM. */
float *rf_part_add(struct rf_record *r, const char *name, struct rf_err *e);

/* Takes out what is large and seldom looked at: hidden states and logits, also the rollouts'.  Only the
 * pointers go. */
void rf_record_hide(struct rf_record *r);
/* Removes what was computed from something that a stage is about to write anew. */
void rf_record_drop_rollout(struct rf_record *r);   /* and reward, advantage */
void rf_record_drop_reward(struct rf_record *r);    /* and advantage */
void rf_record_drop_advantage(struct rf_record *r);

/* Makes *to a copy of *from that owns its memory (a trainer keeps a whole mini-batch). */
enum rf_code rf_record_copy(struct rf_record *to, const struct rf_record *from, struct rf_err *e);

/* Every rule of rf-stream(5) that does not need another record: sizes that agree, ids in [0, vocab) (vocab 0:
 * not known, only >= 0), 1 <= s and s < T for positions (whether k fits is rf-rollout's to say), finite
 * floats, T >= 1.  RF_EDATA names the key. */
enum rf_code rf_record_check(const struct rf_record *r, int vocab, struct rf_err *e);

/* Reads the body of a "seq" message (msgpack, already through rf_msg_check) into r, and checks it. */
enum rf_code rf_record_decode(struct rf_record *r, const void *msg, size_t n, int vocab, struct rf_err *e);

#endif
