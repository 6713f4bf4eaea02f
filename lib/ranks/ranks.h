/* ranks.h -- the ranks: processes that train a run together, each on its share of the records.
 *
 * All functions except rf_ranks_open() and rf_ranks_sign() are collective: every rank calls them in the same
 * order.  The rank that comes first sleeps until the others come, because the programs before it in the pipe
 * need the processor.  If a rank does not come, and has written no sign of life for --rank-timeout seconds,
 * the other ranks give up with RF_EBUSY, and the message names that rank.  After that, and after a vote that
 * failed, the ranks have parted: they exchange nothing more.
 *
 * A single process is rank 0 of 1.  Collective functions then return immediately, so callers need no special
 * case.  A plugin carries the messages: the functions in struct rf_ranks_ops, which rf-mpi.so has. */
#ifndef RF_RANKS_H
#define RF_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "io/shared_object.h"

enum rf_launch { RF_LAUNCH_NONE, RF_LAUNCH_MPI };
#define RF_LAUNCH_WORDS "none|mpi"

/* The functions of a plugin.  gather(), sum() and sum_parts() begin an exchange, and done() tells whether it
 * has ended; there is one exchange at a time.  All return false on failure, with a sentence in `why`, which
 * has room for RF_RANKS_WHY bytes. */
enum { RF_RANKS_WHY = 200 };
struct rf_ranks_ops {
	bool (*open)(int *rank, int *ranks, char *why);
	/* mine: bytes[rank] bytes; all: gets bytes[i] bytes of each rank i, at all + at[i] */
	bool (*gather)(const void *mine, void *all, const int *bytes, const int *at, char *why);
	bool (*sum)(int64_t *x, int n, char *why); /* x becomes the sum of all ranks' x */
	/* x: n[i] numbers for each rank i, in order; mine: gets the sum of those for this rank */
	bool (*sum_parts)(const int64_t *x, int64_t *mine, const int *n, char *why);
	bool (*done)(bool *done, char *why);
	void (*close)(void);
};
struct rf_ranks_plugin {
	uint64_t abi;
	const struct rf_ranks_ops *ops;
};
#define RF_RANKS_ABI ((uint64_t)2 << 32 | sizeof(struct rf_ranks_ops))
/* The file of the plugin. */
extern const struct rf_plugin_kind rf_ranks_kind;

struct rf_ranks {
	/* settings */
	enum rf_launch launch; /* --ranks */
	double timeout;        /* --rank-timeout, in seconds */
	/* open */
	int rank, ranks;                /* the number of this rank; the number of ranks */
	bool parted;                    /* nothing more is exchanged */
	int failed;                     /* after a vote: the first rank that failed; -1: no rank failed */
	struct rf_err why;              /* the failure of that rank: "rank 3: ..." */
	bool left;                      /* a rank has left and casts no further vote */
	const struct rf_ranks_ops *ops; /* NULL: a single process */
	uint64_t calls;                 /* collective calls so far; the first one joins the ranks */
	double waited;                  /* seconds of waiting for other ranks, for the log */
	char signs[4096];               /* the folder of signs of life */
	/* the times of this rank's last sign, by its own clock, and of its first sign, by the file system's
	   clock */
	double signed_at, opened;
	struct rf_sign *seen; /* the last sign of each rank; NULL: a single process */
};
#define RF_RANKS_DEFAULTS \
	{ \
		.timeout = 600, .ranks = 1, .failed = -1 \
	}
extern struct rf_ranks rf_ranks_alone; /* a single process; it does not change */

/* --ranks --rank-timeout */
void rf_ranks_options(struct rf_ranks *r, struct rf_opts *opts);

/* Joins the other ranks.  folder: a directory on a file system that all ranks share; each rank writes its
 * sign of life there, to the file folder/.ranks/RANK.  Errors: RF_EDEVICE: there is no plugin, or the plugin
 * finds no launcher; RF_EIO: the sign cannot be written. */
enum rf_code rf_ranks_open(struct rf_ranks *r, const char *folder, struct rf_err *e);
/* Writes this rank's sign of life, with the words `doing`, unless it wrote one just before. */
void rf_ranks_sign(struct rf_ranks *r, const char *doing);

/* A sign of life. */
struct rf_rank_sign {
	int rank;
	uint64_t calls; /* collective calls of the rank so far */
	char host[64], doing[81];
	long pid;
	double written; /* time of the sign, by the file system's clock */
};
/* Reads the signs in a folder, in order of ranks.  *list is malloc'd; NULL: the folder has no signs.  Errors:
 * RF_EIO, RF_ENOMEM. */
enum rf_code rf_ranks_seen(const char *folder, struct rf_rank_sign **list, int *n, struct rf_err *e);

/* Gathers n bytes of each rank.  mine: this rank's bytes; all: ranks * n bytes, in order of ranks. */
enum rf_code rf_ranks_gather(struct rf_ranks *r, const void *mine, size_t n, void *all, struct rf_err *e);
/* Gathers n[i] bytes of each rank i, in order of ranks. */
enum rf_code rf_ranks_gather_parts(struct rf_ranks *r, const void *mine, const size_t *n, void *all,
                                   struct rf_err *e);
/* Replaces each x[i] by the sum of x[i] over all ranks.  The sums are of whole numbers, so their bits do not
 * depend on the order in which they are added. */
enum rf_code rf_ranks_sum(struct rf_ranks *r, int64_t *x, size_t n, struct rf_err *e);
/* Adds up numbers for each rank.  x: n[i] numbers for each rank i, in order; mine: n[rank] numbers, the sums
 * over all ranks of the numbers for this rank. */
enum rf_code rf_ranks_sum_parts(struct rf_ranks *r, const int64_t *x, const size_t *n, int64_t *mine,
                                struct rf_err *e);

/* Waits for an exchange that does not go through the plugin, such as one of NCCL, until done() sets *done.
 * begun: whether this rank could begin it; if not, `why` has the reason, and the other ranks are told.
 * Errors: RF_EBUSY, as for the exchanges above. */
enum rf_code rf_ranks_await(struct rf_ranks *r, bool begun, bool (*done)(void *arg, bool *done, char *why),
                            void *arg, char why[RF_RANKS_WHY], struct rf_err *e);

/* A vote: the ranks tell each other whether they are well, where they are, and facts that must be the same
 * for all. */
enum { RF_VOTE_BYTES = 128, RF_VOTE_SAME = 6 };
struct rf_same {
	const char *name;
	uint64_t hash;
};
struct rf_vote {
	int moment;       /* the place in the program; negative: the rank leaves */
	int64_t number;   /* the number of the batch or mini-batch, which is the same for all */
	const char *what; /* the place, for messages */
	struct rf_same same[RF_VOTE_SAME]; /* facts, with their names for messages */
	int sames;
};
/* Votes.  code: RF_OK, or this rank's failure, which e describes.  mine: `size` bytes, at most RF_VOTE_BYTES,
 * that all ranks get: all has room for those of each rank, in order.  Returns the same to all ranks: RF_OK,
 * or the code of the first rank that failed; then e has its sentence after "rank 3: ", and the ranks have
 * parted.  Errors: RF_EDATA: a rank is at another place, or has another fact. */
enum rf_code rf_ranks_vote(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, const void *mine,
                           size_t size, void *all, struct rf_err *e);
/* Votes, and replaces each of n numbers by the sum of all ranks' numbers. */
enum rf_code rf_ranks_vote_sum(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, uint64_t *x,
                               int n, struct rf_err *e);
/* Votes, and replaces x by what rank 0 has there. */
enum rf_code rf_ranks_vote_first(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, void *x,
                                 size_t size, struct rf_err *e);

/* Leaves the other ranks.  It is the last call of each rank. */
void rf_ranks_close(struct rf_ranks *r);

/* Reads the rank and the number of ranks from the environment of a launcher: Open MPI, PMIx, PMI or Slurm.
 * Call it only if the user asked for it (rf-cat --shard auto), because a batch script of Slurm sets such
 * variables for a single process, too.  Errors: RF_EUSAGE: the environment has no such variables. */
enum rf_code rf_ranks_launched(int *rank, int *ranks, struct rf_err *e);

#endif
