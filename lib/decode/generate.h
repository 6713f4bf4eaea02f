/* generate.h -- continues prompts with tokens of the model, for evaluation and for answers.
 *
 * Several records are decoded together.  Each prompt is run once, in segments, and has its own place in the
 * tree.  Then every step runs one row for each sample of each record.  The random numbers of a sample do not
 * depend on the other records; its logits depend on them only by rounding. */
#ifndef RF_GENERATE_H
#define RF_GENERATE_H

#include "engine/work.h"
#include "stream/record.h"
#include "tokenizer/tokenizer.h"

/* Device memory of the stage, for nb = batch n rows. */
struct rf_generate_place {
	rf_f32 first; /* (nb, d): the last row of each prompt, once for each sample */
	rf_f32 z;     /* (nb, N): logits; only if tokens are drawn */
	rf_f32 sure;  /* (nb): finite if the logits are */
	rf_i32 token; /* (k, nb) */
	rf_i32 zeros; /* (n) */
	rf_f64 u;     /* (nb) */
};

struct rf_generate_settings {
	struct rf_work *work;
	/* the most tokens of a sample; with a key, the number that memory is planned for */
	int max_new;
	const char *max_new_key; /* the key of meta that has this number for each record; NULL: none */
	int n;                   /* samples of each prompt */
	double temperature;      /* 0: the most likely token, and the lowest id if several are */
	int top_k;               /* 0: all */
	double top_p;
	bool ignore_eos;         /* whether a sample continues after an end token */
	struct rf_opt_list stop; /* strings that end a sample when its text has them */
	const char *stop_key;    /* the key of meta that has more such strings for each record; NULL: none */
	uint64_t seed;
	int draw_step;         /* training step for the random numbers; -1: the step of the model */
	int batch;             /* records to decode together; 0: see rf_generate_room() */
	const char *tokenizer; /* its file or directory, or the word `bytes`; NULL: that of the model */
	/* open */
	struct rf_generate_place at;
	struct rf_tokenizer *words;         /* the tokenizer; NULL: none, so generations have no text */
	char warning[RF_TOKENIZER_WARNING]; /* about the tokenizer and the model; "": none */
	char note[200];                     /* why the tokenizer of the model was not opened; "": no note */
};
#define RF_GENERATE_DEFAULTS \
	{ \
		.max_new = 32, .n = 1, .top_p = 1, .draw_step = -1 \
	}

/* --max-new, --max-new-key, -n (--samples), --temperature, --top-k, --top-p, --ignore-eos, --stop,
 * --stop-key, --seed, --draw-step, --batch, --tokenizer */
void rf_generate_options(struct rf_generate_settings *s, struct rf_opts *opts);

/* Checks the settings.  Errors: RF_EUSAGE. */
enum rf_code rf_generate_ready(const struct rf_generate_settings *s, struct rf_err *e);
/* Opens the tokenizer of the text: s->tokenizer, else that of the model, else the byte tokenizer if it made
 * the stream.  Errors: RF_EDATA: another tokenizer made the stream; RF_EUSAGE: stop strings need a tokenizer,
 * and there is none; those of rf_tokenizer_open(). */
enum rf_code rf_generate_open(struct rf_generate_settings *s, const struct rf_head *h, struct rf_err *e);
void rf_generate_close(struct rf_generate_settings *s);

/* Returns how the stage uses memory, for rf_work_init(). */
struct rf_use rf_generate_use(struct rf_generate_settings *s);

/* Returns the largest number of records that are ever decoded together. */
int rf_generate_most(const struct rf_generate_settings *s);
/* Returns how many records as large as these n may be decoded together: --batch, or as many as fit into the
 * memory of the weights or 1 GiB, whichever is larger.  Once these n records take 64 MiB, at most n. */
int rf_generate_room(const struct rf_generate_settings *s, const struct rf_record *r, int n);
/* Checks that a record can be continued: its prompt is not empty and fits the model, its limit is a number,
 * and its stop strings are texts.  Errors: RF_EDATA. */
enum rf_code rf_generate_check(const struct rf_generate_settings *s, const struct rf_record *r,
                               struct rf_err *e);
/* Checks the first record, and takes its limit for the plan of memory (--dry-run). */
enum rf_code rf_generate_expect(struct rf_generate_settings *s, const struct rf_record *r, struct rf_err *e);
/* Decodes `count` records together, and writes their generations.  The records must have passed
 * rf_generate_check().  Errors: RF_ENUMERIC: NaN or Inf; RF_ENOMEM.  *bad is then the index of the record. */
enum rf_code rf_generate_records(struct rf_generate_settings *s, struct rf_record *r, int count, int *bad,
                                 struct rf_err *e);

#endif
