/* manifest.h -- RUN/manifest.json: the inputs, programs and machines that made a run.
 *
 * The file has lines of JSON, each an object with the keys `event`, `step`, `time` and `host`, and with parts
 * such as `words`, `device` and `libraries`.  The line of the event `begin` has all parts; it is written at
 * the first commit, before the step appears.  A line of the event `change` has those parts whose values
 * differ from the newest values in the lines before it.  No other file of a run has a time or the name of a
 * host. */
#ifndef RF_MANIFEST_H
#define RF_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define RF_MANIFEST "manifest.json"

/* Adds a line to the manifest of a run if a part or the host differs from the newest value in the existing
 * lines, or if no line exists yet.  The first line also gets the parts of `first` (NULL: none).  step: the
 * step of the commit that follows.  The file is replaced whole.  The caller holds the run's lock and keeps
 * both objects.  Errors: RF_EMODEL: the manifest is malformed; RF_EIO, RF_ENOMEM. */
enum rf_code rf_manifest_note(const char *run, const json_t *parts, const json_t *first, int64_t step,
                              struct rf_err *e);
/* Reads the lines into a list that the caller releases with json_decref(); without a manifest the list is
 * empty.  Errors: RF_EMODEL: a line is malformed or has a NUL byte, and the sentence has its number; RF_EIO,
 * RF_ENOMEM. */
enum rf_code rf_manifest_read(const char *run, json_t **lines, struct rf_err *e);
/* Returns an object with the host and the newest value of each part in the lines; NULL: out of memory.  The
 * caller releases it. */
json_t *rf_manifest_newest(const json_t *lines);

/* Reads the words that a loop began the run with (RUN/data/words, io/words.h): *words becomes an object of
 * texts, without the scripts, and *scripts a list of {file, bytes, xxh64}; both NULL: there is no such file.
 * The caller releases both, also after an error.  Errors: RF_EDATA: a line of the file is not NAME=VALUE;
 * RF_EIO, RF_ENOMEM. */
enum rf_code rf_manifest_words(const char *run, json_t **words, json_t **scripts, struct rf_err *e);
/* Makes an object of lines NAME=VALUE, which the caller releases; a line that begins with a blank continues
 * the value before, and empty lines are passed over.  Errors: RF_EDATA: a line is not NAME=VALUE;
 * RF_ENOMEM. */
enum rf_code rf_manifest_typed(const char *text, json_t **words, struct rf_err *e);
/* Sets a key of an object to a text; name and value are escaped if they are not UTF-8.  Returns false if
 * memory ran out. */
bool rf_manifest_set(json_t *o, const char *name, size_t name_len, const char *value, size_t n);

struct rf_ckpt;
/* Makes README.md for an export of a run's step: a model card for Hugging Face, from the run's manifest, its
 * words and the step's lines in its logs.  *text is malloc'd; NULL: the checkpoint is not a step, or its run
 * has no manifest.  Errors: those of rf_manifest_read(). */
enum rf_code rf_card(const struct rf_ckpt *c, char **text, struct rf_err *e);

#endif
