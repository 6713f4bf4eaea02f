/* model.h -- a language model's weights on a device, and how its layers are made of them. */
#ifndef RF_MODEL_H
#define RF_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "dev.h"
#include "err.h"
#include "params.h"

struct rf_mixer;
struct rf_tree;
struct rf_pass;

/* A weight: offset into the flat buffers, and whether it is there. */
struct rf_weight { size_t at; bool there; int out, in; };

struct rf_layer {
	const struct rf_mixer *mixer;
	struct rf_weight attn_norm, mlp_norm, gate, up, down;
	union {
		struct { struct rf_weight proj[3], conv[3], b, g, norm, o; } delta;
		struct { struct rf_weight proj[3], bias[3], o; } attn;
	} w;
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

/* Binds the table to the layers and allocates on the device; the weights are not there yet.  cfg and params stay the
 * caller's and must outlive the model. */
enum rf_code rf_model_init(struct rf_model *m, struct rf_dev *dev, const struct rf_config *cfg, const struct rf_params *params,
                           bool train, struct rf_err *e);
/* The first half of it: m->layer (malloc'd) says where each weight is; nothing on the device. */
enum rf_code rf_model_bind(struct rf_model *m);
/* Device bytes that rf_model_init() takes. */
size_t rf_model_bytes(const struct rf_params *params, bool train);
/* Copies flat host buffers of params->total floats to the device (again, for a program that lives on). */
void rf_model_upload(struct rf_model *m, const float *flat);
void rf_model_free(struct rf_model *m);

struct rf_weight rf_model_weight(const struct rf_model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline rf_f32 rf_w(const struct rf_model *m, struct rf_weight w) { return w.there ? rf_at(m->w, w.at) : NULL; }
static inline rf_f32 rf_dw(const struct rf_model *m, struct rf_weight w) { return w.there ? rf_at(m->g, w.at) : NULL; }

/* y (rows, out) = x (rows, in) W' [+ y];  the backward pass: dW += dy' x, and dx = (or +=) dy W unless dx is NULL. */
void rf_linear_fwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x, rf_f32 y, bool add);
void rf_linear_bwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x, rf_f32 dy, rf_f32 dx, bool add);

#endif
