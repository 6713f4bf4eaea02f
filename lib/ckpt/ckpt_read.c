/* ckpt_read.c -- opens a checkpoint: finds its directory, reads its files, and checks that they fit together.
 *
 * Opening does not look at the values of weights; rf_ckpt_load() reads and checks them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/half.h"
#include "base/warn.h"
#include "ckpt/ckpt_internal.h"
#include "ckpt/writer.h"
#include "io/file.h"
#include "io/json.h"
#include "model/model.h"
#include "stream/stream.h"
#include "tokenizer/tokenizer.h"

enum { LOAD = 1 << 18 };

/* ---- names and shapes ---------------------------------------------------------------------- */

/* A tensor that does not fit, and the reason.  A person reads the list, so tensors of several layers with the
 * same fault are one entry, model.layers.{0..23}.attn.b_proj.weight, in the notation of a shell. */
enum wrong { MISSING, UNEXPECTED, SHAPE, TYPE, WRONGS };

struct misfit {
	enum wrong wrong;
	const char *name;
	char detail[140];
	size_t at, digits; /* the place of the layer's number in the name */
	int layer;         /* -1: the name has no number */
	bool listed;
};

struct misfits {
	struct misfit *m;
	int n;
};

static void add_misfit(struct misfits *l, enum wrong wrong, const char *name, const char *detail)
{
	struct misfit *m = &l->m[l->n++];

	*m = (struct misfit){ .wrong = wrong, .name = name, .layer = -1 };
	snprintf(m->detail, sizeof m->detail, "%s", detail);
	for (const char *s = strchr(name, '.'); s && m->layer < 0; s = strchr(s + 1, '.')) {
		size_t digits = strspn(s + 1, "0123456789");
		if (!digits || digits > 6 || s[1 + digits] != '.')
			continue;
		m->at = (size_t)(s + 1 - name);
		m->digits = digits;
		m->layer = atoi(s + 1);
	}
}

static bool same_fault(const struct misfit *a, const struct misfit *b)
{
	return a->wrong == b->wrong && a->layer >= 0 && b->layer >= 0 && a->at == b->at &&
	       !memcmp(a->name, b->name, a->at) &&
	       !strcmp(a->name + a->at + a->digits, b->name + b->at + b->digits) &&
	       !strcmp(a->detail, b->detail);
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Prints n > 1 numbers as "{0..23}" or "{0,2,5}".  Returns false if out has too little room. */
static bool print_layers(char *out, size_t size, int *layer, int n)
{
	size_t used = 0;

	qsort(layer, (size_t)n, sizeof *layer, by_number);
	if (n > 2 && layer[n - 1] - layer[0] == n - 1)
		return snprintf(out, size, "{%d..%d}", layer[0], layer[n - 1]) < (int)size;
	for (int i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%d%s", i ? "," : "{", layer[i],
		                         i < n - 1 ? "" : "}");
	return used < size;
}

/* Appends one entry for l->m[i] and all misfits that are like it, and returns their number.  layer: room for
 * that many numbers. */
static int print_entry(char *out, size_t size, struct misfits *l, int i, int *layer)
{
	struct misfit *m = &l->m[i];
	char layers[400], name[700], q[800];
	int n = 0;

	for (int k = i; k < l->n; k++)
		if (k == i || (!l->m[k].listed && same_fault(m, &l->m[k]))) {
			l->m[k].listed = true;
			layer[n++] = l->m[k].layer;
		}
	if (n == 1)
		snprintf(name, sizeof name, "%s", m->name);
	else if (print_layers(layers, sizeof layers, layer, n))
		snprintf(name, sizeof name, "%.*s%s%s", (int)m->at, m->name, layers,
		         m->name + m->at + m->digits);
	else
		snprintf(name, sizeof name, "%s and its like in %d more layers", m->name, n - 1);
	snprintf(out, size, "%s%s", rf_quote(q, sizeof q, name, strlen(name)), m->detail);
	return n;
}

/* Prints the whole list as one sentence.  The sentence is cut only if it would be longer than an error can
 * be, as for a file of another model. */
static enum rf_code print_misfits(struct misfits *l, int *layer, struct rf_err *e)
{
	static const char *const titles[] = {
		[MISSING] = "missing",
		[UNEXPECTED] = "unexpected",
		[SHAPE] = "of another shape",
		[TYPE] = "of a type that holds no weights",
	};
	char all[3400] = "", one[1000];
	size_t used = 0;
	int left_out = 0;

	for (enum wrong w = MISSING; w < WRONGS; w++) {
		bool first = true;

		for (int i = 0; i < l->n; i++) {
			int n;

			if (l->m[i].wrong != w || l->m[i].listed)
				continue;
			n = left_out ? 1 : print_entry(one, sizeof one, l, i, layer);
			if (left_out || used + strlen(one) + 60 > sizeof all) {
				left_out += n;
				continue;
			}
			if (first)
				used += (size_t)snprintf(all + used, sizeof all - used,
				                         "%s%s: ", used ? "; " : "", titles[w]);
			used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", first ? "" : ", ",
			                         one);
			first = false;
		}
	}
	if (left_out)
		return rf_fail(e, RF_EMODEL, "tensors %s and %d more", all, left_out);
	return rf_fail(e, RF_EMODEL, "tensors %s", all);
}

bool rf_same_shape(const struct rf_tensor *t, const struct rf_param *p)
{
	bool same = t->ndim == p->ndim;

	for (int i = 0; same && i < p->ndim; i++)
		same = t->shape[i] == p->shape[i];
	return same;
}

static void print_shape(char *out, size_t size, const int64_t *shape, int ndim)
{
	size_t used = 0;

	*out = 0;
	for (int i = 0; i < ndim && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%lld", i ? "," : "",
		                         (long long)shape[i]);
}

/* Compares the tensors with the table of parameters.  alias: lm_head.weight may repeat the embedding. */
static enum rf_code check_names(const struct rf_tensors *t, const struct rf_params *params,
                                const struct rf_config *cfg, bool alias, struct rf_err *e)
{
	struct misfits l = { calloc((size_t)(params->n + t->n), sizeof *l.m), 0 };
	int *layer = calloc((size_t)(params->n + t->n), sizeof *layer);
	enum rf_code rc = RF_OK;

	if (!l.m || !layer) {
		free(l.m);
		free(layer);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	for (int i = 0; i < params->n; i++) {
		const struct rf_param *p = &params->p[i];
		const struct rf_tensor *x = rf_tensors_find(t, p->name);
		char is[60], not [60], detail[140];
		int64_t want[4];

		if (!x) {
			add_misfit(&l, MISSING, p->name, "");
			continue;
		}
		if (!rf_same_shape(x, p)) {
			for (int k = 0; k < p->ndim; k++)
				want[k] = p->shape[k];
			print_shape(is, sizeof is, x->shape, x->ndim);
			print_shape(not, sizeof not, want, p->ndim);
			snprintf(detail, sizeof detail, " (%s, not %s)", is, not );
			add_misfit(&l, SHAPE, p->name, detail);
		} else if (x->dtype != RF_F32 && x->dtype != RF_F16 && x->dtype != RF_BF16 &&
		           x->dtype != RF_F64) {
			snprintf(detail, sizeof detail, " (%s)",
			         rf_quote(is, sizeof is, rf_tensor_type(x), strlen(rf_tensor_type(x))));
			add_misfit(&l, TYPE, p->name, detail);
		}
	}
	for (int i = 0; i < t->n; i++)
		if (!rf_params_find(params, t->t[i].name) && rf_config_owns(cfg, t->t[i].name) &&
		    !(alias && !strcmp(t->t[i].name, "lm_head.weight")))
			add_misfit(&l, UNEXPECTED, t->t[i].name, "");
	if (l.n)
		rc = print_misfits(&l, layer, e);
	free(l.m);
	free(layer);
	return rc;
}

static enum rf_code compare_bytes(const struct rf_tensor *a, const struct rf_tensor *b, bool *same,
                                  struct rf_err *e)
{
	unsigned char x[1 << 14], y[sizeof x];
	enum rf_code rc;

	*same = a->dtype == b->dtype && a->bytes == b->bytes && a->ndim == b->ndim &&
	        !memcmp(a->shape, b->shape, sizeof a->shape);
	for (uint64_t at = 0; *same && at < a->bytes; at += sizeof x) {
		size_t n = a->bytes - at < sizeof x ? (size_t)(a->bytes - at) : sizeof x;
		if ((rc = rf_tensor_read(a, at, x, n, e)) != RF_OK ||
		    (rc = rf_tensor_read(b, at, y, n, e)) != RF_OK)
			return rc;
		*same = !memcmp(x, y, n);
	}
	return RF_OK;
}

static bool has_tensor(const void *tensors, const char *name) { return rf_tensors_named(tensors, name); }

/* Checks that the model's tensors are where the index places them.  A head that repeats the embedding may be
 * missing. */
static enum rf_code check_places(const struct rf_ckpt *c, struct rf_err *e)
{
	const struct rf_tensors *t = &c->tensors;
	int own = 0, first = -1;

	for (int i = 0; i < t->misplaced_count; i++) {
		const struct rf_misplaced *m = &t->misplaced[i];

		if (!rf_config_owns(&c->cfg, m->name) ||
		    (c->cfg.tied && !strcmp(m->name, "lm_head.weight") && !rf_tensors_find(t, m->name)))
			continue;
		first = own++ ? first : i;
	}
	if (!own)
		return RF_OK;
	rf_tensors_refuse(t, first, e);
	if (own > 1)
		rf_blame(e, "%d tensors of the model are not where the index places them; the first is", own);
	return rf_blame(e, "%s/model.safetensors.index.json", c->dir);
}

/* Returns whether to warn the user of a tensor: the model does not own it, and either no part that the config
 * describes has it, or it is misplaced or of a type that is not read. */
static bool is_foreign(const struct rf_ckpt *c, const struct rf_tensor *tensor)
{
	const struct rf_tensors *t = &c->tensors;

	if (rf_config_owns(&c->cfg, tensor->name))
		return false;
	for (int i = 0; i < t->misplaced_count; i++)
		if (!strcmp(t->misplaced[i].name, tensor->name))
			return true;
	return tensor->dtype == RF_OTHER || !rf_config_expects(&c->cfg, tensor->name);
}

/* Counts the tensors that are not read.  A step gets no warning: the checkpoint that its
 * run began with had the warning. */
static void warn_of_unread(struct rf_ckpt *c)
{
	const struct rf_tensors *t = &c->tensors;
	const char *first = NULL;
	char q[120], count[300] = "";
	int n = 0;

	if (c->in_run)
		return;
	for (int i = 0; i < t->n; i++)
		if (is_foreign(c, &t->t[i])) {
			first = first ? first : t->t[i].name;
			n++;
		}
	for (int i = 0; i < t->misplaced_count; i++) {
		const struct rf_misplaced *m = &t->misplaced[i];

		if (rf_tensors_find(t, m->name) || rf_config_owns(&c->cfg, m->name))
			continue; /* counted above */
		first = first && strcmp(first, m->name) < 0 ? first : m->name;
		n++;
	}
	if (n)
		snprintf(count, sizeof count,
		         "%d tensor%s not the model's and %s not read; the first is '%s'", n,
		         n == 1 ? " is" : "s are", n == 1 ? "is" : "are",
		         rf_quote(q, sizeof q, first, strlen(first)));
	snprintf(c->unread, sizeof c->unread, "%s%s%s",
	         t->index_ignored ? "model.safetensors is read, and the index next to it is ignored" : "",
	         t->index_ignored && n ? "; " : "", count);
	if (*c->unread)
		rf_warn(c->warning, sizeof c->warning, "%s", c->unread);
}

/* Decides from the file whether the model is tied: it has no lm_head.weight, or one that only repeats the
 * embedding.  In the second case the files that we write have the name, too. */
static enum rf_code decide_tied(struct rf_ckpt *c, struct rf_err *e)
{
	const struct rf_tensor *head = rf_tensors_find(&c->tensors, "lm_head.weight");
	const struct rf_tensor *embedding;
	char name[RF_MAX_NAME];
	enum rf_code rc;

	rf_config_embedding(&c->cfg, name);
	embedding = rf_tensors_find(&c->tensors, name);
	c->tied = !head;
	if (head && embedding && c->cfg.tied && (rc = compare_bytes(head, embedding, &c->tied, e)) != RF_OK)
		return rc;
	if (c->tied && !c->cfg.tied)
		rf_warn(c->warning, sizeof c->warning,
		        "there is no lm_head.weight, so the head is the embedding, although config.json says "
		        "tie_word_embeddings false");
	if (!c->tied && c->cfg.tied)
		rf_warn(c->warning, sizeof c->warning,
		        "lm_head.weight differs from the embedding, so both are used, although config.json "
		        "says tie_word_embeddings true");
	return RF_OK;
}

/* ---- state.json ---------------------------------------------------------------------------- */

static bool get_hash(const json_t *v, char hex[17])
{
	const char *s = json_string_value(v);

	if (!s || strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16)
		return false;
	strcpy(hex, s);
	return true;
}

static bool get_count(const json_t *v, int64_t *to)
{
	*to = json_is_integer(v) ? json_integer_value(v) : -1;
	return *to >= 0;
}

/* Compares one file with its entry: its size, and its bytes if the file is small or `all` is set. */
static enum rf_code check_file(const char *dir, const char *name, const json_t *entry, bool all,
                               struct rf_err *e)
{
	const bool tensors = rf_file_ends(name, strlen(name), ".safetensors");
	char path[4096], want[17], is[17];
	enum rf_code rc;
	int64_t size;
	struct stat st;

	if (!rf_file_plain(name) || !get_count(json_object_get(entry, "size"), &size) ||
	    !get_hash(json_object_get(entry, "xxh64"), want))
		return rf_fail(e, RF_EMODEL, "its list of files is malformed");
	if ((rc = rf_file_join(path, dir, name, e)) != RF_OK)
		return rc;
	if (stat(path, &st) < 0)
		return rf_fail(e, RF_EMODEL, "'%s': %s", name, strerror(errno));
	if (st.st_size != size)
		return rf_fail(e, RF_EMODEL, "'%s' has %lld bytes, but this file says %lld", name,
		               (long long)st.st_size, (long long)size);
	if (tensors && !all)
		return RF_OK;
	if ((rc = rf_file_hash_file(path, (uint64_t)size, is, e)) != RF_OK)
		return rc;
	if (strcmp(is, want))
		return rf_fail(e, RF_EMODEL, "'%s' has been changed: its hash is %s instead of %s", name, is,
		               want);
	return RF_OK;
}

static enum rf_code check_files(const char *dir, const json_t *files, bool all, struct rf_err *e)
{
	const char *const needed[] = { "config.json", "model.safetensors" };
	const char *name;
	enum rf_code rc = RF_OK;
	json_t *entry;

	for (int i = 0; i < 2; i++)
		if (!json_object_get(files, needed[i]))
			return rf_fail(e, RF_EMODEL, "its list of files lacks '%s'", needed[i]);
	json_object_foreach ((json_t *)(uintptr_t)files, name, entry)
		if (rc == RF_OK)
			rc = check_file(dir, name, entry, all, e);
	return rc;
}

bool rf_state_hash(const json_t *root, char hex[17])
{
	json_t *bare = json_copy((json_t *)(uintptr_t)root); /* jansson has no const here */
	char *text;

	json_object_del(bare, "xxh64");
	text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
	if (text)
		rf_file_hash(text, strlen(text), hex);
	free(text);
	json_decref(bare);
	return text != NULL;
}

/* Checks that state.json has the known format and the hash of its contents. */
static enum rf_code check_state(const json_t *root, struct rf_err *e)
{
	char is[17], want[17];
	int64_t format;

	if (!get_count(json_object_get(root, "format"), &format))
		return rf_fail(e, RF_EMODEL, "its 'format' is not a whole number");
	if (format != RF_STATE_FORMAT)
		return rf_fail(e, RF_EMODEL,
		               "the run has format %lld, but this version of rf-tools reads format %d%s",
		               (long long)format, RF_STATE_FORMAT,
		               format > RF_STATE_FORMAT ? " (use a newer version)" : "");
	if (!get_hash(json_object_get(root, "xxh64"), want))
		return rf_fail(e, RF_EMODEL, "its hash is malformed");
	if (!rf_state_hash(root, is))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (strcmp(is, want))
		return rf_fail(e, RF_EMODEL, "it has been changed: its hash is %s instead of %s", is, want);
	return RF_OK;
}

static enum rf_code read_state(struct rf_ckpt *c, const json_t *root, struct rf_err *e)
{
	const json_t *parent = json_object_get(root, "parent"), *past = json_object_get(root, "past");
	const json_t *data = json_object_get(root, "data"),
		     *reward_mean = json_object_get(root, "reward_mean"),
		     *moments = json_object_get(json_object_get(root, "files"), "optim.safetensors");

	if (!get_count(json_object_get(root, "step"), &c->step) ||
	    !get_count(json_object_get(root, "commits"), &c->commits) ||
	    !get_count(json_object_get(root, "updates"), &c->updates) ||
	    !get_hash(json_object_get(root, "weights"), c->weights) ||
	    json_array_size(past) > RF_HASH_HISTORY)
		return rf_fail(e, RF_EMODEL, "step, commits, updates, weights or past is malformed");
	if (!json_is_integer(parent) || json_integer_value(parent) >= c->step)
		return rf_fail(e, RF_EMODEL, "its parent is not an earlier step");
	c->parent = json_integer_value(parent);
	if (moments && !get_hash(json_object_get(moments, "xxh64"), c->moments))
		return rf_fail(e, RF_EMODEL, "its list of files is malformed");
	strcpy(c->past[0], c->weights);
	for (c->past_count = 1; (size_t)c->past_count <= json_array_size(past); c->past_count++)
		if (!get_hash(json_array_get(past, (size_t)c->past_count - 1), c->past[c->past_count]))
			return rf_fail(e, RF_EMODEL, "past is malformed");
	if (data && (!get_hash(json_object_get(data, "hash"), c->data_hash) ||
	             !get_count(json_object_get(data, "next"), &c->data_next)))
		return rf_fail(e, RF_EMODEL, "data is malformed");
	if ((c->has_reward_mean = reward_mean != NULL) && !json_is_real(reward_mean))
		return rf_fail(e, RF_EMODEL, "reward_mean is malformed");
	c->reward_mean = json_real_value(reward_mean);
	return RF_OK;
}

/* Reads state.json, if it exists, into c (unless verify), and compares the files with it. */
static enum rf_code load_state(struct rf_ckpt *c, bool verify, struct rf_err *e)
{
	char path[4096], *text;
	enum rf_code rc;
	json_t *root;
	size_t n;

	if ((rc = rf_file_join(path, c->dir, "state.json", e)) != RF_OK ||
	    (rc = rf_file_read(path, RF_MOST_STATE, &text, &n, e)) != RF_OK)
		return rc;
	rc = rf_json_parse(&root, text, n, 4, e);
	free(text);
	if (rc == RF_OK)
		rc = check_state(root, e);
	if (rc == RF_OK && !verify)
		rc = read_state(c, root, e);
	if (rc == RF_OK)
		rc = check_files(c->dir, json_object_get(root, "files"), verify, e);
	json_decref(root);
	return rc == RF_OK ? RF_OK : rf_blame(e, "%s", path);
}

/* ---- opening ------------------------------------------------------------------------------- */

static enum rf_code read_config(struct rf_ckpt *c, const char *path, struct rf_err *e)
{
	char what[260];
	enum rf_code rc = rf_config_read(&c->cfg, path, e);

	if (rc == RF_OK && *c->cfg.unknown) {
		snprintf(what, sizeof what, "config.json has unknown keys, which have no effect: %s",
		         c->cfg.unknown);
		rf_warn(c->warning, sizeof c->warning, "%s", what);
	}
	return rc;
}

static enum rf_code open_dir(struct rf_ckpt *c, bool of_run, struct rf_err *e)
{
	char path[4096];
	enum rf_code rc;

	if ((rc = load_state(c, false, e)) == RF_ENOINPUT && of_run)
		return rf_fail(e, RF_EMODEL, "%s: the step is damaged: it has no state.json", c->dir);
	c->in_run = rc == RF_OK;
	if (rc != RF_OK && rc != RF_ENOINPUT)
		return rc;
	if ((rc = rf_file_join(path, c->dir, "config.json", e)) != RF_OK ||
	    (rc = read_config(c, path, e)) != RF_OK ||
	    (rc = rf_file_join(path, c->dir, "generation_config.json", e)) != RF_OK ||
	    (rc = rf_config_read_generation(&c->cfg, path, e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_open_dir(&c->tensors, c->dir, e)) != RF_OK)
		return rc;
	rf_config_fit_names(&c->cfg, has_tensor, &c->tensors);
	if ((rc = check_places(c, e)) != RF_OK || (rc = decide_tied(c, e)) != RF_OK ||
	    (rc = rf_params_build(&c->params, &c->cfg, c->tied, e)) != RF_OK)
		return rc;
	if ((rc = check_names(&c->tensors, &c->params, &c->cfg, c->tied, e)) != RF_OK)
		return rf_blame(e, "%s", c->dir);
	warn_of_unread(c);
	if ((rc = rf_tensors_hash(c->tensors.t, c->tensors.n, c->cfg.model_type, c->arch, e)) != RF_OK ||
	    (!c->in_run && (rc = rf_tensors_hash(c->tensors.t, c->tensors.n, NULL, c->weights, e)) != RF_OK))
		return rf_blame(e, "%s", c->dir);
	if (!c->in_run) {
		strcpy(c->past[0], c->weights);
		c->past_count = 1;
	}
	return rf_tokenizer_hash_dir(c->dir, c->tokenizer, e);
}

/* Finds the directory of a checkpoint: path, or the step that path's link `latest` points to. */
static enum rf_code find_dir(const char *path, char dir[4096], bool *of_run, char lost[RF_STEP_LOST],
                             struct rf_err *e)
{
	char file[4096];
	enum rf_code rc;
	struct stat st;

	*of_run = false;
	*lost = 0;
	if (stat(path, &st) < 0)
		return rf_fail(e, errno == ENOENT || errno == ENOTDIR ? RF_ENOINPUT : RF_EIO, "%s: %s", path,
		               strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return rf_fail(e, RF_EMODEL,
		               "%s: not a directory (a checkpoint is a directory with config.json)", path);
	if ((rc = rf_file_join(file, path, "config.json", e)) != RF_OK)
		return rc;
	if (lstat(file, &st) == 0) { /* reading it reports an error */
		strcpy(dir, path);
		return RF_OK;
	}
	*of_run = true;
	return rf_step_latest(path, dir, lost, e);
}

enum rf_code rf_ckpt_open(struct rf_ckpt *c, const char *path, struct rf_err *e)
{
	char dir[4096], again[4096], lost[RF_STEP_LOST];
	enum rf_code rc;
	struct stat st;
	bool of_run;

	*c = (struct rf_ckpt){ .dir = "" };
	if (strlen(path) >= sizeof dir)
		return rf_fail(e, RF_ENOINPUT, "the path of the model is too long");
	if ((rc = find_dir(path, dir, &of_run, lost, e)) != RF_OK)
		return rc;
	for (;;) {
		strcpy(c->dir, dir);
		/* a trainer may have committed a step and removed this one since we read latest; then what a
		   step need not have, such as a tokenizer, may seem not to be there */
		if ((rc = open_dir(c, of_run, e)) == RF_OK && (!of_run || !stat(dir, &st) || errno != ENOENT))
			break;
		rf_ckpt_close(c);
		if (rc == RF_OK)
			rc = rf_fail(e, RF_ENOINPUT, "%s: %s", dir, strerror(ENOENT));
		if (!of_run || find_dir(path, again, &of_run, lost, NULL) != RF_OK || !strcmp(dir, again))
			return rc;
		strcpy(dir, again);
	}
	if (of_run && c->step != rf_step_number(strrchr(dir, '/') + 1)) {
		rc = rf_fail(e, RF_EMODEL, "%s: its state.json belongs to step %lld", dir,
		             (long long)c->step);
		rf_ckpt_close(c);
	}
	if (rc == RF_OK && *lost)
		rf_ckpt_lost(c, lost);
	return rc;
}

bool rf_is_config(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

enum rf_code rf_ckpt_of_config(struct rf_ckpt *c, const char *path, struct rf_err *e)
{
	enum rf_code rc;

	*c = (struct rf_ckpt){ .config_only = true };
	if (strlen(path) >= sizeof c->dir)
		return rf_fail(e, RF_ENOINPUT, "the path of the model is too long");
	strcpy(c->dir, path);
	if ((rc = read_config(c, path, e)) == RF_OK) {
		c->tied = c->cfg.tied;
		rc = rf_params_build(&c->params, &c->cfg, c->tied, e);
	}
	if (rc != RF_OK)
		rf_ckpt_close(c);
	return rc;
}

void rf_ckpt_lost(struct rf_ckpt *c, const char *lost)
{
	strcpy(c->lost, lost);
	rf_warn(c->warning, sizeof c->warning, "%s", lost);
}

enum rf_code rf_ckpt_check_head(const struct rf_ckpt *c, const struct rf_head *h, struct rf_err *e)
{
	if (h->vocab > c->cfg.vocab)
		return rf_fail(e, RF_EDATA, "the stream has a vocabulary of %d, but the model only of %d",
		               h->vocab, c->cfg.vocab);
	if (h->tokenizer_hash[0] && c->tokenizer[0] && strcmp(h->tokenizer_hash, c->tokenizer))
		return rf_tokenizer_differs(h->tokenizer_hash, c->tokenizer, c->dir, e);
	return RF_OK;
}

void rf_ckpt_close(struct rf_ckpt *c)
{
	rf_tensors_close(&c->tensors);
	rf_params_free(&c->params);
	rf_config_free(&c->cfg);
	*c = (struct rf_ckpt){ .dir = "" };
}

/* ---- values -------------------------------------------------------------------------------- */

static bool all_finite(const float *x, size_t n)
{
	uint32_t bad = 0;

	for (size_t i = 0; i < n; i++)
		bad |= (rf_f32_bits(x[i]) & 0x7f800000) == 0x7f800000;
	return !bad;
}

/* Copies numbers at..at + n of the flat order to `to`, which has only the span `own`. */
static enum rf_code copy_span(const float *x, size_t at, size_t n, const struct rf_span *own, float *to,
                              const struct rf_transfer *transfer, struct rf_err *e)
{
	const struct rf_span here = rf_span_of(own, at, n);

	return here.n ? transfer->put(transfer->arg, to + (here.first - own->first), x + (here.first - at),
	                              here.n * sizeof *x, e)
	              : RF_OK;
}

/* Reads the tensors prefix + NAME of the table into a flat buffer, which has the span `own` of them.  It
 * reads whole tensors if the buffer is in host memory and has all of them, and blocks otherwise. */
static enum rf_code load_tensors(const struct rf_tensors *t, const struct rf_params *params,
                                 const char *prefix, const struct rf_span *own, float *flat,
                                 const struct rf_transfer *transfer, bool negative, struct rf_err *e)
{
	char name[160];
	enum rf_code rc = RF_OK;
	float *block = !flat || transfer ? malloc(LOAD * sizeof *block) : NULL;

	if ((!flat || transfer) && !block)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (!block)
		memset(flat, 0, params->total * sizeof *flat);
	for (int i = 0; i < params->n && rc == RF_OK; i++) {
		const struct rf_param *p = &params->p[i];
		const struct rf_tensor *x;

		snprintf(name, sizeof name, "%s%s", prefix, p->name);
		x = rf_tensors_find(t, name);
		if (!x || !rf_same_shape(x, p))
			rc = rf_fail(e, RF_EMODEL, "'%s' is missing or has another shape", name);
		for (size_t at = 0; at < p->count && rc == RF_OK; at += LOAD) {
			size_t n = p->count - at < LOAD ? p->count - at : LOAD;
			float *to = block ? block : flat + p->offset + at;

			if ((rc = rf_tensor_f32_part(x, at, n, to, e)) != RF_OK)
				break;
			if (!all_finite(to, n))
				rc = rf_fail(e, RF_ENUMERIC,
				             "'%s' holds NaN, Inf or a number too large for float32", name);
			for (size_t k = 0; k < n && rc == RF_OK && !negative; k++)
				if (to[k] < 0)
					rc = rf_fail(e, RF_ENUMERIC, "'%s' has a negative number", name);
			if (rc == RF_OK && flat && transfer)
				rc = copy_span(block, p->offset + at, n, own, flat, transfer, e);
		}
	}
	free(block);
	return rc;
}

/* Reads the weights, and compares those of a step with their hash.  They are float32, so the hash can be
 * computed from the loaded weights, without reading the file again, if the memory can be read back. */
static enum rf_code load_weights(const struct rf_ckpt *c, float *flat, const struct rf_transfer *transfer,
                                 struct rf_err *e)
{
	struct rf_ckpt_writer as_written = RF_CKPT_WRITER(c);
	const struct rf_span all = { 0, c->params.total };
	char weights[17];
	enum rf_code rc;

	as_written.transfer = transfer;
	if ((rc = load_tensors(&c->tensors, &c->params, "", &all, flat, transfer, true, e)) == RF_OK &&
	    c->in_run &&
	    (rc = flat && (!transfer || transfer->get)
	                  ? rf_ckpt_hash_weights(&as_written, flat, weights, e)
	                  : rf_tensors_hash(c->tensors.t, c->tensors.n, NULL, weights, e)) == RF_OK &&
	    strcmp(weights, c->weights))
		rc = rf_fail(e, RF_EMODEL,
		             "the weights do not match state.json (their hash is %s instead of %s)", weights,
		             c->weights);
	return rc == RF_OK ? RF_OK : rf_blame(e, "%s", c->dir);
}

/* Checks that the file of a step's moments has the hash in state.json.  This reads the file a second time,
 * usually from the system's cache. */
static enum rf_code check_moments(const struct rf_ckpt *c, const char *path, struct rf_err *e)
{
	char is[17];
	enum rf_code rc;

	if (!c->in_run)
		return RF_OK;
	if ((rc = rf_file_hash_file(path, UINT64_MAX, is, e)) == RF_OK && strcmp(is, c->moments))
		rc = rf_fail(e, RF_EMODEL,
		             "the optimizer state has been changed: its hash is %s, but state.json says %s",
		             is, *c->moments ? c->moments : "nothing about it");
	return rc;
}

static enum rf_code load_moments(const struct rf_ckpt *c, const struct rf_span *own, float *m, float *v,
                                 const struct rf_transfer *transfer, bool *there, struct rf_err *e)
{
	struct rf_tensors t;
	const char *weights;
	char path[4096], q[40];
	enum rf_code rc;

	*there = false;
	if (m && !transfer) {
		memset(m, 0, c->params.total * sizeof *m);
		memset(v, 0, c->params.total * sizeof *v);
	}
	if ((rc = rf_file_join(path, c->dir, "optim.safetensors", e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_open(&t, path, e)) != RF_OK)
		return rc == RF_ENOINPUT ? RF_OK : rc;
	weights = rf_tensors_meta(&t, "weights");
	if (!weights || strcmp(weights, c->weights))
		rc = rf_fail(e, RF_EMODEL,
		             "the optimizer state belongs to other weights (%s, but the model has %s)",
		             weights ? rf_quote(q, sizeof q, weights, strlen(weights)) : "unknown",
		             c->weights);
	else if (t.n != 2 * c->params.n)
		rc = rf_fail(e, RF_EMODEL, "the file has %d tensors, but the model needs %d", t.n,
		             2 * c->params.n);
	else if ((rc = check_moments(c, path, e)) == RF_OK &&
	         (rc = load_tensors(&t, &c->params, "exp_avg.", own, m, transfer, true, e)) == RF_OK)
		rc = load_tensors(&t, &c->params, "exp_avg_sq.", own, v, transfer, false, e);
	rf_tensors_close(&t);
	*there = rc == RF_OK;
	return rc == RF_OK ? RF_OK : rf_blame(e, "%s", path);
}

enum rf_code rf_ckpt_load(const struct rf_ckpt *c, float *flat, struct rf_err *e)
{
	return load_weights(c, flat, NULL, e);
}

enum rf_code rf_ckpt_load_moments(const struct rf_ckpt *c, float *m, float *v, bool *there, struct rf_err *e)
{
	const struct rf_span all = { 0, c->params.total };

	return load_moments(c, &all, m, v, NULL, there, e);
}

enum rf_code rf_ckpt_load_to(const struct rf_ckpt *c, float *w, const struct rf_span *own, float *m, float *v,
                             const struct rf_transfer *transfer, struct rf_err *e)
{
	enum rf_code rc = load_weights(c, w, transfer, e);
	bool there;

	return rc == RF_OK && own ? load_moments(c, own, m, v, transfer, &there, e) : rc;
}

enum rf_code rf_ckpt_verify(const struct rf_ckpt *c, struct rf_err *e)
{
	struct rf_ckpt copy;
	char weights[17];
	enum rf_code rc;

	if (!c->in_run)
		return RF_OK;
	copy = *c;
	if ((rc = load_state(&copy, true, e)) != RF_OK)
		return rc;
	if ((rc = rf_tensors_hash(c->tensors.t, c->tensors.n, NULL, weights, e)) != RF_OK)
		return rf_blame(e, "%s", c->dir);
	if (strcmp(weights, c->weights))
		return rf_fail(e, RF_EMODEL, "%s: the weights' hash is %s, but state.json says %s", c->dir,
		               weights, c->weights);
	return RF_OK;
}
