/* ckpt_internal.h -- the inner interface of lib/ckpt: state.json, the file of moments, replaced
 * directories. */
#ifndef RF_CKPT_INTERNAL_H
#define RF_CKPT_INTERNAL_H

#include <jansson.h>

#include "ckpt/ckpt.h"

struct rf_ckpt_writer;

/* The contents of state.json, except for its list of files.  A directory with this file is a step of a run.
 * writer.c writes the file and ckpt_read.c reads it.  A change of the keys needs a new format number, unless
 * other versions may ignore the key.  A version that reads a new number also reads the old ones, from 2 on:
 * rf-train(7), FORMATS. */
enum { RF_STATE_FORMAT = 2 };
struct rf_state {
	int64_t step, parent, commits, updates;
	char past[RF_HASH_HISTORY][17]; /* hashes of the weights of earlier commits, newest first */
	int past_count;
	char data_hash[17]; /* "": unknown */
	int64_t data_next;
	bool has_reward_mean;
	double reward_mean;
};

/* The file of a directory that may be replaced: a line of text, then the names of its other files
 * (replace.c). */
#define RF_CKPT_LIST ".weights-out"

/* Returns the bytes that the writer's checkpoint will take on the disk; headers and metadata are estimated
 * upwards. */
uint64_t rf_ckpt_bytes(const struct rf_ckpt_writer *w);
/* Lists the tensors of model.safetensors, in order of name.  The model's tensors come from `weights`, or from
 * `half` if their type has two bytes; a tied model's lm_head.weight, if the checkpoint has one, comes from
 * the embedding; all other tensors come from the checkpoint's files. */
enum rf_code rf_ckpt_list_weights(const struct rf_ckpt_writer *w, const float *weights, const uint16_t *half,
                                  struct rf_tensor **out, int *n, struct rf_err *e);
/* Converts the weights to bf16 or f16. */
enum rf_code rf_ckpt_to_half(const struct rf_ckpt_writer *w, const float *weights, uint16_t **out,
                             struct rf_err *e);
/* Computes the hash of these weights as rf_ckpt_put_weights() would write them; w->dtype must be F32. */
enum rf_code rf_ckpt_hash_weights(const struct rf_ckpt_writer *w, const float *weights, char hex[17],
                                  struct rf_err *e);

/* For a writer with `replace` (replace.c).  rf_ckpt_replaceable(): does rf_ckpt_can_replace() for a
 * checkpoint of `want` bytes.  rf_ckpt_replaced_path(): checks that `path` is free, or has a directory that
 * may be replaced; stores the path without the slashes at its end.  rf_ckpt_replace(): renames the finished
 * directory `temp` to `to`, and removes the old directory. */
enum rf_code rf_ckpt_replaceable(const struct rf_ckpt *from, const char *dir, uint64_t want,
                                 struct rf_err *e);
enum rf_code rf_ckpt_replaced_path(char to[4096], const char *path, struct rf_err *e);
enum rf_code rf_ckpt_replace(const char *temp, const char *to, const volatile sig_atomic_t *stop,
                             struct rf_err *e);

/* Lists the tensors of the file of moments.  m, v: flat buffers; NULL if only the header is needed. */
struct rf_moments {
	struct rf_tensor *t;
	char (*names)[RF_MAX_NAME + 16];
	int n;
};
enum rf_code rf_moments_table(struct rf_moments *o, const struct rf_params *params, const float *m,
                              const float *v, const struct rf_transfer *transfer, struct rf_err *e);
void rf_moments_free(struct rf_moments *o);

/* Computes the hash of state.json's object without the key `xxh64`, as compact JSON with sorted keys.
 * Returns false if memory ran out. */
bool rf_state_hash(const json_t *root, char hex[17]);

bool rf_same_shape(const struct rf_tensor *t, const struct rf_param *p);

/* Stores the sentence that rf_step_latest() wrote to `lost`, and adds it to the warning. */
void rf_ckpt_lost(struct rf_ckpt *c, const char *lost);

#endif
