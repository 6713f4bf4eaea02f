/* cli.h -- what every program's main() shares: its command line, its messages, its signals.  Only tools/
 * includes this, cli_stage.h, cli_model.h and progress.h, whose .c are all that prints or exits. */
#ifndef RF_CLI_H
#define RF_CLI_H

#include <signal.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sysexits.h>

#include "base/err.h"
#include "base/opt.h"

struct rf_head;

/* Options under a heading of --help: their long names, separated by blanks.  An option in no section is not
 * shown.  heading NULL: the end. */
struct rf_cli_section { const char *heading, *options; };

struct rf_cli {
	const char *name;                  /* "rf-select" */
	const char *usage;                 /* "[-o file] [options] [file]" */
	const char *summary;               /* one sentence */
	const char *example;               /* a pipeline that can be typed */
	const char *also;                  /* "rf-entropy(1), rf-rollout(1)" */
	const struct rf_opt *const *opts;  /* tables, NULL at the end */
	/* how --help groups the options, as the man page does; NULL: as the tables do, without headings */
	const struct rf_cli_section *sections;
	/* how many words may stand beside the options; max -1: any number */
	int min_args, max_args;
};

/* Reads the command line: options anywhere, "--" ends them, "-" is a word, no abbreviations, the last of a
 * repeated option wins.  --help and --version are answered here.  Restores SIGPIPE, installs the handler of
 * rf_cli_stop.  The words beside the options are moved to argv[1..n]; returns n.  A mistake ends the program
 * with EX_USAGE and one line. */
int rf_cli_parse(const struct rf_cli *cli, int argc, char *argv[]);

/* The options of `table`, or (name not NULL) this one of them, have no effect with this command line; why:
 * "requires --shuffle" or "cannot be combined with --eval".  If one was given, the program ends with EX_USAGE
 * and "--seed requires --shuffle"; the history leaves them out.  After rf_cli_parse(). */
void rf_cli_without(const struct rf_opt *table, const char *name, const char *why);

/* Appends {tool, version, options} to the head's history: every option whose `result` is set and that has an
 * effect, with its value. */
enum rf_code rf_cli_history(const struct rf_cli *cli, struct rf_head *head, struct rf_err *e);

/* SIGTERM, SIGINT and SIGHUP remove unfinished files and kill; once rf_cli_catch() was called they only set
 * rf_cli_stop: a trainer calls it before it commits, and rf_cli_stopped() after a failure, which ends the
 * program with 128 + N if such a signal was the cause. */
extern volatile sig_atomic_t rf_cli_stop;
void rf_cli_catch(void);
void rf_cli_stopped(void);
/* A trainer whose -o nobody reads any more finishes its commit before it says so. */
void rf_cli_ignore_pipe(void);

/* One line on stderr, "rf-name: ...", then exit; status: of <sysexits.h>. */
noreturn void rf_die(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a failure of the library: its sentence and its exit status. */
noreturn void rf_die_err(const struct rf_err *e);
/* One line on stderr, and on. */
void rf_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Flushes stdout and checks that everything was written; every program that prints calls it last. */
void rf_cli_finish(void);

#endif
