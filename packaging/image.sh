#!/bin/sh
# image.sh FOLDER [CUDA] -- installs the packages of `make deb` in an image with Debian 12, as root.  The
# Dockerfile and rf-tools.def run it in the image that they make.
#
# FOLDER has the packages.  CUDA: no, or 13, the major version of CUDA with which rf-tools-cuda was
# built.  The script then installs rf-tools-cuda and cuBLAS, which comes from PyPI (nvidia-cublas), because
# Debian does not have it.  The driver comes from the host, with `--gpus all` of docker or `--nv` of
# apptainer.
set -eu
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND

die() {
	status=$1
	shift
	echo "image.sh: $*" >&2
	exit "$status"
}

[ $# -eq 1 ] || [ $# -eq 2 ] || die 64 "usage: image.sh FOLDER [CUDA]"
packages=$1 cuda=${2-no}
case $cuda in
no) plugin= ;;
13) plugin=rf-tools-cuda ;;
*) die 64 "CUDA '$cuda': it is no or 13" ;;
esac
files=
for name in rf-tools rf-tools-mpi python3-rftools $plugin; do
	set -- "$packages/$name"_*.deb
	[ -e "$1" ] || die 66 "$packages: no package $name (make deb)"
	[ $# -eq 1 ] || die 65 "$packages: $# packages $name, not one"
	files="$files $(readlink -f -- "$1")"
done

apt-get update -q
# gnuplot-nox and the other recommended packages draw and write the reports
# shellcheck disable=SC2086  # words
apt-get install -q -y $files openmpi-bin
if [ "$cuda" != no ]; then
	apt-get install -q -y --no-install-recommends python3-pip
	pip install --no-compile --no-cache-dir --target /opt/cublas "nvidia-cublas==$cuda.*"
	apt-get purge -q -y --autoremove python3-pip
	library=$(find /opt/cublas -name "libcublas.so.$cuda")
	[ -n "$library" ] || die 69 "nvidia-cublas has no libcublas.so.$cuda"
	dirname -- "$library" >/etc/ld.so.conf.d/cublas.conf
	ldconfig
fi
rm -rf /var/lib/apt/lists/*
rf-step --version
