/* dump.h -- prints streams, runs, checkpoints and safetensors files as text, TSV, CSV or JSON. */
#ifndef RF_DUMP_H
#define RF_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "dump/record_text.h"
#include "dump/table.h"
#include "dump/topn.h"

/* TABLE: TSV, or CSV if `table` says so.  PRED: samples of generations as lines of JSON for other programs.
 * HTML: records as a page for a browser. */
enum rf_dump_form { RF_DUMP_TEXT, RF_DUMP_JSON, RF_DUMP_TABLE, RF_DUMP_PRED, RF_DUMP_HTML };

struct rf_dump {
	enum rf_dump_form form;
	bool head;  /* whether to print only the head, as text or JSON */
	bool check; /* whether to print only if each file is valid, one line per file */
	bool quiet; /* with check: whether to print nothing */
	struct rf_table_spec table;
	uint64_t sample, first; /* numbers of rows (topn.h); 0: all */
	uint64_t seed;
	bool no_header;             /* whether to leave out the header line of a table */
	bool no_hidden;             /* whether to leave out hidden states and logits in JSON */
	bool no_drain;              /* whether to stop reading a pipe when no more of it will be shown */
	struct rf_record_text show; /* how records are shown; rf_dump() sets the tokenizer */
	const char *against;        /* for HTML: a stream of another model, to be subtracted; NULL: none */
	const char *model;          /* a run or checkpoint that has the tokenizer; NULL: none */
	const char *tokenizer;      /* the tokenizer's file or directory, or the word `bytes`; NULL: none */
	/* a tokenizer, and its name in messages, for streams whose own tokenizer is not built in; used only
	   if the text of tokens is needed and neither model nor tokenizer is given; NULL: none */
	const char *fallback, *fallback_name;
	uint64_t max_record;
	struct rf_meter *meter; /* counter of the records and bytes read; may be NULL */

	/* writes text that consists of whole lines; a failure ends the dump */
	enum rf_code (*write)(void *to, const char *text, size_t n, struct rf_err *e);
	void *to;

	char note[1600]; /* out: a note for the user; "": none */
};

/* Dumps the files in order; "-" is standard input.  Returns RF_OK or the first failure. */
enum rf_code rf_dump(struct rf_dump *d, const char *const *paths, int n, struct rf_err *e);

#endif
