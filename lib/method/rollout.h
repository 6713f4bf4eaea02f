/* rollout.h -- short continuations of a sequence at chosen positions (ReFINE, arXiv:2602.16704, eq. 6-7), in
 * one pass over the sequence.
 *
 * A rollout at position s continues the prefix x[0..s-1]; its tokens stand at s, s+1, ...  The first is drawn
 * from row s-1 of the pass over the sequence.  The same pass gives h_gt, the sequence's own hidden states at
 * s .. s+k-1. */
#ifndef RF_ROLLOUT_H
#define RF_ROLLOUT_H

#include "engine/engine.h"
#include "stream/record.h"

struct rf_rollout_settings {
	struct rf_engine *engine;
	int k, n;              /* tokens per rollout, rollouts per position */
	double temperature, top_p;
	int top_k;             /* 0: all */
	bool eos;              /* end-of-sequence tokens may be drawn */
	/* draw nothing; compute the values of the record's own rollout tokens with this model */
	bool score;
	uint64_t seed;
	int draw_step;         /* training step for the random numbers; -1: the model's */
};
#define RF_ROLLOUT_DEFAULTS { .k = 5, .n = 1, .temperature = 1, .top_p = 1, .draw_step = -1 }

/* -k (--length), -n (--rollouts), --temperature, --top-p, --top-k, --eos, --score, --seed, --draw-step */
enum { RF_ROLLOUT_OPTS = 10 };
void rf_rollout_options(struct rf_rollout_settings *s, struct rf_opt opts[RF_ROLLOUT_OPTS]);

/* The memory that the stage needs for a shape (struct rf_engine, needs).  n and k are the shape's if they
 * come with the records (--score), else the options'.  stage: a struct rf_rollout_settings. */
void rf_rollout_needs(const void *stage, struct rf_shape *shape, struct rf_demand *need);

/* rf_rollout_record() writes r->rollout and removes reward and advantage.  A record without positions (with
 * --score: without rollout tokens) passes unchanged.  rf_rollout_check() only checks the record.  Errors:
 * RF_EDATA: the k tokens at a position do not fit into the sequence; RF_ENUMERIC: NaN or Inf. */
enum rf_code rf_rollout_check(const struct rf_rollout_settings *s, const struct rf_record *r,
                              struct rf_err *e);
enum rf_code rf_rollout_record(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e);

#endif
