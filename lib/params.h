/* params.h -- the parameter table: every weight of a model, in one order, in one flat float32 buffer.
 *
 * It drives loading, initialisation, gradients, the optimizer, saving and rf-dump.  The order is that of the names
 * (strcmp), so that it does not depend on the code that builds the model. */
#ifndef RF_PARAMS_H
#define RF_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"

enum rf_init_kind { RF_INIT_NORMAL, RF_INIT_ONE, RF_INIT_ZERO };

struct rf_param {
	char name[120];
	int ndim;
	int shape[4];
	size_t count, offset;     /* floats; offset into the flat buffer, a multiple of 16 */
	bool decay;               /* weight decay applies */
	enum rf_init_kind init;
	double scale;             /* of RF_INIT_NORMAL the standard deviation */
};

struct rf_params {
	struct rf_param *p;
	int n;
	size_t total;             /* floats, padding (always 0) included */
	bool tied;
	bool others;              /* a checkpoint may hold tensors that are not the model's: they are carried along */
};

/* tied: the head is the embedding (there is no lm_head.weight). */
enum rf_code rf_params_build(struct rf_params *t, const struct rf_config *cfg, bool tied, struct rf_err *e);
const struct rf_param *rf_params_find(const struct rf_params *t, const char *name);
void rf_params_free(struct rf_params *t);

#endif
