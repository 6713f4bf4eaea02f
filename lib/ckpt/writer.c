/* writer.c -- the files of a checkpoint directory: those that are copied, config.json, model.safetensors and,
 * for a step of a run, optim.safetensors and state.json.  state.json lists the other files, so it is written
 * last. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/print.h"
#include "ckpt/ckpt_internal.h"
#include "ckpt/manifest.h"
#include "ckpt/writer.h"
#include "io/file.h"
#include "io/json.h"
#include "io/tempfile.h"
#include "tokenizer/tokenizer.h"

enum { BLOCK = 1 << 16, SLACK = 1 << 20 };
#define MOMENTS     "optim.safetensors"
#define CARD        "README.md"
#define FORMER_CARD "README.base.md"

/* ---- files --------------------------------------------------------------------------------- */

static enum rf_code create_file(struct rf_ckpt_writer *w, struct rf_tempfile *f, const char *name,
                                struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_file_join(path, w->dir, name, e);

	return rc == RF_OK ? rf_tempfile_create(f, path, w->stop, e) : rc;
}

static enum rf_code list_file(struct rf_ckpt_writer *w, const char *name, uint64_t size, const char *hex,
                              struct rf_err *e)
{
	return json_object_set_new(w->files, name,
	                           json_pack("{s:I, s:s}", "size", (json_int_t)size, "xxh64", hex)) < 0
	               ? rf_fail(e, RF_ENOMEM, "out of memory")
	               : RF_OK;
}

/* Commits and lists a file.  rc: the result of writing it; after a failure the file is removed. */
static enum rf_code finish_file(struct rf_ckpt_writer *w, struct rf_tempfile *f, enum rf_code rc,
                                const char *name, struct rf_err *e)
{
	char hex[17];

	if (rc != RF_OK) {
		rf_tempfile_abandon(f);
		return rc;
	}
	rc = rf_tempfile_commit(f, hex, e);
	return rc == RF_OK ? list_file(w, name, f->size, hex, e) : rc;
}

static enum rf_code write_text(struct rf_ckpt_writer *w, const char *name, const char *text, struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;

	if ((rc = create_file(w, &f, name, e)) != RF_OK)
		return rc;
	return finish_file(w, &f, rf_tempfile_write(&f, text, strlen(text), e), name, e);
}

static enum rf_code write_tensors(struct rf_ckpt_writer *w, const char *name, const struct rf_tensor *t,
                                  int n, const char *const *extra, struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;

	if ((rc = create_file(w, &f, name, e)) != RF_OK)
		return rc;
	return finish_file(w, &f, rf_tensors_put(&f, t, n, extra, e), name, e);
}

static enum rf_code copy_file(struct rf_ckpt_writer *w, const char *from, const char *name, const char *as,
                              struct rf_err *e)
{
	char path[4096], buf[BLOCK];
	struct rf_tempfile f;
	enum rf_code rc;
	uint64_t size;
	int fd;

	if ((rc = rf_file_join(path, from, name, e)) != RF_OK ||
	    (rc = rf_file_open(path, &fd, &size, e)) != RF_OK)
		return rc;
	if ((rc = create_file(w, &f, as, e)) == RF_OK) {
		for (uint64_t at = 0; rc == RF_OK && at < size; at += BLOCK) {
			size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
			if ((rc = rf_file_pread(fd, buf, n, at, e)) == RF_OK)
				rc = rf_tempfile_write(&f, buf, n, e);
			else
				rf_blame(e, "%s", path);
		}
		rc = finish_file(w, &f, rc, as, e);
	}
	close(fd);
	return rc;
}

/* ---- the files that are copied ------------------------------------------------------------- */

/* Returns whether a file of a checkpoint is not copied: it has weights, in any format, or the writer writes
 * it. */
static bool is_rewritten(const char *name)
{
	static const char *const ends[] = { ".safetensors", ".index.json", ".bin",  ".pt",   ".pth", ".ckpt",
		                            ".h5",          ".msgpack",    ".onnx", ".gguf", NULL };

	for (const char *const *end = ends; *end; end++)
		if (rf_file_ends(name, strlen(name), *end))
			return true;
	return !strcmp(name, "config.json") || !strcmp(name, "state.json");
}

typedef enum rf_code file_fn(void *arg, const char *dir, const char *name, const struct stat *,
                             struct rf_err *);

/* Returns whether a link leads to a file of its checkpoint: in the same folder, or where a cache of models
 * keeps the files of several models (CHECKPOINT/../../blobs).  A file elsewhere may be private, so it is not
 * copied. */
static bool stays_inside(const char *dir, const char *path)
{
	char folder[4096];

	return rf_file_inside(path, dir) ||
	       (snprintf(folder, sizeof folder, "%s/../../blobs", dir) < (int)sizeof folder &&
	        rf_file_inside(path, folder));
}

#define MOST_COPIED (INT64_C(1) << 30) /* bytes */

/* Checks a file that is to be copied.  *regular: whether it is a regular file; all others are left out. */
static enum rf_code check_file(const char *dir, const char *path, struct stat *st, bool *regular,
                               struct rf_err *e)
{
	if (lstat(path, st) < 0 || (S_ISLNK(st->st_mode) && stays_inside(dir, path) && stat(path, st) < 0))
		return rf_fail(e, RF_EIO, "%s: stat: %s", path, strerror(errno));
	if (S_ISLNK(st->st_mode))
		return rf_fail(e, RF_EMODEL,
		               "%s: this symbolic link is broken or leads out of the checkpoint: copy the "
		               "file into the checkpoint, or remove the link",
		               path);
	*regular = S_ISREG(st->st_mode);
	if (*regular && st->st_size > MOST_COPIED)
		return rf_fail(e, RF_EMODEL,
		               "%s: the file has %lld bytes and would be copied into every step, for which "
		               "the limit is %lld: move it out of the checkpoint",
		               path, (long long)st->st_size, (long long)MOST_COPIED);
	return RF_OK;
}

/* Calls f for each file of a checkpoint that is copied, in order of name. */
static enum rf_code each_copied(const char *dir, file_fn *f, void *arg, struct rf_err *e)
{
	struct dirent **list;
	enum rf_code rc = RF_OK;
	int n = scandir(dir, &list, NULL, alphasort);

	if (n < 0)
		return rf_fail(e, RF_EIO, "%s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		bool regular = false;
		char path[4096];
		struct stat st;

		if (rc == RF_OK && rf_file_plain(list[i]->d_name) && !is_rewritten(list[i]->d_name) &&
		    (rc = rf_file_join(path, dir, list[i]->d_name, e)) == RF_OK &&
		    (rc = check_file(dir, path, &st, &regular, e)) == RF_OK && regular)
			rc = f(arg, dir, list[i]->d_name, &st, e);
		free(list[i]);
	}
	free(list);
	return rc;
}

/* Copies a file of the checkpoint.  If the writer has a card, the checkpoint's own card gets another name. */
static enum rf_code copy_one(void *writer, const char *dir, const char *name, const struct stat *st,
                             struct rf_err *e)
{
	struct rf_ckpt_writer *w = writer;

	(void)st;
	if (w->card && !strcmp(name, FORMER_CARD))
		return RF_OK;
	return copy_file(w, dir, name, w->card && !strcmp(name, CARD) ? FORMER_CARD : name, e);
}

/* Removes the files that were written so far. */
static void remove_files(struct rf_ckpt_writer *w)
{
	const char *name;
	char path[4096];
	json_t *file;

	json_object_foreach (w->files, name, file)
		if (rf_file_join(path, w->dir, name, NULL) == RF_OK)
			unlink(path);
	json_object_clear(w->files);
}

/* Finds the newest step of the run that this step belonged to.  Returns false if the run has no step, or if
 * the step has another model, as after the run was replaced by another run. */
static bool newer_step(const struct rf_ckpt *at, char dir[4096])
{
	struct rf_ckpt newest;
	char run[4096];
	bool same;

	snprintf(run, sizeof run, "%.*s", rf_run_of_step(at->dir), at->dir);
	if (!*run || rf_ckpt_open(&newest, run, NULL) != RF_OK)
		return false;
	same = !strcmp(newest.arch, at->arch) && !strcmp(newest.tokenizer, at->tokenizer);
	strcpy(dir, newest.dir);
	rf_ckpt_close(&newest);
	return same;
}

/* Copies the files of the checkpoint.  If a trainer has removed this step since it was opened (--keep),
 * copies those of the newest step: all steps of a run have the same. */
static enum rf_code copy_files(struct rf_ckpt_writer *w, struct rf_err *e)
{
	const struct rf_ckpt *from = w->from;
	char dir[4096], gone[4096];
	enum rf_code rc;
	struct stat st;

	strcpy(dir, from->dir);
	while ((rc = each_copied(dir, copy_one, w, e)) != RF_OK && from->in_run && stat(dir, &st) < 0 &&
	       errno == ENOENT) {
		strcpy(gone, dir);
		if (!newer_step(from, dir) || !strcmp(dir, gone))
			break;
		remove_files(w);
	}
	return rc;
}

static enum rf_code add_size(void *sum, const char *dir, const char *name, const struct stat *st,
                             struct rf_err *e)
{
	(void)dir, (void)name, (void)e;
	*(uint64_t *)sum += (uint64_t)st->st_size;
	return RF_OK;
}

uint64_t rf_ckpt_bytes(const struct rf_ckpt_writer *w)
{
	uint64_t sum = SLACK + rf_params_bytes(w->params, rf_dtype_size(w->dtype)) +
	               (w->with_moments ? 8 * (uint64_t)w->params->total : 0);

	for (int i = 0; w->from && i < w->from->tensors.n; i++)
		if (!rf_params_find(w->params, w->from->tensors.t[i].name))
			sum += w->from->tensors.t[i].bytes;
	if (w->from)
		each_copied(w->from->dir, add_size, &sum, NULL);
	return sum;
}

/* ---- the files that are written ------------------------------------------------------------ */

static const char byt5[] = "{\n"
			   "  \"tokenizer_class\": \"ByT5Tokenizer\",\n"
			   "  \"pad_token\": \"<pad>\",\n"
			   "  \"eos_token\": \"</s>\",\n"
			   "  \"unk_token\": \"<unk>\",\n"
			   "  \"extra_ids\": 125,\n"
			   "  \"added_tokens_decoder\": {\n"
			   "    \"0\": { \"content\": \"<pad>\", \"special\": true },\n"
			   "    \"1\": { \"content\": \"</s>\", \"special\": true },\n"
			   "    \"2\": { \"content\": \"<unk>\", \"special\": true }\n"
			   "  }\n"
			   "}\n";

static enum rf_code write_tokenizer(struct rf_ckpt_writer *w, const char *tokenizer, struct rf_err *e)
{
	static const char *const others[] = {
		"special_tokens_map.json", "added_tokens.json",   "vocab.json",         "merges.txt",
		"generation_config.json",  "chat_template.jinja", "chat_template.json", NULL
	};
	enum rf_code rc;
	bool found = false;

	if (!strcmp(tokenizer, "bytes"))
		return write_text(w, "tokenizer_config.json", byt5, e);
	for (int i = 0; i < 2; i++)
		for (const char *const *file = i ? others : rf_tokenizer_files; *file; file++) {
			if ((rc = copy_file(w, tokenizer, *file, *file, e)) != RF_OK && rc != RF_ENOINPUT)
				return rc;
			found |= rc == RF_OK && !i;
		}
	if (!found)
		return rf_fail(e, RF_ENOINPUT,
		               "%s: there is no tokenizer here (tokenizer.json, tokenizer.model, "
		               "tokenizer_config.json)",
		               tokenizer);
	return RF_OK;
}

static enum rf_code write_config(struct rf_ckpt_writer *w, struct rf_err *e)
{
	const char *dtype = w->dtype == RF_F32 ? "float32" : w->dtype == RF_BF16 ? "bfloat16" : "float16";
	enum rf_code rc;
	char *text;

	if ((rc = rf_config_text(w->cfg, dtype, w->params->tied, &text, e)) != RF_OK)
		return rf_blame(e, "config.json");
	rc = write_text(w, "config.json", text, e);
	free(text);
	return rc;
}

static enum rf_code write_model(struct rf_ckpt_writer *w, const float *weights, struct rf_err *e)
{
	uint16_t *half = NULL;
	struct rf_tensor *t = NULL;
	enum rf_code rc = RF_OK;
	int n;

	if (w->dtype != RF_F32)
		rc = rf_ckpt_to_half(w, weights, &half, e);
	if (rc == RF_OK && (rc = rf_ckpt_list_weights(w, weights, half, &t, &n, e)) == RF_OK &&
	    (rc = rf_tensors_hash(t, n, NULL, w->weights, e)) == RF_OK)
		rc = write_tensors(w, "model.safetensors", t, n, NULL, e);
	free(t);
	free(half);
	return rc;
}

/* Makes a file of the header alone, as long as it will be with all tensors; *size: its bytes. */
static enum rf_code write_header(struct rf_ckpt_writer *w, const char *name, const char *path,
                                 const struct rf_moments *moments, const char *const *extra, uint64_t *size,
                                 struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;
	char hex[17];

	if ((rc = create_file(w, &f, name, e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_begin(&f, moments->t, moments->n, extra, size, e)) != RF_OK) {
		rf_tempfile_abandon(&f);
		return rc;
	}
	if ((rc = rf_tempfile_commit(&f, hex, e)) != RF_OK)
		return rc;
	return truncate(path, (off_t)*size) < 0 ? rf_fail(e, RF_EIO, "%s: resize: %s", path, strerror(errno))
	                                        : RF_OK;
}

/* Writes the file of moments.  path: NULL, or the path of a file that only gets its header. */
static enum rf_code write_moments(struct rf_ckpt_writer *w, const char *path, const float *m, const float *v,
                                  struct rf_err *e)
{
	const char *const extra[] = { "weights", w->weights, NULL };
	struct rf_moments moments;
	enum rf_code rc;

	if ((rc = rf_moments_table(&moments, w->params, m, v, w->transfer, e)) != RF_OK)
		return rc;
	rc = path ? write_header(w, MOMENTS, path, &moments, extra, &w->parts, e)
	          : write_tensors(w, MOMENTS, moments.t, moments.n, extra, e);
	rf_moments_free(&moments);
	return rc;
}

/* Lists the file of moments that several processes have filled. */
static enum rf_code list_parts(struct rf_ckpt_writer *w, struct rf_err *e)
{
	char path[4096], hex[17];
	enum rf_code rc;

	if ((rc = rf_file_join(path, w->dir, MOMENTS, e)) != RF_OK ||
	    (rc = rf_file_hash_file(path, UINT64_MAX, hex, e)) != RF_OK)
		return rc;
	return list_file(w, MOMENTS, w->parts, hex, e);
}

static enum rf_code write_state(struct rf_ckpt_writer *w, const struct rf_state *s, struct rf_err *e)
{
	json_t *past = json_array(), *root;
	char *text, hash[17];
	enum rf_code rc;
	int bad = 0;

	for (int i = 0; i < s->past_count; i++)
		bad |= json_array_append_new(past, json_string(s->past[i]));
	root = json_pack("{s:i, s:I, s:I, s:I, s:I, s:s, s:o, s:O}", "format", RF_STATE_FORMAT, "step",
	                 (json_int_t)s->step, "parent", (json_int_t)s->parent, "commits",
	                 (json_int_t)s->commits, "updates", (json_int_t)s->updates, "weights", w->weights,
	                 "past", past, "files", w->files);
	if (*s->data_hash)
		bad |= json_object_set_new(root, "data",
		                           json_pack("{s:s, s:I}", "hash", s->data_hash, "next",
		                                     (json_int_t)s->data_next));
	if (s->has_reward_mean)
		bad |= json_object_set_new(root, "reward_mean", json_real(s->reward_mean));
	bad = bad || !rf_state_hash(root, hash) || json_object_set_new(root, "xxh64", json_string(hash));
	text = bad ? NULL : json_dumps(root, JSON_INDENT(1));
	json_decref(root);
	if (!text)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rc = strlen(text) > RF_MOST_STATE
	             ? rf_fail(e, RF_EMODEL,
	                       "%s: the checkpoint has too many files: its state.json, which lists them, "
	                       "would have more than %d bytes",
	                       w->dir, RF_MOST_STATE)
	             : write_text(w, "state.json", text, e);
	free(text);
	return rc;
}

static enum rf_code write_list(struct rf_ckpt_writer *w, struct rf_err *e)
{
	struct rf_buf names = { 0 };
	enum rf_code rc;
	const char *name;
	json_t *file;

	rf_print_text(&names, "rf-tools --weights-out may replace this folder, if these are its files:\n");
	json_object_foreach (w->files, name, file)
		rf_print(&names, "%s\n", name);
	rf_buf_add(&names, "", 1);
	rc = names.failed ? rf_fail(e, RF_ENOMEM, "out of memory")
	                  : write_text(w, RF_CKPT_LIST, (const char *)names.p, e);
	rf_buf_free(&names);
	return rc;
}

/* ---- the writer ---------------------------------------------------------------------------- */

/* Forgets what the writer has open, without removing anything. */
static void close_writer(struct rf_ckpt_writer *w)
{
	json_decref(w->files);
	free(w->card);
	w->files = NULL;
	w->card = NULL;
}

void rf_ckpt_abandon(struct rf_ckpt_writer *w)
{
	if (w->files)
		rf_file_remove(w->dir, NULL);
	close_writer(w);
}

/* Checks the path, and stores it and its temporary name. */
static enum rf_code choose_names(struct rf_ckpt_writer *w, const char *path, struct rf_err *e)
{
	enum rf_code rc;
	struct stat st;

	if (w->replace) {
		if ((rc = rf_ckpt_replaced_path(w->to, path, e)) != RF_OK)
			return rc;
		return rf_tempfile_name(w->dir, w->to, e);
	}
	if ((rc = rf_tempfile_name(w->dir, path, e)) != RF_OK)
		return rc;
	if (lstat(path, &st) == 0)
		return rf_fail(e, RF_EUSAGE, "%s: exists already", path);
	strcpy(w->to, path);
	return rf_file_can_write(path, false, e);
}

static enum rf_code check_room(const struct rf_ckpt_writer *w, struct rf_err *e)
{
	const uint64_t want = rf_ckpt_bytes(w);
	uint64_t room;
	enum rf_code rc = rf_file_space(w->dir, &room, e);

	if (rc == RF_OK && room < want)
		rc = rf_fail(e, RF_EIO, "%s: a checkpoint needs %llu bytes, but only %llu are free", w->dir,
		             (unsigned long long)want, (unsigned long long)room);
	return rc;
}

enum rf_code rf_ckpt_begin(struct rf_ckpt_writer *w, const char *path, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	*w->weights = *w->moments = 0;
	w->parts = 0;
	if ((w->with_card && (rc = rf_card(w->from, &w->card, e)) != RF_OK) ||
	    (rc = choose_names(w, path, e)) != RF_OK) {
		close_writer(w);
		return rc;
	}
	if (!(w->files = json_object()))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	else if (mkdir(w->dir, 0777) < 0)
		rc = rf_fail(e, RF_EIO, "%s: create: %s", w->dir, strerror(errno));
	if (rc != RF_OK) {
		close_writer(w);
		return rc;
	}
	if ((rc = check_room(w, e)) == RF_OK && w->from)
		rc = copy_files(w, e);
	if (rc == RF_OK && w->tokenizer)
		rc = write_tokenizer(w, w->tokenizer, e);
	if (rc == RF_OK && w->card)
		rc = write_text(w, CARD, w->card, e);
	if (rc != RF_OK)
		rf_ckpt_abandon(w);
	return rc;
}

enum rf_code rf_ckpt_put_weights(struct rf_ckpt_writer *w, const float *weights, struct rf_err *e)
{
	enum rf_code rc = write_config(w, e);

	if (rc == RF_OK)
		rc = write_model(w, weights, e);
	if (rc != RF_OK)
		rf_ckpt_abandon(w);
	return rc;
}

enum rf_code rf_ckpt_put_moments(struct rf_ckpt_writer *w, const float *m, const float *v, struct rf_err *e)
{
	const enum rf_code rc = write_moments(w, NULL, m, v, e);

	if (rc != RF_OK)
		rf_ckpt_abandon(w);
	return rc;
}

enum rf_code rf_ckpt_share_moments(struct rf_ckpt_writer *w, char path[4096], struct rf_err *e)
{
	enum rf_code rc = rf_file_join(path, w->dir, MOMENTS, e);

	if (rc == RF_OK)
		rc = write_moments(w, path, NULL, NULL, e);
	if (rc != RF_OK)
		rf_ckpt_abandon(w);
	return rc;
}

enum rf_code rf_ckpt_finish(struct rf_ckpt_writer *w, const struct rf_state *state, struct rf_err *e)
{
	enum rf_code rc = w->parts ? list_parts(w, e) : RF_OK;
	const char *hex;

	hex = json_string_value(json_object_get(json_object_get(w->files, MOMENTS), "xxh64"));
	snprintf(w->moments, sizeof w->moments, "%s", hex ? hex : "");
	if (rc == RF_OK && state)
		rc = write_state(w, state, e);
	if (rc == RF_OK && w->replace)
		rc = write_list(w, e);
	if (rc == RF_OK)
		rc = rf_file_sync_dir(w->dir, e);
	if (rc != RF_OK) {
		rf_ckpt_abandon(w);
		return rc;
	}
	close_writer(w);
	return w->replace ? rf_ckpt_replace(w->dir, w->to, w->stop, e)
	                  : rf_tempfile_publish(w->dir, w->to, w->stop, e);
}

enum rf_code rf_ckpt_write(struct rf_ckpt_writer *w, const char *path, const float *weights, struct rf_err *e)
{
	enum rf_code rc;

	if ((rc = rf_ckpt_begin(w, path, e)) != RF_OK || (rc = rf_ckpt_put_weights(w, weights, e)) != RF_OK)
		return rc;
	return rf_ckpt_finish(w, NULL, e);
}

enum rf_code rf_ckpt_can_replace(const struct rf_ckpt *from, const char *dir, struct rf_err *e)
{
	const struct rf_ckpt_writer w = RF_CKPT_WRITER(from);

	return rf_ckpt_replaceable(from, dir, rf_ckpt_bytes(&w), e);
}
