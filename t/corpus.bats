#!/usr/bin/env bats
# The default corpus.  The package file that stands in here is made on the spot: what is tested is which files
# are taken, never what they say.

setup() {
	load helper
	corpus=$ROOT/pipelines/corpus.sh
}

# package NAME: NAME.deb, version 1, with manuals of 20000, 16384 and 16383 bytes, and those that
# are never taken
package() {
	local pod=root/usr/share/perl/5/pod
	mkdir -p root/DEBIAN "$pod"
	printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: d\n' \
		"$1" >root/DEBIAN/control
	head -c 20000 /dev/zero | tr '\0' 'b' >"$pod/perlb.pod"
	head -c 16384 /dev/zero | tr '\0' 'a' >"$pod/perla.pod"
	head -c 16383 /dev/zero | tr '\0' 'c' >"$pod/perlc.pod"
	cp "$pod/perlb.pod" "$pod/perltoc.pod"
	cp "$pod/perlb.pod" "$pod/perluniprops.pod"
	cp "$pod/perlb.pod" "$pod/perldelta.pod"
	cp "$pod/perlb.pod" "$pod/other.txt"
	dpkg-deb --root-owner-group -b root "$1.deb" >/dev/null
}

@test "corpus: the long manuals of a package file are copied unchanged, with their version and licence" {
	package perl-doc
	"$corpus" deep/out perl-doc.deb
	[ "$(cd deep/out && echo *)" = "SOURCE perla.txt perlb.txt" ]
	cmp deep/out/perla.txt root/usr/share/perl/5/pod/perla.pod
	cmp deep/out/perlb.txt root/usr/share/perl/5/pod/perlb.pod
	[ "$(sed -n 's/^version: //p' deep/out/SOURCE)" = 1 ]
	grep -q '^licence: GPL-1+ or Artistic' deep/out/SOURCE
	[ "$(echo deep/*)" = deep/out ]
	"$corpus" again perl-doc.deb
	diff -r deep/out again
}

@test "corpus: an output folder that exists already is refused and left as it was" {
	package perl-doc
	mkdir out
	run -65 "$corpus" out perl-doc.deb
	[ "$output" = "corpus.sh: out: exists already" ]
	[ -z "$(ls out)" ]
}

@test "corpus: a start removes the leftovers of a killed one, but no locked folder and no other name" {
	package perl-doc
	mkdir stubs
	printf '#!/bin/sh\nkill -9 $PPID\n' >stubs/tar
	chmod +x stubs/tar
	run -137 env PATH="$PWD/stubs:$PATH" "$corpus" out perl-doc.deb
	[ "$(echo out.tmp.*)" != 'out.tmp.*' ]
	mkdir out.tmp.mine00 out.tmp.mine-too
	flock out.tmp.mine00 "$corpus" out perl-doc.deb
	[ "$(echo out*)" = "out out.tmp.mine-too out.tmp.mine00" ]
}

@test "corpus: a wrong package, a text file or a missing file is an error and leaves nothing behind" {
	package bash-doc
	run -65 "$corpus" out bash-doc.deb
	[ "$output" = "corpus.sh: bash-doc.deb: this is the package bash-doc, not perl-doc" ]
	echo text >text.deb
	run -65 "$corpus" out text.deb
	run -66 "$corpus" out missing.deb
	[ "$output" = "corpus.sh: missing.deb: the file does not exist or cannot be read" ]
	run -64 "$corpus"
	[ "$(echo ./*)" = "./bash-doc.deb ./root ./text.deb" ]
}

@test "corpus: the installed perl-doc package gives at least 60 documents of 4 to 12 MB in all" {
	[ -n "$(dpkg-query -W -f '${Version}' perl-doc 2>/dev/null)" ] ||
		skip "perl-doc is not installed (make deps)"
	"$corpus" out
	set -- out/*.txt
	[ $# -ge 60 ]
	size=$(cat out/*.txt | wc -c)
	[ "$size" -gt 4000000 ]
	[ "$size" -lt 12000000 ]
}
