# report-phases.gp -- running mean differences along the questions: gnuplot style.gp report-phases.gp
#
# In the folder: names, a line for each curve, whose points are in the file NAME.mean; base, a line: the curve
# from which they differ.
curves = int(system("wc -l <names"))
eval figure("phases", 6, 3.6)
set key outside top center horizontal samplen 2 noenhanced
set xlabel "questions"
set ylabel "mean difference of nll from ".line("base", 1).", nats per byte" noenhanced
plot for [i = 1:curves] line("names", i).".mean" using 1:2 with lines lw 1.2 dt dash(i) lc rgb colour(i) \
         title line("names", i)
