/* model.h -- a language model's weights on a device, and how its layers are made of them. */
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
	void *w;                     /* the mixer's weights, of a type of its own */
	struct rf_weight mixer_norm, mlp_norm, gate, up, down;
};

struct rf_model {
	struct rf_dev *dev;
	const struct rf_config *cfg;
	const struct rf_params *params;
	struct rf_layer *layer;      /* (cfg->layers) */
	struct rf_weight embed, norm, head;
	rf_f32 w;                    /* all weights, params->total floats */
	rf_f32 g;                    /* their gradient, NULL unless it is trained */
	rf_f32 m, v;                 /* the optimizer's moments, likewise */
};

/* The table of a model's weights.  tied: the head is the embedding, there is no lm_head.weight. */
enum rf_code rf_params_build(struct rf_params *t, const struct rf_config *cfg, bool tied, struct rf_err *e);

/* Says where each weight is and allocates on the device; the weights are not there yet.  cfg and params stay
 * the caller's and must outlive the model. */
enum rf_code rf_model_init(struct rf_model *m, struct rf_dev *dev, const struct rf_config *cfg,
                           const struct rf_params *params, bool train, struct rf_err *e);
/* The first half of it: m->layer says where each weight is; nothing on the device. */
enum rf_code rf_model_bind(struct rf_model *m, struct rf_err *e);
void rf_model_unbind(struct rf_model *m);
/* Multiplications and additions of the forward pass of a bound model over a text of T rows, and of its head
 * over so many of them: those of matrix products and of the mixers. */
double rf_model_flops(const struct rf_model *m, int T, int heads);
/* Device bytes that rf_model_init() takes. */
size_t rf_model_bytes(const struct rf_params *params, bool train);
/* Copies flat host buffers of params->total floats to the device (again, for a program that lives on). */
void rf_model_upload(struct rf_model *m, const float *flat);
void rf_model_free(struct rf_model *m);

static inline rf_f32 rf_w(const struct rf_model *m, struct rf_weight w)
{
	return w.there ? rf_at(m->w, w.at) : NULL;
}
static inline rf_f32 rf_dw(const struct rf_model *m, struct rf_weight w)
{
	return w.there ? rf_at(m->g, w.at) : NULL;
}

/* y (rows, out) = x (rows, in) W' [+ y], rows of y ldy floats apart (0: out);  the backward pass: dW += dy'
 * x, and dx = (or +=) dy W unless dx is NULL. */
void rf_linear_fwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x,
                   rf_f32 y, int ldy, bool add);
void rf_linear_bwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x,
                   rf_f32 dy, int ldy, rf_f32 dx, bool add);

#endif
