/* cli_model.h -- what programs with a model say and share.  Only tools/ includes this.  What fails here ends
 * the program. */
#ifndef RF_CLI_MODEL_H
#define RF_CLI_MODEL_H

#include "cli/cli_stage.h"
#include "engine/engine.h"
#include "method/trainer.h"

/* Sections of --help that programs share: of trainers, and of all programs with a model. */
#define RF_CLI_OPTIMIZER { "Optimizer", "lr lr-schedule warmup total-steps betas adam-eps weight-decay " \
                                        "grad-clip on-nan recompute" }
#define RF_CLI_MACHINE { "Model and machine", "model device threads isa segment max-len dtype " \
                                              "deterministic dry-run progress" }

/* What the user should know of the checkpoint and the device, on stderr. */
void rf_cli_notes(const struct rf_engine *g);
/* rf_stage_open() for a program whose model must fit the stream; with --max-len the memory for it is taken,
 * and with --dry-run what the program would do is printed instead (dry_run.h) and the program ends. */
void rf_cli_model_open(struct rf_stage *s, const struct rf_cli *cli, struct rf_engine *g, char *path);

/* After that: says where the newest values of the stream, by which positions were chosen, are other weights'
 * than this model's. */
void rf_cli_chosen_by(const struct rf_stage *s, const struct rf_engine *g);

/* A trainer's begin: opens the run and says its notes.  From here on nobody's leaving ends the program
 * (SIGPIPE) before the commit.  Ends it well if the run is past --at; path: the input, of which a pipe is
 * read to its end even so. */
void rf_cli_trainer_open(struct rf_trainer *t, const char *path);
/* A trainer's end, after its input's: the last mini-batch, then the commit, which a signal may still prevent
 * but not tear.  Says what of the stream taught nothing, and what the user should know of the run. */
void rf_cli_commit(struct rf_trainer *t, struct rf_stage *s);

#endif
