#!/usr/bin/env bats
# make install and uninstall.
setup() { load helper; }

@test "install: programs, manual, completion and pipelines below DESTDIR and PREFIX; uninstall takes all of it away" {
	place=$PWD/root
	mkdir -p "$place/opt/rf/bin" && touch "$place/opt/rf/bin/other"
	make -s -C "$ROOT" -o all install DESTDIR="$place" PREFIX=/opt/rf >/dev/null
	cd "$place/opt/rf"
	for program in "$RF_BIN"/rf-*; do
		name=${program##*/}
		cmp "$program" "bin/$name"
		cmp "$ROOT/man/$name.1" "share/man/man1/$name.1"
		grep -q "$name" "share/bash-completion/completions/$name"
	done
	[ ! -e "$RF_UNITS/../rf-cuda.so" ] || cmp "$RF_UNITS/../rf-cuda.so" lib/rf-tools/rf-cuda.so
	[ -e share/man/man5/rf-stream.5 ] && [ -e share/man/man7/rf-tools.7 ]
	[ -x share/rf-tools/stages.sh ] && [ ! -x share/rf-tools/midtrain.mk ]
	run -2 env -u MAKEFLAGS -u RF_BIN PATH="$place/opt/rf/bin:/usr/bin:/bin" make -s -f share/rf-tools/midtrain.mk
	[[ "$output" == *"RUN is not set"* ]]
	make -s -C "$ROOT" uninstall DESTDIR="$place" PREFIX=/opt/rf >/dev/null
	[ "$(cd "$place" && find . ! -type d)" = ./opt/rf/bin/other ]
	[ ! -e "$place/opt/rf/share/rf-tools" ]
}
