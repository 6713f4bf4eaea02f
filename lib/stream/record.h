/* record.h -- one sequence record, typed and validated: the unit that a stream carries (rf-stream(5)).
 *
 * Sizes: T tokens, c positions, n rollouts per position, k tokens per rollout, d hidden width, N width of the
 * logits; of a generation n samples of at most m tokens, and so of choices.  Arrays are in C order, owned by
 * the record and aligned for their type; a NULL pointer means that the key is absent.  Everything that a
 * record points to is valid until rf_record_clear(), or until the next record is read into the same
 * struct. */
#ifndef RF_RECORD_H
#define RF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/region.h"

struct rf_raw { const void *data; size_t size; }; /* msgpack bytes exactly as read; data NULL: absent */

/* The keys of a map that this version does not know.  They pass through unchanged. */
struct rf_unknown {
	int n;                  /* number of keys */
	struct rf_raw pairs;    /* the keys and their values, one after the other */
};

struct rf_rollout {
	double temperature;
	int n, k, d;            /* d 0: there is neither h_pred nor h_gt */
	int32_t *tokens;        /* (c, n, k); NULL: the record has no rollout */
	/* (c, n), 1 to k: the rollout's own tokens, after which its rows of all arrays mean nothing;
	   NULL: all are k */
	int32_t *length;
	/* (c, n, k), log-probability of each token at the temperature, nats; NULL: not known, as in rollouts
	   made with other programs */
	float *logp;
	float *h_pred;          /* (c, n, k, d), hidden states along the rollouts */
	float *h_gt;            /* (c, k, d), hidden states along the text itself */
	struct rf_unknown unknown;
};

enum { RF_PARTS = 32, RF_PART_NAME = 32 }; /* at most: parts of a reward, bytes of a part's name */

struct rf_part { const char *name; float *value; }; /* (c, n) */

struct rf_reward {
	const char *kind;       /* NULL: the record has no reward */
	int n;                  /* rollouts per position */
	float *total;           /* (c, n), the reward that is trained on */
	int parts;              /* how many of part[] are used */
	struct rf_part part[RF_PARTS]; /* their names are distinct */
	float *per_token;       /* (c, n, k), the reward of each token; NULL: not known */
	struct rf_unknown unknown;
};

/* What a model wrote behind the prompt. */
struct rf_generation {
	double temperature;     /* 0: greedy */
	int n, m;               /* samples, tokens of the longest */
	int32_t *tokens;        /* (n, m); NULL: the record has no generation */
	int32_t *length;        /* (n), 1 to m: what is behind it in tokens fills the row */
	const char **stop;      /* (n): why it ended, a word of RF_STOP_WORDS */
	const char **text;      /* (n), without special tokens; NULL: there was no tokenizer */
	float *score;           /* (n), 0 to 1, how well it answers; NULL: not known */
	const char *metric;     /* of the scores, with its rules: "official f1"; NULL: there are none */
	struct rf_unknown unknown;
};

/* Continuations of the tokens whose probabilities are compared.  A choice may begin with tokens that are
 * context: what the contexts of the choices do not have in common. */
struct rf_choice {
	int n, m;               /* choices, tokens of the longest */
	int32_t *tokens;        /* (n, m); NULL: the record has no choices */
	int32_t *length;        /* (n), 1 to m: what is behind it in tokens fills the row */
	int32_t *from;          /* (n), below length: so many are context; NULL: none of any */
	float *logp;            /* (n), sum of the log-probabilities from there on, nats; NULL: not known */
	int32_t *greedy;        /* (n), 1: each of these tokens is the most likely one, else 0 */
	struct rf_unknown unknown;
};

/* Why a generation ended: with an end token, because it had as many tokens as it may, with a stop string. */
enum rf_stop { RF_STOP_EOS, RF_STOP_LENGTH, RF_STOP_STRING };
#define RF_STOP_WORDS "eos|length|stop"

struct rf_record {
	uint64_t id;
	int T;
	int32_t *tokens;        /* (T) */
	int response_len;       /* 0 if response is NULL */
	/* (response_len), what follows the tokens and only the outer step reads; a record that has it has no
	   prompt_len */
	int32_t *response;
	int prompt_len;         /* -1: absent */
	int answers;            /* how many; -1: absent */
	const char **answer;    /* (answers) */
	const char *source;
	struct rf_raw meta;     /* a map */
	float *entropy;         /* (T), nats */
	float *nll, *correct;   /* (T-1) each; nll in nats */
	int d;                  /* width of hidden; 0: absent */
	float *hidden;          /* (T, d) */
	int N;                  /* width of logits; 0: absent */
	float *logits;          /* (T, N) */
	int c;                  /* number of positions; 0 if positions is NULL */
	int32_t *positions;     /* (c): for each, the index s of the token at which its rollouts begin */
	struct rf_rollout rollout;
	struct rf_reward reward;
	float *advantage;       /* (c, n), n = rollout.n */
	float *advantage_per_token; /* (c, n, k), instead of advantage */
	struct rf_generation generation;
	struct rf_choice choice;
	struct rf_unknown unknown;
	struct rf_region region;    /* what all of these point into */
};

/* rf_record_init() makes an empty record; rf_record_clear() empties one but keeps some memory for the next;
 * rf_record_free() releases all of it. */
void rf_record_init(struct rf_record *r);
void rf_record_clear(struct rf_record *r);
void rf_record_free(struct rf_record *r);

/* Allocates uninitialised memory that belongs to the record, 64-byte aligned, and is released with it.
 * Returns NULL if memory ran out. */
void *rf_record_alloc(struct rf_record *r, size_t count, size_t size);

/* A hash of what training reads of it: id, tokens, prompt_len, response, positions, rollouts with their
 * lengths and log-probabilities, advantages. */
uint64_t rf_record_hash(const struct rf_record *r);

/* Returns how many tokens rollout b has; b = position n + rollout. */
int rf_rollout_length(const struct rf_rollout *o, size_t b);
/* Returns how many tokens all rollouts of the record have; 0: it has none. */
uint64_t rf_rollout_tokens(const struct rf_record *r);

/* Bytes of all that it points to. */
size_t rf_record_bytes(const struct rf_record *r);

/* Whether n bytes are a valid name of a part: 1 to RF_PART_NAME letters, digits and '_', the first a
 * letter. */
bool rf_part_named(const char *name, size_t n);
/* The name of the i-th part that has a key of its own in the reward, in the order of rf-stream(5); NULL:
 * there are no more. */
const char *rf_part_known(int i);
/* The values of the part with this name; NULL: there is none. */
float *rf_part(const struct rf_reward *w, const char *name);
/* Adds a part and returns its (c, n) values, uninitialised; NULL on failure.  Errors (in e): RF_EDATA: the
 * name is invalid or taken, or there are RF_PARTS parts already; RF_ENOMEM. */
float *rf_part_add(struct rf_record *r, const char *name, struct rf_err *e);

/* Appends the response to the tokens; prompt_len is then where it begins.  A record without a response is all
 * prompt.  What was computed from the tokens is as it was.  Errors: RF_ENOMEM; RF_EDATA: too long. */
enum rf_code rf_record_join(struct rf_record *r, struct rf_err *e);

/* Removes the largest and seldom used arrays: hidden states and logits, and the hidden states of the
 * rollouts.  Only the pointers are cleared; the memory stays the record's. */
void rf_record_hide(struct rf_record *r);
/* Remove a value that a stage is about to write anew, and the values that were computed from it. */
void rf_record_drop_rollout(struct rf_record *r);   /* and reward, advantage */
void rf_record_drop_reward(struct rf_record *r);    /* and advantage */
void rf_record_drop_advantage(struct rf_record *r);
void rf_record_drop_generation(struct rf_record *r);
/* Removes all that a model computed: what was read from a text stays. */
void rf_record_drop_computed(struct rf_record *r);

/* Makes *to a copy of *from with memory of its own (a trainer keeps a whole mini-batch).  *to must be
 * initialised.  Errors: RF_ENOMEM. */
enum rf_code rf_record_copy(struct rf_record *to, const struct rf_record *from, struct rf_err *e);

/* Checks every rule of rf-stream(5) that needs no other record: sizes agree, T >= 1, floats are finite, token
 * ids are in [0, vocab) (vocab 0: not known, so only >= 0), and 1 <= s < T for every position s.  It does not
 * check that k tokens fit behind s; rf-rollout does.  Errors: RF_EDATA; the sentence names the key.  RF_EIO:
 * an array has 4 GiB or more. */
enum rf_code rf_record_check(const struct rf_record *r, int vocab, struct rf_err *e);

/* Reads the body of a "seq" message, msgpack that has passed rf_msg_check(), into r and checks it with
 * rf_record_check().  Errors: RF_EDATA, RF_ENOMEM, RF_EIO. */
enum rf_code rf_record_decode(struct rf_record *r, const void *msg, size_t n, int vocab, struct rf_err *e);

#endif
