# rooms.awk -- checks includes against the order of the rooms, which are the folders of lib/; for make lint:
#
#     awk -f t/lint/rooms.awk lib/*/*.[ch] kernels/* tools/*.c
#
# A file may include headers of its own room and of rooms on lower floors.  `floors` below lists the floors,
# the lowest first; a floor has one or more rooms.  A file may not include headers of another room on its own
# floor.  kernels/ may include the room `device` and the rooms below it, and tools/ everything but t/.
BEGIN {
	floors = "base,io,proc,device,model,ranks mixers,stream tokenizer,text ckpt,engine,refine,train," \
		"decode dump loop score needle,cli"
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
}

function complain(text)
{
	print "lint: " text
	bad = 1
}

END { exit bad }
