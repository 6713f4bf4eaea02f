/* fit.c -- finds how much haystack fits.  The number of tokens grows almost evenly with the number of units,
 * so the secant through the last two measures comes within a few units of the result in two or three steps.
 * Single steps, and bisection where they do not converge, find the result.  It is right for any tokenizer:
 * this number of units fits, and one more does not. */
#include <math.h>
#include <string.h>

#include "needle/task.h"

enum { FIRST_STEP = 16, SECOND_PART = 16, PATIENCE = 24 };

enum rf_code rf_fit(const struct rf_fit *f, size_t least, size_t most, size_t room, size_t *units,
                    size_t *measured, struct rf_err *e)
{
	size_t lo = least, hi = most + 1, at_lo, guess = least + FIRST_STEP, last = least, at_last, n;
	double rate, step;
	enum rf_code rc;

	if ((rc = f->measure(f->of, lo, &at_lo, e)) != RF_OK)
		return rc;
	*units = lo;
	*measured = at_last = at_lo;
	if (at_lo > room)
		return RF_EOF;
	for (int calls = 1; hi - lo > 1; calls++) {
		guess = guess <= lo ? lo + 1 : guess >= hi ? hi - 1 : guess;
		if ((rc = f->measure(f->of, guess, &n, e)) != RF_OK)
			return rc;
		rate = ((double)n - (double)at_last) / ((double)guess - (double)last);
		rate = rate < 0.25 ? 0.25 : rate;
		step = floor(((double)room - (double)n) / rate);
		last = guess;
		at_last = n;
		if (n <= room) {
			lo = guess;
			at_lo = n;
		} else {
			hi = guess;
		}
		/* few units give only a rough rate, and a sixteenth of the way costs little */
		if (calls == 1 && step > SECOND_PART * FIRST_STEP)
			step /= SECOND_PART;
		if (calls > PATIENCE)
			guess = lo + (hi - lo) / 2;
		else
			guess = (double)last + step < 1 ? 0 : (size_t)((double)last + step);
	}
	*units = lo;
	*measured = at_lo;
	return RF_OK;
}

static enum rf_code measure_prompt(void *of, size_t units, size_t *n, struct rf_err *e)
{
	struct rf_prompt *s = of;
	enum rf_code rc;

	s->prompt.n = s->context.n = 0;
	s->units = units;
	if ((rc = s->task->render(s, units, e)) != RF_OK)
		return rc;
	if (s->failed || s->context.failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rc = rf_count_tokens(s->of, &s->prompt, n, e);
	*n += (size_t)s->task->max_new;
	return rc;
}

static enum rf_code begin_prompt(struct rf_prompt *s, struct rf_material *m, const struct rf_task *task,
                                 uint64_t number, int length, struct rf_err *e)
{
	enum rf_code rc;

	memset(s, 0, sizeof *s);
	s->of = m;
	s->task = task;
	s->number = number;
	s->length = length;
	s->most = SIZE_MAX;
	if ((rc = task->draw(s, e)) == RF_OK && s->failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	return rc;
}

enum rf_code rf_prompt_make(struct rf_prompt *s, struct rf_material *m, const struct rf_task *task,
                            uint64_t number, int length, struct rf_err *e)
{
	const struct rf_fit fit = { measure_prompt, s };
	size_t room = (size_t)length, units, most;
	enum rf_code rc;

	if ((rc = begin_prompt(s, m, task, number, length, e)) != RF_OK)
		return rc;
	/* A unit has at least one token.  If a tokenizer joins all unknown text into one token, units may
	   have none, and this number of units is enough. */
	most = s->most > s->least + room ? s->least + room : s->most;
	while ((rc = rf_fit(&fit, s->least, most, room, &units, &s->tokens, e)) == RF_EOF && task->shrink &&
	       task->shrink(s))
		;
	if (rc == RF_OK && s->units != units) {
		s->prompt.n = s->context.n = 0;
		rc = task->render(s, s->units = units, e);
	}
	return rc == RF_OK && (s->failed || s->prompt.failed) ? rf_fail(e, RF_ENOMEM, "out of memory") : rc;
}

enum rf_code rf_prompt_least(struct rf_material *m, const struct rf_task *task, uint64_t number, int length,
                             size_t *tokens, struct rf_err *e)
{
	struct rf_prompt s;
	enum rf_code rc = begin_prompt(&s, m, task, number, length, e);

	if (rc == RF_OK && (rc = measure_prompt(&s, s.least, tokens, e)) == RF_OK &&
	    *tokens > (size_t)length && task->shrink && task->shrink(&s))
		rc = measure_prompt(&s, s.least, tokens, e);
	rf_prompt_free(&s);
	return rc;
}

void rf_prompt_free(struct rf_prompt *s)
{
	if (s->drop && s->state)
		s->drop(s->state);
	rf_buf_free(&s->context);
	rf_buf_free(&s->prompt);
	rf_region_free(&s->memory);
	s->state = NULL;
}
