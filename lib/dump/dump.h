/* dump.h -- files of ours as text, TSV and JSON: streams, runs, checkpoints, safetensors. */
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

enum rf_dump_form { RF_DUMP_TEXT, RF_DUMP_JSON, RF_DUMP_TSV };

struct rf_dump {
	enum rf_dump_form form;
	bool head;                /* only what the head says; as text or JSON */
	bool check;               /* only whether all is well, one line for each file */
	bool quiet;               /* not even that */
	struct rf_table_spec table;
	uint64_t sample, first;   /* rows; 0: all */
	uint64_t seed;
	bool no_header;           /* of TSV */
	bool no_hidden;           /* of JSON: without hidden states and logits */
	bool no_drain;            /* leave a pipe as soon as nothing more of it is shown */
	struct rf_record_text show;      /* its tokenizer is found here */
	const char *model;        /* a run or checkpoint that has the tokenizer; NULL: none */
	const char *tokenizer;    /* its file or directory, or the word `bytes`; NULL: none */
	uint64_t max_record;
	struct rf_meter *meter;   /* counts records and bytes as they are read; may be NULL */

	/* Takes text, whole lines; its failure ends the dump. */
	enum rf_code (*write)(void *to, const char *text, size_t n, struct rf_err *e);
	void *to;

	char note[300];           /* out: something the reader should know; "" for nothing */
};

/* Dumps the files in order; "-" is standard input.  RF_OK, or the first failure. */
enum rf_code rf_dump(struct rf_dump *d, const char *const *paths, int n, struct rf_err *e);

#endif
