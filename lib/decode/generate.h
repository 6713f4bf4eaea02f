/* generate.h -- what a model writes behind a prompt, token by token (PHASES: generation for evaluation).
 *
 * Several records are decoded side by side.  Each prompt is run once, in segments, into a place of its own in
 * the tree; from then on every step is one row for each sample of each record.  A sample's random numbers do
 * not depend on what is decoded beside it, its logits only by their rounding. */
#ifndef RF_GENERATE_H
#define RF_GENERATE_H

#include "engine/work.h"
#include "stream/record.h"
#include "tokenizer/tokenizer.h"

/* Device memory of the stage, of nb = batch n rows. */
struct rf_generate_place {
	rf_f32 first; /* (nb, d): the prompts' last rows, each for all its samples */
	rf_f32 z;     /* (nb, N): logits; only if tokens are drawn */
	rf_f32 sure;  /* (nb): finite if the logits are */
	rf_i32 token; /* (k, nb) */
	rf_i32 zeros; /* (n) */
	rf_f64 u;     /* (nb) */
};

struct rf_generate_settings {
	struct rf_work *work;
	/* tokens at most; with a key those that memory is planned for, before a record asks for more */
	int max_new;
	const char *max_new_key; /* NULL, or the key of meta that has each record's own number instead */
	int n;                   /* samples of each prompt */
	double temperature;      /* 0: greedy, the lowest id of equals */
	int top_k;               /* 0: all */
	double top_p;
	bool ignore_eos;         /* go on after an end token */
	struct rf_opt_list stop; /* strings that end a sample when they are in its text */
	const char *stop_key;    /* NULL, or the key of meta that has each record's own, besides */
	uint64_t seed;
	int draw_step;           /* training step for the random numbers; -1: the model's */
	int batch;               /* records side by side; 0: see rf_generate_most() */
	const char *tokenizer;   /* its file or directory, or the word `bytes`; NULL: the model's */
	/* open */
	struct rf_generate_place at;
	struct rf_tokenizer *words; /* NULL: there is none, and generations have no text */
	char warning[RF_TOKENIZER_WARNING]; /* about words and the model; "": none */
	char note[200];          /* why the model's, which it has, is not opened; "": nothing to say */
};
#define RF_GENERATE_DEFAULTS { .max_new = 32, .n = 1, .top_p = 1, .draw_step = -1 }

/* --max-new, --max-new-key, -n (--samples), --temperature, --top-k, --top-p, --ignore-eos, --stop,
 * --stop-key, --seed, --draw-step, --batch, --tokenizer */
void rf_generate_options(struct rf_generate_settings *s, struct rf_opts *opts);

/* Checks the settings.  Errors: RF_EUSAGE. */
enum rf_code rf_generate_ready(const struct rf_generate_settings *s, struct rf_err *e);
/* Opens the tokenizer of a stream's text: the one that was asked for, else the model's, else the byte
 * tokenizer if the stream was made with it.  Errors: RF_EDATA: the stream was made with another one;
 * RF_EUSAGE: there is none, but stop strings need it; those of rf_tokenizer_open(). */
enum rf_code rf_generate_open(struct rf_generate_settings *s, const struct rf_head *h, struct rf_err *e);
void rf_generate_close(struct rf_generate_settings *s);

/* The stage's use of memory, for rf_work_init(). */
struct rf_use rf_generate_use(struct rf_generate_settings *s);

/* The most records that are decoded side by side, whatever they are. */
int rf_generate_most(const struct rf_generate_settings *s);
/* How many may be that are as large as these n: as many as --batch says, or as take no more memory than the
 * weights or 1 GiB; and no more than n once these, which are held meanwhile, take 64 MiB. */
int rf_generate_room(const struct rf_generate_settings *s, const struct rf_record *r, int n);
/* Whether a record can be continued: its prompt is not empty and fits the model, its limit is a number, and
 * its stop strings are texts.  Errors: RF_EDATA. */
enum rf_code rf_generate_check(const struct rf_generate_settings *s, const struct rf_record *r,
                               struct rf_err *e);
/* The same of a first record, by which memory is planned (--dry-run). */
enum rf_code rf_generate_expect(struct rf_generate_settings *s, const struct rf_record *r, struct rf_err *e);
/* Writes the generation of each of `count` records, which have passed the check, decoded side by side.
 * Errors: RF_ENUMERIC: NaN or Inf, RF_ENOMEM; *bad is then the index of the record. */
enum rf_code rf_generate_records(struct rf_generate_settings *s, struct rf_record *r, int count, int *bad,
                                 struct rf_err *e);

#endif
