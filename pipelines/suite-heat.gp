# suite-heat.gp -- scores by length and depth, a panel for each task.  tmp; tasks, lengths, labels, lists of
# words: set on the command line by suite-report.sh.
panels = words(tasks)
columns = panels < 4 ? panels : 4
rows = (panels + columns - 1) / columns
L = words(lengths)
wide = L * 34 > 200 ? L * 34 + 70 : 270
set terminal pngcairo size columns * wide + 20, rows * 300 font "Sans,10" background "#ffffff"
set output tmp."/heat.png"
set datafile separator "\t"
set border 3 lw 1 lc "#444444"
set tics nomirror out
set xrange [0.5:L + 0.5]
set yrange [100:0]
set ytics 20 format "%g %%"
set for [i = 1:L] xtics (word(labels, i) i)
set cbrange [0:100]
set palette defined (0 "#d73027", 25 "#f98e52", 50 "#fee08b", 75 "#a6d96a", 100 "#1a9850")
set style fill solid noborder
set lmargin 8
set rmargin 1
unset colorbox
unset key

# the place of a line's length, where the line is about the task
at(task) = strcol(1) eq task ? sum [i = 1:L] (word(lengths, i) eq strcol(2) ? i : 0) : NaN
set multiplot layout rows, columns
do for [p = 1:panels] {
	task = word(tasks, p)
	set title task noenhanced
	set ylabel (p - 1) % columns == 0 ? "depth" : ""
	plot tmp."/heat.tsv" skip 1 using (x = at(task)):(50 * ($3 + $4)):(x - 0.48):(x + 0.48): \
	         (100 * $3):(100 * $4):6 with boxxyerror lc palette, \
	     "" skip 1 using (at(task)):(50 * ($3 + $4)):(sprintf("%.0f", $6)) with labels \
	         font "Sans,8" tc "#222222"
}
unset multiplot
