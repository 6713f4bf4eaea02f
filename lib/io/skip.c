/* skip.c -- counts bad lines against a bound. */
#include "io/skip.h"

void rf_skip_options(struct rf_skip *s, struct rf_opt opts[RF_SKIP_OPTS])
{
	const struct rf_opt table[] = {
		{ "skip-bad", 0, RF_OPT_U64, &s->most, 0, 0, "n",
		  "pass over up to n bad lines, and report how many there were", false },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_SKIP_OPTS);
}

enum rf_code rf_skip_line(struct rf_skip *s, enum rf_code rc, const struct rf_err *e)
{
	if (rc != RF_EDATA || !s || s->n == s->most)
		return rc;
	if (!s->n++ && s->first)
		s->first(e ? e->msg : "");
	return RF_OK;
}

enum rf_code rf_skip_end(const struct rf_skip *s, uint64_t good, struct rf_err *e)
{
	if (!s->n || good)
		return RF_OK;
	return rf_fail(e, RF_EDATA, "the input has nothing but bad lines: %llu (--skip-bad)",
	               (unsigned long long)s->n);
}
