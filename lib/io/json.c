/* json.c -- reads JSON files with jansson, and writes its values.  jansson allocates 50 bytes for each byte
 * of "[[],[],[], ...", so the values are counted before it gets the text.  It writes reals with 17 digits,
 * such as 0.16666700000000001, so reals are written here. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "io/jscan.h"
#include "io/json.h"

static enum rf_code parse_text(json_t **root, const char *text, size_t n, int depth, size_t flags,
                               struct rf_err *e)
{
	const char *nul = memchr(text, 0, n);
	json_error_t je;
	char q[120];

	*root = NULL;
	/* jansson does not report a NUL after a number */
	if (nul)
		return rf_fail(e, RF_EMODEL, "bad JSON at byte %td: a NUL", nul - text);
	if (!rf_jscan_within(text, n, depth, RF_JSON_NODES))
		return rf_fail(e, RF_EMODEL,
		               "the JSON is nested more than %d levels deep or has more than %d values",
		               depth, RF_JSON_NODES);
	*root = json_loadb(text, n, flags | JSON_REJECT_DUPLICATES, &je);
	if (!*root && json_error_code(&je) == json_error_out_of_memory)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (!*root)
		return rf_fail(e, RF_EMODEL, "bad JSON at byte %d: %s", je.position,
		               rf_quote(q, sizeof q, je.text, strlen(je.text)));
	if (!json_is_object(*root)) {
		json_decref(*root);
		*root = NULL;
		return rf_fail(e, RF_EMODEL, "not a JSON object");
	}
	return RF_OK;
}

enum rf_code rf_json_parse(json_t **root, const char *text, size_t n, int depth, struct rf_err *e)
{
	return parse_text(root, text, n, depth, 0, e);
}

enum rf_code rf_json_parse_nul(json_t **root, const char *text, size_t n, int depth, struct rf_err *e)
{
	return parse_text(root, text, n, depth, JSON_ALLOW_NUL, e);
}

static void print_scalar(struct rf_buf *to, const json_t *v)
{
	char *text;

	if (json_is_real(v)) {
		rf_print_float(to, json_real_value(v));
		return;
	}
	if ((text = json_dumps(v, JSON_ENCODE_ANY)))
		rf_print_json(to, text);
	to->failed |= !text;
	free(text);
}

static void print_key(struct rf_buf *to, const char *key)
{
	json_t *s = json_string(key);

	print_scalar(to, s);
	json_decref(s);
}

void rf_json_print(struct rf_buf *to, const json_t *value)
{
	const json_t *each;
	const char *key;
	size_t i = 0;

	if (json_is_array(value)) {
		rf_print_text(to, "[");
		for (; i < json_array_size(value); i++) {
			rf_print_text(to, i ? "," : "");
			rf_json_print(to, json_array_get(value, i));
		}
		rf_print_text(to, "]");
	} else if (json_is_object(value)) {
		rf_print_text(to, "{");
		json_object_foreach ((json_t *)(uintptr_t)value, key, each) {
			rf_print_text(to, i++ ? "," : "");
			print_key(to, key);
			rf_print_text(to, ":");
			rf_json_print(to, each);
		}
		rf_print_text(to, "}");
	} else {
		print_scalar(to, value);
	}
}
