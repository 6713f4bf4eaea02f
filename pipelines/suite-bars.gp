# suite-bars.gp -- scores with their 95 % intervals, in their order: gnuplot style.gp suite-bars.gp
#
# In the folder: bars, a line for each: its place, name in quotes, score, both ends of its interval, and the
# score of the model that it is compared with, or NaN; models, the names of both.
against = int(system("wc -l <models")) > 1
bars = int(system("wc -l <bars"))
eval figure("scores", 5, 0.7 + 0.16 * (bars + 2 * against))
unset grid
set grid xtics lw 0.6 lc "#cccccc"
set xrange [0:100]
set yrange [bars + 0.5:0.5]
set xlabel "score, with the 95 % interval"
set ytics noenhanced
set style fill solid noborder
if (against) { set key outside top center horizontal noenhanced } else { unset key }
plot "bars" using ($3 / 2):1:(0):3:($1 - 0.35):($1 + 0.35):ytic(2) with boxxyerror lc "#56b4e9" \
	title line("models", 1), \
     "" using 3:1:($4 < 0 ? 0 : $4):($5 > 100 ? 100 : $5) with xerrorbars pt 7 ps 0.3 lw 1 \
	lc "#000000" notitle, \
     "" using 6:1 with points pt 12 ps 0.9 lw 1.5 lc "#d55e00" title (against ? line("models", 2) : "")
