/* config.h -- config.json of a Hugging Face checkpoint, typed and checked.
 *
 * A key that changes the mathematics and is not supported is an error that names it; keys of the published configs
 * that do not are known and ignored; an unknown key is remembered, so that the program can warn of it by name. */
#ifndef RF_CONFIG_H
#define RF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

enum rf_arch { RF_DELTA_NET };
enum rf_act { RF_ACT_SILU, RF_ACT_RELU, RF_ACT_ELU, RF_ACT_IDENTITY };   /* ELU is elu(x) + 1 */
enum rf_qk_norm { RF_NORM_L2, RF_NORM_SUM };
enum { RF_MAX_LAYERS = 1024, RF_MAX_WIDTH = 1 << 20, RF_MAX_VOCAB = 1 << 24, RF_MAX_EOS = 16 };

/* Softmax attention in the layers that `attn` lists. */
struct rf_attn_config {
	bool *in_layer;           /* (layers) */
	int heads, kv_heads;
	bool qkv_bias;
	int window;               /* 0: no limit */
	double rope_theta;
};

struct rf_config {
	enum rf_arch arch;
	char model_type[32];
	int d, layers, ffn, vocab; /* hidden_size, num_hidden_layers, MLP width (resolved), vocab_size */
	double norm_eps, initializer_range;
	bool tied;                /* what the config says; the file decides (no lm_head.weight: tied) */
	int eos[RF_MAX_EOS], eos_count;

	/* delta_net */
	int heads, K, V;          /* heads, key and value width of a head */
	bool use_short_conv, use_beta, use_gate, allow_neg_eigval;
	int conv_size;            /* w; 1 without convolution */
	enum rf_act qk_act;
	enum rf_qk_norm qk_norm;

	bool has_attn;
	struct rf_attn_config attn;

	char *text;               /* config.json as read, so that it can be written back unchanged but for the dtype */
	char unknown[200];        /* names of unknown keys, ", " between; "" for none */
};

/* Reads and checks; all sizes within the limits above and dividing as they must.  RF_EMODEL names the key; RF_ENOINPUT,
 * RF_EIO.  cfg is freed with rf_config_free() also after a failure. */
enum rf_code rf_config_parse(struct rf_config *cfg, const char *text, size_t n, struct rf_err *e);
enum rf_code rf_config_read(struct rf_config *cfg, const char *path, struct rf_err *e);
void rf_config_free(struct rf_config *cfg);

/* cfg->text with "dtype" (and "torch_dtype" where it stands) set to "float32" or "bfloat16", and tie_word_embeddings
 * as given; malloc'd into *text. */
enum rf_code rf_config_text(const struct rf_config *cfg, const char *dtype, bool tied, char **text, struct rf_err *e);

#endif
