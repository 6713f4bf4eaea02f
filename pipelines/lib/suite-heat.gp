# suite-heat.gp -- scores by length and depth, a panel for each task: gnuplot style.gp suite-heat.gp
#
# In the folder: cells, lines of the numbers of task and length, from and to of the depth, n and score, with
# tabs between; titles, a line for each task; labels, a line for each length, as texts of tics.
panels = int(system("wc -l <titles"))
L = int(system("wc -l <labels"))
columns = panels < 3 ? panels : 3
rows = (panels + columns - 1) / columns
wide = L * 0.45 > 1.9 ? L * 0.45 : 1.9
eval figure("heat", columns * (wide + 0.35) + 1.1, rows * 2.4 + 0.2)
set datafile separator "\t"
set xrange [0.5:L + 0.5]
set yrange [100:0]
set ytics 20
set for [i = 1:L] xtics (line("labels", i) i) noenhanced
set xlabel "length, tokens"
set cbrange [0:100]
set cblabel "score, %"
# from light to dark in one colour, which grey keeps
set palette defined (0 "#f7fbff", 25 "#c6dbef", 50 "#6baed6", 75 "#2171b5", 100 "#08306b")
set style fill solid noborder
unset grid
unset key
left = 0.6 / (columns * (wide + 0.35) + 1.1)
right = 1 - 0.85 / (columns * (wide + 0.35) + 1.1)
each = (right - left) / columns

# the place of a cell's length, if the cell belongs to the task
at(task) = $1 == task ? $2 : NaN
set multiplot
do for [p = 1:panels] {
	column = (p - 1) % columns
	row = (p - 1) / columns
	set lmargin at screen left + column * each + 0.02
	set rmargin at screen left + (column + 1) * each - 0.02
	set tmargin at screen 1 - (row + 0.12) / rows
	set bmargin at screen 1 - (row + 0.78) / rows
	set title line("titles", p) noenhanced offset 0, -0.5
	set ylabel column == 0 ? "depth of the needle, %" : ""
	set format y column == 0 ? "%g" : ""
	if (p == panels) {
		set colorbox user origin right + 0.01, 0.25 size 0.02, 0.5
	} else {
		unset colorbox
	}
	plot "cells" using (x = at(p)):(50 * ($3 + $4)):(x - 0.48):(x + 0.48): \
	         (100 * $3):(100 * $4):6 with boxxyerror lc palette, \
	     "" \
	         using (at(p)):(50 * ($3 + $4)):(sprintf("%.0f", $6)):($6 < 60 ? 0x222222 : 0xffffff) \
	         with labels font ",7" tc rgb variable
}
unset multiplot
