#!/bin/bash
# build.sh -- builds and installs rf-tools in the environment $PREFIX, for recipe.yaml.  The compilers and
# their flags are in the environment.
set -eu

words=(PREFIX="$PREFIX" CUDA="$RF_CUDA" GPUS=)
# msgpack-c 6 has another name
[ ! -e "$PREFIX/lib/libmsgpack-c.so" ] || words+=(MSGPACK=msgpack-c)
make -j"${CPU_COUNT:-1}" "${words[@]}"
make "${words[@]}" install
"${PYTHON:-python3}" -m pip install --no-deps --no-build-isolation --prefix "$PREFIX" ./python
