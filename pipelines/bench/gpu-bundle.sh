#!/bin/bash
# gpu-bundle.sh FILE.tar.gz -- packs the files that gpu-first.sh needs on a machine that has a GPU and its
# driver, but no compiler and none of the libraries: make gpu-bundle CUDA_ARCHS=90.
#
#     tar xzf gpu-bundle.tar.gz && gpu-bundle/pipelines/bench/gpu-first.sh out
#
# cuBLAS has 700 MB and is not packed: it comes with PyTorch, with a toolkit of CUDA 13, or as a wheel of
# NVIDIA.  MOST is the largest size of the file in MiB.  FLA is a folder of Python packages for the part
# `peer`, which also needs torch:
#
#     pip install --no-deps --target fla fla-core einops && FLA=fla make gpu-bundle CUDA_ARCHS=90
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
[ $# -eq 1 ] || { echo "usage: gpu-bundle.sh FILE" >&2; exit 64; }
command -v patchelf >/dev/null || { echo "gpu-bundle.sh: there is no patchelf: make deps" >&2; exit 69; }
most=${MOST:-54}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
to=$dir/gpu-bundle
mkdir -p "$to"/{bin,build/t/helper,build/t/unit,lib/bundled,pipelines/{bench,demo}}
cp "$here"/../../bin/rf-* "$to/bin"
cp "$here/../../build/rf-cuda.so" "$to/build"
cp "$here"/../../build/t/helper/{bench,cublas} "$to/build/t/helper"
find "$here/../../build/t/unit" -name 'ops-*' -perm -u+x -type f -exec cp -t "$to/build/t/unit" {} +
cp "$here"/gpu-{first.sh,first.md,compare.sh,programs.sh,predicted.tsv} "$here"/delta-peer.py \
	"$to/pipelines/bench"
cp "$here"/../demo/demo-*.json "$to/pipelines/demo"
cp -r "$here"/../configs "$to/pipelines"
if [ -n "${FLA:-}" ]; then
	mkdir "$to/lib/python"
	cp -r "$FLA/." "$to/lib/python"
fi
programs=("$to"/bin/* "$to"/build/rf-cuda.so "$to"/build/t/*/*)
# copies all libraries except cuBLAS and the C library, which must come from the machine with its loader
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
	grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so|/libcublas(Lt)?\.so' |
	xargs cp -L -t "$to/lib/bundled"
strip "${programs[@]}" "$to"/lib/bundled/*
# The programs find these libraries by their rpath.  With LD_LIBRARY_PATH, python3 and profilers would load
# the libraries, too.
for program in "${programs[@]}"; do
	patchelf --force-rpath --set-rpath \
		"\$ORIGIN/$(realpath --relative-to="$(dirname "$program")" "$to/lib/bundled")" "$program"
done
tar -C "$dir" -cf - gpu-bundle | gzip >"$1.part"
size=$(stat -c %s "$1.part")
[ "$size" -le $((most << 20)) ] || {
	rm -f "$1.part"
	echo "gpu-bundle.sh: $1 would have $((size >> 20)) MiB, more than $most: build for one architecture" \
		"(CUDA_ARCHS=90)" >&2
	exit 1
}
mv "$1.part" "$1"
echo "$1: $((size >> 20)) MiB"
