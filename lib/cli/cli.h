/* cli.h -- what the main() of every program shares: its command line, its messages, its signals.  Only tools/
 * includes cli.h, cli_stage.h, cli_model.h and progress.h, and in lib only their .c files print or exit. */
#ifndef RF_CLI_H
#define RF_CLI_H

#include <signal.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sysexits.h>

#include "base/err.h"
#include "base/opt.h"

struct rf_buf;
struct rf_head;
struct rf_skip;

/* Options under one heading of --help: their long names, separated by blanks.  An option that is in no
 * section is not shown.  heading NULL: end of the sections. */
struct rf_cli_section {
	const char *heading, *options;
};

struct rf_cli {
	const char *name;                 /* "rf-select" */
	const char *usage;                /* "[-o file] [options] [file]" */
	const char *summary;              /* one sentence */
	const char *example;              /* a pipeline that can be typed */
	const char *also;                 /* "rf-entropy(1), rf-rollout(1)" */
	const struct rf_opt *const *opts; /* tables, NULL at the end */
	/* how --help groups the options, as the man page does; NULL: in the order of `opts`, without
	   headings */
	const struct rf_cli_section *sections;
	/* appends lines about the program's devices to --version; NULL: the program opens no device */
	void (*about)(struct rf_buf *text);
	/* limits of the number of arguments that are not options; max_args -1: no limit */
	int min_args, max_args;
};

/* The version, such as "0.2", and the commit that the programs were built from, such as "8a7fff4", with
 * "-changed" if the sources differed from it; "unknown" outside of git. */
extern const char rf_cli_version[], rf_cli_built_from[];

/* Reads the command line.  Options may stand anywhere and are not abbreviated; "--" ends them, "-" is an
 * argument, and the last of a repeated option wins.  Answers --help and --version.  Also gives SIGPIPE its
 * default action and installs the handlers of the other signals (below).  Moves the n arguments that are not
 * options to argv[1..n] and returns n.  A mistake ends the program with EX_USAGE and one line. */
int rf_cli_parse(const struct rf_cli *cli, int argc, char *argv[]);

/* Declares that the options of `table`, or only the one called `name` unless that is NULL, have no effect
 * with this command line; why: "requires --shuffle" or "cannot be combined with --eval".  If one of them was
 * given, the program ends with EX_USAGE and "--seed requires --shuffle"; else the history leaves them out.
 * To be called after rf_cli_parse(). */
void rf_cli_without(const struct rf_opt *table, const char *name, const char *why);

/* Declares that at most one of the options called `names`, up to NULL, can be given; the others have no
 * effect, as after rf_cli_without().  Returns "cannot be combined with --html", with the name of the given
 * option, or NULL if none was given.  The text is valid until the next call. */
const char *rf_cli_one_of(const struct rf_opt *table, const char *const *names);

/* Returns whether an option has an effect: whether rf_cli_without() was not called for it. */
bool rf_cli_in_force(const struct rf_opt *o);

/* Appends {tool, version, options} to the head's history: the value of every option that changes results
 * (RF_OPT_RESULT) and has an effect. */
enum rf_code rf_cli_history(const struct rf_cli *cli, struct rf_head *head, struct rf_err *e);

/* SIGTERM, SIGINT and SIGHUP remove unfinished files and kill the program.  After rf_cli_catch(), which a
 * trainer calls before it commits, they only set rf_cli_stop.  If the commit then fails, the trainer calls
 * rf_cli_stopped(), which ends the program with 128 + N if such a signal was the cause. */
extern volatile sig_atomic_t rf_cli_stop;
void rf_cli_catch(void);
void rf_cli_stopped(void);
/* Lets signals kill the program again, for a program that goes on after the commit.  If a signal came during
 * the commit, the program ends here. */
void rf_cli_uncatch(void);
/* Ignores SIGPIPE, so that a trainer whose reader has ended finishes its commit before it reports that. */
void rf_cli_ignore_pipe(void);

/* Silences rf_say() and the progress of this process.  Only one of several ranks prints messages. */
void rf_cli_hush(void);
/* Sets the functions that are called when the program ends by a failure.  tell() is called before the message
 * is printed, to inform other ranks.  It may change the failure, whose code then decides the exit status, and
 * returns whether this process prints the message.  part() is called last, right before the exit. */
void rf_cli_at_failure(bool (*tell)(void *arg, struct rf_err *e), void (*part)(void *arg), void *arg);

/* Writes one line to stderr, "rf-name: ...", removes unfinished files and exits; status: from
 * <sysexits.h>. */
noreturn void rf_die(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the program with the message and status of a failure of the library. */
noreturn void rf_die_err(const struct rf_err *e);
/* Writes one line to stderr and returns. */
void rf_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Warns of the first bad line that is skipped (struct rf_skip). */
void rf_cli_skip(const char *sentence);
/* Reports the number of lines that were skipped, if any.  Called after success. */
void rf_cli_skipped(const struct rf_skip *s);
/* Flushes stdout and checks that everything was written; every program that prints calls it last. */
void rf_cli_finish(void);

#endif
