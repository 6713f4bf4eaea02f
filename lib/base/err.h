/* err.h -- how the library reports failure.
 *
 * A function that can fail returns an enum rf_code and, given a struct rf_err,
 * leaves one sentence in it: lower case, no full stop, the subject quoted, what
 * is wrong and what to do.  Nothing in lib/ or kernels/ prints or exits, except
 * cli.c, cli_model.c, cli_stage.c and progress.c, which only tools call. */
#ifndef RF_ERR_H
#define RF_ERR_H

#include <stddef.h>

enum rf_code {
	RF_OK = 0,
	RF_EOF,      /* the stream ended, with its end record; not an error */
	RF_EUSAGE,   /* the command line is wrong */
	RF_EDATA,    /* a stream or text is bad, truncated, or does not fit */
	RF_ENOINPUT, /* an input is not there */
	RF_EDEVICE,  /* the device is not there, or failed */
	RF_ENUMERIC, /* NaN, Inf, or one of our own bugs */
	RF_ENOMEM,   /* memory ran out, or a limit would be passed */
	RF_EIO,      /* read or write failed; errno is in the sentence */
	RF_EBUSY,    /* someone else holds the lock: try again */
	RF_EMODEL,   /* a model, config or checkpoint is bad */
};

struct rf_err {
	enum rf_code code;
	/* a sentence; where a checkpoint does not fit its config, the list of all names that do not */
	char msg[4096];
};

/* Stores code and the formatted sentence in e (which may be NULL); returns code. */
enum rf_code rf_fail(struct rf_err *e, enum rf_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of e's sentence; returns e's code.  Where e is NULL the code is lost:
 * RF_ENUMERIC. */
enum rf_code rf_blame(struct rf_err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The exit status (sysexits.h) that stands for a code. */
int rf_exit_status(enum rf_code code);

/* Writes at most n bytes of s as printable ASCII into buf (escapes for the rest, "..." when cut)
 * and returns buf: every string from a file goes through here before it reaches a terminal. */
char *rf_quote(char *buf, size_t size, const void *s, size_t n);

#endif
