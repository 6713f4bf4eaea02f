/* jline.c -- one line of JSON.  A comma precedes every value except the first, which follows the brace. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/jline.h"
#include "base/print.h"

static void name_of(struct rf_buf *b, const char *name)
{
	if (!b->failed)
		rf_print(b, "%s\"%s\":", b->p[b->n - 1] == '{' ? "" : ",", name);
}

void rf_jline_begin(struct rf_buf *b) { rf_print_text(b, "{"); }

void rf_jline_bool(struct rf_buf *b, const char *name, bool v)
{
	name_of(b, name);
	rf_print_text(b, v ? "true" : "false");
}

void rf_jline_int(struct rf_buf *b, const char *name, int64_t v)
{
	name_of(b, name);
	rf_print(b, "%" PRId64, v);
}

void rf_jline_real(struct rf_buf *b, const char *name, double v)
{
	name_of(b, name);
	if (isfinite(v))
		rf_print_real(b, v);
	else
		rf_print_text(b, "null");
}

void rf_jline_text(struct rf_buf *b, const char *name, const char *v)
{
	name_of(b, name);
	rf_print_string(b, v, strlen(v));
}

void rf_jline_end(struct rf_buf *b) { rf_print_text(b, "}\n"); }
