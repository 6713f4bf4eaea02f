/* ranks.h -- the processes that train a run together, one on each share of its records: who they are, and
 * what they tell each other.
 *
 * All but rf_ranks_open() and rf_ranks_sign() is collective: every rank calls it, and the n-th call of one is
 * the n-th of all.  Whoever comes first waits, asleep, since the programs before it in the pipe compute
 * meanwhile.  If a rank does not come and has shown no sign of life for the time of --rank-timeout, the
 * others give up with RF_EBUSY and say which one it is.  From then on, and after a vote that failed, nothing
 * more is exchanged.
 *
 * A process that is alone is rank 0 of 1, for which all of this is nothing or a copy: so there is one text
 * for both.  What carries the messages is a table of a few functions (struct rf_ranks_ops), that of
 * rf-mpi.so. */
#ifndef RF_RANKS_H
#define RF_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

enum rf_launch { RF_LAUNCH_NONE, RF_LAUNCH_MPI };
#define RF_LAUNCH_WORDS "none|mpi"

/* One exchange at a time: gather(), sum() and sum_parts() begin it, and done() says whether it has ended.
 * They return false on failure, with a sentence in `why`, which has room for RF_RANKS_WHY bytes. */
enum { RF_RANKS_WHY = 200 };
struct rf_ranks_ops {
	bool (*open)(int *rank, int *ranks, char *why);
	/* mine: bytes[rank]; all: bytes[i] of rank i, at all + at[i] */
	bool (*gather)(const void *mine, void *all, const int *bytes, const int *at, char *why);
	bool (*sum)(int64_t *x, int n, char *why);      /* x becomes the sum of all ranks' x */
	/* x: n[i] numbers for each rank i, one behind the other; mine: the sum of those for this rank */
	bool (*sum_parts)(const int64_t *x, int64_t *mine, const int *n, char *why);
	bool (*done)(bool *done, char *why);
	void (*close)(void);
};
struct rf_ranks_plugin { uint64_t abi; const struct rf_ranks_ops *ops; };
#define RF_RANKS_ABI ((uint64_t)2 << 32 | sizeof(struct rf_ranks_ops))

struct rf_ranks {
	/* settings */
	enum rf_launch launch;       /* --ranks */
	double timeout;              /* --rank-timeout, in seconds */
	/* open */
	int rank, ranks;             /* this one's number; how many there are */
	bool parted;                 /* nothing more is exchanged */
	int failed;                  /* after a vote: the first rank that failed; -1: none did */
	struct rf_err why;           /* then how: "rank 3: ..." */
	bool left;                   /* one has left: it casts no further vote */
	const struct rf_ranks_ops *ops; /* NULL: alone */
	uint64_t calls;              /* collective calls so far, of which the first is to join */
	double waited;               /* seconds for others to come, for the log */
	char signs[4096];            /* the folder of signs of life */
	double signed_at, opened;    /* by our clock; by the file system's */
	struct rf_sign *seen;        /* of each rank; NULL: alone */
};
#define RF_RANKS_DEFAULTS { .timeout = 600, .ranks = 1, .failed = -1 }
extern struct rf_ranks rf_ranks_alone; /* who never had others; it does not change */

/* --ranks --rank-timeout */
void rf_ranks_options(struct rf_ranks *r, struct rf_opts *opts);

/* Joins the others.  folder: a directory on a file system that all ranks see; a file there for each,
 * folder/.ranks/ with the rank's number, is its sign of life.  Errors: RF_EDEVICE: there is no plugin, or it
 * finds no launcher; RF_EIO: no sign can be written. */
enum rf_code rf_ranks_open(struct rf_ranks *r, const char *folder, struct rf_err *e);
/* Says that this rank lives, and what it does; costs nothing if it did so just before. */
void rf_ranks_sign(struct rf_ranks *r, const char *doing);

/* What the sign of a rank says. */
struct rf_rank_sign {
	int rank;
	uint64_t calls;              /* exchanges that it has come to */
	char host[64], doing[81];
	long pid;
	double written;              /* when, by the file system's clock */
};
/* The signs that are in folder, by rank: *list is allocated, and NULL if there is none.  Errors: RF_EIO,
 * RF_ENOMEM. */
enum rf_code rf_ranks_seen(const char *folder, struct rf_rank_sign **list, int *n, struct rf_err *e);

/* mine: n bytes of this rank; all: ranks * n bytes, by rank. */
enum rf_code rf_ranks_gather(struct rf_ranks *r, const void *mine, size_t n, void *all, struct rf_err *e);
/* The same of n[i] bytes from rank i, one behind the other. */
enum rf_code rf_ranks_gather_parts(struct rf_ranks *r, const void *mine, const size_t *n, void *all,
                                   struct rf_err *e);
/* x[i] = the sum of all ranks' x[i].  Whole numbers: the same bits in whatever order they are added. */
enum rf_code rf_ranks_sum(struct rf_ranks *r, int64_t *x, size_t n, struct rf_err *e);
/* x: n[i] numbers for each rank i, one behind the other.  mine: n[rank] numbers, the sum of all ranks' for
 * this one. */
enum rf_code rf_ranks_sum_parts(struct rf_ranks *r, const int64_t *x, const size_t *n, int64_t *mine,
                                struct rf_err *e);

/* An exchange that something else carries, such as NCCL: waits until done() says that it has ended, as for
 * those above, with their failures.  begun: whether it could be begun, else `why` says; a rank that could not
 * tells the others. */
enum rf_code rf_ranks_await(struct rf_ranks *r, bool begun, bool (*done)(void *arg, bool *done, char *why),
                            void *arg, char why[RF_RANKS_WHY], struct rf_err *e);

/* A vote: the ranks tell each other whether they are well, where they are, and facts that must be the same
 * for all. */
enum { RF_VOTE_BYTES = 128, RF_VOTE_SAME = 6 };
struct rf_same { const char *name; uint64_t hash; };
struct rf_vote {
	int moment;                  /* the place in the program; negative: the rank leaves */
	int64_t number;              /* how often the rank was at this place before */
	const char *what;            /* the place, for messages */
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

/* Leaves; the last call of each. */
void rf_ranks_close(struct rf_ranks *r);

/* The rank and the number of ranks that a launcher's environment says: Open MPI's, PMIx's, PMI's, Slurm's.
 * Only who was told to looks there (rf-cat --shard auto): a batch script of Slurm has such variables for a
 * process that is alone.  Errors: RF_EUSAGE: none says. */
enum rf_code rf_ranks_launched(int *rank, int *ranks, struct rf_err *e);

#endif
