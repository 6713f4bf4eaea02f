/* warp.cpp -- the operations that the lanes of a warp do together, by their definition: shuffles, votes,
 * matrix units. */
#include <cmath>

#include "emu_mma.h"

namespace
{

struct shuffled {
	const void *in;
	void *out;
	size_t size;
	int src;
};
struct voted {
	bool yes;
	unsigned out;
};

void all_take_part(unsigned mask, const char *what)
{
	if (mask != ~0u)
		emu::fail("%s: only lanes %08x take part", what, mask);
}

/* Returns element i of the two elements of a word. */
float half_of(uint32_t word, int i)
{
	const uint32_t bits = i ? word & 0xFFFF0000u : word << 16;
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

/* Computes d (16, n) += a (16, 16) b (16, n); b is passed transposed. */
template <int n> void multiply(float (&d)[16][n], const float (&a)[16][16], const float (&b)[n][16])
{
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < n; j++)
			d[i][j] = emu::cut_off_sum(a[i], b[j], 16, d[i][j]);
}

} // namespace

namespace emu
{

void shuffle(unsigned mask, const void *in, void *out, size_t size, int src, const char *file, int line)
{
	struct shuffled mine = { in, out, size, src };

	warp_op(
		mask, &mine,
		[](void *const *arg, unsigned here) {
			for (int l = 0; l < 32; l++) {
				if (!(here >> l & 1))
					continue;
				const struct shuffled *to = static_cast<struct shuffled *>(arg[l]);
				if (here >> to->src & 1)
					memcpy(to->out, static_cast<struct shuffled *>(arg[to->src])->in,
				               to->size);
				else
					memset(to->out, 0xFF, to->size); /* undefined on a GPU */
			}
		},
		false, file, line);
}

unsigned vote(unsigned mask, bool yes, const char *file, int line)
{
	struct voted mine = { yes, 0 };

	warp_op(
		mask, &mine,
		[](void *const *arg, unsigned here) {
			unsigned all = 0;

			for (int l = 0; l < 32; l++)
				if ((here >> l & 1) && static_cast<struct voted *>(arg[l])->yes)
					all |= 1u << l;
			for (int l = 0; l < 32; l++)
				if (here >> l & 1)
					static_cast<struct voted *>(arg[l])->out = all;
		},
		false, file, line);
	return mine.out;
}

bool cas(void *p, void *expected, const void *desired, size_t size)
{
	if (emu_race_access)
		emu_race_access(p, size, 2, __builtin_return_address(0));
	if (!memcmp(p, expected, size)) {
		memcpy(p, desired, size);
		return true;
	}
	memcpy(expected, p, size);
	return false;
}

/* ---- matrix units -------------------------------------------------------------------------- */

float cut_off_sum(const float *a, const float *b, int n, float c)
{
	typedef float four __attribute__((vector_size(16)));
	typedef int32_t four_whole __attribute__((vector_size(16)));
	const int BITS = 26, LEAST = 0x17800000, MOST = 0x67800000; /* the bits of 2^-80 and 2^80 */

	for (int at = 0; at < n; at += 16) {
		float p[20] = { c }; /* c, the products, zeros */
		four_whole most = { 0 }, sums = { 0 };
		four x[5];
		int largest = 0, sum = 0;

		for (int i = 0; i < (n - at < 16 ? n - at : 16); i++)
			p[i + 1] = a[at + i] * b[at + i];
		memcpy(x, p, sizeof x);
		/* bits of positive numbers have the order of the numbers; those of Inf and NaN are above */
		for (int i = 0; i < 5; i++) {
			const four_whole bits = (four_whole)x[i] & 0x7FFFFFFF;

			most = bits > most ? bits : most;
		}
		for (int i = 0; i < 4; i++)
			largest = most[i] > largest ? most[i] : largest;
		if (!largest) {
			c = 0;
			continue;
		}
		if (largest <= LEAST || largest >= MOST) { /* too small or too large to shift, or NaN */
			c = 0;
			for (int i = 0; i < 17; i++)
				c += p[i];
			continue;
		}
		const int exponent = (largest >> 23) - 126; /* largest < 2^exponent */
		const float scale = __uint_as_float((unsigned)(BITS - exponent + 127) << 23);

		for (int i = 0; i < 5; i++)
			sums += __builtin_convertvector(x[i] * scale, four_whole); /* towards 0 */
		for (int i = 0; i < 4; i++)
			sum += sums[i];
		c = (float)sum;
		if (std::fabs((double)c) > std::abs((double)sum))
			c = __uint_as_float(__float_as_uint(c) - 1);
		c /= scale;
	}
	return c;
}

void wmma_place(const void *p, unsigned ld, size_t size, const char *file, int line)
{
	struct where {
		const void *p;
		unsigned ld;
	} mine = { p, ld };

	if ((uintptr_t)p % 32 || ld * size % 16)
		fail("misaligned access at %s:%d: wmma at %p, rows of %u elements", file, line, p, ld);
	warp_op(
		~0u, &mine,
		[](void *const *arg, unsigned here) {
			const struct where *first = static_cast<struct where *>(arg[0]);

			all_take_part(here, "wmma");
			for (int l = 1; l < 32; l++) {
				const struct where *w = static_cast<struct where *>(arg[l]);

				if (w->p != first->p || w->ld != first->ld)
					fail("wmma: lanes 0 and %d name different matrices", l);
			}
		},
		false, file, line);
}

void wmma_multiply(float *d, const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c, const char *file,
                   int line)
{
	struct operands {
		float *d;
		const __nv_bfloat16 *a, *b;
		const float *c;
	} mine = { d, a, b, c };

	warp_op(
		~0u, &mine,
		[](void *const *arg, unsigned here) {
			float A[16][16], B[16][16], D[16][16];

			all_take_part(here, "wmma");
			for (int e = 0; e < 256; e++) {
				const struct operands *o = static_cast<struct operands *>(arg[e % 32]);

				A[e / 16][e % 16] = __bfloat162float(o->a[e / 32]);
				B[e % 16][e / 16] = __bfloat162float(o->b[e / 32]);
				D[e / 16][e % 16] = o->c[e / 32];
			}
			multiply(D, A, B);
			for (int e = 0; e < 256; e++)
				static_cast<struct operands *>(arg[e % 32])->d[e / 32] = D[e / 16][e % 16];
		},
		false, file, line);
}

/* Tells reckon.cpp, which counts, that `parts` accesses and meetings were one instruction. */
static void one_instruction(int parts)
{
	if (reckon_met) {
		reckon_met(-parts);
		reckon_matrix();
	}
}

/* Computes mma.sync.  For the lane of each element see PTX ISA, "Matrix Fragments for mma.m16n8k16", and
 * ldmatrix. */
void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, const char *file, int line)
{
	struct operands {
		float *d;
		const uint32_t *a, *b;
		const float *c;
	} mine = { d, a, b, c };

	one_instruction(1);
	warp_op(
		~0u, &mine,
		[](void *const *arg, unsigned here) {
			float A[16][16], B[8][16], D[16][8];

			all_take_part(here, "mma.sync");
			for (int l = 0; l < 32; l++) {
				const struct operands *o = static_cast<struct operands *>(arg[l]);
				const int group = l / 4, pair = l % 4 * 2;

				for (int i = 0; i < 8; i++)
					A[group + i / 2 % 2 * 8][pair + i % 2 + i / 4 * 8] =
						half_of(o->a[i / 2], i % 2);
				for (int i = 0; i < 4; i++) {
					B[group][pair + i % 2 + i / 2 * 8] = half_of(o->b[i / 2], i % 2);
					D[group + i / 2 * 8][pair + i % 2] = o->c[i];
				}
			}
			multiply(D, A, B);
			for (int l = 0; l < 32; l++)
				for (int i = 0; i < 4; i++)
					static_cast<struct operands *>(arg[l])->d[i] =
						D[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
		},
		false, file, line);
}

void ldmatrix(uint32_t *r, const void *row, int n, bool transposed, const char *file, int line)
{
	struct rows {
		uint16_t own[8];
		uint32_t *r;
		int n;
		bool transposed;
	} mine = { {}, r, n, transposed };

	one_instruction(lane() < 8 * n ? 2 : 1);
	if (lane() < 8 * n) { /* each lane reads the row that it names, before the lanes exchange */
		if ((uintptr_t)row % 16)
			fail("misaligned access at %s:%d: ldmatrix at %p", file, line, row);
		if (emu_race_access)
			emu_race_access(row, sizeof mine.own, 0, __builtin_return_address(0));
		memcpy(mine.own, row, sizeof mine.own);
	}
	warp_op(
		~0u, &mine,
		[](void *const *arg, unsigned here) {
			all_take_part(here, "ldmatrix");
			for (int l = 0; l < 32; l++) {
				const struct rows *to = static_cast<struct rows *>(arg[l]);

				for (int q = 0; q < to->n; q++) {
					uint32_t word = 0;

					for (int h = 0; h < 2; h++) {
						const int i = to->transposed ? l % 4 * 2 + h : l / 4,
							  j = to->transposed ? l / 4 : l % 4 * 2 + h;

						word |= (uint32_t) static_cast<struct rows *>(arg[q * 8 + i])
					                        ->own[j]
					                << 16 * h;
					}
					to->r[q] = word;
				}
			}
		},
		false, file, line);
}

} // namespace emu
