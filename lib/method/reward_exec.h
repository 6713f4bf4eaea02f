/* reward_exec.h -- rewards that a command computes: rf-reward --exec.
 *
 * The command gets the stream's head as its first line of JSON, which needs no answer.  Then it gets each
 * record with rollouts as one line.  It answers these in the same order, with lines
 * {"id": .., "total": [[..]]}: c lists of n finite numbers.  With "parts": {"NAME": [[..]], ..} an answer
 * adds parts, each of the same shape, to the computed parts.  Other keys are ignored.
 *
 * A command may answer at once, or only when its input has ended; records wait for their answers in a queue.
 * If more than one waits, they exceed the queue's limit and the command has never answered, that is an error.
 * If it has answered before, no more records are read until those that wait no longer exceed the limit. */
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
	const char *command;    /* for /bin/sh; NULL: none */
	const char *kind;       /* the name of its rewards; NULL: rf_reward_exec_name() */
	bool no_hidden;         /* send records without hidden states and logits */
	bool text;              /* send the text of each record, too (reward_text.h) */
	const char *model;      /* a run or checkpoint that has the tokenizer; NULL: none */
	const char *tokenizer;  /* the tokenizer's file or directory, or the word "bytes"; NULL: model's */
	double timeout;         /* seconds to wait while the command is idle; 0: no limit */
	uint64_t queue_limit;   /* bytes of records that may wait */
	int n, k;               /* rollouts at a position, and their tokens; 0: as the head's history says */
	struct rf_meter *meter; /* counts the records that were passed on; may be NULL */
};
#define RF_REWARD_EXEC_DEFAULTS { .timeout = 600, .queue_limit = UINT64_C(256) << 20 }

/* --exec, --text, --model, --tokenizer, --no-hidden, --kind-name, --timeout, --queue-limit */
enum { RF_REWARD_EXEC_OPTS = 9 };
void rf_reward_exec_options(struct rf_reward_exec_settings *s, struct rf_opt opts[RF_REWARD_EXEC_OPTS]);

/* Writes the name that a command's rewards have by default, and returns it: the name of the first script that
 * the command names, without folder and suffix, such as "mine" for "python3 rewards/mine.py".  Without such a
 * script, or if its name is not a kind's name or that of a computed reward, it is "exec". */
enum { RF_REWARD_EXEC_NAME = 65 };
char *rf_reward_exec_name(const char *command, char name[RF_REWARD_EXEC_NAME]);

struct rf_reward_exec;

/* Starts the command and sends it the head.  pass() gets each record with its answer, in order, and may
 * change it.  Errors: RF_EUSAGE: the kind's name is malformed; RF_EDATA: the command prints a line before it
 * got a record; those of rf_reward_tokenizer(). */
typedef enum rf_code rf_reward_pass(void *arg, struct rf_record *r, struct rf_err *e);
enum rf_code rf_reward_exec_start(struct rf_reward_exec **j, const struct rf_reward_exec_settings *s,
                                  const struct rf_head *head, rf_reward_pass *pass, void *arg,
                                  struct rf_err *e);

/* Sends a copy of a record to the command; rf_reward_record() must have computed its parts, which the command
 * gets too.  Then passes records on as their answers come, until the descriptor `next` (rf_in_fd()) can be
 * read; next < 0: does not wait for answers.  An answer replaces the total and may add parts.  A record
 * without rollouts is not sent, and only waits for its turn in the output.  Errors: RF_EDATA: an answer is
 * wrong or missing. */
enum rf_code rf_reward_exec_record(struct rf_reward_exec *j, const struct rf_record *r, int next,
                                   struct rf_err *e);

/* Ends the command's input and passes on the remaining records as they are answered.  Errors: RF_EDATA, also
 * if the command prints more, or does not end with status 0. */
enum rf_code rf_reward_exec_finish(struct rf_reward_exec *j, struct rf_err *e);

/* Ends the command, by force if it is still running, and frees j, which may be NULL. */
void rf_reward_exec_stop(struct rf_reward_exec *j);

#endif
