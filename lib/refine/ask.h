/* ask.h -- records that wait for a command's answers: rf-reward --exec and rf-select --exec.
 *
 * The command gets the stream's head as its first line of JSON, which needs no answer.  Then it gets each
 * record that it is asked about as one line.  It answers the records in the same order, with lines
 * {"id": .., ..}.  The other keys depend on the kind of question (reward_exec.h, select_exec.h); unknown keys
 * are ignored.
 *
 * A command may answer each line immediately, or only when its input has ended.  Records wait for their
 * answers in a queue.  If the queue exceeds its limit, has more than one record, and the command has never
 * answered, this is an error.  If the command has answered before, no more records are read until the queue
 * no longer exceeds the limit. */
#ifndef RF_ASK_H
#define RF_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/meter.h"
#include "base/opt.h"
#include "stream/record.h"
#include "stream/stream.h"
#include "tokenizer/tokenizer.h"

struct rf_ask_settings {
	const char *command;    /* for /bin/sh; NULL: none */
	bool no_hidden;         /* whether records are sent without hidden states and logits */
	bool text;              /* whether the text of each record is sent, too */
	const char *model;      /* a run or checkpoint that has the tokenizer; NULL: none */
	const char *tokenizer;  /* its file or directory, or the word "bytes"; NULL: that of `model` */
	double timeout;         /* seconds to wait while the command is idle; 0: no limit */
	uint64_t queue_limit;   /* bytes of records that may wait */
	int n, k;               /* rollouts at a position, and their tokens; 0: those in the head's history */
	struct rf_meter *meter; /* the meter that counts the records passed on; may be NULL */
};
#define RF_ASK_DEFAULTS \
	{ \
		.timeout = 600, .queue_limit = UINT64_C(256) << 20 \
	}

/* --exec, --text, --model, --tokenizer, --no-hidden, --timeout, --queue-limit.  exec, text: the help of
 * --exec and --text. */
void rf_ask_options(struct rf_ask_settings *s, const char *exec, const char *text, struct rf_opts *opts);

/* Returns whether n bytes are a valid name: up to 64 letters, digits, '-', '_', '.'. */
bool rf_ask_is_name(const char *name, size_t n);
/* Writes the name of the first script in a command, without folder and suffix, to name, and returns it:
 * "mine" for "python3 rewards/mine.py".  If the command has no script, or its name is not valid, the name is
 * "exec". */
enum { RF_ASK_NAME = 65 };
char *rf_ask_name(const char *command, char name[RF_ASK_NAME]);

/* A kind of question.  of: the argument of rf_ask_start(). */
struct rf_ask_kind {
	/* Returns whether the command is asked about a record.  A record without a question keeps its place
	   in the output. */
	bool (*asks)(const void *of, const struct rf_record *r);
	/* Appends keys to the head's line, such as ',"k":5'. */
	void (*add_head)(const void *of, const struct rf_head *head, struct rf_buf *line);
	/* Appends the value of the key "text" of a record. */
	enum rf_code (*add_text)(const struct rf_tokenizer *t, const struct rf_record *r, struct rf_buf *line,
	                         struct rf_err *e);
	/* Reads an answer into its record, whose id has been checked.  Errors: RF_EDATA: the answer is
	   wrong. */
	enum rf_code (*read)(const void *of, const json_t *answer, struct rf_record *r, struct rf_err *e);
};

/* Appends ',"key":' with a number: `known` or, if that is 0, the value of this tool's option in the history
 * of the head, or null if the history has none. */
void rf_ask_add_number(struct rf_buf *line, const char *key, int known, const struct rf_head *head,
                       const char *tool, const char *option);

struct rf_ask;

/* Starts the command and sends it the head.  pass() is called for each record with its answer, in order, and
 * may change the record.  `of` must exist until rf_ask_stop().  Errors: RF_EDATA: the command prints a line
 * before it got a record; those of rf_ask_tokenizer(). */
typedef enum rf_code rf_ask_pass(void *arg, struct rf_record *r, struct rf_err *e);
enum rf_code rf_ask_start(struct rf_ask **a, const struct rf_ask_settings *s, const struct rf_ask_kind *kind,
                          const void *of, const struct rf_head *head, rf_ask_pass *pass, void *arg,
                          struct rf_err *e);

/* Sends a copy of a record to the command.  Then passes records on as their answers come, until the file
 * descriptor `next` (rf_in_fd()) can be read.  next < 0: does not wait for answers.  Errors: RF_EDATA: an
 * answer is wrong or missing. */
enum rf_code rf_ask_record(struct rf_ask *a, const struct rf_record *r, int next, struct rf_err *e);

/* Ends the command's input and passes on the remaining records as they are answered.  Errors: RF_EDATA: an
 * answer is wrong or missing, the command prints more, or its exit status is not 0. */
enum rf_code rf_ask_finish(struct rf_ask *a, struct rf_err *e);

/* Ends the command, if necessary by a signal, and frees a, which may be NULL. */
void rf_ask_stop(struct rf_ask *a);

#endif
