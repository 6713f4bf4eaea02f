/* mpi.c -- rf-mpi.so: exchanges with any implementation of MPI.
 *
 * Each exchange is begun without waiting, and polled until it has ended, because MPI would wait without a
 * limit and at full processor load.  Failures are returned; by default MPI would kill the processes. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "ranks/ranks.h"

static MPI_Comm all_ranks = MPI_COMM_NULL;
static MPI_Request request = MPI_REQUEST_NULL;

static bool went_well(int code, char *why)
{
	char text[MPI_MAX_ERROR_STRING];
	int n;

	if (code == MPI_SUCCESS)
		return true;
	MPI_Error_string(code, text, &n);
	snprintf(why, RF_RANKS_WHY, "%.190s", text);
	return false;
}

static bool mpi_open(int *rank, int *ranks, char *why)
{
	int given;

	/* one thread opens and closes, another exchanges: one after the other */
	if (!went_well(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given), why))
		return false;
	if (given < MPI_THREAD_SERIALIZED) {
		snprintf(why, RF_RANKS_WHY, "this MPI does not let two threads use it one after the other");
		return false;
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	return went_well(MPI_Comm_dup(MPI_COMM_WORLD, &all_ranks), why) &&
	       went_well(MPI_Comm_rank(all_ranks, rank), why) &&
	       went_well(MPI_Comm_size(all_ranks, ranks), why);
}

static bool mpi_gather(const void *mine, void *all, const int *bytes, const int *at, char *why)
{
	int rank;

	return went_well(MPI_Comm_rank(all_ranks, &rank), why) &&
	       went_well(MPI_Iallgatherv(mine, bytes[rank], MPI_BYTE, all, bytes, at, MPI_BYTE, all_ranks,
	                                 &request),
	                 why);
}

static bool mpi_sum(int64_t *x, int n, char *why)
{
	return went_well(MPI_Iallreduce(MPI_IN_PLACE, x, n, MPI_INT64_T, MPI_SUM, all_ranks, &request), why);
}

static bool mpi_sum_parts(const int64_t *x, int64_t *mine, const int *n, char *why)
{
	return went_well(MPI_Ireduce_scatter(x, mine, n, MPI_INT64_T, MPI_SUM, all_ranks, &request), why);
}

static bool mpi_done(bool *done, char *why)
{
	int flag = 0;
	bool well = went_well(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), why);

	*done = flag;
	return well;
}

static void mpi_close(void)
{
	if (all_ranks != MPI_COMM_NULL)
		MPI_Comm_free(&all_ranks);
	MPI_Finalize();
}

static const struct rf_ranks_ops ops = { mpi_open, mpi_gather, mpi_sum, mpi_sum_parts, mpi_done, mpi_close };
__attribute__((visibility("default"))) const struct rf_ranks_plugin rf_ranks_plugin = { RF_RANKS_ABI, &ops };
