/* msg.h -- msgpack without surprises: a checker that allocates nothing, and the JSON form of a message.
 *
 * msgpack-c trusts the lengths it reads (5 bytes can ask it for 12 GiB), so bytes from outside pass
 * rf_msg_check() before msgpack_unpack_next() sees them. */
#ifndef RF_MSG_H
#define RF_MSG_H

#include <stddef.h>

#include "base/err.h"

enum { RF_MSG_DEPTH = 8, RF_MSG_NODES = 100000 };

/* Exactly one object in n bytes: known types (no ext), depth <= RF_MSG_DEPTH, counts and lengths <=
 * the bytes left, at most RF_MSG_NODES nodes, strings UTF-8, map keys strings without doubles.
 * RF_EDATA says at which byte. */
enum rf_code rf_msg_check(const void *msg, size_t n, struct rf_err *e);

/* One message as a line of JSON (without newline), malloc'd into *line:
 * {"seq":0,"type":"head","body":{...}}.  Key order and the difference between integers and floats
 * survive; rf_msg_from_json() gives back the same bytes. */
enum rf_code rf_msg_to_json(const void *msg, size_t n, char **line, size_t *len, struct rf_err *e);

/* The inverse: the msgpack object of one line, malloc'd into *msg.  Whatever a line claims is checked. */
enum rf_code rf_msg_from_json(const char *line, size_t len, void **msg, size_t *n, struct rf_err *e);

/* A record as one line of JSON, as rf-dump --json prints it but for "seq" (for --exec). */
struct rf_record;
enum rf_code rf_record_to_json(const struct rf_record *r, char **line, size_t *len, struct rf_err *e);

#endif
