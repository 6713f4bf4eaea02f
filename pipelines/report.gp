# report.gp -- the figures of report.md.  tmp, entropy, out: set on the command line by report.sh.
set terminal pngcairo size 1100,700 font "Sans,11" background "#ffffff"
set datafile separator "\t"
set border 3 lw 1 lc "#444444"
set tics nomirror out
set grid ytics lw 1 lc "#dddddd"
set key outside top center horizontal samplen 2
set style line 1 lw 2 lc "#777777"
set style line 2 lw 2 lc "#1f77b4"
set style line 3 lw 2 lc "#d62728"
set style line 4 lw 2 lc "#9467bd"
set style line 5 lw 2 lc "#e69f00"

# ---- entropy along a document, its first half above its second; the draw is in each chunk by softmax(mean)
stats entropy skip 1 using 1 nooutput
T = STATS_max + 1
do for [i = 1:7] { set arrow i from i * T / 8, graph 0 to i * T / 8, graph 1 nohead lw 1 dt 3 lc "#999999" }
set output out."/entropy.png"
set multiplot layout 2,1
set ylabel "entropy of the next byte, nats"
set yrange [0:*]
do for [half = 0:1] {
	set xlabel half == 0 ? "" : "position, bytes"
	set xrange [half * T / 2:(half + 1) * T / 2]
	plot entropy skip 1 using 1:2 with lines lw 1 lc "#cfd8e3" title "entropy", \
	     tmp."/entropy.mean" using 1:2 with lines lw 1.5 lc "#1f77b4" \
	         title "mean of 5, which the draw follows", \
	     tmp."/entropy.chosen" using 1:2 with points pt 7 ps 1.6 lc "#d62728" \
	         title "chosen, one in each chunk"
}
unset multiplot
unset arrow

# ---- distribution of rewards
set output out."/rewards.png"
set xlabel "cosine of a rollout's hidden states and the text's"
set ylabel "density"
set xrange [-0.2:1.02]
plot tmp."/start.bins" using 1:3 with histeps lw 2 dt 3 lc "#777777" title "start, against other text", \
     tmp."/start.bins" using 1:2 with histeps ls 1 title "start", \
     tmp."/sft.bins" using 1:2 with histeps ls 2 title "SFT", \
     tmp."/refine.bins" using 1:2 with histeps ls 3 title "ReFINE, n 1", \
     tmp."/refine-n8.bins" using 1:2 with histeps ls 4 title "ReFINE, n 8", \
     tmp."/random.bins" using 1:2 with histeps ls 5 title "random rewards"

# ---- over the steps
set terminal pngcairo size 1100,1000 font "Sans,11" background "#ffffff"
set output out."/steps.png"
set autoscale
set multiplot layout 3,1
set xlabel ""
set format "%g"
set lmargin 12
set ylabel "loss - SFT's, nats"
plot 0 with lines ls 2 title "SFT", \
     tmp."/refine.steps" using 1:2 with lines ls 3 title "ReFINE, n 1", \
     tmp."/refine-n8.steps" using 1:2 with lines ls 4 title "ReFINE, n 8", \
     tmp."/random.steps" using 1:2 with lines ls 5 title "random rewards"
set ylabel "cosine reward"
plot tmp."/refine.steps" using 1:3 with lines ls 3 title "ReFINE, n 1", \
     tmp."/refine-n8.steps" using 1:3 with lines ls 4 title "ReFINE, n 8", \
     tmp."/random.steps" using 1:3 with lines ls 5 title "random rewards"
set ylabel "binary reward"
set xlabel "optimizer step"
plot tmp."/refine.steps" using 1:4 with lines ls 3 title "ReFINE, n 1", \
     tmp."/refine-n8.steps" using 1:4 with lines ls 4 title "ReFINE, n 8", \
     tmp."/random.steps" using 1:4 with lines ls 5 title "random rewards"
unset multiplot
