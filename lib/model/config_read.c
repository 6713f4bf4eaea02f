/* config_read.c -- reads the keys of a config, and checks their types and limits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "model/config_read.h"

void rf_config_bad(struct rf_config_reader *r, const char *key, const char *what)
{
	if (r->rc == RF_OK)
		r->rc = rf_fail(r->e, RF_EMODEL, "'%s%s' must be %s", r->prefix, key, what);
}

json_t *rf_config_take(struct rf_config_reader *r, const char *key)
{
	json_t *v = json_object_get(r->left, key);

	json_object_del(r->left, key);
	return v;
}

int rf_config_whole(struct rf_config_reader *r, const char *key, int dflt, int min, int max)
{
	json_t *v = rf_config_take(r, key);
	char what[80];

	if (!v)
		return dflt;
	if (json_is_integer(v) && json_integer_value(v) >= min && json_integer_value(v) <= max)
		return (int)json_integer_value(v);
	snprintf(what, sizeof what, "a whole number from %d to %d", min, max);
	rf_config_bad(r, key, what);
	return dflt;
}

double rf_config_real(struct rf_config_reader *r, const char *key, double dflt, double min, double max)
{
	json_t *v = rf_config_take(r, key);
	char what[80];

	if (!v)
		return dflt;
	if (json_is_number(v) && json_number_value(v) >= min && json_number_value(v) <= max)
		return json_number_value(v);
	snprintf(what, sizeof what, "a number from %g to %g", min, max);
	rf_config_bad(r, key, what);
	return dflt;
}

bool rf_config_flag(struct rf_config_reader *r, const char *key, bool dflt)
{
	json_t *v = rf_config_take(r, key);

	if (v && !json_is_boolean(v))
		rf_config_bad(r, key, "true or false");
	return v ? json_is_true(v) : dflt;
}

int rf_config_word(struct rf_config_reader *r, const char *key, const char *words)
{
	json_t *v = rf_config_take(r, key);
	const char *s = json_string_value(v);
	int i = s ? rf_opt_index(words, s) : -1;
	char q[60], what[160];

	if (!v)
		return 0;
	if (i >= 0)
		return i;
	if (s)
		snprintf(what, sizeof what, "one of %s, not '%s'", words,
		         rf_quote(q, sizeof q, s, strlen(s)));
	else
		snprintf(what, sizeof what, "a string, one of %s", words);
	rf_config_bad(r, key, what);
	return 0;
}

void rf_config_null(struct rf_config_reader *r, const char *key)
{
	if (json_is_null(json_object_get(r->left, key)))
		json_object_del(r->left, key);
}

void rf_config_unknown(struct rf_config_reader *r, struct rf_config *cfg)
{
	const char *key;
	json_t *v;

	json_object_foreach (r->left, key, v) {
		size_t n = strlen(cfg->unknown);
		char name[80], q[64];
		snprintf(name, sizeof name, "%s%s%s", n ? ", " : "", r->prefix,
		         rf_quote(q, sizeof q, key, strlen(key)));
		if (n + strlen(name) + 5 > sizeof cfg->unknown) {
			/* the keys of attn come first, and may have filled the text */
			if (n + 5 <= sizeof cfg->unknown)
				strcpy(cfg->unknown + n, " ...");
			return;
		}
		strcpy(cfg->unknown + n, name);
	}
}

/* Keys that change how models are computed or saved, keys for other programs, and keys that Hugging Face
 * writes everywhere. */
static const char *const harmless[] = { "_attn_implementation_autoset",
	                                "_name_or_path",
	                                "architectures",
	                                "attn_mode",
	                                "auto_map",
	                                "bos_token_id",
	                                "chunk_size",
	                                "dtype",
	                                "fuse_cross_entropy",
	                                "fuse_linear_cross_entropy",
	                                "fuse_norm",
	                                "fuse_swiglu",
	                                "id2label",
	                                "label2id",
	                                "max_position_embeddings",
	                                "output_attentions",
	                                "output_hidden_states",
	                                "pad_token_id",
	                                "return_dict",
	                                "torch_dtype",
	                                "transformers_version",
	                                "use_bfloat16",
	                                "use_cache",
	                                "use_l2warp",
	                                NULL };

void rf_config_rest(struct rf_config_reader *r, struct rf_config *cfg)
{
	for (const char *const *key = harmless; *key; key++)
		rf_config_take(r, *key);
	rf_config_unknown(r, cfg);
}

void rf_config_only(struct rf_config_reader *r, const char *key, bool only)
{
	rf_config_null(r, key);
	if (rf_config_flag(r, key, only) != only)
		rf_config_bad(r, key,
		              only ? "true: nothing else is supported" : "false: nothing else is supported");
}

void rf_config_absent(struct rf_config_reader *r, const char *key)
{
	json_t *v = rf_config_take(r, key);

	if (v && !json_is_null(v))
		rf_config_bad(r, key, "absent: it is not supported");
}

static bool is_end(const struct rf_config *cfg, json_int_t id)
{
	for (int i = 0; i < cfg->eos_count; i++)
		if (cfg->eos[i] == id)
			return true;
	return false;
}

bool rf_config_end_tokens(struct rf_config_reader *r, struct rf_config *cfg)
{
	json_t *v = rf_config_take(r, "eos_token_id"), *one;

	for (size_t i = 0; v && !json_is_null(v) && i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
		one = json_is_array(v) ? json_array_get(v, i) : v;
		if (cfg->eos_default)
			cfg->eos_count = 0;
		cfg->eos_default = false;
		if (json_is_integer(one) && is_end(cfg, json_integer_value(one)))
			continue;
		if (cfg->eos_count < RF_MAX_EOS && json_is_integer(one) && json_integer_value(one) >= 0 &&
		    json_integer_value(one) < cfg->vocab) {
			cfg->eos[cfg->eos_count++] = (int)json_integer_value(one);
			continue;
		}
		rf_config_bad(r, "eos_token_id",
		              "a token of the vocabulary or a list of them, 16 at most in all");
		break;
	}
	return v;
}

void rf_config_common(struct rf_config_reader *r, struct rf_config *cfg, int vocab, int eos)
{
	cfg->vocab = rf_config_whole(r, "vocab_size", vocab, 1, RF_MAX_VOCAB);
	cfg->initializer_range = rf_config_real(r, "initializer_range", 0.02, 0, 1e3);
	cfg->tied = rf_config_flag(r, "tie_word_embeddings", false);
	/* a vocabulary that is too small for the default has no end token */
	if (!rf_config_end_tokens(r, cfg) && eos >= 0 && eos < cfg->vocab) {
		cfg->eos[cfg->eos_count++] = eos;
		cfg->eos_default = true;
	}
}

void rf_config_mlp(struct rf_config_reader *r, struct rf_config *cfg)
{
	double ratio, width;

	rf_config_word(r, "hidden_act", "swish|silu");
	rf_config_null(r, "hidden_ratio");
	rf_config_null(r, "intermediate_size");
	ratio = rf_config_real(r, "hidden_ratio", 4, 1e-3, 1e3);
	cfg->ffn = rf_config_whole(r, "intermediate_size", 0, 1, RF_MAX_WIDTH);
	if (cfg->ffn)
		return;
	width = 256 * ceil(floor(cfg->d * ratio * 2 / 3) / 256);
	if (width < 1 || width > RF_MAX_WIDTH)
		rf_config_bad(r, "hidden_ratio", "such that the width of the MLP is from 1 to 1048576");
	else
		cfg->ffn = (int)width;
}

void rf_config_layers(struct rf_config_reader *r, struct rf_config *cfg, int n, const struct rf_mixer *mixer)
{
	cfg->layers = rf_config_whole(r, "num_hidden_layers", n, 1, RF_MAX_LAYERS);
	if (!(cfg->mixer = calloc((size_t)cfg->layers, sizeof *cfg->mixer))) {
		r->rc = rf_fail(r->e, RF_ENOMEM, "out of memory");
		return;
	}
	for (int i = 0; i < cfg->layers; i++)
		cfg->mixer[i] = mixer;
}
