/* config -- checks config.json: the values that are read, the errors and the keys that they name, the edits,
 * and the table of weights.
 *
 * config --corpus DIR writes the cases as seeds for the fuzzer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/mixer.h"
#include "model/model.h"
#include "unit/tap.h"

/* The published 340M configuration of flash-linear-attention, with smaller sizes. */
#define BASE \
	"\"attn\": null, \"attn_mode\": \"chunk\", \"bos_token_id\": 1, \"conv_size\": 4, " \
	"\"expand_k\": 1, \"expand_v\": 1, \"fuse_cross_entropy\": true, \"fuse_norm\": true, " \
	"\"hidden_act\": \"swish\", \"hidden_ratio\": 4, \"initializer_range\": 0.02, " \
	"\"intermediate_size\": null, \"max_position_embeddings\": 8192, \"model_type\": \"delta_net\", " \
	"\"norm_eps\": 1e-06, \"pad_token_id\": null, \"qk_activation\": \"silu\", \"qk_norm\": \"l2\", " \
	"\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", " \
	"\"transformers_version\": \"4.50.0\", \"use_beta\": true, \"use_cache\": true, " \
	"\"use_gate\": false, \"use_output_norm\": true, \"use_short_conv\": true, "
#define SIZES        "\"hidden_size\": 64, \"num_heads\": 4, \"num_hidden_layers\": 3, \"vocab_size\": 100"
#define FIRST(first) "{" first ", " BASE SIZES "}"
#define MIN(rest)    "{\"model_type\": \"delta_net\", " SIZES ", " rest "}"
#define ATTN(rest)   MIN("\"attn\": {" rest "}")

/* A published Qwen3.5 with smaller sizes: the text model without and with a vision encoder. */
#define Q_SIZES \
	"\"hidden_size\": 64, \"num_hidden_layers\": 4, \"vocab_size\": 100, \"head_dim\": 16, " \
	"\"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"linear_num_key_heads\": 2, " \
	"\"linear_num_value_heads\": 6, \"linear_key_head_dim\": 8, \"linear_value_head_dim\": 12, " \
	"\"intermediate_size\": 96"
#define Q_ROPE \
	"\"rope_parameters\": {\"mrope_interleaved\": true, \"mrope_section\": [1, 1, 0], " \
	"\"partial_rotary_factor\": 0.25, \"rope_theta\": 10000000, \"rope_type\": \"default\"}"
#define Q_TYPES \
	"\"layer_types\": [\"linear_attention\", \"full_attention\", \"linear_attention\", " \
	"\"linear_attention\"]"
#define Q_BASE \
	"\"attention_bias\": false, \"attention_dropout\": 0.0, \"attn_output_gate\": true, " \
	"\"bos_token_id\": null, \"dtype\": \"bfloat16\", \"eos_token_id\": 98, " \
	"\"full_attention_interval\": 4, \"hidden_act\": \"silu\", \"initializer_range\": 0.02, " \
	"\"linear_conv_kernel_dim\": 4, \"mamba_ssm_dtype\": \"float32\", " \
	"\"max_position_embeddings\": 262144, \"mlp_only_layers\": [], \"mtp_num_hidden_layers\": 1, " \
	"\"mtp_use_dedicated_embeddings\": false, \"output_gate_type\": \"swish\", \"pad_token_id\": null, " \
	"\"partial_rotary_factor\": 0.25, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": true, " \
	"\"use_cache\": true, \"model_type\": \"qwen3_5_text\", " Q_SIZES
#define QWEN(rest) "{\"model_type\": \"qwen3_5_text\", " Q_SIZES ", " rest "}"
#define SEEING(text, rest) \
	"{\"architectures\": [\"Qwen3_5ForConditionalGeneration\"], " \
	"\"image_token_id\": 90, \"model_type\": \"qwen3_5\", \"text_config\": {" text "}, " \
	"\"transformers_version\": \"4.57.0.dev0\", \"video_token_id\": 91, " \
	"\"vision_config\": {\"depth\": 12, \"model_type\": \"qwen3_5\", \"dtype\": \"bfloat16\"}, " \
	"\"vision_end_token_id\": 92, \"vision_start_token_id\": 93" rest "}"

/* Gated DeltaNet as flash-linear-attention saves it, with smaller sizes. */
#define G_SIZES \
	"\"hidden_size\": 64, \"num_heads\": 3, \"head_dim\": 10, \"num_hidden_layers\": 3, " \
	"\"vocab_size\": 100"
#define G_BASE \
	"\"attn\": null, \"attn_mode\": \"chunk\", \"bos_token_id\": 1, \"conv_size\": 4, " \
	"\"eos_token_id\": 2, \"expand_v\": 2.0, \"fuse_cross_entropy\": true, " \
	"\"fuse_linear_cross_entropy\": false, \"fuse_norm\": true, \"fuse_swiglu\": true, " \
	"\"hidden_act\": \"swish\", \"hidden_ratio\": 4, \"initializer_range\": 0.02, " \
	"\"intermediate_size\": null, \"max_position_embeddings\": 2048, \"norm_eps\": 1e-06, " \
	"\"num_v_heads\": null, \"tie_word_embeddings\": false, \"use_cache\": true, \"use_gate\": true, " \
	"\"use_l2warp\": false, \"use_short_conv\": true, \"allow_neg_eigval\": false, " \
	"\"attnres_block_size\": null, \"output_gate_activation\": \"swish\", " \
	"\"model_type\": \"gated_deltanet\", " G_SIZES
#define GATED(rest) "{\"model_type\": \"gated_deltanet\", " G_SIZES ", " rest "}"

/* The published configuration of LaCT, with smaller sizes. */
#define L_SIZES \
	"\"hidden_size\": 64, \"num_hidden_layers\": 3, \"num_attn_heads\": 8, " \
	"\"num_lact_heads\": 4, \"vocab_size\": 100"
#define L_BASE \
	"\"attn_qk_norm\": false, \"bos_token_id\": 1, \"elementwise_affine\": true, " \
	"\"fp32_states\": false, \"fuse_cross_entropy\": true, \"fuse_norm\": true, \"fuse_swiglu\": true, " \
	"\"fw_init_gain\": 0.5, \"hidden_act\": \"swish\", \"hidden_ratio\": 4, " \
	"\"initializer_range\": 0.006, \"inter_multi\": 1, \"intermediate_size\": null, " \
	"\"lact_chunk_size\": 2048, \"last_layer_fuse_norm\": true, \"learnable_ttt_scale\": true, " \
	"\"lr_dim\": 1, \"lr_parameterization\": \"mamba\", \"max_position_embeddings\": 2048, " \
	"\"model_type\": \"lact_swiglu\", \"no_v_silu\": false, \"norm_eps\": 1e-06, " \
	"\"pad_token_id\": null, \"qkv_bias\": false, \"qkv_silu\": true, \"rope_theta\": 1000000.0, " \
	"\"tie_word_embeddings\": false, \"torch_dtype\": \"float32\", " \
	"\"transformers_version\": \"4.50.0\", \"ttt_loss_type\": \"dot_product\", \"ttt_nope\": false, " \
	"\"ttt_prenorm\": false, \"use_cache\": true, \"use_fused_kernel\": true, \"use_momentum\": true, " \
	"\"use_muon\": false, \"w0_w2_low_rank\": 16, \"window_size\": 2048, "
#define LACT(rest) "{\"model_type\": \"lact_swiglu\", " L_SIZES ", " rest "}"

static const struct {
	const char *name, *text, *says;
} vectors[] = {
	{ "published", "{" BASE SIZES "}", NULL },
	{ "hybrid",
	  ATTN("\"layers\": [0, 2], \"num_heads\": 4, \"num_kv_heads\": 2, \"qkv_bias\": true, "
	       "\"window_size\": 9, \"rope_theta\": 1e6"),
	  NULL },
	{ "hybrid-nulls",
	  ATTN("\"layers\": [], \"num_heads\": 4, \"num_kv_heads\": null, "
	       "\"window_size\": null, \"rope_theta\": null, \"rope_scaling\": null"),
	  NULL },
	{ "nulls",
	  MIN("\"use_output_norm\": null, \"rope_scaling\": null, \"quantization_config\": null, "
	      "\"eos_token_id\": null"),
	  NULL },
	{ "eos-list", MIN("\"eos_token_id\": [0, 1, 99]"), NULL },
	{ "unknown",
	  MIN("\"wheels\": 4, \"\\u001b[31m\": {}, \"attn\": {\"layers\": [1], \"num_heads\": 2, "
	      "\"spokes\": 1}"),
	  NULL },

	{ "empty", "", "byte" },
	{ "list", "[]", "not a JSON object" },
	{ "unclosed", "{\"model_type\": \"delta_net\"", "byte" },
	{ "python", "{'model_type': 'delta_net'}", "byte" },
	{ "twice", MIN("\"num_heads\": 8"), "duplicate" },
	{ "deep", MIN("\"x\": [[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]"), "is nested more than" },
	{ "nul", MIN("\"a\\u0000\": 1"), "byte" },
	{ "nan", MIN("\"norm_eps\": NaN"), "byte" },
	{ "huge", MIN("\"norm_eps\": 1e999"), "byte" },
	{ "no-type", "{" SIZES "}", "'model_type' must be" },
	{ "type-number", "{\"model_type\": 1}", "'model_type' must be" },
	{ "llama", "{\"model_type\": \"llama\"}", "'model_type' is 'llama'" },
	{ "escape-in-type", "{\"model_type\": \"\\u001b[31m\"}", "'\\x1b[31m'" },
	{ "size-0", "{\"model_type\": \"delta_net\", \"hidden_size\": 0}", "'hidden_size'" },
	{ "size-negative", "{\"model_type\": \"delta_net\", \"hidden_size\": -16}", "'hidden_size'" },
	{ "size-float", "{\"model_type\": \"delta_net\", \"hidden_size\": 16.0}", "'hidden_size'" },
	{ "size-string", "{\"model_type\": \"delta_net\", \"hidden_size\": \"16\"}", "'hidden_size'" },
	{ "size-null", "{\"model_type\": \"delta_net\", \"hidden_size\": null}", "'hidden_size'" },
	{ "size-2^20+1", "{\"model_type\": \"delta_net\", \"hidden_size\": 1048577}", "'hidden_size'" },
	{ "size-2^32+16", "{\"model_type\": \"delta_net\", \"hidden_size\": 4294967312}", "'hidden_size'" },
	{ "layers-1025", "{\"model_type\": \"delta_net\", \"num_hidden_layers\": 1025}",
	  "'num_hidden_layers'" },
	{ "vocab-2^24+1", "{\"model_type\": \"delta_net\", \"vocab_size\": 16777217}", "'vocab_size'" },
	{ "heads-3", "{\"model_type\": \"delta_net\", \"hidden_size\": 64, \"num_heads\": 3}", "'expand_k'" },
	{ "expand-k", MIN("\"expand_k\": 0.51"), NULL },
	{ "expand-k-odd", MIN("\"expand_k\": 0.52"), "'expand_k'" },
	{ "expand-v-0", MIN("\"expand_v\": 0"), "'expand_v'" },
	{ "expand-v-huge", MIN("\"expand_v\": 1000000"), "'expand_v'" },
	{ "expand-string", MIN("\"expand_v\": \"2\""), "'expand_v'" },
	{ "conv-0", MIN("\"conv_size\": 0"), "'conv_size'" },
	{ "conv-65", MIN("\"conv_size\": 65"), "'conv_size'" },
	{ "beta-1", MIN("\"use_beta\": 1"), "'use_beta' must be true or false" },
	{ "gelu", MIN("\"hidden_act\": \"gelu\""), "'hidden_act' must be one of swish|silu, not 'gelu'" },
	{ "act-prefix", MIN("\"hidden_act\": \"swis\""), "'hidden_act'" },
	{ "act-both", MIN("\"hidden_act\": \"swish|silu\""), "'hidden_act'" },
	{ "qk-norm", MIN("\"qk_norm\": \"rms\""), "'qk_norm' must be one of l2|sum, not 'rms'" },
	{ "qk-norm-null", MIN("\"qk_norm\": null"), "'qk_norm'" },
	{ "qk-activation", MIN("\"qk_activation\": \"tanh\""), "'qk_activation'" },
	{ "no-output-norm", MIN("\"use_output_norm\": false"), "'use_output_norm' must be true" },
	{ "norm-first", MIN("\"norm_first\": true"), "'norm_first'" },
	{ "rope", MIN("\"use_rope\": true"), "'use_rope'" },
	{ "shared-kernel", MIN("\"share_conv_kernel\": true"), "'share_conv_kernel'" },
	{ "conv-bias", MIN("\"conv_bias\": true"), "'conv_bias'" },
	{ "rope-scaling", MIN("\"rope_scaling\": {\"type\": \"linear\"}"), "'rope_scaling'" },
	{ "quantized", MIN("\"quantization_config\": {\"bits\": 4}"), "'quantization_config'" },
	{ "old-eps", MIN("\"rms_norm_eps\": 1e-5"), "'rms_norm_eps'" },
	{ "ratio-0", MIN("\"hidden_ratio\": 0"), "'hidden_ratio'" },
	{ "ffn-0", MIN("\"intermediate_size\": 0"), "'intermediate_size'" },
	{ "eps-negative", MIN("\"norm_eps\": -1e-6"), "'norm_eps'" },
	{ "range-string", MIN("\"initializer_range\": \"0.02\""), "'initializer_range'" },
	{ "eos-outside", MIN("\"eos_token_id\": 100"), "'eos_token_id'" },
	{ "eos-negative", MIN("\"eos_token_id\": [-1]"), "'eos_token_id'" },
	{ "eos-17", MIN("\"eos_token_id\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"), "'eos_token_id'" },
	{ "attn-list", MIN("\"attn\": [1]"), "'attn' must be an object" },
	{ "attn-empty", ATTN(""), "'attn.layers'" },
	{ "attn-layer-3", ATTN("\"layers\": [3], \"num_heads\": 4"), "'attn.layers'" },
	{ "attn-layer-negative", ATTN("\"layers\": [-1], \"num_heads\": 4"), "'attn.layers'" },
	{ "attn-layer-float", ATTN("\"layers\": [1.0], \"num_heads\": 4"), "'attn.layers'" },
	{ "attn-no-heads", ATTN("\"layers\": [1]"), "'attn.num_heads' must be given" },
	{ "attn-heads-5", ATTN("\"layers\": [1], \"num_heads\": 5"), "'attn.num_heads'" },
	{ "attn-odd-width", ATTN("\"layers\": [1], \"num_heads\": 64"), "'attn.num_heads'" },
	{ "attn-kv-3", ATTN("\"layers\": [1], \"num_heads\": 4, \"num_kv_heads\": 3"),
	  "'attn.num_kv_heads'" },
	{ "attn-qk-norm", ATTN("\"layers\": [1], \"num_heads\": 4, \"qk_norm\": true"), "'attn.qk_norm'" },
	{ "attn-window", ATTN("\"layers\": [1], \"num_heads\": 4, \"window_size\": -1"),
	  "'attn.window_size'" },
	{ "attn-theta", ATTN("\"layers\": [1], \"num_heads\": 4, \"rope_theta\": 0"), "'attn.rope_theta'" },
	{ "attn-scaling", ATTN("\"layers\": [1], \"num_heads\": 4, \"rope_scaling\": {}"),
	  "'attn.rope_scaling'" },

	{ "gated", "{" G_BASE "}", NULL },
	/* clang-format off */
	{ "gated-groups", GATED("\"num_v_heads\": 6, \"expand_v\": 1.1, \"use_gate\": false, "
	  "\"allow_neg_eigval\": true, \"use_short_conv\": false, \"intermediate_size\": 77, \"wheels\": 4, "
	  "\"attn\": {\"layers\": [1], \"num_heads\": 4}"), NULL },
	{ "gated-old", GATED("\"use_mamba_gate\": true, \"use_residual\": false, \"qk_norm\": \"l2\", "
	  "\"qk_activation\": \"silu\""), NULL },
	/* clang-format on */
	{ "gated-value-heads", GATED("\"num_v_heads\": 4"), "'num_v_heads' must be a multiple of num_heads" },
	{ "gated-few-values", GATED("\"num_v_heads\": 1"), "'num_v_heads'" },
	{ "gated-no-values", GATED("\"num_v_heads\": 0"), "'num_v_heads'" },
	{ "gated-head-0", "{\"model_type\": \"gated_deltanet\", \"head_dim\": 0}", "'head_dim'" },
	{ "gated-head-wide", "{\"model_type\": \"gated_deltanet\", \"head_dim\": 262144}",
	  "'head_dim' must be such that num_v_heads" },
	{ "gated-heads-many", "{\"model_type\": \"gated_deltanet\", \"num_heads\": 1048576}", "'head_dim'" },
	{ "gated-expand", GATED("\"expand_v\": 1.25"),
	  "'expand_v' must be such that head_dim times it is a whole number" },
	{ "gated-expand-0", GATED("\"expand_v\": 0"), "'expand_v'" },
	{ "gated-expand-little", GATED("\"expand_v\": 0.01"), "'expand_v'" },
	{ "gated-expand-huge", GATED("\"expand_v\": 100000"), "'expand_v'" },
	{ "gated-no-beta", GATED("\"use_beta\": false"), "'use_beta' must be true" },
	{ "gated-sum", GATED("\"qk_norm\": \"sum\""), "'qk_norm' must be one of l2" },
	{ "gated-elu", GATED("\"qk_activation\": \"elu\""), "'qk_activation'" },
	{ "gated-mamba", GATED("\"use_mamba_gate\": false"), "'use_mamba_gate'" },
	{ "gated-residual", GATED("\"use_residual\": true"), "'use_residual'" },
	{ "gated-conv-bias", GATED("\"conv_bias\": true"), "'conv_bias'" },
	{ "gated-sigmoid", GATED("\"output_gate_activation\": \"sigmoid\""),
	  "'output_gate_activation' must be one of swish|silu, not 'sigmoid'" },
	{ "gated-attnres", GATED("\"attnres_block_size\": 4"), "'attnres_block_size' must be absent" },
	{ "delta-attnres", MIN("\"attnres_block_size\": 4"), "'attnres_block_size' must be absent" },

	{ "qwen", "{" Q_BASE ", " Q_TYPES ", " Q_ROPE "}", NULL },
	{ "qwen-sees", SEEING(Q_BASE ", " Q_TYPES ", " Q_ROPE, ", \"tie_word_embeddings\": true"), NULL },
	{ "qwen-older",
	  QWEN("\"rope_theta\": 5e5, \"partial_rotary_factor\": 0.5, "
	       "\"full_attention_interval\": 2, \"rope_scaling\": null, \"layer_types\": null"),
	  NULL },
	{ "qwen-unknown",
	  SEEING(Q_SIZES ", \"wheels\": 4, \"rope_parameters\": {\"cogs\": 1}", ", \"spokes\": 1"), NULL },
	{ "qwen-eos-outside", SEEING(Q_SIZES, ", \"eos_token_id\": [7, 8]"), NULL },
	{ "qwen-no-rotary", QWEN("\"rope_parameters\": {\"partial_rotary_factor\": 0}"), NULL },
	{ "qwen-no-text", "{\"model_type\": \"qwen3_5\"}", "'text_config' must be an object" },
	{ "qwen-text-list", "{\"model_type\": \"qwen3_5\", \"text_config\": []}",
	  "'text_config' must be an object" },
	{ "qwen-moe", "{\"model_type\": \"qwen3_5_moe\"}", "'model_type' is 'qwen3_5_moe'" },
	{ "qwen-moe-text", SEEING(Q_SIZES ", \"model_type\": \"qwen3_5_moe_text\"", ""),
	  "'text_config.model_type' must be one of qwen3_5_text" },
	{ "qwen-inner-size", SEEING("\"hidden_size\": 0", ""), "'text_config.hidden_size' must be" },
	{ "qwen-experts", QWEN("\"num_experts\": 8"), "'num_experts' must be absent or 0" },
	{ "qwen-moe-width", QWEN("\"moe_intermediate_size\": 8"), "'moe_intermediate_size'" },
	{ "qwen-mlp-only", QWEN("\"mlp_only_layers\": [1]"), "'mlp_only_layers'" },
	{ "qwen-bias", QWEN("\"attention_bias\": true"), "'attention_bias' must be false" },
	{ "qwen-dropout", QWEN("\"attention_dropout\": 0.1"), "'attention_dropout' must be 0" },
	{ "qwen-no-gate", QWEN("\"attn_output_gate\": false"), "'attn_output_gate' must be true" },
	{ "qwen-sigmoid", QWEN("\"output_gate_type\": \"sigmoid\""),
	  "'output_gate_type' must be one of swish|silu, not 'sigmoid'" },
	{ "qwen-gelu", QWEN("\"hidden_act\": \"gelu\""), "'hidden_act'" },
	{ "qwen-yarn", QWEN("\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4}"),
	  "'rope_parameters.rope_type' must be one of default, not 'yarn'" },
	{ "qwen-yarn-inside", SEEING(Q_SIZES ", \"rope_parameters\": {\"rope_type\": \"yarn\"}", ""),
	  "'text_config.rope_parameters.rope_type'" },
	{ "qwen-linear", QWEN("\"rope_parameters\": {\"type\": \"linear\"}"), "'rope_parameters.type'" },
	{ "qwen-scaling", QWEN("\"rope_scaling\": {\"type\": \"yarn\"}"), "'rope_scaling' must be absent" },
	{ "qwen-rope-list", QWEN("\"rope_parameters\": [1]"), "'rope_parameters' must be an object" },
	{ "qwen-theta", QWEN("\"rope_parameters\": {\"rope_theta\": -1}"), "'rope_parameters.rope_theta'" },
	{ "qwen-part", QWEN("\"rope_parameters\": {\"partial_rotary_factor\": 1.5}"),
	  "'rope_parameters.partial_rotary_factor'" },
	{ "qwen-odd-part", QWEN("\"partial_rotary_factor\": 0.2"), "'head_dim'" },
	{ "qwen-types-short", QWEN("\"layer_types\": [\"linear_attention\"]"),
	  "'layer_types' must be a list" },
	{ "qwen-types-word",
	  QWEN("\"layer_types\": [\"linear_attention\", \"sliding_attention\", "
	       "\"linear_attention\", \"full_attention\"]"),
	  "'layer_types'" },
	{ "qwen-types-number", QWEN("\"layer_types\": [1, 2, 3, 4]"), "'layer_types'" },
	{ "qwen-types-text", QWEN("\"layer_types\": \"full_attention\""), "'layer_types'" },
	{ "qwen-interval-0", QWEN("\"full_attention_interval\": 0"), "'full_attention_interval'" },
	{ "qwen-kv-3",
	  "{\"model_type\": \"qwen3_5_text\", \"num_attention_heads\": 8, "
	  "\"num_key_value_heads\": 3}",
	  "'num_key_value_heads' must be a divisor" },
	{ "qwen-value-heads", "{\"model_type\": \"qwen3_5_text\", \"linear_num_value_heads\": 24}",
	  "'linear_num_value_heads' must be a multiple" },
	{ "qwen-wide-head", "{\"model_type\": \"qwen3_5_text\", \"head_dim\": 65537}", "'head_dim'" },
	{ "qwen-wide-key", "{\"model_type\": \"qwen3_5_text\", \"linear_key_head_dim\": 32769}",
	  "'linear_key_head_dim'" },
	{ "qwen-wide-value", "{\"model_type\": \"qwen3_5_text\", \"linear_value_head_dim\": 32769}",
	  "'linear_value_head_dim'" },
	{ "qwen-conv-0", QWEN("\"linear_conv_kernel_dim\": 0"), "'linear_conv_kernel_dim'" },
	{ "qwen-quantized", SEEING(Q_SIZES ", \"quantization_config\": {}", ""),
	  "'text_config.quantization_config'" },

	{ "lact", "{" L_BASE L_SIZES "}", NULL },
	/* clang-format off */
	{ "lact-options", LACT("\"inter_multi\": 0.5, \"qkv_bias\": true, \"attn_qk_norm\": true, "
	  "\"lact_chunk_size\": 7, \"use_muon\": true, \"no_v_silu\": true, \"learnable_ttt_scale\": false, "
	  "\"use_momentum\": false, \"ttt_prenorm\": true, \"ttt_nope\": true, \"w0_w2_low_rank\": -1, "
	  "\"window_size\": null, \"fw_init_gain\": 0.25, \"initializer_range\": 0.02"), NULL },
	/* clang-format on */
	{ "lact-unknown", LACT("\"wheels\": 4"), NULL },
	{ "lact-chunk-0", LACT("\"lact_chunk_size\": 0"), "'lact_chunk_size' must be a whole number from 1" },
	{ "lact-attn", LACT("\"attn\": {\"layers\": [0], \"num_heads\": 2}"), "'attn' must be absent" },
	{ "lact-attn-null", LACT("\"attn\": null"), NULL },
	{ "lact-chunk-null", LACT("\"lact_chunk_size\": null"), "'lact_chunk_size'" },
	{ "lact-window-0", LACT("\"window_size\": 0"), "'window_size' must be a whole number from 1" },
	{ "lact-heads-3", "{\"model_type\": \"lact_swiglu\", \"hidden_size\": 64, \"num_lact_heads\": 3}",
	  "'num_lact_heads' must be a divisor of hidden_size" },
	{ "lact-attn-heads-5",
	  "{\"model_type\": \"lact_swiglu\", \"hidden_size\": 64, "
	  "\"num_attn_heads\": 5}",
	  "'num_attn_heads' must be a divisor" },
	{ "lact-attn-odd", "{\"model_type\": \"lact_swiglu\", \"hidden_size\": 64, \"num_attn_heads\": 64}",
	  "heads of even width" },
	{ "lact-rank-17", LACT("\"w0_w2_low_rank\": 17"),
	  "'w0_w2_low_rank' must be at most the width of a head" },
	{ "lact-rank-float", LACT("\"w0_w2_low_rank\": 4.0"), "'w0_w2_low_rank'" },
	{ "lact-lr-dim", LACT("\"lr_dim\": 2"), "'lr_dim' must be 1" },
	{ "lact-lr-parameterization", LACT("\"lr_parameterization\": \"1d\""),
	  "'lr_parameterization' must be one of mamba, not '1d'" },
	{ "lact-loss", LACT("\"ttt_loss_type\": \"l2\""),
	  "'ttt_loss_type' must be one of dot_product, not 'l2'" },
	{ "lact-affine", LACT("\"elementwise_affine\": false"), "'elementwise_affine' must be true" },
	{ "lact-multi-0", LACT("\"inter_multi\": 0"), "'inter_multi'" },
	{ "lact-multi-small", LACT("\"inter_multi\": 0.06"), "'inter_multi'" },
	{ "lact-multi-huge", LACT("\"inter_multi\": 1048576"), "'inter_multi'" },
	{ "lact-gain", LACT("\"fw_init_gain\": -1"), "'fw_init_gain'" },
	{ "lact-muon-1", LACT("\"use_muon\": 1"), "'use_muon' must be true or false" },
	{ "lact-scaling", LACT("\"rope_scaling\": {}"), "'rope_scaling'" },
};

static enum rf_code parse(struct rf_config *c, const char *text, struct rf_err *e)
{
	/* a copy in memory of exactly this size, so that a sanitizer sees reads beyond it */
	size_t n = strlen(text);
	char *copy = malloc(n + !n);
	enum rf_code rc;

	memcpy(copy, text, n);
	rc = rf_config_parse(c, copy, n, e);
	free(copy);
	return rc;
}

static void test_vectors(void)
{
	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
		struct rf_err e = { RF_OK, "" };
		struct rf_config c;
		enum rf_code rc = parse(&c, vectors[i].text, &e);

		if (vectors[i].says)
			ok(rc == RF_EMODEL && strstr(e.msg, vectors[i].says),
			   "%s is an error that says %s (%s)", vectors[i].name, vectors[i].says, e.msg);
		else
			ok(rc == RF_OK, "%s is read (%s)", vectors[i].name, e.msg);
		rf_config_free(&c);
	}
	size_t n = (1 << 20) + 1;
	char *big = malloc(n);
	struct rf_config c;
	struct rf_err e;
	memset(big, ' ', n);
	memcpy(big, "{}", 2);
	ok(rf_config_parse(&c, big, n, &e) == RF_EMODEL && strstr(e.msg, "limit"),
	   "a config of more than 1 MiB is refused");
	rf_config_free(&c);
	free(big);
	ok(rf_config_read(&c, "nowhere/config.json", &e) == RF_ENOINPUT, "a missing file is RF_ENOINPUT");
	rf_config_free(&c);
}

static void test_values(void)
{
	struct rf_config c;
	struct rf_err e = { RF_OK, "" };

	parse(&c, "{\"model_type\": \"delta_net\"}", &e);
	ok(c.d == 2048 && c.layers == 24 && c.delta.heads == 16 && c.delta.K == 128 && c.delta.V == 128 &&
	           c.vocab == 32000 && c.ffn == 5632 && c.delta.conv_size == 4 && c.delta.conv &&
	           c.delta.beta && !c.delta.gate && !c.delta.neg_eigval && !c.tied &&
	           c.mixer[0] == &rf_mixer_delta_net && c.norm_eps == 1e-6 && c.initializer_range == 0.02 &&
	           c.delta.qk_act == RF_ACT_SILU && c.delta.qk_norm == RF_NORM_L2 && c.eos_count == 1 &&
	           c.eos[0] == 2,
	   "DeltaNet: missing keys have the defaults of flash-linear-attention");
	rf_config_free(&c);
	parse(&c,
	      MIN("\"expand_k\": 0.5, \"expand_v\": 2, \"qk_norm\": \"sum\", \"qk_activation\": \"elu\", "
	          "\"hidden_act\": \"silu\", \"hidden_ratio\": 3.3, \"use_short_conv\": false, "
	          "\"use_beta\": false, \"use_gate\": true, \"allow_neg_eigval\": true, "
	          "\"tie_word_embeddings\": true, \"eos_token_id\": [7, 9]"),
	      &e);
	ok(c.delta.K == 8 && c.delta.V == 32 && c.delta.qk_norm == RF_NORM_SUM &&
	           c.delta.qk_act == RF_ACT_ELU && c.ffn == 256 && !c.delta.conv && c.delta.conv_size == 1 &&
	           !c.delta.beta && c.delta.gate && c.delta.neg_eigval && c.tied && c.eos_count == 2 &&
	           c.eos[1] == 9,
	   "DeltaNet: given keys are read");
	rf_config_free(&c);
	/* int(129 * 4 * 2 / 3) = 344; int(96 * 4 * 2 / 3) = 256 exactly, and 256 more for 97;
	   int(461 * 2.5 * 2 / 3) = 768 */
	static const struct {
		int d;
		double ratio;
		int ffn;
	} mlp[] = { { 129, 4, 512 }, { 96, 4, 256 }, { 97, 4, 512 }, { 1024, 4, 2816 }, { 461, 2.5, 768 } };
	for (int i = 0; i < 5; i++) {
		char text[200];
		snprintf(text, sizeof text,
		         "{\"model_type\": \"delta_net\", \"num_heads\": 1, "
		         "\"hidden_size\": %d, \"hidden_ratio\": %g}",
		         mlp[i].d, mlp[i].ratio);
		parse(&c, text, &e);
		ok(c.ffn == mlp[i].ffn, "the MLP of hidden_size %d has width %d", mlp[i].d, c.ffn);
		rf_config_free(&c);
	}
	parse(&c, vectors[1].text, &e);
	ok(c.mixer[0] == &rf_mixer_attention && c.mixer[1] == &rf_mixer_delta_net &&
	           c.mixer[2] == &rf_mixer_attention && c.attn.heads == 4 && c.attn.kv_heads == 2 &&
	           c.attn.qkv_bias && c.attn.window == 9 && c.attn.theta == 1e6,
	   "DeltaNet: attention layers are read");
	rf_config_free(&c);
	parse(&c, vectors[2].text, &e);
	ok(c.attn.kv_heads == 4 && c.attn.window == 0 && c.attn.theta == 1e4 && !c.attn.qkv_bias,
	   "DeltaNet: null in attn means the default");
	rf_config_free(&c);
	parse(&c, vectors[3].text, &e);
	ok(c.eos_count == 0, "with eos_token_id null no token ends a text");
	rf_config_free(&c);
	parse(&c, vectors[5].text, &e);
	ok(!strcmp(c.unknown, "attn.spokes, wheels, \\x1b[31m"), "unknown keys are kept, escaped: %s",
	   c.unknown);
	rf_config_free(&c);
	char many[4000] = "{\"model_type\": \"delta_net\", \"attn\": {\"layers\": [0], \"num_heads\": 2";
	for (int i = 0; i < 60; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many),
		         "%s, \"a_key_with_a_long_name_%d\": 1", i == 30 ? "}" : "", i);
	strcat(many, "}");
	ok(parse(&c, many, &e) == RF_OK && strlen(c.unknown) < sizeof c.unknown &&
	           !strcmp(c.unknown + strlen(c.unknown) - 4, " ..."),
	   "the list of unknown keys ends where it is full");
	rf_config_free(&c);
}

static void read_vector(struct rf_config *c, const char *name)
{
	struct rf_err e = { RF_OK, "" };
	size_t i = 0;

	while (strcmp(vectors[i].name, name))
		i++;
	if (parse(c, vectors[i].text, &e) != RF_OK)
		ok(false, "%s: %s", name, e.msg);
}

static void test_gated(void)
{
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	const struct rf_param *A, *dt, *a;

	parse(&c, "{\"model_type\": \"gated_deltanet\"}", &e);
	ok(c.d == 2048 && c.layers == 21 && c.delta.heads == 6 && c.delta.qk_heads == 6 && c.delta.K == 256 &&
	           c.delta.V == 512 && c.vocab == 32000 && c.ffn == 5632 && c.delta.conv &&
	           c.delta.conv_size == 4 && c.delta.beta && c.delta.gate && c.delta.decay &&
	           !c.delta.joint && !c.delta.neg_eigval && !c.tied && c.norm_eps == 1e-6 &&
	           c.initializer_range == 0.02 && c.eos_count == 1 && c.eos[0] == 2 &&
	           c.delta.qk_act == RF_ACT_SILU && c.delta.qk_norm == RF_NORM_L2,
	   "Gated DeltaNet: missing keys have the defaults of flash-linear-attention");
	rf_config_free(&c);
	read_vector(&c, "gated");
	ok(!*c.unknown && c.delta.heads == 3 && c.delta.V == 20,
	   "Gated DeltaNet: a saved config has no unknown key (%s)", c.unknown);
	rf_config_free(&c);
	read_vector(&c, "gated-groups");
	ok(c.delta.heads == 6 && c.delta.qk_heads == 3 && c.delta.K == 10 && c.delta.V == 11 &&
	           !c.delta.gate && c.delta.neg_eigval && !c.delta.conv && c.delta.conv_size == 1 &&
	           c.ffn == 77 && c.mixer[1] == &rf_mixer_attention && c.attn.D == 16 &&
	           !strcmp(c.unknown, "wheels"),
	   "Gated DeltaNet: given keys are read");
	ok(rf_params_build(&t, &c, false, &e) == RF_OK, "Gated DeltaNet: the config has a table of weights");
	A = rf_params_find(&t, "model.layers.0.attn.A_log");
	dt = rf_params_find(&t, "model.layers.2.attn.dt_bias");
	a = rf_params_find(&t, "model.layers.0.attn.a_proj.weight");
	ok(A && dt && a && !rf_params_find(&t, "model.layers.1.attn.A_log") && A->ndim == 1 &&
	           A->shape[0] == 6 && !A->decay && !dt->decay && a->decay && a->shape[0] == 6 &&
	           a->shape[1] == 64 && A->init == RF_INIT_LOG && dt->init == RF_INIT_RATE,
	   "Gated DeltaNet: the table has the weights of the decay, without weight decay");
	rf_params_free(&t);
	rf_config_free(&c);
}

static void test_qwen(void)
{
	struct rf_config c;
	struct rf_err e = { RF_OK, "" };

	parse(&c, "{\"model_type\": \"qwen3_5_text\"}", &e);
	ok(c.d == 4096 && c.layers == 32 && c.ffn == 12288 && c.vocab == 248320 && c.attn.heads == 16 &&
	           c.attn.kv_heads == 4 && c.attn.D == 256 && c.attn.rotary == 64 && c.attn.theta == 1e4 &&
	           c.attn.gated && !c.attn.window && c.delta.heads == 32 && c.delta.qk_heads == 16 &&
	           c.delta.K == 128 && c.delta.V == 128 && c.delta.conv_size == 4 && c.delta.joint &&
	           c.delta.gate && c.delta.beta && c.mixer[2] == &rf_mixer_delta_net &&
	           c.mixer[3] == &rf_mixer_attention && c.mixer[31] == &rf_mixer_attention &&
	           c.norm_eps == 1e-6 && c.norm_plus_one && !c.tied && c.eos_count == 0 &&
	           c.initializer_range == 0.02,
	   "Qwen3.5: missing keys have the defaults of transformers");
	rf_config_free(&c);
	for (int i = 0; i < 2; i++) {
		read_vector(&c, i ? "qwen-sees" : "qwen");
		ok(c.d == 64 && c.layers == 4 && c.attn.heads == 8 && c.attn.kv_heads == 2 &&
		           c.attn.D == 16 && c.attn.rotary == 4 && c.attn.theta == 1e7 &&
		           c.mixer[1] == &rf_mixer_attention && c.mixer[3] == &rf_mixer_delta_net &&
		           c.delta.heads == 6 && c.delta.qk_heads == 2 && c.delta.K == 8 && c.delta.V == 12 &&
		           c.delta.f32 && c.tied && c.eos_count == 1 && c.eos[0] == 98 && !*c.unknown &&
		           !strcmp(c.names.root, i ? "model.language_model." : "model."),
		   "Qwen3.5: a published config is read, %s (%s)", c.names.root, c.unknown);
		ok(rf_config_owns(&c, "lm_head.weight") &&
		           rf_config_owns(&c, "model.language_model.layers.9.x") &&
		           !rf_config_owns(&c, "mtp.fc.weight") &&
		           !rf_config_owns(&c, "model.visual.merger.norm.bias") &&
		           rf_config_owns(&c, "model.x") == !i,
		   "Qwen3.5: tensors of the text model are owned");
		rf_config_free(&c);
	}
	read_vector(&c, "qwen-older");
	ok(!c.delta.f32 && c.attn.theta == 5e5 && c.attn.rotary == 8 && c.mixer[0] == &rf_mixer_delta_net &&
	           c.mixer[1] == &rf_mixer_attention && c.mixer[3] == &rf_mixer_attention,
	   "Qwen3.5: older keys are read");
	rf_config_free(&c);
	read_vector(&c, "qwen-unknown");
	ok(!strcmp(c.unknown, "text_config.rope_parameters.cogs, text_config.wheels, spokes"),
	   "Qwen3.5: unknown keys of every level are named: %s", c.unknown);
	rf_config_free(&c);
	read_vector(&c, "qwen-eos-outside");
	ok(c.eos_count == 2 && c.eos[1] == 8 && !*c.unknown,
	   "Qwen3.5: end tokens may be outside text_config");
	rf_config_free(&c);
	read_vector(&c, "qwen-no-rotary");
	ok(c.attn.rotary == 0, "Qwen3.5: a rotary embedding of no columns is read");
	rf_config_free(&c);
}

static void test_lact(void)
{
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	const struct rf_param *p;

	parse(&c, "{\"model_type\": \"lact_swiglu\"}", &e);
	ok(c.d == 2048 && c.layers == 24 && c.ffn == 5632 && c.vocab == 32000 && c.attn.heads == 32 &&
	           c.attn.kv_heads == 32 && c.attn.D == 64 && c.attn.rotary == 64 && c.attn.theta == 1e4 &&
	           c.attn.window == 2048 && !c.attn.qkv_bias && c.lact.heads == 4 && c.lact.D == 512 &&
	           c.lact.E == 512 && c.lact.chunk == 2048 && c.lact.rank == 0 && c.lact.silu &&
	           c.lact.v_silu && !c.lact.qk_norm && c.lact.rotated && !c.lact.muon && c.lact.momentum &&
	           !c.lact.prenorm && c.lact.scale && c.lact.gain == 0.5 && c.initializer_range == 0.006 &&
	           c.norm_eps == 1e-6 && c.mixer[23] == &rf_mixer_lact && !c.tied && c.eos_count == 1 &&
	           c.eos[0] == 2,
	   "LaCT: missing keys have the defaults of the published code");
	rf_config_free(&c);
	read_vector(&c, "lact");
	ok(c.attn.theta == 1e6 && c.lact.rank == 16 && !*c.unknown &&
	           rf_params_build(&t, &c, false, &e) == RF_OK && t.n == 3 * 21 + 3,
	   "LaCT: a published config is read (%s)", c.unknown);
	p = rf_params_find(&t, "model.layers.2.attn.w0.w_left");
	ok(p && p->shape[0] == 4 && p->shape[1] == 16 && p->shape[2] == 16 && p->init == RF_INIT_NORMAL &&
	           p->scale == 0.5 / 4,
	   "LaCT: w_left starts with deviation fw_init_gain / sqrt(rank)");
	p = rf_params_find(&t, "model.layers.2.attn.lr_proj.bias");
	ok(p && p->shape[0] == 12 && p->init == RF_INIT_ZERO,
	   "LaCT: the bias of the rates starts at 0, because rates_fwd adds softplus^-1(0.001)");
	rf_params_free(&t);
	rf_config_free(&c);
	read_vector(&c, "lact-options");
	ok(c.attn.window == 0 && c.attn.qkv_bias && c.lact.E == 8 && c.lact.chunk == 7 && c.lact.rank == 0 &&
	           c.lact.silu && !c.lact.v_silu && c.lact.qk_norm && !c.lact.rotated && c.lact.muon &&
	           !c.lact.momentum && c.lact.prenorm && !c.lact.scale && c.lact.gain == 0.25 &&
	           c.initializer_range == 0.02,
	   "LaCT: given keys are read");
	ok(rf_params_build(&t, &c, false, &e) == RF_OK && t.n == 3 * 18 + 3 &&
	           (p = rf_params_find(&t, "model.layers.0.attn.w2")) && p->shape[1] == 8 &&
	           p->shape[2] == 16 && p->scale == 0.25 &&
	           (p = rf_params_find(&t, "model.layers.0.attn.w1")) && p->shape[1] == 16 &&
	           p->shape[2] == 8 && p->scale == 1 / sqrt(8),
	   "LaCT: full fast weights start with deviation 1 / sqrt(columns)");
	rf_params_free(&t);
	rf_config_free(&c);
	read_vector(&c, "lact-unknown");
	ok(!strcmp(c.unknown, "wheels"), "LaCT: an unknown key is kept");
	rf_config_free(&c);
}

static void edit(const char *name, const char *text, const char *dtype, bool tied, const char *want)
{
	struct rf_config c;
	struct rf_err e = { RF_OK, "" };
	char *out = NULL;
	char q[300];
	bool good = parse(&c, text, &e) == RF_OK && rf_config_text(&c, dtype, tied, &out, &e) == RF_OK;

	if (want)
		ok(good && !strcmp(out, want), "%s: %s (%s)", name,
		   good ? rf_quote(q, sizeof q, out, strlen(out)) : "failed", e.msg);
	else
		ok(!good && e.code == RF_EMODEL && !out, "%s is refused (%s)", name, e.msg);
	free(out);
	rf_config_free(&c);
}

static void test_text(void)
{
#define DN "\"model_type\": \"delta_net\""
	edit("dtype is replaced, and nothing else changes",
	     "{\n  " DN ",\n  \"dtype\" : \"bfloat16\" ,\n  \"x\": [1e-06, {\"dtype\": 1}]\n}\n", "float32",
	     false, "{\n  " DN ",\n  \"dtype\" : \"float32\" ,\n  \"x\": [1e-06, {\"dtype\": 1}]\n}\n");
	edit("dtype is added on a line of its own", "{\n  " DN "\n}", "float32", false,
	     "{\n  \"dtype\": \"float32\",\n  " DN "\n}");
	edit("torch_dtype is replaced where it is", "{\"torch_dtype\":\"float16\"," DN "}", "bfloat16", false,
	     "{\"dtype\": \"bfloat16\",\"torch_dtype\":\"bfloat16\"," DN "}");
	edit("tie_word_embeddings is replaced", "{" DN ",\"dtype\":null,\"tie_word_embeddings\": true}",
	     "float32", false, "{" DN ",\"dtype\":\"float32\",\"tie_word_embeddings\": false}");
	edit("tie_word_embeddings is added", "{" DN ",\"dtype\":\"float32\"}", "float32", true,
	     "{\"tie_word_embeddings\": true," DN ",\"dtype\":\"float32\"}");
	edit("quotes and brackets in strings do not mislead",
	     "{\"a\":\"}\\\",\\\"dtype\\\":1\","
	     "\"b\":{\"dtype\":[\"]\"]}," DN ",\"dtype\":{\"c\":[1,2]}}",
	     "float32", false,
	     "{\"a\":\"}\\\",\\\"dtype\\\":1\",\"b\":{\"dtype\":[\"]\"]}," DN ",\"dtype\":\"float32\"}");
#define SEES(inner, rest) "{\"model_type\":\"qwen3_5\",\"text_config\":{" inner "}" rest "}"
	edit("the dtype of the text model is replaced, that of the vision encoder is not",
	     SEES("\"dtype\": \"bfloat16\"", ",\"vision_config\":{\"dtype\":\"bfloat16\"}"), "float32", false,
	     SEES("\"dtype\": \"float32\"", ",\"vision_config\":{\"dtype\":\"bfloat16\"}"));
	edit("an outer dtype is replaced too",
	     SEES("\"x\":1", ",\"torch_dtype\":\"bfloat16\",\"dtype\":\"bfloat16\""), "float32", false,
	     SEES("\"dtype\": \"float32\",\"x\":1", ",\"torch_dtype\":\"float32\",\"dtype\":\"float32\""));
	edit("tie_word_embeddings is replaced in both objects",
	     SEES("\"dtype\":0,\"tie_word_embeddings\":true", ",\"tie_word_embeddings\":true"), "float32",
	     false,
	     SEES("\"dtype\":\"float32\",\"tie_word_embeddings\":false", ",\"tie_word_embeddings\":false"));
	edit("the outer tie_word_embeddings counts",
	     SEES("\"dtype\":0,\"tie_word_embeddings\":true", ",\"tie_word_embeddings\":false"), "float32",
	     false,
	     SEES("\"dtype\":\"float32\",\"tie_word_embeddings\":true", ",\"tie_word_embeddings\":false"));
	edit("a missing tie_word_embeddings is added to the outer object",
	     SEES("\"dtype\":0,\"tie_word_embeddings\":true", ""), "float32", false,
	     "{\"tie_word_embeddings\": false,\"model_type\":\"qwen3_5\","
	     "\"text_config\":{\"dtype\":\"float32\",\"tie_word_embeddings\":false}}");
	edit("text_config may have escapes", "{\"model_type\":\"qwen3_5\",\"text\\u005fconfig\":{}}",
	     "float32", false, "{\"model_type\":\"qwen3_5\",\"text\\u005fconfig\":{\"dtype\": \"float32\"}}");
	edit("a key may have escapes", "{" DN ",\"d\\u0074ype\":\"float16\"}", "float32", false,
	     "{" DN ",\"d\\u0074ype\":\"float32\"}");
}

static void test_params(void)
{
	struct rf_config c;
	struct rf_params t;
	struct rf_err e = { RF_OK, "" };
	bool sorted = true, aligned = true, found = true;
	size_t end = 0;

	parse(&c,
	      "{\"model_type\": \"delta_net\", \"hidden_size\": 66, \"num_heads\": 3, "
	      "\"num_hidden_layers\": 3, \"vocab_size\": 99, \"attn\": {\"layers\": [1], \"num_heads\": 3, "
	      "\"num_kv_heads\": 1, \"qkv_bias\": true}}",
	      &e);
	if (!ok(rf_params_build(&t, &c, false, &e) == RF_OK && t.n == 2 * 14 + 12 + 3,
	        "the table has every weight (%d)", t.n))
		return;
	for (int i = 0; i < t.n; i++) {
		const struct rf_param *p = &t.p[i];
		size_t count = 1;
		sorted &= i == 0 || strcmp(t.p[i - 1].name, p->name) < 0;
		for (int d = 0; d < p->ndim; d++)
			count *= (size_t)p->shape[d];
		aligned &=
			p->offset % 16 == 0 && p->offset >= end && p->offset < end + 16 && p->count == count;
		end = p->offset + p->count;
		found &= rf_params_find(&t, p->name) == p && p->decay;
	}
	ok(sorted, "the table is sorted by name");
	ok(aligned && t.total >= end && t.total < end + 16 && t.total % 16 == 0,
	   "weights are at multiples of 16 floats");
	ok(found && !rf_params_find(&t, "") && !rf_params_find(&t, "zz") &&
	           !rf_params_find(&t, "model.layers.3.attn_norm.weight"),
	   "only names of weights are found");
	const struct rf_param *conv = rf_params_find(&t, "model.layers.0.attn.q_conv1d.weight"),
			      *bias = rf_params_find(&t, "model.layers.1.attn.k_proj.bias");
	ok(conv && conv->ndim == 3 && conv->shape[0] == 66 && conv->shape[1] == 1 && conv->shape[2] == 4 &&
	           conv->init == RF_INIT_NORMAL && conv->scale == c.initializer_range,
	   "a convolution is (C, 1, w), and starts like linear weights");
	ok(bias && bias->ndim == 1 && bias->shape[0] == 22 && bias->init == RF_INIT_ZERO,
	   "a bias starts at 0");
	rf_params_free(&t);
	ok(rf_params_build(&t, &c, true, &e) == RF_OK && t.n == 42 && !rf_params_find(&t, "lm_head.weight") &&
	           t.tied,
	   "a tied model has no lm_head.weight");
	rf_params_free(&t);
	rf_config_free(&c);
}

int main(int argc, char *argv[])
{
	if (argc == 3 && !strcmp(argv[1], "--corpus")) {
		for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
			char path[500];
			FILE *f;

			snprintf(path, sizeof path, "%s/%s", argv[2], vectors[i].name);
			if (!(f = fopen(path, "w")) || fputs(vectors[i].text, f) < 0 || fclose(f))
				return 1;
		}
		return 0;
	}
	test_vectors();
	test_values();
	test_gated();
	test_qwen();
	test_lact();
	test_text();
	test_params();
	return tap_end();
}
