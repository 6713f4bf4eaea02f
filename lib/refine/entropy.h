/* entropy.h -- the model's uncertainty at every position of a sequence, in one forward pass (ReFINE,
 * arXiv:2602.16704, eq. 5). */
#ifndef RF_ENTROPY_H
#define RF_ENTROPY_H

#include "engine/work.h"
#include "stream/record.h"

/* Device memory of the stage: one number per token each; and logits of some rows, if they are written. */
struct rf_entropy_place { rf_f32 entropy, logp, z; rf_i32 target, top; };

struct rf_entropy {
	struct rf_work *work;
	struct rf_entropy_place at;
	bool nll;              /* write nll and correct too */
	bool hidden, logits;   /* write these too; for small models */
};

/* Reads the value of --keep: "hidden", "logits" or both with a comma; NULL: neither.  Returns false for
 * anything else. */
bool rf_entropy_keep(struct rf_entropy *s, const char *words);

/* The stage's use of memory, for rf_work_init(). */
struct rf_use rf_entropy_use(struct rf_entropy *s);

/* Writes r->entropy and whatever else the settings ask for.  It removes nothing that was computed before:
 * positions and rollouts are tokens, which keep their meaning.  Errors: RF_ENUMERIC: NaN or Inf, and the
 * message has the position. */
enum rf_code rf_entropy_record(struct rf_entropy *s, struct rf_record *r, struct rf_err *e);

/* Writes r->entropy from s->at.entropy, where a pass over the record has left it; that pass was made by
 * training (train.h).  Errors: as above. */
enum rf_code rf_entropy_fetch(struct rf_entropy *s, struct rf_record *r, struct rf_err *e);

#endif
