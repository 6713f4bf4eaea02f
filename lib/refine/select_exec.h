/* select_exec.h -- positions that a command chooses: rf-select --exec.
 *
 * The command is asked about each record that is long enough for a rollout of k tokens (ask.h).  Its answers
 * are lines {"id": .., "positions": [s, ..]}: any number of positions, each of them from 1 to T - k, in any
 * order.  A position that is listed several times gets rollouts each time.  With an empty list the record has
 * no positions. */
#ifndef RF_SELECT_EXEC_H
#define RF_SELECT_EXEC_H

#include "refine/ask.h"

struct rf_select_exec_settings {
	struct rf_ask_settings ask;
	bool strict;       /* whether a record that is too short is an error */
	const char *noted; /* the text that the history has instead of the command */
	char name[RF_ASK_NAME];
};
#define RF_SELECT_EXEC_DEFAULTS \
	{ \
		.ask = RF_ASK_DEFAULTS \
	}

/* --exec, --text, --model, --tokenizer, --no-hidden, --timeout, --queue-limit */
void rf_select_exec_options(struct rf_select_exec_settings *s, struct rf_opts *opts);
/* Makes the history record the name of the command's script, rf_ask_name(), as the value of --exec. */
void rf_select_exec_note(struct rf_select_exec_settings *s, struct rf_opts *opts);

/* Returns the least number of tokens that a sequence needs. */
int rf_select_exec_least(const struct rf_select_exec_settings *s);

/* Removes positions, rollout, reward and advantage, as rf_select_record() does.  The record is then ready for
 * rf_ask_record().  *short_one: whether the record is too short, so that the command is not asked about it.
 * Errors: RF_EDATA: the record is too short, with s->strict. */
enum rf_code rf_select_exec_record(const struct rf_select_exec_settings *s, struct rf_record *r,
                                   bool *short_one, struct rf_err *e);

/* Starts the command, as rf_ask_start() does.  s->ask.k must be set, and s must exist until rf_ask_stop(). */
enum rf_code rf_select_exec_start(struct rf_ask **a, const struct rf_select_exec_settings *s,
                                  const struct rf_head *head, rf_ask_pass *pass, void *arg, struct rf_err *e);

#endif
