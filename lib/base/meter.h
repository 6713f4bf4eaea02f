/* meter.h -- how far a program is: counters that its work turns while another thread reads them
 * (progress.h). */
#ifndef RF_METER_H
#define RF_METER_H

#include <stdatomic.h>
#include <stdint.h>

struct rf_meter {
	_Atomic uint64_t bytes;    /* of the inputs, read so far, as they lie in their files */
	_Atomic uint64_t records;  /* read */
	_Atomic uint64_t done;     /* those that the program is through with */
	_Atomic uint64_t tokens;   /* theirs */
	/* of a trainer: optimizer steps so far, and the losses of the last one, NaN: none */
	_Atomic uint64_t steps;
	_Atomic double ntp, rl;
};

/* m may be NULL: nobody looks.  bytes: all that were read so far. */
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
		m->ntp = ntp;
		m->rl = rl;
		m->steps++;
	}
}

#endif
