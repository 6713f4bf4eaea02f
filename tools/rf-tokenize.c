/* rf-tokenize -- turns text into sequences of tokens, for the head of every pipe. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "io/file.h"
#include "stream/stream.h"
#include "text/sequences.h"
#include "text/text.h"
#include "tokenizer/tokenizer.h"

static bool bytes;
static const char *model, *output;
static struct rf_text_options texts = RF_TEXT_DEFAULTS;
static struct rf_sequences_options cut = RF_SEQUENCES_DEFAULTS;

static struct rf_skip skip = { .first = rf_cli_skip };
static struct rf_progress progress;

static const struct rf_opt own[] = {
	OPT_FLAG("bytes", &bytes, "use bytes as tokens: id = byte + 3, end 1, vocabulary 384",
	         .noted = RF_OPT_RESULT),
	OPT_TEXT("tokenizer", &model, "path", "tokenizer of a checkpoint or run, or a tokenizer file"),
	OPT_TEXT("output", &output, "file",
	         "write to this file, not to stdout; it appears whole or not at all", .letter = 'o'),
	OPT_END,
};
static struct rf_opts text_opts, cut_opts, bad, show;
static const struct rf_opt *const opts[] = { own, text_opts.row, cut_opts.row, bad.row, show.row, NULL };

static const struct rf_cli cli = {
	.name = "rf-tokenize",
	.usage = "--bytes | --tokenizer path [-o file] [options] [file ...]",
	.summary =
		"Reads documents (jsonl, text, ids; each also .zst) and writes a stream of token sequences.",
	.example = "rf-tokenize --bytes --max-len 2048 --truncate split corpus/*.txt | rf-dump",
	.also = "rf-cat(1), rf-dump(1), rf-entropy(1), rf-stream(5)",
	.opts = opts,
	.sections =
		(const struct rf_cli_section[]){
			{ "Tokenizer", "bytes tokenizer vocab" },
			{ "Documents",
	                  "format text-key prompt-key prompt-suffix-key answer-key answer-prefix "
	                  "answers-key choices-key meta-key source source-key valid-every split "
	                  "skip-bad" },
			{ "Length", "max-len max-prompt max-answer truncate min-len bos no-eos" },
			{ "Output", "output threads max-record progress" },
			{ NULL, NULL } },
	.max_args = -1,
};

/* Fills the head for a file of ids.  Ids need only the tokenizer's name and number of ids, so the tokenizer
 * may be missing, or of a kind that these programs cannot read. */
static void take_ids_of(struct rf_head *head)
{
	struct rf_err err;
	char kind[80];
	int vocab;

	if (rf_tokenizer_identify(model, kind, head->tokenizer_hash, &vocab, &err) != RF_OK)
		rf_die_err(&err);
	snprintf(head->tokenizer_kind, sizeof head->tokenizer_kind, "%.31s", kind);
	cut.vocab = cut.vocab ? cut.vocab : vocab;
}

int main(int argc, char *argv[])
{
	const struct rf_record *record;
	struct rf_tokenizer *tok = NULL;
	struct rf_sequences *sequences;
	struct rf_text *text;
	struct rf_out *out;
	struct rf_head head;
	struct rf_err err;
	enum rf_code rc;
	bool has_text, has_ids;
	char line[400], warning[RF_TOKENIZER_WARNING] = "";

	rf_text_option_table(&texts, &text_opts);
	rf_sequences_option_table(&cut, &cut_opts);
	rf_skip_options(&skip, &bad);
	cut.skip = &skip;
	rf_progress_options(&progress, &show);
	int files = rf_cli_parse(&cli, argc, argv);
	bad.row[0].noted = skip.most > 0; /* the history has --skip-bad only if it was given */
	for (int i = 1; i <= files; i++)
		if (output && rf_file_same(output, argv[i]))
			rf_die(EX_USAGE, "%s is an input, so it cannot be the output", output);
	if (texts.prompt_key)
		rf_cli_without(text_opts.row, "text-key", "cannot be combined with --prompt-key");
	cut.choices = texts.choices_key != NULL;
	if (!texts.prompt_key)
		rf_cli_without(cut_opts.row, "max-prompt", "requires --prompt-key");
	if (!texts.answer_key)
		rf_cli_without(cut_opts.row, "max-answer", "requires --answer-key");
	if (bytes && model)
		rf_die(EX_USAGE, "--bytes cannot be combined with --tokenizer (try --help)");
	if (bytes && rf_tokenizer_bytes(&tok, &err) != RF_OK)
		rf_die_err(&err);
	if (rf_text_open(&text, &texts, argv + 1, files, &err) != RF_OK)
		rf_die_err(&err);
	rf_text_holds(text, &has_text, &has_ids);
	rf_head_init(&head);
	if (model && rf_tokenizer_open(&tok, model, &err) != RF_OK) {
		if (has_text || err.code != RF_EMODEL)
			rf_die_err(&err);
		take_ids_of(&head);
	}
	if (tok && *rf_tokenizer_warning(tok))
		rf_say("%s: warning: %s", model, rf_tokenizer_warning(tok));
	if (tok && model && rf_tokenizer_fit_model(tok, model, &cut.model_vocab, warning, &err) != RF_OK)
		rf_die_err(&err);
	if (*warning)
		rf_say("warning: %s", warning);
	if (rf_sequences_open(&sequences, &cut, tok, text, texts.max_record, &err) != RF_OK)
		rf_die_err(&err);

	head.vocab = rf_sequences_vocab(sequences);
	if (tok) {
		snprintf(head.tokenizer_kind, sizeof head.tokenizer_kind, "%s", rf_tokenizer_kind(tok));
		snprintf(head.tokenizer_hash, sizeof head.tokenizer_hash, "%s", rf_tokenizer_hash(tok));
	}
	if (rf_cli_history(&cli, &head, &err) != RF_OK || rf_out_open(&out, output, &head, &err) != RF_OK)
		rf_die_err(&err);

	rf_progress_begin(&progress, cli.name, argv + 1, files);
	while ((rc = rf_sequences_next(sequences, &record, &err)) == RF_OK &&
	       (rc = rf_put(out, record, &err)) == RF_OK) {
		rf_meter_read(&progress.meter, rf_text_bytes(text));
		rf_meter_done(&progress.meter, record->T);
	}
	if (rc != RF_EOF || rf_skip_end(&skip, rf_sequences_documents(sequences), &err) != RF_OK)
		rf_die_err(&err);
	if (rf_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	rf_progress_end(&progress);
	rf_say("%s", rf_sequences_summary(sequences, line, sizeof line));
	if (rf_sequences_too_long(sequences, line, sizeof line))
		rf_say("%s", line);
	if (rf_sequences_shortened(sequences, line, sizeof line))
		rf_say("%s", line);
	rf_cli_skipped(&skip);

	rf_head_free(&head);
	rf_sequences_close(sequences);
	rf_text_close(text);
	rf_tokenizer_free(tok);
	return 0;
}
