# entropy.gp FILE -- draws the entropy along one sequence and the chosen positions as text:
#
#     rf-cat --range 0:1 x.rf | rf-dump --tsv --rows token --columns t,entropy,chosen >FILE
#     gnuplot -c pipelines/examples/entropy.gp FILE
#
# x.rf has positions (rf-select).  Each column of text is the mean of several tokens.  A position is drawn at
# the entropy of its row, t = s - 1.

# a row of text for each nat
stats ARG1 skip 1 using 2 name "NATS" nooutput
set terminal dumb 108 12 + (NATS_max > 7 ? ceil(NATS_max) - 7 : 0)
set key outside top center horizontal
stats ARG1 skip 1 using 1 nooutput
T = STATS_max + 1
width = ceil(T / 96.)
set ytics 0, 1
set xtics T / 8.
plot [0:T] [-0.5:*] ARG1 skip 1 using (floor($1 / width) * width):2 smooth unique with lines \
         title sprintf("entropy in nats, mean of %d tokens", width), \
     ARG1 skip 1 using ($3 == 1 ? $1 : NaN):2 with points pt "O" title "chosen position"
