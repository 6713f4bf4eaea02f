/* families.c -- the registry: the families of models that a config.json may name by its model_type.
 *
 * The reader of a family fills a struct rf_config and sets the mixer of each layer (rf_config_layers()), so
 * there is no other list of mixers.  mixer.h declares the mixers. */
#include "model/config_read.h"

const struct rf_family rf_families[] = {
	{ "delta_net", rf_config_delta_net }, { "gated_deltanet", rf_config_gated_deltanet },
	{ "lact_swiglu", rf_config_lact },    { "qwen3_5_text", rf_config_qwen3_5_text },
	{ "qwen3_5", rf_config_qwen3_5 },     { NULL, NULL },
};
