/* json.c -- jansson is strict enough for us, but spends 50 bytes on each byte of "[[],[],[], ...": so the
 * nodes are counted before it sees the text.  The same walk finds the place of a value, for edits that leave
 * the rest alone. */
#include <string.h>

#include "io/json.h"

/* The end of the string that begins at s[i]; n where it has none. */
static size_t skip_string(const char *s, size_t n, size_t i)
{
	for (i++; i < n && s[i] != '"'; i++)
		if (s[i] == '\\' && i + 1 < n)
			i++;
	return i < n ? i + 1 : n;
}

/* Every value but the first of a list follows a comma, and every list has a bracket: together they
 * bound the nodes. */
static bool bounded(const char *s, size_t n, int depth)
{
	size_t nodes = 1;
	int level = 0;

	for (size_t i = 0; i < n; i++)
		if (s[i] == '"')
			i = skip_string(s, n, i) - 1;
		else if (s[i] == ']' || s[i] == '}')
			level--;
		else if (s[i] == ',' || s[i] == '[' || s[i] == '{') {
			level += s[i] != ',';
			if (level > depth || ++nodes > RF_JSON_NODES)
				return false;
		}
	return true;
}

enum rf_code rf_json_parse(json_t **root, const char *text, size_t n, int depth, struct rf_err *e)
{
	json_error_t je;
	char q[120];

	*root = NULL;
	if (!bounded(text, n, depth))
		return rf_fail(e, RF_EMODEL, "nested deeper than %d or more than %d values", depth,
		               RF_JSON_NODES);
	*root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
	if (!*root && json_error_code(&je) == json_error_out_of_memory)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (!*root)
		return rf_fail(e, RF_EMODEL, "byte %d: %s", je.position,
		               rf_quote(q, sizeof q, je.text, strlen(je.text)));
	if (!json_is_object(*root)) {
		json_decref(*root);
		*root = NULL;
		return rf_fail(e, RF_EMODEL, "not a JSON object");
	}
	return RF_OK;
}

bool rf_json_span(const char *s, const char *key, size_t *from, size_t *to)
{
	size_t n = strlen(s), len = strlen(key), begin = 0, end = 0;
	bool ours = false;
	int level = 0;

	for (size_t i = 0; i < n; i++)
		if (s[i] == '"') {
			begin = i + 1;
			i = skip_string(s, n, i) - 1;
			end = i;
		} else if (level == 1 && s[i] == ':') {
			ours = end - begin == len && !memcmp(s + begin, key, len);
			*from = i + 1 + strspn(s + i + 1, " \t\r\n");
		} else if (ours && level == 1 && (s[i] == ',' || s[i] == '}')) {
			for (*to = i; *to > *from && strchr(" \t\r\n", s[*to - 1]); --*to)
				;
			return true;
		} else if (s[i] == '{' || s[i] == '[') {
			level++;
		} else if (s[i] == '}' || s[i] == ']') {
			level--;
		}
	return false;
}
