/* reward_exec.h -- rewards that a command computes: rf-reward --exec.
 *
 * The command is asked about each record with rollouts (ask.h).  Its answers are lines
 * {"id": .., "total": [[..]]}: c lists of n finite numbers.  With "per_token": [[[..]]], c lists of n lists
 * of numbers, an answer gives rewards of tokens: one number for each of the k tokens or, if the rollout ends
 * earlier, for each token up to its end.  Without "total" the mean of these numbers is the total.  With
 * "parts": {"NAME": [[..]], ..} an answer adds parts, each of the same shape, to the computed parts.  Other
 * keys are ignored. */
#ifndef RF_REWARD_EXEC_H
#define RF_REWARD_EXEC_H

#include "refine/ask.h"

struct rf_reward_exec_settings {
	struct rf_ask_settings ask;
	const char *kind; /* the name of the rewards; rf_reward_exec_name() is the default */
};
#define RF_REWARD_EXEC_DEFAULTS \
	{ \
		.ask = RF_ASK_DEFAULTS \
	}

/* --exec, --text, --model, --tokenizer, --no-hidden, --kind-name, --timeout, --queue-limit */
void rf_reward_exec_options(struct rf_reward_exec_settings *s, struct rf_opts *opts);

/* Writes the default name of a command's rewards to name, and returns it: rf_ask_name(), or "exec" if that is
 * the name of a computed reward. */
char *rf_reward_exec_name(const char *command, char name[RF_ASK_NAME]);

/* Starts the command, as rf_ask_start() does.  Call rf_reward_record() for a record before rf_ask_record(),
 * because the command also gets the computed parts.  An answer replaces the total and may add parts.  s must
 * exist until rf_ask_stop().  Errors: RF_EUSAGE: the name of the kind is malformed; those of
 * rf_ask_start(). */
enum rf_code rf_reward_exec_start(struct rf_ask **a, const struct rf_reward_exec_settings *s,
                                  const struct rf_head *head, rf_ask_pass *pass, void *arg, struct rf_err *e);

#endif
