#!/bin/sh
# deps.sh -- installs what building, testing and the demonstration need and the system lacks: packages of Debian 12.
# Where nothing is lacking it does nothing, says nothing and needs no network.
set -eu

build='build-essential libzstd-dev libmsgpack-dev libjansson-dev libxxhash-dev libdnnl-dev'
tests='bats clang jq libclang-rt-dev mandoc parallel python3 shellcheck strace zstd'
midtrain='gnuplot-nox perl-doc'

lacking=
for package in $build $tests $midtrain; do
	case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
	installed) ;;
	*) lacking="$lacking $package" ;;
	esac
done
[ -n "$lacking" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
	root=
elif command -v sudo >/dev/null; then
	root=sudo
else
	echo "deps: neither root nor sudo is at hand; let root run: apt-get install$lacking" >&2
	exit 77
fi
echo "deps: installing$lacking" >&2
# shellcheck disable=SC2086  # words
{
	$root apt-get update -q
	$root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $lacking
} >&2
