/* config -- feeds any bytes to the reader of config.json.  A config that is accepted is within its limits,
 * makes a table of weights, and can be edited; a second edit changes nothing. */

#include "fuzz/fuzz.h"
#include "model/mixer.h"
#include "model/model.h"

/* Checks that a config is within its limits. */
static void check_limits(const struct rf_config *c)
{
	insist(c->d >= 1 && c->d <= RF_MAX_WIDTH && c->layers >= 1 && c->layers <= RF_MAX_LAYERS &&
	               c->vocab >= 1 && c->vocab <= RF_MAX_VOCAB && c->ffn >= 1 && c->ffn <= RF_MAX_WIDTH,
	       "a size outside its limits");
	const struct rf_delta_config *r = &c->delta;
	for (int i = 0; i < c->layers; i++)
		insist(c->mixer[i] != &rf_mixer_delta_net ||
		               (r->heads >= 1 && r->qk_heads >= 1 && r->heads % r->qk_heads == 0 &&
		                r->K >= 1 && r->V >= 1 && (int64_t)r->heads * r->K <= RF_MAX_WIDTH &&
		                (int64_t)r->heads * r->V <= RF_MAX_WIDTH && r->conv_size >= 1 &&
		                r->conv_size <= 64 && (r->conv || r->conv_size == 1)),
		       "the delta rule outside its limits");
	const struct rf_lact_config *l = &c->lact;
	for (int i = 0; i < c->layers; i++)
		insist(c->mixer[i] != &rf_mixer_lact ||
		               (l->heads >= 1 && l->heads * l->D == c->d && l->E >= 1 &&
		                (int64_t)l->heads * l->E <= RF_MAX_WIDTH && l->chunk >= 1 && l->rank >= 0 &&
		                l->rank <= l->D),
		       "fast weights outside their limits");
	insist(c->eos_count >= 0 && c->eos_count <= RF_MAX_EOS, "a bad number of end tokens");
	for (int i = 0; i < c->eos_count; i++)
		insist(c->eos[i] >= 0 && c->eos[i] < c->vocab, "an end token outside the vocabulary");
	const struct rf_attn_config *a = &c->attn;
	for (int i = 0; i < c->layers; i++)
		insist(!c->mixer[i]->reads ||
		               (a->heads >= 1 && a->kv_heads >= 1 && a->heads % a->kv_heads == 0 &&
		                a->D >= 1 && (int64_t)a->heads * a->D <= RF_MAX_WIDTH && a->rotary <= a->D &&
		                a->rotary % 2 == 0 && a->window >= 0 && a->theta > 0),
		       "attention outside its limits");
	insist(memchr(c->unknown, 0, sizeof c->unknown) != NULL, "unknown keys without an end");
}

/* Checks that an edit changes only its keys, and that a second edit changes nothing. */
static void check_edits(const struct rf_config *c, bool tied)
{
	struct rf_config again = { .d = 0 };
	char *one = NULL, *two = NULL;
	struct rf_err e;

	if (rf_config_text(c, "float32", tied, &one, &e) == RF_OK) {
		insist(rf_config_parse(&again, one, strlen(one), &e) == RF_OK && again.tied == tied &&
		               again.d == c->d && again.layers == c->layers && again.ffn == c->ffn &&
		               again.delta.K == c->delta.K && again.delta.V == c->delta.V,
		       "an edit changes more than it should");
		insist(rf_config_text(&again, "float32", tied, &two, &e) == RF_OK && !strcmp(one, two),
		       "an edit is not stable");
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
		check_limits(&c);
		insist(rf_params_build(&t, &c, c.tied, &e) == RF_OK && t.n >= 3 && t.total % 16 == 0,
		       "no table");
		rf_params_free(&t);
		check_edits(&c, false);
		check_edits(&c, true);
	} else {
		insist(e.code == RF_EMODEL && *e.msg, "refused without a reason");
	}
	rf_config_free(&c);
	return 0;
}
