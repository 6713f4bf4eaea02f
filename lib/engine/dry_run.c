/* dry_run.c -- what a program would do.  The plan of memory comes from rf_work_memory(), which counts with
 * the functions that allocate, so the printed figure is what the program would allocate. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/print.h"
#include "engine/dry_run.h"
#include "engine/work.h"
#include "io/file.h"

/* ---- outputs ------------------------------------------------------------------------------- */

/* Checks that an output can be written.  folder: path may be a folder. */
static enum rf_code check_output(const char *path, bool append, bool folder, struct rf_err *e)
{
	struct stat st;

	if (!folder || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return rf_file_can_write(path, append, e);
	return access(path, W_OK | X_OK) == 0 ? RF_OK
	                                      : rf_fail(e, RF_EIO, "%s: create: %s", path, strerror(errno));
}

/* Checks all outputs.  folder: -o may be a folder, which gets a file for each batch. */
static enum rf_code check_outputs(const struct rf_opt *const *opts, bool folder, struct rf_err *e)
{
	static const char *const writes[] = { "output", "log", "grad-out" };
	enum rf_code rc = RF_OK;

	for (; *opts; opts++)
		for (const struct rf_opt *o = *opts; o->name && rc == RF_OK; o++)
			for (size_t i = 0; i < sizeof writes / sizeof *writes && rc == RF_OK; i++)
				if (!strcmp(o->name, writes[i]) && *(const char **)o->to)
					rc = check_output(*(const char **)o->to, !strcmp(o->name, "log"),
					                  folder && !strcmp(o->name, "output"), e);
	return rc;
}

/* ---- the input ----------------------------------------------------------------------------- */

/* Where the numbers of the plan come from. */
struct source {
	const char *length, *rollouts;
};

/* Returns whether the input can be read now and again later.  A missing file counts as readable: opening
 * it reports the error. */
static bool can_look_ahead(const char *path)
{
	bool named = path && strcmp(path, "-");
	struct stat st;

	if (named ? stat(path, &st) : fstat(STDIN_FILENO, &st))
		return named;
	return S_ISREG(st.st_mode);
}

/* Checks the first record as the program would, and takes its shape. */
static enum rf_code check_first_record(const struct rf_dry_run *d, struct rf_in *in, struct rf_shape *s,
                                       struct source *from, struct rf_err *e)
{
	struct rf_engine *g = d->engine;
	struct rf_record *r;
	enum rf_code rc = rf_next(in, &r, e);

	if (rc == RF_EOF)
		return RF_OK;
	if (rc != RF_OK)
		return rc;
	rc = g->fits ? g->fits(rf_in_head(in), r, e) : rf_engine_check_record(g, r, e);
	if (rc != RF_OK) {
		rf_in_blame(in, e);
		return rc;
	}
	if (!g->max_len) {
		s->T = rf_engine_length(g, r);
		from->length = "from the first record";
	}
	if (r->c && !g->work->use.decides_all) {
		s->c = r->c;
		from->rollouts = "from the first record";
	}
	if (r->rollout.tokens) {
		s->n = r->rollout.n;
		s->k = r->rollout.k;
	}
	return RF_OK;
}

/* Finds the shape of the stream's records, from its history and its first record if they can be read. */
static enum rf_code look_at_input(const struct rf_dry_run *d, struct rf_shape *s, struct source *from,
                                  struct rf_err *e)
{
	off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
	struct rf_in *in;
	enum rf_code rc;

	*from = (struct source){ d->engine->max_len ? "--max-len" : "assumed",
		                 d->engine->work->use.decides_all ? "from the options" : "assumed" };
	if (!can_look_ahead(d->path))
		return RF_OK;
	if ((rc = rf_in_open(&in, d->path, d->max_record, e)) != RF_OK)
		return rc;
	if ((rc = rf_engine_check_head(d->engine, rf_in_head(in), e)) != RF_OK) {
		rf_blame(e, "%s", rf_in_name(in));
	} else {
		if (rf_work_expect(rf_in_head(in), s) && !d->engine->work->use.decides_all)
			from->rollouts = "from the stream's history";
		rc = check_first_record(d, in, s, from, e);
	}
	rf_in_close(in);
	/* leave standard input as it was, for a program that reads it next */
	if (at >= 0 && lseek(STDIN_FILENO, at, SEEK_SET) < 0)
		return rf_fail(e, RF_EIO, "<stdin>: seek: %s", strerror(errno));
	return rc;
}

/* ---- the text ------------------------------------------------------------------------------ */

static void print_value(struct rf_buf *p, const struct rf_opt *o, const char *text, size_t n)
{
	rf_print(p, "  --%-16s ", o->name);
	rf_print_safe(p, text, n, false);
	rf_print_text(p, "\n");
}

static void print_option(struct rf_buf *p, const struct rf_opt *o)
{
	char buf[RF_OPT_VALUE];
	size_t n;
	const char *text = rf_opt_value(o, 6, buf, &n);
	const struct rf_opt_list *list = o->to;

	for (int i = 0; o->kind == RF_OPT_LIST && i < list->n; i++)
		print_value(p, o, list->s[i], strlen(list->s[i]));
	if (text)
		print_value(p, o, text, n);
}

static void print_settings(struct rf_buf *p, const struct rf_dry_run *d)
{
	rf_print_text(p, "settings\n");
	for (const struct rf_opt *const *opts = d->opts; *opts; opts++)
		for (const struct rf_opt *o = *opts; o->name; o++)
			/* the model and the device are printed separately */
			if (d->in_force(o) && strcmp(o->name, "model") && strcmp(o->name, "device") &&
			    strcmp(o->name, "threads") && strcmp(o->name, "isa") &&
			    strcmp(o->name, "dry-run"))
				print_option(p, o);
}

static void print_model(struct rf_buf *p, const struct rf_engine *g)
{
	const struct rf_ckpt *c = g->ckpt;

	rf_print_text(p, "model      ");
	rf_print_safe(p, c->dir, strlen(c->dir), false);
	if (c->config_only)
		rf_print_text(p, ", a config, without weights");
	else
		rf_print(p, ", step %lld, weights %s", (long long)c->step, c->weights);
	rf_print(p, "\n           %s: %d layers, width %d, vocabulary %d%s, %zu parameters\n",
	         c->cfg.model_type, c->cfg.layers, c->cfg.d, c->cfg.vocab, c->params.tied ? ", tied" : "",
	         c->params.total);
	rf_print(p, "device     %s, ", g->dev.ops->name);
	if (*g->dev.model)
		rf_print_safe(p, g->dev.model, strlen(g->dev.model), false);
	else
		rf_print(p, "%d threads, %s", g->dev.threads, rf_cpu_level());
	rf_print(p, ", products in %s\n", g->math == RF_MATH_BF16 ? "bf16" : "f32");
}

static void print_plan(struct rf_buf *p, const struct rf_engine *g, const struct rf_shape *s,
                       const struct source *from, const struct rf_memory *m)
{
	rf_print(p, "plan       sequences up to %d tokens (%s) in segments of %d rows\n", s->T, from->length,
	         rf_segment(g->segment));
	if (s->c)
		rf_print(p, "           %d positions, %d rollouts of %d tokens at each (%s)\n", s->c, s->n,
		         s->k, from->rollouts);
	rf_print(p, "memory     %zu MiB%s: weights%s %zu, pass %zu, workspace %zu\n", m->all >> 20,
	         *g->dev.model ? " of the GPU" : "", g->train ? ", gradient, moments" : "", m->weights >> 20,
	         m->pass >> 20, m->device >> 20);
}

static void print_operations(struct rf_buf *p, double operations)
{
	const double x = operations / 1e9;

	rf_print(p,
	         x >= 1000 ? "operations %.0f GFLOP for such a sequence\n"
	                   : "operations %.3g GFLOP for such a sequence\n",
	         x);
}

enum rf_code rf_dry_run(const struct rf_dry_run *d, char **text, struct rf_err *e)
{
	struct rf_engine *g = d->engine;
	struct rf_shape shape = RF_SHAPE_PAPER;
	struct rf_memory memory;
	double operations;
	struct rf_buf out = { 0 };
	struct source from;
	enum rf_code rc;

	*text = NULL;
	shape.T = g->max_len ? g->max_len : g->segment;
	if ((rc = check_outputs(d->opts, g->train, e)) != RF_OK ||
	    (rc = look_at_input(d, &shape, &from, e)) != RF_OK ||
	    (rc = rf_work_memory(g, &shape, &memory, e)) != RF_OK)
		return rc;
	operations = rf_work_operations(g, &shape);
	if (operations == 0)
		return rf_fail(e, RF_ENOMEM, "out of memory (the operations of the model)");
	print_model(&out, g);
	print_settings(&out, d);
	print_plan(&out, g, &shape, &from, &memory);
	print_operations(&out, operations);
	rf_buf_add(&out, "", 1);
	if (out.failed) {
		rf_buf_free(&out);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	*text = (char *)out.p;
	return RF_OK;
}
