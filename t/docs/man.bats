#!/usr/bin/env bats
# Tests of the manual: it has every program and every option with its default, and every example that begins
# with "$ " runs.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR/place
	mkdir "$P"
	cd "$P"
	rf-init --from "$G/delta" RUN
	rf-init --from "$G/delta" --dtype f32 ckpt
	echo '{"tokenizer_class": "ByT5Tokenizer"}' >ckpt/tokenizer_config.json
	awk 'BEGIN {
		srand(1)
		for (i = 0; i < 64; i++) {
			line = ""
			for (t = 0; t < 48 + i % 16; t++)
				line = line "," int(3 + 37 * rand())
			print "{\"tokens\":[" substr(line, 2) "]}"
		}
	}' >ids.jsonl
	rf-tokenize --vocab 40 --format ids -o corpus.rf ids.jsonl 2>/dev/null
	rf-cat --range 0:6 -o valid.rf corpus.rf
	rf-dump --json valid.rf | sed 's/"body":{\("id":.*\)}}$/"body":{\1,"prompt_len":40}}/' |
		rf-cat --json -o tasks.rf
	rf-entropy -m RUN -o entropy.rf valid.rf
	rf-select -o selected.rf entropy.rf
	rf-rollout -m RUN -o rollouts.rf selected.rf
	rf-reward -o rewarded.rf rollouts.rf
	cp -a RUN trained
	rf-grpo -m trained --log log.jsonl rewarded.rf
	cp rewarded.rf a.rf
	rf-dump --json valid.rf | jq -c 'if .type == "seq" then .body += {
		meta: {gold: 1, choices: ["a", "bc"]},
		choice: {tokens: {dtype: "<i4", shape: [2, 2], data: [5, 0, 6, 7]},
			length: {dtype: "<i4", shape: [2], data: [1, 2]}}} else . end' |
		rf-cat --json -o choices.rf
	sed -n '/^\.Bd/,/^\.Ed/p' "$ROOT/man/rf-logp.1" | sed -n '/^def/,/^}/p' >acc.jq
	cp "$G/delta/config.json" .
	for text in before after; do
		printf '{"task":"trec","pred":"%s","answers":["City"]}\n' Date City "$text" >$text.jsonl
	done
	cp RUN/latest/model.safetensors gradient.safetensors
	listing rf-reward.1 2 >distinct.py
	mkdir pipelines
	cp -r "$ROOT/pipelines/examples" pipelines
}

setup() { load ../helper; }

# examples PAGE: prints the commands of a formatted page that begin with "$ ", one per line.  A command
# continues in the next line if its line ends with | or &&.
examples() {
	mandoc -T ascii -O width=1000 "$1" | sed 's/.\x08//g' | awk '
		/^ +\$ / { on = 1; sub(/^ +\$ /, "") }
		on { sub(/^ +/, ""); printf "%s", $0; on = /(\||&&)$/; printf on ? " " : "\n" }'
}

@test "man: every program has a page, and every page of section 1 has a program" {
	[ "$(cd "$ROOT/tools" && ls rf-*.c | sed 's/c$/1/')" = "$(cd "$ROOT/man" && ls *.1)" ]
}

@test "man: mandoc has no warning for any page" {
	mandoc -T lint -W warning "$ROOT"/man/*
}

@test "man: no sentence is formatted as options by mistake, and rf-dump's table of columns keeps its layout" {
	for page in "$ROOT"/man/*; do
		mandoc -T ascii -O width=1000 "$page" | sed 's/.\x08//g' >text
		run ! grep -E '(^| )-[a-z]+ -[a-z]+ -[a-z]+' <(grep -v ' -lzstd ' text)
		run ! grep -E -e '--[a-z-]+ -[a-z]{2,}' <(grep -v -e ' --sort -[a-z]' text)
	done
	mandoc -T ascii -O width=80 "$ROOT/man/rf-dump.1" | sed 's/.\x08//g' |
		sed -n '/^ *column  /,/^ *text  /p' >table
	[ "$(wc -l <table)" -gt 30 ]
	# each line has a name, at least two blanks and a description
	run ! grep -vE '^ {5}[a-zA-Z_]+( {2,}[^ ].*)?$|^ {20,}[^ ]' table
}

@test "man: no table breaks at 80 columns, and no quotes nest" {
	for page in "$ROOT"/man/*; do
		sed '/^\.Bd/,/^\.Ed/d' "$page" >page.1 # displays may have any width
		mandoc -T ascii -O width=78 page.1 | sed 's/.\x08//g' >text
		run ! grep -E "^ {50,}[^ ]|'''" text
		command -v groff >/dev/null || continue # groff formats the rows of a table differently
		groff -mandoc -Tascii -rLL=78n page.1 2>/dev/null | sed 's/.\x08//g; s/\x1b\[[0-9]*m//g' >text
		run ! grep -E '^ {50,}[^ ]' text
	done
}

@test "man: JSON that a page shows between words or in a line of its own keeps its quotes" {
	n=0
	for page in "$ROOT"/man/*; do
		# the macros read an unescaped " as the mark of an argument, and do not print it
		sed -nE 's/^\.(Dl|D1|Ql|Li) ([{[].*)/\2/p' "$page" |
			sed -E 's/ [.,;:)]+$//; s/\\\(dq/"/g; s/\\-/-/g' | grep '"' >shown || continue
		mandoc -T utf8 -O width=1000 "$page" | sed 's/.\x08//g' >text
		while IFS= read -r json; do
			grep -qF -e "$json" text || { echo "${page##*/} lacks: $json"; return 1; }
			n=$((n + 1))
		done <shown
	done
	[ "$n" -ge 7 ]
}

@test "man: all pages have the same date" {
	[ "$(grep -h '^\.Dd' "$ROOT"/man/* | sort -u | wc -l)" -eq 1 ]
}

@test "man: every page that a page refers to exists" {
	sed -n 's/^\.Xr \(rf-[a-z]*\) \([157]\).*/\1.\2/p' "$ROOT"/man/* | sort -u >named
	[ -s named ]
	while read -r page; do
		[ -e "$ROOT/man/$page" ] || { echo "$page is not there"; return 1; }
	done <named
}

@test "man: the page of each program has all options of --help, with the same defaults" {
	for program in "$RF_BIN"/rf-*; do
		awk -f "$ROOT/t/helper/man.awk" <("$program" --help) "$ROOT/man/rf-tools.7" \
			"$ROOT/man/rf-train.7" "$ROOT/man/${program##*/}.1"
	done
}

# shared SECTION: prints this section of rf-tools(7) or rf-train(7)
shared() { sed -n "/^\.Sh $1 OPTIONS\$/,/^\.Sh/p" "$ROOT"/man/rf-{tools,train}.7; }

@test "man: the usage in --help has the required options of every form in the page's SYNOPSIS" {
	for page in "$ROOT"/man/*.1; do
		name=$(basename "$page" .1)
		"$name" --help | sed '/^$/q' | tr '[]' '  ' >usage
		awk '/^\.Sh/ { on = / SYNOPSIS/ } on && /^\.Fl/ { print "-" $2 }' "$page" >needed
		while read -r option; do
			grep -q -e " $option " usage || { echo "$name: usage lacks $option"; false; }
		done <needed
	done
}

@test "rf-tools(7): each variable, program and script that its list of tasks names exists" {
	sed -n '/^\.Ss I want to/,/^\.Ss One step/p' "$ROOT/man/rf-tools.7" >section
	[ "$(grep -c '^\.It ' section)" -ge 20 ]
	grep -oE '\b[A-Z][A-Z_]+=' section | sort -u >words
	[ "$(wc -l <words)" -ge 15 ]
	while read -r word; do
		grep -qE "^${word%=} *=" "$ROOT"/pipelines/{,lib/}*.mk ||
			{ echo "$word is in no file"; return 1; }
	done <words
	for name in $(grep -oE '[a-z_]+\.(mk|py)\b' section | sort -u); do
		ls "$ROOT"/pipelines/{,examples/,lib/}"$name" 2>/dev/null | grep -q . ||
			{ echo "$name"; return 1; }
	done
	grep -oE 'rf-[a-z]+' section | sort -u | while read -r name; do
		[ -e "$RF_BIN/$name" ] || ls "$ROOT/man/$name".* >/dev/null
	done
}

@test "rf-tools(7): FILES has each file of a run that the pipelines write for users" {
	sed -n '/^\.Sh FILES/,/^\.Sh MANIFEST/p' "$ROOT/man/rf-tools.7" >section
	grep -ohE '\$(RUN|\(RUN\)|\{RUN:\?\})/[a-z][a-z-]*\.jsonl|RUN/(best|answers|streams|stop)\b' \
		"$ROOT"/pipelines/{*.mk,lib/*.mk,lib/adapted.sh,lib/eval-step.sh} |
		sed 's|.*/||' | sort -u >files
	[ "$(wc -l <files)" -ge 5 ]
	while read -r file; do
		grep -q "^\.It Pa .*RUN/$file" section || { echo "$file"; return 1; }
	done <files
}

@test "man: each script that a page runs with make or python3 exists in the folder that the page names" {
	grep -hoE "(make -f|python3) [a-z_/]+\.(mk|py)\b" "$ROOT"/man/rf-{tools,ranks}.7 | sort -u >scripts
	[ "$(wc -l <scripts)" -ge 6 ]
	while read -r line; do
		# these programs for rewards are written by the reader
		[[ $line == *' '@(my_reward|mine).py ]] || [ -e "$ROOT/${line##* }" ] ||
			{ echo "$line"; return 1; }
	done <scripts
}

@test "man: a page that counts its forms has as many of them as its SYNOPSIS" {
	ordinals=(first second third fourth fifth)
	n=0
	for page in "$ROOT"/man/*.1; do
		grep -q '^The first form' "$page" || continue
		forms=$(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$page" | grep -cx '\.Nm')
		[ "$(grep -oE '^The [a-z]+ form' "$page")" = \
			"$(printf 'The %s form\n' "${ordinals[@]:0:forms}")" ] || { echo "$page"; return 1; }
		n=$((n + 1))
	done
	[ "$n" -ge 2 ]
}

@test "man: no example trains a run on held-out text" {
	for page in "$ROOT"/man/*; do
		mandoc -T ascii -O width=1000 "$page" | sed 's/.\x08//g' | awk '
			/(rf-ntp|rf-grpo) .*valid\.rf/ && !/--eval|--dry-run/ { print; bad = 1 }
			END { exit bad }'
	done
}

@test "man: some page refers to each option that a page of section 7 explains for several programs" {
	for section in GLOBAL MODEL TRAINER; do
		grep -hB1 "^See $section OPTIONS in\$" "$ROOT"/man/*.1 | grep '^\.It' >references
		shared $section | sed -n 's/^\.It Fl \(.*\)/\1/p' | grep -oE '(^|, )-?[a-z-]+' |
			sed 's/^, //' >options
		[ "$(wc -l <options)" -ge 6 ]
		while read -r option; do
			grep -qE -e "[ -]$option( |\$)" references ||
				{ echo "no page refers to the $section OPTIONS for -$option"; return 1; }
		done <options
	done
}

# sections: prints the headings of options in a program's --help or page, each with its options in order,
# without the options that all programs have, which a page may describe elsewhere
sections() {
	awk '
		function list(line, names,    name) {
			for (; match(line, names); line = substr(line, RSTART + RLENGTH)) {
				name = substr(line, RSTART, RLENGTH)
				sub(/^ *-+/, "", name)
				if (name !~ /^(output|max-record|progress|help|version)$/)
					print heading ": " name
			}
		}
		/^\.Ss / { heading = substr($0, 5) }
		NR == 1 { help = /^usage:/ }
		help && /^[A-Z][a-z ]*:$/ { heading = substr($0, 1, length - 1) }
		/^\.Sh / { heading = "" }
		heading == "" { next }
		/^\.It Fl / { list($0, "( |^)-[a-z][a-z-]+") }
		/^  (-.,|   ) --/ { sub(/^ *(-., )? */, ""); sub(/ .*/, ""); list($0, "--[a-z-]+") }'
}

@test "man: a page groups its options under the headings of --help, in the same order" {
	n=0
	for program in "$RF_BIN"/rf-*; do
		"$program" --help | sections >help
		[ -s help ] || continue
		diff help <(sections <"$ROOT/man/${program##*/}.1")
		n=$((n + 1))
	done
	[ "$n" -ge 3 ]
}

@test "man: the page has every word that an option takes according to --help" {
	cat <(shared MODEL) <(shared TRAINER) >shared_text
	for program in "$RF_BIN"/rf-*; do
		page=$ROOT/man/${program##*/}.1
		"$program" --help | grep -oE '^  (-.,|   ) --[a-z-]+ [a-z0-9]+(\|[a-z0-9]+)+' |
			sed 's/.*--\(\S*\) /\1 /' >words
		while read -r option list; do
			text=$page
			grep -qE "^\.It Fl (.* )?-$option (Ar|Cm)" "$page" || text=shared_text
			for word in ${list//|/ }; do
				case $word in n | dir | file) continue ;; esac
				grep -qE "(Cm|\|| ,) *$word\b" "$text" ||
					{ echo "$page: --$option $word is not there"; return 1; }
			done
		done <words
	done
}

@test "man: every page lists the exit statuses 0, 64, 65, 66, 71 and 74 (but two programs read no data)" {
	for page in "$ROOT"/man/*.1; do
		sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/s/^\.It \([0-9]*\).*/\1/p' "$page" >codes
		for code in 0 64 65 66 71 74; do
			grep -qx "$code" codes || [[ "$page $code" == */rf-@(init.1\ 65|doctor.1\ 6[56]) ]] ||
				{ echo "$page: no $code"; return 1; }
		done
	done
}

@test "man: every example that begins with a dollar sign runs" {
	n=0
	for page in "$ROOT"/man/*.[17]; do
		examples "$page" >list
		[ -s list ] || [[ $page == */rf-@(doctor|tokenize).1 ]] # their own tests run their examples
		while read -r command; do
			rm -rf place
			cp -a "$P" place
			(cd place && PATH=$ROOT/pipelines/lib:$ROOT/pipelines/examples:$PATH \
				bash -eu -o pipefail -c "$command" >../out 2>../err </dev/null) ||
				{ echo "${page##*/}: $command"; cat err; return 1; }
			n=$((n + 1))
		done <list
	done
	[ "$n" -ge 30 ]
}

@test "rf-stream(5): the hashes of weights and of the architecture are computed as the page describes" {
	cat >hash.c <<-'END'
		#include <stdio.h>
		#include <xxhash.h>
		int main(void)
		{
			static char in[1 << 24];
			size_t n = fread(in, 1, sizeof in, stdin);
			return printf("%016llx\n", (unsigned long long)XXH64(in, n, 0)) < 0;
		}
	END
	cc -o hash hash.c -lxxhash
	cat >concatenate.py <<-'END'
		import json, struct, sys
		folder, what = sys.argv[1:]
		data = open(folder + "/model.safetensors", "rb").read()
		size = struct.unpack("<Q", data[:8])[0]
		out = b""
		if what == "arch":
		    out += json.load(open(folder + "/config.json"))["model_type"].encode()
		for name, t in sorted(json.loads(data[8:8 + size]).items()):
		    if name != "__metadata__":
		        out += name.encode() + t["dtype"].encode() + ",".join(map(str, t["shape"])).encode()
		        if what == "weights":
		            out += data[8 + size:][slice(*t["data_offsets"])]
		sys.stdout.buffer.write(out)
	END
	for model in "$G/delta" "$P/RUN/latest"; do
		for what in weights arch; do
			[ "$(rf-entropy -m "$model" "$P/valid.rf" | rf-dump --json | head -n 1 |
				jq -r .body.model.$what)" = \
				"$(python3 concatenate.py "$model" $what | ./hash)" ]
		done
	done
}
