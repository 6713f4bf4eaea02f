#!/bin/sh
# gpu-of-rank.sh COMMAND... -- runs the command with one GPU of this machine: rank n of the machine gets GPU n
# of CUDA_VISIBLE_DEVICES, or of all.
#
#     LAUNCH='mpirun -n 8 --bind-to none sh pipelines/lib/gpu-of-rank.sh'
set -eu
rank=${OMPI_COMM_WORLD_LOCAL_RANK-${MPI_LOCALRANKID-${SLURM_LOCALID-}}}
[ -n "$rank" ] || { echo "gpu-of-rank.sh: no launcher says which rank of its machine this is" >&2; exit 64; }
gpu=$rank
[ -z "${CUDA_VISIBLE_DEVICES-}" ] || gpu=$(echo "$CUDA_VISIBLE_DEVICES," | cut -d, -f $((rank + 1)))
if [ -z "$gpu" ]; then
	echo "gpu-of-rank.sh: rank $rank of this machine has no GPU in" \
		"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" >&2
	exit 69
fi
CUDA_VISIBLE_DEVICES=$gpu exec "$@"
