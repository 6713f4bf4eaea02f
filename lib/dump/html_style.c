/* html_style.c -- the style sheet of a page, and the colours of its tokens.
 *
 * One hue, amber, stands for nats: of an entropy, or of the surprise of a token, which is its negative
 * log-probability.  Its share grows with the level, so it reads on a light and on a dark background.
 * Differences are blue and red.  A level is an attribute of one letter, and the letters h, i, n, d are the
 * values that hover shows (html.c). */
#include <math.h>

#include "dump/html.h"

static const double from[RF_HTML_LEVELS] = { 0, .1, .5, 1, 1.5, 2, 3, 4, 5, 7 };
static const char levels[RF_HTML_LEVELS + 1] = "abcefgjklm";
static const double steps[RF_HTML_STEPS] = { .02, .1, .3, 1, 3 };
static const char lower[RF_HTML_STEPS + 1] = "opqrs", higher[RF_HTML_STEPS + 1] = "uvwxy";

char rf_html_level(double nats)
{
	int i = RF_HTML_LEVELS - 1;

	while (i && !(nats >= from[i]))
		i--;
	return levels[i];
}

double rf_html_from(int level) { return from[level]; }

char rf_html_difference(double nats)
{
	int i = RF_HTML_STEPS - 1;

	while (i >= 0 && !(fabs(nats) >= steps[i]))
		i--;
	return i < 0 ? 0 : nats < 0 ? lower[i] : higher[i];
}

/* clang-format off */
const char rf_html_style[] =
	":root{color-scheme:light dark;--line:#8886;--ink:217 119 6;--less:37 99 235;--more:220 38 38}\n"
	"body{display:flex;flex-direction:column;margin:0 auto;max-width:70rem;padding:1rem 1rem 3rem;"
		"font:15px/1.5 system-ui,sans-serif}\n"
	"header{order:-2}#summary{order:-1}\n"
	"h1{font-size:1.3rem;overflow-wrap:anywhere;display:inline}"
		"h2{font-size:1.05rem;margin:1.5rem 0 .3rem;overflow-wrap:anywhere}\n"
	"pre{overflow-x:auto;font-size:.85rem;white-space:pre-wrap;overflow-wrap:anywhere}\n"
	"section{border-top:1px solid var(--line)}\n"
	"figure{display:inline-block;margin:.5rem 2rem .5rem 0;width:16rem}svg{width:100%;height:4rem}"
		"svg rect{fill:rgb(var(--ink))}\n"
	"figcaption{display:flex;justify-content:space-between;font-size:.8rem}\n"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
		"td,th{padding:.1rem .6rem .1rem 0;text-align:right;vertical-align:top;font-weight:400}"
		"th{font-size:.8rem}td:last-child,th:last-child{text-align:left;width:99%;min-width:16rem}\n"
	"details{margin:.4rem 0}\n"
	".w{overflow-x:auto}@media(max-width:40rem){td,th{font-size:.75rem;padding-right:.4rem}}\n"
	".f{font-size:.85rem;margin:.2rem 0;display:flex;flex-wrap:wrap;gap:0 1rem;align-items:center}\n"
	"summary{cursor:pointer;font-size:.9rem}\n"
	".t{font:14px/1.75 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;"
		"counter-reset:t -1}\n"
	"div.x{max-height:70vh;overflow-y:auto;border:1px solid var(--line);padding:.3rem .5rem}\n"
	".t p{display:inline;margin:0;counter-increment:t;border-left:1px solid #8883;unicode-bidi:isolate}\n"
	".t i{font-style:normal;font-size:.7em;opacity:.6}\n"
	".t p[z]{outline:2px solid;border-radius:2px}"
		".t p[z]::before{content:attr(z);font:.65em system-ui;vertical-align:super;opacity:.8}\n"
	".t hr{border:0;border-top:1px dashed var(--line);margin:.3rem 0}\n"
	".t b{text-decoration:underline;font-weight:400}.t u{text-decoration:none;background:#16a34a55}\n"
	"div.x p:hover::after{position:fixed;left:0;right:0;bottom:0;padding:.4rem 1rem;background:Canvas;"
		"border-top:1px solid;font:14px system-ui;white-space:pre;z-index:1;"
		"content:'t ' counter(t) '   id ' attr(i)}\n"
	"div.x p[h]:hover::after{content:'t ' counter(t) '   id ' attr(i) '   entropy ' attr(h)}\n"
	"div.x p[n]:hover::after{content:'t ' counter(t) '   id ' attr(i) '   entropy ' attr(h)"
		" '   nll of the next token ' attr(n)}\n"
	"div.x p[d]:hover::after{content:'t ' counter(t) '   id ' attr(i) '   entropy ' attr(h)"
		" '   difference ' attr(d)}\n"
	"div.x p[n][d]:hover::after{content:'t ' counter(t) '   id ' attr(i) '   entropy ' attr(h)"
		" '   nll of the next token ' attr(n) '   difference ' attr(d)}\n"
	"[b]{background:rgb(var(--ink)/.05)}[c]{background:rgb(var(--ink)/.12)}"
		"[e]{background:rgb(var(--ink)/.2)}[f]{background:rgb(var(--ink)/.28)}"
		"[g]{background:rgb(var(--ink)/.36)}[j]{background:rgb(var(--ink)/.46)}"
		"[k]{background:rgb(var(--ink)/.56)}[l]{background:rgb(var(--ink)/.68)}"
		"[m]{background:rgb(var(--ink)/.82)}\n"
	"[o]{background:rgb(var(--less)/.1)}[p]{background:rgb(var(--less)/.22)}"
		"[q]{background:rgb(var(--less)/.36)}[r]{background:rgb(var(--less)/.5)}"
		"[s]{background:rgb(var(--less)/.65)}[u]{background:rgb(var(--more)/.1)}"
		"[v]{background:rgb(var(--more)/.22)}[w]{background:rgb(var(--more)/.36)}"
		"[x]{background:rgb(var(--more)/.5)}[y]{background:rgb(var(--more)/.65)}\n"
	"@media print{body{max-width:none;padding:0}div.x{max-height:none}#sort{display:none}"
		"[b],[c],[e],[f],[g],[j],[k],[l],[m],[o],[p],[q],[r],[s],[u],[v],[w],[x],[y],svg"
		"{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n";

const char rf_html_script[] =
	"var s=document.getElementById('sort'),r=[...document.querySelectorAll('section[data-n]')];"
	"s.hidden=r.length<2;s.onchange=function(){var k=s.value,d=k=='n'?1:-1;"
	"r.sort(function(a,b){return d*((a.dataset[k]||-1e9)-(b.dataset[k]||-1e9))||a.dataset.n-b.dataset.n})"
	".forEach(function(e,i){e.style.order=i+1})};";
/* clang-format on */
