/* ckpt_text.c -- reads runs, checkpoints and files of tensors, computes statistics of their tensors, and
 * writes them as text and JSON. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "ckpt/ckpt_internal.h"
#include "ckpt/manifest.h"
#include "dump/ckpt_text.h"
#include "dump/manifest_text.h"
#include "io/file.h"
#include "io/json.h"

enum { LABEL = RF_CKPT_LABEL, BLOCK = 1 << 14 };

/* ---- opening ------------------------------------------------------------------------------- */

bool rf_ckpt_text_is(const char *path)
{
	unsigned char start[9];
	struct stat st;
	uint64_t size;
	bool read;
	int fd;

	if (stat(path, &st))
		return false;
	if (S_ISDIR(st.st_mode) || rf_file_ends(path, strlen(path), ".safetensors"))
		return true;
	if (rf_file_open(path, &fd, &size, NULL) != RF_OK)
		return false;
	read = rf_file_pread(fd, start, sizeof start, 0, NULL) == RF_OK;
	close(fd);
	/* eight bytes with the length of the header, at most 16 MiB; the first four bytes of a stream are a
	   far larger number */
	return read && !start[4] && !start[5] && !start[6] && !start[7] && start[8] == '{';
}

static enum rf_code size_of_dir(const char *dir, uint64_t *bytes, struct rf_err *e)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	struct stat st;
	char name[200];

	*bytes = 0;
	if (!d)
		return rf_fail(e, RF_EIO, "%s: %s", rf_quote(name, sizeof name, dir, strlen(dir)),
		               strerror(errno));
	while ((entry = readdir(d)))
		if (!fstatat(dirfd(d), entry->d_name, &st, 0) && S_ISREG(st.st_mode))
			*bytes += (uint64_t)st.st_size;
	closedir(d);
	return RF_OK;
}

/* Reads a step of a run, and appends it to x->step. */
static enum rf_code read_step(struct rf_ckpt_text *x, int64_t step, struct rf_err *e)
{
	struct rf_saved_step *s = &x->step[x->steps];
	struct rf_ckpt *c = malloc(sizeof *c);
	char path[4400], name[32];
	enum rf_code rc;
	struct stat st;

	if (!c)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rf_step_name(name, step);
	snprintf(path, sizeof path, "%s/%s", x->path, name);
	if ((rc = rf_ckpt_open(c, path, e)) == RF_OK) {
		s->step = c->step;
		s->commits = c->commits;
		memcpy(s->weights, c->weights, sizeof s->weights);
		rf_ckpt_close(c);
		rc = size_of_dir(path, &s->bytes, e);
	}
	free(c);
	if (rc == RF_OK)
		x->steps++;
	/* a trainer may have removed the step since its name was read */
	else if (stat(path, &st) && errno == ENOENT)
		rc = RF_OK;
	return rc;
}

/* Returns the step that the link `best` of a run points to, best-step-N; -1: there is no such link. */
static int64_t best_step(const char *run)
{
	static const char prefix[] = "best-";
	char path[4096], to[100];
	const bool fits = rf_file_join(path, run, "best", NULL) == RF_OK;
	const ssize_t n = fits ? readlink(path, to, sizeof to - 1) : 0;

	to[n > 0 ? n : 0] = 0;
	return strncmp(to, prefix, sizeof prefix - 1) ? -1 : rf_step_number(to + sizeof prefix - 1);
}

/* Reads the steps of a run; a bare checkpoint has none. */
static enum rf_code read_steps(struct rf_ckpt_text *x, struct rf_err *e)
{
	char latest[4096];
	enum rf_code rc;
	struct stat st;
	int64_t *step;
	int n;

	if ((rc = rf_file_join(latest, x->path, "latest", e)) != RF_OK ||
	    (lstat(latest, &st) && !*x->ckpt->lost) || (rc = rf_step_list(x->path, &step, &n, e)) != RF_OK)
		return rc;
	if (n && !(x->step = calloc((size_t)n, sizeof *x->step)))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < n && rc == RF_OK; i++)
		rc = read_step(x, step[i], e);
	free(step);
	if (x->steps)
		x->best = best_step(x->path);
	return rc == RF_OK && x->steps ? rf_ranks_seen(x->path, &x->rank, &x->ranks, e) : rc;
}

/* Reads the manifest of the run that the step belongs to. */
static enum rf_code read_manifest(struct rf_ckpt_text *x, struct rf_err *e)
{
	char run[4096];
	enum rf_code rc = rf_file_join(run, x->ckpt->dir, "..", e);

	return rc == RF_OK ? rf_manifest_read(run, &x->manifest, e) : rc;
}

static enum rf_code open_dir(struct rf_ckpt_text *x, struct rf_err *e)
{
	enum rf_code rc;

	if (!(x->ckpt = malloc(sizeof *x->ckpt)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = rf_ckpt_open(x->ckpt, x->path, e)) != RF_OK) {
		free(x->ckpt);
		x->ckpt = NULL;
		return rc;
	}
	x->is_ckpt = true;
	x->tensors = &x->ckpt->tensors;
	rc = read_steps(x, e);
	return rc == RF_OK && x->ckpt->in_run ? read_manifest(x, e) : rc;
}

enum rf_code rf_ckpt_text_open(struct rf_ckpt_text *x, const char *path, struct rf_err *e)
{
	struct stat st;
	enum rf_code rc;

	*x = (struct rf_ckpt_text){ .path = path, .tensors = &x->file, .best = -1 };
	rf_quote(x->name, sizeof x->name, path, strlen(path));
	if (stat(path, &st))
		return rf_fail(e, RF_ENOINPUT, "%s: %s", x->name, strerror(errno));
	rc = S_ISDIR(st.st_mode) ? open_dir(x, e) : rf_tensors_open(&x->file, path, e);
	if (rc != RF_OK) {
		rf_ckpt_text_close(x);
		return rc;
	}
	for (int i = 0; i < x->tensors->n; i++) {
		const struct rf_tensor *t = &x->tensors->t[i];
		int w = rf_columns(t->name, strlen(t->name));

		x->count += x->is_ckpt ? 0 : t->count;
		x->bytes += t->bytes;
		x->name_width = w > x->name_width ? w : x->name_width;
	}
	for (int i = 0; x->is_ckpt && i < x->ckpt->params.n; i++)
		x->count += x->ckpt->params.p[i].count;
	return RF_OK;
}

void rf_ckpt_text_close(struct rf_ckpt_text *x)
{
	if (x->is_ckpt)
		rf_ckpt_close(x->ckpt);
	else
		rf_tensors_close(&x->file);
	free(x->ckpt);
	free(x->step);
	free(x->rank);
	json_decref(x->manifest);
	*x = (struct rf_ckpt_text){ 0 };
}

/* ---- numbers ------------------------------------------------------------------------------- */

static bool is_float(enum rf_dtype t) { return t == RF_F32 || t == RF_F16 || t == RF_BF16 || t == RF_F64; }

/* Reads the elements from `at` on, up to BLOCK of them, and sets *n to their number. */
static enum rf_code read_block(const struct rf_tensor *t, uint64_t at, float *out, size_t *n,
                               struct rf_err *e)
{
	*n = t->count - at < BLOCK ? (size_t)(t->count - at) : BLOCK;
	return rf_tensor_f32_part(t, at, *n, out, e);
}

enum rf_code rf_ckpt_text_stats(const struct rf_tensor *t, struct rf_stats *out, struct rf_err *e)
{
	double sum = 0, squares = 0, spread = 0;
	float *x = malloc(BLOCK * sizeof *x);
	enum rf_code rc = RF_OK;
	size_t n;

	*out = (struct rf_stats){ NAN, NAN, NAN, NAN, NAN, 0 };
	if (!x)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (!is_float(t->dtype) || !t->count)
		goto out;
	for (uint64_t at = 0; at < t->count; at += n) {
		if ((rc = read_block(t, at, x, &n, e)) != RF_OK)
			goto out;
		for (size_t i = 0; i < n; i++) {
			out->nonfinite += isfinite(x[i]) ? 0 : 1;
			out->min = x[i] < out->min || isnan(out->min) ? x[i] : out->min;
			out->max = x[i] > out->max || isnan(out->max) ? x[i] : out->max;
			sum += x[i];
			squares += (double)x[i] * x[i];
		}
	}
	out->mean = sum / (double)t->count;
	out->norm = sqrt(squares);
	/* in a second pass: the mean of squares minus the square of the mean would lose small differences */
	for (uint64_t at = 0; at < t->count; at += n) {
		if ((rc = read_block(t, at, x, &n, e)) != RF_OK)
			goto out;
		for (size_t i = 0; i < n; i++)
			spread += (x[i] - out->mean) * (x[i] - out->mean);
	}
	out->std = sqrt(spread / (double)t->count);
out:
	free(x);
	return rc;
}

static enum rf_code check_once(const struct rf_ckpt_text *x, struct rf_err *e)
{
	struct rf_stats stats;
	char name[120];
	enum rf_code rc;

	for (int i = 0; i < x->tensors->n; i++) {
		if ((rc = rf_ckpt_text_stats(&x->tensors->t[i], &stats, e)) != RF_OK)
			return rf_blame(e, "%s", x->name);
		if (stats.nonfinite)
			return rf_fail(e, RF_EDATA, "%s: %llu of %llu elements of '%s' are not finite",
			               x->name, (unsigned long long)stats.nonfinite,
			               (unsigned long long)x->tensors->t[i].count,
			               rf_quote(name, sizeof name, x->tensors->t[i].name,
			                        strlen(x->tensors->t[i].name)));
	}
	return x->is_ckpt ? rf_ckpt_verify(x->ckpt, e) : RF_OK;
}

enum rf_code rf_ckpt_text_check(struct rf_ckpt_text *x, struct rf_err *e)
{
	enum rf_code rc;
	struct stat st;

	/* a trainer may have removed this step after a commit: then a newer step exists */
	while ((rc = check_once(x, e)) != RF_OK && x->is_ckpt && stat(x->ckpt->dir, &st) && errno == ENOENT) {
		const char *path = x->path;

		rf_ckpt_text_close(x);
		if ((rc = rf_ckpt_text_open(x, path, e)) != RF_OK)
			break;
	}
	return rc;
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Writes the keys of config.json whose value is not a list or an object. */
static void write_config(const char *text, int width, struct rf_buf *p)
{
	json_t *config = json_loads(text, 0, NULL), *v;
	struct rf_flow f;
	const char *key;

	rf_flow_begin(&f, p, "config", LABEL, width, 0);
	json_object_foreach (config, key, v) {
		struct rf_buf item = { 0 }, value = { 0 };

		if (json_is_object(v) || json_is_array(v))
			continue;
		rf_json_print(&value, v);
		rf_print_safe(&item, key, strlen(key), false);
		rf_print_text(&item, " ");
		rf_print_safe(&item, value.p, value.n, false);
		rf_flow_item(&f, item.p, item.n, NULL);
		p->failed |= item.failed || value.failed;
		rf_buf_free(&item);
		rf_buf_free(&value);
	}
	rf_flow_end(&f);
	json_decref(config);
}

static void write_step(const struct rf_saved_step *s, struct rf_buf *p)
{
	rf_print(p, "step %lld  commits %lld  weights %s  %llu bytes\n", (long long)s->step,
	         (long long)s->commits, s->weights, (unsigned long long)s->bytes);
}

static void write_rank(const struct rf_rank_sign *s, struct rf_buf *p)
{
	rf_print(p, "rank %d  ", s->rank);
	rf_print_safe(p, s->host, strlen(s->host), false);
	rf_print(p, "  process %ld  exchange %llu  ", s->pid, (unsigned long long)s->calls);
	rf_print_safe(p, s->doing, strlen(s->doing), false);
	rf_print_text(p, "\n");
}

void rf_ckpt_text_print(const struct rf_ckpt_text *x, int width, struct rf_buf *p)
{
	const struct rf_ckpt *c = x->ckpt;

	if (x->is_ckpt) {
		rf_print(p, "%-*s%s, %llu parameters, %s\n", LABEL, "model", c->cfg.model_type,
		         (unsigned long long)x->count,
		         c->tied ? "the head is the embedding" : "with a head of its own");
		rf_print(p, "%-*s%s\n%-*s%s\n", LABEL, "weights", c->weights, LABEL, "arch", c->arch);
		if (*c->tokenizer)
			rf_print(p, "%-*s%s\n", LABEL, "tokenizer", c->tokenizer);
		if (c->in_run)
			rf_print(p, "%-*s%lld\n%-*s%lld\n", LABEL, "step", (long long)c->step, LABEL,
			         "commits", (long long)c->commits);
		if (*c->data_hash)
			rf_print(p, "%-*s%s, next record %lld\n", LABEL, "data", c->data_hash,
			         (long long)c->data_next);
		if (c->has_reward_mean)
			rf_print(p, "%-*s%.6g\n", LABEL, "reward mean", c->reward_mean);
		if (*c->warning) {
			rf_print(p, "%-*s", LABEL, "warning");
			rf_print_safe(p, c->warning, strlen(c->warning), false);
			rf_print_text(p, "\n");
		}
		write_config(c->cfg.text, width, p);
	}
	if (!x->is_ckpt && rf_tensors_meta(&x->file, "weights")) {
		rf_print(p, "%-*s", LABEL, "of weights");
		rf_print_safe(p, rf_tensors_meta(&x->file, "weights"),
		              strlen(rf_tensors_meta(&x->file, "weights")), false);
		rf_print_text(p, "\n");
	}
	for (int i = 0; i < x->steps; i++) {
		rf_print(p, "%-*s", LABEL, i ? "" : "steps");
		write_step(&x->step[i], p);
	}
	if (x->best >= 0)
		rf_print(p, "%-*sstep %lld\n", LABEL, "best", (long long)x->best);
	rf_manifest_text(x->manifest, width, p);
	rf_print(p, "%-*s%d, %llu bytes", LABEL, "tensors", x->tensors->n, (unsigned long long)x->bytes);
	if (!x->is_ckpt)
		rf_print(p, ", %llu elements", (unsigned long long)x->count);
	rf_print_text(p, "\n");
}

void rf_ckpt_text_print_row(const struct rf_ckpt_text *x, const struct rf_row *row, bool stats,
                            struct rf_buf *p)
{
	const struct rf_tensor *t = row->tensor;
	size_t at;
	int w;

	if (row->step) {
		write_step(row->step, p);
		return;
	}
	if (row->rank) {
		write_rank(row->rank, p);
		return;
	}
	rf_print_text(p, "  ");
	rf_print_safe(p, t->name, strlen(t->name), false);
	w = rf_columns(t->name, strlen(t->name));
	rf_print_fill(p, ' ', (size_t)(x->name_width > w ? x->name_width - w : 0));
	rf_print_text(p, "  ");
	at = p->n;
	rf_print_safe(p, rf_tensor_type(t), strlen(rf_tensor_type(t)), false);
	rf_print_fill(p, ' ', p->n - at < 4 ? 4 - (p->n - at) : 0);
	rf_print_text(p, "  ");
	at = p->n;
	rf_table_shape(t, p);
	rf_print_fill(p, ' ', p->n - at < 14 ? 14 - (p->n - at) : 0);
	rf_print(p, "  %12llu bytes", (unsigned long long)t->bytes);
	if (stats)
		rf_print(p, "  min %-11.4g  max %-11.4g  mean %-11.4g  std %-11.4g  norm %.6g",
		         row->stats.min, row->stats.max, row->stats.mean, row->stats.std, row->stats.norm);
	if (stats && row->stats.nonfinite)
		rf_print(p, "  NOT FINITE: %llu", (unsigned long long)row->stats.nonfinite);
	rf_print_text(p, "\n");
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void write_json(json_t *o, struct rf_buf *p)
{
	rf_json_print(p, o);
	rf_print_text(p, "\n");
	json_decref(o);
}

/* Returns a number, or null for NaN and infinity, which JSON lacks. */
static json_t *json_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *text_or_null(const char *s) { return *s ? json_string(s) : json_null(); }

static json_t *step_object(const struct rf_saved_step *s)
{
	return json_pack("{s:s, s:I, s:I, s:o, s:I}", "type", "step", "step", (json_int_t)s->step, "commits",
	                 (json_int_t)s->commits, "weights", text_or_null(s->weights), "bytes",
	                 (json_int_t)s->bytes);
}

static json_t *rank_object(const struct rf_rank_sign *s)
{
	return json_pack("{s:s, s:i, s:s, s:I, s:I, s:s}", "type", "rank", "rank", s->rank, "host", s->host,
	                 "process", (json_int_t)s->pid, "exchanges", (json_int_t)s->calls, "doing", s->doing);
}

void rf_ckpt_text_json(const struct rf_ckpt_text *x, struct rf_buf *p)
{
	const struct rf_ckpt *c = x->ckpt;
	json_t *line;
	size_t n;

	if (!x->is_ckpt) {
		write_json(json_pack("{s:s, s:i, s:I, s:I}", "type", "file", "tensors", x->tensors->n,
		                     "count", (json_int_t)x->count, "bytes", (json_int_t)x->bytes),
		           p);
		return;
	}
	line = json_pack("{s:s, s:s, s:I, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "type", "checkpoint",
	                 "model_type", c->cfg.model_type, "parameters", (json_int_t)x->count, "tied", c->tied,
	                 "weights", c->weights, "arch", c->arch, "tokenizer", text_or_null(c->tokenizer),
	                 "step", c->in_run ? json_integer(c->step) : json_null(), "commits",
	                 c->in_run ? json_integer(c->commits) : json_null(), "config",
	                 json_loads(c->cfg.text, 0, NULL));
	if (line && x->best >= 0)
		json_object_set_new(line, "best", json_integer(x->best));
	write_json(line, p);
	for (int i = 0; i < x->steps; i++)
		write_json(step_object(&x->step[i]), p);
	json_array_foreach (x->manifest, n, line) {
		json_t *o = json_pack("{s:s}", "type", "manifest");

		if (o)
			json_object_update(o, line);
		write_json(o, p);
	}
}

void rf_ckpt_text_row_json(const struct rf_row *row, bool stats, struct rf_buf *p)
{
	const struct rf_tensor *t = row->tensor;
	json_t *o, *shape;

	if (row->step) {
		write_json(step_object(row->step), p);
		return;
	}
	if (row->rank) {
		write_json(rank_object(row->rank), p);
		return;
	}
	shape = json_array();
	for (int i = 0; i < t->ndim; i++)
		json_array_append_new(shape, json_integer(t->shape[i]));
	o = json_pack("{s:s, s:s, s:s, s:o, s:I, s:I}", "type", "tensor", "name", t->name, "dtype",
	              rf_tensor_type(t), "shape", shape, "count", (json_int_t)t->count, "bytes",
	              (json_int_t)t->bytes);
	if (o && stats) {
		json_object_set_new(o, "min", json_number(row->stats.min));
		json_object_set_new(o, "max", json_number(row->stats.max));
		json_object_set_new(o, "mean", json_number(row->stats.mean));
		json_object_set_new(o, "std", json_number(row->stats.std));
		json_object_set_new(o, "norm", json_number(row->stats.norm));
		json_object_set_new(o, "nonfinite", json_integer((json_int_t)row->stats.nonfinite));
	}
	write_json(o, p);
}
