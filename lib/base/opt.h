/* opt.h -- one option of a program, as data.
 *
 * A module that has settings offers a table of them (a struct rf_opt array that ends with a NULL name), so
 * that two programs that share a module share its options, its --help and what is recorded of them.  The
 * default is whatever *to holds before the command line is read. */
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
	RF_OPT_ENUM,  /* int *, or an enum's: the index of one of arg's words "cpu|auto"; -1: none */
};

struct rf_opt {
	const char *name;      /* the long name, without dashes */
	char letter;           /* the short one, or 0 */
	enum rf_opt_kind kind;
	void *to;              /* where the value goes; holds the default */
	double min, max;       /* of INT, REAL, PAIR */
	const char *arg;       /* metavariable for --help; of ENUM the words, separated by | */
	const char *help;      /* one line, lower case */
	bool result;           /* changes results, so it is recorded in the stream's history */
};

/* A table has as many rows as its header says, the last one's name NULL: a module fills the caller's with its
 * own, and one row too many does not compile. */
#define RF_OPT_FILL(opts, table, rows) \
	do { \
		static_assert(sizeof(table) == (rows) * sizeof(struct rf_opt), \
		              "not as many options as the header says"); \
		memcpy(opts, table, sizeof(table)); \
	} while (0)

/* The index of s among words like "cpu|auto"; -1: it is none of them. */
int rf_opt_index(const char *words, const char *s);

/* The value as text, *n bytes of it: written into buf, or where it stands (of TEXT, ENUM).  NULL: there is
 * none.  digits of a real: 6 as people read it, 17 exactly. */
enum { RF_OPT_VALUE = 64 };
const char *rf_opt_value(const struct rf_opt *o, int digits, char buf[RF_OPT_VALUE], size_t *n);

#endif
