# suite-bars.gp -- scores with their 95 % intervals, in their order: gnuplot style.gp suite-bars.gp
#
# In the folder: bars, a line for each: its place, score, both ends of its interval, and the score of the
# model that it is compared with, or NaN; names, a line for each bar, as texts of tics; models, the names of
# both.
against = int(system("wc -l <models")) > 1
bars = int(system("wc -l <bars"))
eval figure("scores", 5, 0.7 + 0.16 * (bars + 2 * against))
unset grid
set grid xtics lw 0.6 lc "#cccccc"
set xrange [0:100]
set yrange [bars + 0.5:0.5]
set xlabel "score, with the 95 % interval"
set ytics noenhanced
set ytics ()
rest = system("cat names")."\n"
do for [i = 1:bars] {
	end = strstrt(rest, "\n")
	set ytics add (rest[1:end - 1] i)
	rest = rest[end + 1:*]
}
set style fill solid noborder
if (against) { set key outside top center horizontal noenhanced } else { unset key }
plot "bars" using ($2 / 2):1:(0):2:($1 - 0.35):($1 + 0.35) with boxxyerror lc "#56b4e9" \
	title line("models", 1), \
     "" using 2:1:($3 < 0 ? 0 : $3):($4 > 100 ? 100 : $4) with xerrorbars pt 7 ps 0.3 lw 1 \
	lc "#000000" notitle, \
     "" using 5:1 with points pt 12 ps 0.9 lw 1.5 lc "#d55e00" title (against ? line("models", 2) : "")
