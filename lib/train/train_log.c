/* train_log.c -- writes the figures of an optimizer step as a line of JSON. */
#include <math.h>

#include "base/jline.h"
#include "refine/reward.h"
#include "train/train_log.h"

struct figure {
	const char *name;
	double v;
	bool shown;
};

static void add_figures(struct rf_buf *line, const struct figure *f, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (f[i].shown)
			rf_jline_real(line, f[i].name, f[i].v);
}

enum rf_code rf_train_log(struct rf_trainer *t, const struct rf_train_stats *st, bool outer, double seconds,
                          struct rf_err *e)
{
	const bool ntp = st->ntp_tokens && !outer, apart = t->train.log_gradients && !outer;
	const struct rf_policy *policy = &t->train.policy;
	const double baseline = t->train.advantage.running;
	const struct figure rewards[] = {
		{ "records", st->records, true },
		{ "tokens", (double)st->tokens, true },
		{ "rollouts", (double)st->rollouts, st->rollouts },
		{ "rollouts/stale", t->current.older, t->current.older },
		{ "reward/mean", st->reward, st->rollouts },
		{ "reward/std", st->reward_std, !isnan(st->reward_std) },
	}, rest[] = {
		{ "actor/entropy", st->entropy, !isnan(st->entropy) },
		{ "group/count", t->current.groups.groups, t->current.groups.groups },
		{ "group/spread_free", t->current.groups.spread_free, t->current.groups.groups },
		{ "group/std", st->group_std, !isnan(st->group_std) },
		{ "group/position_share", st->position_share, !isnan(st->position_share) },
		{ "loss/rl", st->loss_rl, st->rl_tokens },
		{ "loss/ntp", st->loss_ntp, ntp },
		{ "loss/positions", st->loss_positions, st->position_tokens },
		{ "actor/pg_loss_ttt", t->train.rl_coef * st->loss_rl, st->rl_tokens },
		{ "actor/sft_loss_ttt", t->train.ntp_coef * st->loss_ntp, ntp },
		{ "actor/sft_loss", st->loss_ntp, st->ntp_tokens && outer },
		{ "actor/pg_clipfrac_ttt", st->clip_fraction, st->rl_tokens },
		{ "actor/pg_clipfrac_lower_ttt", st->dual_fraction, st->rl_tokens },
		{ "clip_ratio/low_mean", st->clip_fraction - st->high_fraction, st->rl_tokens },
		{ "clip_ratio/high_mean", st->high_fraction, st->rl_tokens },
		{ "actor/kl_loss", st->kl_ref, st->rl_tokens && policy->kl_coef != 0 },
		{ "actor/kl_coef", policy->kl_coef, st->rl_tokens && policy->kl_coef != 0 },
		{ "actor/entropy_loss", st->rl_entropy, st->rl_tokens && policy->entropy_coef != 0 },
		{ "reward/baseline", baseline, st->rollouts && !isnan(baseline) },
		{ "actor/ppo_kl_ttt", st->kl, st->rl_tokens },
		{ "actor/kl3_ttt", st->kl3, st->rl_tokens },
		{ "actor/ratio_max", st->ratio_max, st->rl_tokens },
		{ "actor/clamped", (double)st->clamped, st->rl_tokens },
		{ "training/rollout_logp_diff_mean", st->abs_diff, st->rl_tokens },
		{ "actor/grad_norm_ttt", st->grad_norm, !outer },
		{ "actor/grad_norm", st->grad_norm, outer },
		{ "grad/rl_norm", st->norm_rl, apart },
		{ "grad/ntp_norm", st->norm_ntp, apart },
		{ "grad/cosine", st->grad_cosine, apart },
		{ "actor/lr", st->lr, true },
		{ "world", t->ranks.ranks, true },
		{ "timing_s/compute", st->compute, true },
		{ "timing_s/wait", st->wait, t->ranks.ranks > 1 },
		{ "timing_s/reduce", st->reduce, true },
		{ "timing_s/optimizer", st->optimizer, true },
		{ "timing_s/spread", st->spread, t->ranks.ranks > 1 },
		{ "timing_s/step", seconds, true },
		{ "perf/throughput", seconds > 0 ? (double)st->tokens / seconds : 0, true },
	};
	struct rf_buf *lines = &t->open.unsaved.lines;
	char key[RF_REWARD_KEY];

	if (!t->log)
		return RF_OK;
	rf_jline_begin(lines);
	rf_jline_int(lines, "step", t->open.step);
	rf_jline_bool(lines, "stepped", st->stepped);
	add_figures(lines, rewards, sizeof rewards / sizeof *rewards);
	if (st->rollouts)
		rf_jline_text(lines, "reward/kind", st->kind);
	for (int i = 0; i < st->parts; i++) {
		const struct rf_part_spread *p = &st->part[i];
		const double std = rf_spread_std(&p->of);

		rf_jline_real(lines, rf_reward_key(key, p->name, "mean"), rf_spread_mean(&p->of));
		if (!isnan(std))
			rf_jline_real(lines, rf_reward_key(key, p->name, "std"), std);
	}
	add_figures(lines, rest, sizeof rest / sizeof *rest);
	rf_jline_end(lines);
	t->current.older = 0;
	return lines->failed ? rf_fail(e, RF_ENOMEM, "out of memory (metrics)") : RF_OK;
}
