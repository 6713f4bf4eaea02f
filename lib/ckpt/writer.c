/* writer.c -- writing a checkpoint directory: the files that are carried along, config.json,
 * model.safetensors and, for a step of a run, optim.safetensors and state.json.  state.json lists the other
 * files, so it is written last. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/half.h"
#include "base/print.h"
#include "ckpt/ckpt_internal.h"
#include "ckpt/manifest.h"
#include "io/file.h"
#include "io/json.h"
#include "io/tempfile.h"
#include "tokenizer/tokenizer.h"

enum { BLOCK = 1 << 16, SLACK = 1 << 20 };
#define CARD        "README.md"
#define FORMER_CARD "README.base.md"

struct writer {
	const struct rf_ckpt_contents *p;
	const char *dir;
	json_t *files;        /* {name: {size, xxh64}} of what was written */
	char weights[17];
};

/* ---- the tensors --------------------------------------------------------------------------- */

/* Every tensor of the file in order of name: the model's from the flat buffer, or from half where it is
 * given; of a tied model the head that the checkpoint repeats; the others as they lie in the checkpoint. */
static enum rf_code make_table(const struct rf_ckpt_contents *p, const uint16_t *half, struct rf_tensor **out,
                               int *n, struct rf_err *e)
{
	const struct rf_tensors *old = p->from ? &p->from->tensors : NULL;
	char embedding[RF_MAX_NAME];
	struct rf_tensor *t;

	rf_config_embedding(p->cfg, embedding);
	*n = old ? old->n : p->params->n;
	if (!(*out = calloc((size_t)*n + 1, sizeof **out)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < *n; i++) {
		const char *name = old ? old->t[i].name : p->params->p[i].name;
		const struct rf_param *x = rf_params_find(p->params, name);

		t = *out + i;
		if (!x && p->params->tied && !strcmp(name, "lm_head.weight"))
			x = rf_params_find(p->params, embedding);
		if (!x) {
			*t = old->t[i];
			continue;
		}
		*t = (struct rf_tensor){ .name = name, .dtype = x->f32 ? RF_F32 : p->dtype, .ndim = x->ndim,
		                         .count = x->count };
		t->bytes = x->count * (uint64_t)rf_dtype_size(t->dtype);
		t->data = t->dtype == RF_F32 ? p->weights + x->offset : (const void *)(half + x->offset);
		t->transfer = p->transfer;
		for (int k = 0; k < x->ndim; k++)
			t->shape[k] = x->shape[k];
	}
	return RF_OK;
}

static enum rf_code to_half(const struct rf_ckpt_contents *p, uint16_t **out, struct rf_err *e)
{
	uint16_t *h = malloc(p->params->total * sizeof *h);

	if (!h)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < p->params->n; i++) {
		if (p->params->p[i].f32)
			continue;
		for (size_t k = p->params->p[i].offset, end = k + p->params->p[i].count; k < end; k++) {
			h[k] = p->dtype == RF_F16 ? rf_f32_f16(p->weights[k]) : rf_f32_bf16(p->weights[k]);
			if ((h[k] & 0x7fff) >= (p->dtype == RF_F16 ? 0x7c00 : 0x7f80)) {
				free(h);
				return rf_fail(e, RF_ENUMERIC,
				               "'%s' has a weight of %g, which %s cannot hold",
				               p->params->p[i].name, (double)p->weights[k],
				               rf_dtype_name(p->dtype));
			}
		}
	}
	*out = h;
	return RF_OK;
}

enum rf_code rf_ckpt_contents_hash(const struct rf_ckpt_contents *p, char weights[17], struct rf_err *e)
{
	struct rf_tensor *t;
	enum rf_code rc;
	int n;

	if ((rc = make_table(p, NULL, &t, &n, e)) == RF_OK)
		rc = rf_tensors_hash(t, n, NULL, weights, e);
	free(t);
	return rc;
}

/* ---- files --------------------------------------------------------------------------------- */

static enum rf_code create(struct writer *w, struct rf_tempfile *f, const char *name, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc = rf_file_join(path, w->dir, name, e);

	return rc == RF_OK ? rf_tempfile_create(f, path, w->p->stop, e) : rc;
}

static enum rf_code list(struct writer *w, const char *name, uint64_t size, const char *hex, struct rf_err *e)
{
	return json_object_set_new(w->files, name, json_pack("{s:I, s:s}", "size", (json_int_t)size, "xxh64",
	                                                     hex)) < 0
	               ? rf_fail(e, RF_ENOMEM, "out of memory")
	               : RF_OK;
}

/* Ends a file whose writing went as rc says. */
static enum rf_code finish(struct writer *w, struct rf_tempfile *f, enum rf_code rc, const char *name,
                           struct rf_err *e)
{
	char hex[17];

	if (rc != RF_OK) {
		rf_tempfile_abandon(f);
		return rc;
	}
	rc = rf_tempfile_commit(f, hex, e);
	return rc == RF_OK ? list(w, name, f->size, hex, e) : rc;
}

static enum rf_code write_text(struct writer *w, const char *name, const char *text, struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;

	if ((rc = create(w, &f, name, e)) != RF_OK)
		return rc;
	return finish(w, &f, rf_tempfile_write(&f, text, strlen(text), e), name, e);
}

static enum rf_code write_tensors(struct writer *w, const char *name, const struct rf_tensor *t, int n,
                                  const char *const *extra, struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;

	if ((rc = create(w, &f, name, e)) != RF_OK)
		return rc;
	return finish(w, &f, rf_tensors_put(&f, t, n, extra, e), name, e);
}

static enum rf_code copy_as(struct writer *w, const char *from, const char *name, const char *as,
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
	if ((rc = create(w, &f, as, e)) == RF_OK) {
		for (uint64_t at = 0; rc == RF_OK && at < size; at += BLOCK) {
			size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
			if ((rc = rf_file_pread(fd, buf, n, at, e)) == RF_OK)
				rc = rf_tempfile_write(&f, buf, n, e);
			else
				rf_blame(e, "%s", path);
		}
		rc = finish(w, &f, rc, as, e);
	}
	close(fd);
	return rc;
}

/* Files of a checkpoint that do not go with new weights: the old ones, in whatever form, and what
 * is written anew. */
static bool stale(const char *name)
{
	static const char *const ends[] = {
		".safetensors", ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx",
		".gguf", NULL
	};

	for (const char *const *end = ends; *end; end++)
		if (rf_file_ends(name, strlen(name), *end))
			return true;
	return !strcmp(name, "config.json") || !strcmp(name, "state.json");
}

typedef enum rf_code file_fn(void *arg, const char *dir, const char *name, const struct stat *,
                             struct rf_err *);

/* Whether a link leads to a file of its checkpoint: in its folder, or where a cache of models keeps the
 * contents of several (CHECKPOINT/../../blobs).  What lies elsewhere is nobody's to give away. */
static bool of_checkpoint(const char *dir, const char *path)
{
	char folder[4096];

	return rf_file_inside(path, dir) ||
	       (snprintf(folder, sizeof folder, "%s/../../blobs", dir) < (int)sizeof folder &&
	        rf_file_inside(path, folder));
}

#define MOST_CARRIED (INT64_C(1) << 30) /* bytes */

/* What a file is that is to be carried along; *regular false: nothing of that kind. */
static enum rf_code look_at(const char *dir, const char *path, struct stat *st, bool *regular,
                            struct rf_err *e)
{
	if (lstat(path, st) < 0 || (S_ISLNK(st->st_mode) && of_checkpoint(dir, path) && stat(path, st) < 0))
		return rf_fail(e, RF_EIO, "%s: stat: %s", path, strerror(errno));
	if (S_ISLNK(st->st_mode))
		return rf_fail(e, RF_EMODEL,
		               "%s: this symbolic link is broken or leads out of the checkpoint: copy the "
		               "file into the checkpoint, or remove the link",
		               path);
	*regular = S_ISREG(st->st_mode);
	if (*regular && st->st_size > MOST_CARRIED)
		return rf_fail(e, RF_EMODEL,
		               "%s: the file has %lld bytes and would be copied into every step, for which "
		               "the limit is %lld: move it out of the checkpoint", path,
		               (long long)st->st_size, (long long)MOST_CARRIED);
	return RF_OK;
}

/* Calls f for each file of a checkpoint that is carried along, in order of name. */
static enum rf_code each_carried(const char *dir, file_fn *f, void *arg, struct rf_err *e)
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

		if (rc == RF_OK && rf_file_plain(list[i]->d_name) && !stale(list[i]->d_name) &&
		    (rc = rf_file_join(path, dir, list[i]->d_name, e)) == RF_OK &&
		    (rc = look_at(dir, path, &st, &regular, e)) == RF_OK && regular)
			rc = f(arg, dir, list[i]->d_name, &st, e);
		free(list[i]);
	}
	free(list);
	return rc;
}

/* Copies a file of the checkpoint that a run began with.  The card of that checkpoint gets another name, next
 * to the run's own card. */
static enum rf_code carry(void *writer, const char *dir, const char *name, const struct stat *st,
                          struct rf_err *e)
{
	struct writer *w = writer;

	(void)st;
	if (w->p->card && !strcmp(name, FORMER_CARD))
		return RF_OK;
	return copy_as(w, dir, name, w->p->card && !strcmp(name, CARD) ? FORMER_CARD : name, e);
}

/* Removes the files that were written so far. */
static void begin_again(struct writer *w)
{
	const char *name;
	char path[4096];
	json_t *file;

	json_object_foreach(w->files, name, file)
		if (rf_file_join(path, w->dir, name, NULL) == RF_OK)
			unlink(path);
	json_object_clear(w->files);
}

/* Finds the newest step of the run that this step belonged to.  Returns false if there is none, or if it is
 * another model's, as after the run was replaced by another run. */
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

/* Copies the files that are carried along.  If a trainer has removed the step since it was opened (--keep),
 * they are those of the newest step: the steps of a run differ in none of them. */
static enum rf_code carry_all(struct writer *w, struct rf_err *e)
{
	const struct rf_ckpt *from = w->p->from;
	char dir[4096], gone[4096];
	enum rf_code rc;
	struct stat st;

	strcpy(dir, from->dir);
	while ((rc = each_carried(dir, carry, w, e)) != RF_OK && from->in_run && stat(dir, &st) < 0 &&
	       errno == ENOENT) {
		strcpy(gone, dir);
		if (!newer_step(from, dir) || !strcmp(dir, gone))
			break;
		begin_again(w);
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

uint64_t rf_ckpt_contents_bytes(const struct rf_ckpt_contents *p)
{
	uint64_t sum = SLACK + rf_params_bytes(p->params, rf_dtype_size(p->dtype)) +
	               (p->m ? 8 * (uint64_t)p->params->total : 0);

	for (int i = 0; p->from && i < p->from->tensors.n; i++)
		if (!rf_params_find(p->params, p->from->tensors.t[i].name))
			sum += p->from->tensors.t[i].bytes;
	if (p->from)
		each_carried(p->from->dir, add_size, &sum, NULL);
	return sum;
}

/* ---- the contents -------------------------------------------------------------------------- */

static const char byt5[] =
	"{\n"
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

static enum rf_code write_tokenizer(struct writer *w, const char *tokenizer, struct rf_err *e)
{
	static const char *const others[] = { "special_tokens_map.json", "added_tokens.json", "vocab.json",
	                                      "merges.txt", "generation_config.json", "chat_template.jinja",
	                                      "chat_template.json", NULL };
	enum rf_code rc;
	bool found = false;

	if (!strcmp(tokenizer, "bytes"))
		return write_text(w, "tokenizer_config.json", byt5, e);
	for (int i = 0; i < 2; i++)
		for (const char *const *file = i ? others : rf_tokenizer_files; *file; file++) {
			if ((rc = copy_as(w, tokenizer, *file, *file, e)) != RF_OK && rc != RF_ENOINPUT)
				return rc;
			found |= rc == RF_OK && !i;
		}
	if (!found)
		return rf_fail(e, RF_ENOINPUT,
		               "%s: there is no tokenizer here (tokenizer.json, tokenizer.model, "
		               "tokenizer_config.json)", tokenizer);
	return RF_OK;
}

static enum rf_code write_config(struct writer *w, struct rf_err *e)
{
	const char *dtype = w->p->dtype == RF_F32    ? "float32"
	                    : w->p->dtype == RF_BF16 ? "bfloat16"
	                                             : "float16";
	enum rf_code rc;
	char *text;

	if ((rc = rf_config_text(w->p->cfg, dtype, w->p->params->tied, &text, e)) != RF_OK)
		return rf_blame(e, "config.json");
	rc = write_text(w, "config.json", text, e);
	free(text);
	return rc;
}

static enum rf_code write_model(struct writer *w, struct rf_err *e)
{
	uint16_t *half = NULL;
	struct rf_tensor *t = NULL;
	enum rf_code rc = RF_OK;
	int n;

	if (w->p->dtype != RF_F32)
		rc = to_half(w->p, &half, e);
	if (rc == RF_OK && (rc = make_table(w->p, half, &t, &n, e)) == RF_OK &&
	    (rc = rf_tensors_hash(t, n, NULL, w->weights, e)) == RF_OK)
		rc = write_tensors(w, "model.safetensors", t, n, NULL, e);
	free(t);
	free(half);
	return rc;
}

/* A file that is whole when all who have a part of the moments have written it there. */
static enum rf_code write_parts(struct writer *w, const char *name, const struct rf_moments *moments,
                                const char *const *extra, struct rf_err *e)
{
	const struct rf_ckpt_contents *p = w->p;
	char path[4096], hex[17];
	struct rf_tempfile f;
	enum rf_code rc;
	uint64_t size;

	if ((rc = rf_file_join(path, w->dir, name, e)) != RF_OK || (rc = create(w, &f, name, e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_begin(&f, moments->t, moments->n, extra, &size, e)) != RF_OK) {
		rf_tempfile_abandon(&f);
		return rc;
	}
	if ((rc = rf_tempfile_commit(&f, hex, e)) != RF_OK)
		return rc;
	if (truncate(path, (off_t)size) < 0)
		return rf_fail(e, RF_EIO, "%s: resize: %s", path, strerror(errno));
	if ((rc = rf_ckpt_write_moments(path, p->params, p->own, p->m, p->v, p->transfer, e)) != RF_OK ||
	    (rc = p->rest(p->rest_arg, path, e)) != RF_OK ||
	    (rc = rf_file_hash_file(path, UINT64_MAX, hex, e)) != RF_OK)
		return rc;
	return list(w, name, size, hex, e);
}

static enum rf_code write_moments(struct writer *w, struct rf_err *e)
{
	const char *const extra[] = { "weights", w->weights, NULL };
	const struct rf_ckpt_contents *p = w->p;
	const char *const name = "optim.safetensors";
	struct rf_moments moments;
	enum rf_code rc;

	if ((rc = rf_moments_table(&moments, p->params, p->own ? NULL : p->m, p->own ? NULL : p->v,
	                           p->transfer, e)) != RF_OK)
		return rc;
	rc = p->own ? write_parts(w, name, &moments, extra, e)
	            : write_tensors(w, name, moments.t, moments.n, extra, e);
	rf_moments_free(&moments);
	return rc;
}

static enum rf_code write_state(struct writer *w, struct rf_err *e)
{
	const struct rf_state *s = w->p->state;
	json_t *past = json_array(), *root;
	char *text, hash[17];
	enum rf_code rc;
	int bad = 0;

	for (int i = 0; i < s->past_count; i++)
		bad |= json_array_append_new(past, json_string(s->past[i]));
	root = json_pack("{s:i, s:I, s:I, s:I, s:I, s:s, s:o, s:O}", "format", RF_STATE_FORMAT,
	                 "step", (json_int_t)s->step, "parent", (json_int_t)s->parent, "commits",
	                 (json_int_t)s->commits,
	                 "updates", (json_int_t)s->updates, "weights", w->weights, "past", past, "files",
	                 w->files);
	if (*s->data_hash)
		bad |= json_object_set_new(root, "data", json_pack("{s:s, s:I}", "hash", s->data_hash,
		                                                   "next", (json_int_t)s->data_next));
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

static enum rf_code write_list(struct writer *w, struct rf_err *e)
{
	struct rf_buf names = { 0 };
	enum rf_code rc;
	const char *name;
	json_t *file;

	rf_print_text(&names, "rf-tools --weights-out may replace this folder, if these are its files:\n");
	json_object_foreach(w->files, name, file)
		rf_print(&names, "%s\n", name);
	rf_buf_add(&names, "", 1);
	rc = names.failed ? rf_fail(e, RF_ENOMEM, "out of memory")
	                 : write_text(w, RF_CKPT_LIST, (const char *)names.p, e);
	rf_buf_free(&names);
	return rc;
}

static enum rf_code write_all(struct writer *w, struct rf_err *e)
{
	const struct rf_ckpt_contents *p = w->p;
	uint64_t want = rf_ckpt_contents_bytes(p), room;
	enum rf_code rc;

	if ((rc = rf_file_space(w->dir, &room, e)) != RF_OK)
		return rc;
	if (room < want)
		return rf_fail(e, RF_EIO, "%s: a checkpoint needs %llu bytes, but only %llu are free", w->dir,
		               (unsigned long long)want, (unsigned long long)room);
	if (p->from && (rc = carry_all(w, e)) != RF_OK)
		return rc;
	if (p->tokenizer && (rc = write_tokenizer(w, p->tokenizer, e)) != RF_OK)
		return rc;
	if (p->card && (rc = write_text(w, CARD, p->card, e)) != RF_OK)
		return rc;
	if ((rc = write_config(w, e)) != RF_OK || (rc = write_model(w, e)) != RF_OK)
		return rc;
	if (p->m && (rc = write_moments(w, e)) != RF_OK)
		return rc;
	if (p->state && (rc = write_state(w, e)) != RF_OK)
		return rc;
	if (p->list && (rc = write_list(w, e)) != RF_OK)
		return rc;
	return rf_file_sync_dir(w->dir, e);
}

enum rf_code rf_ckpt_contents_write(const struct rf_ckpt_contents *p, const char *dir, char weights[17],
                                    char moments[17], struct rf_err *e)
{
	struct writer w = { .p = p, .dir = dir, .files = json_object() };
	enum rf_code rc;

	if (!w.files)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (mkdir(dir, 0777) < 0)
		rc = rf_fail(e, RF_EIO, "%s: create: %s", dir, strerror(errno));
	else if ((rc = write_all(&w, e)) != RF_OK)
		rf_file_remove(dir, NULL);
	if (rc == RF_OK && weights)
		strcpy(weights, w.weights);
	if (rc == RF_OK && moments) {
		const char *hex =
			json_string_value(json_object_get(json_object_get(w.files, "optim.safetensors"),
		                                          "xxh64"));
		strcpy(moments, hex ? hex : "");
	}
	json_decref(w.files);
	return rc;
}

/* ---- bare checkpoints ---------------------------------------------------------------------- */

static enum rf_code write_new(const struct rf_ckpt_contents *p, const char *dir, struct rf_err *e)
{
	char temp[4096];
	enum rf_code rc;
	struct stat st;

	if ((rc = rf_tempfile_name(temp, dir, e)) != RF_OK)
		return rc;
	if (lstat(dir, &st) == 0)
		return rf_fail(e, RF_EUSAGE, "%s: exists already", dir);
	if ((rc = rf_file_can_write(dir, false, e)) != RF_OK ||
	    (rc = rf_ckpt_contents_write(p, temp, NULL, NULL, e)) != RF_OK)
		return rc;
	return rf_tempfile_publish(temp, dir, p->stop, e);
}

enum rf_code rf_ckpt_export(const struct rf_ckpt *from, const float *flat, enum rf_dtype dtype,
                            const char *dir, const volatile sig_atomic_t *stop, struct rf_err *e)
{
	struct rf_ckpt_contents p = {
		.from = from, .cfg = &from->cfg, .params = &from->params, .weights = flat, .dtype = dtype,
		.stop = stop
	};
	char *card;
	enum rf_code rc;

	if ((rc = rf_card(from, &card, e)) != RF_OK)
		return rc;
	p.card = card;
	rc = write_new(&p, dir, e);
	free(card);
	return rc;
}

enum rf_code rf_ckpt_create(const struct rf_config *cfg, const struct rf_params *params, const float *flat,
                            const char *tokenizer, const char *dir, const volatile sig_atomic_t *stop,
                            struct rf_err *e)
{
	struct rf_ckpt_contents p = {
		.cfg = cfg, .params = params, .weights = flat, .dtype = RF_F32, .tokenizer = tokenizer,
		.stop = stop
	};

	return write_new(&p, dir, e);
}
