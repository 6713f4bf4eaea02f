/* ckpt_internal.h -- what reading, writing and runs share: the parts of a checkpoint directory. */
#ifndef RF_CKPT_INTERNAL_H
#define RF_CKPT_INTERNAL_H

#include <jansson.h>

#include "ckpt/ckpt.h"

/* What makes a directory a step of a run: the contents of state.json but for the files, written in
 * ckpt_write.c and read in ckpt_read.c.  A change of its keys is a new format; 1, which had no hash of
 * itself, is still read. */
enum { RF_STATE_FORMAT = 2, RF_MOST_STATE = 1 << 20 }; /* RF_MOST_STATE: bytes */
struct rf_state {
	int64_t step, parent, commits, updates;
	char past[RF_HASH_HISTORY][17];  /* the weights of the commits before, newest first */
	int past_count;
	char data_hash[17];              /* "" for none */
	int64_t data_next;
};

/* What goes into a checkpoint directory. */
struct rf_ckpt_contents {
	/* whose other tensors and files are carried along; NULL: fresh weights */
	const struct rf_ckpt *from;
	const struct rf_config *cfg;
	const struct rf_params *params;
	const float *weights;            /* flat */
	enum rf_dtype dtype;             /* of the file: F32, BF16, F16 */
	const float *m, *v;              /* NULL: no moments */
	/* of weights, m and v where they are a device's; dtype is F32 then */
	const struct rf_transfer *reach;
	const char *tokenizer;           /* for fresh weights, as rf_ckpt_create() says */
	const struct rf_state *state;    /* NULL: a bare checkpoint */
	const volatile sig_atomic_t *stop;
};

/* Makes dir and fills it; every file and dir itself are synced.  weights and moments (may be NULL) get the
 * hashes of what was written.  On failure dir is gone. */
enum rf_code rf_ckpt_contents_write(const struct rf_ckpt_contents *p, const char *dir, char weights[17],
                            char moments[17], struct rf_err *e);
/* The bytes that it needs on the disk, headers and metadata rounded up. */
uint64_t rf_ckpt_contents_bytes(const struct rf_ckpt_contents *p);
/* The hash of the weights that rf_ckpt_contents_write() would write, of parts whose dtype is F32. */
enum rf_code rf_ckpt_contents_hash(const struct rf_ckpt_contents *p, char weights[17], struct rf_err *e);

/* state.json's hash of itself: of the object without `xxh64`, compact, with sorted keys.  False:
 * out of memory. */
bool rf_state_hash(const json_t *root, char hex[17]);

bool rf_same_shape(const struct rf_tensor *t, const struct rf_param *p);

/* Keeps what rf_step_latest() said, and warns of it. */
void rf_ckpt_lost(struct rf_ckpt *c, const char *lost);

#endif
