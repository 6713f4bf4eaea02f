/* reward.h -- how well a rollout agrees with the text (ReFINE, arXiv:2602.16704, eq. 8, 10, 11).
 *
 *     cosine  mean_j  h_pred[j] . h_gt[j] / (max(|h_pred[j]|, 1e-8) max(|h_gt[j]|, 1e-8))
 *     binary  mean_j  [rollout token j = text token j]
 *     edit    1 - Levenshtein(rollout, text) / k
 *     hybrid  cosine + binary
 *     random  uniform in [0, 1): the control that every claim of an effect needs
 *
 * The first three are parts, and a part is a function and a row of one table in reward.c: all are computed
 * and kept in the record by their names, and one of them, the sum or the control is chosen as `total`.
 * Nothing else needs to be told of a part: rf-dump and the log take the names from the records. */
#ifndef RF_REWARD_H
#define RF_REWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "stream/record.h"

/* What can be the total, each by its name: "cosine|binary|.."; returns words. */
enum { RF_REWARD_WORDS = 512 };
char *rf_reward_kinds(char words[RF_REWARD_WORDS]);
/* The place of a name among these; -1: it is none. */
int rf_reward_kind(const char *name);

double rf_cosine(const float *a, const float *b, int d);                              /* of one position */
int rf_levenshtein(const int32_t *a, int n, const int32_t *b, int m);                 /* n, m <= 65536 */

/* Writes r->reward, all parts and as the total this kind, and removes advantage.  A record without rollouts
 * passes unchanged.  step: the model's (random).  shift: rollouts are compared with the text of the shift-th
 * next of the record's positions, in the order of the text, equal ones counted once, the first after the last
 * (0: with their own): what they score there they owe to no skill.  Where that would be their own text, the
 * record is left without positions and rollouts: *alone (NULL only where shift is 0).  RF_EDATA: rollouts
 * without h_pred or h_gt, positions outside the text. */
enum rf_code rf_reward_record(struct rf_record *r, int kind, int shift, uint64_t seed,
                              uint64_t step, bool *alone, struct rf_err *e);

/* `total` (c n numbers, finite) and its kind's name come from elsewhere (--exec), and take the place of those
 * of rf_reward_record(), whose parts stay. */
enum rf_code rf_reward_record_given(struct rf_record *r, const char *kind, const double *total,
                                    struct rf_err *e);
/* Room for a part that comes from elsewhere, too, beside those that are computed: (c, n) values, as for
 * rf_part_add().  NULL: RF_EDATA also where one of these has the name. */
float *rf_reward_part_given(struct rf_record *r, const char *name, struct rf_err *e);

/* What a log calls the mean of a part: "reward/NAME_mean", but for ours as the published implementation does.
 * Of different names keys differ.  Returns key. */
enum { RF_REWARD_KEY = RF_PART_NAME + 32 };
char *rf_reward_key(char key[RF_REWARD_KEY], const char *name);

#endif
