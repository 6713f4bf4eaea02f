/* rf-select -- chooses the positions of each sequence that get rollouts. */
#include "base/rng.h"
#include "cli/cli_stage.h"
#include "method/select.h"

struct choice {
	struct rf_select how;
	uint64_t step;
	unsigned long long seen, missed; /* sequences; those that are too short */
};

static enum rf_code choose(void *arg, struct rf_record *r, struct rf_err *e)
{
	struct choice *c = arg;
	bool short_one;
	enum rf_code rc = rf_select_record(&c->how, c->step, r, &short_one, e);

	c->seen++;
	c->missed += short_one;
	return rc;
}

int main(int argc, char *argv[])
{
	struct choice choice = { .how = RF_SELECT_DEFAULTS };
	struct rf_stage stage = RF_STAGE_DEFAULTS;
	struct rf_opt method[RF_SELECT_OPTS], stream[RF_STAGE_OPTS];
	const struct rf_cli cli = {
		.name = "rf-select",
		.usage = "[-k n] [-o file] [options] [file]",
		.summary = "Chooses one position per chunk of each sequence, where rollouts will start.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select --chunks 8 -k 5 | rf-rollout -m RUN",
		.also = "rf-entropy(1), rf-rollout(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ method, stream, NULL },
		.max_args = 1,
	};

	rf_select_options(&choice.how, method);
	rf_stage_options(&stage, NULL, stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (!choice.how.smooth)
		choice.how.smooth = choice.how.k; /* so that the history says it */

	rf_stage_open(&stage, &cli, argv[1]);
	rf_stage_create(&stage);
	choice.step = rf_draw_step(choice.how.draw_step, stage.head.step);
	rf_stage_each(&stage, choose, &choice);
	rf_stage_close(&stage);
	if (choice.missed)
		rf_say("%llu of %llu sequences were too short and have no positions: --chunks, -k and "
		       "--margin need %d tokens",
		       choice.missed, choice.seen, rf_select_least(&choice.how));
	return 0;
}
