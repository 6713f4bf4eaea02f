# style.gp -- the style of all figures: gnuplot style.gp FIGURE.gp, in a folder with the figure's data.
#
# From the environment: FORMAT=png, svg or pdf.  A figure calls  eval figure("name", WIDTH, HEIGHT)  with the
# size in inches; the file is name.FORMAT.  A column of a paper is about 3.4 inches wide, so a figure of that
# width has letters of 8 points; a wider figure is for a whole page.
#
# The colours are those of Okabe and Ito, which readers with red-green blindness can distinguish.  Lines also
# differ by their marks or dashes.
format = system('printf %s "${FORMAT:-png}"')
# dots per inch: fewer if a side would have more than 20,000, which can hardly be written
dpi(w, h) = w > 80 || h > 80 ? 20000. / (w > h ? w : h) : 240.
figure(name, w, h) = sprintf("set terminal %s; set output '%s.%s'", \
	format eq "pdf" ? sprintf("pdfcairo size %.2fin,%.2fin font 'DejaVu Sans,8'", w, h) : \
	format eq "svg" ? sprintf("svg size %d,%d font 'DejaVu Sans,11' background '#ffffff'", \
	                          96 * w, 96 * h) : \
	sprintf("pngcairo size %d,%d font 'DejaVu Sans,8' fontscale %g linewidth %g pointscale %g " \
	        ."background '#ffffff'", dpi(w, h) * w, dpi(w, h) * h, dpi(w, h) / 96, dpi(w, h) / 96, \
	        dpi(w, h) / 96), \
	name, format)
colours = "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #000000"
colour(i) = word(colours, (i - 1) % words(colours) + 1)
mark(i) = int(word("7 5 9 13 11 3 2", (i - 1) % 7 + 1))
dash(i) = (i - 1) / words(colours) % 5 + 1
# line N of a file, as text without markup
line(file, n) = system(sprintf("sed -n %dp %s", n, file))
set border 3 lw 0.8 lc "#444444"
set tics nomirror out
set grid ytics lw 0.6 lc "#cccccc"
set key noenhanced
