/* config_read.h -- reading one JSON object of a config: every key is taken out of a copy as it is read, so
 * that what is left at the end is unknown.  The first failure sticks. */
#ifndef RF_CONFIG_READ_H
#define RF_CONFIG_READ_H

#include <jansson.h>

#include "model/config.h"

struct rf_config_reader {
	json_t *left;         /* a copy of the object, less what was read */
	const char *prefix;   /* "", or "attn.", "text_config." */
	struct rf_err *e;
	enum rf_code rc;
};

/* Says that the key must be `what`. */
void rf_config_bad(struct rf_config_reader *r, const char *key, const char *what);
/* The value of a key, NULL if it is not there.  It stays alive: the object that left was copied
 * from holds it. */
json_t *rf_config_take(struct rf_config_reader *r, const char *key);
int rf_config_whole(struct rf_config_reader *r, const char *key, int dflt, int min, int max);
double rf_config_real(struct rf_config_reader *r, const char *key, double dflt, double min, double max);
bool rf_config_flag(struct rf_config_reader *r, const char *key, bool dflt);
/* The index of the value among words "a|b|c"; the first is the default. */
int rf_config_word(struct rf_config_reader *r, const char *key, const char *words);
/* Where null stands for "not given". */
void rf_config_null(struct rf_config_reader *r, const char *key);
/* The key must be absent, null or the only value that is supported. */
void rf_config_only(struct rf_config_reader *r, const char *key, bool only);
void rf_config_absent(struct rf_config_reader *r, const char *key);
/* Adds what is left to cfg->unknown; rest: less the keys that say how to compute or to save, what other
 * programs should do, or what Hugging Face writes everywhere. */
void rf_config_unknown(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_rest(struct rf_config_reader *r, struct rf_config *cfg);

/* What the families share: vocab_size, eos_token_id, initializer_range, tie_word_embeddings, with their
 * defaults. */
enum { RF_NO_EOS = -1 };
void rf_config_common(struct rf_config_reader *r, struct rf_config *cfg, int vocab, int eos);
/* The MLP's width: intermediate_size, or where that is null hidden_size times 2/3 hidden_ratio, rounded down
 * to a whole number and then up to a multiple of 256. */
void rf_config_mlp(struct rf_config_reader *r, struct rf_config *cfg);
/* num_hidden_layers, by default n, all with one mixer; a family may then give some of them another. */
void rf_config_layers(struct rf_config_reader *r, struct rf_config *cfg, int n, const struct rf_mixer *mixer);

/* Each reads its family's keys into cfg. */
void rf_config_delta_net(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_gated_deltanet(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_lact(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_qwen3_5_text(struct rf_config_reader *r, struct rf_config *cfg);
void rf_config_qwen3_5(struct rf_config_reader *r, struct rf_config *cfg);

/* The families that there are, up to one without a name (families.c). */
struct rf_family {
	const char *model_type;
	void (*read)(struct rf_config_reader *r, struct rf_config *cfg);
};
extern const struct rf_family rf_families[];

#endif
