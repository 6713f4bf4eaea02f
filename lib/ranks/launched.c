/* launched.c -- what is known before the plugin is loaded: its file, and the rank that a launcher has given
 * to this process. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "ranks/ranks.h"

const struct rf_plugin_kind rf_ranks_kind = {
	/* clang-format off */
	.what = "MPI", .file = "rf-mpi.so", .variable = "RF_MPI", .table = "rf_ranks_plugin",
	.otherwise = "install the package rf-tools-mpi, or mpicc and build again", .abi = RF_RANKS_ABI,
	/* clang-format on */
	.global = true, /* MPI's own components */
};

static bool number_in(const char *name, int *to)
{
	const char *s = getenv(name);
	uint64_t n;

	if (!s || !rf_number(s, strlen(s), &n) || n > 1 << 24)
		return false;
	*to = (int)n;
	return true;
}

enum rf_code rf_ranks_launched(int *rank, int *ranks, struct rf_err *e)
{
	static const char *const names[][2] = {
		{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
		{ "PMIX_RANK", "SLURM_NTASKS" },
		{ "PMI_RANK", "PMI_SIZE" },
		{ "SLURM_PROCID", "SLURM_NTASKS" },
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (number_in(names[i][0], rank) && number_in(names[i][1], ranks) && *rank < *ranks)
			return RF_OK;
	return rf_fail(e, RF_EUSAGE,
	               "--shard auto: no launcher says which rank this is (start it by mpirun or srun, or "
	               "say --shard 0/2)");
}
