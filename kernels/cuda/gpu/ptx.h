/* ptx.h -- functions for instructions that C++ cannot express.  The emulator of the tests has its own header
 * of this name with the same functions, t/emu/gpu/ptx.h; the compiler's -I decides which of the two
 * <gpu/ptx.h> is. */
#ifndef RF_GPU_PTX_H
#define RF_GPU_PTX_H

#include <cstdint>

#include <cuda_bf16.h>
#include <mma.h>

/* A product on the matrix units, with fragments as the PTX manual defines them: c (16, 8) += a (16, 16) b
 * (16, 8) */
static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
	    "{%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four matrices (8, 8) from shared memory, transposed with TRANSPOSE.  Lane l passes the address of row
 * l % 8 of matrix l / 8, a multiple of 16 bytes. */
template <bool TRANSPOSE>
static __device__ __forceinline__ void load_four(uint32_t (&x)[4], const __nv_bfloat16 *row)
{
	const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

	if (TRANSPOSE)
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		             : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
		             : "r"(at)
		             : "memory");
	else
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		             : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
		             : "r"(at)
		             : "memory");
}

/* Starts to copy 16 bytes to shared memory.  copies_close() makes a group of the copies started so far, and
 * copies_wait<n>() waits for all groups of this thread except the last n. */
static __device__ __forceinline__ void copy_16(void *to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
	             :
	             : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
	             : "memory");
}

static __device__ __forceinline__ void copies_close() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int n> static __device__ __forceinline__ void copies_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

/* Returns 2^x, but 0 if the result is below 1e-38.  Otherwise as exact as exp2f, which is this instruction
 * with such results handled. */
static __device__ __forceinline__ float exp2_ftz(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* Returns a / b to 2 units in the last place, and 0 if |b| is above 2^126. */
static __device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }

#endif
