/* meter.h -- counters of a program's progress: the working thread advances them while another thread reads
 * them (progress.h). */
#ifndef RF_METER_H
#define RF_METER_H

#include <stdatomic.h>
#include <stdint.h>

struct rf_meter {
	_Atomic uint64_t bytes;   /* read from the inputs so far, as stored (compressed) */
	_Atomic uint64_t records; /* read so far */
	_Atomic uint64_t done;    /* records that the program has finished with */
	_Atomic uint64_t tokens;  /* in the records counted by `done` */
	/* trainers only: optimizer steps so far, and the losses of the last step; NaN: that step has none */
	_Atomic uint64_t steps;
	_Atomic double ntp, rl;
	_Atomic double first_ntp; /* the loss of the first step, as ntp */
};

/* m may be NULL in these functions, if no thread reads the counters. */

/* Counts one record that was read.  bytes: the total read so far. */
static inline void rf_meter_read(struct rf_meter *m, uint64_t bytes)
{
	if (m) {
		m->bytes = bytes;
		m->records++;
	}
}

static inline void rf_meter_done(struct rf_meter *m, int tokens)
{
	if (m) {
		m->tokens += (uint64_t)tokens;
		m->done++;
	}
}

static inline void rf_meter_step(struct rf_meter *m, double ntp, double rl)
{
	if (m) {
		if (!m->steps)
			m->first_ntp = ntp;
		m->ntp = ntp;
		m->rl = rl;
		m->steps++;
	}
}

#endif
