# curves.gp -- curves over training, a panel for each kind of figure: gnuplot style.gp curves.gp
#
# In the folder: panels, a line for each panel, its title; names, a line for each curve; P.S, the points of
# curve S in panel P: step, value, and the band's lower and upper edge, or NaN.  BASE in the environment: the
# curve from which the others are differences, or 0.  A panel that only this curve has is left out.
base = int(system('echo "${BASE:-0}"'))
curves = int(system("wc -l <names"))
file(p, s) = sprintf("%d.%d", int(p), int(s))
rows(p, s) = int(system(sprintf("if [ -e %s ]; then wc -l <%s; else echo 0; fi", file(p, s), file(p, s))))
shown = ""
do for [p = 1:int(system("wc -l <panels"))] {
	if (sum [s = 1:curves] (s == base ? 0 : rows(p, s))) { shown = shown.sprintf(" %d", p) }
}
if (shown eq "") { shown = " 1" }
panels = words(shown)
names = 0.1 + 0.16 * ((curves + 1) / 2)
height = 0.25 + names + 1.75 * panels
eval figure("curves", 3.5, height)
set lmargin 8
set tmargin 1.5
set rmargin 3
set key at screen 0.5, screen 1 center top horizontal maxcols 2 samplen 2 spacing 1.1
set multiplot
high = (1 - names / height) / panels
set xlabel "optimizer step" offset 0, 0.4
do for [i = 1:panels] {
	p = int(word(shown, i))
	set origin 0, high * (panels - i)
	set size 1, high
	set label 1 line("panels", p) at screen 0.03, graph 1.11 left noenhanced
	these = ""
	do for [s = 1:curves] { if (rows(p, s)) { these = these.sprintf(" %d", s) } }
	dots(s) = rows(p, s) > 40 ? 0 : 0.35
	plot for [s in these] file(p, s) using 1:3:4 with filledcurves fs transparent solid 0.2 noborder \
	         lc rgb colour(int(s)) notitle, \
	     for [s in these] file(p, s) using 1:2 with linespoints lw 1.2 pt mark(int(s)) ps dots(s) \
	         dt dash(int(s)) lc rgb colour(int(s)) notitle, \
	     for [j = 1:curves] NaN with linespoints lw 1.2 pt mark(j) ps 0.35 dt dash(j) \
	         lc rgb colour(j) title (i == 1 ? line("names", j) : "")
}
unset multiplot
