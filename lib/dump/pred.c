/* pred.c -- makes lines with all keys of the files of RULER (scripts/pred) and of LongBench (pred.py). */
#include <jansson.h>
#include <stdlib.h>

#include "dump/pred.h"
#include "io/json.h"
#include "stream/meta.h"

static json_t *json_answers(const struct rf_record *r)
{
	json_t *list = json_array();

	for (int i = 0; i < r->answers; i++)
		json_array_append_new(list, json_string(r->answer[i]));
	return list;
}

enum rf_code rf_pred_line(struct rf_buf *p, const struct rf_token_text *w, const struct rf_row *row,
                          struct rf_err *e)
{
	const struct rf_record *r = row->rec;
	const int prompt = r->prompt_len >= 0 ? r->prompt_len : r->T;
	char *input = NULL;
	size_t n = 0, final;
	json_t *o, *all;
	enum rf_code rc;

	if (!r->generation.text)
		return rf_fail(e, RF_EDATA,
		               "the generation of record id %llu has no text: rf-generate writes "
		               "it if the model has a tokenizer",
		               (unsigned long long)r->id);
	if (w->tokenizer &&
	    (rc = rf_tokenizer_text(w->tokenizer, r->tokens, (size_t)prompt, &input, &n, &final, e)) != RF_OK)
		return rc;
	o = json_object();
	json_object_set_new(o, "all_classes", json_null());
	json_object_set_new(o, "length", json_integer(prompt));
	all = rf_meta_json(r, NULL);
	json_object_update(o, all); /* before the keys below, which replace keys of meta with these names */
	json_decref(all);
	json_object_set_new(o, "index", json_integer((json_int_t)r->id));
	json_object_set_new(o, "input", json_stringn(input ? input : "", n));
	json_object_set_new(o, "outputs", json_answers(r));
	json_object_set_new(o, "pred", json_string(r->generation.text[row->sample]));
	json_object_set_new(o, "others", json_object());
	json_object_set_new(o, "answers", json_answers(r));
	free(input);
	rf_json_print(p, o);
	rf_print_text(p, "\n");
	json_decref(o);
	return p->failed ? rf_fail(e, RF_ENOMEM, "out of memory (a line)") : RF_OK;
}
