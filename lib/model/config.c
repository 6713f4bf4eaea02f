/* config.c -- a config that was read: the names of its tensors, and its text with other keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/jscan.h"
#include "model/config.h"

void rf_config_free(struct rf_config *cfg)
{
	free(cfg->text);
	free(cfg->mixer);
	*cfg = (struct rf_config){ .d = 0 };
}

void rf_config_embedding(const struct rf_config *cfg, char name[RF_MAX_NAME])
{
	snprintf(name, RF_MAX_NAME, "%s%s.weight", cfg->names.root, cfg->names.embed);
}

void rf_config_fit_names(struct rf_config *cfg, bool (*has)(const void *arg, const char *name),
                         const void *arg)
{
	struct rf_config other = *cfg;
	char name[RF_MAX_NAME];

	if (!cfg->names.other_root)
		return;
	rf_config_embedding(cfg, name);
	if (has(arg, name))
		return;
	other.names.root = cfg->names.other_root;
	rf_config_embedding(&other, name);
	if (has(arg, name)) {
		cfg->names.other_root = cfg->names.root;
		cfg->names.root = other.names.root;
	}
}

bool rf_config_owns(const struct rf_config *cfg, const char *name)
{
	/* older programs saved the frequencies of the rotary embedding, which the model computes */
	static const char table[] = "rotary_emb.inv_freq";
	const size_t n = strlen(name), m = strlen(table);

	if (n >= m && !strcmp(name + n - m, table))
		return false;
	return !strncmp(name, "lm_head.", 8) || (!strncmp(name, cfg->names.root, strlen(cfg->names.root)) &&
	                                         strncmp(name, "model.visual.", 13));
}

bool rf_config_expects(const struct rf_config *cfg, const char *name)
{
	return cfg->inner && (!strncmp(name, "model.visual.", 13) || !strncmp(name, "mtp.", 4));
}

/* Finds the value of a key of the outermost object in a text that was parsed.  Returns whether the key
 * exists. */
static bool find_value(char *text, const char *key, struct rf_jvalue *v)
{
	struct rf_jvalue all;

	return rf_jscan_check(text, strlen(text), &all, NULL) == RF_OK &&
	       rf_jscan_get(&all, key, v, NULL) == RF_OK;
}

/* Replaces the value of a key in *text.  A missing key is added first, on a line like that of the next
 * key. */
static enum rf_code set_value(char **text, const char *key, const char *value, struct rf_err *e)
{
	const size_t size = 2 * strlen(*text) + strlen(key) + strlen(value) + 8;
	const char *body, *next;
	char *out = malloc(size);
	struct rf_jvalue v;

	if (!out)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (find_value(*text, key, &v)) {
		snprintf(out, size, "%.*s%s%s", (int)(v.s - *text), *text, value, v.s + v.n);
	} else {
		body = strchr(*text, '{') + 1;
		next = body + strspn(body, " \t\r\n");
		snprintf(out, size, "%.*s%.*s\"%s\": %s%s%s", (int)(body - *text), *text, (int)(next - body),
		         body, key, value, *next == '}' ? "" : ",", body);
	}
	free(*text);
	*text = out;
	return RF_OK;
}

/* Sets the keys of one object.  dtype, torch_dtype and tie_word_embeddings are set where they exist;
 * add_dtype, add_tied: the key is added if it is missing. */
static enum rf_code set_keys(char **text, const char *quoted, bool add_dtype, const char *tied, bool add_tied,
                             struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	struct rf_jvalue v;

	if (tied && (add_tied || find_value(*text, "tie_word_embeddings", &v)))
		rc = set_value(text, "tie_word_embeddings", tied, e);
	if (rc == RF_OK && find_value(*text, "torch_dtype", &v))
		rc = set_value(text, "torch_dtype", quoted, e);
	if (rc == RF_OK && (add_dtype || find_value(*text, "dtype", &v)))
		rc = set_value(text, "dtype", quoted, e);
	return rc;
}

/* Sets the keys if the text model has an object of its own, `key`.  A missing dtype is added to this object,
 * and a missing tie_word_embeddings to the outermost object, because the outermost value counts. */
static enum rf_code set_inner(char **text, const char *key, const char *quoted, const char *tied,
                              struct rf_err *e)
{
	struct rf_jvalue v;
	enum rf_code rc;
	char *inner;

	if (!find_value(*text, key, &v))
		return rf_fail(e, RF_EMODEL, "the key '%s' is missing", key);
	if (!(inner = strndup(v.s, v.n)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = set_keys(&inner, quoted, true, tied, false, e)) == RF_OK &&
	    (rc = set_value(text, key, inner, e)) == RF_OK)
		rc = set_keys(text, quoted, false, tied, true, e);
	free(inner);
	return rc;
}

enum rf_code rf_config_text(const struct rf_config *cfg, const char *dtype, bool tied, char **text,
                            struct rf_err *e)
{
	const char *change = tied == cfg->tied ? NULL : tied ? "true" : "false";
	enum rf_code rc;
	char quoted[40];

	snprintf(quoted, sizeof quoted, "\"%s\"", dtype);
	if (!(*text = strdup(cfg->text)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rc = cfg->inner ? set_inner(text, cfg->inner, quoted, change, e)
	                : set_keys(text, quoted, true, change, true, e);
	if (rc != RF_OK) {
		free(*text);
		*text = NULL;
	}
	return rc;
}

bool rf_config_ends(const struct rf_config *c, int32_t token)
{
	for (int i = 0; i < c->eos_count; i++)
		if (c->eos[i] == token)
			return true;
	return false;
}
