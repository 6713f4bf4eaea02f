/* cli_model.h -- the beginning and end of programs with a model.  Only tools/ includes this.  A failure in
 * any of these functions ends the program. */
#ifndef RF_CLI_MODEL_H
#define RF_CLI_MODEL_H

#include "cli/cli_stage.h"
#include "device/dev_about.h"
#include "engine/engine.h"
#include "refine/reference.h"
#include "train/trainer.h"

/* Sections of --help: of all trainers, of those with a policy loss, and of all programs with a model.
 * reference: "reference ", if the program has this option. */
#define RF_CLI_OPTIMIZER \
	{ \
		"Optimizer", "lr lr-schedule warmup total-steps betas adam-eps weight-decay " \
			     "grad-clip train on-nan recompute sum" \
	}
#define RF_CLI_POLICY(reference) \
	{ \
		"Policy loss", "clip clip-high dual-clip objective ratio rl-mean kl-coef kl " reference \
			       "entropy-coef advantage group baseline baseline-decay no-std " \
			       "allow-single zero-spread" \
	}
#define RF_CLI_RANKS \
	{ \
		"Ranks", "ranks rank-timeout shard exchange" \
	}
#define RF_CLI_MACHINE \
	{ \
		"Model and machine", "model device threads isa segment max-len dtype " \
				     "dry-run progress" \
	}

/* Prints notes about the checkpoint and the device on stderr. */
void rf_cli_notes(const struct rf_engine *g);
/* Warns if the tokenizer in the model's folder ends a text with another token than the model.  Ends the
 * program if a file next to the tokenizer cannot be read. */
void rf_cli_fit_end(const struct rf_engine *g);
/* Does rf_stage_open(), and checks that the model fits the stream.  With --max-len it takes the memory for
 * such sequences now.  With --dry-run it prints what the program would do (dry_run.h) and ends the
 * program. */
void rf_cli_model_open(struct rf_stage *s, const struct rf_cli *cli, struct rf_engine *g, char *path);

/* Opens the engine of a filter and prints its notes, and does rf_cli_model_open(). */
void rf_cli_filter_open(struct rf_stage *s, const struct rf_cli *cli, struct rf_engine *g, char *path);
/* Waits until the device has done its work, because a failure may show only then, and does
 * rf_stage_close(). */
void rf_cli_filter_close(struct rf_stage *s, struct rf_engine *g);

/* Warns, after rf_cli_model_open(), if the positions were chosen with other weights than those of this
 * model. */
void rf_cli_chosen_by(const struct rf_stage *s, const struct rf_engine *g);

/* Adds the options that only training has: those of rf_trainer_options(), rf_train_options() and
 * rf_ranks_options(). */
void rf_cli_trainer_options(struct rf_trainer *t, struct rf_opts *opts);
/* Refuses, after rf_cli_parse(), options that have no effect with --weights-out because nothing is committed.
 * trains, loss: the tables of rf_cli_trainer_options() and rf_trainer_loss_options(). */
void rf_cli_trainer_settle(const struct rf_trainer *t, const struct rf_opt *trains,
                           const struct rf_opt *loss);
/* Refuses, after rf_cli_parse(), options of the policy loss and of the advantages that have no effect with
 * the others.  policy, group: the tables that have the options of rf_trainer_policy_options() and
 * rf_advantage_options(). */
void rf_cli_policy_settle(const struct rf_trainer *t, const struct rf_opt *policy,
                          const struct rf_opt *group);
/* Prepares the reference model of --kl-coef before the run is opened; a dry run, which ends there, checks its
 * weights now.  policy: the table that also has the options of rf_reference_options().  Returns x; NULL: no
 * reference is needed. */
struct rf_reference *rf_cli_reference_settle(const struct rf_trainer *t, struct rf_reference *x,
                                             const struct rf_opt *policy);
/* Opens the reference model, after the run was opened.  Records its weights in the newest stage of the
 * stream's history, in the line of the run's manifest, and in the facts that ranks compare.  x NULL: does
 * nothing. */
void rf_cli_reference_open(struct rf_trainer *t, struct rf_reference *x, struct rf_stage *s);
/* Begins a trainer: ignores SIGPIPE, so that a reader that ends cannot end the program before the commit,
 * opens the run and prints its notes, does rf_cli_model_open(), and checks that the stream is this rank's
 * share.  If the run is past --at, the program ends here with status 0; an input that is a pipe is read to
 * its end even then.  path: the input. */
void rf_cli_trainer_open(struct rf_trainer *t, struct rf_stage *s, const struct rf_cli *cli, char *path);
/* Begins the next batch of a stream that has several. */
void rf_cli_batch(struct rf_trainer *t, struct rf_stage *s);
/* Ends one of several batches, after its last record: runs the last mini-batch, and commits if a commit is
 * due (rf_trainer_end()).  If RUN/stop exists, the program ends here. */
void rf_cli_end(struct rf_trainer *t, struct rf_stage *s, bool last);
/* Ends a batch, after its last record: runs the last mini-batch and commits.  A signal may prevent the
 * commit, but cannot leave half of it.  Then reports records without effect, and notes about the run. */
void rf_cli_commit(struct rf_trainer *t, struct rf_stage *s);

#endif
