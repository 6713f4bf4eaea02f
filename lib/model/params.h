/* params.h -- the parameter table: every weight of a model, in one order, in one flat float32 buffer.  For a
 * model that is not trained, a device may keep the weights that only products read in bf16, in a second
 * buffer.
 *
 * Loading, initialisation, gradients, the optimizer, saving and rf-dump all follow this table.  It is sorted
 * by name (strcmp), so its order does not depend on the code that builds the model.
 *
 * Each weight is declared once, by the code that uses it (model.c, the mixers).  That code runs twice: the
 * first time its declarations fill the table; once the table is sorted, the same declarations return where
 * each weight lies. */
#ifndef RF_PARAMS_H
#define RF_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/config.h"

enum rf_init_kind { RF_INIT_NORMAL, RF_INIT_ONE, RF_INIT_ZERO, RF_INIT_LOG, RF_INIT_RATE };

struct rf_param {
	char name[RF_MAX_NAME];
	int ndim;
	int shape[4];
	size_t count, offset; /* floats; offset in the flat buffer, a multiple of 16 */
	bool decay;           /* weight decay applies */
	bool f32;             /* float32 in files of any type */
	bool product;         /* only products read it */
	size_t place;         /* offset in its buffer, if there are two */
	enum rf_init_kind init;
	double scale;     /* the standard deviation of RF_INIT_NORMAL */
	double low, high; /* for RF_INIT_LOG and RF_INIT_RATE */
};

struct rf_params {
	struct rf_param *p;
	int n, room;
	bool sorted;            /* rf_params_whole() has run */
	bool failed;            /* a declaration ran out of memory */
	size_t total;           /* floats, including the padding, which is always 0 */
	size_t halves, singles; /* numbers in the buffer of products' weights, and of the others */
	bool halved;            /* declarations return places in these two */
	bool tied;              /* the head is the embedding (there is no lm_head.weight) */
};

/* A range of the flat buffer: numbers first .. first + n - 1. */
struct rf_span {
	size_t first, n;
};

/* A reference to a weight: its offset in the flat buffers, and whether the model has it.  half: it is in the
 * buffer of weights that only products read. */
/* clang-format off */
struct rf_weight { size_t at; bool there; int out, in; bool half; };
#define RF_NO_WEIGHT (struct rf_weight){ .there = false }

/* The initial values of a weight:
 *     RF_NORMAL    normal with standard deviation sd
 *     RF_MATRIX    the same, for a matrix that only products read
 *     RF_ONE       1
 *     RF_ZERO      0
 *     RF_FREE_ONE  1, without weight decay
 *     RF_LOG       ln x, x uniform in (a, b]; without weight decay
 *     RF_RATE      w with softplus(w) = x, ln x uniform from ln a to ln b; without weight decay */
#define RF_NORMAL(sd) (struct rf_initializer){ .init = RF_INIT_NORMAL, .scale = sd, .decay = true }
#define RF_MATRIX(sd) (struct rf_initializer){ .init = RF_INIT_NORMAL, .scale = sd, .decay = true, \
                                               .product = true }
#define RF_ONE        (struct rf_initializer){ .init = RF_INIT_ONE, .decay = true }
#define RF_ZERO       (struct rf_initializer){ .init = RF_INIT_ZERO, .decay = true }
#define RF_FREE_ONE   (struct rf_initializer){ .init = RF_INIT_ONE }
#define RF_LOG(a, b)  (struct rf_initializer){ .init = RF_INIT_LOG, .low = a, .high = b }
#define RF_RATE(a, b) (struct rf_initializer){ .init = RF_INIT_RATE, .low = a, .high = b }
struct rf_initializer { enum rf_init_kind init; double scale; bool decay; double low, high;
                        bool f32, product; };
/* clang-format on */

/* Declares a weight.  shape ends at the first 0; fmt makes the name.  Adds the weight to a table that is not
 * yet sorted; returns the place of the weight in a sorted table, which must have it. */
struct rf_weight rf_params_weight(struct rf_params *t, struct rf_initializer init, const int shape[4],
                                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Call it when every weight has been declared: sorts the table and gives each weight its offset.  Errors:
 * RF_ENOMEM: a declaration ran out of memory. */
enum rf_code rf_params_whole(struct rf_params *t, struct rf_err *e);
/* Returns the i-th of `parts` parts.  The parts have whole tiles of the sum of products (RF_DOT_TILE), and
 * are otherwise as equal as possible; in a small model some parts are empty. */
struct rf_span rf_params_part(const struct rf_params *t, int i, int parts);
/* Returns the numbers of from .. from + n - 1 that are in the part; n = 0: none. */
struct rf_span rf_span_of(const struct rf_span *part, size_t from, size_t n);
/* Returns the bytes of all weights in a file where each number has `size` bytes, or 4 if it is float32 in any
 * file. */
uint64_t rf_params_bytes(const struct rf_params *t, int size);
/* Returns the weight of this name, or NULL. */
const struct rf_param *rf_params_find(const struct rf_params *t, const char *name);
void rf_params_free(struct rf_params *t);

#endif
