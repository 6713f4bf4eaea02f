/* skip.c -- counts bad lines against a bound. */
#include <stdio.h>
#include <string.h>

#include "io/skip.h"

void rf_skip_options(struct rf_skip *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_U64("skip-bad", &s->most, "n", "skip up to n bad lines, and report their number"),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

/* Adds to a sentence how many bad lines --skip-bad allowed, or that it passes over such lines.  A sentence
 * that names an option already says what to do, and a sentence that is too long stays as it is. */
static void add_hint(const struct rf_skip *s, struct rf_err *e)
{
	const size_t n = strlen(e->msg);
	char text[80] = " (--skip-bad N passes over N such lines)";

	if (s->most)
		snprintf(text, sizeof text, " (more bad lines than --skip-bad %llu)",
		         (unsigned long long)s->most);
	else if (strstr(e->msg, " --") || strstr(e->msg, "(--"))
		return;
	if (n + strlen(text) < sizeof e->msg)
		strcpy(e->msg + n, text);
}

enum rf_code rf_skip_line(struct rf_skip *s, enum rf_code rc, struct rf_err *e)
{
	if (rc != RF_EDATA || !s)
		return rc;
	if (s->n == s->most) {
		if (e)
			add_hint(s, e);
		return rc;
	}
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
