/* tree -- compares a tree with separate sequences.
 *
 *     tree exact [all]   hidden states, log-probabilities and gradients of a text with rollouts equal those
 *                          of the sequences prefix + rollout, each run as a separate text: in segments of
 *                          several sizes, recomputed, decoded, sliding
 *     tree bits [all]    the same to the last bit, except for gradients: models without attention, on a
 *                          device whose products do not depend on the number of rows (in oneDNN the order of
 *                          sums does)
 *     tree slope [all]   the gradient of the two losses equals finite differences
 *
 * Without `all`, each model has rollouts of one length, half of the ways to compute them (segments,
 * recomputation, decoding) in turns, and slopes of one tensor in four.  Tolerances: 1e-5 for values, 1e-4
 * for the gradient of each tensor (Muon: 5e-5, 5e-3), as the largest difference over the largest value.
 * RF_SEED: other draws.  RF_EVERY=n: one of n models. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ckpt/init.h"
#include "cpu/cpu.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "model/tree.h"
#include "unit/must.h"
#include "unit/running_mean.h"
#include "unit/tap.h"
#include "unit/values.h"

/* ---- a small model with every term of the equations alive ---------------------------------- */

static struct rf_engine engine = RF_ENGINE_DEFAULTS;
static struct rf_work work;
static struct rf_ckpt ckpt;
static struct rf_model *const m = &engine.model;
static float *weights;
static const char *label;
static bool muon;

static uint64_t seed = 12;
static double most = 1e-5; /* the largest difference of values that passes */
static bool every_way;     /* compute each length in every way, not in half of them */
static int turn;           /* number of lengths computed so far, which decides on the half */
static uint32_t drawn;
static double uniform(void) { return rf_draw(rf_draw_key(seed, RF_DRAW_REWARD, 0, 0, 0, 0), drawn++); }
static float noise(double scale) { return (float)(scale * (2 * uniform() - 1)); }

/* Opens a model with these options.  mixer: replaces the mixer of every second layer; NULL: none. */
static void open_model(const char *name, const char *options, const struct rf_mixer *mixer)
{
	char text[1000];

	label = name;
	drawn = 0;
	muon = strstr(options, "use_muon");
	snprintf(text, sizeof text,
	         "{%s\"hidden_size\": 20, \"intermediate_size\": 24, \"vocab_size\": 50, "
	         "\"initializer_range\": 0.3%s%s%s%s}",
	         strstr(options, "\"model_type") ? "" : "\"model_type\": \"delta_net\", \"norm_eps\": 1e-3, ",
	         strstr(options, "\"num_hidden_layers") ? "" : ", \"num_hidden_layers\": 2",
	         strncmp(options, "\"num_heads", 10) && !strstr(options, "\"model_type")
	                 ? ", \"num_heads\": 2"
	                 : "",
	         *options ? ", " : "", options);
	must(rf_config_parse(&ckpt.cfg, text, strlen(text), &err));
	for (int i = 0; mixer && i < ckpt.cfg.layers; i += 2)
		ckpt.cfg.mixer[i] = mixer;
	must(rf_params_build(&ckpt.params, &ckpt.cfg, ckpt.cfg.tied, &err));
	weights = room(ckpt.params.total, sizeof *weights);
	rf_init_weights(&ckpt.params, 1, weights);
	for (int i = 0; i < ckpt.params.n; i++)
		/* norms are not 1, biases are not 0, fast weights move */
		for (size_t j = 0; j < ckpt.params.p[i].count; j++) {
			weights[ckpt.params.p[i].offset + j] +=
				noise(ckpt.params.p[i].init == RF_INIT_NORMAL ? 0 : 0.3);
			weights[ckpt.params.p[i].offset + j] +=
				strstr(ckpt.params.p[i].name, "lr_proj.bias") ? 4 : 0;
		}
	engine.ckpt = &ckpt;
	engine.train = true;
	engine.segment = 1 << 20;
	const struct rf_span all = { 0, ckpt.params.total };

	must(rf_model_init(m, &engine.dev, &ckpt.cfg, &ckpt.params, &all, &err));
	rf_model_put(m, 0, weights, ckpt.params.total);
}

static void close_model(void)
{
	if (work.engine)
		rf_work_forget(&work);
	rf_model_free(m);
	free(weights);
	rf_params_free(&ckpt.params);
	rf_config_free(&ckpt.cfg);
}

/* ---- the results of a tree ----------------------------------------------------------------- */

enum { T = 261, MOST = 130, ROLLOUTS = 2, POSITIONS = 11 };
/* the rows off which rollouts branch, not in order: the first, those around ends of chunks and segments, one
 * row twice, the last */
static const int position_row[POSITIONS] = { 0, 191, 62, 63, 64, 127, 128, 63, 192, 17, T - 1 };

static int32_t text[T], roll[MOST * POSITIONS * ROLLOUTS]; /* roll: (steps, positions, n) */
/* (T, d), (steps, positions, per, d): the derivatives of the loss */
static float *dtext, *droll;
static rf_f32 device, logp_device;
static rf_i32 target_device;

struct result {
	float *text, *roll, *logp, *grad;
};

static struct result new_result(void)
{
	size_t d = (size_t)ckpt.cfg.d, R = MOST * POSITIONS * ROLLOUTS;

	return (struct result){ room(T * d, 4), room(R * d, 4), room(R, 4), room(ckpt.params.total, 4) };
}

static void free_result(struct result *r)
{
	free(r->text);
	free(r->roll);
	free(r->logp);
	free(r->grad);
}

static void clear_gradient(void) { engine.dev.ops->zero(&engine.dev, m->g, ckpt.params.total * 4); }

static void fetch(float *to, rf_f32 from, size_t n)
{
	engine.dev.ops->download(&engine.dev, to, from, n * 4);
	must(rf_dev_sync(&engine.dev, &err));
}

/* Computes the log-probabilities of the tokens of rollouts, from the hidden states one step before them. */
static void log_probabilities(float *logp, const float *before, const int32_t *tokens, int rows)
{
	engine.dev.ops->upload(&engine.dev, device, before, (size_t)rows * (size_t)ckpt.cfg.d * 4);
	engine.dev.ops->upload(&engine.dev, target_device, tokens, (size_t)rows * 4);
	RF_RUN(&engine.dev, head_fwd, .rows = rows, .d = ckpt.cfg.d, .N = ckpt.cfg.vocab, .inv_temp = 1.25f,
	       .h = device, .w = rf_w(m, m->head), .target = target_device, .logp = logp_device);
	fetch(logp, logp_device, (size_t)rows);
}

/* Decodes rollouts token by token, which must not change the results of training. */
static void decode_rollouts(struct rf_tree *t, int steps)
{
	rf_tree_decode_begin(t, ROLLOUTS);
	for (int j = 0; j < steps; j++) {
		engine.dev.ops->upload(&engine.dev, target_device, roll + j * POSITIONS * ROLLOUTS,
		                       POSITIONS * ROLLOUTS * 4);
		rf_tree_decode(t, target_device);
	}
}

/* Runs the tree forward, and backward from dtext and droll.  late: the positions are chosen after the
 * sequence has run, and rollouts are drawn before they are trained on. */
static void run_tree(struct result *r, int segment, bool recompute, bool late, int steps)
{
	/* clang-format off */
	const struct rf_plan plan = { .max_len = T, .segment = segment, .positions = POSITIONS, .n = ROLLOUTS,
	                              .k = MOST + late, .train = true, .decode = late,
	                              .recompute = recompute };
	/* clang-format on */
	size_t d = (size_t)ckpt.cfg.d, nb = POSITIONS * ROLLOUTS;
	float *before = room(nb * (size_t)steps * d, 4);
	struct rf_tree *t;

	must(rf_tree_new(&t, m, &plan, &err));
	clear_gradient();
	rf_tree_begin(t, text, T, position_row, late ? 0 : POSITIONS);
	for (int i = 0; late && i < t->segments; i++)
		rf_tree_forward(t, i);
	if (late)
		rf_tree_branch_off(t, position_row, POSITIONS);
	for (int i = 0; i < t->segments; i++) {
		rf_f32 h = late ? rf_tree_capture(t, i) : rf_tree_forward(t, i);
		fetch(r->text + (size_t)rf_tree_first(t, i) * d, h, (size_t)rf_tree_rows(t, i) * d);
	}
	if (late)
		decode_rollouts(t, steps + 1 < 4 ? steps + 1 : 4);
	fetch(r->roll, rf_tree_branch(t, ROLLOUTS, steps, roll), nb * (size_t)steps * d);
	engine.dev.ops->upload(&engine.dev, device, droll, nb * (size_t)steps * d * 4);
	rf_tree_backward_branch(t, device);
	for (int i = t->segments - 1; i >= 0; i--) {
		size_t first = (size_t)rf_tree_first(t, i) * d, n = (size_t)rf_tree_rows(t, i) * d;

		engine.dev.ops->upload(&engine.dev, device, dtext + first, n * 4);
		rf_tree_backward(t, i, device);
	}
	fetch(r->grad, m->g, ckpt.params.total);
	rf_tree_free(t);

	for (size_t b = 0; b < nb; b++)
		memcpy(before + b * d, r->text + (size_t)position_row[b / ROLLOUTS] * d, d * 4);
	memcpy(before + nb * d, r->roll, nb * (size_t)(steps - 1) * d * 4);
	log_probabilities(r->logp, before, roll, (int)nb * steps);
	free(before);
}

/* Computes the same results by separate sequences: the text, and each rollout after its prefix. */
static void run_separate(struct result *r, int steps)
{
	const struct rf_plan plan = { .max_len = T + MOST, .segment = T + MOST, .train = true };
	size_t d = (size_t)ckpt.cfg.d, nb = POSITIONS * ROLLOUTS;
	float *h = room((T + MOST) * d, 4), *dh = room((T + MOST) * d, 4), *logp = room((size_t)steps, 4);
	int32_t *tokens = room(T + MOST, 4);
	struct rf_tree *t;

	must(rf_tree_new(&t, m, &plan, &err));
	clear_gradient();
	for (size_t b = 0; b <= nb; b++) {
		int prefix = b < nb ? position_row[b / ROLLOUTS] + 1 : T, n = b < nb ? prefix + steps : T;

		memcpy(tokens, text, (size_t)prefix * 4);
		memset(dh, 0, (T + MOST) * d * 4);
		for (int j = prefix; j < n; j++) {
			size_t row = (size_t)(j - prefix) * nb + b;
			tokens[j] = roll[row];
			memcpy(dh + (size_t)j * d, droll + row * d, d * 4);
		}
		if (b == nb)
			memcpy(dh, dtext, T * d * 4);
		rf_tree_begin(t, tokens, n, NULL, 0);
		fetch(h, rf_tree_forward(t, 0), (size_t)n * d);
		for (int j = prefix; j < n; j++)
			memcpy(r->roll + ((size_t)(j - prefix) * nb + b) * d, h + (size_t)j * d, d * 4);
		if (b == nb)
			memcpy(r->text, h, T * d * 4);
		engine.dev.ops->upload(&engine.dev, device, dh, (size_t)n * d * 4);
		rf_tree_backward(t, 0, device);
		if (b == nb)
			break;
		log_probabilities(logp, h + (size_t)(prefix - 1) * d, tokens + prefix, steps);
		for (int j = 0; j < steps; j++)
			r->logp[(size_t)j * nb + b] = logp[j];
	}
	fetch(r->grad, m->g, ckpt.params.total);
	rf_tree_free(t);
	free(h);
	free(dh);
	free(logp);
	free(tokens);
}

/* Runs the rollouts that are ready, token by token or in one pass, and writes their hidden states to
 * r->roll.  Returns the number of their positions. */
static int run_rollouts(struct rf_tree *t, struct result *r, int steps)
{
	const int *position;
	size_t d = (size_t)ckpt.cfg.d, nb = (size_t)(rf_tree_ready(t, &position) * ROLLOUTS),
	       n = nb * (size_t)steps;
	int32_t *tokens = room(n, 4);
	float *h = room(n * d, 4);

#define ROW(i) (((i) / nb * POSITIONS + (size_t)position[(i) % nb / ROLLOUTS]) * ROLLOUTS + (i) % ROLLOUTS)
	for (size_t i = 0; i < n; i++)
		tokens[i] = roll[ROW(i)];
	if (nb && !t->plan.decode)
		fetch(h, rf_tree_branch(t, ROLLOUTS, steps, tokens), n * d);
	if (nb && t->plan.decode)
		rf_tree_decode_begin(t, ROLLOUTS);
	for (size_t at = 0; at < n && t->plan.decode; at += nb) {
		engine.dev.ops->upload(&engine.dev, target_device, tokens + at, nb * 4);
		fetch(h + at * d, rf_tree_decode(t, target_device), nb * d);
	}
	for (size_t i = 0; i < n; i++)
		memcpy(r->roll + ROW(i) * d, h + i * d, d * 4);
#undef ROW
	free(tokens);
	free(h);
	return rf_tree_ready(t, NULL);
}

/* Runs the text and the rollouts at `positions` positions, without a backward pass.  Returns whether the
 * text slid. */
static bool run_forward(struct result *r, int max_len, int segment, int positions, int steps, bool decode)
{
	const struct rf_plan plan = { .max_len = max_len,
		                      .segment = segment,
		                      .positions = positions,
		                      .n = ROLLOUTS,
		                      .k = steps,
		                      .decode = decode };
	size_t d = (size_t)ckpt.cfg.d;
	struct rf_tree *t;
	int branched = 0;
	bool slides;

	must(rf_tree_new(&t, m, &plan, &err));
	rf_tree_begin(t, text, T, position_row, positions);
	for (int i = 0; i < t->segments; i++) {
		fetch(r->text + (size_t)rf_tree_first(t, i) * d, rf_tree_forward(t, i),
		      (size_t)rf_tree_rows(t, i) * d);
		branched += run_rollouts(t, r, steps);
	}
	if (branched != positions)
		ok(false, "%s, segments of %d: rollouts at %d positions", label, segment, branched);
	slides = t->slides;
	rf_tree_free(t);
	return slides;
}

/* ---- operations that the tests replace ----------------------------------------------------- */

/* Devices copy rows in any order, so a copy may not read rows that it writes.  On the CPU such a copy would
 * pass. */
static const struct rf_ops *real;
static int overlaps;

/* Counts the copies whose source and target overlap. */
static void watched_rows(struct rf_dev *d, const struct rf_rows *x)
{
	size_t n = (size_t)(x->n - 1) * 4, width = (size_t)x->d * 4;
	uintptr_t from = (uintptr_t)x->from, from_end = from + n * (size_t)(x->lf ? x->lf : x->d) + width;
	uintptr_t to = (uintptr_t)x->to, to_end = to + n * (size_t)(x->lt ? x->lt : x->d) + width;

	overlaps += x->n > 0 && !x->fi && !x->ti && from < to_end && to < from_end;
	real->rows(d, x);
}

/* Computes each number of a product by itself, so that it does not depend on the number of rows. */
static void plain_gemm(struct rf_dev *d, const struct rf_gemm *x)
{
	const float *a = cpu_f32(d, x->a), *b = cpu_f32(d, x->b), *bias = cpu_f32(d, x->bias);
	float *c = cpu_f32(d, x->c);

	for (size_t i = 0; i < (size_t)x->m; i++)
		for (size_t j = 0; j < (size_t)x->n; j++) {
			size_t at = i * (size_t)x->ldc + j, lda = (size_t)x->lda, ldb = (size_t)x->ldb;
			double sum = (x->add ? (double)c[at] : 0) + (bias ? (double)bias[j] : 0);

			for (size_t l = 0; l < (size_t)x->k; l++)
				sum += (double)a[x->ta ? l * lda + i : i * lda + l] *
				       (double)b[x->tb ? j * ldb + l : l * ldb + j];
			c[at] = (float)sum;
		}
}

/* Runs the head for each row by itself, for the same reason. */
static void plain_head(struct rf_dev *d, const struct rf_head_fwd *x)
{
	for (int i = 0; i < x->rows; i++) {
		struct rf_head_fwd one = *x;

		one.rows = 1;
		one.h = rf_at(x->h, (size_t)i * (size_t)x->d);
		one.target = rf_at_i32(x->target, (size_t)i);
		one.entropy = rf_at(x->entropy, (size_t)i);
		one.logp = rf_at(x->logp, (size_t)i);
		one.top = rf_at_i32(x->top, (size_t)i);
		real->head_fwd(d, &one);
	}
}

/* ---- comparing ----------------------------------------------------------------------------- */

/* Checks that two results are within the tolerances. */
static void check_near(const struct result *have, const struct result *expect, int steps, const char *how)
{
	size_t d = (size_t)ckpt.cfg.d, R = (size_t)steps * POSITIONS * ROLLOUTS;
	double h = distance(have->text, expect->text, T * d), b = distance(have->roll, expect->roll, R * d);
	double l = distance(have->logp, expect->logp, R), worst = 0;
	const char *where = "";

	for (int i = 0; i < ckpt.params.n; i++) {
		const struct rf_param *p = &ckpt.params.p[i];
		double x = distance(have->grad + p->offset, expect->grad + p->offset, p->count);

		if (!(x <= worst)) {
			worst = x;
			where = p->name;
		}
	}
	double limit = muon ? 5 * most : most;

	ok(h <= limit && b <= limit && l <= limit,
	   "%s, %d steps, %s: text %.1e rollouts %.1e log-probabilities %.1e", label, steps, how, h, b, l);
	ok(worst <= (muon ? 5e-3 : 1e-4), "%s, %d steps, %s: gradients %.1e %s", label, steps, how, worst,
	   where);
}

/* Checks that positions that are chosen after the sequence has run give the same bits. */
static void check_equal(const struct result *after, const struct result *have, int steps, const char *how)
{
	size_t d = (size_t)ckpt.cfg.d, R = (size_t)steps * POSITIONS * ROLLOUTS;

	ok(!memcmp(after->text, have->text, T * d * 4), "%s, %d steps, %s, late: text", label, steps, how);
	ok(!memcmp(after->roll, have->roll, R * d * 4), "%s, %d steps, %s, late: rollouts", label, steps,
	   how);
	ok(!memcmp(after->grad, have->grad, ckpt.params.total * 4), "%s, %d steps, %s, late: gradients",
	   label, steps, how);
}

/* Checks the results without a backward pass.  A text that is longer than its window slides, with the same
 * results. */
static void check_forward(const struct result *expect, int steps)
{
	static const struct {
		int segment;
		bool decode;
	} how[] = { { 64, true }, { 300, true }, { 64, false }, { 128, false } };
	size_t d = (size_t)ckpt.cfg.d, n = (size_t)steps * POSITIONS * ROLLOUTS * d;
	double limit = muon ? 5 * most : most;
	struct result have = new_result(), again = new_result();
	bool attends = false;

	for (int i = 0; i < ckpt.cfg.layers; i++)
		attends |= ckpt.cfg.mixer[i]->reads != NULL;
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		if (!every_way && (i + (size_t)turn / 2) % 2)
			continue;
		bool slid = run_forward(&have, T, how[i].segment, POSITIONS, steps, how[i].decode);
		double x = distance(have.roll, expect->roll, n), h = distance(have.text, expect->text, T * d);

		ok(x <= limit && h <= limit, "%s, %d steps %s, segments of %d: text %.1e rollouts %.1e",
		   label, steps, how[i].decode ? "token by token" : "in one pass", how[i].segment, h, x);
		ok(slid == (attends && ckpt.cfg.attn.window &&
		            rf_segment(ckpt.cfg.attn.window - 1) + how[i].segment < T),
		   "%s, segments of %d: %s", label, how[i].segment,
		   slid ? "the text slides" : "all rows are kept");
		/* a tree with memory for longer texts gives the same bits */
		ok(run_forward(&again, 3 * T, how[i].segment, POSITIONS, steps, how[i].decode) == slid &&
		           !memcmp(again.roll, have.roll, n * 4) && !memcmp(again.text, have.text, T * d * 4),
		   "%s, %d steps, segments of %d, in a tree for longer texts", label, steps, how[i].segment);
	}
	run_forward(&have, T, 64, 0, 0, false);
	run_forward(&again, 3 * T, 64, 0, 0, false);
	ok(distance(have.text, expect->text, T * d) <= limit, "%s, the text without rollouts", label);
	ok(!memcmp(again.text, have.text, T * d * 4),
	   "%s, the text without rollouts, in a tree for longer texts", label);
	free_result(&have);
	free_result(&again);
}

static void check_exact(const char *name, const char *options, const struct rf_mixer *mixer,
                        const int *lengths, int n)
{
	size_t d, R = MOST * POSITIONS * ROLLOUTS;
	struct result expect, have, after;
	char how[80];

	open_model(name, options, mixer);
	for (int i = 0; i < ckpt.cfg.layers; i++)
		/* attention sums over the cache in another order than over rows */
		if (most <= 0 && ckpt.cfg.mixer[i]->reads) {
			close_model();
			return;
		}
	d = (size_t)ckpt.cfg.d;
	expect = new_result();
	have = new_result();
	after = new_result();
	dtext = room(T * d, 4);
	droll = room(R * d, 4);
	device = engine.dev.ops->alloc(&engine.dev, R * d * 4);
	logp_device = engine.dev.ops->alloc(&engine.dev, R * 4);
	target_device = engine.dev.ops->alloc(&engine.dev, R * 4);
	for (int i = 0; i < T; i++)
		text[i] = (int32_t)(50 * uniform());
	for (size_t i = 0; i < R; i++)
		roll[i] = (int32_t)(50 * uniform());
	for (size_t i = 0; i < T * d; i++)
		dtext[i] = noise(1);
	for (size_t i = 0; i < R * d; i++)
		droll[i] = noise(1);
	for (int l = 0; l < n; l++) {
		static const int segments[] = { 1, 128, 300 }; /* 1 is rounded up to 64 */

		run_separate(&expect, lengths[l]);
		for (int s = 0; s < 3; s++)
			for (int again = 0; again < 2; again++) {
				if (!every_way && (s + again + turn) % 2)
					continue;
				run_tree(&have, segments[s], again, false, lengths[l]);
				if (every_way || s == turn / 2 % 3)
					run_tree(&after, segments[s], again, true, lengths[l]);
				snprintf(how, sizeof how, "segments of %d%s",
				         segments[s] < RF_CHUNK ? RF_CHUNK : segments[s],
				         again ? ", recomputed" : "");
				check_near(&have, &expect, lengths[l], how);
				if (every_way || s == turn / 2 % 3)
					check_equal(&after, &have, lengths[l], how);
			}
		check_forward(&expect, lengths[l]);
		turn++;
	}
	engine.dev.ops->release(&engine.dev, device);
	engine.dev.ops->release(&engine.dev, logp_device);
	engine.dev.ops->release(&engine.dev, target_device);
	free(dtext);
	free(droll);
	free_result(&expect);
	free_result(&have);
	free_result(&after);
	close_model();
}

/* Options of Qwen3.5, in which every fourth layer is softmax attention. */
#define QWEN "\"model_type\": \"qwen3_5_text\", \"rms_norm_eps\": 1e-3, "
#define QWEN_DELTA(G, H, w) \
	"\"linear_num_key_heads\": " #G ", \"linear_num_value_heads\": " #H \
	", \"linear_key_head_dim\": 5, \"linear_value_head_dim\": 7, \"linear_conv_kernel_dim\": " #w ", "
#define QWEN_ATTENTION(H, G, D, part) \
	"\"num_attention_heads\": " #H ", \"num_key_value_heads\": " #G ", \"head_dim\": " #D \
	", \"rope_parameters\": {\"partial_rotary_factor\": " #part "}"

/* Options of Gated DeltaNet.  Noise is added to biases, so that decays have all sizes. */
#define GATED "\"model_type\": \"gated_deltanet\", \"norm_eps\": 1e-3, \"num_heads\": 2, "

#define LACT(chunk) \
	"\"model_type\": \"lact_swiglu\", \"norm_eps\": 1e-3, \"num_attn_heads\": 5, " \
	"\"num_lact_heads\": 2, \"lact_chunk_size\": " chunk

/* brief: only short rollouts, because the state keeps all rounding errors */
static const struct {
	const char *name, *options;
	bool brief;
} models[] = {
	{ "plain", "", false },
	{ "gate", "\"use_gate\": true", false },
	{ "negative eigenvalues", "\"allow_neg_eigval\": true", false },
	{ "no convolution", "\"use_short_conv\": false", false },
	{ "convolution of width 1", "\"conv_size\": 1", false },
	{ "convolution of width 7", "\"conv_size\": 7", false },
	{ "relu", "\"qk_activation\": \"relu\"", false },
	{ "elu", "\"qk_activation\": \"elu\"", false },
	{ "identity", "\"qk_activation\": \"identity\"", false },
	{ "sum norm", "\"qk_activation\": \"elu\", \"qk_norm\": \"sum\"", false },
	{ "no beta", "\"use_beta\": false", false },
	{ "reflections", "\"use_beta\": false, \"allow_neg_eigval\": true", true },
	{ "narrow keys, wide values", "\"num_heads\": 1, \"expand_k\": 0.5, \"expand_v\": 1.3", false },
	{ "attention", "\"attn\": {\"layers\": [1], \"num_heads\": 5}", false },
	{ "attention with a window",
	  "\"num_hidden_layers\": 3, \"attn\": {\"layers\": [0, 2], \"num_heads\": 10, \"num_kv_heads\": 5, "
	  "\"qkv_bias\": true, \"window_size\": 9}",
	  false },
	{ "attention to the row itself", "\"attn\": {\"layers\": [0], \"num_heads\": 1, \"window_size\": 1}",
	  false },
	{ "attention with a long window",
	  "\"attn\": {\"layers\": [0, 1], \"num_heads\": 2, \"num_kv_heads\": 1, \"window_size\": 100}",
	  false },
	{ "decay", GATED "\"head_dim\": 5", false },
	{ "decay, grouped values", GATED "\"head_dim\": 6, \"num_v_heads\": 6, \"expand_v\": 1.5", false },
	{ "decay, negative eigenvalues, no gate",
	  GATED "\"head_dim\": 8, \"expand_v\": 1, \"allow_neg_eigval\": true, \"use_gate\": false", false },
	{ "decay, no convolution, tied",
	  GATED "\"head_dim\": 20, \"use_short_conv\": false, \"tie_word_embeddings\": true", false },
	{ "decay and attention",
	  GATED "\"head_dim\": 7, \"num_v_heads\": 4, \"conv_size\": 3, \"attn\": {\"layers\": [0], "
	        "\"num_heads\": 5, "
	        "\"window_size\": 40}",
	  false },
	{ "Qwen3.5",
	  QWEN "\"num_hidden_layers\": 3, \"full_attention_interval\": 3, " QWEN_DELTA(2, 4, 4)
	          QWEN_ATTENTION(4, 2, 8, 0.25),
	  false },
	{ "Qwen3.5, all heads of their own, tied",
	  QWEN "\"full_attention_interval\": 2, \"tie_word_embeddings\": true, " QWEN_DELTA(3, 3, 2)
	          QWEN_ATTENTION(2, 2, 6, 1),
	  false },
	{ "Qwen3.5's delta rule, one key head, no convolution to speak of",
	  QWEN QWEN_DELTA(1, 3, 1) QWEN_ATTENTION(1, 1, 2, 1), false },
	{ "Qwen3.5's attention", QWEN "\"full_attention_interval\": 1, " QWEN_ATTENTION(4, 2, 8, 0.25),
	  false },
	{ "Qwen3.5's attention, odd heads, nothing rotated, tied",
	  QWEN "\"full_attention_interval\": 1, \"tie_word_embeddings\": true, " QWEN_ATTENTION(3, 1, 5, 0),
	  false },
	{ "tied, every option",
	  "\"tie_word_embeddings\": true, \"use_gate\": true, \"allow_neg_eigval\": true, \"conv_size\": 2, "
	  "\"attn\": {\"layers\": [1], \"num_heads\": 2, \"window_size\": 70}",
	  false },
	{ "LaCT", LACT("24") ", \"w0_w2_low_rank\": 3, \"window_size\": 9", false },
	{ "LaCT, whole", LACT("100") ", \"window_size\": 70", false },
	{ "LaCT, chunks of 4, every option",
	  LACT("4") ", \"w0_w2_low_rank\": 4, \"window_size\": 1, \"ttt_prenorm\": true, \"ttt_nope\": true, "
	            "\"attn_qk_norm\": true, \"qkv_bias\": true, \"no_v_silu\": true, \"inter_multi\": 2, "
	            "\"learnable_ttt_scale\": false",
	  false },
	{ "LaCT, chunks of 1", LACT("1") ", \"window_size\": 9", true },
	{ "LaCT without momentum and silu",
	  LACT("16") ", \"use_momentum\": false, \"qkv_silu\": false, \"inter_multi\": 0.5, \"window_size\": "
	             "70",
	  false },
	{ "LaCT without momentum, with prenorm",
	  LACT("64") ", \"use_momentum\": false, \"ttt_prenorm\": true, \"window_size\": 100", false },
	{ "LaCT with prenorm",
	  LACT("24") ", \"ttt_prenorm\": true, \"w0_w2_low_rank\": 2, \"window_size\": 16", false },
	{ "LaCT, one chunk", LACT("300") ", \"window_size\": 400", true },
	{ "LaCT with Muon",
	  LACT("24") ", \"use_muon\": true, \"inter_multi\": 2, "
	             "\"window_size\": 9",
	  false },
	{ "LaCT with Muon, every option but a window",
	  LACT("24") ", \"use_muon\": true, \"ttt_prenorm\": true, \"attn_qk_norm\": true, "
	             "\"qkv_bias\": true, \"w0_w2_low_rank\": 3, \"window_size\": null, "
	             "\"tie_word_embeddings\": true",
	  false },
	{ "LaCT with Muon, without momentum",
	  LACT("16") ", \"use_muon\": true, \"use_momentum\": false, \"ttt_prenorm\": true, "
	             "\"inter_multi\": 0.5, \"window_size\": 9",
	  true },
};
enum { MODELS = sizeof models / sizeof *models };

/* The mixer of running_mean.h: with delta rule layers, and also with a layer that reads rows. */
static const struct {
	const char *name, *options;
} own[] = {
	{ "a mixer of this test", "\"num_hidden_layers\": 3" },
	{ "a mixer of this test and attention",
	  "\"num_hidden_layers\": 4, \"attn\": {\"layers\": [1], \"num_heads\": 5, \"window_size\": 9}" },
};
enum { OWN = sizeof own / sizeof *own };

/* ---- finite differences -------------------------------------------------------------------- */

/* Policy losses whose gradient is their derivative: each model is tested with one of them. */
static const struct rf_policy policies[] = {
	RF_POLICY_DEFAULTS,
	{ .clip = 0.2,
	  .clip_high = 0.5,
	  .dual_clip = 3,
	  .kl_coef = 0.5,
	  .kl = RF_KL_K3,
	  .entropy_coef = 0.4 },
	{ .ratio = RF_RATIO_SEQUENCE, .clip = 0.2, .clip_high = NAN, .dual_clip = 3, .entropy_coef = -0.7 },
	{ .mean = RF_RL_MEAN_ROLLOUTS,
	  .clip = 0.2,
	  .clip_high = NAN,
	  .dual_clip = 3,
	  .kl_coef = 0.3,
	  .kl = RF_KL_K2 },
};
enum { POLICIES = sizeof policies / sizeof *policies };

/* Computes the gradient of a batch.  Returns the weighted sum of both losses. */
static double both_losses(struct rf_train *t, struct rf_record *const *batch, int n)
{
	const struct rf_policy *p = &t->policy;
	struct rf_train_stats st;

	must(rf_train_gradient(t, batch, n, NULL, &st, &err));
	return t->rl_coef * (st.loss_rl + p->kl_coef * st.kl_ref - p->entropy_coef * st.rl_entropy) +
	       t->ntp_coef * st.loss_ntp;
}

/* Returns the loss after a step of length `step` in the direction `way` of one tensor. */
static double loss_at(struct rf_train *t, struct rf_record *const *batch, int n, const struct rf_param *p,
                      const float *way, double step)
{
	float *w = room(p->count, 4);

	for (size_t i = 0; i < p->count; i++)
		w[i] = (float)((double)weights[p->offset + i] + step * (double)way[i]);
	engine.dev.ops->upload(&engine.dev, rf_at(m->w, p->offset), w, p->count * 4);
	double loss = both_losses(t, batch, n);
	free(w);
	engine.dev.ops->upload(&engine.dev, m->w, weights, ckpt.params.total * 4);
	return loss;
}

static void make_record(struct rf_record *r, uint64_t id, int length, int c, int n, int k)
{
	rf_record_init(r);
	r->id = id;
	r->T = length;
	r->prompt_len = -1;
	r->tokens = room((size_t)length, 4);
	for (int i = 0; i < length; i++)
		r->tokens[i] = (int32_t)(50 * uniform());
	if (!c)
		return;
	r->c = c;
	r->positions = room((size_t)c, 4);
	r->rollout = (struct rf_rollout){ .temperature = 0.8, .n = n, .k = k };
	r->rollout.tokens = room((size_t)(c * n * k), 4);
	r->rollout.logp = room((size_t)(c * n * k), 4);
	r->rollout.logp_ref = room((size_t)(c * n * k), 4);
	r->advantage = room((size_t)(c * n), 4);
	for (int i = 0; i < c; i++)
		r->positions[i] = i ? 1 + (int)((length - k) * uniform()) : 1;
	for (int i = 0; i < c * n * k; i++)
		r->rollout.tokens[i] = (int32_t)(50 * uniform());
	for (int i = 0; i < c * n; i++)
		r->advantage[i] = noise(2);
}

/* Sets the old log-probabilities to those of the tree plus noise, so that ratios are between the kinks of
 * the loss, and those of the reference to other values. */
static void set_old(struct rf_record *r)
{
	size_t nb = (size_t)(r->c * r->rollout.n), k = (size_t)r->rollout.k, d = (size_t)ckpt.cfg.d;
	const struct rf_plan plan = {
		.max_len = r->T, .segment = r->T, .positions = r->c, .n = r->rollout.n, .k = (int)k
	};
	float *h = room((size_t)r->T * d, 4), *before = room(nb * k * d, 4), *logp = room(nb * k, 4);
	int32_t *tokens = room(nb * k, 4);
	int *row = room((size_t)r->c, sizeof *row);
	struct rf_tree *t;

	for (int i = 0; i < r->c; i++)
		row[i] = r->positions[i] - 1;
	for (size_t b = 0; b < nb; b++)
		for (size_t j = 0; j < k; j++)
			tokens[j * nb + b] = r->rollout.tokens[b * k + j];
	device = engine.dev.ops->alloc(&engine.dev, nb * k * d * 4);
	logp_device = engine.dev.ops->alloc(&engine.dev, nb * k * 4);
	target_device = engine.dev.ops->alloc(&engine.dev, nb * k * 4);
	must(rf_tree_new(&t, m, &plan, &err));
	rf_tree_begin(t, r->tokens, r->T, row, r->c);
	fetch(h, rf_tree_forward(t, 0), (size_t)r->T * d);
	for (size_t b = 0; b < nb; b++)
		memcpy(before + b * d, h + (size_t)row[b / (size_t)r->rollout.n] * d, d * 4);
	if (k > 1)
		fetch(before + nb * d, rf_tree_branch(t, r->rollout.n, (int)k, tokens), nb * (k - 1) * d);
	log_probabilities(logp, before, tokens, (int)(nb * k));
	for (size_t b = 0; b < nb; b++)
		for (size_t j = 0; j < k; j++)
			r->rollout.logp[b * k + j] = logp[j * nb + b] + noise(0.05);
	for (size_t i = 0; i < nb * k; i++)
		r->rollout.logp_ref[i] = r->rollout.logp[i] + noise(0.5);
	rf_tree_free(t);
	engine.dev.ops->release(&engine.dev, device);
	engine.dev.ops->release(&engine.dev, logp_device);
	engine.dev.ops->release(&engine.dev, target_device);
	free(h);
	free(before);
	free(logp);
	free(tokens);
	free(row);
}

static void free_record(struct rf_record *r)
{
	free(r->tokens);
	free(r->positions);
	free(r->rollout.tokens);
	free(r->rollout.logp);
	free(r->rollout.logp_ref);
	free(r->advantage);
}

/* Checks the slope of one of `every` tensors, each in a random direction.  (4 D(h) - D(2h)) / 3 has no error
 * of order h^2. */
static void check_slope(const char *name, const char *options, const struct rf_mixer *mixer, int from,
                        int every)
{
	struct rf_train t = RF_TRAIN_DEFAULTS;
	struct rf_record r[3], *batch[3] = { &r[0], &r[1], &r[2] };
	float *grad, *way;
	double worst = 0;
	const char *where = "";

	open_model(name, options, mixer);
	grad = room(ckpt.params.total, 4);
	way = room(ckpt.params.total, 4);
	t.engine = &engine;
	t.work = &work;
	rf_work_init(&work, &engine, rf_train_use(&t));
	t.rl_coef = 0.7;
	t.policy = policies[(from + from / 4) % POLICIES];
	make_record(&r[0], 5, 70, 3, 2, 3);
	make_record(&r[1], 3, 9, 0, 0, 0);
	make_record(&r[2], 9, 12, 2, 1, 1);
	set_old(&r[0]);
	set_old(&r[2]);
	both_losses(&t, batch, 3);
	fetch(grad, m->g, ckpt.params.total);
	for (int i = from % every; i < ckpt.params.n; i += every) {
		const struct rf_param *p = &ckpt.params.p[i];
		double dot = 0, norm = 0, d[2], size = 0, least = INFINITY;

		for (size_t j = 0; j < p->count; j++)
			size += (double)grad[p->offset + j] * (double)grad[p->offset + j];
		size = sqrt(size / (double)p->count);
		/* a direction near the gradient, so that the slope is not small by chance */
		for (size_t j = 0; j < p->count; j++) {
			way[j] = noise(1) + (size > 0 ? 2 * grad[p->offset + j] / (float)size : 0);
			norm += (double)way[j] * (double)way[j];
		}
		for (size_t j = 0; j < p->count; j++) {
			way[j] /= (float)sqrt(norm);
			dot += (double)way[j] * (double)grad[p->offset + j];
		}
		/* try several steps: one may be too small for rounding, or too large for curvature */
		for (int h = 0; h < 4 && !(least <= 1e-3); h++) {
			static const double steps[] = { 1e-3, 2.5e-4, 4e-3, 1.6e-2 };

			for (int j = 0; j < 2; j++) {
				double step = steps[h] * (1 + j);
				d[j] = (loss_at(&t, batch, 3, p, way, step) -
				        loss_at(&t, batch, 3, p, way, -step)) /
				       (2 * step);
			}
			least = fmin(least, fabs((4 * d[0] - d[1]) / 3 - dot) / fmax(fabs(dot), 1e-3));
		}
		if (!(least <= worst)) {
			worst = least;
			where = p->name;
		}
	}
	ok(worst <= (muon ? 3e-2 : 1e-2), "%s: slopes %.1e %s", label, worst, where);
	rf_train_close(&t);
	for (int i = 0; i < 3; i++)
		free_record(&r[i]);
	free(grad);
	free(way);
	close_model();
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Checks that a step of training takes no more memory than --dry-run prints, also for operations, whose
 * memory a GPU counts with the rest. */
static void check_memory(const char *name, const char *options, const struct rf_mixer *mixer)
{
	struct rf_train t = RF_TRAIN_DEFAULTS;
	struct rf_shape shape = { .T = 200, .c = 3, .n = 2, .k = 5 };
	struct rf_record r, *batch[1] = { &r };
	struct rf_memory plan;
	enum { BLOCKS = 8, BLOCK = 128 }; /* a device may add a header to each block, and round it up */
	const bool apart = strcmp(engine.dev.ops->name, "cuda"); /* operations have memory of their own */
	size_t before = engine.dev.used, scratch = 0, extra, took, planned, limit;

	open_model(name, options, mixer);
	t.engine = &engine;
	t.work = &work;
	rf_work_init(&work, &engine, rf_train_use(&t));
	must(rf_work_memory(&engine, &shape, &plan, &err));
	make_record(&r, 1, shape.T, shape.c, shape.n, shape.k);
	set_old(&r);
	must(rf_train_open(&t, &err));
	extra = engine.dev.used - before - plan.weights;
	both_losses(&t, batch, 1);
	took = engine.dev.used - before - extra;
	planned = plan.weights + plan.pass;
	limit = planned + (apart ? 0 : plan.device) + BLOCKS * BLOCK;
	ok(took >= planned && took <= limit, "%s: a step takes the planned memory, %zu bytes of %zu to %zu",
	   label, took, planned, limit);
	for (int i = 0; !strcmp(engine.dev.ops->name, "cpu") && i <= engine.dev.threads; i++)
		scratch += cpu_of(&engine.dev)->scratch[i].size;
	ok(scratch <= plan.device, "%s: operations take %zu bytes, no more than the %zu planned", label,
	   scratch, plan.device);
	rf_train_close(&t);
	free_record(&r);
	close_model();
}

/* Checks the limit of plan.apart: the rows of all sequences are counted in int, if a layer reads rows. */
static void check_many_sequences(void)
{
	static const struct {
		const char *name, *options;
		bool reads;
	} of[] = {
		{ "delta rule", "", false },
		{ "delta rule and attention", "\"attn\": {\"layers\": [1], \"num_heads\": 2}", true },
	};
	struct rf_plan plan = { .segment = 64, .n = 1, .k = 1, .decode = true, .apart = true };
	struct rf_tree *t;

	for (int i = 0; i < 2; i++) {
		open_model(of[i].name, of[i].options, NULL);
		plan.max_len = 100;
		plan.positions = 2;
		must(rf_tree_new(&t, &engine.model, &plan, &err));
		ok(t->cache.stride == (of[i].reads ? 128 : 0), "%s: the cache has %d rows for each sequence",
		   label, t->cache.stride);
		rf_tree_free(t);
		plan.max_len = 524289;
		plan.positions = 4096;
		ok(!rf_tree_bytes(&engine.model, &plan) == of[i].reads,
		   "%s: 4096 sequences of 524289 rows are refused if their rows are kept", label);
		close_model();
	}
}

/* Opens a device with these operations: those of the device, except for the ones that the tests replace. */
static void open_device(const char *name, struct rf_ops *ops)
{
	must(rf_dev_open(&engine.dev, name && *name ? name : "cpu", 1, RF_MATH_F32, NULL, &err));
	real = engine.dev.ops;
	*ops = *real;
	ops->rows = watched_rows;
	engine.dev.ops = ops;
}

int main(int argc, char **argv)
{
	static const int lengths[] = { 5, 1, 65, 63, 64, MOST };
	/* one length for each model: a long one in each family */
	static const int one[] = { 65, 5, 1, 5, 1, 63, 5, 1, 5, 64, 1, 5, 1, 5, MOST, 1, 5, 1 };
	bool all = argc > 2 && !strcmp(argv[2], "all"), slopes = argc > 1 && !strcmp(argv[1], "slope");
	bool bits = argc > 1 && !strcmp(argv[1], "bits");
	const char *device_name = getenv("RF_DEVICE");
	int every = getenv("RF_EVERY") ? atoi(getenv("RF_EVERY")) : 1;
	struct rf_ops ops;

	every_way = all;
	if (getenv("RF_SEED"))
		seed = strtoull(getenv("RF_SEED"), NULL, 10);
	for (int i = 0; i <= MODELS && !bits && !slopes; i++) {
		if (i % every && i < MODELS)
			continue;
		open_device(device_name, &ops); /* a new device, whose operations have no memory yet */
		if (i < MODELS)
			check_memory(models[i].name, models[i].options, NULL);
		else
			check_memory(own[1].name, own[1].options, &running_mean);
		engine.dev.ops = real;
		rf_dev_close(&engine.dev);
	}
	open_device(bits ? NULL : device_name, &ops);
	if (bits) {
		ops.gemm = plain_gemm;
		ops.head_fwd = plain_head;
		most = 0;
	}
	for (int i = 0; i < MODELS; i += every)
		if (slopes && !strstr(models[i].options, "relu")) /* relu has a kink at 0 */
			check_slope(models[i].name, models[i].options, NULL, i / every, all ? 1 : 4);
		else if (!slopes)
			check_exact(models[i].name, models[i].options, NULL,
			            /* clang-format off */
			      all                        ? lengths
			      : models[i].brief && !bits ? lengths + i % 2
			                                 : one + i % (int)(sizeof one / sizeof *one),
			      !all                       ? 1
			      : models[i].brief && !bits ? 2
			                                 : 6);
	/* clang-format on */
	for (int i = 0; i < OWN; i++)
		if (slopes)
			check_slope(own[i].name, own[i].options, &running_mean, i, all ? 1 : 4);
		else
			check_exact(own[i].name, own[i].options, &running_mean,
			            all ? lengths : lengths + 2 * i % 6, all ? 6 : 1);
	if (!bits && !slopes)
		check_many_sequences();
	ok(!overlaps, "no copy of rows reads what it writes");
	engine.dev.ops = real;
	rf_dev_close(&engine.dev);
	return tap_end();
}
