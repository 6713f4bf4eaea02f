/* manifest_text.h -- the manifest of a run as text. */
#ifndef RF_MANIFEST_TEXT_H
#define RF_MANIFEST_TEXT_H

#include <jansson.h>

#include "base/print.h"

enum { RF_CKPT_LABEL = 11 }; /* columns of the labels of a checkpoint's text */

/* Appends the lines of a manifest (NULL: none), in lines of at most `width` columns. */
void rf_manifest_text(const json_t *lines, int width, struct rf_buf *p);

#endif
