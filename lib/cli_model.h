/* cli_model.h -- what programs with a model say.  Only tools/ includes this. */
#ifndef RF_CLI_MODEL_H
#define RF_CLI_MODEL_H

#include "cli.h"
#include "engine.h"
#include "trainer.h"

/* What the user should know of the checkpoint and the device, on stderr. */
void rf_cli_notes(const struct rf_engine *g);
/* For a program that has nothing to do: reads what its input, a pipe, still brings, and drops it.  To leave would kill the
 * programs before it by SIGPIPE, and a pipeline that has done all that it should would fail. */
void rf_cli_drain(const char *path);
/* rf_cli_input() for a program whose model must fit the stream; with --max-len the memory for it is taken, and with
 * --dry-run what the program would do is printed instead (dry.h) and the program ends. */
struct rf_in *rf_cli_model_input(const struct rf_cli *cli, struct rf_engine *g, const char *path, uint64_t max_record,
                                 struct rf_head *head);
/* A trainer's end, after its input's end record: the last mini-batch, then the commit, which a signal may still prevent
 * but not tear; a failure ends the program.  Says what of the stream taught nothing. */
void rf_cli_commit(struct rf_trainer *t, const struct rf_in *in);

#endif
