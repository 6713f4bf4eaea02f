/* config.h -- config.json of a Hugging Face checkpoint, typed and checked.
 *
 * A key that changes the mathematics in a way that is not supported is an error, which names the key.  Other
 * keys of the published configs are known and ignored.  The names of unknown keys are kept, so that the
 * program can warn of them. */
#ifndef RF_CONFIG_H
#define RF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "device/act.h"

enum {
	RF_MAX_LAYERS = 1024,
	RF_MAX_WIDTH = 1 << 20,
	RF_MAX_VOCAB = 1 << 24,
	RF_MAX_EOS = 16,
	RF_MAX_NAME = 120
};

/* The delta rule of DeltaNet, Gated DeltaNet and Qwen3.5's linear attention. */
struct rf_delta_config {
	int heads, qk_heads; /* heads of v; heads of q and k, a divisor of the former */
	int K, V;            /* key and value width of a head */
	/* short convolution; learned beta, else 1; output gate; beta doubled */
	bool conv, beta, gate, neg_eigval;
	bool decay;    /* in gated_deltanet and Qwen3.5 */
	bool joint;    /* one projection and one convolution for q, k and v, and Qwen3.5's names */
	bool f32;      /* A_log and the norm are float32 in files of any type */
	int conv_size; /* w; 1 without convolution */
	enum rf_act qk_act;
	enum rf_norm qk_norm;
};

/* Softmax attention. */
struct rf_attn_config {
	int heads, kv_heads, D;
	int rotary; /* columns of a head with rotary embedding; 0: none */
	double theta;
	bool qkv_bias;
	bool gated; /* q and k are normed per head, times 1 + w; q_proj yields a query and a
	                             gate per head, and o is multiplied by the gate's sigmoid */
	int window; /* rows that a row sees, itself included; 0: no limit */
};

/* The fast weights of lact_swiglu; its attention is in struct rf_attn_config. */
struct rf_lact_config {
	int heads, D, E;       /* heads; width of a head, and of its fast weights' hidden layer */
	int chunk, rank;       /* rows of a chunk; rank of the initial w0 and w2, 0: full matrices */
	bool silu, v_silu;     /* q and k pass through silu; so does v */
	bool qk_norm, rotated; /* q and k are normed; fast weights read them with rotary embedding */
	bool muon, momentum, prenorm, scale;
	double gain; /* fw_init_gain */
};

/* The parts of weights' names that differ between families.  Names begin with root: root embed, root
 * layers.I.mixer_norm, ..., root layers.I.attn.q_proj for softmax attention. */
struct rf_names {
	const char *root, *embed, *mixer_norm, *mlp_norm, *attn;
	const char *other_root; /* the root that names may have instead; NULL: none */
};

struct rf_mixer;

struct rf_config {
	char model_type[32];
	int d, layers, ffn, vocab; /* hidden_size, num_hidden_layers, MLP width (resolved), vocab_size */
	double norm_eps, initializer_range;
	bool norm_plus_one; /* norms of hidden states multiply by 1 + w */
	bool tied;          /* tie_word_embeddings; the file decides (no lm_head.weight: tied) */
	/* the tokens that end a text, each once: those of config.json, and of generation_config.json of a
	   checkpoint, which may name more, such as the end of a turn */
	int eos[RF_MAX_EOS], eos_count;
	bool eos_default; /* the end token is the family's default, since config.json names none */
	struct rf_names names;

	const struct rf_mixer **mixer; /* (layers): the mixer of each layer (mixer.h) */
	struct rf_delta_config delta;
	struct rf_attn_config attn;
	struct rf_lact_config lact;

	/* the key whose object describes the text model; NULL: the outermost object does */
	const char *inner;
	/* config.json as read, so that it can be written back with only the dtype changed */
	char *text;
	char unknown[200]; /* names of unknown keys, separated by ", "; "": none */
	bool foreign;      /* after a failure: model_type is a string, but not one that is supported */
};

/* Read a config from a text of n bytes or from a file, and check it: all sizes are within the limits above
 * and divide each other as they must.  Free cfg with rf_config_free(), also after a failure.  Errors:
 * RF_EMODEL: a key is wrong, and the message names it; RF_ENOINPUT, RF_EIO: reading the file. */
enum rf_code rf_config_parse(struct rf_config *cfg, const char *text, size_t n, struct rf_err *e);
enum rf_code rf_config_read(struct rf_config *cfg, const char *path, struct rf_err *e);
/* Adds the end tokens of a checkpoint's generation_config.json, which may be missing; its other keys are for
 * other programs.  These end tokens replace the default of the family.  Errors: RF_EMODEL: the file is not a
 * JSON object, its eos_token_id is not one or more tokens of the vocabulary, or both files name more than
 * RF_MAX_EOS tokens; RF_EIO, RF_ENOMEM. */
enum rf_code rf_config_read_generation(struct rf_config *cfg, const char *path, struct rf_err *e);
void rf_config_free(struct rf_config *cfg);

/* Writes the name of the tensor of the embedding. */
void rf_config_embedding(const struct rf_config *cfg, char name[RF_MAX_NAME]);

/* Chooses the root of the names: the other root, if a checkpoint has the embedding only under that root.
 * has(arg, name) returns whether the checkpoint has a tensor of this name. */
void rf_config_fit_names(struct rf_config *cfg, bool (*has)(const void *arg, const char *name),
                         const void *arg);

/* Returns whether the model owns a tensor of this name: it is the head, or its name begins with the root and
 * does not end in rotary_emb.inv_freq.  Other tensors, such as those of a vision encoder, are not read, and
 * are carried along unchanged. */
bool rf_config_owns(const struct rf_config *cfg, const char *name);
/* Returns whether a tensor that the text model does not own belongs to another part of the model that
 * config.json describes: the vision encoder or the prediction of several tokens. */
bool rf_config_expects(const struct rf_config *cfg, const char *name);

/* Writes to *text (malloc'd) a copy of cfg->text with tie_word_embeddings as given and "dtype" set to dtype,
 * such as "float32" or "bfloat16"; "torch_dtype" is set where it is present.  If the text model has an object
 * of its own (cfg->inner), "dtype" is added there if it is missing, and each of these keys is set wherever it
 * is present. */
enum rf_code rf_config_text(const struct rf_config *cfg, const char *dtype, bool tied, char **text,
                            struct rf_err *e);

/* Returns whether a token ends a text. */
bool rf_config_ends(const struct rf_config *c, int32_t token);

#endif
