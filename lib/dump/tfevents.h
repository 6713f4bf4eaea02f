/* tfevents.h -- the figures of runs as event files, which TensorBoard and other trackers read.
 *
 * A run NAME has TO/NAME/train, from its log.jsonl, and TO/NAME/eval, from its eval.jsonl.  Each number of a
 * line becomes a scalar with the name of its key.
 *
 * An event file is a list of records: the length of the data (8 bytes), its checksum, the data, their
 * checksum; all little-endian.  The data are a protobuf message Event, of which four fields are used.
 * Source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto and
 * tensorflow/core/framework/summary.proto. */
#ifndef RF_TFEVENTS_H
#define RF_TFEVENTS_H

#include <stdbool.h>

#include "base/err.h"

/* Writes the event files of n runs, and replaces files that an earlier call wrote.  follow: then waits for
 * new lines of the runs, and appends their events, until the process is ended.  A line without its newline is
 * not complete and waits.  Errors: RF_ENOINPUT: a run has no log; RF_EUSAGE: two runs have the same name;
 * RF_EDATA: a line is not a JSON object with a step; RF_EIO, RF_ENOMEM. */
enum rf_code rf_tfevents(const char *to, const char *const *runs, int n, bool follow, struct rf_err *e);

#endif
