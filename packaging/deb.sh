#!/bin/sh
# deb.sh TARBALL FOLDER -- makes the source package and the packages of Debian from the tarball of a release,
# in FOLDER, and checks them with lintian.
#
# CUDA=no, or no nvcc: without rf-tools-cuda.  CUDA_ARCHS and DEB_BUILD_OPTIONS: see debian/rules.  FOLDER/log
# has the output of the build.
set -eu

die() {
	status=$1
	shift
	echo "deb.sh: $*" >&2
	exit "$status"
}

[ $# -eq 2 ] || die 64 "usage: deb.sh TARBALL FOLDER"
tarball=$1 out=$2
name=$(basename -- "$tarball" .tar.gz)
version=${name#rf-tools-}
for program in dpkg-buildpackage dh pybuild lintian; do
	command -v $program >/dev/null || die 69 "the program $program is missing: make deps-deb"
done
nvcc=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || :)}
why=
[ -n "$nvcc" ] || why='no CUDA toolkit'
[ "${CUDA:-}" != no ] || why='CUDA=no'
if [ -n "$why" ]; then
	echo "deb: without rf-tools-cuda: $why" >&2
	export DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:+$DEB_BUILD_PROFILES }pkg.rf-tools.nocuda"
fi

rm -rf -- "$out"
mkdir -p -- "$out"
cp -- "$tarball" "$out/rf-tools_$version.orig.tar.gz"
tar -x -z -f "$tarball" -C "$out"
echo "deb: building in $out/$name, see $out/log" >&2
(
	cd "$out/$name"
	# neither the words of make nor the user's environment decide what is in the packages
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="${HOME:-/}" LC_ALL=C.UTF-8 NVCC="$nvcc" \
		CUDA_ARCHS="${CUDA_ARCHS:-}" DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}" \
		DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-}" dpkg-buildpackage -us -uc
) >"$out/log" 2>&1 || {
	tail -n 30 "$out/log" >&2
	die 70 "dpkg-buildpackage failed: $out/log"
}
said=$(lintian --allow-root --display-info "$out"/*.changes 2>&1) || said="$said
lintian failed"
[ -z "$said" ] || {
	printf '%s\n' "$said" >&2
	die 65 "lintian is not silent (debian/*.lintian-overrides)"
}
ls "$out"/*.deb
