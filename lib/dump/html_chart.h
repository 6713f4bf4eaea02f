/* html_chart.h -- counts numbers of any range and draws them as a small chart. */
#ifndef RF_HTML_CHART_H
#define RF_HTML_CHART_H

#include <stdint.h>

#include "base/print.h"

/* Counts in bars of equal width.  The width is a power of two; it doubles when a number lies outside of a
 * range that cannot be moved down. */
enum { RF_BARS = 64 };
struct rf_histogram {
	uint64_t count[RF_BARS], n;
	double width;  /* of a bar, if there is a number */
	int64_t first; /* the first bar begins at first * width */
};

/* Adds a finite number. */
void rf_histogram_add(struct rf_histogram *h, double x);
/* Appends the histogram as SVG, with the ends of its range below the bars; nothing if it has no number. */
void rf_histogram_draw(const struct rf_histogram *h, const char *title, struct rf_buf *p);

#endif
