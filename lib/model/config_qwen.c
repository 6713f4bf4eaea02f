/* config_qwen.c -- Qwen3.5's config as transformers writes and reads it, with its defaults: the dense text
 * model, alone (qwen3_5_text) or as the text_config of the model with a vision encoder (qwen3_5). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_read.h"
#include "model/mixer.h"

enum { MAX_CONV = 64 };

/* Makes a reader of an object inside another.  The caller closes it with leave_object(), also after a
 * failure. Returns whether there is something to read. */
static bool enter_object(struct rf_config_reader *r, struct rf_config_reader *top, const char *key,
                         const char *prefix)
{
	json_t *object = rf_config_take(top, key);

	*r = (struct rf_config_reader){ NULL, prefix, top->e, top->rc };
	if (!json_is_object(object)) {
		rf_config_bad(top, key, "an object");
		return false;
	}
	if (!(r->left = json_copy(object)))
		top->rc = rf_fail(r->e, RF_ENOMEM, "out of memory");
	return r->left;
}

static void leave_object(struct rf_config_reader *r, struct rf_config_reader *top, struct rf_config *cfg)
{
	rf_config_rest(r, cfg);
	json_decref(r->left);
	top->rc = r->rc;
}

/* Reads the mixer of each layer: linear_attention or full_attention.  Without a list, every
 * full_attention_interval-th layer has full_attention. */
static void read_layers(struct rf_config_reader *r, struct rf_config *cfg)
{
	static const char want[] =
		"a list of linear_attention and full_attention, one for each of the num_hidden_layers";
	int interval = rf_config_whole(r, "full_attention_interval", 4, 1, RF_MAX_LAYERS);
	json_t *list = rf_config_take(r, "layer_types"), *v;
	const char *name;
	size_t i;

	if (!list || json_is_null(list)) {
		for (int l = interval - 1; l < cfg->layers; l += interval)
			cfg->mixer[l] = &rf_mixer_attention;
		return;
	}
	if (json_array_size(list) != (size_t)cfg->layers)
		rf_config_bad(r, "layer_types", want);
	json_array_foreach (list, i, v) {
		name = json_is_string(v) ? json_string_value(v) : "";
		if (r->rc != RF_OK)
			return;
		if (!strcmp(name, "full_attention"))
			cfg->mixer[i] = &rf_mixer_attention;
		else if (strcmp(name, "linear_attention"))
			rf_config_bad(r, "layer_types", want);
	}
}

/* Reads the rotary embedding.  The keys for positions of images are ignored: all three positions of a text
 * token are the same.  Older files have the keys of rope_parameters in the outer object. */
static void read_rope(struct rf_config_reader *top, struct rf_config *cfg)
{
	struct rf_attn_config *a = &cfg->attn;
	struct rf_config_reader r;
	double theta = rf_config_real(top, "rope_theta", 10000, 1e-3, 1e12);
	double part = rf_config_real(top, "partial_rotary_factor", 0.25, 0, 1);

	rf_config_null(top, "rope_parameters");
	if (json_object_get(top->left, "rope_parameters")) {
		if (!enter_object(&r, top, "rope_parameters",
		                  *top->prefix ? "text_config.rope_parameters." : "rope_parameters."))
			return;
		rf_config_word(&r, "rope_type", "default");
		rf_config_word(&r, "type", "default");
		theta = rf_config_real(&r, "rope_theta", theta, 1e-3, 1e12);
		part = rf_config_real(&r, "partial_rotary_factor", part, 0, 1);
		rf_config_take(&r, "mrope_section");
		rf_config_take(&r, "mrope_interleaved");
		leave_object(&r, top, cfg);
	}
	a->theta = theta;
	a->rotary = (int)(a->D * part);
	if (a->rotary % 2)
		rf_config_bad(top, "head_dim", "such that partial_rotary_factor leaves an even width of it");
}

static void read_attention(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_attn_config *a = &cfg->attn;

	a->heads = rf_config_whole(r, "num_attention_heads", 16, 1, RF_MAX_WIDTH);
	a->kv_heads = rf_config_whole(r, "num_key_value_heads", 4, 1, RF_MAX_WIDTH);
	if (a->heads % a->kv_heads)
		rf_config_bad(r, "num_key_value_heads", "a divisor of num_attention_heads");
	a->D = rf_config_whole(r, "head_dim", 256, 1, RF_MAX_WIDTH);
	if ((int64_t)a->heads * a->D > RF_MAX_WIDTH)
		rf_config_bad(r, "head_dim", "such that num_attention_heads times it is at most 1048576");
	a->gated = true;
	read_rope(r, cfg);
}

static void read_delta(struct rf_config_reader *r, struct rf_config *cfg)
{
	struct rf_delta_config *c = &cfg->delta;
	const char *type = json_string_value(rf_config_take(r, "mamba_ssm_dtype"));

	c->f32 = type && !strcmp(type, "float32");
	c->qk_heads = rf_config_whole(r, "linear_num_key_heads", 16, 1, RF_MAX_WIDTH);
	c->heads = rf_config_whole(r, "linear_num_value_heads", 32, 1, RF_MAX_WIDTH);
	if (c->heads % c->qk_heads)
		rf_config_bad(r, "linear_num_value_heads", "a multiple of linear_num_key_heads");
	c->K = rf_config_whole(r, "linear_key_head_dim", 128, 1, RF_MAX_WIDTH);
	c->V = rf_config_whole(r, "linear_value_head_dim", 128, 1, RF_MAX_WIDTH);
	if ((int64_t)c->heads * c->K > RF_MAX_WIDTH)
		rf_config_bad(r, "linear_key_head_dim",
		              "such that linear_num_value_heads times it is at most 1048576");
	if ((int64_t)c->heads * c->V > RF_MAX_WIDTH)
		rf_config_bad(r, "linear_value_head_dim",
		              "such that linear_num_value_heads times it is at most 1048576");
	c->conv_size = rf_config_whole(r, "linear_conv_kernel_dim", 4, 1, MAX_CONV);
	c->conv = c->beta = c->gate = c->decay = c->joint = true;
	c->qk_act = RF_ACT_SILU;
	c->qk_norm = RF_NORM_L2;
}

/* Refuses keys that would change the mathematics in ways that are not supported: biases, dropout, experts,
 * other gates. */
static void refuse_unsupported(struct rf_config_reader *r)
{
	static const char *const experts[] = { "num_experts",           "num_experts_per_tok",
		                               "moe_intermediate_size", "shared_expert_intermediate_size",
		                               "decoder_sparse_step",   NULL };
	static const char *const ignored[] = { "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings",
		                               "mrope_section",         "mrope_interleaved",
		                               "norm_topk_prob",        "output_router_logits",
		                               "router_aux_loss_coef",  NULL };
	json_t *v;

	rf_config_only(r, "attention_bias", false);
	rf_config_only(r, "attn_output_gate", true);
	rf_config_word(r, "output_gate_type", "swish|silu");
	rf_config_word(r, "rope_type", "default");
	rf_config_absent(r, "rope_scaling");
	rf_config_absent(r, "quantization_config");
	if (rf_config_real(r, "attention_dropout", 0, 0, 1) > 0)
		rf_config_bad(r, "attention_dropout", "0: nothing else is supported");
	if (json_array_size(v = rf_config_take(r, "mlp_only_layers")) ||
	    (v && !json_is_null(v) && !json_is_array(v)))
		rf_config_bad(r, "mlp_only_layers", "an empty list: only dense models are supported");
	for (const char *const *key = experts; *key; key++) {
		v = rf_config_take(r, *key);
		if (v && !json_is_null(v) && !(json_is_integer(v) && !json_integer_value(v)))
			rf_config_bad(r, *key, "absent or 0: only dense models are supported");
	}
	for (const char *const *key = ignored; *key; key++)
		rf_config_take(r, *key);
}

/* Reads the config of a text model.  Checkpoints of both kinds are published with either prefix. */
static void read_text(struct rf_config_reader *r, struct rf_config *cfg, bool inner)
{
	static const char *const roots[] = { "model.", "model.language_model." };

	cfg->names = (struct rf_names){ roots[inner],      "embed_tokens",
		                        "input_layernorm", "post_attention_layernorm",
		                        "self_attn",       roots[!inner] };
	cfg->norm_plus_one = true;
	cfg->d = rf_config_whole(r, "hidden_size", 4096, 1, RF_MAX_WIDTH);
	cfg->norm_eps = rf_config_real(r, "rms_norm_eps", 1e-6, 0, 1);
	cfg->ffn = rf_config_whole(r, "intermediate_size", 12288, 1, RF_MAX_WIDTH);
	rf_config_word(r, "hidden_act", "silu|swish");
	rf_config_common(r, cfg, 248320, RF_NO_EOS);
	rf_config_layers(r, cfg, 32, &rf_mixer_delta_net);
	if (r->rc != RF_OK)
		return;
	read_layers(r, cfg);
	read_attention(r, cfg);
	read_delta(r, cfg);
	refuse_unsupported(r);
}

void rf_config_qwen3_5_text(struct rf_config_reader *r, struct rf_config *cfg) { read_text(r, cfg, false); }

void rf_config_qwen3_5(struct rf_config_reader *r, struct rf_config *cfg)
{
	static const char *const ignored[] = { "vision_config",
		                               "image_token_id",
		                               "video_token_id",
		                               "vision_start_token_id",
		                               "vision_end_token_id",
		                               "language_model_only",
		                               NULL };
	struct rf_config_reader text;

	cfg->inner = "text_config";
	if (!enter_object(&text, r, cfg->inner, "text_config."))
		return;
	rf_config_word(&text, "model_type", "qwen3_5_text|qwen3_5");
	/* two keys may be in both objects: the inner eos_token_id and the outer tie_word_embeddings count */
	if (!json_object_get(text.left, "eos_token_id") && json_object_get(r->left, "eos_token_id"))
		json_object_set(text.left, "eos_token_id", json_object_get(r->left, "eos_token_id"));
	rf_config_take(r, "eos_token_id");
	read_text(&text, cfg, true);
	leave_object(&text, r, cfg);
	cfg->tied = rf_config_flag(r, "tie_word_embeddings", cfg->tied);
	for (const char *const *key = ignored; *key; key++)
		rf_config_take(r, *key);
}
