/* model -- makes and checks files for tests of the programs that have a model.
 *
 *     model texts N ID:T...              writes a stream of random texts over a vocabulary of N
 *     model near A B KEY...              compares values of two streams with the same records, to 1e-5:
 *                                          largest difference over largest value
 *     model draws DIR SEED STEP EOS K P FILE
 *                                          checks rollouts that rf-rollout drew with DIR's weights after
 *                                          rf-entropy --keep hidden,logits: every token is the one that the
 *                                          seed gives, logp and h_gt fit
 *     model written SEED STEP SAMPLE T K P FILE
 *                                          checks samples that rf-generate wrote, as the responses of records
 *                                          after rf-entropy --keep logits: every token is the one that the
 *                                          seed gives
 *     model fit FILE                     compares many rollouts of one token at one position with softmax, by
 *                                          chi-square
 *     model poke DIR NAME I X            writes X into element I of a weight, in place
 *     model scale DIR NAME X             multiplies a weight, in place
 *     model lr SCHEDULE LR WARMUP TOTAL FILE   compares a log's learning rates with their formula */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "ckpt/ckpt.h"
#include "unit/must.h"
#include "stream/stream.h"
#include "unit/tap.h"
#include "unit/values.h"

/* The program reads a few files and exits: its memory is not freed before. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

/* ---- texts --------------------------------------------------------------------------------- */

static int write_texts(int N, char **words)
{
	struct rf_head head;
	struct rf_out *out;

	rf_head_init(&head);
	head.vocab = N;
	must(rf_out_open(&out, NULL, &head, &err));
	for (; *words; words++) {
		struct rf_record r;
		char *colon = strchr(*words, ':');

		rf_record_init(&r);
		r.id = strtoull(*words, NULL, 10);
		r.T = colon ? atoi(colon + 1) : 1;
		r.tokens = rf_record_alloc(&r, (size_t)r.T, sizeof *r.tokens);
		for (int t = 0; t < r.T; t++)
			r.tokens[t] = (int32_t)(N * rf_draw(rf_draw_key(1, RF_DRAW_WEIGHTS, 0, r.id, 0, 0),
			                                    (uint32_t)t));
		must(rf_put(out, &r, &err));
		rf_record_free(&r);
	}
	must(rf_out_finish(out, &err));
	return 0;
}

/* ---- two streams --------------------------------------------------------------------------- */

static void compare_streams(const char *a, const char *b, char **keys)
{
	struct rf_in *in[2];
	struct rf_record *x, *y;
	enum rf_code rc, other;
	int records = 0;

	must(rf_in_open(&in[0], a, 0, &err));
	must(rf_in_open(&in[1], b, 0, &err));
	for (; (rc = rf_next(in[0], &x, &err)) == RF_OK; records++) {
		must(rf_next(in[1], &y, &err));
		for (char **k = keys; *k; k++) {
			size_t n, m;
			const float *p = value(x, *k, &n), *q = value(y, *k, &m);

			if (!p && !q)
				continue;
			const double off = p && q && n == m ? distance(p, q, n) : NAN;

			ok(off <= 1e-5, "id %llu: %s %.1e", (unsigned long long)x->id, *k, off);
		}
	}
	other = rf_next(in[1], &y, &err);
	ok(rc == RF_EOF && other == RF_EOF && records && tap_tests, "both have %d records", records);
}

/* ---- draws --------------------------------------------------------------------------------- */

struct sampler {
	int N, top_k;
	double top_p, inv_temp;
	const struct rf_config *cfg;
	bool eos;
};

static const double *sorted_by;
static int by_descending_value(const void *a, const void *b)
{
	const int *x = a, *y = b;

	if (sorted_by[*x] != sorted_by[*y])
		return sorted_by[*x] < sorted_by[*y] ? 1 : -1;
	return *x - *y;
}

/* Computes the probability p of drawing each token, from the logits z; returns log sum exp of z inv_temp over
 * all tokens. */
static double token_probabilities(const struct sampler *s, const double *z, double *p)
{
	int *order = room((size_t)s->N, sizeof *order), kept = s->N;
	double top = -INFINITY, all = 0, total = 0, sum = 0;

	for (int i = 0; i < s->N; i++)
		top = fmax(top, z[i] * s->inv_temp);
	for (int i = 0; i < s->N; i++) {
		all += p[i] = exp(z[i] * s->inv_temp - top);
		order[i] = i;
	}
	for (int i = 0; !s->eos && i < s->cfg->eos_count; i++)
		p[s->cfg->eos[i]] = 0;
	sorted_by = p;
	qsort(order, (size_t)s->N, sizeof *order, by_descending_value);
	if (s->top_k && s->top_k < kept)
		kept = s->top_k;
	for (int i = 0; i < kept; i++)
		total += p[order[i]];
	for (int i = 0; i < kept; i++) {
		if (s->top_p < 1 && sum >= s->top_p * total)
			kept = i;
		else
			sum += p[order[i]];
	}
	for (int i = kept; i < s->N; i++)
		p[order[i]] = 0;
	free(order);
	return top + log(all);
}

/* Returns whether a token is not the one that u gives; *close counts the tokens that rounding decides. */
static bool token_differs(const double *p, int N, double u, int32_t have, size_t *close)
{
	double total = 0, sum = 0;
	int token = 0;

	for (int v = 0; v < N; v++)
		total += p[v];
	while (token < N && (sum += p[token]) <= u * total)
		token++;
	if (fabs(sum - u * total) < 1e-5 * total || fabs(sum - p[token] - u * total) < 1e-5 * total) {
		++*close;
		return false;
	}
	return token != have;
}

static void check_written(uint64_t seed, uint64_t step, uint64_t sample, struct sampler s, const char *path)
{
	struct rf_config none = { .eos_count = 0 };
	struct rf_in *in;
	struct rf_record *r;
	enum rf_code rc;
	size_t checked = 0, close = 0, wrong = 0;

	s.cfg = &none;
	must(rf_in_open(&in, path, 0, &err));
	while ((rc = rf_next(in, &r, &err)) == RF_OK) {
		uint64_t key = rf_draw_key(seed, RF_DRAW_GENERATE, step, r->id, 0, sample);
		double *z = room((size_t)r->N, sizeof *z), *p = room((size_t)r->N, sizeof *p);

		s.N = r->N;
		for (int t = r->prompt_len; t < r->T; t++, checked++) {
			for (int v = 0; v < s.N; v++)
				z[v] = (double)r->logits[(size_t)(t - 1) * (size_t)s.N + (size_t)v];
			token_probabilities(&s, z, p);
			wrong += token_differs(p, s.N, rf_draw(key, (uint32_t)(t - r->prompt_len)),
			                       r->tokens[t], &close);
		}
		free(z);
		free(p);
	}
	must(rc == RF_EOF ? RF_OK : rc);
	ok(checked > 0 && !wrong && close < 2 + checked / 50,
	   "of %zu tokens %zu are not what the seed gives (%zu too close to call)", checked, wrong, close);
}

static void check_draws(const char *dir, uint64_t seed, uint64_t step, struct sampler s, const char *path)
{
	struct rf_ckpt c;
	struct rf_in *in;
	struct rf_record *r;
	enum rf_code rc;
	float *w;
	double *z, *p, worst = 0, top = 0;
	size_t checked = 0, close = 0, wrong = 0, stray = 0, rows = 0, d;
	const struct rf_param *head;

	must(rf_ckpt_open(&c, dir, &err));
	w = room(c.params.total, sizeof *w);
	must(rf_ckpt_load(&c, w, &err));
	head = rf_params_find(&c.params, c.params.tied ? "model.embeddings.weight" : "lm_head.weight");
	s.N = c.cfg.vocab;
	s.cfg = &c.cfg;
	d = (size_t)c.cfg.d;
	z = room((size_t)s.N, sizeof *z);
	p = room((size_t)s.N, sizeof *p);
	must(rf_in_open(&in, path, 0, &err));
	while ((rc = rf_next(in, &r, &err)) == RF_OK) {
		const struct rf_rollout *o = &r->rollout;

		s.inv_temp = 1 / o->temperature;
		for (size_t b = 0, i; o->tokens && b < (size_t)(r->c * o->n); b++) {
			size_t position = b / (size_t)o->n, row = (size_t)r->positions[position] - 1,
			       k = (size_t)o->k;

			if (b % (size_t)o->n == 0)
				for (size_t j = 0; j < k * d; j++, rows++)
					stray +=
						o->h_gt[position * k * d + j] != r->hidden[(row + 1) * d + j];
			i = b * k;
			for (size_t j = 0; j < (size_t)rf_rollout_length(o, b); j++, i++) {
				const float *h = j ? o->h_pred + (i - 1) * d : r->hidden + row * d;
				double u = rf_draw(rf_draw_key(seed, RF_DRAW_ROLLOUT, step, r->id, position,
				                               b % (size_t)o->n),
				                   (uint32_t)j);
				double lse;

				for (int v = 0; v < s.N; v++) {
					z[v] = 0;
					for (size_t l = 0; l < d; l++)
						z[v] += (double)h[l] *
						        (double)w[head->offset + (size_t)v * d + l];
				}
				lse = token_probabilities(&s, z, p);
				worst = fmax(worst,
				             fabs(z[o->tokens[i]] * s.inv_temp - lse - (double)o->logp[i]));
				top = fmax(top, fabs((double)o->logp[i]));
				wrong += token_differs(p, s.N, u, o->tokens[i], &close);
				checked++;
			}
		}
	}
	must(rc == RF_EOF ? RF_OK : rc);
	ok(checked > 0 && !wrong && close < 2 + checked / 50,
	   "of %zu tokens %zu are not what the seed gives (%zu too close to call)", checked, wrong, close);
	ok(worst <= 1e-5 * top, "log-probabilities %.1e", worst / top);
	ok(rows && !stray, "of %zu numbers of h_gt %zu differ from the text", rows, stray);
}

static void check_fit(const char *path)
{
	struct rf_in *in;
	struct rf_record *r;
	double square = 0, p2 = 0, all = 0, banned;
	size_t n, *count, bins = 0;

	must(rf_in_open(&in, path, 0, &err));
	must(rf_next(in, &r, &err));
	n = (size_t)r->rollout.n * (size_t)r->c;
	count = room((size_t)r->N, sizeof *count);
	const float *z = r->logits + ((size_t)r->positions[0] - 1) * (size_t)r->N;
	for (size_t i = 0; i < n; i++)
		count[r->rollout.tokens[i * (size_t)r->rollout.k]]++;
	for (int v = 0; v < r->N; v++)
		all += exp((double)z[v] / r->rollout.temperature);
	banned = exp((double)z[2] / r->rollout.temperature);
	for (int v = 0; v < r->N; v++) {
		double expect = exp((double)z[v] / r->rollout.temperature) / (all - banned) * (double)n;

		if (v == 2)
			continue;
		square += pow((double)count[v] - expect, 2) / expect;
		p2 = fmax(p2, expect);
		bins++;
	}
	ok(!count[2], "the end of the sequence is not drawn");
	/* chi-square has the mean bins - 1 and twice that as variance: the limit is five deviations */
	ok(square < (double)(bins - 1) + 5 * sqrt(2 * (double)(bins - 1)),
	   "chi-square %.1f over %zu tokens, the most likely %.0f of %zu", square, bins, p2, n);
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* Changes elements first .. last-1 of a weight in place: to x times the old value, or to x. */
static int change_weight(const char *dir, const char *name, uint64_t first, uint64_t last, float x,
                         bool times)
{
	struct rf_tensors t;
	const struct rf_tensor *w;
	char path[1000];
	int fd;

	must(rf_tensors_open_dir(&t, dir, &err));
	snprintf(path, sizeof path, "%s/model.safetensors", dir);
	if (!(w = rf_tensors_find(&t, name)) || first >= w->count || (fd = open(path, O_RDWR)) < 0)
		return 2;
	for (uint64_t i = first; i < last && i < w->count; i++) {
		float y;

		if (pread(fd, &y, sizeof y, (off_t)(w->at + i * 4)) != sizeof y)
			return 2;
		y = times ? x * y : x;
		if (pwrite(fd, &y, sizeof y, (off_t)(w->at + i * 4)) != sizeof y)
			return 2;
	}
	return close(fd);
}

static void check_rates(const char *schedule, double top, double warmup, double total, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[8192];
	int lines = 0;

	for (; f && fgets(line, sizeof line, f); lines++) {
		json_t *o = json_loads(line, 0, NULL);
		double at = json_number_value(json_object_get(o, "step")),
		       have = json_number_value(json_object_get(o, "actor/lr")), want = top;

		if (at < warmup)
			want *= (at + 1) / warmup;
		else if (strcmp(schedule, "constant")) {
			double done = fmin(1, (at - warmup) / (total - warmup));
			want *= !strcmp(schedule, "linear") ? 1 - done : 0.5 * (1 + cos(acos(-1) * done));
		}
		ok(fabs(have - want) <= 1e-8 * top, "%s, step %g: %.9g", schedule, at, have);
		json_decref(o);
	}
	ok(lines > 0, "%d lines", lines);
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "texts"))
		return write_texts(atoi(argv[2]), argv + 3);
	if (argc == 6 && !strcmp(argv[1], "poke"))
		return change_weight(argv[2], argv[3], strtoull(argv[4], NULL, 10),
		                     strtoull(argv[4], NULL, 10) + 1, strtof(argv[5], NULL), false);
	if (argc == 5 && !strcmp(argv[1], "scale"))
		return change_weight(argv[2], argv[3], 0, UINT64_MAX, strtof(argv[4], NULL), true);
	if (argc >= 5 && !strcmp(argv[1], "near"))
		compare_streams(argv[2], argv[3], argv + 4);
	else if (argc == 9 && !strcmp(argv[1], "written"))
		check_written(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
		              strtoull(argv[4], NULL, 10),
		              (struct sampler){ .eos = true,
		                                .inv_temp = 1 / atof(argv[5]),
		                                .top_k = atoi(argv[6]),
		                                .top_p = atof(argv[7]) },
		              argv[8]);
	else if (argc == 9 && !strcmp(argv[1], "draws"))
		check_draws(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
		            (struct sampler){
				    .eos = atoi(argv[5]), .top_k = atoi(argv[6]), .top_p = atof(argv[7]) },
		            argv[8]);
	else if (argc == 3 && !strcmp(argv[1], "fit"))
		check_fit(argv[2]);
	else if (argc == 7 && !strcmp(argv[1], "lr"))
		check_rates(argv[2], atof(argv[3]), atof(argv[4]), atof(argv[5]), argv[6]);
	else
		return 2;
	return tap_end();
}
