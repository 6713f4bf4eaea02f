/* step.c -- runs the stages on one record, one after the other, in the same tree. */
#include <limits.h>
#include <string.h>

#include "base/rng.h"
#include "train/step.h"

/* ---- options ------------------------------------------------------------------------------- */

void rf_step_options(struct rf_step *s, struct rf_opts *opts)
{
	struct rf_opts select = { 0 }, rollouts = { 0 }, reward = { 0 }, group = { 0 };
	struct rf_opt *from;
	const struct rf_opt draws[] = {
		OPT_U64("seed", &s->rollouts.seed, "n", "random seed", .noted = RF_OPT_RESULT),
		OPT_INT("draw-step", &s->draw_step, -1, INT_MAX, "n",
		        "training step for the random numbers; -1: the step of the model",
		        .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_select_options(&s->select, &select);
	rf_opts_remove(&select, "length seed draw-step");
	rf_opts_find(&select, "shift")->name = "select-shift"; /* rf-reward has --shift */
	rf_rollout_options(&s->rollouts, &rollouts);
	rf_opts_remove(&rollouts, "score seed draw-step");
	rf_reward_options(&s->reward, &reward);
	rf_opts_remove(&reward, "seed draw-step");
	rf_advantage_options(&s->train->advantage, &group);
	from = rf_opts_find(&group, "advantage");
	from->arg = RF_STEP_FROM_WORDS;
	from->help = "compute advantages from rewards of rollouts or tokens";
	rf_opts_add(opts, select.row);
	rf_opts_add(opts, rollouts.row);
	rf_opts_add(opts, draws);
	rf_opts_add(opts, reward.row);
	rf_opts_add(opts, group.row);
}

enum rf_code rf_step_settle(struct rf_step *s, struct rf_reward_exec_settings *command, struct rf_err *e)
{
	command->ask.n = s->rollouts.n;
	command->ask.k = s->rollouts.k;
	s->select.k = s->rollouts.k;
	s->select.seed = s->reward.seed = s->rollouts.seed;
	if (s->train->advantage.from == RF_FROM_TOKEN && !s->reward.per_token && !command->ask.command)
		return rf_fail(e, RF_EUSAGE, "--advantage token requires --per-token or --exec");
	return rf_reward_check(&s->reward, e);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Sets the rollouts that the options give, for every record: memory must not grow between the pass over a
 * record and its rollouts. */
static void decide_shape(const void *step, struct rf_shape *shape)
{
	const struct rf_step *s = step;
	const bool rollouts = s->train->rl_coef != 0;

	shape->c = rollouts ? s->select.chunks : 0;
	shape->n = rollouts ? s->rollouts.n : 0;
	shape->k = rollouts ? s->rollouts.k : 0;
}

static void place_memory(void *step, const struct rf_shape *shape, struct rf_arena *a)
{
	struct rf_step *s = step;
	const struct rf_use entropy = rf_entropy_use(&s->entropy), rollouts = rf_rollout_use(&s->rollouts);

	s->base.place(s->base.stage, shape, a);
	if (!shape->c)
		return;
	entropy.place(entropy.stage, shape, a);
	rollouts.place(rollouts.stage, shape, a);
}

struct rf_use rf_step_use(struct rf_step *s, struct rf_work *w, struct rf_use base)
{
	struct rf_use use = base;

	s->base = base;
	s->entropy.work = s->rollouts.work = w;
	use.stage = s;
	use.decide = decide_shape;
	use.decides_all = true;
	use.place = place_memory;
	use.tree.decode = s->train->rl_coef != 0;
	return use;
}

/* ---- the first mini-batch ------------------------------------------------------------------- */

void rf_step_totals(const struct rf_step *s, struct rf_record *const *r, int n, struct rf_totals *own)
{
	const uint64_t each = (uint64_t)s->select.chunks * (uint64_t)s->rollouts.n;
	uint64_t rollouts = 0;

	for (int i = 0; i < n; i++)
		rf_record_drop_rollout(r[i]);
	rf_train_totals(s->train, r, n, own);
	for (int i = 0; i < n && s->train->rl_coef != 0; i++)
		rollouts += r[i]->T >= rf_select_least(&s->select) ? each : 0;
	own->rollout_tokens = own->rl_tokens = rollouts * (uint64_t)s->rollouts.k;
	own->rl_terms = rf_policy_terms(&s->train->policy, rollouts, own->rl_tokens, s->rollouts.k);
}

enum rf_code rf_step_begin(struct rf_step *s, int64_t step, const struct rf_totals *all, struct rf_err *e)
{
	/* if rollouts may end early or be dropped, the number of tokens that count is not known before they
	 * are drawn */
	const bool known = !s->rollouts.eos && s->train->advantage.zero_spread == RF_ZERO_SPREAD_KEEP;

	s->select.draw_step = s->rollouts.draw_step = s->reward.draw_step =
		(int)rf_draw_step(s->draw_step, step);
	return all && known ? rf_train_ahead(s->train, all, e) : RF_OK;
}

/* ---- one record ---------------------------------------------------------------------------- */

enum rf_code rf_step_entropy(struct rf_step *s, struct rf_record *r, bool first, struct rf_err *e)
{
	enum rf_code rc;

	s->ahead = first && s->train->ahead.open;
	if (!s->ahead)
		return rf_entropy_record(&s->entropy, r, e);
	if ((rc = rf_engine_check_record(s->train->engine, r, e)) != RF_OK ||
	    (rc = rf_work_reserve(s->train->work, &(struct rf_shape){ .T = r->T }, e)) != RF_OK ||
	    (rc = rf_train_ahead_pass(s->train, r, s->entropy.at.entropy, e)) != RF_OK)
		return rc;
	return rf_entropy_fetch(&s->entropy, r, e);
}

enum rf_code rf_step_select(struct rf_step *s, struct rf_record *r, struct rf_err *e)
{
	bool short_one;
	enum rf_code rc = rf_select_record(&s->select, (uint64_t)s->select.draw_step, r, &short_one, e);

	s->missed += rc == RF_OK && short_one;
	return rc;
}

enum rf_code rf_step_rollout(struct rf_step *s, struct rf_record *r, struct rf_err *e)
{
	enum rf_code rc = rf_rollout_go_on(&s->rollouts, r, e);

	if (rc != RF_OK || !s->reference)
		return rc;
	rc = rf_reference_record(s->reference, r, e);
	return rc == RF_OK ? RF_OK : rf_blame(e, "--reference");
}

enum rf_code rf_step_reward(struct rf_step *s, struct rf_record *r, struct rf_err *e)
{
	const struct rf_reward_settings *w = &s->reward;
	bool alone = false;
	enum rf_code rc = rf_reward_record(w, (uint64_t)w->draw_step, r, &alone, e);

	s->alone += alone;
	return rc;
}

enum rf_code rf_step_advantage(struct rf_step *s, struct rf_record *r, struct rf_err *e)
{
	s->groups = (struct rf_group_stats){ 0, 0 };
	return rf_advantage_record(&s->train->advantage, r, &s->groups, e);
}

enum rf_code rf_step_gradient(struct rf_step *s, struct rf_record *r, struct rf_err *e)
{
	return s->ahead ? rf_train_ahead_rest(s->train, r, s->rollouts.at.kept, s->rollouts.k + 1, e) : RF_OK;
}

void rf_step_remark(const struct rf_step *s, uint64_t records, void (*say)(const char *fmt, ...))
{
	const unsigned long long all = records, missed = s->missed, alone = s->alone;

	if (missed)
		say("%llu of %llu sequences were too short and have no positions: --chunks, -k and --margin "
		    "need %d tokens",
		    missed, all, rf_select_least(&s->select));
	if (alone)
		say("%llu of %llu sequences lost their rollouts: they have no other position for --shift %d",
		    alone, all, s->reward.shift);
}
