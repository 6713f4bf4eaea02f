/* json.c -- JSON files with jansson.  It is strict enough for us, but allocates 50 bytes for each byte of
 * "[[],[],[], ...", so the values are counted before it gets the text. */
#include <string.h>

#include "io/jscan.h"
#include "io/json.h"

enum rf_code rf_json_parse(json_t **root, const char *text, size_t n, int depth, struct rf_err *e)
{
	json_error_t je;
	char q[120];

	*root = NULL;
	if (!rf_jscan_within(text, n, depth, RF_JSON_NODES))
		return rf_fail(e, RF_EMODEL,
		               "the JSON is nested more than %d levels deep or has more than %d values",
		               depth, RF_JSON_NODES);
	*root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
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
