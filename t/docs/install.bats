#!/usr/bin/env bats
# Tests of make install, make uninstall and make dist.
setup() { load ../helper; }

# alone: gives git an empty configuration in the working folder
alone() {
	export GIT_CONFIG_GLOBAL=$PWD/gitconfig GIT_CONFIG_NOSYSTEM=1
	git config --global --add safe.directory '*'
}

@test "install: all files go below DESTDIR and an absolute PREFIX, and make uninstall removes all of them" {
	place="$PWD/a root"
	mkdir -p "$place/opt/rf/bin"
	touch "$place/opt/rf/bin/other"
	make -s -C "$ROOT" -o all install DESTDIR="$place" PREFIX=/opt/rf >/dev/null
	cd "$place/opt/rf"
	for program in "$RF_BIN"/rf-*; do
		name=${program##*/}
		cmp "$program" "bin/$name"
		cmp "$ROOT/man/$name.1" "share/man/man1/$name.1"
		grep -q "$name" "share/bash-completion/completions/$name"
	done
	[ ! -e "$RF_UNITS/../rf-cuda.so" ] || cmp "$RF_UNITS/../rf-cuda.so" lib/rf-tools/rf-cuda.so
	[ -e share/man/man5/rf-stream.5 ]
	[ -e share/man/man7/rf-tools.7 ]
	[ -x share/rf-tools/lib/check.sh ]
	[ ! -x share/rf-tools/midtrain.mk ]
	diff -r "$ROOT/pipelines/examples" share/rf-tools/examples
	diff -r -x '*.png' "$ROOT/pipelines/demo" share/rf-tools/demo
	[ -x share/rf-tools/slurm.sbatch ]
	make -s -C "$ROOT" uninstall DESTDIR="$place" PREFIX=/opt/rf >/dev/null
	[ "$(cd "$place" && find . ! -type d)" = ./opt/rf/bin/other ]
	[ ! -e "$place/opt/rf/share/rf-tools" ]
	mentions 2 "PREFIX='rf' must begin with /" make -s -C "$ROOT" -o all install PREFIX=rf
}

@test "install: the installed pipelines train and evaluate, even without rf-tools on the PATH" {
	make -s -C "$ROOT" -o all install DESTDIR="$PWD/root" PREFIX=/rf >/dev/null
	share=$PWD/root/rf/share/rf-tools
	yes 'Fast weights are a memory that is written by gradient steps.' | head -n 40 >text.txt
	echo '{ "model_type": "delta_net", "hidden_size": 8, "num_hidden_layers": 1, "num_heads": 1,
		"intermediate_size": 8, "vocab_size": 384, "eos_token_id": 1 }' >config.json
	rf-init --config config.json ckpt
	alone() { env -u MAKEFLAGS -u RF_BIN PATH=/usr/bin:/bin "$@"; }
	mentions 2 "RUN is not set" alone make -s -f "$share/midtrain.mk"
	alone make -s -f "$share/midtrain.mk" RUN=run MODEL=ckpt CORPUS=text.txt LEN=64 BATCHES=1 BATCH=2 \
		MINI_BATCH=1
	[ -e run/latest ]
	rf-tokenize --bytes --max-len 64 --truncate right text.txt 2>/dev/null |
		rf-select --mode uniform --chunks 2 -o positions.rf
	alone "$share/lib/evaluate.sh" run positions.rf out
	[ "$(wc -l <out.documents.tsv)" -eq 2 ]
	command -v gnuplot >/dev/null || return 0
	alone make -s -f "$share/evaluate.mk" RUN=e MODEL=run TASK=vt LENGTH=1k SAMPLES=1 MAX_NEW=1
	[ -e e/report.md ]
	[ -e e/heat.png ]
}

@test "dist: two clones on different machines make the same tarball, which names its commit" {
	[ -e "$ROOT/.git" ] || skip 'there is no repository'
	local version
	version=$(rf-cat --version | sed -n '1s/^rf-cat \(.*\) (.*/\1/p')
	alone
	git clone -q "$ROOT" a
	sleep 1 # the times of the files differ
	git clone -q "$ROOT" b
	git -C b config core.autocrlf true
	git -C b config core.abbrev 12
	echo '*.md export-ignore' >attributes
	git -C b config core.attributesFile "$PWD/attributes"
	git -C b config tar.umask 0077
	(cd a && umask 077 && TZ=Asia/Tokyo packaging/dist.sh "$version" ../a.tar.gz)
	(cd b && LC_ALL=C.UTF-8 GZIP=-1 packaging/dist.sh "$version" out/b.tar.gz)
	cmp a.tar.gz b/out/b.tar.gz
	tar -x -z -f a.tar.gz
	[ "$(cat "rf-tools-$version/COMMIT")" = "$(git -C a rev-parse HEAD | cut -c 1-7)" ]
	diff <(cd "rf-tools-$version" && find . ! -type d | sort) \
		<(cd a && { git ls-files | sed 's,^,./,'; echo ./COMMIT; } | sort)
	make -s -C "rf-tools-$version" -n CUDA=no bin/rf-cat >commands 2>/dev/null
	grep -qF "RF_COMMIT='\"$(cat "rf-tools-$version/COMMIT")\"'" commands
}

@test "dist: a tree that differs from its commit, or is not a repository, is refused" {
	[ -e "$ROOT/.git" ] || skip 'there is no repository'
	alone
	git clone -q "$ROOT" a
	cd a
	touch new.c
	says 65 "dist.sh: ?? new.c: not as in the last commit (commit or remove it)" \
		packaging/dist.sh 1 x.tar.gz
	rm new.c
	echo >>README.md
	says 65 "dist.sh:  M README.md: not as in the last commit (commit or remove it)" \
		packaging/dist.sh 1 x.tar.gz
	git -c user.name=x -c user.email=x@x.invalid commit -q -a -m 'README: change'
	packaging/dist.sh 1 x.tar.gz
	rm x.tar.gz
	rm -rf .git
	says 66 "dist.sh: no repository here: a release is made from a commit" packaging/dist.sh 1 x.tar.gz
	says 64 "dist.sh: usage: dist.sh VERSION OUT.tar.gz" packaging/dist.sh 1
	[ ! -e x.tar.gz ]
}

@test "make: make check compiles the plugin for this machine's GPUs, and only if one of them is supported" {
	[ -n "$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)" ] ||
		skip 'there is no CUDA toolkit'
	mkdir fake
	for says in '9.0\n9.0\n8.6\n' '7.5\nNVIDIA-SMI has failed\n'; do
		printf '#!/bin/sh\nprintf "%s"\n' "$says" >fake/nvidia-smi
		chmod +x fake/nvidia-smi
		PATH=$PWD/fake:$PATH env -u CUDA_ARCHS -u CUDA make -C "$ROOT" -n check BUILD="$PWD/build" \
			BIN="$PWD/bin" TESTS=t/none.bats >out 2>/dev/null
		grep -oE 'code=sm_[0-9]+' out | sort -u | paste -sd' ' >>archs
		grep -c 'compiling the CUDA kernels for sm_86 sm_90 ' out >>told || :
	done
	diff archs - <<<$'code=sm_86 code=sm_90\n'
	diff told - <<<$'1\n0'
}
