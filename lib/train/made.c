/* made.c -- makes the parts of a line of the manifest.  A part that differs from batch to batch would add a
 * line at each commit, so stages of rf-cat, whose ranges differ, are left out. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/manifest.h"
#include "engine/libraries.h"
#include "io/json.h"
#include "model/tree.h"
#include "stream/msg.h"
#include "train/made.h"

static enum rf_code no_memory(struct rf_err *e)
{
	return rf_fail(e, RF_ENOMEM, "out of memory (the manifest)");
}

static json_t *text_or_null(const char *s) { return *s ? json_string(s) : json_null(); }

enum rf_code rf_made_begin(struct rf_trainer *t, struct rf_err *e)
{
	const struct rf_ckpt *at = &t->open.run.at;
	json_t *lines, *words, *scripts;
	enum rf_code rc;

	/* a file that cannot be read is reported now, not after the training */
	if (!t->ranks.rank) {
		if ((rc = rf_manifest_read(t->open.run.path, &lines, e)) != RF_OK)
			return rc;
		json_decref(lines);
		rc = rf_manifest_words(t->open.run.path, &words, &scripts, e);
		json_decref(words);
		json_decref(scripts);
		if (rc != RF_OK)
			return rc;
	}
	t->open.start =
		json_pack("{s:o, s:o, s:s, s:o}", "weights",
	                  at->commits < at->past_count ? json_string(at->past[at->commits]) : json_null(),
	                  "step", at->commits ? json_null() : json_integer(at->step), "arch", at->arch,
	                  "tokenizer", text_or_null(at->tokenizer));
	return t->open.start ? RF_OK : no_memory(e);
}

/* Returns whether the manifest has a stage: any but an rf-cat that only takes a batch out of the data. */
static bool is_listed(const json_t *stage)
{
	const char *tool = json_string_value(json_object_get(stage, "tool"));

	return !tool || strcmp(tool, "rf-cat") || json_object_get(json_object_get(stage, "options"), "json");
}

enum rf_code rf_made_stages(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e)
{
	json_t *head = NULL, *stages = json_array(), *stage;
	bool failed = !stages;
	char *text;
	enum rf_code rc;
	size_t i, n;

	if ((rc = rf_head_to_json(h, &text, &n, e)) == RF_OK) {
		head = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
		free(text);
		if (!head)
			rc = rf_fail(e, RF_EDATA, "the history of the stream's head is not JSON");
		json_array_foreach (json_object_get(json_object_get(head, "body"), "history"), i, stage)
			if (is_listed(stage))
				failed = failed || json_array_append(stages, stage) < 0;
		json_decref(head);
	}
	json_decref(t->open.stages);
	t->open.stages = stages;
	return rc == RF_OK && failed ? no_memory(e) : rc;
}

/* Returns the part `device`.  `threads` and `ranks` change no bit, but a time that was measured depends on
 * them. */
static json_t *describe_device(const struct rf_trainer *t)
{
	const struct rf_engine *g = &t->engine;

	return json_pack("{s:s, s:o, s:o, s:s, s:i, s:i, s:i}", "name", g->dev.ops->name, "model",
	                 text_or_null(g->dev.model), "isa",
	                 *g->dev.model ? json_null() : json_string(rf_cpu_level()), "dtype",
	                 g->math == RF_MATH_BF16 ? "bf16" : "f32", "segment", rf_segment(g->segment),
	                 "threads", g->dev.threads, "ranks", t->ranks.ranks);
}

enum rf_code rf_made_note(struct rf_trainer *t, struct rf_err *e)
{
	json_t *parts, *first, *begun = NULL, *scripts = NULL;
	char hash[17];
	enum rf_code rc;

	if ((rc = rf_manifest_words(t->open.run.path, &begun, &scripts, e)) != RF_OK) {
		json_decref(begun);
		json_decref(scripts);
		return rc;
	}
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->current.trained_on);
	parts = json_pack("{s:o, s:o, s:O?}", "device", describe_device(t), "libraries", rf_libraries(),
	                  "stages", t->open.stages);
	first = json_pack("{s:O?, s:{s:s, s:I}}", "start", t->open.start, "data", "hash", hash, "records",
	                  (json_int_t)t->current.all_records);
	if (!parts || !first || (t->made && json_object_update(parts, t->made) < 0) ||
	    (begun &&
	     (json_object_set(parts, "begun", begun) < 0 || json_object_set(parts, "scripts", scripts) < 0)))
		rc = no_memory(e);
	else
		rc = rf_manifest_note(t->open.run.path, parts, first, t->open.step, e);
	json_decref(parts);
	json_decref(first);
	json_decref(begun);
	json_decref(scripts);
	return rc;
}

void rf_made_free(struct rf_trainer *t)
{
	json_decref(t->made);
	json_decref(t->open.start);
	json_decref(t->open.stages);
	t->made = t->open.start = t->open.stages = NULL;
}
