#!/bin/sh
# dist.sh VERSION OUT.tar.gz -- makes the tarball of a release from the last commit.
#
# The tarball has the committed files in the folder rf-tools-VERSION, and a file COMMIT that names the commit,
# which --version then prints.  The same commit gives the same bytes with the same git and gzip: order,
# owners, modes and times do not depend on the machine, its user or its settings of git.
set -eu
LC_ALL=C
export LC_ALL
unset GZIP
umask 022

die() {
	status=$1
	shift
	echo "dist.sh: $*" >&2
	exit "$status"
}

[ $# -eq 2 ] || die 64 "usage: dist.sh VERSION OUT.tar.gz"
version=$1 out=$2
name=rf-tools-$version
git() {
	command git -c safe.directory='*' -c core.autocrlf=false -c core.attributesFile=/dev/null \
		-c tar.umask=0022 "$@"
}

[ -e .git ] || die 66 "no repository here: a release is made from a commit"
changed=$(git status --porcelain) || die 66 "git cannot read the repository"
[ -z "$changed" ] ||
	die 65 "$(printf '%s\n' "$changed" | head -n 1): not as in the last commit (commit or remove it)"
commit=$(git rev-parse HEAD | cut -c 1-7) # --short depends on the other objects of a clone

mkdir -p -- "$(dirname -- "$out")"
trap 'rm -f -- "$out.tar" "$out.tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
git archive --format=tar --prefix="$name/" --add-virtual-file="$name/COMMIT:$commit" -o "$out.tar" HEAD
gzip -9 -n <"$out.tar" >"$out.tmp"
mv -- "$out.tmp" "$out"
