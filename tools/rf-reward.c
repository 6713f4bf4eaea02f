/* rf-reward -- says how well each rollout agrees with the text. */
#include <limits.h>

#include "cli.h"
#include "judge.h"
#include "reward.h"
#include "stream.h"

int main(int argc, char *argv[])
{
	struct rf_judge_settings exec = RF_JUDGE_DEFAULTS;
	const char *output = NULL;
	uint64_t max_record = RF_MAX_RECORD, seed = 0;
	int kind = RF_REWARD_COSINE, shift = 0, draw_step = -1;
	struct rf_opt judge_opts[5];
	const struct rf_opt opts[] = {
		{ "kind", 0, RF_OPT_ENUM, &kind, 0, 0, "cosine|binary|hybrid|edit|random", "the part that counts", true },
		{ "shift", 0, RF_OPT_INT, &shift, 0, 1 << 24, "n", "compare with the text of the n-th next position: what no skill scores", true },
		{ "seed", 0, RF_OPT_U64, &seed, 0, 0, "n", "of --kind random", true },
		{ "draw-step", 0, RF_OPT_INT, &draw_step, -1, INT_MAX, "n", "step for the random numbers; -1: the model's", true },
		{ "output", 'o', RF_OPT_TEXT, &output, 0, 0, "file", "instead of stdout; appears whole or not at all", false },
		{ "max-record", 0, RF_OPT_SIZE, &max_record, 0, 0, "size", "refuse records of more bytes", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-reward",
		.usage = "[--kind kind | --exec command] [-o file] [options] [file]",
		.summary = "Rewards each rollout for its agreement with the text, or as a command decides.",
		.example = "rf-rollout -m RUN selected.rf | rf-reward --kind hybrid | rf-grpo -m RUN --at 0",
		.also = "rf-rollout(1), rf-grpo(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ opts, judge_opts, NULL },
		.max_args = 1,
	};
	struct rf_err err;
	struct rf_head head;
	struct rf_record *r;
	struct rf_in *in;
	struct rf_out *out;
	struct rf_judge *judge = NULL;
	unsigned long long missed = 0;
	enum rf_code rc;
	bool alone;

	rf_judge_options(&exec, judge_opts);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (exec.kind && !exec.command)
		rf_die(64, "--kind-name names the rewards of a command: give --exec (try --help)");
	if (exec.command && shift)
		rf_die(64, "--shift does not go with --exec, whose command reads the text where the rollouts are (try --help)");
	if (exec.command && !exec.kind)
		exec.kind = "exec";

	in = rf_cli_input(&cli, argv[1], max_record, &head);
	if (rf_out_open(&out, output, &head, &err) != RF_OK)
		rf_die_err(&err);
	if (exec.command && rf_judge_start(&judge, &exec, out, &err) != RF_OK)
		rf_die_err(&err);

	int64_t step = draw_step >= 0 ? draw_step : head.step > 0 ? head.step : 0;
	while ((rc = rf_next(in, &r, &err)) == RF_OK) {
		if ((rc = rf_reward_record(r, (enum rf_reward_kind)kind, shift, seed, (uint64_t)step, &alone, &err)) != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
		missed += alone;
		if ((rc = judge ? rf_judge_record(judge, r, rf_in_fd(in), &err) : rf_put(out, r, &err)) != RF_OK)
			break;
	}
	if (rc == RF_EOF)
		rc = judge ? rf_judge_finish(judge, &err) : RF_OK;
	rf_judge_stop(judge);
	if (rc != RF_OK || rf_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	if (missed)
		rf_say("%llu of %llu sequences have no other position %d places on, and no rollouts any more", missed,
		       (unsigned long long)rf_in_count(in), shift);
	rf_in_close(in);
	rf_head_free(&head);
	return 0;
}
