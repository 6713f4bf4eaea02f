/* err.h -- how the library reports failure.
 *
 * A function that can fail returns an enum rf_code.  If its caller passes a struct rf_err, the function also
 * stores one sentence there.  The sentence is lower case, has no full stop, quotes its subject, and says what
 * is wrong and what to do about it.  Nothing in lib/ or kernels/ prints or exits, except cli.c, cli_model.c,
 * cli_stage.c and progress.c, which only tools call, and the processes that proc/ forks. */
#ifndef RF_ERR_H
#define RF_ERR_H

#include <stddef.h>

enum rf_code {
	RF_OK = 0,
	RF_EOF,      /* the input ended, a stream with its end record; not an error */
	RF_EUSAGE,   /* the command line is wrong */
	RF_EDATA,    /* a stream or text is malformed or truncated, or does not match what is needed */
	RF_ENOINPUT, /* an input does not exist or cannot be opened */
	RF_EDEVICE,  /* the device does not exist, or it failed */
	RF_ENUMERIC, /* NaN, infinity, or a bug in these programs */
	RF_ENOMEM,   /* memory ran out, or a limit would be exceeded */
	RF_EIO,      /* a read or write failed; the sentence says why (errno) */
	RF_EBUSY,    /* another process holds the lock: try again */
	RF_EMODEL,   /* a model, config or checkpoint is invalid */
};

struct rf_err {
	enum rf_code code;
	/* a sentence; if a checkpoint does not match its config: the list of all names that do not match */
	char msg[4096];
};

/* Stores code and the formatted sentence in e, which may be NULL.  Returns code. */
enum rf_code rf_fail(struct rf_err *e, enum rf_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Prepends the formatted text and ": " to e's sentence.  Returns e's code, or RF_ENUMERIC if e is NULL. */
enum rf_code rf_blame(struct rf_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns the exit status (sysexits.h) for a code. */
int rf_exit_status(enum rf_code code);
/* Returns the code for a status; RF_EBUSY if no code has that status. */
enum rf_code rf_exit_code(int status);

/* Writes the n bytes of s into buf as printable ASCII: other bytes become \n or \xNN, and "..." marks text
 * that was cut to fit.  Returns buf.  Every string from a file goes through here before it reaches a terminal
 * in a message. */
char *rf_quote(char *buf, size_t size, const void *s, size_t n);

#endif
