/* method GOLDEN -- tests the mathematics of the method against reference figures, second implementations and
 * finite differences.  Prints TAP; GOLDEN is t/golden. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "refine/advantage.h"
#include "train/figures.h"
#include "refine/reward.h"
#include "refine/select.h"
#include "unit/tap.h"

static bool near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance; /* false for a NaN */
}

/* Returns number i of a stream of numbers in [0, 1), for the inputs of tests. */
static double noise(uint64_t i) { return rf_draw(0x9e3779b97f4a7c15, (uint32_t)i); }

/* ---- the reference figures of method.json -------------------------------------------------- */

/* Writes the numbers of a list, which may be nested, to out, one after the other. */
static int flatten(json_t *a, double *out, int n)
{
	size_t i;
	json_t *x;

	if (!json_is_array(a)) {
		out[n] = json_number_value(a);
		return n + 1;
	}
	json_array_foreach (a, i, x)
		n = flatten(x, out, n);
	return n;
}

static int numbers(json_t *of, const char *key, double *out)
{
	return flatten(json_object_get(of, key), out, 0);
}

static int whole(json_t *of, const char *key) { return (int)json_integer_value(json_object_get(of, key)); }

static void words(json_t *of, const char *key, uint32_t *out)
{
	size_t i;
	json_t *x;

	json_array_foreach (json_object_get(of, key), i, x)
		out[i] = (uint32_t)strtoul(json_string_value(x), NULL, 16);
}

static void test_philox(json_t *golden)
{
	size_t i;
	json_t *v;

	json_array_foreach (json_object_get(golden, "philox4x32_10"), i, v) {
		uint32_t counter[4], key[2], want[4], out[4];

		words(v, "counter", counter);
		words(v, "key", key);
		words(v, "out", want);
		rf_philox4x32(counter, key, out);
		ok(!memcmp(out, want, sizeof out), "philox 4x32-10: published vector %zu", i);
	}
	ok(i == 3, "philox 4x32-10: the file has all three vectors");
}

static void test_smooth(json_t *golden, const float *H, int T)
{
	const char *kernel;
	json_t *v;
	int seen = 0;

	json_object_foreach (json_object_get(golden, "smooth"), kernel, v) {
		double want[1000], out[1000], worst = 0;
		int n = flatten(v, want, 0);

		rf_smooth(H, T, atoi(kernel), out);
		for (int t = 0; t < T; t++)
			worst = fmax(worst, fabs(out[t] - want[t]));
		ok(n == T && worst <= 1e-6, "smoothing of width %s: off by %.1e", kernel, worst);
		seen++;
	}
	ok(seen == 5, "smoothing: the file has all five widths");
}

static void test_probabilities(json_t *golden, const float *H, int T)
{
	size_t i;
	json_t *v;

	json_array_foreach (json_object_get(golden, "selection"), i, v) {
		double want[1000], smooth[1000], p[1000], worst = 0;
		int c = whole(v, "chunks"), n = T / c, m = numbers(v, "probabilities", want);

		rf_smooth(H, T, whole(v, "smooth"), smooth);
		for (int j = 0; j < c; j++)
			rf_select_probabilities(smooth + j * n, n,
			                        json_number_value(json_object_get(v, "tau")), p + j * n);
		for (int t = 0; t < m; t++)
			worst = fmax(worst, fabs(p[t] - want[t]));
		ok(m == c * n && worst <= 1e-6, "selection probabilities of %d chunks: off by %.1e", c,
		   worst);
	}
	ok(i == 3, "selection probabilities: the file has all three cases");
}

static void test_advantages(json_t *golden)
{
	size_t i;
	json_t *v;

	json_array_foreach (json_object_get(golden, "advantage"), i, v) {
		double R[100], want[100], worst = 0;
		float total[100];
		bool sequence = !strcmp(json_string_value(json_object_get(v, "group")), "sequence");
		int G = numbers(v, "reward", R), c = (int)json_array_size(json_object_get(v, "reward"));
		struct rf_advantage a = {
			.group = sequence ? RF_GROUP_SEQUENCE : RF_GROUP_POSITION,
			.no_std = !json_is_true(json_object_get(v, "std")),
		};
		struct rf_group_stats st = { 0, 0 };
		struct rf_record r;
		struct rf_err e;
		int32_t tokens[100] = { 0 };

		numbers(v, "advantage", want);
		for (int g = 0; g < G; g++)
			total[g] = (float)R[g];
		rf_record_init(&r);
		r.c = c;
		r.rollout.n = r.reward.n = G / c;
		r.rollout.tokens = tokens;
		r.reward.kind = "cosine";
		r.reward.total = total;
		if (rf_advantage_record(&a, &r, &st, &e) != RF_OK)
			worst = INFINITY;
		for (int g = 0; g < G && worst < INFINITY; g++)
			worst = fmax(worst, fabs(r.advantage[g] - want[g]));
		ok(worst <= 1e-6 && st.groups == (sequence ? 1 : c) && st.spread_free == (G == 16),
		   "advantages, group %s%s: off by %.1e", sequence ? "sequence" : "position",
		   a.no_std ? ", --no-std" : "", worst);
		rf_record_free(&r);
	}
	ok(i == 6, "advantages: the file has all six cases");
}

/* ---- random numbers ------------------------------------------------------------------------ */

/* Compares draws with those of a Python implementation of XXH64 and Philox, written from their
 * descriptions. */
static void test_draws(void)
{
	static const struct {
		uint64_t in[6], key;
		double u[3];
	} want[] = {
		{ { 1, 2, 3, 4, 5, 6 },
		  0xcc1b402ba7a65b7b,
		  { 0.9041924676311478, 0.9479749894915904, 0.8855861406769425 } },
		{ { ~0ull, 1, 1ull << 40, (1ull << 63) + 7, 7, 0 },
		  0x52ceefcaad0eca64,
		  { 0.8822332905813343, 0.4835847191328738, 0.5794547589004094 } },
	};

	for (size_t i = 0; i < 2; i++) {
		const uint64_t *w = want[i].in;
		uint64_t key = rf_draw_key(w[0], (enum rf_purpose)w[1], w[2], w[3], w[4], w[5]);

		ok(key == want[i].key, "draw key %zu is the XXH64 of six little-endian words", i);
		ok(rf_draw(key, 0) == want[i].u[0] && rf_draw(key, 1) == want[i].u[1] &&
		           rf_draw(key, 0xffffffff) == want[i].u[2],
		   "draws with key %zu are exact", i);
	}

	int bins[16] = { 0 };
	double chi = 0;
	for (uint64_t i = 0; i < 16000; i++)
		bins[(int)(16 * rf_draw(rf_draw_key(7, RF_DRAW_ROLLOUT, 0, i, 0, 0), 3))]++;
	for (int b = 0; b < 16; b++)
		chi += (bins[b] - 1000.0) * (bins[b] - 1000.0) / 1000;
	ok(chi < 44.3, "draws of consecutive ids are uniform: chi-square %.1f of 15 degrees", chi); /* 1e-4 */
}

static void test_draw_index(void)
{
	const double p[] = { 0, 0.25, 0, 0.5, 0.25, 0 }, one = 1, tiny[] = { 0x1p-1070, 0x1p-1070, 0 };
	double below = 1 - 0x1p-53;

	ok(rf_draw_index(p, 6, 0) == 1, "draw: u = 0 takes the first index that has a probability");
	ok(rf_draw_index(p, 6, below) == 4,
	   "draw: u just below 1 takes the last index that has a probability");
	ok(rf_draw_index(p, 6, 0.25) == 3 && rf_draw_index(p, 6, nextafter(0.25, 0)) == 1,
	   "draw: the sum must exceed u");
	ok(rf_draw_index(&one, 1, 0) == 0 && rf_draw_index(&one, 1, below) == 0,
	   "draw: a single index is always drawn");
	ok(rf_draw_index(tiny, 3, below) == 1,
	   "draw: u * total that rounds up to total takes the last index with a probability");

	bool inside = true;
	for (int i = 0; i < 2000; i++) {
		double q[7];

		for (int t = 0; t < 7; t++)
			q[t] = t == 6 ? 0 : exp(40 * noise((uint64_t)(7 * i + t)) - 20);
		inside &= rf_draw_index(q, 7, below) < 6;
	}
	ok(inside, "draw: rounding never reaches an index without probability");
}

/* ---- selection ----------------------------------------------------------------------------- */

/* Makes a record of T tokens with these entropies.  The caller keeps both arrays. */
static void make_record(struct rf_record *r, uint64_t id, int T, int32_t *tokens, float *entropy)
{
	rf_record_init(r);
	r->id = id;
	r->T = T;
	r->tokens = tokens;
	r->entropy = entropy;
}

static void test_short_sequences(void)
{
	struct rf_select s = RF_SELECT_DEFAULTS;
	struct rf_record r;
	struct rf_err e;
	int32_t tokens[64] = { 0 };
	float H[64];
	bool good = true, short_one;

	for (int t = 0; t < 64; t++)
		H[t] = (float)noise((uint64_t)t);
	for (s.mode = RF_SELECT_ENTROPY; s.mode <= RF_SELECT_MIN; s.mode++)
		for (s.margin = 0; s.margin <= 5; s.margin++)
			for (s.k = 1; s.k <= 4; s.k++)
				for (int T = 1; T <= 16; T++) {
					s.chunks = T % 2 ? 8 : 4;
					s.shift = T % 3 == 2 ? T : T % 3;
					int first = s.margin ? s.margin : 1,
					    behind = s.k > s.margin ? s.k : s.margin;
					bool want = T < s.chunks || T < first + behind;

					make_record(&r, 1, T, tokens, H);
					r.c = 1;
					r.positions = tokens;
					good &= rf_select_record(&s, 0, &r, &short_one, &e) == RF_OK &&
					        short_one == want;
					good &= r.c == (want ? 0 : s.chunks) && !r.positions == want;
					for (int i = 0; i < r.c; i++)
						good &= r.positions[i] >= first &&
						        r.positions[i] <= T - behind;
					rf_record_free(&r);
				}
	ok(good,
	   "selection: lengths 1 to 16, 4 and 8 chunks, margins 0 to 5, shifts: too short, or every rollout "
	   "fits");
}

static void test_extremes(void)
{
	struct rf_select s = RF_SELECT_DEFAULTS;
	struct rf_record r;
	struct rf_err e;
	int32_t tokens[43] = { 0 };
	float H[43];
	bool short_one, good;

	/* four chunks of ten tokens, and three more tokens; ties everywhere */
	for (int t = 0; t < 43; t++)
		H[t] = 1;
	H[3] = H[7] = 2, H[5] = H[8] = 0; /* chunk 0 */
	H[19] = 2, H[10] = 0;             /* chunk 1: at its ends */
	H[41] = 9, H[42] = -9;            /* after the last chunk: not read */
	s.chunks = 4, s.margin = 1, s.k = 1;
	make_record(&r, 1, 43, tokens, H);
	s.mode = RF_SELECT_MAX;
	good = rf_select_record(&s, 0, &r, &short_one, &e) == RF_OK;
	ok(good && r.positions[0] == 4 && r.positions[1] == 20 && r.positions[2] == 21 &&
	           r.positions[3] == 31,
	   "selection: max takes the lowest index of equal entropies, and s = t + 1");
	s.shift = 1;
	good = rf_select_record(&s, 0, &r, &short_one, &e) == RF_OK;
	/* row 19 is the uncertainty about token 20, in chunk 2 */
	ok(good && r.positions[0] == 5 && r.positions[1] == 11 && r.positions[2] == 21 &&
	           r.positions[3] == 31,
	   "selection: a shift of 1 takes row t - 1 for token t, as the paper");
	s.shift = 0;
	s.mode = RF_SELECT_MIN;
	good = rf_select_record(&s, 0, &r, &short_one, &e) == RF_OK;
	ok(good && r.positions[0] == 6 && r.positions[1] == 11 && r.positions[2] == 21 &&
	           r.positions[3] == 31,
	   "selection: min takes the lowest index of equal entropies");
	s.margin = 9, s.k = 15;
	good = rf_select_record(&s, 0, &r, &short_one, &e) == RF_OK;
	ok(good && r.positions[0] == 9 && r.positions[1] == 11 && r.positions[2] == 21 &&
	           r.positions[3] == 28,
	   "selection: positions are moved between the margin and the length less max(k, margin)");
	s.margin = 15, s.k = 9;
	good = rf_select_record(&s, 0, &r, &short_one, &e) == RF_OK;
	ok(good && r.positions[0] == 15 && r.positions[3] == 28,
	   "selection: a margin above k holds at both ends");
	rf_record_free(&r);
}

/* Checks that a tau near 0 gives the arg max of the smoothed entropies, and a huge tau a uniform draw. */
static void test_temperatures(void)
{
	float H[80];
	bool good = true;

	for (int t = 0; t < 80; t++)
		H[t] = (float)(3 * noise((uint64_t)t));
	for (int i = 0; i < 2; i++) {
		double p[10], smooth[80];
		int best = 0;

		rf_smooth(H, 80, 5, smooth);
		rf_select_probabilities(smooth, 10, i ? 1e-6 : 1e6, p);
		for (int t = 1; t < 10; t++)
			best = smooth[t] > smooth[best] ? t : best;
		for (int t = 0; t < 10; t++)
			good &= near(p[t], i ? t == best : 0.1, 1e-5);
	}
	ok(good, "selection: a tau of 1e-6 gives the arg max, 1e6 a uniform draw, no NaN");
}

/* Draws the positions of records 0 .. n-1, and returns the chi-square of all chunks against p.  *joint: the
 * chi-square of the pairs that the first two chunks drew, against independence. */
static double chi_square(const struct rf_select *s, float *H, int T, const double *p, int n, double *joint)
{
	static int count[1000], pair[10000];
	int32_t tokens[1000] = { 0 };
	int m = T / s->chunks;
	double chi = 0;

	memset(count, 0, sizeof count);
	memset(pair, 0, sizeof pair);
	for (int id = 0; id < n; id++) {
		struct rf_record r;
		struct rf_err e;
		bool short_one;

		make_record(&r, (uint64_t)id, T, tokens, H);
		if (rf_select_record(s, 0, &r, &short_one, &e) != RF_OK || short_one)
			return INFINITY;
		for (int i = 0; i < s->chunks; i++)
			count[r.positions[i] - 1]++;
		pair[(r.positions[0] - 1) * m + r.positions[1] - 1 - m]++;
		rf_record_free(&r);
	}
	for (int t = 0; t < m * s->chunks; t++)
		chi += (count[t] - n * p[t]) * (count[t] - n * p[t]) / (n * p[t]);
	*joint = 0;
	for (int a = 0; a < m; a++)
		for (int b = 0; b < m; b++) {
			double want = n * p[a] * p[m + b];
			*joint += (pair[a * m + b] - want) * (pair[a * m + b] - want) / want;
		}
	return chi;
}

static void test_frequencies(void)
{
	enum { T = 83, C = 8, M = 10, N = 4000 };
	struct rf_select s = RF_SELECT_DEFAULTS;
	float H[T];
	double smooth[T], p[T], uniform[T], chi, joint;

	for (int t = 0; t < T; t++) {
		H[t] = (float)(3 * noise((uint64_t)(100 + t)));
		uniform[t] = 1.0 / M;
	}
	s.k = 2, s.margin = 1, s.smooth = 3, s.tau = 0.7, s.seed = 11; /* no position is moved at the ends */
	rf_smooth(H, T, 3, smooth);
	for (int i = 0; i < C; i++)
		rf_select_probabilities(smooth + M * i, M, s.tau, p + M * i);
	/* 72 and 99 degrees of freedom; one sample in 10,000 passes these bounds */
	chi = chi_square(&s, H, T, p, N, &joint);
	ok(chi < 124.0,
	   "selection: frequencies follow softmax(smoothed H / tau): chi-square %.1f of 72 degrees", chi);
	ok(joint < 157.0, "selection: chunks are drawn independently: chi-square %.1f of 99 degrees", joint);
	chi = chi_square(&s, H, T, uniform, N, &joint);
	ok(chi > 500, "selection: the test of frequencies rejects uniform draws: %.0f", chi);
	s.mode = RF_SELECT_UNIFORM;
	chi = chi_square(&s, H, T, uniform, N, &joint);
	ok(chi < 124.0 && joint < 157.0,
	   "selection: the mode uniform draws uniformly: chi-square %.1f of 72 degrees", chi);
}

/* ---- rewards ------------------------------------------------------------------------------- */

static int naive_distance(const int32_t *a, int n, const int32_t *b, int m)
{
	int change, drop, insert;

	if (!n || !m)
		return n + m;
	change = naive_distance(a, n - 1, b, m - 1) + (a[n - 1] != b[m - 1]);
	drop = naive_distance(a, n - 1, b, m) + 1;
	insert = naive_distance(a, n, b, m - 1) + 1;
	return change < drop ? change < insert ? change : insert : drop < insert ? drop : insert;
}

static void test_levenshtein(void)
{
	static int32_t long_one[65536], other[65536];
	bool good = true;

	for (uint64_t i = 0; i < 600; i++) {
		int32_t a[6], b[6];
		int n = (int)(7 * noise(13 * i)), m = (int)(7 * noise(13 * i + 6));

		for (uint64_t j = 0; j < 6; j++) {
			a[j] = (int32_t)(3 * noise(13 * i + j + 1));
			b[j] = (int32_t)(3 * noise(13 * i + j + 7));
		}
		good &= rf_levenshtein(a, n, b, m) == naive_distance(a, n, b, m);
	}
	ok(good, "levenshtein: distances equal a naive recursion for lengths 0 to 6");
	for (int i = 0; i < 65536; i++)
		long_one[i] = other[i] = i;
	ok(rf_levenshtein(long_one, 65536, other, 0) == 65536 &&
	           rf_levenshtein(other, 0, long_one, 65536) == 65536,
	   "levenshtein: the longest list differs from an empty one by its length");
	ok(rf_levenshtein(long_one, 65536, other + 9, 3) == 65533,
	   "levenshtein: the longest list differs from three of its tokens");
}

static void test_cosine(void)
{
	float a[3] = { 1, 2, 2 }, b[3] = { -2, 1, 0 }, zero[3] = { 0 };
	float tiny[3] = { 3e-9f, 0, 0 }, huge[3] = { 3e38f, 3e38f, 3e38f };

	ok(near(rf_cosine(a, a, 3), 1, 1e-15) && near(rf_cosine(a, b, 3), 0, 1e-15),
	   "cosine: parallel vectors give 1, vectors at right angles give 0");
	ok(rf_cosine(a, zero, 3) == 0 && rf_cosine(zero, zero, 3) == 0,
	   "cosine: the cosine of a zero vector is 0");
	ok(near(rf_cosine(tiny, a, 3), 0.3 / 3, 1e-7), "cosine: a norm below 1e-8 counts as 1e-8");
	ok(near(rf_cosine(huge, huge, 3), 1, 1e-15), "cosine: the largest float32 numbers do not overflow");
}

enum { K = 3, D = 2 };
struct rewarded {
	struct rf_record r;
	int32_t tokens[12], positions[2], roll[2 * 2 * K];
	float h_pred[2 * 2 * K * D], h_gt[2 * K * D];
};

static float *part(const struct rewarded *w, const char *name) { return rf_part(&w->r.reward, name); }

/* Makes a record with c = 2 and n = 2.  The first rollout at each position is the text; the second is the
 * text rotated, with opposite states. */
static void make_rewarded(struct rewarded *w)
{
	rf_record_init(&w->r);
	w->r.id = 9;
	w->r.T = 12;
	w->r.tokens = w->tokens;
	w->r.c = 2;
	w->r.positions = w->positions;
	w->r.rollout = (struct rf_rollout){
		/* clang-format off */
		.temperature = 1, .n = 2, .k = K, .d = D, .tokens = w->roll, .h_pred = w->h_pred,
		/* clang-format on */
		.h_gt = w->h_gt,
	};
	for (int t = 0; t < 12; t++)
		w->tokens[t] = t;
	w->positions[0] = 1, w->positions[1] = 9;
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < K; j++) {
			w->roll[(2 * i + 0) * K + j] = w->positions[i] + j;
			w->roll[(2 * i + 1) * K + j] = w->positions[i] + (j + 1) % K;
			for (int x = 0; x < D; x++) {
				float h = (float)(x + j + i + 1);
				w->h_gt[(i * K + j) * D + x] = w->h_pred[((2 * i + 0) * K + j) * D + x] = h;
				w->h_pred[((2 * i + 1) * K + j) * D + x] = -h;
			}
		}
}

static enum rf_code reward_by(struct rf_record *r, int kind, uint64_t seed, uint64_t step, struct rf_err *e)
{
	return rf_reward_record(&(struct rf_reward_settings){ .kind = kind, .seed = seed }, step, r, NULL, e);
}

/* Checks that a shift by one of two positions gives the rewards of rollouts with exchanged texts. */
static void test_shift(struct rewarded *w)
{
	float parts[3][4], *const gt = w->r.rollout.h_gt;
	struct rf_err e;
	int32_t first = w->positions[0];
	const size_t bytes = sizeof *parts;

	const struct rf_reward_settings shifted = { .kind = rf_reward_kind("hybrid"), .shift = 3 };

	bool good = rf_reward_record(&shifted, 0, &w->r, NULL, &e) == RF_OK;
	memcpy(parts[0], w->r.reward.total, bytes);
	memcpy(parts[1], part(w, "cosine"), bytes);
	memcpy(parts[2], part(w, "edit"), bytes);

	w->positions[0] = w->positions[1];
	w->positions[1] = first;
	for (int x = 0; x < K * D; x++) {
		float h = gt[x];
		gt[x] = gt[K * D + x];
		gt[K * D + x] = h;
	}
	good = good && reward_by(&w->r, rf_reward_kind("hybrid"), 0, 0, &e) == RF_OK;
	good = good && !memcmp(parts[0], w->r.reward.total, bytes) &&
	       !memcmp(parts[1], part(w, "cosine"), bytes) && !memcmp(parts[2], part(w, "edit"), bytes);
	ok(good && part(w, "cosine")[0] < 0.9999 && part(w, "edit")[0] < 1,
	   "reward: with a shift rollouts are compared with the next position's text");
	w->positions[1] = w->positions[0];
	w->positions[0] = first;
}

static void test_rewards(void)
{
	static const struct {
		const char *name;
		double good, bad;
	} kind[] = {
		{ "cosine", 1, -1 },
		{ "binary", 1, 0 },
		{ "hybrid", 2, -1 },
		{ "edit", 1, 1.0 / 3 },
	};
	struct rewarded w;
	struct rf_err e;
	float old[4] = { 0 }, *value;

	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
		make_rewarded(&w);
		w.r.advantage = old;
		int code = rf_reward_kind(kind[i].name);
		bool good = reward_by(&w.r, code, 0, 0, &e) == RF_OK &&
		            !strcmp(w.r.reward.kind, kind[i].name) && w.r.reward.n == 2 && !w.r.advantage;
		for (int g = 0; good && g < 4; g++) {
			good &= near(w.r.reward.total[g], g % 2 ? kind[i].bad : kind[i].good, 1e-6);
			good &= near(part(&w, "cosine")[g], g % 2 ? -1 : 1, 1e-6);
			good &= near(part(&w, "binary")[g], g % 2 ? 0 : 1, 1e-6);
			good &= near(part(&w, "edit")[g], g % 2 ? 1.0 / 3 : 1, 1e-6);
		}
		ok(good, "reward: %s is the total, all parts are kept, the advantage is removed",
		   kind[i].name);
		rf_record_free(&w.r);
	}

	make_rewarded(&w);
	bool good = reward_by(&w.r, rf_reward_kind("random"), 3, 4, &e) == RF_OK;
	for (uint64_t g = 0; good && g < 4; g++)
		good &= w.r.reward.total[g] ==
		        (float)rf_draw(rf_draw_key(3, RF_DRAW_REWARD, 4, 9, g / 2, g % 2), 0);
	ok(good && near(part(&w, "cosine")[1], -1, 1e-6),
	   "reward: random draws depend on (seed, step, id, position, rollout)");
	good = reward_by(&w.r, rf_reward_kind("binary"), 0, 0, &e) == RF_OK;
	ok(good && !strcmp(w.r.reward.kind, "binary") && w.r.reward.total[0] == 1,
	   "reward: a reward that is computed again replaces the old one");

	const double given[4] = { 1, -2, 3e5, 0.5 }, bad[4] = { 1, 1e300, 0, 0 }, nan[4] = { 1, 1, 1, NAN };
	ok(rf_reward_record_given(&w.r, "mine", bad, &e) == RF_EDATA &&
	           rf_reward_record_given(&w.r, "mine", nan, &e) == RF_EDATA &&
	           !strcmp(w.r.reward.kind, "binary"),
	   "reward: a given total that is not a finite float32 is an error");
	part(&w, "edit")[0] = 42;
	good = rf_reward_record_given(&w.r, "mine", given, &e) == RF_OK && !strcmp(w.r.reward.kind, "mine");
	ok(part(&w, "edit")[0] == 42, "reward: a given total leaves the parts as they were computed");
	for (int g = 0; good && g < 4; g++)
		good &= w.r.reward.total[g] == (float)given[g];
	ok(good && near(part(&w, "cosine")[1], -1, 1e-6),
	   "reward: a given total is stored with the computed parts");

	value = rf_reward_part_given(&w.r, "mine", &e);
	ok(value && value == part(&w, "mine") && !rf_reward_part_given(&w.r, "binary", &e) &&
	           !strcmp(e.msg, "'binary' is a built-in part: use another name") &&
	           !rf_reward_part_given(&w.r, "mine", &e) && strstr(e.msg, "already has a part 'mine'") &&
	           !rf_reward_part_given(&w.r, "m-e", &e) && strstr(e.msg, "'m-e' is not a name"),
	   "reward: a given part needs a name of its own");

	test_shift(&w);

	w.positions[1] = 10;
	ok(reward_by(&w.r, rf_reward_kind("binary"), 0, 0, &e) == RF_EDATA,
	   "reward: a rollout beyond the text is an error");
	rf_record_free(&w.r);

	make_rewarded(&w);
	w.r.rollout.tokens = NULL;
	ok(reward_by(&w.r, rf_reward_kind("cosine"), 0, 0, &e) == RF_OK && !w.r.reward.kind &&
	           rf_reward_record_given(&w.r, "mine", nan, &e) == RF_OK && !w.r.reward.kind,
	   "reward: a record without rollouts passes without reward or error");
	rf_record_free(&w.r);
}

/* ---- advantages ---------------------------------------------------------------------------- */

static void test_groups(void)
{
	struct rf_advantage a = { 0 }, plain = { .no_std = true }, single = { .allow_single = true };
	struct rf_err e;
	float R[64];
	double A[64], mean, square;
	bool zero = true, good = true;

	for (int G = 2; G <= 64; G++)
		for (float x = 1e-3f; x <= 1e3f; x *= 1.37f) {
			for (int g = 0; g < G; g++) {
				R[g] = x;
				A[g] = 7;
			}
			good &= rf_advantage_group(&a, R, G, A, &e) == RF_OK;
			for (int g = 0; g < G; g++)
				zero &= A[g] == 0;
			good &= rf_advantage_group(&plain, R, G, A, &e) == RF_OK;
			for (int g = 0; g < G; g++)
				zero &= A[g] == 0;
		}
	ok(good && zero, "advantage: equal rewards from 1e-3 to 1e3, groups of 2 to 64, give exactly 0");

	good = true;
	for (int G = 2; G <= 64; G++) {
		for (int g = 0; g < G; g++)
			R[g] = (float)(100 + noise((uint64_t)(64 * G + g)));
		rf_advantage_group(&a, R, G, A, &e);
		mean = square = 0;
		for (int g = 0; g < G; g++) {
			mean += A[g] / G;
			square += A[g] * A[g] / (G - 1);
		}
		good &= near(mean, 0, 1e-9) && near(square, 1, 1e-3);
	}
	ok(good, "advantage: advantages have mean 0 and variance 1, with divisor G - 1");
	R[0] = 1, R[1] = nextafterf(1, 2);
	rf_advantage_group(&a, R, 2, A, &e);
	ok(near(A[1], 0.5 * 0x1p-23 / (0x1p-23 / sqrt(2) + 1e-6), 1e-9) && A[0] == -A[1],
	   "advantage: 1e-6 bounds advantages of rewards that differ in the last bit");
	ok(rf_advantage_group(&a, R, 1, A, &e) == RF_EDATA && strstr(e.msg, "--allow-single"),
	   "advantage: a group of one is an error");
	R[0] = 0.3f;
	ok(rf_advantage_group(&single, R, 1, A, &e) == RF_OK && A[0] == 0.3f,
	   "advantage: --allow-single gives A = R");
}

/* ---- figures ------------------------------------------------------------------------------- */

static void test_names_of_figures(void)
{
	static const struct {
		int letters;
		const char *rest, *kept;
	} cases[] = {
		{ 0, "hybrid", "hybrid" },
		{ 62, "bc", "bc" },
		{ 62, "bcd", "bc" },
		{ 62, "\xC3\xA9", "\xC3\xA9" },
		{ 63, "\xC3\xA9", "" },
		{ 61, "\xF0\x9F\x98\x80", "" },
		{ 60, "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80" },
	};
	struct rf_record r;

	rf_record_init(&r);
	r.c = r.reward.n = 1;
	r.positions = &(int32_t){ 0 };
	r.reward.total = &(float){ 1 };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char kind[80], want[80];
		struct rf_share s;

		memset(kind, 'a', sizeof kind);
		memcpy(want, kind, sizeof want);
		strcpy(kind + cases[i].letters, cases[i].rest);
		strcpy(want + cases[i].letters, cases[i].kept);
		r.reward.kind = kind;
		rf_share_of(&s, &r, &(struct rf_advantage){ 0 }, &(struct rf_counts){ 0 });
		ok(!strcmp(s.kind, want), "figures: the kind %s is kept as %s", kind, s.kind);
	}
}

int main(int argc, char *argv[])
{
	char path[4096];
	json_error_t je;
	json_t *golden;
	double H64[1000];
	float H[1000];
	int T;

	snprintf(path, sizeof path, "%s/method.json", argc > 1 ? argv[1] : "t/golden");
	if (!(golden = json_load_file(path, 0, &je))) {
		printf("Bail out! %s: %s\n", path, je.text);
		return 1;
	}
	T = numbers(golden, "entropy", H64);
	for (int t = 0; t < T; t++)
		H[t] = (float)H64[t];
	test_philox(golden);
	test_smooth(golden, H, T);
	test_probabilities(golden, H, T);
	test_advantages(golden);
	json_decref(golden);
	test_draws();
	test_draw_index();
	test_short_sequences();
	test_extremes();
	test_temperatures();
	test_frequencies();
	test_levenshtein();
	test_cosine();
	test_rewards();
	test_groups();
	test_names_of_figures();
	return tap_end();
}
