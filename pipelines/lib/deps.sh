#!/bin/sh
# deps.sh [arm64|slurm|deb] -- installs the packages of Debian 12 that building, testing and the demonstration
# need and the system lacks.  If no package is missing it prints nothing and needs no network.
#
# arm64: also a cross compiler and an emulator.  The libraries of arm64 are unpacked into ./build/arm64/root
# and not installed.  The package lists of that architecture are in the same folder, so the system's lists
# stay as they are.
#
# slurm: also Slurm, and the libraries with which its srun starts programs of Open MPI.
#
# deb: also the programs that make and check packages of Debian.
set -eu

build='build-essential libzstd-dev libmsgpack-dev libjansson-dev libxxhash-dev libutf8proc-dev
	libonig-dev libsentencepiece-dev libdnnl-dev libopenmpi-dev'
tests='bats clang clang-format jq libclang-rt-dev mandoc openmpi-bin parallel patchelf python3 shellcheck
	strace zstd'
midtrain='cmark-gfm gnuplot-nox perl-doc sentencepiece'
cross='gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross libgomp1-arm64-cross
	libstdc++6-arm64-cross qemu-user-static'
slurm='slurm-wlm munge libpmix-dev'
packages='autopkgtest debhelper dh-python lintian mmdebstrap pybuild-plugin-pyproject python3-all
	python3-setuptools'
libraries='libzstd1 libzstd-dev libmsgpackc2 libmsgpack-dev libjansson4 libjansson-dev libxxhash0
	libxxhash-dev libutf8proc2 libutf8proc-dev libonig5 libonig-dev libsentencepiece0
	libsentencepiece-dev libdnnl2 libdnnl-dev'

# lacking PACKAGE...: installs the packages that are not installed
lacking() {
	lacks=
	for package in "$@"; do
		case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
		installed) ;;
		*) lacks="$lacks $package" ;;
		esac
	done
	[ -n "$lacks" ] || return 0

	if [ "$(id -u)" -eq 0 ]; then
		root=
	elif command -v sudo >/dev/null; then
		root=sudo
	else
		echo "deps: sudo is missing; run this as root: apt-get install$lacks" >&2
		exit 77
	fi
	echo "deps: installing$lacks" >&2
	# shellcheck disable=SC2086  # words
	{
		$root apt-get update -q
		$root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $lacks
	} >&2
}

# unpack ARCHITECTURE FOLDER PACKAGE...: unpacks the packages to FOLDER/root, which appears only when complete
unpack() {
	arch=$1 folder=$2
	shift 2
	[ "$(cat "$folder/unpacked" 2>/dev/null)" != "$*" ] || return 0
	echo "deps: unpacking into $folder/root: $*" >&2
	rm -rf "$folder/apt"
	mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/root"
	(
		cd "$folder/apt"
		: >status
		cat >conf <<-end
			APT::Architecture "$arch";
			APT::Architectures "$arch";
			APT::Sandbox::User "root";
			Dir::State "$PWD";
			Dir::State::status "$PWD/status";
			Dir::Cache "$PWD/cache";
		end
		export APT_CONFIG="$PWD/conf"
		apt-get update -q
		apt-get download -q "$@"
		for deb in *.deb; do
			dpkg -x "$deb" root
		done
		rm -rf ../root
		mv root ..
	) >&2
	rm -rf "$folder/apt"
	echo "$*" >"$folder/unpacked"
}

# shellcheck disable=SC2086  # words
{
	lacking $build $tests $midtrain
	case ${1:-} in
	slurm) lacking $slurm ;;
	deb) lacking $packages ;;
	arm64)
		lacking $cross
		unpack arm64 build/arm64 $libraries
		;;
	esac
}
