# report.gp -- rewards and steps of report.md: gnuplot style.gp report.gp
#
# In the folder, for each model: NAME.bins, the middle of a bin and the densities of cosine rewards against
# the record's own text and against other text; NAME.steps, the step, and mean and deviation of three figures.
set datafile separator "\t"
models = "start sft refine refine-n8 random"
title(i) = i == 1 ? "start" : i == 2 ? "SFT" : i == 3 ? "ReFINE, n 1" : \
           i == 4 ? "ReFINE, n 8" : "random rewards"
tint(i) = i == 1 ? "#777777" : colour(i - 1)

# ---- distribution of rewards: a panel for each model, with the mean as a line
eval figure("rewards", 7, 5)
set multiplot layout 5,1 margins 0.09,0.98,0.11,0.93 spacing 0,0.02
set xrange [-0.2:1.02]
set format y ""
set ytics 100
unset grid
set style fill solid 0.6 noborder
set key inside left top Left reverse samplen 2
do for [i = 1:5] {
	if (i == 1) { set title "density of rewards" } else { unset title }
	if (i == 5) {
		set format x "%g"
		set xlabel "cosine of a rollout's hidden states and the text's"
	} else {
		set format x ""
		unset xlabel
	}
	bins = word(models, i).".bins"
	stats bins using 1:2 nooutput
	mean = STATS_sum_y > 0 ? STATS_sumxy / STATS_sum_y : 0
	set arrow 1 from mean, graph 0 to mean, graph 1 nohead lw 1.2 dt 2 lc "#000000"
	plot bins using 1:2 with boxes lc rgb tint(i) title title(i), \
	     bins using 1:3 with histeps lw 0.8 lc "#444444" title (i == 1 ? "against other text" : "")
}
unset multiplot
unset arrow 1
unset title
set grid ytics
set ytics autofreq
set format "%g"
set autoscale
set key noreverse Right

# ---- over the steps: running means in bands of one standard deviation
eval figure("steps", 7, 6.5)
set multiplot layout 3,1
set lmargin 12
set key outside top center horizontal samplen 2
axis(c) = c == 1 ? "loss - SFT's, nats" : c == 2 ? "cosine reward" : "binary reward"
steps(i) = word(models, i).".steps"
set xlabel "optimizer step"
do for [c = 1:3] {
	set ylabel axis(c)
	plot for [i = 3:5] steps(i) \
	         using 1:(column(2 * c) - column(2 * c + 1)):(column(2 * c) + column(2 * c + 1)) \
	         with filledcurves fs transparent solid 0.15 noborder lc rgb colour(i - 1) notitle, \
	     for [i = 3:5] steps(i) using 1:(column(2 * c)) \
	         with lines lw 1.2 dt dash(i) lc rgb colour(i - 1) title title(i), \
	     (c == 1 ? 0 : NaN) with lines lw 1.2 lc rgb colour(1) title (c == 1 ? "SFT" : "")
}
unset multiplot
