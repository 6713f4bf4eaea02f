/* exchange.h -- adds up the gradients of all ranks in device memory, and gathers the weights if each rank
 * updates a part of them (--shard optimizer).
 *
 * All functions are collective (ranks.h), and do nothing for a single process.  Data goes from device to
 * device with NCCL, or through the hosts with MPI, some megabytes at a time; both give the same bits.  After
 * a failure the ranks have parted, because the other ranks are in the middle of an exchange. */
#ifndef RF_EXCHANGE_H
#define RF_EXCHANGE_H

#include "device/dev.h"
#include "model/params.h"
#include "ranks/ranks.h"

/* --exchange.  AUTO: NCCL if each rank has its own GPU and the library, otherwise through the hosts. */
enum rf_carrier { RF_CARRIER_AUTO, RF_CARRIER_HOST, RF_CARRIER_NCCL };
#define RF_CARRIER_WORDS "auto|host|nccl"

struct rf_exchange {
	enum rf_carrier carrier;
	struct rf_dev *dev;
	struct rf_ranks *ranks;
	const struct rf_params *params;
	bool parts;                 /* each rank updates a part of the weights (rf_params_part()) */
	const struct rf_link *link; /* the link between the devices; NULL: data goes through the hosts */
};

/* Joins the devices, if the carrier allows it.  The members before `link` must be set.  Errors: RF_EDEVICE:
 * the devices cannot be joined, but --exchange nccl requires it; RF_EBUSY: the ranks cannot reach each
 * other. */
enum rf_code rf_exchange_open(struct rf_exchange *x, struct rf_err *e);
void rf_exchange_close(struct rf_exchange *x);

/* Replaces sum (params->total numbers) by its sum over all ranks.  With parts only this rank's part becomes
 * the sum, and the rest is undefined. */
enum rf_code rf_exchange_sum(struct rf_exchange *x, rf_i64 sum, struct rf_err *e);
/* With parts: fetches the parts of w (params->total numbers) that other ranks have.  Otherwise does
 * nothing. */
enum rf_code rf_exchange_weights(struct rf_exchange *x, rf_f32 w, struct rf_err *e);
/* Gathers one number for each tile (RF_DOT_TILE) of the weights.  mine: the numbers for the tiles of this
 * rank's part; out: those of all tiles, in order.  Without parts it copies them. */
enum rf_code rf_exchange_tiles(const struct rf_exchange *x, const double *mine, double *out,
                               struct rf_err *e);

#endif
