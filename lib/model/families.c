/* families.c -- the registry: the families of models that a config.json may name by its model_type.  Reads a
 * config.json: finds the family, and lets it read the keys.
 *
 * The reader of a family fills a struct rf_config and sets the mixer of each layer (rf_config_layers()), so
 * there is no other list of mixers.  mixer.h declares the mixers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/jscan.h"
#include "io/json.h"
#include "model/config_read.h"

enum { MAX_DEPTH = 16 };

/* A family, and the function that reads its keys into a config. */
struct family {
	const char *model_type;
	void (*read)(struct rf_config_reader *r, struct rf_config *cfg);
};

static const struct family families[] = {
	{ "delta_net", rf_config_delta_net }, { "gated_deltanet", rf_config_gated_deltanet },
	{ "lact_swiglu", rf_config_lact },    { "qwen3_5_text", rf_config_qwen3_5_text },
	{ "qwen3_5", rf_config_qwen3_5 },     { NULL, NULL },
};

/* Writes the names of the families to text: "a, b and c". */
static void list_families(char *text, size_t size)
{
	size_t n = 0;

	for (const struct family *f = families; f->model_type && n < size; f++) {
		const char *between = f == families ? "" : f[1].model_type ? ", " : " and ";

		n += (size_t)snprintf(text + n, size - n, "%s%s", between, f->model_type);
	}
}

enum rf_code rf_config_parse(struct rf_config *cfg, const char *text, size_t n, struct rf_err *e)
{
	struct rf_config_reader r = { NULL, "", e, RF_OK };
	const char *type;
	enum rf_code rc;
	const struct family *family = families;
	json_t *root;
	char q[60], names[200];

	*cfg = (struct rf_config){ .d = 0 };
	if (n > RF_MOST_CONFIG)
		return rf_fail(e, RF_EMODEL, "the config has %zu bytes, more than the limit of %d", n,
		               RF_MOST_CONFIG);
	if ((rc = rf_json_parse(&root, text, n, MAX_DEPTH, e)) != RF_OK)
		return rc;
	if (!(r.left = json_copy(root)) || !(cfg->text = malloc(n + 1))) {
		json_decref(r.left);
		json_decref(root);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	memcpy(cfg->text, text, n);
	cfg->text[n] = 0;

	type = json_string_value(rf_config_take(&r, "model_type"));
	while (family->model_type && type && strcmp(type, family->model_type))
		family++;
	if (!type) {
		rf_config_bad(&r, "model_type", "a string");
	} else if (family->model_type) {
		family->read(&r, cfg);
	} else {
		cfg->foreign = true;
		list_families(names, sizeof names);
		r.rc = rf_fail(e, RF_EMODEL, "'model_type' is '%s', but only %s are supported",
		               rf_quote(q, sizeof q, type, strlen(type)), names);
	}
	if (r.rc == RF_OK) {
		strcpy(cfg->model_type, type);
		rf_config_absent(&r, "quantization_config");
	}
	rf_config_rest(&r, cfg);
	json_decref(r.left);
	json_decref(root);
	return r.rc;
}

enum rf_code rf_config_read(struct rf_config *cfg, const char *path, struct rf_err *e)
{
	enum rf_code rc;
	char *text;
	size_t n;

	*cfg = (struct rf_config){ .d = 0 };
	if ((rc = rf_file_read(path, RF_MOST_CONFIG, &text, &n, e)) != RF_OK)
		return rc;
	if ((rc = rf_config_parse(cfg, text, n, e)) != RF_OK)
		rf_blame(e, "%s", path);
	free(text);
	return rc;
}

enum rf_code rf_config_read_generation(struct rf_config *cfg, const char *path, struct rf_err *e)
{
	struct rf_config_reader r = { NULL, "", e, RF_OK };
	static const char key[] = "eos_token_id";
	struct rf_jvalue all, v = { NULL, 0 };
	json_t *root = NULL;
	enum rf_code rc;
	char *text;
	size_t n;

	if ((rc = rf_file_read_optional(path, RF_MOST_CONFIG, &text, &n, e)) != RF_OK || !text)
		return rc;
	if ((rc = rf_jscan_check(text, n, &all, e)) == RF_OK && !rf_jscan_is_object(&all))
		rc = rf_fail(e, RF_EMODEL, "not a JSON object");
	if (rc == RF_OK)
		rc = rf_jscan_pick(&all, (const char *const[]){ key }, 1, &v, e);
	if (rc == RF_OK && v.s) {
		/* the other keys are for other programs, and may have numbers such as NaN, which jansson
		 * refuses */
		root = json_pack("{s:o}", key, json_loadb(v.s, v.n, JSON_DECODE_ANY, NULL));
		if (!root || !(r.left = json_copy(root)))
			rc = rf_fail(e, RF_EMODEL, "'%s' is %s, not a token", key, rf_jscan_kind(&v));
		else
			rf_config_end_tokens(&r, cfg);
	}
	json_decref(r.left);
	json_decref(root);
	free(text);
	if (rc == RF_OK && (rc = r.rc) == RF_OK)
		return RF_OK;
	rf_blame(e, "%s", path);
	if (e && rc == RF_EDATA)
		e->code = RF_EMODEL;
	return rc == RF_EDATA ? RF_EMODEL : rc;
}
