/* cli_copy.h -- the output of a trainer's -o: the records as it trains on them.  If the reader ends or the
 * disk is full, the training goes on, and the failure is reported after the commit.  Only tools/ includes
 * this. */
#ifndef RF_CLI_COPY_H
#define RF_CLI_COPY_H

#include "cli/cli_stage.h"
#include "train/trainer.h"

struct rf_copy {
	struct rf_out *out; /* NULL: there is no -o, or writing failed */
	struct rf_err late; /* the failure, reported after the commit */
};

/* Returns whether s->output is an existing folder. */
bool rf_copy_many(const struct rf_stage *s);
/* Opens the output of a batch: s->output or, if that is an existing folder, a file in it with the name of the
 * step before the batch, such as step-000012.rf.  Each of several ranks writes its share, to FILE, FILE.1,
 * FILE.2.  Ends the program if the file cannot be opened, except where no program reads standard output. */
void rf_copy_open(struct rf_copy *c, const struct rf_stage *s, const struct rf_trainer *t);
enum rf_code rf_copy_put(struct rf_copy *c, const struct rf_record *r, struct rf_err *e);
/* Closes the output after the last record. */
void rf_copy_end(struct rf_copy *c);

#endif
