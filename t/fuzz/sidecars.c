/* sidecars -- feeds any bytes to the reader of the files next to a tokenizer.json.  A tokenizer that is
 * accepted gives ids of the vocabulary, with the same ids and the same hash each time.
 *
 * The bytes are four files with a NUL between them: tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json and generation_config.json; an empty file is not made.  The files are in a folder of
 * /dev/shm, next to a tokenizer.json and a config.json that do not change. */
#include <fcntl.h>

#include "fuzz/fuzz.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

enum { FILES = 4 };
static const char *const names[FILES] = { "tokenizer_config.json", "special_tokens_map.json",
	                                  "added_tokens.json", "generation_config.json" };
static char folder[100];

static void write_file(const char *name, const void *text, size_t n)
{
	char path[200];
	int fd;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (!n) {
		unlink(path);
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	insist(fd >= 0 && write(fd, text, n) == (ssize_t)n && !close(fd), "a file cannot be written");
}

static void remove_folder(void)
{
	for (int i = 0; i < FILES; i++)
		write_file(names[i], NULL, 0);
	write_file("tokenizer.json", NULL, 0);
	write_file("config.json", NULL, 0);
	rmdir(folder);
}

static void make_folder(void)
{
	static const char tokenizer[] =
		"{\"added_tokens\":[{\"id\":5,\"content\":\"<e>\",\"special\":true,\"single_word\":false,"
		"\"lstrip\":false,\"rstrip\":false,\"normalized\":false},{\"id\":6,\"content\":\"<f>\","
		"\"special\":false,\"single_word\":false,\"lstrip\":true,\"rstrip\":false,"
		"\"normalized\":true}],"
		"\"normalizer\":{\"type\":\"Lowercase\"},"
		"\"model\":{\"type\":\"BPE\","
		"\"vocab\":{\"a\":0,\"<\":1,\"e\":2,\">\":3,\"b\":4},\"merges\":[]}}";
	static const char config[] =
		"{\"model_type\":\"delta_net\",\"hidden_size\":32,\"num_hidden_layers\":1,\"num_heads\":2,"
		"\"hidden_ratio\":2,\"vocab_size\":384,\"eos_token_id\":1,\"conv_size\":4}";

	snprintf(folder, sizeof folder, "/dev/shm/rf-fuzz-sidecars-XXXXXX");
	insist(mkdtemp(folder) != NULL, "the folder cannot be made");
	atexit(remove_folder);
	write_file("tokenizer.json", tokenizer, sizeof tokenizer - 1);
	write_file("config.json", config, sizeof config - 1);
}

static void check_ids(const struct rf_tokenizer *t)
{
	static const char text[] = "ab<e> <f> <g>  <E>[PAD]b";
	struct rf_id_list ids = { 0 };
	size_t len;
	char *back;

	insist(rf_tokenizer_eos(t) < rf_tokenizer_vocab(t), "an end token outside the vocabulary");
	if (rf_tokenizer_encode(t, text, sizeof text - 1, &ids, NULL) == RF_OK) {
		for (size_t i = 0; i < ids.n; i++)
			insist(ids.p[i] >= 0 && ids.p[i] < rf_tokenizer_vocab(t),
			       "an id outside the vocabulary");
		if (rf_tokenizer_decode(t, ids.p, ids.n, &back, &len, NULL) == RF_OK)
			free(back);
	}
	free(ids.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[4096], hash[17];
	struct rf_end_token eos;
	struct rf_tokenizer *t;
	struct rf_config cfg;
	enum rf_code rc;
	bool found;

	if (!*folder)
		make_folder();
	for (int i = 0; i < FILES; i++) {
		const uint8_t *end = size ? memchr(data, 0, size) : NULL;
		const size_t n = end ? (size_t)(end - data) : size;

		write_file(names[i], data, n);
		data += n + (end != NULL);
		size -= n + (end != NULL);
	}
	rc = rf_tokenizer_open(&t, folder, NULL);
	insist(rc == RF_OK || rc == RF_EMODEL || rc == RF_EDATA, "a wrong error code");
	if (rc == RF_OK) {
		check_ids(t);
		insist(rf_tokenizer_hash_dir(folder, hash, NULL) == RF_OK &&
		               !strcmp(hash, rf_tokenizer_hash(t)),
		       "the hash differs");
		insist(rf_tokenizer_end(folder, &eos, NULL) == RF_OK && eos.id == rf_tokenizer_eos(t),
		       "the end token differs");
		rf_tokenizer_free(t);
	}
	if (rf_tokenizer_model(folder, &cfg, path, &found, NULL) == RF_OK)
		for (int i = 0; i < cfg.eos_count; i++)
			insist(cfg.eos[i] >= 0 && cfg.eos[i] < cfg.vocab,
			       "an end token outside the config's vocabulary");
	rf_config_free(&cfg);
	return 0;
}
