#!/usr/bin/env bats
# Tests of --version: the program, its libraries, the levels of the instruction set and the CUDA plugin.

setup_file() {
	load ../helper
	load ../fakes
	export P=$BATS_FILE_TMPDIR
	cd "$P"
	fake_plugin good.so
	fake_driver driver
}

setup() {
	load ../helper
	load ../fakes
	unset RF_ISA ONEDNN_MAX_CPU_ISA RF_PLUGIN
}

# line NAME PROGRAM: prints the text of a line of --version
line() { "$2" --version | sed -n "s/^$1  *//p"; }

# cuda WANT [NAME=VALUE...]: the line about CUDA is like WANT with this environment
cuda() {
	quiet env "${@:2}" rf-ntp --version
	like "$(sed -n 's/^CUDA  *//p' <<<"$output")" "$1"
}

@test "--version: the first line of each program is its name, version and commit, as before" {
	for program in "$RF_BIN"/rf-*; do
		quiet "$program" --version
		[[ ${lines[0]} =~ ^${program##*/}\ [0-9]+\.[0-9]+\ \(([0-9a-f]{7,}(-changed)?|unknown)\)$ ]]
	done
}

@test "--version: each program lists the libraries that it is linked with, and no others" {
	for program in "$RF_BIN"/rf-*; do
		line libraries "$program" | grep -oE '[A-Za-z0-9]+ [0-9.]+' >listed
		ldd "$program" >linked
		while read -r name file; do
			grep -q "$file" linked && has=0 || has=1
			grep -q "^$name " listed && lists=0 || lists=1
			[ "$has" -eq "$lists" ] || { echo "$program: $name: $has, $lists"; return 1; }
		done <<-'END'
			oneDNN libdnnl
			glibc libc\.so
			zstd libzstd
			msgpack libmsgpack
			jansson libjansson
			xxHash libxxhash
			utf8proc libutf8proc
			Oniguruma libonig
		END
	done
}

@test "--version: the libraries of a trainer are those of its manifest" {
	load ../model
	runs run
	rf-ntp -m run "$G/stream/tokens.rf"
	jq -r '.libraries | to_entries[] | "\(.key) \(.value)"' run/manifest.json | sort >noted
	[ "${RF_DEVICE:-cpu}" != cpu ] || line libraries rf-ntp | sed 's/, /\n/g' | sort | diff - noted
}

@test "--version: only programs with --device have lines about levels and CUDA" {
	for program in "$RF_BIN"/rf-*; do
		"$program" --help | grep -q -e ' --device ' && want=1 || want=0
		[ "$("$program" --version | grep -c '^levels ')" -eq "$want" ]
		[ "$("$program" --version | grep -c '^CUDA ')" -eq "$want" ]
	done
}

@test "--version: the levels are those of the processor, and RF_ISA lowers the level in force" {
	all=$(levels)
	like "$(line levels rf-ntp)" "${all%%$'\n'*}... in force; of the processor: $(tac <<<"$all" |
		paste -sd' '); of the build: ..."
	for level in $all; do
		like "$(RF_ISA=$level line levels rf-ntp)" "$level in force (RF_ISA=$level); of the ..."
	done
	like "$(ONEDNN_MAX_CPU_ISA=SSE41 line levels rf-ntp)" "... in force (ONEDNN_MAX_CPU_ISA=SSE41); ..."
	export RF_ISA=wrong
	quiet rf-ntp --version
	like "$(line levels rf-ntp)" "none in force: unknown instruction set level 'wrong' ..."
}

@test "--version: the CUDA line names the plugin, its architectures and why it cannot be used" {
	cuda "sm_80, sm_90 and newer, built with CUDA 13.0: $P/good.so" RF_PLUGIN="$P/good.so"
	cuda "unknown architectures: $PWD/no.so; not usable: the CUDA plugin cannot be loaded: ..." \
		RF_PLUGIN="$PWD/no.so"
	echo text >text.so
	cuda "...not usable: ...text.so: not a shared object" RF_PLUGIN=./text.so
	fake_plugin other.so '' -DABI=7
	cuda "...; not usable: the CUDA plugin ./other.so belongs to another version of rf-tools: ..." \
		RF_PLUGIN=./other.so
	lacking_plugin lacks.so
	cuda "sm_80, sm_90 ...; not usable: the CUDA plugin needs libnowhere.so.13: ..." RF_PLUGIN=./lacks.so
	cuda "...; not usable: RF_PLUGIN=lacks.so is looked for among ...: write ./lacks.so" \
		RF_PLUGIN=lacks.so
	fake_plugin plain.so '' -DNO_ABOUT
	cuda "unknown architectures: ./plain.so" RF_PLUGIN=./plain.so
}

@test "--version: the CUDA line says that there is no plugin, or no driver, near the program" {
	mkdir -p near/bin near/lib/rf-tools
	cp "$RF_BIN/rf-ntp" near/bin
	PATH=$PWD/near/bin:$PATH
	cuda "none: no CUDA plugin: rf-cuda.so is neither in ../lib/rf-tools nor in ../build, ..."
	cp "$P/good.so" near/lib/rf-tools/rf-cuda.so
	[ -n "$(ldconfig -p 2>/dev/null | grep -F libcuda.so.1)" ] || cuda "...; not usable: no NVIDIA driver"
	cuda "sm_80, sm_90 and newer, built with CUDA 13.0: .../rf-cuda.so" LD_LIBRARY_PATH="$P/driver"
}

@test "--version: a damaged plugin of any length is refused without a crash" {
	size=$(stat -c %s "$P/good.so")
	for ((n = 0; n < size; n += 1 + size / 12)); do
		head -c "$n" "$P/good.so" >cut.so
		cuda "...; not usable: ..." RF_PLUGIN=./cut.so
	done
	# without the type of a shared object, the loader refuses the file
	cp "$P/good.so" bad.so
	printf '\x01' | dd of=bad.so bs=1 seek=16 conv=notrunc status=none
	cuda "...; not usable: the CUDA plugin cannot be loaded: ...ET_DYN..." RF_PLUGIN=./bad.so
	for at in 32 40 58 60 62; do # offsets and counts in the header
		cp "$P/good.so" bad.so
		printf '\xff\xff' | dd of=bad.so bs=1 seek="$at" conv=notrunc status=none
		cuda "...bad.so..." RF_PLUGIN=./bad.so
	done
}

@test "--version: control characters of variables and of the plugin do not reach the terminal" {
	fake_plugin odd.so 'const struct rf_plugin_about rf_plugin_about = { 13000, "sm_\33[31m\377" };' \
		-DNO_ABOUT
	for setting in RF_PLUGIN=./odd.so RF_PLUGIN=$'./a\e[31mx' RF_PLUGIN=$'a\e[31m' RF_ISA=$'\e[31m'; do
		quiet env "$setting" rf-ntp --version
		[[ $output != *[$'\e\xff']* ]]
		[[ $output == *'\x1b[31m'* ]]
	done
}

@test "--version: the code of the plugin is not run" {
	fake_plugin runs.so '#include <stdlib.h>
		__attribute__((constructor)) static void begin(void) { abort(); }'
	cuda "sm_80, sm_90 and newer, built with CUDA 13.0: ./runs.so" RF_PLUGIN=./runs.so \
		LD_LIBRARY_PATH="$P/driver"
}
