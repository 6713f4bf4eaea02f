/* html_chart.c -- a histogram whose range grows with its numbers, drawn as SVG. */
#include <math.h>
#include <string.h>

#include "dump/html_chart.h"

/* Doubles the width of the bars.  Bars 2i and 2i + 1 of the line of numbers become bar i. */
static void widen(struct rf_histogram *h)
{
	const int64_t first = h->first >= 0 ? h->first / 2 : -((1 - h->first) / 2);
	uint64_t count[RF_BARS] = { 0 };

	for (int i = 0; i < RF_BARS; i++) {
		int64_t bar = h->first + i;

		bar = bar >= 0 ? bar / 2 : -((1 - bar) / 2);
		count[bar - first] += h->count[i];
	}
	memcpy(h->count, count, sizeof count);
	h->first = first;
	h->width *= 2;
}

/* Moves the range so that it begins at `bar`, fewer than RF_BARS before its first bar, if the last bars are
 * empty. */
static bool move_down(struct rf_histogram *h, int64_t bar)
{
	const int64_t by = h->first - bar;

	for (int64_t i = RF_BARS - by; i < RF_BARS; i++)
		if (h->count[i])
			return false;
	memmove(h->count + by, h->count, (size_t)(RF_BARS - by) * sizeof *h->count);
	memset(h->count, 0, (size_t)by * sizeof *h->count);
	h->first = bar;
	return true;
}

void rf_histogram_add(struct rf_histogram *h, double x)
{
	if (h->n == 0) {
		h->width = ldexp(1, x > 0 || x < 0 ? ilogb(x) - 5 : -5);
		h->first = (int64_t)floor(x / h->width) / RF_BARS * RF_BARS;
	}
	for (;;) {
		const double bar = floor(x / h->width);

		if (bar >= (double)h->first && bar < (double)h->first + RF_BARS) {
			h->count[(int64_t)bar - h->first]++;
			h->n++;
			return;
		}
		/* only a near bar is sure to be an int64_t */
		if (!(bar < (double)h->first && (double)h->first - bar < RF_BARS &&
		      move_down(h, (int64_t)bar)))
			widen(h);
	}
}

void rf_histogram_draw(const struct rf_histogram *h, const char *title, struct rf_buf *p)
{
	int from = 0, to = RF_BARS;
	uint64_t most = 0;

	if (!h->n)
		return;
	while (!h->count[from])
		from++;
	while (!h->count[to - 1])
		to--;
	for (int i = from; i < to; i++)
		most = h->count[i] > most ? h->count[i] : most;
	rf_print(p, "<figure><svg viewBox=\"0 0 %d 66\" preserveAspectRatio=none role=img aria-label=\"%s\">",
	         4 * (to - from), title);
	for (int i = from; i < to; i++)
		if (h->count[i])
			rf_print(p,
			         "<rect x=%d y=%.4g width=3.4 height=%.4g><title>%.6g to %.6g: "
			         "%llu</title></rect>",
			         4 * (i - from), 64 - 62 * (double)h->count[i] / (double)most,
			         62 * (double)h->count[i] / (double)most, (double)(h->first + i) * h->width,
			         (double)(h->first + i + 1) * h->width, (unsigned long long)h->count[i]);
	rf_print(p, "</svg><figcaption><span>%.4g</span><b>%s</b><span>%.4g</span></figcaption></figure>",
	         (double)(h->first + from) * h->width, title, (double)(h->first + to) * h->width);
}
