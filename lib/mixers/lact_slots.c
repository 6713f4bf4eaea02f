/* lact_slots.c -- where LaCT keeps the marks and sums of chunks in a layer's state: how many slots there
 * are, and which slot holds what.
 *
 * Which marks are kept follows from which rows read them.  Rows read the mark of their own chunk.  Rollouts
 * read the mark of the chunk that is open at their position.  The backward pass reads every mark again.  So
 * the plan leads to one of four regimes:
 *
 *     regime     plan                       slot             mark of
 *     LATEST     no backward pass           0                the chunk that runs
 *                                           1 + i % B        the i-th chunk with a position
 *     APART      a sequence per position    0                the chunk that runs
 *                                           1 + i            the chunk that is open where sequence i ends
 *                                           1 + P + i n + j  the chunk that rollout j of sequence i began
 *     EVERY      backward pass              c                chunk c
 *     AGAIN      backward pass that runs    s                the chunk that is open where segment s begins
 *                each segment again         S + i            the i-th chunk with a position
 *                                           S + B + c % M    chunk c of the segment that runs
 *
 *     P, n  positions and rollouts at each, from the plan       S  segments_max of the tree
 *     B     most chunks with a position at one time             M  most chunks of a segment
 *
 * If AGAIN lists several slots for a chunk, the chunk has the first of them.  AGAIN is chosen only if it
 * needs fewer slots than EVERY; then no two segments begin in one chunk.
 *
 * Gradients of marks have slots of their own.  The backward pass works on two chunks at a time, in slots 0
 * and 1. Rollouts add to the gradient of the i-th chunk with a position, in slot 2 + i.  If this needs as
 * many slots as there are chunks, chunk c has slot c. */
#include "mixers/lact.h"

enum regime { LATEST, APART, EVERY, AGAIN };

static int smaller(int a, int b) { return a < b ? a : b; }
static int larger(int a, int b) { return a > b ? a : b; }

static int chunks_in(const struct rf_tree *t, int rows) { return (rows - 1) / rf_lact_config(t)->chunk + 1; }
static int chunks_max(const struct rf_tree *t) { return chunks_in(t, t->plan.max_len); }

/* Returns the most chunks that a segment has rows of, and one more: the chunk that is open when it begins. */
static int segment_chunks(const struct rf_tree *t) { return t->plan.segment / rf_lact_config(t)->chunk + 2; }

/* Returns the most chunks with a position that are read at one time.  The rollouts of a sequence that slides
 * run after each segment, so these are the chunks of one segment, which are adjacent.  A shorter sequence in
 * the same memory does not slide, and is read as a whole. */
static int branched_max(const struct rf_tree *t)
{
	int most = smaller(t->plan.positions, chunks_max(t));

	if (t->cache.rows_max < t->plan.max_len)
		most = smaller(most, larger(segment_chunks(t), chunks_in(t, t->cache.rows_max)));
	return most;
}

/* Returns the number of slots for marks in AGAIN. */
static int again_slots(const struct rf_tree *t)
{
	return t->segments_max + branched_max(t) + segment_chunks(t);
}

/* Returns the regime of the tree's plan. */
static enum regime regime_of(const struct rf_tree *t)
{
	if (t->plan.apart)
		return APART;
	if (!t->plan.train)
		return LATEST;
	return t->plan.recompute && again_slots(t) < chunks_max(t) ? AGAIN : EVERY;
}

/* ---- how many ------------------------------------------------------------------------------ */

int rf_lact_marks(const struct rf_tree *t)
{
	switch (regime_of(t)) {
	case LATEST: return 1 + branched_max(t);
	case APART: return 1 + t->plan.positions * (1 + t->plan.n);
	case AGAIN: return again_slots(t);
	default: return chunks_max(t);
	}
}

int rf_lact_dmarks(const struct rf_tree *t) { return smaller(2 + branched_max(t), chunks_max(t)); }

/* Returns whether the sums at the start of each segment are kept: if segments run again, or if positions are
 * chosen after the pass and a segment may begin inside a chunk. */
static bool keeps_segment_sums(const struct rf_tree *t)
{
	const struct rf_plan *p = &t->plan;
	const bool inside = p->decode && p->segment % rf_lact_config(t)->chunk;

	return p->train && (p->recompute || inside);
}

/* Returns the number of slots for sums of the sequence.  The sums at its positions follow them. */
static int sequence_sums(const struct rf_tree *t) { return keeps_segment_sums(t) ? t->segments_max + 1 : 1; }

int rf_lact_sums(const struct rf_tree *t) { return sequence_sums(t) + t->plan.positions; }
int rf_lact_dsums(const struct rf_tree *t) { return 1 + t->plan.positions; }

/* ---- which --------------------------------------------------------------------------------- */

size_t rf_lact_index_size(const struct rf_tree *t)
{
	return 3 * (size_t)chunks_max(t) + (size_t)t->segments_max + 1 + (size_t)t->plan.positions;
}

/* Returns the lists of an index, which are adjacent. */
static struct rf_lact_slots slots_in(const struct rf_tree *t, int *index)
{
	struct rf_lact_slots s = { .mark = index,
		                   .position_sum = sequence_sums(t),
		                   .rollout_mark = 1 + t->plan.positions };

	s.dmark = s.mark + chunks_max(t);
	s.branched = s.dmark + chunks_max(t);
	s.sum = s.branched + chunks_max(t);
	s.position_mark = s.sum + t->segments_max + 1;
	return s;
}

struct rf_lact_slots rf_lact_slots(const struct rf_tree *t, int layer)
{
	return slots_in(t, t->index[layer]);
}

/* Numbers the chunks that have a position, from 0; the others get -1. */
static void number_branched(const struct rf_tree *t, int chunks, int *branched)
{
	int last = -1, number = -1;

	for (int c = 0; c < chunks; c++)
		branched[c] = -1;
	for (int i = 0; i < t->positions && !t->plan.apart; i++) {
		int chunk = t->position.row[t->position.by_row[i]] / rf_lact_config(t)->chunk;

		number += chunk != last;
		branched[chunk] = number;
		last = chunk;
	}
}

/* Sets the slots of the marks of `chunks` chunks, by the table above. */
static void set_mark_slots(const struct rf_tree *t, int chunks, const int *branched, int *mark)
{
	const int B = branched_max(t), M = segment_chunks(t), S = t->segments_max;

	switch (regime_of(t)) {
	case LATEST:
		for (int c = 0; c < chunks; c++)
			mark[c] = branched[c] < 0 ? 0 : 1 + branched[c] % B;
		break;
	case APART:
		for (int c = 0; c < chunks; c++)
			mark[c] = c + 1 < chunks ? 0 : 1 + t->first_position;
		break;
	case EVERY:
		for (int c = 0; c < chunks; c++)
			mark[c] = c;
		break;
	case AGAIN:
		for (int c = 0; c < chunks; c++)
			mark[c] = S + (branched[c] >= 0 ? branched[c] : B + c % M);
		mark[0] = 0;
		for (int s = 1; s < t->segments; s++)
			mark[(rf_tree_first(t, s) - 1) / rf_lact_config(t)->chunk] = s;
		break;
	}
}

void rf_lact_set_index(const struct rf_tree *t, int *index)
{
	const struct rf_lact_slots s = slots_in(t, index);
	const int chunks = chunks_in(t, t->T);
	const bool every = rf_lact_dmarks(t) == chunks_max(t);

	number_branched(t, chunks, s.branched);
	set_mark_slots(t, chunks, s.branched, s.mark);
	for (int c = 0; c < chunks; c++)
		s.dmark[c] = every ? c : s.branched[c] >= 0 ? 2 + s.branched[c] : c % 2;
	for (int i = 0; i <= t->segments; i++)
		s.sum[i] = keeps_segment_sums(t) ? i : 0;
	for (int i = 0; i < t->positions; i++)
		s.position_mark[i] =
			t->plan.apart ? 1 + i : s.mark[t->position.row[i] / rf_lact_config(t)->chunk];
}
