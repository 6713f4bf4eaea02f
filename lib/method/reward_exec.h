/* reward_exec.h -- rewards that a command decides: rf-reward --exec.
 *
 * Each record with rollouts is one line of JSON to the command, which answers {"id": .., "total": [[..]]}, c
 * lists of n finite numbers, in the same order.  With "parts": {"NAME": [[..]], ..} it adds parts of its own,
 * as many numbers each, to those that are computed; other keys of an answer are ignored.  A command may
 * answer at once or only when its input has ended: records wait for their answers.  Where more wait than may,
 * a command that has never answered has failed; another is waited for. */
#ifndef RF_REWARD_EXEC_H
#define RF_REWARD_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "base/opt.h"
#include "stream/record.h"
#include "stream/stream.h"

struct rf_reward_exec_settings {
	const char *command;    /* for /bin/sh; NULL: there is none */
	const char *kind;       /* the name of its rewards; NULL: "exec" */
	bool no_hidden;         /* it is not shown hidden states and logits */
	double timeout;         /* seconds; 0: none */
	uint64_t queue_limit;   /* bytes of records that may wait */
	struct rf_meter *meter; /* counts what was passed on; may be NULL */
};
#define RF_REWARD_EXEC_DEFAULTS { .timeout = 600, .queue_limit = UINT64_C(256) << 20 }

/* --exec, --no-hidden, --kind-name, --timeout, --queue-limit */
enum { RF_REWARD_EXEC_OPTS = 6 };
void rf_reward_exec_options(struct rf_reward_exec_settings *s, struct rf_opt opts[RF_REWARD_EXEC_OPTS]);

struct rf_reward_exec;

/* Starts the command; what it judged goes to out.  RF_EUSAGE: a kind's name that is not one. */
enum rf_code rf_reward_exec_start(struct rf_reward_exec **j, const struct rf_reward_exec_settings *s,
                                  struct rf_out *out, struct rf_err *e);

/* Hands a record that rf_reward_record() has seen to the command (one without rollouts only waits for its
 * turn) and passes records on as their answers come, until the next one can be read: rf_in_fd().  The command
 * sees the record as it is here, so also the parts that were computed; its answer takes the place of the
 * total and adds parts.  RF_EDATA: a wrong answer, or none. */
enum rf_code rf_reward_exec_record(struct rf_reward_exec *j, const struct rf_record *r, int next,
                                   struct rf_err *e);

/* Ends the command's input and passes the rest on; the command must end with status 0 and say
 * nothing more. */
enum rf_code rf_reward_exec_finish(struct rf_reward_exec *j, struct rf_err *e);

/* Ends the command, by force if it still runs, and frees.  NULL is fine. */
void rf_reward_exec_stop(struct rf_reward_exec *j);

#endif
