/* manifest_text.c -- shows the manifest of a run as text.  A line repeats only what differs from the lines
 * before. */
#include <stdint.h>
#include <string.h>

#include "dump/manifest_text.h"
#include "io/json.h"

/* Appends a string without quotes, any other value as JSON, and "-" for a value that the line lacks. */
static void add_json(struct rf_buf *item, const json_t *v)
{
	struct rf_buf text = { 0 };

	if (!v)
		rf_print_text(&text, "-");
	else if (json_is_string(v))
		rf_buf_add(&text, json_string_value(v), json_string_length(v));
	else
		rf_json_print(&text, v);
	rf_print_safe(item, text.p, text.n, false);
	item->failed |= text.failed;
	rf_buf_free(&text);
}

/* Adds an item: the key and, unless between is NULL, the value. */
static void add_item(struct rf_flow *f, const char *before, const char *key, const char *between,
                     const json_t *v)
{
	struct rf_buf item = { 0 };

	rf_print_text(&item, before);
	rf_print_safe(&item, key, strlen(key), false);
	if (between) {
		rf_print_text(&item, between);
		add_json(&item, v);
	}
	rf_flow_item(f, item.p, item.n, NULL);
	f->p->failed |= item.failed;
	rf_buf_free(&item);
}

/* Begins a line of the manifest's parts. */
static void begin_part(struct rf_flow *f, struct rf_buf *p, const char *name, int width)
{
	struct rf_buf label = { 0 };

	rf_print_safe(&label, name, strlen(name), false);
	rf_buf_add(&label, "", 1);
	rf_flow_begin(f, p, label.failed ? "" : (const char *)label.p, RF_CKPT_LABEL + 2, width, 0);
	p->failed |= label.failed;
	rf_buf_free(&label);
}

/* Returns whether a value is absent, null, false or the empty string. */
static bool is_off(const json_t *v)
{
	return !v || json_is_false(v) || json_is_null(v) || (json_is_string(v) && !json_string_length(v));
}

/* Writes each stage on lines of its own, as a command without the options that are off; if the stage in the
 * same place of an earlier line is the same program, only with the options that differ. */
static void write_stages(const char *name, const json_t *stages, const json_t *before, int width,
                         struct rf_buf *p)
{
	struct rf_flow f;
	const char *key;
	json_t *stage, *v;
	size_t i;

	json_array_foreach (stages, i, stage) {
		const json_t *tool = json_object_get(stage, "tool"), *old = json_array_get(before, i);
		const bool same = json_equal(tool, json_object_get(old, "tool"));

		begin_part(&f, p, i ? "" : name, width);
		add_item(&f, "", "", "", json_is_string(tool) ? tool : stage);
		json_object_foreach (json_is_string(tool) ? json_object_get(stage, "options") : NULL, key,
		                     v) {
			const json_t *were = same ? json_object_get(old, "options") : NULL;
			const json_t *was = json_object_get(were, key);

			if (was ? !json_equal(v, was) : !is_off(v))
				add_item(&f, "--", key, json_is_true(v) ? NULL : " ", v);
		}
		rf_flow_end(&f);
	}
}

/* Writes a part as items, "key value"; if an earlier line has the part, only the items that differ. */
static void write_part(const char *name, const json_t *part, const json_t *before, int width,
                       struct rf_buf *p)
{
	const bool begun = !strcmp(name, "begun"), words = begun || !strcmp(name, "words");
	const char *key;
	struct rf_flow f;
	json_t *v;
	size_t i;

	begin_part(&f, p, name, width);
	json_object_foreach ((json_t *)(uintptr_t)part, key, v) {
		const json_t *was = json_object_get(before, key);

		if (json_equal(v, was) || json_is_null(v))
			continue;
		/* rf-loop was not given this word; a word that was set and is now empty is shown */
		if (begun && !was && is_off(v))
			continue;
		if (!json_is_object(v)) {
			add_item(&f, "", key, words ? "=" : " ", v);
			continue;
		}
		const char *inner;
		json_t *one;

		json_object_foreach (v, inner, one)
			if (!json_equal(one, json_object_get(json_object_get(before, key), inner)))
				add_item(&f, "", inner, " ", one);
	}
	json_array_foreach (part, i, v) {
		const json_t *file = json_object_get(v, "file");

		if (json_is_string(file))
			add_item(&f, "", json_string_value(file), " xxh64 ", json_object_get(v, "xxh64"));
		else
			add_item(&f, "", "", "", v);
	}
	rf_flow_end(&f);
}

void rf_manifest_text(const json_t *lines, int width, struct rf_buf *p)
{
	json_t *before = json_object(), *line, *part;
	const char *key;
	size_t i;

	json_array_foreach (lines, i, line) {
		rf_print(p, "%-*s", RF_CKPT_LABEL, "manifest");
		add_json(p, json_object_get(line, "event"));
		rf_print_text(p, ", step ");
		add_json(p, json_object_get(line, "step"));
		rf_print_text(p, ", ");
		add_json(p, json_object_get(line, "time"));
		rf_print_text(p, ", host ");
		add_json(p, json_object_get(line, "host"));
		rf_print_text(p, "\n");
		json_object_foreach (line, key, part)
			if (!strcmp(key, "stages") && json_array_size(part))
				write_stages(key, part, json_object_get(before, key), width, p);
			else if (json_is_object(part) || json_array_size(part))
				write_part(key, part, json_object_get(before, key), width, p);
		json_object_update(before, line);
	}
	json_decref(before);
}
