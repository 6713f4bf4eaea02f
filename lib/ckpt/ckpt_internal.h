/* ckpt_internal.h -- what reading, writing and runs share: the contents of a checkpoint directory. */
#ifndef RF_CKPT_INTERNAL_H
#define RF_CKPT_INTERNAL_H

#include <jansson.h>

#include "ckpt/ckpt.h"

/* The contents of state.json, which makes a directory a step of a run, apart from its list of files.
 * writer.c writes them and ckpt_read.c reads them.  A change of the keys needs a new format number. */
enum { RF_STATE_FORMAT = 2 };
struct rf_state {
	int64_t step, parent, commits, updates;
	char past[RF_HASH_HISTORY][17];  /* hashes of the weights of the commits before, newest first */
	int past_count;
	char data_hash[17];              /* "": none */
	int64_t data_next;
};

/* A line of text, and then one for each other file of the directory (replace.c). */
#define RF_CKPT_LIST ".weights-out"

/* What goes into a checkpoint directory. */
struct rf_ckpt_contents {
	/* the checkpoint whose other tensors and files are carried along; NULL: the weights are fresh */
	const struct rf_ckpt *from;
	const struct rf_config *cfg;
	const struct rf_params *params;
	const float *weights;            /* flat */
	enum rf_dtype dtype;             /* in the file: F32, BF16, F16 */
	const float *m, *v;              /* NULL: no moments */
	/* as in struct rf_commit */
	const struct rf_span *own;
	enum rf_code (*rest)(void *arg, const char *path, struct rf_err *e);
	void *rest_arg;
	/* how to read weights, m and v if they are a device's memory, and then dtype must be F32; NULL: they
	   are the host's */
	const struct rf_transfer *transfer;
	const char *tokenizer;           /* for fresh weights, as in rf_ckpt_create() */
	const struct rf_state *state;    /* NULL: a bare checkpoint */
	bool list;                       /* with the file RF_CKPT_LIST */
	const char *card;                /* README.md, which displaces the one of `from`; NULL: none */
	const volatile sig_atomic_t *stop;
};

/* Makes dir and fills it; every file and dir itself are synced.  weights and moments (may be NULL) get the
 * hashes of what was written.  After a failure dir is gone. */
enum rf_code rf_ckpt_contents_write(const struct rf_ckpt_contents *p, const char *dir, char weights[17],
                                    char moments[17], struct rf_err *e);
/* The bytes that these contents need on the disk; headers and metadata are estimated upwards. */
uint64_t rf_ckpt_contents_bytes(const struct rf_ckpt_contents *p);
/* The hash of the weights that rf_ckpt_contents_write() would write; dtype must be F32. */
enum rf_code rf_ckpt_contents_hash(const struct rf_ckpt_contents *p, char weights[17], struct rf_err *e);

/* What the file of moments has, from flat buffers m and v, which may be NULL for its header alone. */
struct rf_moments { struct rf_tensor *t; char (*names)[RF_MAX_NAME + 16]; int n; };
enum rf_code rf_moments_table(struct rf_moments *o, const struct rf_params *params, const float *m,
                              const float *v, const struct rf_transfer *transfer, struct rf_err *e);
void rf_moments_free(struct rf_moments *o);

/* state.json's hash of itself: of the object without `xxh64`, compact, with sorted keys.  Returns false if
 * out of memory. */
bool rf_state_hash(const json_t *root, char hex[17]);

bool rf_same_shape(const struct rf_tensor *t, const struct rf_param *p);

/* Keeps the sentence that rf_step_latest() wrote to `lost`, and adds it to the warning. */
void rf_ckpt_lost(struct rf_ckpt *c, const char *lost);

#endif
