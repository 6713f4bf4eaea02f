/* opt.h -- one option of a program, as data.
 *
 * A module that has settings provides a table of them: an array of struct rf_opt whose last element has a
 * NULL name.  Two programs that share a module thus share its options, their --help texts and what the
 * stream's history records of them.  An option's default is whatever *to holds before the command line is
 * read. */
#ifndef RF_OPT_H
#define RF_OPT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum rf_opt_kind {
	RF_OPT_FLAG,  /* bool *      --name                                                  */
	RF_OPT_INT,   /* int *       a whole number in [min, max]; suffixes k, M: 2^10, 2^20 */
	RF_OPT_U64,   /* uint64_t *  0 .. 2^64-1                                             */
	RF_OPT_SIZE,  /* uint64_t *  bytes; suffixes k, M, G: 2^10, 2^20, 2^30               */
	RF_OPT_REAL,  /* double *    in [min, max], finite                                   */
	RF_OPT_PAIR,  /* double[2]   two reals "a,b", each in [min, max]                     */
	RF_OPT_TEXT,  /* const char ** any string that is not empty                          */
	RF_OPT_ENUM,  /* int * or pointer to an enum: index of a word in arg ("cpu|auto"); -1: none */
	RF_OPT_LIST,  /* struct rf_opt_list *  as TEXT, one more each time that it is given */
};

enum { RF_OPT_LISTED = 16 }; /* at most */
struct rf_opt_list { const char *s[RF_OPT_LISTED]; int n; };

struct rf_opt {
	const char *name;      /* the long name, without dashes */
	char letter;           /* the short name, or 0 */
	enum rf_opt_kind kind;
	void *to;              /* where the value goes; holds the default */
	double min, max;       /* for INT, REAL, PAIR */
	const char *arg;       /* metavariable for --help; for ENUM the words, separated by | */
	const char *help;      /* one line, lower case */
	unsigned noted;        /* bits below; false: none, true: RF_OPT_RESULT */
};

/* Where an option is recorded: in the stream's history because it changes results; not in a run's manifest
 * because it may differ from batch to batch, or changes no step. */
enum { RF_OPT_RESULT = 1, RF_OPT_OF_BATCH = 2 };

/* Copies a module's table into the caller's array `opts`.  The module's header fixes the number of rows, the
 * last one with the NULL name included; a table with any other number does not compile. */
#define RF_OPT_FILL(opts, table, rows) \
	do { \
		static_assert(sizeof(table) == (rows) * sizeof(struct rf_opt), \
		              "not as many options as the header says"); \
		memcpy(opts, table, sizeof(table)); \
	} while (0)

/* Takes options out of a table: those whose long names are in `names`, separated by blanks. */
void rf_opt_leave_out(struct rf_opt *table, const char *names);

/* The index of s among `words`, which look like "cpu|auto"; -1: it is none of them. */
int rf_opt_index(const char *words, const char *s);

/* Returns the option's value as text of *n bytes, either in buf or, for TEXT and ENUM, where it already is.
 * NULL: the option has no value (a TEXT that is NULL, a REAL that is NaN, an ENUM of -1), or is a LIST, which
 * may have several.  digits: how many significant digits a real number gets; 6 suit a human reader, 17 are
 * exact. */
enum { RF_OPT_VALUE = 64 };
const char *rf_opt_value(const struct rf_opt *o, int digits, char buf[RF_OPT_VALUE], size_t *n);

#endif
