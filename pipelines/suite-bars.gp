# suite-bars.gp -- scores with their 95 % intervals, from the first to the last.  tmp, bars: set on the
# command line by suite-report.sh.
set terminal pngcairo size 760, 90 + 22 * bars font "Sans,10" background "#ffffff"
set output tmp."/scores.png"
set border 3 lw 1 lc "#444444"
set tics nomirror out
set grid xtics lw 1 lc "#dddddd"
set xrange [0:100]
set yrange [bars + 0.5:0.5]
set xlabel "score, with the 95 % interval"
set ytics noenhanced
set style fill solid noborder
unset key
plot tmp."/bars" using ($3 / 2):1:(0):3:($1 - 0.35):($1 + 0.35):ytic(2) with boxxyerror lc "#9ecae1", \
     "" using 3:1:($4 < 0 ? 0 : $4):($5 > 100 ? 100 : $5) with xerrorbars pt 7 ps 0.5 lw 1.5 lc "#1f4e79"
