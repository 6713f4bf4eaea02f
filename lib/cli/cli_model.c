/* cli_model.c -- how programs with a model begin and end.  A trainer changes its run only by the commit:
 * before the commit a signal ends the program and the run is as it was, and messages about the run come
 * after it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cores.h"
#include "ckpt/manifest.h"
#include "cli/cli_model.h"
#include "engine/dry_run.h"
#include "engine/work.h"
#include "ranks/guard.h"
#include "tokenizer/tokenizer.h"

void rf_cli_notes(const struct rf_engine *g)
{
	if (g->note)
		rf_say("%s", g->note);
	if (g->ckpt->warning[0])
		rf_say("%s: %s", g->ckpt->dir, g->ckpt->warning);
}

void rf_cli_fit_end(const struct rf_engine *g)
{
	char file[4096], warning[RF_TOKENIZER_WARNING];
	struct rf_err err;
	struct rf_end_token eos;

	if (!*g->ckpt->tokenizer)
		return;
	if (rf_tokenizer_end(g->ckpt->dir, &eos, &err) != RF_OK) {
		/* a trainer may have removed the step since it was opened */
		if (access(g->ckpt->dir, F_OK) && errno == ENOENT)
			return;
		rf_die_err(&err);
	}
	snprintf(file, sizeof file, "%.4000s/config.json", g->ckpt->dir);
	rf_tokenizer_fit_end(&eos, &g->ckpt->cfg, file, warning);
	if (*warning)
		rf_say("warning: %s", warning);
}

noreturn static void print_dry_run(const struct rf_cli *cli, struct rf_engine *g, const char *path,
                                   uint64_t max_record)
{
	const struct rf_dry_run dry = { g, cli->opts, rf_cli_in_force, path, max_record };
	struct rf_err err;
	char *text;

	if (rf_dry_run(&dry, &text, &err) != RF_OK)
		rf_die_err(&err);
	fputs(text, stdout);
	rf_cli_finish();
	exit(0);
}

static void check_head(const struct rf_stage *s, struct rf_engine *g)
{
	struct rf_err err;

	if (rf_engine_check_head(g, &s->head, &err) != RF_OK) {
		rf_blame(&err, "%s", rf_in_name(s->in));
		rf_die_err(&err);
	}
	if (rf_work_ahead(g, rf_in_head(s->in), &err) != RF_OK)
		rf_die_err(&err);
}

void rf_cli_model_open(struct rf_stage *s, const struct rf_cli *cli, struct rf_engine *g, char *path)
{
	if (g->dry_run)
		print_dry_run(cli, g, path, s->max_record);
	rf_stage_open(s, cli, path);
	check_head(s, g);
}

void rf_cli_filter_open(struct rf_stage *s, const struct rf_cli *cli, struct rf_engine *g, char *path)
{
	struct rf_err err;

	if (rf_engine_open(g, NULL, false, &err) != RF_OK)
		rf_die_err(&err);
	rf_cli_notes(g);
	rf_cli_model_open(s, cli, g, path);
}

void rf_cli_filter_close(struct rf_stage *s, struct rf_engine *g)
{
	struct rf_err err;

	if (rf_dev_sync(&g->dev, &err) != RF_OK)
		rf_die_err(&err);
	rf_stage_close(s);
}

void rf_cli_chosen_by(const struct rf_stage *s, const struct rf_engine *g)
{
	const struct rf_head *h = &s->head;

	if (*h->weights && strcmp(h->weights, g->ckpt->weights))
		rf_say("%s: the positions were chosen with weights %s, but %s has weights %s: for ReFINE "
		       "run rf-entropy with the same model",
		       rf_in_name(s->in), h->weights, g->path, g->ckpt->weights);
}

/* Reads a pipe to its end and discards the bytes.  Without this the programs before this one would be killed
 * by SIGPIPE, and a pipeline that has done all of its work would fail. */
static void drain_input(const char *path)
{
	static char waste[1 << 16];
	struct stat st;
	ssize_t n;

	if ((path && strcmp(path, "-")) || fstat(STDIN_FILENO, &st) < 0 || !S_ISFIFO(st.st_mode))
		return;
	while ((n = read(STDIN_FILENO, waste, sizeof waste)) > 0 ||
	       (n < 0 && (errno == EINTR || errno == EAGAIN)))
		if (n < 0 && errno == EAGAIN) /* another program made the pipe non-blocking */
			poll(&(struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN }, 1, -1);
}

void rf_cli_trainer_options(struct rf_trainer *t, struct rf_opts *opts)
{
	rf_trainer_options(t, opts);
	rf_train_options(&t->train, opts);
	rf_ranks_options(&t->ranks, opts);
}

void rf_cli_trainer_settle(const struct rf_trainer *t, const struct rf_opt *trains, const struct rf_opt *loss)
{
	static const char *const why = "cannot be combined with --weights-out, which commits nothing";

	if (!t->weights_out)
		return;
	rf_cli_without(trains, "at", why);
	rf_cli_without(trains, "keep", why);
	rf_cli_without(trains, "keep-every", why);
	/* otherwise the weights of an earlier batch could be mistaken for those of an empty one */
	rf_cli_without(loss, "allow-empty", "cannot be combined with --weights-out, which needs records");
}

/* Refuses options that have no effect with the objective and the reference of the policy loss. */
static void settle_loss(const struct rf_policy *p, const struct rf_opt *policy)
{
	if (p->objective == RF_OBJECTIVE_CISPO)
		rf_cli_without(policy, "dual-clip", "cannot be combined with --objective cispo");
	if (p->kl_coef == 0)
		rf_cli_without(policy, "kl", "requires --kl-coef");
}

/* Refuses options that have no effect with the source of the advantages and their baseline. */
static void settle_advantages(const struct rf_advantage *a, const struct rf_opt *group)
{
	static const char *const names[] = { "group",  "baseline",     "baseline-decay",
		                             "no-std", "allow-single", "zero-spread" };
	static const char *const stream = "cannot be combined with --advantage stream";

	for (size_t i = 0; i < sizeof names / sizeof *names && a->from == RF_FROM_STREAM; i++)
		rf_cli_without(group, names[i], stream);
	if (a->from == RF_FROM_TOKEN && a->baseline != RF_BASELINE_GROUP)
		rf_cli_without(group, "baseline", "cannot be combined with --advantage token");
	if (a->baseline == RF_BASELINE_LOO)
		rf_cli_without(group, "no-std",
		               "cannot be combined with --baseline loo, which does not divide");
	if (a->baseline != RF_BASELINE_RUNNING) {
		rf_cli_without(group, "baseline-decay", "requires --baseline running");
		return;
	}
	rf_cli_without(group, "no-std", "cannot be combined with --baseline running, which does not divide");
	rf_cli_without(group, "zero-spread",
	               "cannot be combined with --baseline running, which compares with earlier batches");
}

void rf_cli_policy_settle(const struct rf_trainer *t, const struct rf_opt *policy, const struct rf_opt *group)
{
	if (!t->log)
		rf_cli_without(policy, "log-gradients", "requires --log");
	settle_loss(&t->train.policy, policy);
	settle_advantages(&t->train.advantage, group);
}

struct rf_reference *rf_cli_reference_settle(const struct rf_trainer *t, struct rf_reference *x,
                                             const struct rf_opt *policy)
{
	const bool trains = t->train.rl_coef != 0;
	struct rf_err err;

	if (!x->path && trains && t->train.policy.kl_coef != 0)
		rf_die(EX_USAGE, "--kl-coef requires --reference (a checkpoint; in a pipeline REFERENCE=)");
	if (t->train.policy.kl_coef == 0)
		rf_cli_without(policy, "reference", "requires --kl-coef");
	if (!x->path || !trains)
		return NULL;
	rf_reference_init(x, &t->engine);
	if (t->engine.dry_run && rf_reference_open(x, &err) != RF_OK)
		rf_die_err(&err);
	return x;
}

/* Refuses the run that is trained as its reference: its newest step is another one after a restart, and old
 * steps are removed. */
static void refuse_own_step(const struct rf_trainer *t, const struct rf_reference *x)
{
	char run[PATH_MAX], dir[PATH_MAX];
	size_t n;

	if (t->weights_out || !realpath(t->open.run.path, run) || !realpath(x->engine.ckpt->dir, dir))
		return;
	n = strlen(run);
	if (!strncmp(dir, run, n) && dir[n] == '/')
		rf_die(EX_USAGE,
		       "--reference: %s is a step of the run that is trained: use the checkpoint that the "
		       "run began with",
		       x->path);
}

void rf_cli_reference_open(struct rf_trainer *t, struct rf_reference *x, struct rf_stage *s)
{
	struct rf_err err;

	if (!x)
		return;
	if (rf_reference_open(x, &err) != RF_OK)
		rf_die_err(&err);
	refuse_own_step(t, x);
	x->engine.note = NULL; /* the device is that of the run, whose notes were printed */
	rf_cli_notes(&x->engine);
	if (rf_reference_begin(x, &s->head, &err) != RF_OK) {
		rf_blame(&err, "--reference");
		rf_die_err(&err);
	}
	if (rf_engine_sign_stage(&x->engine, &s->head, &err) != RF_OK ||
	    rf_head_hash(&s->head, &t->open.facts.head, &err) != RF_OK)
		rf_die_err(&err);
	if (json_object_set_new(json_object_get(t->made, "program"), "reference_weights",
	                        json_string(x->engine.ckpt->weights)) < 0)
		rf_die(EX_OSERR, "out of memory (the manifest)");
}

/* Informs the other ranks, which wait for this one, so that all end alike.  Rank 0 prints the reason; if no
 * rank could be informed, every rank does. */
static bool tell_ranks(void *arg, struct rf_err *e)
{
	struct rf_trainer *t = arg;

	rf_trainer_leave(t, e);
	if (t->ranks.failed >= 0) /* the message of the rank that failed, not of this one */
		*e = t->ranks.why;
	/* the launcher kills the others as soon as one rank has ended; let them end with the same status */
	signal(SIGTERM, SIG_IGN);
	return t->ranks.failed < 0 || t->ranks.rank == 0;
}

/* Waits until rank 0 has printed its message: the launcher kills the other ranks soon after the first one has
 * ended. */
static void leave_ranks(void *arg)
{
	struct rf_trainer *t = arg;

	rf_ranks_close(&t->ranks);
}

/* Warns of settings with which ranks are of no use. */
static void note_ranks(const struct rf_trainer *t)
{
	const int cores = rf_cores(), mini = t->open.shard.mini_batch;

	if (mini && t->ranks.ranks > mini)
		rf_say("there are %d ranks, but a mini-batch has %d records: the other %d only wait",
		       t->ranks.ranks, mini, t->ranks.ranks - mini);
	if (t->ranks.launch && t->engine.threads > cores)
		rf_say("--threads is %d, but this process may use %d of the cores: a launcher binds ranks to "
		       "cores unless it is told not to (mpirun --bind-to none)",
		       t->engine.threads, cores);
}

void rf_cli_batch(struct rf_trainer *t, struct rf_stage *s)
{
	struct rf_err err;

	if (rf_trainer_begin(t, rf_in_head(s->in), &err) != RF_OK) {
		rf_blame(&err, "%s", rf_in_name(s->in));
		rf_die_err(&err);
	}
	/* the ranks also compare the options of this program in the head */
	if (rf_head_hash(&s->head, &t->open.facts.head, &err) != RF_OK)
		rf_die_err(&err);
}

/* Ends this process by the signal that ended its child, without another core file. */
static void end_by_signal(int sig)
{
	sigset_t set;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	signal(sig, SIG_DFL);
	raise(sig);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Continues in a child process if there are ranks; this process waits and ends as the child does. */
static void start_guard(struct rf_trainer *t)
{
	struct rf_err err;
	int status;

	if (t->engine.dry_run)
		return;
	if (rf_ranks_guard(&t->ranks, &status, &err) != RF_OK)
		rf_die_err(&err);
	if (status > 128)
		end_by_signal(status - 128);
	if (status >= 0)
		_exit(status);
}

/* Returns the manifest's entry for this program: the options that have an effect, and the words of the
 * pipeline, lines NAME=VALUE in $RF_WORDS. */
static json_t *describe_options(const struct rf_cli *cli)
{
	const char *words = getenv("RF_WORDS"), *text;
	json_t *options = json_object(), *typed = NULL, *made;
	bool failed = !options;
	char buf[RF_OPT_VALUE];
	struct rf_err err;
	size_t n;

	if (words && *words && rf_manifest_typed(words, &typed, &err) != RF_OK)
		rf_die(err.code == RF_EDATA ? EX_USAGE : rf_exit_status(err.code), "RF_WORDS: %s", err.msg);
	for (const struct rf_opt *const *t = cli->opts; *t; t++)
		for (const struct rf_opt *o = *t; o->name; o++)
			if (rf_cli_in_force(o) && !(o->noted & RF_OPT_OF_BATCH) &&
			    (text = rf_opt_value(o, 9, buf, &n)))
				failed |= !rf_manifest_set(options, o->name, strlen(o->name), text, n);
	made = json_pack("{s:{s:s, s:s, s:s, s:o}}", "program", "name", cli->name, "version", rf_cli_version,
	                 "commit", rf_cli_built_from, "options", options);
	if (failed || !made || (typed && json_object_set_new(made, "words", typed) < 0)) {
		rf_fail(&err, RF_ENOMEM, "out of memory (the manifest)");
		rf_die_err(&err);
	}
	return made;
}

void rf_cli_trainer_open(struct rf_trainer *t, struct rf_stage *s, const struct rf_cli *cli, char *path)
{
	struct rf_err err;

	start_guard(t);
	rf_cli_ignore_pipe();
	t->stop = &rf_cli_stop;
	t->made = describe_options(cli);
	rf_cli_at_failure(tell_ranks, leave_ranks, t);
	if (rf_trainer_open(t, &err) != RF_OK)
		rf_die_err(&err);
	if (t->ranks.rank)
		rf_cli_hush();
	if (t->open.done_before) {
		rf_say("already at step %" PRId64, t->open.step);
		drain_input(path);
		rf_ranks_close(&t->ranks);
		exit(0);
	}
	rf_cli_notes(&t->engine);
	note_ranks(t);
	if (t->train.adamw.schedule != RF_CONSTANT && t->open.step >= t->train.adamw.total_steps)
		rf_say("warning: the run is at step %" PRId64 ", and the learning rate is 0 after "
		       "--total-steps %d: no weight changes",
		       t->open.step, t->train.adamw.total_steps);
	rf_cli_model_open(s, cli, &t->engine, path);
	rf_cli_batch(t, s);
}

static void print_remarks(struct rf_trainer *t)
{
	char text[300];

	if (*rf_trainer_remark(t, text, sizeof text))
		rf_say("%s", text);
	if (*t->open.run.warning)
		rf_say("%s: %s", t->open.run.path, t->open.run.warning);
	*t->open.run.warning = 0;
}

void rf_cli_end(struct rf_trainer *t, struct rf_stage *s, bool last)
{
	struct rf_err err;
	bool stopped;

	if (rf_trainer_rest(t, &err) != RF_OK)
		rf_die_err(&err);
	rf_cli_catch();
	rf_progress_doing(&s->progress, "committing");
	if (rf_trainer_end(t, last, &stopped, &err) != RF_OK) {
		rf_cli_stopped();
		rf_die_err(&err);
	}
	if (!last)
		rf_cli_uncatch();
	print_remarks(t);
	if (stopped && !last)
		rf_die(EX_TEMPFAIL,
		       "%s: stopped after %" PRId64 " batches, as the run's file 'stop' asked: the same "
		       "command continues from here",
		       t->open.run.path, t->open.run.at.commits);
}

void rf_cli_commit(struct rf_trainer *t, struct rf_stage *s)
{
	struct rf_err err;

	if (rf_trainer_rest(t, &err) != RF_OK)
		rf_die_err(&err);
	rf_cli_catch();
	rf_progress_doing(&s->progress, "committing");
	if (rf_trainer_commit(t, &err) != RF_OK) {
		rf_cli_stopped();
		rf_die_err(&err);
	}
	print_remarks(t);
}
