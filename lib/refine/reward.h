/* reward.h -- how well a rollout agrees with the text (ReFINE, arXiv:2602.16704, eq. 9, 11, 12).
 *
 *     cosine  mean_j  h_pred[j] . h_gt[j] / (max(|h_pred[j]|, 1e-8) max(|h_gt[j]|, 1e-8))
 *     binary  mean_j  [rollout token j = text token j]
 *     edit    1 - Levenshtein(rollout, text) / k
 *     hybrid  cosine + binary
 *     random  uniform in [0, 1): the control experiment for any claim of an effect
 *
 * All kinds but hybrid and random are parts.  A part is a function and a row of one table in reward.c.  All
 * parts are computed and stored in the record by name.  One part, or the sum, or the control is the `total`.
 * No other code lists the parts: rf-dump and the log take their names from the records. */
#ifndef RF_REWARD_H
#define RF_REWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "stream/record.h"

/* Writes the names of the kinds of reward, "cosine|binary|..", to words, and returns words. */
enum { RF_REWARD_WORDS = 512 };
char *rf_reward_kinds(char words[RF_REWARD_WORDS]);
/* Returns the index of a name in this list; -1: the list does not have it. */
int rf_reward_kind(const char *name);

struct rf_reward_settings {
	int kind;       /* an index in the list of kinds */
	int shift;      /* distance to the position with whose text to compare: rf_reward_record() */
	bool per_token; /* whether the reward of each token is written, too */
	uint64_t seed;
	int draw_step;               /* training step for the draws of "random"; -1: the step of the model */
	char words[RF_REWARD_WORDS]; /* names of the kinds, for the table of options */
};
#define RF_REWARD_DEFAULTS \
	{ \
		.draw_step = -1 \
	}

/* --kind, --shift, --per-token, --seed, --draw-step */
void rf_reward_options(struct rf_reward_settings *s, struct rf_opts *opts);

/* Returns the cosine of two states (d). */
double rf_cosine(const float *a, const float *b, int d);
/* Returns the edit distance of two lists of tokens; n and m are at most 65536. */
int rf_levenshtein(const int32_t *a, int n, const int32_t *b, int m);

/* Writes r->reward: all parts, and s->kind as the total.  Removes the advantages.  A record without rollouts
 * passes unchanged.  A rollout is compared up to its own length.  step: the training step for the draws of
 * "random", with s->seed. s->per_token: also writes r->reward.per_token, phi of eq. 9 for each token, whose
 * mean is the total. s->shift: if not 0, the rollouts of a position are compared with the text at another
 * position of the record: a chance baseline.  The other position is `shift` places further in the ring of the
 * record's distinct positions, in the order of the text.  If this is the same position, the record loses its
 * positions and rollouts, and *alone is set.  alone may be NULL only if shift is 0. Errors: RF_EDATA: the
 * rollouts have no h_pred or h_gt, or more than 65536 tokens each; or the text has no room for them at a
 * position.  The settings must have passed rf_reward_check(). */
enum rf_code rf_reward_record(const struct rf_reward_settings *s, uint64_t step, struct rf_record *r,
                              bool *alone, struct rf_err *e);

/* Checks that the settings agree: with per_token the kind must be a mean over tokens.  Errors: RF_EUSAGE. */
enum rf_code rf_reward_check(const struct rf_reward_settings *s, struct rf_err *e);

/* Replaces the total that rf_reward_record() wrote, and the name of its kind, by those of a command (--exec).
 * The parts stay.  total: (c, n).  Errors: RF_EDATA: a number is not finite as float32. */
enum rf_code rf_reward_record_given(struct rf_record *r, const char *kind, const double *total,
                                    struct rf_err *e);
/* Adds a part of a command to the computed parts, and returns room for its (c, n) values, like rf_part_add().
 * Returns NULL after an error: those of rf_part_add(), or RF_EDATA: a computed part has this name. */
float *rf_reward_part_given(struct rf_record *r, const char *name, struct rf_err *e);

/* Adds rewards of tokens, and returns room for them: (c, n, k), all 0.  NULL: RF_ENOMEM. */
float *rf_reward_per_token_given(struct rf_record *r, struct rf_err *e);

/* Writes to key the name of a part's figure, "mean" or "std", in a log, and returns key: "reward/NAME_mean".
 * The computed parts have the names of the published implementation, such as "reward/cs_reward_mean".
 * Different parts have different keys. */
enum { RF_REWARD_KEY = RF_PART_NAME + 32 };
char *rf_reward_key(char key[RF_REWARD_KEY], const char *name, const char *figure);

#endif
