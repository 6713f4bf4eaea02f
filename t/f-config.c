/* f-config -- any bytes as config.json: what is accepted is within its limits, makes a table of weights, and can be
 * edited, and edited again without another change. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "f-config: %s\n", what);
		abort();
	}
}

static void check(const struct rf_config *c)
{
	insist(c->d >= 1 && c->d <= RF_MAX_WIDTH && c->layers >= 1 && c->layers <= RF_MAX_LAYERS && c->vocab >= 1 && c->vocab <= RF_MAX_VOCAB
	       && c->ffn >= 1 && c->ffn <= RF_MAX_WIDTH, "a size outside its limits");
	insist(c->heads >= 1 && c->K >= 1 && c->V >= 1 && (int64_t)c->heads * c->K <= RF_MAX_WIDTH && (int64_t)c->heads * c->V <= RF_MAX_WIDTH
	       && c->conv_size >= 1 && c->conv_size <= 64 && (c->use_short_conv || c->conv_size == 1), "a mixer outside its limits");
	insist(c->eos_count >= 0 && c->eos_count <= RF_MAX_EOS, "eos");
	for (int i = 0; i < c->eos_count; i++)
		insist(c->eos[i] >= 0 && c->eos[i] < c->vocab, "eos outside the vocabulary");
	if (c->has_attn)
		insist(c->attn.in_layer && c->attn.heads >= 1 && c->attn.kv_heads >= 1 && c->attn.heads % c->attn.kv_heads == 0
		       && c->d % c->attn.heads == 0 && c->d / c->attn.heads % 2 == 0 && c->attn.window >= 0 && c->attn.rope_theta > 0, "attention");
	insist(memchr(c->unknown, 0, sizeof c->unknown) != NULL, "unknown keys");
}

static void edit(const struct rf_config *c, bool tied)
{
	struct rf_config again = { .arch = RF_DELTA_NET };
	char *one = NULL, *two = NULL;
	struct rf_err e;

	if (rf_config_text(c, "float32", tied, &one, &e) == RF_OK) {
		insist(rf_config_parse(&again, one, strlen(one), &e) == RF_OK && again.tied == tied && again.d == c->d && again.layers == c->layers
		       && again.ffn == c->ffn && again.K == c->K && again.V == c->V, "an edit changes more than it should");
		insist(rf_config_text(&again, "float32", tied, &two, &e) == RF_OK && !strcmp(one, two), "an edit is not stable");
	} else {
		insist(!one && e.code == RF_EMODEL, "an edit fails");
	}
	free(one);
	free(two);
	rf_config_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rf_err e = { RF_OK, "" };
	struct rf_params t;
	struct rf_config c;

	if (rf_config_parse(&c, (const char *)data, size, &e) == RF_OK) {
		check(&c);
		insist(rf_params_build(&t, &c, c.tied, &e) == RF_OK && t.n >= 3 && t.total % 16 == 0, "no table");
		rf_params_free(&t);
		edit(&c, false);
		edit(&c, true);
	} else {
		insist(e.code == RF_EMODEL && *e.msg, "refused without a reason");
	}
	rf_config_free(&c);
	return 0;
}
