/* record.h -- one sequence record, typed and validated: the unit that a stream carries (rf-stream(5)).
 *
 * Sizes: T tokens, c positions, n rollouts per position, k tokens per rollout, d hidden width, N width of the
 * logits.  A generation has n samples of at most m tokens, and a choice record has n choices of at most m
 * tokens.  Arrays are in C order, owned by the record and aligned for their type.  A NULL pointer means that
 * the key is absent.  Everything that a record points to is valid until rf_record_clear(), or until the next
 * record is read into the same struct. */
#ifndef RF_RECORD_H
#define RF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/region.h"

struct rf_raw {
	const void *data;
	size_t size;
}; /* msgpack bytes exactly as read; data NULL: absent */

/* The keys of a map that this version does not know.  They pass through unchanged. */
struct rf_unknown {
	int n;               /* number of keys */
	struct rf_raw pairs; /* the keys and their values, one after the other */
};

struct rf_rollout {
	double temperature;
	int n, k, d;     /* d 0: h_pred and h_gt are absent */
	int32_t *tokens; /* (c, n, k); NULL: the record has no rollout */
	/* (c, n), 1 to k, number of tokens that each rollout has; the rest of its row has no meaning in any
	   array; NULL: all rollouts have k tokens */
	int32_t *length;
	/* (c, n, k), log-probability of each token at the temperature, nats; NULL: not known, as in rollouts
	   that another program made */
	float *logp;
	/* (c, n, k), log-probability of each token at the temperature by a reference model, nats; NULL: not
	   known */
	float *logp_ref;
	/* (c, n, k), 0 to 1, probability at the temperature that all tokens which could be drawn had
	   together; NULL: tokens were drawn without top_p and top_k, or it is not known */
	float *kept;
	float *h_pred; /* (c, n, k, d), hidden states along the rollouts */
	float *h_gt;   /* (c, k, d), hidden states along the text that the record has */
	struct rf_unknown unknown;
};

enum { RF_PARTS = 32, RF_PART_NAME = 32 }; /* largest number of parts, and of bytes in a part's name */

struct rf_part {
	const char *name;
	float *value;
}; /* (c, n) */

struct rf_reward {
	const char *kind;              /* NULL: the record has no reward */
	int n;                         /* rollouts per position */
	float *total;                  /* (c, n), the reward that training uses */
	int parts;                     /* number of entries of part[] in use */
	struct rf_part part[RF_PARTS]; /* parts, with distinct names */
	float *per_token;              /* (c, n, k), the reward of each token; NULL: not known */
	struct rf_unknown unknown;
};

/* Samples that a model wrote after the prompt. */
struct rf_generation {
	double temperature; /* 0: greedy */
	int n, m;           /* number of samples, tokens of the longest sample */
	int32_t *tokens;    /* (n, m); NULL: the record has no generation */
	int32_t *length;    /* (n), 1 to m, tokens of each sample; later tokens only fill the row */
	const char **stop;  /* (n), why each sample ended: a word of RF_STOP_WORDS */
	const char **text;  /* (n), text without special tokens; NULL: the generator had no tokenizer */
	float *score;       /* (n), 0 to 1, quality of each answer; NULL: not known */
	const char *metric; /* metric of the scores, with its rules: "official f1"; NULL: no scores */
	struct rf_unknown unknown;
};

/* Continuations of the record's tokens, whose probabilities are compared.  A choice may begin with context:
 * the part of its prompt that is not common to all choices. */
struct rf_choice {
	int n, m;        /* number of choices, tokens of the longest choice */
	int32_t *tokens; /* (n, m); NULL: the record has no choices */
	int32_t *length; /* (n), 1 to m, tokens of each choice; later tokens only fill the row */
	int32_t *from;   /* (n), number of context tokens, below length; NULL: no choice has context */
	float *logp;     /* (n), sum of log-probabilities after the context, nats; NULL: not known */
	int32_t *greedy; /* (n), 1 if each token after the context is the most likely one, else 0 */
	struct rf_unknown unknown;
};

/* Why a sample ended: with an end token, at the largest allowed length, with a stop string. */
enum rf_stop { RF_STOP_EOS, RF_STOP_LENGTH, RF_STOP_STRING };
#define RF_STOP_WORDS "eos|length|stop"

struct rf_record {
	uint64_t id;
	int T;
	int32_t *tokens;  /* (T) */
	int response_len; /* 0 if response is NULL */
	/* (response_len), tokens that follow the record's tokens and that only the outer step reads; a record
	   with a response has no prompt_len */
	int32_t *response;
	int prompt_len;      /* -1: absent */
	int answers;         /* number of answers; -1: absent */
	const char **answer; /* (answers) */
	const char *source;
	struct rf_raw meta;   /* a map */
	float *entropy;       /* (T), nats */
	float *nll, *correct; /* (T-1) each; nll in nats */
	int d;                /* width of hidden; 0: absent */
	float *hidden;        /* (T, d) */
	int N;                /* width of logits; 0: absent */
	float *logits;        /* (T, N) */
	int c;                /* number of positions; 0 if positions is NULL */
	int32_t *positions;   /* (c), index s of the token at which the rollouts of a position begin */
	struct rf_rollout rollout;
	struct rf_reward reward;
	float *advantage;           /* (c, n), n = rollout.n */
	float *advantage_per_token; /* (c, n, k); a record has this or advantage, not both */
	struct rf_generation generation;
	struct rf_choice choice;
	struct rf_unknown unknown;
	struct rf_region region; /* memory that all pointers above point into */
};

/* rf_record_init() makes an empty record.  rf_record_clear() empties a record but keeps some memory for the
 * next one.  rf_record_free() empties a record and releases all its memory. */
void rf_record_init(struct rf_record *r);
void rf_record_clear(struct rf_record *r);
void rf_record_free(struct rf_record *r);

/* Allocates uninitialised memory, aligned to 64 bytes, that belongs to the record and is released with it.
 * Returns NULL if memory ran out. */
void *rf_record_alloc(struct rf_record *r, size_t count, size_t size);

/* Returns a hash of the values that training reads: id, tokens, prompt_len, response, positions, rollouts
 * with their lengths and log-probabilities, also those of a reference model, and advantages. */
uint64_t rf_record_hash(const struct rf_record *r);

/* Returns how many tokens rollout b has, where b = position * n + rollout. */
int rf_rollout_length(const struct rf_rollout *o, size_t b);
/* Returns how many tokens all rollouts of the record have together; 0 without rollouts. */
uint64_t rf_rollout_tokens(const struct rf_record *r);

/* Returns the bytes of memory that the record's values take. */
size_t rf_record_bytes(const struct rf_record *r);

/* Returns whether n bytes are a valid name of a part: 1 to RF_PART_NAME letters, digits and '_', the first a
 * letter. */
bool rf_part_named(const char *name, size_t n);
/* Returns the name of the i-th part that has a key of its own in the reward, in the order of rf-stream(5);
 * NULL after the last one. */
const char *rf_part_known(int i);
/* Returns the values of the part with this name; NULL if the reward has no such part. */
float *rf_part(const struct rf_reward *w, const char *name);
/* Adds a part and returns its (c, n) values, uninitialised; NULL on failure.  Errors (in e): RF_EDATA: the
 * name is invalid or taken, or the reward already has RF_PARTS parts; RF_ENOMEM. */
float *rf_part_add(struct rf_record *r, const char *name, struct rf_err *e);

/* Appends the response to the tokens and sets prompt_len to where the response begins.  A record without a
 * response is all prompt.  Values that were computed from the tokens stay as they were.  Errors: RF_ENOMEM;
 * RF_EDATA: the sequence would be too long. */
enum rf_code rf_record_join(struct rf_record *r, struct rf_err *e);

/* Removes the largest, rarely used arrays: hidden states, logits, and the hidden states of the rollouts.
 * Only the pointers are cleared; the record keeps the memory. */
void rf_record_hide(struct rf_record *r);
/* Remove a value that a stage is about to write again, and the values that were computed from it. */
void rf_record_drop_rollout(struct rf_record *r); /* and reward, advantage */
void rf_record_drop_reward(struct rf_record *r);  /* and advantage */
void rf_record_drop_advantage(struct rf_record *r);
void rf_record_drop_generation(struct rf_record *r);
/* Removes every value that a model computed.  Values that were read from a text stay. */
void rf_record_drop_computed(struct rf_record *r);

/* Makes *to a copy of *from with its own memory (a trainer keeps a whole mini-batch).  *to must be
 * initialised.  Errors: RF_ENOMEM. */
enum rf_code rf_record_copy(struct rf_record *to, const struct rf_record *from, struct rf_err *e);

/* Checks every rule of rf-stream(5) that needs no other record: sizes agree, T >= 1, floats are finite,
 * token ids are in [0, vocab) (vocab 0: not known, so only >= 0), and 1 <= s < T for every position s.  Does
 * not check that k tokens fit after s; rf-rollout does.  Errors: RF_EDATA; the sentence names the key.
 * RF_EIO: an array has 4 GiB or more. */
enum rf_code rf_record_check(const struct rf_record *r, int vocab, struct rf_err *e);

/* Reads the body of a "seq" message, msgpack that has passed rf_msg_check(), into r and checks it with
 * rf_record_check().  Errors: RF_EDATA, RF_ENOMEM, RF_EIO. */
enum rf_code rf_record_decode(struct rf_record *r, const void *msg, size_t n, int vocab, struct rf_err *e);

#endif
