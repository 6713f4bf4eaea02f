# rooms.awk -- checks includes against the order of the rooms, which are the folders of lib/; for make lint:
#
#     awk -f t/lint/rooms.awk lib/*/*.[ch] kernels/* tools/*.c
#
# A file may include headers of its own room and of rooms on lower floors.  `floors` below lists the floors,
# the lowest first; a floor has one or more rooms.  A file may not include headers of another room on its own
# floor.  kernels/ may include the room `device` and the rooms below it, and tools/ everything but t/.
#
# Within lib/ a module is X.c with X.h.  Modules may not include each other, also not through other modules: a
# header that only needs a pointer declares the struct, and what needs both modules lies above both.
BEGIN {
	floors = "base,io,proc,device,model,ranks mixers,stream tokenizer,text ckpt,engine,refine,train," \
		"decode dump loop score needle doctor,cli"
	n = split(floors, floor, ",")
	for (i = 1; i <= n; i++) {
		m = split(floor[i], rooms, " ")
		for (j = 1; j <= m; j++)
			at[rooms[j]] = i
	}
	at["cpu"] = at["cuda"] = at["device"] + 0.4  # kernels/cpu, kernels/cuda
	at["kernels"] = at["device"] + 0.5
	at["tools"] = n + 1
}

FNR == 1 {
	split(FILENAME, path, "/")
	room = path[1] == "lib" || path[2] ~ /^c(pu|uda)$/ ? path[2] : path[1]
	if (!(room in at))
		complain(FILENAME ": " room " is not a room of t/lint/rooms.awk")
}

/^#[ \t]*include [<"]([^>"]*\/)?\.\.\// {
	complain(FILENAME ":" FNR ": " $2 " leads out of its folder by ..")
	next
}

/^#[ \t]*include "/ {
	header = $0
	gsub(/^#[ \t]*include "|".*$/, "", header)
	deep = split(header, path, "/")
	of = deep == 2 ? path[1] : "?"
	if (deep == 1 && room == "kernels")  # a header without a folder lies in kernels/ itself
		of = room
	if (!(of in at))
		complain(FILENAME ":" FNR ": \"" header "\" is in no room")
	else if (of != room && at[of] >= at[room])
		complain(FILENAME ":" FNR ": " room "/ includes \"" header "\", and " of \
			"/ does not lie below it")
	else if (FILENAME ~ /^lib\//)
		note_include(FILENAME, header)
}

# Notes that the module of `file` includes the module of `header`.
function note_include(file, header,  from, to)
{
	from = file
	gsub(/^lib\/|\.[a-z]*$/, "", from)
	to = header
	sub(/\.h$/, "", to)
	if (from == to || (from, to) in line)
		return
	if (!(from in includes))
		modules[++module_count] = from
	line[from, to] = file ":" FNR ": includes \"" header "\""
	includes[from] = includes[from] " " to
}

# Returns the first module that m includes and that has not been left out; "": none.
function next_module(m,  to, n, i)
{
	n = split(includes[m], to, " ")
	for (i = 1; i <= n; i++)
		if (to[i] in includes)
			return to[i]
	return ""
}

# Leaves out the modules from which no circle can be reached.
function leave_out_ends(  i, again)
{
	do {
		again = 0
		for (i = 1; i <= module_count; i++)
			if (modules[i] in includes && next_module(modules[i]) == "") {
				delete includes[modules[i]]
				again = 1
			}
	} while (again)
}

# Complains of each circle, by the include that closes it, and leaves out its modules.
function find_circles(  i, m, was, met)
{
	for (i = 1; i <= module_count; i++) {
		leave_out_ends()
		if (!((m = modules[i]) in includes))
			continue
		split("", met)
		for (; !(m in met); m = next_module(m)) {
			met[m]
			was = m
		}
		complain(line[was, m] ", and " circle_from(m) " is a circle")
		i = 0
	}
}

# Returns the names of the modules in the circle of m, which are left out.
function circle_from(m,  first, names, next_one)
{
	first = m
	names = m
	do {
		next_one = next_module(m)
		names = names ", " next_one
		left_out[m]
		m = next_one
	} while (m != first)
	for (m in left_out)
		delete includes[m]
	return names
}

function complain(text)
{
	print "lint: " text
	bad = 1
}

END {
	find_circles()
	exit bad
}
