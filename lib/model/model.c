/* model.c -- the weights that all models have (embedding, layers of a mixer and an MLP, final norm, head),
 * their memory on a device, and products by them. */
#include <stdlib.h>

#include "base/half.h"
#include "model/mixer.h"
#include "model/model.h"

/* Declares every weight, and keeps its place. */
static bool declare_weights(struct rf_params *t, const struct rf_config *c, struct rf_model *m)
{
	const char *root = c->names.root;
	const struct rf_initializer normal = RF_NORMAL(c->initializer_range),
				    matrix = RF_MATRIX(c->initializer_range),
				    one = c->norm_plus_one ? RF_ZERO : RF_ONE;

	m->embed =
		rf_params_weight(t, normal, (int[4]){ c->vocab, c->d }, "%s%s.weight", root, c->names.embed);
	m->norm = rf_params_weight(t, one, (int[4]){ c->d }, "%snorm.weight", root);
	m->head = t->tied ? m->embed
	                  : rf_params_weight(t, matrix, (int[4]){ c->vocab, c->d }, "lm_head.weight");
	for (int i = 0; i < c->layers; i++) {
		struct rf_layer *l = &m->layer[i];

		l->mixer = c->mixer[i];
		if (!l->w && !(l->w = calloc(1, l->mixer->weights_size)))
			return false;
		l->mixer->declare(t, c, i, l->w);
		l->mixer_norm = rf_params_weight(t, one, (int[4]){ c->d }, "%slayers.%d.%s.weight", root, i,
		                                 c->names.mixer_norm);
		l->mlp_norm = rf_params_weight(t, one, (int[4]){ c->d }, "%slayers.%d.%s.weight", root, i,
		                               c->names.mlp_norm);
		l->gate_up[0] = rf_params_weight(t, matrix, (int[4]){ c->ffn, c->d },
		                                 "%slayers.%d.mlp.gate_proj.weight", root, i);
		l->gate_up[1] = rf_params_weight(t, matrix, (int[4]){ c->ffn, c->d },
		                                 "%slayers.%d.mlp.up_proj.weight", root, i);
		l->down = rf_params_weight(t, matrix, (int[4]){ c->d, c->ffn },
		                           "%slayers.%d.mlp.down_proj.weight", root, i);
	}
	return true;
}

void rf_model_unbind(struct rf_model *m)
{
	for (int i = 0; m->layer && i < m->cfg->layers; i++)
		free(m->layer[i].w);
	free(m->layer);
	m->layer = NULL;
}

static enum rf_code bind_weights(struct rf_model *m, struct rf_params *t, struct rf_err *e)
{
	if ((m->layer = calloc((size_t)m->cfg->layers, sizeof *m->layer)) && declare_weights(t, m->cfg, m))
		return RF_OK;
	rf_model_unbind(m);
	return rf_fail(e, RF_ENOMEM, "out of memory (%d layers)", m->cfg->layers);
}

enum rf_code rf_model_bind(struct rf_model *m, struct rf_err *e)
{
	struct rf_params table = *m->params; /* a sorted table does not change */

	table.halved = m->halved;
	return bind_weights(m, &table, e);
}

enum rf_code rf_params_build(struct rf_params *t, const struct rf_config *cfg, bool tied, struct rf_err *e)
{
	struct rf_model m = { .cfg = cfg };
	enum rf_code rc;

	*t = (struct rf_params){ .tied = tied };
	if ((rc = bind_weights(&m, t, e)) == RF_OK)
		rc = rf_params_whole(t, e);
	rf_model_unbind(&m);
	return rc;
}

bool rf_model_halves(const struct rf_dev *dev, bool train)
{
	return !train && dev->math == RF_MATH_BF16 && dev->ops->halves;
}

size_t rf_model_bytes(const struct rf_params *params, const struct rf_span *train, bool halved)
{
	if (halved)
		return params->singles * 4 + params->halves * 2;
	return params->total * 4 * (train ? 2 : 1) + (train ? 2 * train->n * 4 : 0);
}

enum rf_code rf_model_init(struct rf_model *m, struct rf_dev *dev, const struct rf_config *cfg,
                           const struct rf_params *params, const struct rf_span *train, struct rf_err *e)
{
	size_t bytes = params->total * 4;

	*m = (struct rf_model){
		.dev = dev, .cfg = cfg, .params = params, .halved = rf_model_halves(dev, train)
	};
	if (rf_model_bind(m, e) != RF_OK)
		return RF_ENOMEM;
	m->w = dev->ops->alloc(dev, m->halved ? params->singles * 4 : bytes);
	if (m->halved && m->w)
		m->half = dev->ops->alloc(dev, params->halves * 2);
	if (train && m->w) {
		m->own = *train;
		m->g = dev->ops->alloc(dev, bytes);
		m->m = dev->ops->alloc(dev, train->n * 4);
		m->v = dev->ops->alloc(dev, train->n * 4);
	}
	if (!m->w || (m->halved && !m->half) || (train && (!m->g || !m->m || !m->v))) {
		rf_model_free(m);
		return rf_dev_sync(dev, e);
	}
	return RF_OK;
}

double rf_model_flops(const struct rf_model *m, int T, int heads)
{
	double n = 0, table = (double)m->cfg->vocab * m->cfg->d, all;

	for (int i = 0; i < m->params->n; i++)
		if (m->params->p[i].ndim == 2)
			n += (double)m->params->p[i].count;
	all = 2 * T * (n - table * (m->params->tied ? 1 : 2)) + 2 * heads * table;
	for (int l = 0; l < m->cfg->layers; l++)
		all += m->layer[l].mixer->flops(m->cfg, T);
	return all;
}

void rf_model_clear(struct rf_model *m)
{
	if (m->halved)
		m->dev->ops->zero(m->dev, m->half, m->params->halves * 2);
	m->dev->ops->zero(m->dev, m->w, (m->halved ? m->params->singles : m->params->total) * 4);
}

/* Returns the weight that has number `at` of the flat buffer, or the padding after the weight. */
static const struct rf_param *param_at(const struct rf_params *t, size_t at)
{
	int lo = 0, hi = t->n;

	while (hi - lo > 1) {
		const int mid = lo + (hi - lo) / 2;

		if (t->p[mid].offset <= at)
			lo = mid;
		else
			hi = mid;
	}
	return &t->p[lo];
}

/* Uploads n numbers, from the i-th on, of a weight that only products read. */
static void put_rounded(struct rf_model *m, const struct rf_param *p, size_t i, const float *from, size_t n)
{
	enum { PIECE = 1 << 15 };
	uint16_t half[PIECE];

	for (size_t k, at = 0; at < n; at += k) {
		k = n - at < PIECE ? n - at : PIECE;
		for (size_t j = 0; j < k; j++)
			half[j] = rf_f32_bf16(from[at + j]);
		m->dev->ops->upload(m->dev, (char *)m->half + (p->place + i + at) * 2, half, k * 2);
	}
}

void rf_model_put(struct rf_model *m, size_t at, const float *from, size_t n)
{
	if (!m->halved) {
		m->dev->ops->upload(m->dev, rf_at(m->w, at), from, n * 4);
		return;
	}
	for (size_t k; n; at += k, from += k, n -= k) {
		const struct rf_param *p = param_at(m->params, at), *end = m->params->p + m->params->n;
		const size_t i = at - p->offset, next = p + 1 < end ? p[1].offset : m->params->total;

		k = n < next - at ? n : next - at;
		if (i >= p->count)
			continue; /* padding */
		if (p->product)
			put_rounded(m, p, i, from, k < p->count - i ? k : p->count - i);
		else
			m->dev->ops->upload(m->dev, rf_at(m->w, p->place + i), from,
			                    (k < p->count - i ? k : p->count - i) * 4);
	}
}

void rf_model_free(struct rf_model *m)
{
	if (!m->dev)
		return;
	m->dev->ops->release(m->dev, m->w);
	m->dev->ops->release(m->dev, m->half);
	m->dev->ops->release(m->dev, m->g);
	m->dev->ops->release(m->dev, m->m);
	m->dev->ops->release(m->dev, m->v);
	rf_model_unbind(m);
	*m = (struct rf_model){ 0 };
}

void rf_linear_fwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x,
                   rf_f32 y, int ldy, bool add)
{
	RF_RUN(m->dev, gemm, .m = rows, .n = w.out, .k = w.in, .tb = true, .add = add, .weight = true,
	       .half = w.half, .a = x, .lda = w.in, .b = rf_w(m, w), .ldb = w.in, .c = y,
	       .ldc = ldy ? ldy : w.out, .bias = rf_w(m, bias));
}

void rf_linear_bwd(const struct rf_model *m, struct rf_weight w, struct rf_weight bias, int rows, rf_f32 x,
                   rf_f32 dy, int ldy, rf_f32 dx, bool add)
{
	ldy = ldy ? ldy : w.out;
	RF_RUN(m->dev, gemm, .m = w.out, .n = w.in, .k = rows, .ta = true, .add = true, .a = dy, .lda = ldy,
	       .b = x, .ldb = w.in, .c = rf_dw(m, w), .ldc = w.in);
	if (bias.there)
		RF_RUN(m->dev, colsum, .rows = rows, .d = w.out, .ldx = ldy, .x = dy, .y = rf_dw(m, bias));
	if (dx)
		RF_RUN(m->dev, gemm, .m = rows, .n = w.in, .k = w.out, .add = add, .weight = true, .a = dy,
		       .lda = ldy, .b = rf_w(m, w), .ldb = w.in, .c = dx, .ldc = w.in);
}

static struct rf_gemms products_of(const struct rf_model *m, const struct rf_weight *w, int parts, int rows)
{
	struct rf_gemms g = { .m = rows, .k = w->in, .parts = parts, .half = w->half };

	for (int i = 0; i < parts; i++) {
		g.b[i] = rf_w(m, w[i]);
		g.n[i] = w[i].out;
	}
	return g;
}

void rf_linears_fwd(const struct rf_model *m, const struct rf_weight *w, int parts, int rows, rf_f32 x,
                    rf_f32 y, int ldy, size_t stride)
{
	struct rf_gemms g = products_of(m, w, parts, rows);

	g.a = x;
	g.lda = w->in;
	g.c = y;
	g.ldc = ldy;
	g.stride = stride;
	m->dev->ops->gemms(m->dev, &g);
}

void rf_linears_bwd(const struct rf_model *m, const struct rf_weight *w, int parts, int rows, rf_f32 x,
                    rf_f32 dy, int ldy, size_t stride, rf_f32 dx, bool add)
{
	struct rf_gemms g = products_of(m, w, parts, rows);
	size_t at = 0;

	g.back = true;
	g.add = add;
	g.a = dy;
	g.lda = ldy;
	g.c = dx;
	g.ldc = w->in;
	g.stride = stride;
	m->dev->ops->gemms(m->dev, &g);
	for (int i = 0; i < parts; at += stride ? stride : (size_t)w[i].out, i++)
		rf_linear_bwd(m, w[i], RF_NO_WEIGHT, rows, x, rf_at(dy, at), ldy, NULL, false);
}
