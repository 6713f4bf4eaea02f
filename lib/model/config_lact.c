/* config_lact.c -- LaCT's config as its published code writes and reads it, with its defaults. */
#include <stdint.h>

#include "model/config_read.h"
#include "model/mixer.h"

/* Refuses keys that would change the mathematics in ways that are not supported. */
static void refuse_unsupported(struct rf_config_reader *r)
{
	if (rf_config_whole(r, "lr_dim", 1, INT32_MIN, INT32_MAX) != 1)
		rf_config_bad(r, "lr_dim", "1: nothing else is supported");
	rf_config_word(r, "lr_parameterization", "mamba");
	rf_config_word(r, "ttt_loss_type", "dot_product");
	rf_config_only(r, "elementwise_affine", true);
	rf_config_absent(r, "rope_scaling");
	rf_config_absent(r, "rms_norm_eps");
	rf_config_absent(r, "attn"); /* softmax attention instead of some layers */
	/* these keys change how the results are computed, not the results */
	rf_config_take(r, "use_fused_kernel");
	rf_config_take(r, "fp32_states");
	rf_config_take(r, "last_layer_fuse_norm");
}

static void read_attention(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_attn_config *a = &cfg->attn;

	a->heads = a->kv_heads = rf_config_whole(r, "num_attn_heads", 32, 1, RF_MAX_WIDTH);
	if (cfg->d % a->heads || cfg->d / a->heads % 2)
		rf_config_bad(r, "num_attn_heads",
		              "a divisor of hidden_size that leaves heads of even width");
	a->D = a->rotary = cfg->d / a->heads;
	a->qkv_bias = rf_config_flag(r, "qkv_bias", false);
	if (json_is_null(json_object_get(r->left, "window_size")))
		rf_config_take(r, "window_size"); /* no limit */
	else
		a->window = rf_config_whole(r, "window_size", 2048, 1, INT32_MAX);
	rf_config_null(r, "rope_theta");
	a->theta = rf_config_real(r, "rope_theta", 10000, 1e-3, 1e12);
}

static void read_fast_weights(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_lact_config *c = &cfg->lact;
	double hidden;

	c->heads = rf_config_whole(r, "num_lact_heads", 4, 1, RF_MAX_WIDTH);
	if (cfg->d % c->heads)
		rf_config_bad(r, "num_lact_heads", "a divisor of hidden_size");
	c->D = cfg->d / c->heads;
	hidden = c->D * rf_config_real(r, "inter_multi", 1, 1e-6, RF_MAX_WIDTH);
	if (hidden < 1 || hidden * c->heads > RF_MAX_WIDTH)
		rf_config_bad(r, "inter_multi",
		              "such that the fast weights' hidden width is at least 1, and at most 1048576 "
		              "over all heads");
	else
		c->E = (int)hidden;
	c->chunk = rf_config_whole(r, "lact_chunk_size", 2048, 1, INT32_MAX);
	c->rank = rf_config_whole(r, "w0_w2_low_rank", -1, -1, RF_MAX_WIDTH);
	c->rank = c->rank < 0 ? 0 : c->rank;
	if (c->rank > c->D)
		rf_config_bad(r, "w0_w2_low_rank", "at most the width of a head of num_lact_heads");
	c->silu = c->v_silu = rf_config_flag(r, "qkv_silu", true);
	if (rf_config_flag(r, "no_v_silu", false))
		c->v_silu = false;
	c->qk_norm = rf_config_flag(r, "attn_qk_norm", false);
	c->rotated = !rf_config_flag(r, "ttt_nope", false);
	c->muon = rf_config_flag(r, "use_muon", false);
	c->momentum = rf_config_flag(r, "use_momentum", true);
	c->prenorm = rf_config_flag(r, "ttt_prenorm", false);
	c->scale = rf_config_flag(r, "learnable_ttt_scale", true);
	c->gain = rf_config_real(r, "fw_init_gain", 0.5, 0, 1e3);
}

void rf_config_lact(struct rf_config_reader *r, struct rf_config *cfg)
{
	bool given = json_object_get(r->left, "initializer_range");

	cfg->d = rf_config_whole(r, "hidden_size", 2048, 1, RF_MAX_WIDTH);
	rf_config_layers(r, cfg, 24, &rf_mixer_lact);
	if (r->rc != RF_OK)
		return;
	rf_config_common(r, cfg, 32000, 2);
	if (!given)
		cfg->initializer_range = 0.006;
	cfg->names = (struct rf_names){ "model.", "embeddings", "attn_norm", "mlp_norm", "attn", NULL };
	cfg->norm_eps = rf_config_real(r, "norm_eps", 1e-6, 0, 1);
	rf_config_mlp(r, cfg);
	read_attention(r, cfg);
	read_fast_weights(r, cfg);
	refuse_unsupported(r);
}
