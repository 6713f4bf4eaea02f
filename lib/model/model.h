/* model.h -- a language model's weights on a device, and the layers that use them. */
#ifndef RF_MODEL_H
#define RF_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "device/dev.h"
#include "model/config.h"
#include "model/params.h"

struct rf_mixer;
struct rf_tree;
struct rf_pass;

struct rf_layer {
	const struct rf_mixer *mixer;
	void *w; /* the mixer's weights, of the mixer's own type */
	struct rf_weight mixer_norm, mlp_norm, gate_up[2], down;
};

struct rf_model {
	struct rf_dev *dev;
	const struct rf_config *cfg;
	const struct rf_params *params;
	struct rf_layer *layer; /* (cfg->layers) */
	struct rf_weight embed, norm, head;
	rf_f32 w;           /* all weights, params->total floats; halved: params->singles floats */
	void *half;         /* halved: the other weights, params->halves numbers in bf16 */
	bool halved;        /* weights that only products read are in bf16 */
	rf_f32 g;           /* gradients of the weights; NULL unless the model is trained */
	struct rf_span own; /* the weights whose moments are here: all, or some */
	rf_f32 m, v;        /* moments of these weights, own.n floats each; NULL likewise */
};

/* Builds the table of a model's weights.  tied: the head is the embedding, and there is no lm_head.weight. */
enum rf_code rf_params_build(struct rf_params *t, const struct rf_config *cfg, bool tied, struct rf_err *e);

/* Finds the place of each weight and allocates device memory for all of them, but loads no values.  train:
 * the part of the weights whose moments are kept here; then there is memory for the gradients too; NULL: the
 * model is not trained.  The caller keeps cfg and params, which must outlive the model. */
enum rf_code rf_model_init(struct rf_model *m, struct rf_dev *dev, const struct rf_config *cfg,
                           const struct rf_params *params, const struct rf_span *train, struct rf_err *e);
/* The first half of rf_model_init(): finds the place of each weight, without touching the device. */
enum rf_code rf_model_bind(struct rf_model *m, struct rf_err *e);
void rf_model_unbind(struct rf_model *m);
/* Returns the multiplications and additions of the matrix products and mixers in the forward pass of a bound
 * model over T rows, with the head applied to `heads` of them. */
double rf_model_flops(const struct rf_model *m, int T, int heads);
/* Returns whether a model on this device keeps the weights that only products read in bf16.  A model that is
 * trained does not. */
bool rf_model_halves(const struct rf_dev *dev, bool train);
/* Returns the bytes of device memory that rf_model_init() allocates. */
size_t rf_model_bytes(const struct rf_params *params, const struct rf_span *train, bool halved);
/* Copies n numbers of the weights, from the at-th on, from the host to the device. */
void rf_model_put(struct rf_model *m, size_t at, const float *from, size_t n);
/* Sets all weights to 0. */
void rf_model_clear(struct rf_model *m);
void rf_model_free(struct rf_model *m);

/* Return the address of a weight, and of its gradient; NULL if the model does not have the weight.  If
 * w.half, the caller must tell the operation that the weight is in bf16. */
static inline rf_f32 rf_w(const struct rf_model *m, struct rf_weight w)
{
	if (w.half)
		return (rf_f32)(void *)((char *)m->half + w.at * 2);
	return w.there ? rf_at(m->w, w.at) : NULL;
}
static inline rf_f32 rf_dw(const struct rf_model *m, struct rf_weight w)
{
	return w.there ? rf_at(m->g, w.at) : NULL;
}

/* _fwd: computes y (rows, out) = (add: +=) x (rows, in) W' + bias.  ldy: floats from one row of y to the
 * next; 0: out. bias may be RF_NO_WEIGHT.  _bwd: computes dW += dy' x, dbias += the sum of the rows of dy,
 * and, unless dx is NULL, dx = (add: +=) dy W. */
void rf_linear_fwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x,
                   rf_f32 y, int ldy, bool add);
void rf_linear_bwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x,
                   rf_f32 dy, int ldy, rf_f32 dx, bool add);
/* Do the same with `parts` weights, at most RF_SIDE, that multiply the same rows, without a bias.  stride 0:
 * the results are adjacent columns of y (rows, the sum of their outs); else each result is a matrix of its
 * own, and `stride` is the number of floats from one matrix to the next. */
void rf_linears_fwd(const struct rf_model *m, const struct rf_weight *w, int parts, int rows, rf_f32 x,
                    rf_f32 y, int ldy, size_t stride);
void rf_linears_bwd(const struct rf_model *m, const struct rf_weight *w, int parts, int rows, rf_f32 x,
                    rf_f32 dy, int ldy, size_t stride, rf_f32 dx, bool add);

#endif
