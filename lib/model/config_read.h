/* config_read.h -- reading one JSON object of a config.
 *
 * Every key that is read is removed from a copy of the object, so the keys that are left at the end are
 * unknown.  The first failure stays in the reader. */
#ifndef RF_CONFIG_READ_H
#define RF_CONFIG_READ_H

#include <jansson.h>

#include "model/config.h"

struct rf_config_reader {
	json_t *left;       /* a copy of the object, without the keys that were read */
	const char *prefix; /* of keys in messages: "", or "attn.", "text_config." */
	struct rf_err *e;
	enum rf_code rc;
};

/* Fails with the message that the key must be `what`. */
void rf_config_bad(struct rf_config_reader *r, const char *key, const char *what);
/* Removes a key from r->left and returns its value, or NULL if it is absent.  The value stays valid, because
 * the object that r->left was copied from still holds it. */
json_t *rf_config_take(struct rf_config_reader *r, const char *key);
/* Take the key and return its value: a whole number or a number from min to max, or true or false.  They
 * return dflt if the key is absent; any other value is a failure. */
int rf_config_whole(struct rf_config_reader *r, const char *key, int dflt, int min, int max);
double rf_config_real(struct rf_config_reader *r, const char *key, double dflt, double min, double max);
bool rf_config_flag(struct rf_config_reader *r, const char *key, bool dflt);
/* Takes the key and returns the index of its value among words "a|b|c"; the first is the default. */
int rf_config_word(struct rf_config_reader *r, const char *key, const char *words);
/* Removes the key if its value is null.  Call it first for a key whose null means "not given". */
void rf_config_null(struct rf_config_reader *r, const char *key);
/* Take the key and check it.  rf_config_only(): the key must be absent, null or `only`, the one value that is
 * supported.  rf_config_absent(): the key must be absent or null. */
void rf_config_only(struct rf_config_reader *r, const char *key, bool only);
void rf_config_absent(struct rf_config_reader *r, const char *key);
/* Add to cfg->unknown the names of the keys that have not been read.  rf_config_rest() first drops harmless
 * keys: those that change how models are computed or saved, those for other programs, and those that Hugging
 * Face writes everywhere. */
void rf_config_unknown(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_rest(struct rf_config_reader *r, struct rf_config *cfg);

/* Reads the keys that all families share: vocab_size, eos_token_id, initializer_range, tie_word_embeddings.
 * vocab and eos are the family's defaults; RF_NO_EOS: no end-of-sequence token. */
enum { RF_NO_EOS = -1 };
void rf_config_common(struct rf_config_reader *r, struct rf_config *cfg, int vocab, int eos);
/* Adds eos_token_id, a token or a list, to the end tokens of cfg.  If the key names a token, the default of
 * the family is dropped.  Returns false if the key is absent. */
bool rf_config_end_tokens(struct rf_config_reader *r, struct rf_config *cfg);
/* Reads the width of the MLP: intermediate_size or, if that is null or absent, hidden_size times 2/3
 * hidden_ratio, rounded down to a whole number and then up to a multiple of 256. */
void rf_config_mlp(struct rf_config_reader *r, struct rf_config *cfg);
/* Reads num_hidden_layers (default n) and gives every layer this mixer; the family may then give some layers
 * another one. */
void rf_config_layers(struct rf_config_reader *r, struct rf_config *cfg, int n, const struct rf_mixer *mixer);

/* Each of these reads the keys of one family into cfg. */
void rf_config_delta_net(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_gated_deltanet(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_lact(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_qwen3_5_text(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_qwen3_5(struct rf_config_reader *r, struct rf_config *cfg);

#endif
