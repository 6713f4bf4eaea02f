# report.gp -- the figures of rewards and of training for report.md: gnuplot style.gp report.gp
#
# In the folder: models, a line for each name.  NAME.bins: the middle of a bin, and the densities of cosine
# rewards against the record's own text and against other text.  NAME.steps: the step, and mean and deviation
# of three figures.
set datafile separator "\t"
models = system("paste -sd' ' models")
title(name) = name eq "sft" ? "SFT" : name eq "sft-published" ? "SFT as published" : \
              name eq "refine" ? "ReFINE, n 1" : name eq "refine-n8" ? "ReFINE, n 8" : \
              name eq "random" ? "random rewards" : name
tint(name) = name eq "sft" ? colour(1) : name eq "sft-published" ? colour(6) : \
             name eq "refine" ? colour(2) : name eq "refine-n8" ? colour(3) : \
             name eq "random" ? colour(4) : "#777777"

# ---- distribution of rewards: a panel for each model, with the mean as a line
panels = words(models)
eval figure("rewards", 7, panels)
set multiplot layout panels,1 margins 0.09,0.98,0.11,0.93 spacing 0,0.02
set xrange [-0.2:1.02]
set autoscale yfix
set offsets 0, 0, graph 0.4, 0
unset ytics
unset grid
set style fill solid 0.6 noborder
set key inside right top samplen 2
do for [i = 1:panels] {
	if (i == 1) { set title "density of rewards" } else { unset title }
	if (i == panels) {
		set format x "%g"
		set xlabel "cosine of a rollout's hidden states and the text's"
	} else {
		set format x ""
		unset xlabel
	}
	name = word(models, i)
	bins = name.".bins"
	stats bins using 1:2 nooutput
	mean = STATS_sum_y > 0 ? STATS_sumxy / STATS_sum_y : 0
	set arrow 1 from mean, graph 0 to mean, graph 1 nohead front lw 1.2 dt 2 lc "#000000"
	plot bins using 1:2 with boxes lc rgb tint(name) title title(name), \
	     bins using 1:3 with histeps lw 0.8 lc "#444444" title (i == 1 ? "against other text" : "")
}
unset multiplot
unset arrow 1
unset title
set ytics autofreq nomirror out
set grid ytics
set format "%g"
set autoscale
set key noreverse Right
unset offsets

# ---- over the steps: running means in bands of one standard deviation
eval figure("steps", 7, 6.5)
set multiplot layout 3,1
set lmargin 12
set key outside top center horizontal samplen 2
axis(c) = c == 1 ? "loss - SFT's, nats" : c == 2 ? "cosine reward" : "binary reward"
trained = "refine refine-n8 random"
steps(name) = name.".steps"
set xlabel "optimizer step"
do for [c = 1:3] {
	set ylabel axis(c)
	plot for [name in trained] steps(name) \
	         using 1:(column(2 * c) - column(2 * c + 1)):(column(2 * c) + column(2 * c + 1)) \
	         with filledcurves fs transparent solid 0.15 noborder lc rgb tint(name) notitle, \
	     for [name in trained] steps(name) using 1:(column(2 * c)) \
	         with lines lw 1.2 lc rgb tint(name) title title(name), \
	     (c == 1 ? 0 : NaN) with lines lw 1.2 lc rgb tint("sft") title (c == 1 ? "SFT" : "")
}
unset multiplot
