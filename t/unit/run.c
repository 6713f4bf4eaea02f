/* run GOLDEN -- tests checkpoints and runs, apart from faults of the system.  Works in the current
 * directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt_internal.h"
#include "dump/ckpt_text.h"
#include "io/file.h"
#include "train/trainer.h"
#include "unit/small_trainer.h"
#include "unit/tap.h"

static volatile sig_atomic_t stop;
static const char *golden;

__attribute__((format(printf, 1, 2))) static void sh(const char *fmt, ...)
{
	char cmd[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof cmd, fmt, ap);
	va_end(ap);
	if (system(cmd) != 0)
		abort();
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static bool opens(const char *path, enum rf_code code, const char *says, struct rf_err *e)
{
	struct rf_ckpt c;
	enum rf_code rc;

	*e = (struct rf_err){ RF_OK, "" };
	if ((rc = rf_ckpt_open(&c, path, e)) == RF_OK)
		rf_ckpt_close(&c);
	return rc == code && (!says || strstr(e->msg, says));
}

/* A copy of a golden checkpoint: config.json and model.safetensors. */
static void copy_golden(const char *name, const char *to)
{
	sh("rm -rf %s && mkdir %s && cp %s/%s/config.json %s/%s/model.safetensors %s && chmod u+w %s/*", to,
	   to, golden, name, golden, name, to, to);
}

/* Rewrites DIR/model.safetensors with the tensors that f makes of the old ones. */
static void rewrite_tensors(const char *dir, int (*f)(struct rf_tensor *, int))
{
	char path[200], old[200];
	struct rf_tensors t;
	struct rf_tensor *x;
	struct rf_err e;
	int n;

	snprintf(path, sizeof path, "%s/model.safetensors", dir);
	snprintf(old, sizeof old, "%s/old", dir);
	if (rename(path, old) || rf_tensors_open(&t, old, &e) != RF_OK)
		abort();
	x = malloc((size_t)(t.n + 2) * sizeof *x);
	memcpy(x, t.t, (size_t)t.n * sizeof *x);
	n = f(x, t.n);
	if (rf_tensors_write(path, x, n, NULL, &e) != RF_OK)
		abort();
	free(x);
	rf_tensors_close(&t);
	unlink(old);
}

static int damage_names(struct rf_tensor *t, int n)
{
	static const int64_t shape[2] = { 10, 64 };

	memcpy(t[1].shape, shape, sizeof shape);         /* model.embeddings.weight */
	t[2].name = "model.layers.0.attn.a_proj.weight"; /* b_proj */
	return n;
}

static float scratch[640];

static int put_nan(struct rf_tensor *t, int n)
{
	rf_tensor_read(&t[n - 1], 0, scratch, t[n - 1].bytes, NULL);
	scratch[3] = NAN;
	t[n - 1].data = scratch;
	t[n - 1].fd = NULL;
	return n;
}

/* Puts lm_head.weight, equal to the embedding, in front of a tied model's tensors. */
static int repeat_head(struct rf_tensor *t, int n)
{
	memmove(t + 1, t, (size_t)n * sizeof *t);
	t[0] = t[1];
	t[0].name = "lm_head.weight";
	return n + 1;
}

static int other_head(struct rf_tensor *t, int n)
{
	n = repeat_head(t, n);
	rf_tensor_read(&t[1], 0, scratch, t[1].bytes, NULL);
	scratch[639] += 1;
	t[0].data = scratch;
	t[0].fd = NULL;
	return n;
}

static void test_open(void)
{
	static const char *const cases[] = { "delta",      "delta-gate-neg", "delta-hybrid",
		                             "delta-long", "delta-plain",    "delta-relu-tied" };
	struct rf_err e = { RF_OK, "" };
	struct rf_ckpt c;
	char path[500];

	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", golden, cases[i]);
		if (!ok(rf_ckpt_open(&c, path, &e) == RF_OK, "a checkpoint is opened: %s (%s)", cases[i],
		        e.msg))
			continue;
		float *w = floats(c.params.total);
		ok(rf_ckpt_load(&c, w, &e) == RF_OK && c.tied == (i == 5) && !*c.warning && c.step == 0 &&
		           !c.in_run && strlen(c.weights) == 16 && c.past_count == 1 && !*c.tokenizer,
		   "its weights are loaded");
		/* every value is where the table says, the padding is 0 */
		bool same = true;
		size_t end = 0;
		for (int k = 0; k < c.params.n; k++) {
			const struct rf_param *p = &c.params.p[k];
			for (; end < p->offset; end++)
				same &= w[end] == 0;
			float *read = floats(p->count);
			same &= rf_tensor_read(rf_tensors_find(&c.tensors, p->name), 0, read, 4 * p->count,
			                       &e) == RF_OK &&
			        !memcmp(w + p->offset, read, 4 * p->count);
			free(read);
			end += p->count;
		}
		ok(same, "the flat buffer has each value at its place, and zeros between");
		free(w);
		rf_ckpt_close(&c);
	}
	ok(opens("nowhere", RF_ENOINPUT, "nowhere", &e), "a missing directory is RF_ENOINPUT (%s)", e.msg);
	sh("mkdir empty");
	ok(opens("empty", RF_ENOINPUT, "neither a checkpoint", &e), "an empty directory is RF_ENOINPUT (%s)",
	   e.msg);
	sh("touch file");
	ok(opens("file", RF_EMODEL, "not a directory", &e), "a file is not a checkpoint (%s)", e.msg);
	copy_golden("delta", "x");
	sh("rm x/model.safetensors");
	ok(opens("x", RF_ENOINPUT, "model.safetensors", &e),
	   "a checkpoint without weights is RF_ENOINPUT (%s)", e.msg);

	copy_golden("delta", "x");
	rewrite_tensors("x", damage_names);
	ok(opens("x", RF_EMODEL,
	         "missing: model.layers.0.attn.b_proj.weight; unexpected: model.layers.0.attn.a_proj.weight; "
	         "of another shape: model.embeddings.weight (10,64, not 40,16)",
	         &e),
	   "one sentence lists all names and shapes that are wrong (%s)", e.msg);
	sh("sed -i 's/\"num_hidden_layers\": 2/\"num_hidden_layers\": 9/' x/config.json");
	ok(opens("x", RF_EMODEL, "missing: model.layers.{0,2,3,4,5,6,7,8}.attn.b_proj.weight, ", &e) &&
	           strstr(e.msg, "model.layers.{2..8}.mlp_norm.weight; unexpected: "
	                         "model.layers.0.attn.a_proj.weight; ") &&
	           strstr(e.msg, " (10,64, not 40,16)") && !strstr(e.msg, " more"),
	   "a long list of names is not cut (%s)", e.msg);
	copy_golden("delta", "x");
	rewrite_tensors("x", put_nan);
	if (!ok(rf_ckpt_open(&c, "x", &e) == RF_OK, "opening does not look at the values (%s)", e.msg))
		return;
	float *w = floats(c.params.total);
	ok(rf_ckpt_load(&c, w, &e) == RF_ENUMERIC && strstr(e.msg, "model.norm.weight"),
	   "loading refuses a NaN and names its tensor (%s)", e.msg);
	free(w);
	rf_ckpt_close(&c);
}

/* Tests the head of a tied model: absent, repeated, different. */
static void test_tied(void)
{
	struct rf_err e = { RF_OK, "" };
	struct rf_ckpt c;
	float *w;

	copy_golden("delta-relu-tied", "t");
	sh("sed -i 's/\"tie_word_embeddings\": true/\"tie_word_embeddings\": false/' t/config.json");
	ok(rf_ckpt_open(&c, "t", &e) == RF_OK && c.tied && c.params.tied &&
	           strstr(c.warning, "there is no lm_head.weight"),
	   "a file without lm_head.weight is tied, whatever the config says (%s)", c.warning);
	ok(rf_run_begin(&c, "t-run", false, NULL, &e) == RF_OK, "a run begins from a tied checkpoint (%s)",
	   e.msg);
	rf_ckpt_close(&c);
	ok(rf_ckpt_open(&c, "t-run", &e) == RF_OK && c.tied && !*c.warning && c.cfg.tied,
	   "the config of that run says that it is tied");
	rf_ckpt_close(&c);

	copy_golden("delta-relu-tied", "t2");
	rewrite_tensors("t2", repeat_head);
	ok(rf_ckpt_open(&c, "t2", &e) == RF_OK && c.tied && !*c.warning &&
	           !rf_params_find(&c.params, "lm_head.weight"),
	   "a head equal to the embedding is tied (%s)", e.msg);
	w = floats(c.params.total);
	rf_ckpt_load(&c, w, &e);
	for (size_t i = 0; i < c.params.p[0].count; i++)
		w[i] *= 2;
	ok(export(&c, w, RF_F32, "t2-out", &e) == RF_OK, "a tied checkpoint is exported (%s)", e.msg);
	const float second = w[1];
	free(w);
	rf_ckpt_close(&c);
	if (ok(rf_ckpt_open(&c, "t2-out", &e) == RF_OK && c.tied, "the export is opened and is tied (%s)",
	       e.msg)) {
		const struct rf_tensor *head = rf_tensors_find(&c.tensors, "lm_head.weight");
		float x[2];
		ok(head && rf_tensor_read(head, 0, x, sizeof x, &e) == RF_OK && x[1] == second,
		   "the export has the new weights as embedding and head");
		rf_ckpt_close(&c);
	}
	copy_golden("delta-relu-tied", "t3");
	rewrite_tensors("t3", other_head);
	ok(rf_ckpt_open(&c, "t3", &e) == RF_OK && !c.tied && strstr(c.warning, "lm_head.weight differs"),
	   "a head that differs from the embedding is used, whatever the config says (%s)", c.warning);
	rf_ckpt_close(&c);
	copy_golden("delta-relu-tied", "t4");
	rewrite_tensors("t4", repeat_head);
	sh("sed -i 's/\"tie_word_embeddings\": true/\"tie_word_embeddings\": false/' t4/config.json");
	ok(rf_ckpt_open(&c, "t4", &e) == RF_OK && !c.tied && !*c.warning,
	   "a model that is not tied keeps a head equal to its embedding");
	rf_ckpt_close(&c);
}

static void test_export(void)
{
	static const struct {
		enum rf_dtype dtype;
		const char *dir;
		double error;
	} kinds[] = { { RF_F32, "e32", 0 }, { RF_BF16, "eb16", 0x1p-8 }, { RF_F16, "e16", 0x1p-11 } };
	struct rf_err e = { RF_OK, "" };
	struct rf_ckpt c, d;
	float *w, *x;

	copy_golden("delta", "x");
	sh("echo tok >x/tokenizer.model; echo hello >x/README.md; echo old >x/pytorch_model.bin; echo h "
	   ">x/.hidden; mkdir x/sub");
	ok(rf_ckpt_open(&c, "x", &e) == RF_OK && strlen(c.tokenizer) == 16,
	   "a checkpoint with a tokenizer is opened (%s)", e.msg);
	w = floats(c.params.total);
	rf_ckpt_load(&c, w, &e);
	for (int i = 0; i < 3; i++) {
		double worst = 0;
		ok(export(&c, w, kinds[i].dtype, kinds[i].dir, &e) == RF_OK &&
		           rf_ckpt_open(&d, kinds[i].dir, &e) == RF_OK,
		   "a checkpoint is exported as %s, and the export is opened (%s)",
		   rf_dtype_name(kinds[i].dtype), e.msg);
		x = floats(c.params.total);
		rf_ckpt_load(&d, x, &e);
		for (size_t k = 0; k < c.params.total; k++)
			worst = fmax(worst,
			             fabs((double)x[k] - (double)w[k]) / fmax(fabs((double)w[k]), 1e-3));
		ok(worst <= kinds[i].error && d.tensors.t[0].dtype == kinds[i].dtype &&
		           !strcmp(d.tokenizer, c.tokenizer),
		   "the export has the values (largest error %g) and the tokenizer", worst);
		ok(strstr(d.cfg.text, i == 0   ? "\"dtype\": \"float32\""
		                      : i == 1 ? "\"dtype\": \"bfloat16\""
		                               : "\"dtype\": \"float16\""),
		   "the config of the export has its type");
		free(x);
		rf_ckpt_close(&d);
	}
	ok(exists("e32/README.md") && !exists("e32/pytorch_model.bin") && !exists("e32/.hidden") &&
	           !exists("e32/sub") && !exists("e32/state.json"),
	   "an export copies other files, except old weights and hidden files");
	w[5] = 1e6f;
	ok(export(&c, w, RF_F16, "e5", &e) == RF_ENUMERIC && strstr(e.msg, "lm_head.weight") &&
	           strstr(e.msg, "1e+06") && !exists("e5"),
	   "exporting a weight that f16 cannot hold is an error (%s)", e.msg);
	sh("test -z \"$(find . -name '.*.tmp-*')\"");
	free(w);
	rf_ckpt_close(&c);
}

/* Gives a state.json that was edited the hash of its new contents. */
static void rehash(const char *path)
{
	json_t *root = json_load_file(path, 0, NULL);
	char hex[17];

	if (!root || !rf_state_hash(root, hex) || json_object_set_new(root, "xxh64", json_string(hex)) ||
	    json_dump_file(root, path, JSON_INDENT(1)))
		abort();
	json_decref(root);
}

/* Reads the run d and returns whether it fails with this code and these words. */
static bool reads(enum rf_code code, const char *says, struct rf_err *e)
{
	char weights[17];
	int64_t step;

	*e = (struct rf_err){ RF_OK, "" };
	return read_whole("d", &step, weights, e) == code && strstr(e->msg, says);
}

/* Reads a copy of r after a shell command in the folder of its newest step. */
static bool damaged(const char *cmd, enum rf_code code, const char *says, struct rf_err *e)
{
	sh("rm -rf d && cp -a r d && cd d/latest && %s", cmd);
	return reads(code, says, e);
}

/* Reads a copy of r whose newest state.json was edited by sed and has the right hash. */
static bool edited(const char *edit, const char *says, struct rf_err *e)
{
	sh("rm -rf d && cp -a r d && sed -i '%s' d/latest/state.json", edit);
	rehash("d/latest/state.json");
	return reads(RF_EMODEL, says, e);
}

static void test_damage(void)
{
	struct rf_err e;

	ok(damaged("true", RF_OK, "", &e), "damage: a copy of the run can be read");
	ok(damaged("rm state.json", RF_EMODEL, "the step is damaged", &e),
	   "damage: state.json is missing (%s)", e.msg);
	ok(damaged("rm optim.safetensors", RF_EMODEL, "'optim.safetensors'", &e),
	   "damage: optim.safetensors is missing (%s)", e.msg);
	ok(damaged("rm model.safetensors", RF_EMODEL, "'model.safetensors'", &e),
	   "damage: the weights are missing (%s)", e.msg);
	ok(damaged("truncate -s -1 model.safetensors", RF_EMODEL, " bytes, but this file says ", &e),
	   "damage: the weights are one byte shorter (%s)", e.msg);
	ok(damaged("echo >>config.json", RF_EMODEL, "'config.json' has", &e),
	   "damage: the config is longer (%s)", e.msg);
	ok(damaged("sed -i s/40/41/ config.json", RF_EMODEL, "'config.json' has been changed", &e),
	   "damage: the config differs in one digit (%s)", e.msg);
	ok(damaged("printf x | dd of=model.safetensors bs=1 seek=9000 conv=notrunc status=none", RF_EMODEL,
	           "do not match state.json", &e),
	   "damage: the weights differ in one byte (%s)", e.msg);
	ok(damaged("cp ../step-000001/model.safetensors .", RF_EMODEL, "do not match state.json", &e),
	   "damage: the weights are those of another step (%s)", e.msg);
	ok(damaged("cp ../step-000001/optim.safetensors .", RF_EMODEL, "state belongs to other weights", &e),
	   "damage: the moments are those of another step (%s)", e.msg);
	ok(damaged("printf '\\1' | dd of=optim.safetensors bs=1 seek=9000 conv=notrunc status=none",
	           RF_EMODEL, "the optimizer state has been changed", &e),
	   "damage: the moments differ in one byte (%s)", e.msg);
	ok(damaged("cp ../step-000001/* .", RF_EMODEL, "belongs to step 1", &e),
	   "damage: the files are those of another step (%s)", e.msg);
	ok(damaged("sed -i 's/\"format\": 2/\"format\": 3/' state.json", RF_EMODEL,
	           "state.json: the run has format 3, but this version of rf-tools reads format 2 (use a "
	           "newer version)",
	           &e),
	   "damage: state.json has a newer format (%s)", e.msg);
	ok(damaged("sed -i 's/\"format\": 2/\"format\": 1/' state.json", RF_EMODEL,
	           "state.json: the run has format 1, but this version of rf-tools reads format 2", &e),
	   "damage: state.json has an older format (%s)", e.msg);
	ok(damaged("sed -i 's/\"format\": 2,//' state.json", RF_EMODEL, "its 'format' is not a whole number",
	           &e),
	   "damage: state.json has no format (%s)", e.msg);
	ok(damaged("sed -i 's/\"commits\": 2/\"commits\": 3/' state.json", RF_EMODEL,
	           "state.json: it has been changed", &e),
	   "damage: state.json differs in one digit (%s)", e.msg);
	ok(damaged("sed -i 's/\"xxh64\"/\"xxh65\"/' state.json", RF_EMODEL, "state.json: ", &e),
	   "damage: state.json has another name for a hash (%s)", e.msg);
	edited("s/\"step\": 3/\"novel\": [{}], \"step\": 3/", "", &e);
	ok(reads(RF_OK, "", &e), "state.json: an unknown key is passed over");
	ok(edited("s/\"parent\": 1/\"parent\": 3/", "parent", &e),
	   "state.json: the parent is not an earlier step (%s)", e.msg);
	ok(edited("s/\"commits\": 2/\"commits\": -2/", "malformed", &e),
	   "state.json: a count is negative (%s)", e.msg);
	ok(edited("s/\"step\": 3/\"step\": 3.0/", "malformed", &e), "state.json: a count is a float (%s)",
	   e.msg);
	ok(edited("s/\"weights\": \"./\"weights\": \"G/", "malformed", &e),
	   "state.json: a hash is malformed (%s)", e.msg);
	ok(edited("s/\"step\": 3,/\"step\": 3, \"reward_mean\": \"0.5\",/", "reward_mean is malformed", &e),
	   "state.json: the mean reward is a text (%s)", e.msg);
	ok(edited("s/\"next\": 128/\"next\": \"128\"/", "data is malformed", &e),
	   "state.json: a number is a string (%s)", e.msg);
	ok(edited("s/\"config.json\"/\"..\\/c\"/", "malformed", &e) || strstr(e.msg, "lacks"),
	   "state.json: a file name leads out of the step (%s)", e.msg);
	ok(damaged("truncate -s 40 state.json", RF_EMODEL, "state.json: bad JSON at byte", &e),
	   "damage: state.json is cut (%s)", e.msg);
	ok(damaged("ln -sfn ../../r ../latest", RF_EMODEL, "not the name of a step", &e),
	   "damage: latest leads out of the run (%s)", e.msg);
}

static void test_run(void)
{
	struct rf_commit how = { .keep = 2 };
	struct rf_err e = { RF_OK, "" };
	struct rf_ckpt c;
	struct rf_run r, other;
	char first[17], second[17], dir[4096];
	bool moments;

	copy_golden("delta", "x");
	rf_ckpt_open(&c, "x", &e);
	ok(rf_run_begin(&c, "r", false, NULL, &e) == RF_OK &&
	           rf_run_begin(&c, "r", false, NULL, &e) == RF_EUSAGE,
	   "a run begins, and cannot begin twice (%s)", e.msg);
	sh("mkdir r2");
	ok(rf_run_begin(&c, "r2/", false, NULL, &e) == RF_OK && exists("r2/latest"),
	   "a run begins in an empty directory (%s)", e.msg);
	ok(rf_run_begin(&c, "nowhere/r", false, NULL, &e) == RF_EIO &&
	           rf_run_begin(&c, ".", false, NULL, &e) == RF_EUSAGE,
	   "a run does not begin in a missing directory, or in one with files (%s)", e.msg);
	strcpy(first, c.weights);
	rf_ckpt_close(&c);
	sh("test -z \"$(find . -name '.*.tmp-*')\"");

	ok(rf_run_open(&r, "x", &e) == RF_EUSAGE && strstr(e.msg, "rf-init --from x"),
	   "a bare checkpoint cannot be opened as a run (%s)", e.msg);
	ok(rf_run_open(&r, "r/step-000000", &e) == RF_EUSAGE, "a step cannot be opened as a run (%s)", e.msg);
	ok(rf_run_open(&r, "empty", &e) == RF_ENOINPUT && !exists("empty/.lock") &&
	           rf_run_open(&r, "nowhere", &e) == RF_ENOINPUT,
	   "an empty or missing directory cannot be opened as a run (%s)", e.msg);
	if (!ok(rf_run_open(&r, "r", &e) == RF_OK && r.at.step == 0 && r.at.commits == 0 &&
	                !strcmp(r.at.weights, first),
	        "the run is opened (%s)", e.msg))
		return;
	ok(rf_run_open(&other, "r", &e) == RF_EBUSY && strstr(e.msg, "r: another program"),
	   "a second program cannot open the run (%s)", e.msg);
	float *w = floats(r.at.params.total);
	ok(rf_ckpt_load_moments(&r.at, w, w, &moments, &e) == RF_OK && !moments,
	   "the first step has no moments");
	free(w);

	const void *table = r.at.params.p;
	how.data_hash = "0123456789abcdef";
	how.data_next = 128;
	ok(train(&r, 1, &how, &stop, &e) == RF_OK && r.at.step == 1 && r.at.commits == 1 &&
	           r.at.past_count == 2 && !strcmp(r.at.past[1], first) && r.at.params.p == table &&
	           !strcmp(r.at.dir, "r/step-000001"),
	   "a commit moves the run to the next step (%s)", e.msg);
	strcpy(second, r.at.weights);
	ok(strcmp(first, second) && opens("r", RF_OK, NULL, &e), "the next step has other weights");
	how.data_hash = NULL;
	how.data_next = 3;
	ok(train(&r, 1, &how, &stop, &e) == RF_ENUMERIC && train(&r, 0, &how, &stop, &e) == RF_ENUMERIC,
	   "a commit with a step that is not later is refused (%s)", e.msg);
	stop = SIGTERM;
	ok(train(&r, 3, &how, &stop, &e) == RF_EIO && strstr(e.msg, "/config.json: interrupted") &&
	           !exists("r/step-000003"),
	   "a signal before the commit changes nothing (%s)", e.msg);
	stop = 0;
	sh("test -z \"$(find r -name '.*.tmp-*')\"");
	ok(train(&r, 3, &how, &stop, &e) == RF_OK, "the same commit succeeds without a signal (%s)", e.msg);
	ok(!strcmp(r.at.data_hash, "0123456789abcdef") && r.at.data_next == 128,
	   "without a data hash, a commit keeps the earlier one");
	ok(!exists("r/step-000000") && exists("r/step-000001"), "the two newest steps are kept");
	struct rf_ckpt_text x;
	if (ok(rf_ckpt_text_open(&x, "r", &e) == RF_OK && x.ckpt->step == 3,
	       "rf-dump opens the newest step")) {
		sh("mv r/step-000003 r/step-000004 && ln -sfn step-000004 r/latest && "
		   "sed -i 's/\"step\": 3/\"step\": 4/' r/latest/state.json");
		rehash("r/latest/state.json");
		ok(rf_ckpt_text_check(&x, &e) == RF_OK && x.ckpt->step == 4,
		   "rf-dump reads the newest step if the step that it opened is gone (%s)", e.msg);
		rf_ckpt_text_close(&x);
		sh("mv r/step-000004 r/step-000003 && ln -sfn step-000003 r/latest && "
		   "sed -i 's/\"step\": 4/\"step\": 3/' r/latest/state.json");
		rehash("r/latest/state.json");
	}
	rf_run_close(&r);
	test_damage();

	if (!ok(rf_run_open(&r, "r", &e) == RF_OK && r.at.step == 3 && r.at.commits == 2 &&
	                r.at.updates == 4 && r.at.data_next == 128 && !strcmp(r.at.past[1], second) &&
	                !strcmp(r.at.past[2], first),
	        "a run that was closed opens at the same step (%s)", e.msg))
		return;
	w = floats(r.at.params.total);
	rf_ckpt_load_moments(&r.at, w, w + r.at.params.total, &moments, &e);
	ok(moments && w[0] == 4 && w[r.at.params.total] == 2, "the step has its moments");
	free(w);
	for (int64_t step = 4; step < 24; step++)
		train(&r, step,
		      &(struct rf_commit){ .keep = 1, .keep_every = 10, .batches = step == 4 ? 3 : 0 }, &stop,
		      &e);
	ok(r.at.commits == 24, "a commit of three batches counts as three commits (%lld)",
	   (long long)r.at.commits);
	ok(r.at.past_count == RF_HASH_HISTORY + 1 && exists("r/step-000010") && exists("r/step-000020") &&
	           exists("r/step-000023") && !exists("r/step-000022") && !exists("r/step-000003"),
	   "a commit keeps the steps of --keep and --keep-every, and 16 hashes (%s)", e.msg);
	strcpy(first, r.at.past[16]);
	rf_run_close(&r);
	ok(rf_ckpt_open(&c, "r", &e) == RF_OK && c.past_count == 17 && !strcmp(c.past[16], first),
	   "a step has the hashes of 16 earlier commits (%s)", e.msg);
	rf_ckpt_close(&c);

	sh("mkdir -p r/.step-000030.tmp-1/sub; touch r/.step-000030.tmp-1/a r/.step-000030.tmp-1/sub/b; ln "
	   "-s x r/.latest.tmp-77; ln -sfn step-000010 r/latest; touch r/notes");
	ok(rf_run_open(&r, "r", &e) == RF_OK && r.at.step == 23 && !exists("r/.step-000030.tmp-1") &&
	           !exists("r/.latest.tmp-77") && exists("r/notes"),
	   "opening removes the temporary files of killed programs (%s)", e.msg);
	rf_run_close(&r);
	ok(readlink("r/latest", dir, sizeof dir) == 11 && !strncmp(dir, "step-000023", 11),
	   "opening repairs an old link `latest`");
	sh("rm r/latest");
	ok(rf_run_open(&r, "r", &e) == RF_OK && r.at.step == 23,
	   "opening repairs a missing link `latest` (%s)", e.msg);
	rf_run_close(&r);
	sh("rm -r r/step-000023");
	sh("rm r/step-000020/state.json");
	ok(rf_run_open(&r, "r", &e) == RF_EMODEL && strstr(e.msg, "r/step-000020"),
	   "the error of a damaged newest step names it (%s)", e.msg);
	sh("mkdir -p r/step-7 r/step-0000021 r/step-x && rm -r r/step-000020");
	ok(rf_run_open(&r, "r", &e) == RF_OK && r.at.step == 10,
	   "directories with similar names are not steps (%s)", e.msg);
	rf_run_close(&r);
}

static void test_close(void)
{
	struct rf_trainer t = RF_TRAINER_DEFAULTS;

	rf_trainer_close(&t);
	ok(fcntl(STDIN_FILENO, F_GETFD) >= 0,
	   "closing a trainer that was never opened does not close standard input");
}

int main(int argc, char *argv[])
{
	if (argc != 2)
		return 64;
	golden = argv[1];
	test_open();
	test_tied();
	test_export();
	test_run();
	test_close();
	return tap_end();
}
