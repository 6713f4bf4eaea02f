/* config.h -- config.json of a Hugging Face checkpoint, typed and checked.
 *
 * A key that changes the mathematics and is not supported is an error that names it; keys of the
 * published configs that do not are known and ignored; an unknown key is remembered, so that the
 * program can warn of it by name. */
#ifndef RF_CONFIG_H
#define RF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "device/act.h"

enum { RF_MAX_LAYERS = 1024, RF_MAX_WIDTH = 1 << 20, RF_MAX_VOCAB = 1 << 24, RF_MAX_EOS = 16,
       RF_MAX_NAME = 120 };

/* The delta rule: of delta_net, of Qwen3.5's linear attention. */
struct rf_delta_config {
	int heads, qk_heads;      /* of v; of q and k, which divides it */
	int K, V;                 /* key and value width of a head */
	bool conv, beta, gate, neg_eigval;
	bool decay;               /* of gated_deltanet and Qwen3.5 */
	bool joint;               /* one projection and one convolution for q, k and v, and Qwen3.5's names */
	int conv_size;            /* w; 1 without convolution */
	enum rf_act qk_act;
	enum rf_norm qk_norm;
};

/* Softmax attention. */
struct rf_attn_config {
	int heads, kv_heads, D;
	int rotary;               /* columns of a head that are turned; 0: none */
	double theta;
	bool qkv_bias;
	bool gated;               /* q and k are normed per head, times 1 + w; q_proj gives per head query
	                             and gate: o times its sigmoid */
	int window;               /* 0: no limit */
};

/* Fast weights, of lact_swiglu; attn beside them. */
struct rf_lact_config {
	int heads, D, E;          /* width of a head, and of its fast weights' hidden layer */
	int chunk, rank;          /* rank of w0, w2; 0: they are whole */
	bool silu, v_silu;        /* of q and k; of v */
	bool qk_norm, turned;     /* q and k are turned by their positions */
	bool muon, momentum, prenorm, scale;
	double gain;              /* fw_init_gain */
};

/* Where the weights' names differ from family to family: root embed, root layers.I.mixer_norm, ..., root
 * layers.I.attn.q_proj of softmax attention. */
struct rf_names { const char *root, *embed, *mixer_norm, *mlp_norm, *attn; };

struct rf_mixer;

struct rf_config {
	char model_type[32];
	int d, layers, ffn, vocab; /* hidden_size, num_hidden_layers, MLP width (resolved), vocab_size */
	double norm_eps, initializer_range;
	bool norm_plus_one;       /* norms of hidden states multiply by 1 + w */
	bool tied;                /* what the config says; the file decides (no lm_head.weight: tied) */
	int eos[RF_MAX_EOS], eos_count;
	struct rf_names names;
	/* a checkpoint may hold tensors that are not the model's: rf_config_owns() */
	bool others;

	const struct rf_mixer **mixer; /* (layers): what each layer mixes its rows with (mixer.h) */
	struct rf_delta_config delta;
	struct rf_attn_config attn;
	struct rf_lact_config lact;

	/* the key of the object that describes the model of text; NULL: the outermost does */
	const char *inner;
	/* config.json as read, so that it can be written back unchanged but for the dtype */
	char *text;
	char unknown[200];        /* names of unknown keys, ", " between; "" for none */
};

/* Reads and checks; all sizes within the limits above and dividing as they must.  RF_EMODEL names the key;
 * RF_ENOINPUT, RF_EIO.  cfg is freed with rf_config_free() also after a failure. */
enum rf_code rf_config_parse(struct rf_config *cfg, const char *text, size_t n, struct rf_err *e);
enum rf_code rf_config_read(struct rf_config *cfg, const char *path, struct rf_err *e);
void rf_config_free(struct rf_config *cfg);

/* The name of the embedding's tensor. */
void rf_config_embedding(const struct rf_config *cfg, char name[RF_MAX_NAME]);

/* Whether a tensor of this name must be one of the model's.  Others, such as those of a part that sees
 * images, are carried along unchanged. */
bool rf_config_owns(const struct rf_config *cfg, const char *name);

/* cfg->text with "dtype" (and "torch_dtype" where it stands) set to "float32" or "bfloat16", and
 * tie_word_embeddings as given; malloc'd into *text.  With an inner object "dtype" is put there, and all are
 * set wherever they stand. */
enum rf_code rf_config_text(const struct rf_config *cfg, const char *dtype, bool tied, char **text,
                            struct rf_err *e);

#endif
