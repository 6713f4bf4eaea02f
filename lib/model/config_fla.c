/* config_fla.c -- the configs of DeltaNet and Gated DeltaNet as flash-linear-attention writes and reads them,
 * with its defaults. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/config_read.h"
#include "model/mixer.h"

enum { MAX_CONV = 64 };

/* Reads `attn`: the layers that have softmax attention, and its options. */
static void read_attn(struct rf_config_reader *top, struct rf_config *cfg)
{
	struct rf_attn_config *a = &cfg->attn;
	json_t *object = rf_config_take(top, "attn"), *list, *v;
	struct rf_config_reader r = { NULL, "attn.", top->e, RF_OK };
	size_t i;

	if (!object || json_is_null(object) || top->rc != RF_OK)
		return;
	if (!json_is_object(object)) {
		rf_config_bad(top, "attn", "an object or null");
		return;
	}
	if (!(r.left = json_copy(object))) {
		top->rc = rf_fail(r.e, RF_ENOMEM, "out of memory");
		return;
	}
	list = rf_config_take(&r, "layers");
	if (!json_is_array(list))
		rf_config_bad(&r, "layers", "a list of layers");
	json_array_foreach (list, i, v)
		if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < cfg->layers)
			cfg->mixer[json_integer_value(v)] = &rf_mixer_attention;
		else
			rf_config_bad(&r, "layers", "layers of the model, counted from 0");

	if (!json_object_get(r.left, "num_heads"))
		rf_config_bad(&r, "num_heads", "given");
	a->heads = rf_config_whole(&r, "num_heads", 1, 1, RF_MAX_WIDTH);
	if (cfg->d % a->heads || cfg->d / a->heads % 2)
		rf_config_bad(&r, "num_heads", "a divisor of hidden_size that leaves heads of even width");
	rf_config_null(&r, "num_kv_heads");
	a->D = a->rotary = cfg->d / a->heads;
	a->kv_heads = rf_config_whole(&r, "num_kv_heads", a->heads, 1, RF_MAX_WIDTH);
	if (a->heads % a->kv_heads)
		rf_config_bad(&r, "num_kv_heads", "a divisor of attn.num_heads");
	a->qkv_bias = rf_config_flag(&r, "qkv_bias", false);
	rf_config_only(&r, "qk_norm", false);
	rf_config_null(&r, "window_size");
	a->window = rf_config_whole(&r, "window_size", 0, 0, INT32_MAX);
	rf_config_null(&r, "rope_theta");
	a->theta = rf_config_real(&r, "rope_theta", 10000, 1e-3, 1e12);
	rf_config_absent(&r, "rope_scaling");
	rf_config_unknown(&r, cfg);
	json_decref(r.left);
	top->rc = r.rc;
}

/* Returns the width of a head: int(hidden_size * expand) / heads, rounded as in the published code. */
static int head_width(struct rf_config_reader *r, const struct rf_config *cfg, const char *key)
{
	double width = cfg->d * rf_config_real(r, key, 1, 1e-6, 1 << 20);
	char must[140];
	const int heads = cfg->delta.heads;

	if (width >= 1 && width <= RF_MAX_WIDTH && (int)width % heads == 0)
		return (int)width / heads;
	snprintf(must, sizeof must,
	         "such that hidden_size (%d) times it is a multiple of num_heads (%d), and at most 1048576",
	         cfg->d, heads);
	rf_config_bad(r, key, must);
	return 1;
}

/* Refuses keys that would change the mathematics in ways that are not supported. */
static void refuse_unsupported(struct rf_config_reader *r)
{
	rf_config_only(r, "use_output_norm", true);
	rf_config_only(r, "norm_first", false);
	rf_config_only(r, "use_rope", false);
	rf_config_only(r, "share_conv_kernel", false);
	rf_config_only(r, "conv_bias", false);
	rf_config_only(r, "use_elu", false);
	rf_config_absent(r, "rms_norm_eps");
	rf_config_absent(r, "rope_scaling");
	rf_config_absent(r, "attnres_block_size"); /* attention over the outputs of earlier layers */
}

/* Reads the options that both mixers share, except for their heads.  gate: the default of use_gate. */
static void read_shared_keys(struct rf_config_reader *r, struct rf_config *cfg, bool gate)
{
	struct rf_delta_config *c = &cfg->delta;

	rf_config_common(r, cfg, 32000, 2);
	cfg->names = (struct rf_names){ "model.", "embeddings", "attn_norm", "mlp_norm", "attn", NULL };
	cfg->norm_eps = rf_config_real(r, "norm_eps", 1e-6, 0, 1);
	rf_config_mlp(r, cfg);
	c->conv = rf_config_flag(r, "use_short_conv", true);
	c->conv_size = rf_config_whole(r, "conv_size", 4, 1, MAX_CONV);
	if (!c->conv)
		c->conv_size = 1;
	c->gate = rf_config_flag(r, "use_gate", gate);
	c->neg_eigval = rf_config_flag(r, "allow_neg_eigval", false);
	read_attn(r, cfg);
	refuse_unsupported(r);
}

void rf_config_delta_net(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_delta_config *c = &cfg->delta;

	cfg->d = rf_config_whole(r, "hidden_size", 2048, 1, RF_MAX_WIDTH);
	rf_config_layers(r, cfg, 24, &rf_mixer_delta_net);
	if (r->rc != RF_OK)
		return;
	c->heads = c->qk_heads = rf_config_whole(r, "num_heads", 16, 1, RF_MAX_WIDTH);
	c->K = head_width(r, cfg, "expand_k");
	c->V = head_width(r, cfg, "expand_v");
	c->beta = rf_config_flag(r, "use_beta", true);
	c->qk_act = (enum rf_act)rf_config_word(r, "qk_activation", "silu|relu|elu|identity");
	c->qk_norm = rf_config_word(r, "qk_norm", "l2|sum") ? RF_NORM_SUM : RF_NORM_L2;
	read_shared_keys(r, cfg, false);
}

/* Reads the heads: those of q and k have head_dim columns, those of v head_dim expand_v.  v may have more
 * heads. */
static void read_gated_heads(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_delta_config *c = &cfg->delta;
	double V;

	c->qk_heads = rf_config_whole(r, "num_heads", 6, 1, RF_MAX_WIDTH);
	rf_config_null(r, "num_v_heads");
	c->heads = rf_config_whole(r, "num_v_heads", c->qk_heads, 1, RF_MAX_WIDTH);
	if (c->heads % c->qk_heads)
		rf_config_bad(r, "num_v_heads", "a multiple of num_heads");
	c->K = rf_config_whole(r, "head_dim", 256, 1, RF_MAX_WIDTH);
	if ((int64_t)c->heads * c->K > RF_MAX_WIDTH)
		rf_config_bad(r, "head_dim", "such that num_v_heads times it is at most 1048576");
	V = c->K * rf_config_real(r, "expand_v", 2, 1e-6, 1 << 20);
	c->V = V >= 1 && V <= RF_MAX_WIDTH ? (int)(V * (1 + 1e-9)) : 0; /* 2.2 * 5 is a little less than 11 */
	if (!c->V || V - c->V > 1e-5 * V || (int64_t)c->heads * c->V > RF_MAX_WIDTH)
		rf_config_bad(r, "expand_v",
		              "such that head_dim times it is a whole number, and num_v_heads times that at "
		              "most 1048576");
}

void rf_config_gated_deltanet(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_delta_config *c = &cfg->delta;

	cfg->d = rf_config_whole(r, "hidden_size", 2048, 1, RF_MAX_WIDTH);
	rf_config_layers(r, cfg, 21, &rf_mixer_delta_net);
	if (r->rc != RF_OK)
		return;
	read_gated_heads(r, cfg);
	c->decay = true;
	rf_config_only(r, "use_beta", true);
	c->beta = true;
	rf_config_word(r, "qk_activation", "silu");
	c->qk_act = RF_ACT_SILU;
	rf_config_word(r, "qk_norm", "l2");
	c->qk_norm = RF_NORM_L2;
	rf_config_word(r, "output_gate_activation", "swish|silu");
	rf_config_only(r, "use_mamba_gate", true); /* a key of the first release */
	rf_config_only(r, "use_residual", false);
	read_shared_keys(r, cfg, true);
}
