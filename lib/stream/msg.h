/* msg.h -- checks untrusted msgpack in bounded memory, and converts a message to JSON and back.
 *
 * The reader of msgpack-c trusts the lengths it finds (5 bytes can make it ask for 12 GiB).  So messages are
 * read with the cursor of pack.h, after they have passed rf_msg_check(). */
#ifndef RF_MSG_H
#define RF_MSG_H

#include <stddef.h>

#include "base/err.h"

enum { RF_MSG_DEPTH = 8, RF_MSG_NODES = 100000 };

/* Checks that n bytes are exactly one msgpack object: it has only known types (no ext), at most RF_MSG_NODES
 * values nested at most RF_MSG_DEPTH deep, no count or length beyond the bytes left, UTF-8 strings, finite
 * floats, and maps whose keys are distinct strings without NUL.  Errors: RF_EDATA; the sentence says at which
 * byte. */
enum rf_code rf_msg_check(const void *msg, size_t n, struct rf_err *e);

/* Writes one message as a line of JSON, {"seq":0,"type":"head","body":{...}}.  *line is malloc'd, without a
 * newline, and a NUL follows its *len bytes.  The order of keys and the difference between integers and
 * floats survive; rf_msg_from_json() gives back the same bytes.  Errors: RF_EDATA: msg is not a valid
 * message; RF_ENOMEM. */
enum rf_code rf_msg_to_json(const void *msg, size_t n, char **line, size_t *len, struct rf_err *e);

/* Converts one line to a msgpack object, malloc'd into *msg, that passes rf_msg_check(): the inverse of
 * rf_msg_to_json().  The line may come from anywhere.  Errors: RF_EDATA, RF_ENOMEM. */
enum rf_code rf_msg_from_json(const char *line, size_t len, void **msg, size_t *n, struct rf_err *e);

/* Write a record or a head as rf_msg_to_json() does, but without "seq" (for --exec):
 * {"type":"seq","body":{...}}, {"type":"head","body":{...}}. */
struct rf_record;
struct rf_head;
enum rf_code rf_record_to_json(const struct rf_record *r, char **line, size_t *len, struct rf_err *e);
enum rf_code rf_head_to_json(const struct rf_head *h, char **line, size_t *len, struct rf_err *e);

#endif
