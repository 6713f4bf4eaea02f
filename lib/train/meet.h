/* meet.h -- what the trainers of a run's ranks agree on: before the first record that they are at the same
 * step of the same run, with the same settings; before each mini-batch what all of them have of it; after the
 * last that the new step is there.  A trainer that is alone agrees with itself. */
#ifndef RF_MEET_H
#define RF_MEET_H

#include "train/trainer.h"

/* Of all ranks together. */
struct rf_meeting {
	struct rf_totals totals;
	uint64_t records;            /* of the stream so far */
	uint64_t joined;             /* those of them with a response, for the outer step */
	struct rf_group_stats groups;
};

/* A hash of where the run is before a batch. */
uint64_t rf_meet_began(const struct rf_trainer *t);

/* Each is a vote (ranks.h): code is this rank's, and what they return is all ranks'. */
enum rf_code rf_meet_open(struct rf_trainer *t, enum rf_code code, struct rf_err *e);
/* Before a mini-batch, of which this rank has the records in w; none: it has none of this one, or its stream
 * has ended.  outer: it is that of the step on the responses. */
enum rf_code rf_meet_batch(struct rf_trainer *t, const struct rf_train *train, const struct rf_waiting *w,
                           bool outer, struct rf_meeting *all, struct rf_err *e);
/* After the commit.  weights: becomes the hash of the run's, as rank 0 has it. */
enum rf_code rf_meet_commit(struct rf_trainer *t, enum rf_code code, char weights[17], struct rf_err *e);
/* Whether any rank has records of the next batch. */
enum rf_code rf_meet_more(struct rf_trainer *t, bool mine, bool *any, struct rf_err *e);
/* Adds up what each rank announces of its records of a mini-batch, before their rollouts exist. */
enum rf_code rf_meet_ahead(struct rf_trainer *t, const struct rf_totals *mine, struct rf_totals *all,
                           struct rf_err *e);
/* After one of several batches: *end becomes what rank 0 has decided: whether to commit, and to stop. */
struct rf_meet_end { bool save, stop; };
enum rf_code rf_meet_end(struct rf_trainer *t, enum rf_code code, struct rf_meet_end *end, struct rf_err *e);
/* In the middle of a commit with --shard optimizer: rank 0 has begun the file of moments, path; the others
 * say NULL, and learn in which folder of the run it is: name.  Then, that each has written its part. */
enum rf_code rf_meet_moments(struct rf_trainer *t, enum rf_code code, const char *path,
                             char name[RF_VOTE_BYTES], struct rf_err *e);
enum rf_code rf_meet_written(struct rf_trainer *t, enum rf_code code, struct rf_err *e);
/* Lets the others know, where they meet next, that this one ends with this failure; returns what all end
 * with.  It is no failure if it is theirs already, or if they are past it. */
enum rf_code rf_meet_leave(struct rf_trainer *t, enum rf_code code, struct rf_err *e);

#endif
