#!/bin/sh
# corpus.sh OUT [PACKAGE.deb] -- makes the default corpus: long English texts in OUT/*.txt, and their origin
# in OUT/SOURCE.
#
# The texts are the manuals of Perl in Debian's package perl-doc.  Many people wrote these manuals over thirty
# years, they are free (GPL-1+ or Artistic), and the same version has the same bytes everywhere.  The package
# installs them in /usr/share/perl, which slim images keep.  The script reads the installed package, or the
# package file if one is given.
#
# The corpus has every manual of 16 KiB or more, with its markup, except three: perltoc (headings) and
# perluniprops (property names), which a program made, and perldelta, which is a copy of the newest
# perl*delta.
set -eu
LC_ALL=C
export LC_ALL

package=perl-doc
smallest=16384

die() {
	status=$1
	shift
	echo "corpus.sh: $*" >&2
	exit "$status"
}

[ $# -eq 1 ] || [ $# -eq 2 ] || die 64 "usage: corpus.sh OUT [PACKAGE.deb]"
out=${1%/}
deb=${2-}
[ ! -e "$out" ] || die 65 "$out: exists already"

mkdir -p -- "$(dirname -- "$out")"
# Removes the folders that a killed script left; the folder of a running script is locked.
for old in "$out".tmp.??????; do
	[ ! -d "$old" ] || flock -n "$old" rm -rf -- "$old" || :
done
tmp=$(mktemp -d -- "$out.tmp.XXXXXX")
exec 9<"$tmp"
flock 9
trap 'rm -rf -- "$tmp"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$tmp/out"

if [ -n "$deb" ]; then
	[ -r "$deb" ] || die 66 "$deb: the file does not exist or cannot be read"
	dpkg-deb --fsys-tarfile "$deb" >"$tmp/tar" || die 65 "$deb: not a Debian package"
	mkdir "$tmp/root"
	tar -x -f "$tmp/tar" -C "$tmp/root" ./usr/share/perl
	rm "$tmp/tar"
	found=$(dpkg-deb -f "$deb" Package)
	version=$(dpkg-deb -f "$deb" Version)
	find "$tmp/root" -name '*.pod' -type f >"$tmp/list"
else
	found=$package
	version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null) || version=
	[ -n "$version" ] ||
		die 66 "the package $package is not installed: install it, or name a package file"
	dpkg-query -L "$package" >"$tmp/files"
	grep '\.pod$' "$tmp/files" >"$tmp/list" || die 66 "the package $package has no manuals"
fi
[ "$found" = "$package" ] || die 65 "$deb: this is the package $found, not $package"

sort "$tmp/list" | while read -r pod; do
	name=$(basename -- "$pod" .pod)
	case $name in perltoc | perluniprops | perldelta) continue ;; esac
	[ -r "$pod" ] || die 66 "$pod: the file is missing (was documentation left out?): name a package file"
	[ "$(wc -c <"$pod")" -lt $smallest ] || cp -- "$pod" "$tmp/out/$name.txt"
done

set -- "$tmp"/out/*.txt
[ -e "$1" ] || die 66 "the package $package has no manual of $smallest bytes or more"
cat >"$tmp/out/SOURCE" <<EOF
package: $package
version: $version
licence: GPL-1+ or Artistic (the package's usr/share/doc/$package/copyright)
files:   $# manuals of $smallest bytes or more, usr/share/perl/*/pod/*.pod as they are
EOF
chmod 755 "$tmp/out"
chmod 644 "$tmp"/out/*
mv -T -- "$tmp/out" "$out"
