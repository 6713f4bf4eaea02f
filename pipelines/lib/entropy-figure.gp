# entropy-figure.gp -- the entropy along one sequence, its first half above its second, and the chosen
# positions: gnuplot style.gp entropy-figure.gp
#
# In the folder: tokens, with a head and lines of t, entropy and chosen; mean and chosen, points of t and the
# mean of 5 entropies; unit, the name of a token.  CHUNKS in the environment: the number of equal parts of
# the sequence, divided by lines, in each of which a position was drawn; 0: none.
set datafile separator "\t"
stats "tokens" skip 1 using 1 nooutput
T = STATS_max + 1
chunks = int(system('echo "${CHUNKS:-0}"'))
unit = line("unit", 1)
chosen = int(system("wc -l <chosen"))
eval figure("entropy", 7, 4)
set key outside top center horizontal samplen 2 maxrows 1
do for [i = 1:chunks - 1] {
	set arrow i from i * T / chunks, graph 0 to i * T / chunks, graph 1 nohead lw 0.8 dt 3 lc "#999999"
}
set multiplot layout 2,1
set ylabel "entropy of the next ".unit.", nats"
set yrange [0:*]
do for [half = 0:1] {
	set xlabel half == 0 ? "" : "position, ".unit."s"
	set xrange [half * T / 2:(half + 1) * T / 2]
	plot "tokens" skip 1 using 1:2 with lines lw 0.8 lc "#b8c4d0" title half ? "" : "entropy", \
	     "mean" using 1:2 with lines lw 1.2 lc rgb colour(1) \
	         title half ? "" : "mean of 5, which the draw follows", \
	     chosen ? "chosen" : "<echo NaN NaN" using 1:2 with points pt 7 ps 0.6 lc rgb colour(2) \
	         title chosen && !half ? "chosen, one in each chunk" : ""
}
unset multiplot
unset arrow
unset ylabel
set autoscale
