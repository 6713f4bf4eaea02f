# curves.gp -- curves over training, a panel for each kind.  tmp, runs, panels: set on the command line by
# curves.sh; the points of run i and of column c of its table are in the file i.c.
set terminal pngcairo size 900, 60 + 260 * words(panels) font "Sans,11" background "#ffffff"
set output tmp."/curves.png"
set border 3 lw 1 lc "#444444"
set tics nomirror out
set grid ytics lw 1 lc "#dddddd"
set key outside top center horizontal samplen 2 noenhanced
set lmargin 12
colours = "#1f77b4 #d62728 #e69f00 #9467bd #2ca02c #8c564b #777777"
colour(i) = word(colours, (i - 1) % words(colours) + 1)
label(c) = c == 3 ? "held-out text: loss, nats" : c == 4 ? "held-out text: accuracy" : \
           c == 5 ? "training: loss, nats" : "training: reward"
file(i, c) = sprintf("%s/%d.%d", tmp, i, c)
points(i, c) = int(system(sprintf("wc -l <'%s'", file(i, c))))
set multiplot layout words(panels), 1
do for [p = 1:words(panels)] {
	c = int(word(panels, p))
	set ylabel label(c)
	set xlabel p == words(panels) ? "optimizer step" : ""
	width = c < 5 ? 2 : 1
	size = c < 5 ? 0.6 : 0
	these = ""
	do for [i = 1:words(runs)] { if (points(i, c)) { these = these.sprintf(" %d", i) } }
	plot for [i in these] file(int(i), c) using 1:2 with linespoints lw width pt 7 ps size \
	         lc rgb colour(int(i)) title word(runs, int(i))
}
unset multiplot
