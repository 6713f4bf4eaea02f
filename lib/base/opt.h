/* opt.h -- the options of a program, as data.
 *
 * A module that has settings adds their options to a table of the program:
 *
 *     void rf_select_options(struct rf_select *s, struct rf_opts *opts)
 *     {
 *             const struct rf_opt table[] = {
 *                     OPT_INT("chunks", &s->chunks, 1, 65536, "c", "number of chunks"),
 *                     OPT_FLAG("strict", &s->strict, "fail if a sequence is too short"),
 *                     OPT_END,
 *             };
 *
 *             rf_opts_add(opts, table);
 *     }
 *
 * Two programs that share a module thus share its options, their --help texts and what the stream's history
 * records of them.  An option's default is whatever *to holds before the command line is read. */
#ifndef RF_OPT_H
#define RF_OPT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum rf_opt_kind {
	RF_OPT_FLAG, /* bool *      --name                                                  */
	RF_OPT_INT,  /* int *       a whole number in [min, max]; suffixes k, M: 2^10, 2^20 */
	RF_OPT_U64,  /* uint64_t *  0 .. 2^64-1                                             */
	RF_OPT_SIZE, /* uint64_t *  bytes; suffixes k, M, G: 2^10, 2^20, 2^30               */
	RF_OPT_REAL, /* double *    in [min, max], finite                                   */
	RF_OPT_PAIR, /* double[2]   two reals "a,b", each in [min, max]                     */
	RF_OPT_TEXT, /* const char ** any string that is not empty                          */
	RF_OPT_ENUM, /* int * or pointer to an enum: index of a word in arg ("cpu|auto"); -1: none */
	RF_OPT_LIST, /* struct rf_opt_list *  as TEXT; the option may be given several times */
};

enum { RF_OPT_LISTED = 16 }; /* most values of a LIST */
struct rf_opt_list {
	const char *s[RF_OPT_LISTED];
	int n;
};

struct rf_opt {
	const char *name; /* the long name, without dashes */
	char letter;      /* the short name, or 0 */
	enum rf_opt_kind kind;
	void *to;         /* where the value goes; holds the default */
	double min, max;  /* for INT, REAL, PAIR */
	const char *arg;  /* metavariable for --help; for ENUM the words, separated by | */
	const char *help; /* a phrase in lower case; --help wraps it */
	unsigned noted;   /* 0, or bits of the enum below */
};

/* How an option is recorded.  RF_OPT_RESULT: the option changes results, so it is in the stream's history.
 * RF_OPT_OF_BATCH: the option may differ from batch to batch or changes no step, so it is not in a run's
 * manifest. */
enum { RF_OPT_RESULT = 1, RF_OPT_OF_BATCH = 2 };

/* One row of a table.  After the help text a row may set other members: .letter = 'k', .noted =
 * RF_OPT_RESULT.  words: the words of an ENUM, separated by |. */
#define OPT_FLAG(name_, to_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_FLAG, .to = to_, .help = __VA_ARGS__ \
	}
#define OPT_INT(name_, to_, min_, max_, arg_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_INT, .to = to_, .min = min_, .max = max_, .arg = arg_, \
		.help = __VA_ARGS__ \
	}
#define OPT_U64(name_, to_, arg_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_U64, .to = to_, .arg = arg_, .help = __VA_ARGS__ \
	}
#define OPT_SIZE(name_, to_, arg_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_SIZE, .to = to_, .arg = arg_, .help = __VA_ARGS__ \
	}
#define OPT_REAL(name_, to_, min_, max_, arg_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_REAL, .to = to_, .min = min_, .max = max_, .arg = arg_, \
		.help = __VA_ARGS__ \
	}
#define OPT_PAIR(name_, to_, min_, max_, arg_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_PAIR, .to = to_, .min = min_, .max = max_, .arg = arg_, \
		.help = __VA_ARGS__ \
	}
#define OPT_TEXT(name_, to_, arg_, ...) \
	{ \
		.name = name_, .kind = RF_OPT_TEXT, .to = to_, .arg = arg_, .help = __VA_ARGS__ \
	}
#define OPT_ENUM(name_, to_, words, ...) \
	{ \
		.name = name_, .kind = RF_OPT_ENUM, .to = to_, .arg = words, .help = __VA_ARGS__ \
	}
/* clang-format off */
#define OPT_LIST(name_, to_, arg_, ...) \
	{ .name = name_, .kind = RF_OPT_LIST, .to = to_, .arg = arg_, .help = __VA_ARGS__ }
#define OPT_END { .name = NULL }
/* clang-format on */

/* A table of n rows, and after them a row with a NULL name.  All zero: an empty table. */
enum { RF_OPTS_MOST = 40 };
struct rf_opts {
	int n;
	struct rf_opt row[RF_OPTS_MOST + 1];
};

/* Adds rows to the table, up to OPT_END. */
void rf_opts_add(struct rf_opts *opts, const struct rf_opt *rows);
/* Returns the row of this name, which the table must have. */
struct rf_opt *rf_opts_find(struct rf_opts *opts, const char *name);
/* Removes the rows whose long names are in `names`, separated by blanks. */
void rf_opts_remove(struct rf_opts *opts, const char *names);

/* Returns the index of s in `words`, such as "cpu|auto"; -1: s is not one of them. */
int rf_opt_index(const char *words, const char *s);

/* Returns the option's value as text of *n bytes, either in buf or, for TEXT and ENUM, where it already is.
 * NULL: the option has no value (a TEXT that is NULL, a REAL that is NaN, an ENUM of -1), or is a LIST, which
 * may have several.  digits: how many significant digits a real number gets; 6 suit a human reader, 17 are
 * exact. */
enum { RF_OPT_VALUE = 64 };
const char *rf_opt_value(const struct rf_opt *o, int digits, char buf[RF_OPT_VALUE], size_t *n);

#endif
