/* exchange.h -- what the ranks of a run have in device memory, and make one of: the sum of their gradients,
 * and with --shard optimizer the weights, of which each rank steps a part.
 *
 * All is collective (ranks.h), and nothing at all for a process that is alone.  It goes from device to
 * device, by NCCL, or through the hosts, by MPI and some megabytes at a time; the bits are the same.  After a
 * failure the ranks have parted, for the others are in the middle of it. */
#ifndef RF_EXCHANGE_H
#define RF_EXCHANGE_H

#include "device/dev.h"
#include "model/params.h"
#include "ranks/ranks.h"

/* --exchange.  AUTO: NCCL where all ranks have GPUs of their own and the library, else the hosts. */
enum rf_carrier { RF_CARRIER_AUTO, RF_CARRIER_HOST, RF_CARRIER_NCCL };
#define RF_CARRIER_WORDS "auto|host|nccl"

struct rf_exchange {
	enum rf_carrier carrier;
	struct rf_dev *dev;
	struct rf_ranks *ranks;
	const struct rf_params *params;
	bool parts;              /* each rank has a part (rf_params_part()); otherwise all have all */
	const struct rf_link *link; /* open: the devices are joined; NULL: through the hosts */
};

/* Joins the devices, if the carrier says so; the members above it must be set.  Errors: RF_EDEVICE: they
 * cannot be joined, but must; RF_EBUSY: the ranks cannot reach each other. */
enum rf_code rf_exchange_open(struct rf_exchange *x, struct rf_err *e);
void rf_exchange_close(struct rf_exchange *x);

/* x (params->total) becomes the sum of all ranks' x; with parts only this rank's part of it does, and the
 * rest is undefined. */
enum rf_code rf_exchange_sum(struct rf_exchange *x, rf_i64 sum, struct rf_err *e);
/* With parts: w (params->total), of which each rank has its part, becomes whole.  Otherwise nothing. */
enum rf_code rf_exchange_weights(struct rf_exchange *x, rf_f32 w, struct rf_err *e);
/* out becomes the numbers of all ranks, one for each tile (RF_DOT_TILE) of their parts, in order; mine: this
 * rank's.  Without parts it is a copy. */
enum rf_code rf_exchange_tiles(const struct rf_exchange *x, const double *mine, double *out,
                               struct rf_err *e);

#endif
