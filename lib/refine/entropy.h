/* entropy.h -- the uncertainty of the model at every position of a sequence, in one forward pass (ReFINE,
 * arXiv:2602.16704, eq. 5). */
#ifndef RF_ENTROPY_H
#define RF_ENTROPY_H

#include "engine/work.h"
#include "stream/record.h"

/* Device memory of the stage: arrays of one number per token; z: the logits of some rows, if logits are
 * written. */
struct rf_entropy_place {
	rf_f32 entropy, logp, z;
	rf_i32 target, top;
};

struct rf_entropy {
	struct rf_work *work;
	struct rf_entropy_place at;
	bool nll;            /* whether nll and correct are written, too */
	bool hidden, logits; /* whether these are written, too; for small models */
};

/* Reads the value of --keep: "hidden", "logits" or both with a comma; NULL: neither.  Returns false for any
 * other text. */
bool rf_entropy_keep(struct rf_entropy *s, const char *words);

/* Returns how the stage uses memory, for rf_work_init(). */
struct rf_use rf_entropy_use(struct rf_entropy *s);

/* Writes r->entropy and the other fields that the settings ask for.  Keeps all other fields: positions and
 * rollouts are tokens, which do not depend on the model.  Errors: RF_ENUMERIC: NaN or Inf; the message names
 * the position. */
enum rf_code rf_entropy_record(struct rf_entropy *s, struct rf_record *r, struct rf_err *e);

/* Writes r->entropy from s->at.entropy, where rf_train_ahead_pass() has computed it.  Errors: those of
 * rf_entropy_record(). */
enum rf_code rf_entropy_fetch(struct rf_entropy *s, struct rf_record *r, struct rf_err *e);

#endif
