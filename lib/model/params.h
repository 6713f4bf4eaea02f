/* params.h -- the parameter table: every weight of a model, in one order, in one flat float32 buffer.
 *
 * It drives loading, initialisation, gradients, the optimizer, saving and rf-dump.  The order is that of the
 * names (strcmp), so that it does not depend on the code that builds the model.
 *
 * Each weight is declared once, by the code that uses it (model.c, the mixers): the first time that code runs
 * the table is collected, and from then on the same words say where the weight lies. */
#ifndef RF_PARAMS_H
#define RF_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/config.h"

enum rf_init_kind { RF_INIT_NORMAL, RF_INIT_ONE, RF_INIT_ZERO, RF_INIT_LOG, RF_INIT_RATE };

struct rf_param {
	char name[RF_MAX_NAME];
	int ndim;
	int shape[4];
	size_t count, offset;     /* floats; offset into the flat buffer, a multiple of 16 */
	bool decay;               /* weight decay applies */
	enum rf_init_kind init;
	double scale;             /* of RF_INIT_NORMAL the standard deviation */
	double low, high;         /* of RF_INIT_LOG and RF_INIT_RATE */
};

struct rf_params {
	struct rf_param *p;
	int n, room;
	bool sorted;              /* the table is whole */
	bool failed;              /* no memory for it */
	size_t total;             /* floats, padding (always 0) included */
	bool tied;                /* the head is the embedding (there is no lm_head.weight) */
};

/* A weight as the code holds that uses it: offset into the flat buffers, and whether the model has it. */
struct rf_weight { size_t at; bool there; int out, in; };
#define RF_NO_WEIGHT (struct rf_weight){ .there = false }

/* How a weight begins: normal with a standard deviation, all 1, all 0; the logarithm of a number between low
 * and high; what softplus makes a number between them of, whose logarithm is uniform.  The last three are
 * free of weight decay. */
#define RF_NORMAL(sd) (struct rf_initializer){ .init = RF_INIT_NORMAL, .scale = sd, .decay = true }
#define RF_ONE        (struct rf_initializer){ .init = RF_INIT_ONE, .decay = true }
#define RF_ZERO       (struct rf_initializer){ .init = RF_INIT_ZERO, .decay = true }
#define RF_FREE_ONE   (struct rf_initializer){ .init = RF_INIT_ONE }
#define RF_LOG(a, b)  (struct rf_initializer){ .init = RF_INIT_LOG, .low = a, .high = b }
#define RF_RATE(a, b) (struct rf_initializer){ .init = RF_INIT_RATE, .low = a, .high = b }
struct rf_initializer { enum rf_init_kind init; double scale; bool decay; double low, high; };

/* The weight of this name; its dimensions up to the first 0. */
struct rf_weight rf_params_weight(struct rf_params *t, struct rf_initializer begin, const int shape[4],
                                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Every weight was declared: puts them in order and says where each lies.  RF_ENOMEM. */
enum rf_code rf_params_whole(struct rf_params *t, struct rf_err *e);
const struct rf_param *rf_params_find(const struct rf_params *t, const char *name);
void rf_params_free(struct rf_params *t);

#endif
