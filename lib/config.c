/* config.c -- config.json as flash-linear-attention's DeltaNetConfig writes and reads it, with its defaults.
 *
 * Every key is taken out of a copy of the object as it is read; what is left at the end, less the keys that are known
 * to change nothing, is unknown. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "disk.h"
#include "json.h"

enum { MAX_TEXT = 1 << 20, MAX_DEPTH = 16, MAX_CONV = 64 };

/* Keys that say how to compute or to save, what other programs should do, or what Hugging Face writes everywhere. */
static const char *const harmless[] = {
	"_attn_implementation_autoset", "_name_or_path", "architectures", "attn_mode", "auto_map", "bos_token_id",
	"chunk_size", "dtype", "fuse_cross_entropy", "fuse_linear_cross_entropy", "fuse_norm", "fuse_swiglu",
	"id2label", "label2id", "max_position_embeddings", "output_attentions", "output_hidden_states", "pad_token_id",
	"return_dict", "torch_dtype", "transformers_version", "use_bfloat16", "use_cache", "use_l2warp", NULL
};

/* Keys that change the mathematics, with the only value that we compute; null and absence are that value too. */
static const struct { const char *key; bool only; } switches[] = {
	{ "use_output_norm", true }, { "norm_first", false }, { "use_rope", false }, { "share_conv_kernel", false },
	{ "conv_bias", false }, { "use_elu", false },
};
/* And those that may only be absent or null. */
static const char *const absent[] = { "rms_norm_eps", "rope_scaling", "quantization_config", NULL };

/* An object that is being read.  The first failure sticks. */
struct reader {
	json_t *left;         /* a copy of the object, less what was read */
	const char *prefix;   /* "", or "attn." */
	struct rf_err *e;
	enum rf_code rc;
};

static void bad(struct reader *r, const char *key, const char *what)
{
	if (r->rc == RF_OK)
		r->rc = rf_fail(r->e, RF_EMODEL, "'%s%s' must be %s", r->prefix, key, what);
}

/* The value stays alive: the object that left was copied from holds it. */
static json_t *take(struct reader *r, const char *key)
{
	json_t *v = json_object_get(r->left, key);

	json_object_del(r->left, key);
	return v;
}

static int whole(struct reader *r, const char *key, int dflt, int min, int max)
{
	json_t *v = take(r, key);
	char what[80];

	if (!v)
		return dflt;
	if (json_is_integer(v) && json_integer_value(v) >= min && json_integer_value(v) <= max)
		return (int)json_integer_value(v);
	snprintf(what, sizeof what, "a whole number from %d to %d", min, max);
	bad(r, key, what);
	return dflt;
}

static double real(struct reader *r, const char *key, double dflt, double min, double max)
{
	json_t *v = take(r, key);
	char what[80];

	if (!v)
		return dflt;
	if (json_is_number(v) && json_number_value(v) >= min && json_number_value(v) <= max)
		return json_number_value(v);
	snprintf(what, sizeof what, "a number from %g to %g", min, max);
	bad(r, key, what);
	return dflt;
}

static bool flag(struct reader *r, const char *key, bool dflt)
{
	json_t *v = take(r, key);

	if (v && !json_is_boolean(v))
		bad(r, key, "true or false");
	return v ? json_is_true(v) : dflt;
}

/* The index of the value among words "a|b|c"; the first is the default. */
static int word(struct reader *r, const char *key, const char *words)
{
	json_t *v = take(r, key);
	const char *s = json_string_value(v), *w = words;
	char q[60], what[160];

	if (!v)
		return 0;
	for (int i = 0; s; i++) {
		size_t n = strcspn(w, "|");
		if (strlen(s) == n && !memcmp(s, w, n))
			return i;
		if (!w[n])
			break;
		w += n + 1;
	}
	snprintf(what, sizeof what, "one of %s, not '%s'", words,
	         s ? rf_quote(q, sizeof q, s, strlen(s)) : "something else");
	bad(r, key, what);
	return 0;
}

/* Where null stands for "not given". */
static void drop_null(struct reader *r, const char *key)
{
	if (json_is_null(json_object_get(r->left, key)))
		json_object_del(r->left, key);
}

static void note_unknown(struct reader *r, struct rf_config *cfg)
{
	const char *key;
	json_t *v;

	json_object_foreach(r->left, key, v) {
		size_t n = strlen(cfg->unknown);
		char name[80], q[64];
		snprintf(name, sizeof name, "%s%s%s", n ? ", " : "", r->prefix,
		         rf_quote(q, sizeof q, key, strlen(key)));
		if (n + strlen(name) + 5 > sizeof cfg->unknown) {
			/* those of attn come first, and may have taken all the room */
			if (n + 5 <= sizeof cfg->unknown)
				strcpy(cfg->unknown + n, " ...");
			return;
		}
		strcpy(cfg->unknown + n, name);
	}
}

static void read_attn(struct reader *top, struct rf_config *cfg)
{
	struct rf_attn_config *a = &cfg->attn;
	json_t *object = take(top, "attn"), *list, *v;
	struct reader r = { NULL, "attn.", top->e, RF_OK };
	size_t i;

	if (!object || json_is_null(object) || top->rc != RF_OK)
		return;
	if (!json_is_object(object)) {
		bad(top, "attn", "an object or null");
		return;
	}
	a->in_layer = calloc((size_t)cfg->layers, sizeof *a->in_layer);
	r.left = json_copy(object);
	if (!a->in_layer || !r.left) {
		top->rc = rf_fail(r.e, RF_ENOMEM, "out of memory");
		json_decref(r.left);
		return;
	}
	cfg->has_attn = true;
	list = take(&r, "layers");
	if (!json_is_array(list))
		bad(&r, "layers", "a list of layers");
	json_array_foreach(list, i, v)
		if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < cfg->layers)
			a->in_layer[json_integer_value(v)] = true;
		else
			bad(&r, "layers", "layers of the model, counted from 0");

	if (!json_object_get(r.left, "num_heads"))
		bad(&r, "num_heads", "given");
	a->heads = whole(&r, "num_heads", 1, 1, RF_MAX_WIDTH);
	if (cfg->d % a->heads || cfg->d / a->heads % 2)
		bad(&r, "num_heads", "a divisor of hidden_size that leaves heads of even width");
	drop_null(&r, "num_kv_heads");
	a->kv_heads = whole(&r, "num_kv_heads", a->heads, 1, RF_MAX_WIDTH);
	if (a->heads % a->kv_heads)
		bad(&r, "num_kv_heads", "a divisor of attn.num_heads");
	a->qkv_bias = flag(&r, "qkv_bias", false);
	if (flag(&r, "qk_norm", false))
		bad(&r, "qk_norm", "false: nothing else is supported");
	drop_null(&r, "window_size");
	a->window = whole(&r, "window_size", 0, 0, INT32_MAX);
	drop_null(&r, "rope_theta");
	a->rope_theta = real(&r, "rope_theta", 10000, 1e-3, 1e12);
	drop_null(&r, "rope_scaling");
	if (json_object_get(r.left, "rope_scaling"))
		bad(&r, "rope_scaling", "null: nothing else is supported");
	note_unknown(&r, cfg);
	json_decref(r.left);
	top->rc = r.rc;
}

static void read_eos(struct reader *r, struct rf_config *cfg)
{
	json_t *v = take(r, "eos_token_id"), *one;

	cfg->eos[0] = 2;
	cfg->eos_count = v ? 0 : 1;
	for (size_t i = 0; v && !json_is_null(v) && i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
		one = json_is_array(v) ? json_array_get(v, i) : v;
		if (cfg->eos_count < RF_MAX_EOS && json_is_integer(one) && json_integer_value(one) >= 0
		    && json_integer_value(one) < cfg->vocab) {
			cfg->eos[cfg->eos_count++] = (int)json_integer_value(one);
			continue;
		}
		bad(r, "eos_token_id", "a token of the vocabulary, or a list of at most 16");
		return;
	}
	/* the default of a vocabulary that is too small for it */
	if (!v && cfg->vocab <= 2)
		cfg->eos_count = 0;
}

/* int(hidden_size * expand) / heads, as the published code rounds. */
static int head_width(struct reader *r, const struct rf_config *cfg, const char *key)
{
	double width = cfg->d * real(r, key, 1, 1e-6, 1 << 20);

	if (width >= 1 && width <= RF_MAX_WIDTH && (int)width % cfg->heads == 0)
		return (int)width / cfg->heads;
	bad(r, key, "such that hidden_size times it is a multiple of num_heads, and at most 1048576");
	return 1;
}

static void read_delta_net(struct reader *r, struct rf_config *cfg)
{
	double ratio;

	cfg->d = whole(r, "hidden_size", 2048, 1, RF_MAX_WIDTH);
	cfg->layers = whole(r, "num_hidden_layers", 24, 1, RF_MAX_LAYERS);
	cfg->vocab = whole(r, "vocab_size", 32000, 1, RF_MAX_VOCAB);
	cfg->heads = whole(r, "num_heads", 16, 1, RF_MAX_WIDTH);
	cfg->K = head_width(r, cfg, "expand_k");
	cfg->V = head_width(r, cfg, "expand_v");
	cfg->use_short_conv = flag(r, "use_short_conv", true);
	cfg->conv_size = whole(r, "conv_size", 4, 1, MAX_CONV);
	if (!cfg->use_short_conv)
		cfg->conv_size = 1;
	cfg->use_beta = flag(r, "use_beta", true);
	cfg->use_gate = flag(r, "use_gate", false);
	cfg->allow_neg_eigval = flag(r, "allow_neg_eigval", false);
	cfg->qk_act = (enum rf_act)word(r, "qk_activation", "silu|relu|elu|identity");
	cfg->qk_norm = (enum rf_qk_norm)word(r, "qk_norm", "l2|sum");
	word(r, "hidden_act", "swish|silu");

	drop_null(r, "hidden_ratio");
	drop_null(r, "intermediate_size");
	ratio = real(r, "hidden_ratio", 4, 1e-3, 1e3);
	cfg->ffn = whole(r, "intermediate_size", 0, 1, RF_MAX_WIDTH);
	if (!cfg->ffn) {
		double width = 256 * ceil(floor(cfg->d * ratio * 2 / 3) / 256);
		if (width < 1 || width > RF_MAX_WIDTH)
			bad(r, "hidden_ratio", "such that the width of the MLP is from 1 to 1048576");
		else
			cfg->ffn = (int)width;
	}
	cfg->norm_eps = real(r, "norm_eps", 1e-6, 0, 1);
	cfg->initializer_range = real(r, "initializer_range", 0.02, 0, 1e3);
	cfg->tied = flag(r, "tie_word_embeddings", false);
	read_eos(r, cfg);
	read_attn(r, cfg);
}

static void refuse(struct reader *r)
{
	for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
		drop_null(r, switches[i].key);
		if (flag(r, switches[i].key, switches[i].only) != switches[i].only)
			bad(r, switches[i].key, switches[i].only ? "true: nothing else is supported"
			                                         : "false: nothing else is supported");
	}
	for (const char *const *key = absent; *key; key++) {
		json_t *v = take(r, *key);
		if (v && !json_is_null(v))
			bad(r, *key, "absent: it is not supported");
	}
}

enum rf_code rf_config_parse(struct rf_config *cfg, const char *text, size_t n, struct rf_err *e)
{
	struct reader r = { NULL, "", e, RF_OK };
	const char *type;
	enum rf_code rc;
	json_t *root;
	char q[60];

	*cfg = (struct rf_config){ .arch = RF_DELTA_NET };
	if (n > MAX_TEXT)
		return rf_fail(e, RF_EMODEL, "%zu bytes, limit %d", n, MAX_TEXT);
	if ((rc = rf_json_parse(&root, text, n, MAX_DEPTH, e)) != RF_OK)
		return rc;
	if (!(r.left = json_copy(root)) || !(cfg->text = malloc(n + 1))) {
		json_decref(r.left);
		json_decref(root);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	memcpy(cfg->text, text, n);
	cfg->text[n] = 0;

	type = json_string_value(take(&r, "model_type"));
	if (!type)
		bad(&r, "model_type", "a string");
	else if (strcmp(type, "delta_net"))
		r.rc = rf_fail(e, RF_EMODEL, "'model_type' is '%s', and only delta_net is supported",
		               rf_quote(q, sizeof q, type, strlen(type)));
	else
		strcpy(cfg->model_type, type);
	if (r.rc == RF_OK)
		read_delta_net(&r, cfg);
	if (r.rc == RF_OK)
		refuse(&r);
	for (const char *const *key = harmless; *key; key++)
		take(&r, *key);
	note_unknown(&r, cfg);
	json_decref(r.left);
	json_decref(root);
	return r.rc;
}

enum rf_code rf_config_read(struct rf_config *cfg, const char *path, struct rf_err *e)
{
	enum rf_code rc;
	char *text;
	size_t n;

	*cfg = (struct rf_config){ .arch = RF_DELTA_NET };
	if ((rc = rf_disk_read(path, MAX_TEXT, &text, &n, e)) != RF_OK)
		return rc;
	if ((rc = rf_config_parse(cfg, text, n, e)) != RF_OK)
		rf_blame(e, "%s", path);
	free(text);
	return rc;
}

void rf_config_free(struct rf_config *cfg)
{
	free(cfg->text);
	free(cfg->attn.in_layer);
	*cfg = (struct rf_config){ .arch = RF_DELTA_NET };
}

/* *text with the value of key replaced; where the key is missing it is put first, on a line like that of the next. */
static enum rf_code set_value(char **text, const char *key, const char *value, struct rf_err *e)
{
	const size_t size = 2 * strlen(*text) + strlen(key) + strlen(value) + 8;
	const char *body, *next;
	size_t from, to;
	char *out = malloc(size);

	if (!out)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (rf_json_span(*text, key, &from, &to)) {
		snprintf(out, size, "%.*s%s%s", (int)from, *text, value, *text + to);
	} else {
		body = strchr(*text, '{') + 1;
		next = body + strspn(body, " \t\r\n");
		snprintf(out, size, "%.*s%.*s\"%s\": %s%s%s", (int)(body - *text), *text, (int)(next - body), body, key,
		         value, *next == '}' ? "" : ",", body);
	}
	free(*text);
	*text = out;
	return RF_OK;
}

enum rf_code rf_config_text(const struct rf_config *cfg, const char *dtype, bool tied, char **text, struct rf_err *e)
{
	struct rf_config again = { .arch = RF_DELTA_NET };
	enum rf_code rc = RF_OK;
	size_t from, to;
	char quoted[40];

	snprintf(quoted, sizeof quoted, "\"%s\"", dtype);
	if (!(*text = malloc(strlen(cfg->text) + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	strcpy(*text, cfg->text);
	if (tied != cfg->tied)
		rc = set_value(text, "tie_word_embeddings", tied ? "true" : "false", e);
	if (rc == RF_OK && rf_json_span(*text, "torch_dtype", &from, &to))
		rc = set_value(text, "torch_dtype", quoted, e);
	if (rc == RF_OK)
		rc = set_value(text, "dtype", quoted, e);
	/* a key spelled with escapes would now stand there twice */
	if (rc == RF_OK)
		rc = rf_config_parse(&again, *text, strlen(*text), e);
	rf_config_free(&again);
	if (rc != RF_OK) {
		free(*text);
		*text = NULL;
	}
	return rc;
}
