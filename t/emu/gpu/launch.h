/* launch.h -- the emulator's version of kernels/cuda/gpu/launch.h: CUDA's keywords, launches, and dynamic
 * shared memory. */
#ifndef EMU_GPU_LAUNCH_H
#define EMU_GPU_LAUNCH_H

#include "emu.h"

#define RF_HOST_SEES emu::computes()

#define RF_LAUNCH(kernel, grid, block, bytes, stream, ...) \
	emu::launch(#kernel, __FILE__, __LINE__, kernel, (grid), (block), (bytes), (stream), ##__VA_ARGS__)

#define RF_ALLOW(kernel, bytes) (emu::allow_smem((const void *)(kernel), (bytes)), cudaSuccess)

#define SHARED(name) emu::carver name

#endif
