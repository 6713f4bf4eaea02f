/* delta_back.cu -- the gradients of the gated delta rule, in chunks of 64 rows; delta.c has the mathematics.
 *
 * With T = (I + A)^-1 all that a chunk gives dR and the gradient of its first state is known before the
 * states' gradients are, but for two products with the gradient dS of its last state:
 *
 *     dR = (P T)' dO + (T' diag(f) K) dS = own + R dS
 *     dS <- e_m dS + Q' diag(e) dO - K' diag(e beta) dR = e_m dS + N + B' dR
 *
 * A capture in the chunk adds to `own` and to N, and to nothing else of these.  So there are three kernels:
 *
 *     ready   a block a chunk and head: T; own (into dv), R, B and N to memory (delta_back_ready.cu)
 *     scan    chunk after chunk, back: the two products, dR and dS to memory;
 *             in blocks beside, forward: S += K' diag(f) U (delta_back_scan.cu)
 *     back    a block a chunk and a head of q and k: dq, dk, dv, db, dg from S, dS and dR
 *
 * The reckoning, per chunk and head of width 128 on an H100 with bf16 operands: 22 million multiplications
 * and additions in products, at 400 TFLOP/s (mma.sync) 55 ns of the whole GPU; q, k, u, dO, dR, dq, dk and dv
 * in float32, some of them twice, 0.35 MB, and of what lies between R, B, N, S and dS, 128 KB, written and
 * read: 0.6 MB, at 3 TB/s 200 ns.  So ready and back are bound by memory, and hold products in registers, to
 * have two blocks on an SM: at 16384 rows and 16 heads 0.8 ms.
 *
 * scan is bound by latency and cut as the forward pass is (delta.cu): 16 columns of V a warp, dS' (16, K) in
 * its registers, where an accumulator is the next product's operand: 128 matrix instructions a chunk, 256
 * chunks in 0.2 ms.  What the states of the chunks' first rows need is no inverse, only K and U: their
 * squares of 64 by 64 are summed up meanwhile on the SMs that are left.  In float32 scan multiplies from
 * shared memory, 16 columns of V a block.
 *
 * Long texts are done in pieces of 2048 chunks and heads, from the last to the first: a quarter of a gigabyte
 * (float32: half), whatever the length; the states between pieces are summed up before.
 *
 * The sequences of a group follow each other in a block of scan, and the heads that share q and k in a block
 * of back: so all that is added to one place is added in order. */
#include "delta_back.h"

/* ---- the gradients ------------------------------------------------------------------------- */

/* Two blocks on a multiprocessor leave a thread 128 registers, of which sm_90's compiler keeps 32 numbers too
 * many in memory, and sm_100's 110: there it is one block. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
enum { BACK_BLOCKS = 1 };
#else
enum { BACK_BLOCKS = 2 };
#endif

template <class X> static size_t back_bytes()
{
	return shared_size(2 * CHUNK * row_of<X>(), sizeof(X)) +
	       3 * shared_size(CHUNK * row_of<X>(), sizeof(X)) + shared_size(GATES, 4) +
	       shared_size(4 * CHUNK, 4) + shared_size(CHUNK, 8) + shared_size(33, 4);
}

template <class X> static __global__ void __launch_bounds__(THREADS, BACK_BLOCKS) back(const job<X> a)
{
	SHARED(s);
	constexpr int L = row_of<X>(), LE = CHUNK + 1;
	X *x = s.template take<X>(2 * CHUNK * L), *y = x + CHUNK * L, *z = s.template take<X>(CHUNK * L);
	X *XD = s.template take<X>(CHUNK * L), *ZD = s.template take<X>(CHUNK * L);
	const gates t = carve(s.template take<float>(GATES));
	/* (64, LE), before x is used again */
	float *sums = s.template take<float>(4 * CHUNK), *E = (float *)(void *)x;
	double *dc = s.template take<double>(CHUNK);                              /* the gradient of c */
	float *room = s.template take<float>(33);
	const int row = threadIdx.x, i0 = row / 64 * 16, half = row / 32 % 2, j0 = half * 32,
		  share = a.H / a.G;
	const int b = (int)(blockIdx.x / a.count) / a.G, kh = (int)(blockIdx.x / a.count) % a.G;
	const size_t sk = row_apart(a.K, a.G, a.nb), sv = row_apart(a.V, a.H, a.nb);

	for (int h = kh * share; h < (kh + 1) * share; h++) {
		const struct cell c = cell_of(a, blockIdx.x % a.count, b, h);
		const size_t key = place(a.K, a.G, kh, a.nb, b, c.j0),
			     value = place(a.V, a.H, h, a.nb, b, c.j0);
		const float *q = a.q + key, *k = a.k + key, *d_o = a.d_o + value, *u = a.u + value;
		/* (K, V), or */
		const float *S0 = c.c ? NULL : first_state(a, b, h);
		/* (VP, KP) */
		const X *S = c.c ? a.behind + (c.i - 1) * a.VP * a.KP : NULL;
		float *dv = a.dv + value;
		const int cap0 = capture_from(a.cap_row, a.captures, c.j0),
			  cap1 = capture_from(a.cap_row, a.captures, c.j0 + c.m);
		const bool square = i0 < c.mp && j0 < c.mp;

		load_gates(a, t, c);
		if (row < CHUNK) {
			dc[row] = 0;
			sums[row] = 0;
		}
		__syncthreads();
		{
			/* X = dO U', Z = W U'; dR becomes W in dv */
			const bool wide = is_wide(dv, sv, a.V) && is_wide(u, sv, a.V);
			warp_tile<X> xs, zs;

			xs.zero();
			zs.zero();
			for (int v0 = 0; v0 < a.VP; v0 += W) {
				const int vw = min((int)W, a.VP - v0);
				float4 dr[4], us[4];

				load(x, L, c.mp, vw, d_o + v0, sv, c.m, a.V - v0, NULL);
				fours(c.mp, vw, [&](int i, int j, int r) {
					const size_t at = i * sv + v0 + j;

					dr[r] = i < c.m ? four(dv + at, a.V - v0 - j, wide)
					                : make_float4(0, 0, 0, 0);
					us[r] = i < c.m ? four(u + at, a.V - v0 - j, wide)
					                : make_float4(0, 0, 0, 0);
				});
				fours(c.mp, vw, [&](int i, int j, int r) {
					const float by = t.beta[i], w[4] = { by * dr[r].x, by * dr[r].y,
					                                     by * dr[r].z, by * dr[r].w };
					float dot = dr[r].x * us[r].x + dr[r].y * us[r].y +
					            dr[r].z * us[r].z + dr[r].w * us[r].w;

					round_two(y + i * L + j, us[r].x, us[r].y);
					round_two(y + i * L + j + 2, us[r].z, us[r].w);
					round_two(z + i * L + j, w[0], w[1]);
					round_two(z + i * L + j + 2, w[2], w[3]);
					if (wide && i < c.m && v0 + j < a.V)
						*(float4 *)(dv + i * sv + v0 + j) = make_float4(w[0], w[1],
						                                                w[2], w[3]);
					for (int l = 0; l < 4 && !wide && i < c.m && v0 + j + l < a.V; l++)
						dv[i * sv + v0 + j + l] = w[l];
					/* a row's lanes lie side by side */
					for (int o = 1; o < vw / 4; o *= 2)
						dot += __shfl_xor_sync(~0u, dot, o);
					if (j == 0)
						sums[i] += dot;
				});
				__syncthreads();
				if (square && j0 < i0 + 16) {
					xs.template add<false, true>(vw, x + i0 * L, L, y + j0 * L, L);
					zs.template add<false, true>(vw, z + i0 * L, L, y + j0 * L, L);
				}
				__syncthreads();
			}
			if (a.db && row < c.m) /* dbeta / db = beta (1 - sigmoid(b)) */
				a.db[place(1, a.H, h, a.nb, b, c.j0 + row)] = sums[row] * t.slope[row];
			if (square) {
				/* D * X; - (D * Z + (D * Z)') of the Z below the diagonal */
				const float *qk = a.g ? a.qk + c.i * CHUNK * CHUNK : NULL,
					    *kk = a.g ? a.kk + c.i * CHUNK * CHUNK : NULL;

				xs.each([&](int i, int j, float n) {
					i += i0, j += j0;
					round_to(XD + i * L + j,
					         j <= i ? (a.g ? between(t, i, j) : 1.f) * n : 0.f);
					if (a.g)
						E[i * LE + j] = j < i ? n * qk[i * CHUNK + j] : 0.f;
				});
				zs.each([&](int i, int j, float n) {
					i += i0, j += j0;
					if (a.g && j < i)
						E[i * LE + j] -= n * kk[i * CHUNK + j];
					n = j < i ? -(a.g ? between(t, i, j) : 1.f) * n : 0.f;
					if (j <= i) {
						round_to(ZD + i * L + j, n);
						round_to(ZD + j * L + i, n);
					}
				});
			}
		}
		__syncthreads();
		/* what D gives dc of the later row, and takes from the earlier one's */
		if (a.g && row < c.mp) {
			float later = 0, earlier = 0;

			for (int i = 0; i < c.mp; i++) {
				later += E[row * LE + i];
				earlier += E[i * LE + row];
			}
			dc[row] += (double)later - (double)earlier;
		}
		__syncthreads();

		for (int k0 = 0; k0 < a.KP; k0 += W) {
			const int kw = min((int)W, a.KP - k0);
			const bool works = i0 < c.mp && j0 < kw;
			const auto by = [&](const float *with) {
				return [=](int i, int j) {
					return i0 + i < c.m && k0 + j0 + j < a.K
					               ? with[(i0 + i) * sk + k0 + j0 + j]
					               : 0.f;
				};
			};
			const auto sum_of = [&](const float *from) {
				return from[row] + (kw > 32 ? from[CHUNK + row] : 0.f);
			};
			warp_tile<X> dq, dk;
			float was = 0;

			dq.zero();
			dk.zero();
			/* the gradients of states in the chunk and at its end: dk += diag(f) U dS' */
			for (int end = a.first + c.c + 1 < a.chunks ? cap0 - 1 : cap0; end < cap1; end++) {
				const bool own = end < cap0, turned = own && c.c + 1 < a.count; /* (VP, KP) */
				const int n = own ? c.m : a.cap_row[end] - c.j0 + 1;
				const float *dS = turned ? NULL
				                  : own  ? a.after + slot_at(a, b, h)
				                         : a.dS + slot_at(a, a.cap_slot[end], h);
				float sum = 0;

				left_over(t, a.g, n);
				__syncthreads();
				for (int v0 = 0; v0 < a.VP; v0 += W) {
					const int vw = min((int)W, a.VP - v0);

					if (turned)
						bring(z, L, vw, kw,
						      a.N + ((c.i + 1) * a.VP + v0) * a.KP + k0, a.KP);
					else
						load(z, L, kw, vw, dS + (size_t)k0 * a.V + v0, a.V, a.K - k0,
						     a.V - v0, NULL);
					load(y, L, c.mp, vw, u + v0, sv, c.m, a.V - v0, t.f);
					copies_wait<0>();
					__syncthreads();
					if (works && turned)
						dk.template add<false, false>(vw, y + i0 * L, L, z + j0, L);
					else if (works)
						dk.template add<false, true>(vw, y + i0 * L, L,
						                             z + j0 * L, L);
					if (a.g)
						each(turned ? vw : kw, turned ? kw : vw, [&](int i, int j) {
							const int k1 = k0 + (turned ? j : i),
								  v1 = v0 + (turned ? i : j);

							sum += (float)z[i * L + j] *
							       (S ? (float)S[(size_t)v1 * a.KP + k1]
							        : k1 < a.K && v1 < a.V
							                ? S0[(size_t)k1 * a.V + v1]
							                : 0.f);
						});
					__syncthreads();
				}
				if (!a.g)
					continue;
				if (works)
					row_sums(dk, by(k),
					         [&](int i, float n) { sums[half * CHUNK + i0 + i] = n; });
				__syncthreads();
				sum *= t.e[n - 1];
				if (row < c.mp) {
					const float now = sum_of(sums);

					dc[row] -= (double)(now - was);
					sum += now - was;
					was = now;
				}
				sum = block_sum(sum, room);
				if (row == n - 1)
					dc[row] += (double)sum;
			}
			for (int v0 = 0; v0 < a.VP; v0 += W) {
				const int vw = min((int)W, a.VP - v0);

				if (S)
					bring(z, L, vw, kw, S + (size_t)v0 * a.KP + k0, a.KP);
				else
					load(z, L, kw, vw, S0 + (size_t)k0 * a.V + v0, a.V, a.K - k0,
					     a.V - v0, NULL);
				load(x, L, c.mp, vw, d_o + v0, sv, c.m, a.V - v0, t.e);
				load(y, L, c.mp, vw, dv + v0, sv, c.m, a.V - v0, t.e);
				copies_wait<0>();
				__syncthreads();
				if (works) {
					/* the product is taken away */
					dk.each([](int, int, float &n) { n = -n; });
					if (S) {
						dq.template add<false, false>(vw, x + i0 * L, L, z + j0, L);
						dk.template add<false, false>(vw, y + i0 * L, L, z + j0, L);
					} else {
						dq.template add<false, true>(vw, x + i0 * L, L,
						                             z + j0 * L, L);
						dk.template add<false, true>(vw, y + i0 * L, L,
						                             z + j0 * L, L);
					}
					dk.each([](int, int, float &n) { n = -n; });
				}
				__syncthreads();
			}
			if (a.g) {
				if (works) {
					row_sums(dq, by(q), [&](int i, float n) {
						sums[(2 + half) * CHUNK + i0 + i] = n;
					});
					row_sums(dk, by(k),
					         [&](int i, float n) { sums[half * CHUNK + i0 + i] = n; });
				}
				__syncthreads();
				if (row < c.mp)
					dc[row] += (double)sum_of(sums + 2 * CHUNK) +
					           (double)(sum_of(sums) - was);
			}

			/* dq += X K, dk += X' Q + Z K */
			load(x, L, c.mp, kw, k + k0, sk, c.m, a.K - k0, NULL);
			load(y, L, c.mp, kw, q + k0, sk, c.m, a.K - k0, NULL);
			__syncthreads();
			if (works) {
				const auto put = [&](float *to) {
					return [=](int i, int j, float n) {
						float *at = to + key + (i0 + i) * sk + k0 + j0 + j;

						if (i0 + i < c.m && k0 + j0 + j < a.K)
							*at = h > kh * share ? *at + n : n;
					};
				};

				dq.template add<false, false>(i0 + 16, XD + i0 * L, L, x + j0, L);
				dk.template add<true, false>(c.mp - i0, XD + i0 * L + i0, L,
				                             y + i0 * L + j0, L);
				dk.template add<false, false>(c.mp, ZD + i0 * L, L, x + j0, L);
				dq.each(put(a.dq));
				dk.each(put(a.dk));
			}
			__syncthreads();
		}
		if (a.g && row < c.m) {
			double sum = 0;

			for (int i = c.m - 1; i >= row; i--)
				sum += dc[i];
			a.dg[place(1, a.H, h, a.nb, b, c.j0 + row)] = (float)sum;
		}
		__syncthreads();
	}
}

/* ---- the operation ------------------------------------------------------------------------- */

/* Widths, the length of a piece in chunks, and what lies between the kernels, from `scratch` on; returns its
 * bytes.  dS: the gradients of the states between pieces, of two by turns. */
template <class X> static size_t lay_out(job<X> *a, float *dS[2], bool decays, void *scratch)
{
	const int heads = a->nb * a->H, most = PIECE / heads > 1 ? PIECE / heads : 1;
	size_t at = 0;

	a->chunks = (a->steps + CHUNK - 1) / CHUNK;
	a->piece = a->chunks < most ? a->chunks : most;
	a->KP = padded_keys(a->K, sizeof(X) == 2);
	a->VP = up32(a->V);
	a->rows = up32(a->steps < CHUNK ? a->steps : (int)CHUNK);

	const int pieces = (a->chunks + a->piece - 1) / a->piece;
	const size_t cells = (size_t)heads * a->piece, square = decays ? cells * CHUNK * CHUNK : 0,
		     states = (size_t)heads * a->K * a->V;
	const size_t row = (size_t)a->rows * a->KP, state = (size_t)a->VP * a->KP;

	a->B = rf_cuda_piece<X>(scratch, &at, cells * row);
	a->N = rf_cuda_piece<X>(scratch, &at, cells * state);
	a->R = rf_cuda_piece<X>(scratch, &at, a->chunks > 1 ? cells * row : 0);
	a->behind = rf_cuda_piece<X>(scratch, &at, a->piece > 1 ? cells * state : 0);
	a->ends = rf_cuda_piece<float>(scratch, &at, cells);
	a->kk = rf_cuda_piece<float>(scratch, &at, square);
	a->qk = rf_cuda_piece<float>(scratch, &at, square);
	a->carry = rf_cuda_piece<float>(scratch, &at, (pieces - 1) * states);
	dS[1] = rf_cuda_piece<float>(scratch, &at, pieces > 1 ? states : 0);
	dS[0] = rf_cuda_piece<float>(scratch, &at, pieces > 2 ? states : 0);
	return at;
}

template <class X> static size_t bytes_of(const struct rf_beside *b, int nb, int steps)
{
	job<X> a = {};
	float *dS[2];

	a.nb = nb, a.steps = steps, a.H = b->H, a.K = b->K, a.V = b->V;
	return !nb || !steps || !b->H ? 0 : lay_out<X>(&a, dS, true, NULL);
}

size_t rf_cuda_delta_back_scratch(const struct rf_dev *d, const struct rf_beside *b, int nb, int steps)
{
	return d->math == RF_MATH_BF16 ? bytes_of<bf16>(b, nb, steps) : bytes_of<float>(b, nb, steps);
}

template <class X> static void run(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	const int per = x->per ? x->per : 1, groups = (x->nb + per - 1) / per, heads = x->nb * x->H;
	job<X> a = {};
	float *dS[2];

	a.nb = x->nb, a.steps = x->steps, a.per = per, a.H = x->H, a.G = x->G, a.K = x->K, a.V = x->V;
	a.captures = x->captures, a.beta_scale = x->beta_scale;
	a.q = f32(x->q), a.k = f32(x->k), a.b = f32(x->b), a.g = f32(x->g), a.u = f32(x->u),
	a.d_o = f32(x->d_o), a.S = f32(x->S);
	a.dq = f32(x->dq), a.dk = f32(x->dk), a.dv = f32(x->dv), a.db = f32(x->db), a.dg = f32(x->dg),
	a.dS = f32(x->dS);
	a.start = i32(x->start), a.cap_row = i32(x->cap_row), a.cap_slot = i32(x->cap_slot);

	void *scratch = rf_cuda_scratch(d, lay_out(&a, dS, a.g != NULL, NULL));
	if (!scratch)
		return;
	lay_out(&a, dS, a.g != NULL, scratch);

	const int chunks = a.chunks, piece = a.piece, pieces = (chunks + piece - 1) / piece;
	const unsigned squares = (unsigned)(heads * ((a.KP + W - 1) / W) * ((a.VP + W - 1) / W));

	if (pieces > 1) {
		a.count = (pieces - 1) * piece + 1;
		rf_cuda_delta_between(d, a, squares);
	}
	for (int p = pieces - 1; p >= 0; p--) {
		a.first = p * piece;
		a.count = chunks - a.first < piece ? chunks - a.first : piece;
		a.after = p + 1 < pieces ? dS[(p + 1) % 2] : NULL;
		a.before = p ? dS[p % 2] : NULL;
		a.states = a.count > 1 ? squares : 0;
		rf_cuda_delta_ready(d, a);
		rf_cuda_delta_scan(d, a, groups);
		LAUNCH(d, back<X>, (unsigned)(a.nb * a.G * a.count), THREADS, back_bytes<X>(), a);
	}
}

void rf_cuda_delta_bwd(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	if (!x->nb || !x->steps || !x->H || !rf_cuda_has_width(d, x->K, "keys"))
		return;
	if (d->math == RF_MATH_BF16)
		run<bf16>(d, x);
	else
		run<float>(d, x);
}
