#!/usr/bin/env bats
# Tests of make study: the questions to its models, its figures and tables, and a whole study that takes
# seconds.

setup() {
	load ../helper
	load ../model
	P=$ROOT/pipelines/study
}

# table NAME FILE: prints this table of study.awk
table() { awk -v table="$1" -f "$ROOT/pipelines/lib/tables.awk" -f "$P/study.awk" "$2"; }

# facts KIND SEED N [BYTES]: prints what recall.awk makes of twelve words and four paragraphs
facts() {
	printf '%s\n' gate loop term join last hash code list file name test line >words
	for i in 1 2 3 4; do
		printf 'Paragraph %d says "something" that is long enough to be one,\n' $i
		printf 'in two lines of text \\ %d.\n\n' $i
	done >text
	awk -v kind="$1" -v seed="$2" -v n="$3" -v bytes="${4:-1500}" -v POOL=12 -f "$P/recall.awk" words text
}

@test "recall.awk: the fact that a question asks for occurs once in the prompt, at the question's depth" {
	facts ask 7 40 >ask.jsonl
	facts ask 7 3 | cmp - <(head -n 3 ask.jsonl)
	[ "$(facts ask 8 40 | cat - ask.jsonl | sort -u | wc -l)" -eq 80 ]
	python3 - ask.jsonl <<-'END'
		import json, sys
		depths = []
		for line in open(sys.argv[1]):
		    q = json.loads(line)
		    key = q["prompt"].rsplit("\n", 1)[1].removesuffix(" means")
		    fact = f"{key} means {q['answers'][0]}.\n"
		    assert q["answer"] == q["answers"][0] + ".\n" and len(q["answers"][0].split()) == 4
		    assert q["prompt"].count(fact) == 1, fact
		    facts = [l for l in q["prompt"].split("\n") if " means " in l]
		    assert len(facts) == 8 and len(key.split()) == 2
		    assert len(q["prompt"]) < 1700
		    # the depth is the share of the paragraphs that stand before the fact
		    n = q["prompt"].count("Paragraph")
		    before = q["prompt"][:q["prompt"].index(fact)].count("Paragraph")
		    assert abs(q["depth"] - before / (n + 1)) < 1e-3, (q["depth"], before, n)
		    depths.append(q["depth"])
		assert min(depths) < .2 and max(depths) > .8
	END
	facts facts 7 20 >facts.jsonl
	python3 - facts.jsonl <<-'END'
		import json, sys
		for line in open(sys.argv[1]):
		    lines = [l for l in json.loads(line)["text"].split("\n") if " means " in l]
		    assert len(lines) == 16 and sorted(lines[:8]) == sorted(lines[8:])
	END
	# each chunk occurs as often as there are orders
	facts chunks 7 5 >chunks.jsonl
	facts numbers 7 5 >numbers.jsonl
	python3 - <<-'END'
		import collections, json, re
		for line in open("chunks.jsonl"):
		    words = json.loads(line)["text"].split()
		    fours = collections.Counter(tuple(words[i:i + 4]) for i in range(0, len(words), 4))
		    assert len(words) == 112 and all(n % 7 == 0 for n in fours.values()), fours
		for line in open("numbers.jsonl"):
		    said = re.findall(r"\w+ is \d{4}\.", json.loads(line)["text"])
		    assert len(said) == 12 and all(n % 3 == 0 for n in collections.Counter(said).values())
	END
}

@test "surprise.sh: the reward is the mean log-probability of the text that follows a rollout" {
	batch 3:60 9:41 >in.rf
	export STEP=$M
	rf-reward --exec "$P/../examples/surprise.sh 6" -o out.rf in.rf
	json out.rf | jq -c '.rollout.tokens as {$shape, $data} | range($shape[0]) as $i
		| range($shape[1]) as $r | .positions.data[$i] as $s | $shape[2] as $k
		| ($i * $shape[1] + $r) as $at
		| {reward: .reward.total.data[$at], prompt_len: ($s + $k), tokens: (.tokens.data[:$s]
			+ $data[$at * $k:($at + 1) * $k] + .tokens.data[$s + $k:$s + $k + 6])}' >want
	[ "$(wc -l <want)" -eq 12 ]
	grep -v '"reward":0,' want >counted
	[ "$(wc -l <counted)" -ge 9 ]
	# the text after each rollout as a response, one record for each rollout
	jq -c '{tokens}' counted | rf-tokenize --vocab 40 --format ids --no-eos |
		rf-dump --json | jq -c --slurpfile of counted 'if .type == "seq"
			then .body.prompt_len = $of[.body.id].prompt_len else . end' |
		rf-cat --json >responses.rf
	for ((i = 0; i < $(wc -l <counted); i++)); do
		rf-cat --range $i:$((i + 1)) responses.rf | rf-ntp --eval --loss response -m "$M"
	done >losses
	[ "$(wc -l <losses)" -eq "$(wc -l <counted)" ]
	jq -se --slurpfile of counted 'to_entries
		| all(.value.nll + $of[.key].reward | . < 1e-5 and . > -1e-5)' losses >/dev/null
	# the reward is 0 where no text follows
	edited 'if .body.positions then .body.positions.data[1] = .body.tokens.shape[0] - 3 else . end' \
		in.rf | rf-reward --exec "$P/../examples/surprise.sh" | json - |
		jq -e '.reward.total.data[3:] == [0, 0, 0]' >/dev/null
	unset STEP
	mentions 65 'STEP: is not set' rf-reward --exec "$P/../examples/surprise.sh" -o none.rf in.rf
}

@test "study.awk: prints means over seeds, differences seed by seed with Student's interval, and verdicts" {
	# figures SEED SFT REFINE: prints the figures of one seed
	figures() {
		printf 'mid\tdelta_net\tsft\t%d\ttext.nll\t%s\n' "$1" "$2"
		printf 'mid\tdelta_net\trefine\t%d\ttext.nll\t%s\n' "$1" "$3"
		printf 'mid\tdelta_net\trefine\t%d\ttext.accuracy\t0.25\n' "$1"
	}
	{ figures 1 2.5 2.7; figures 2 3.5 3.9; figures 3 4.5 5.1; } >figures
	# differences .2, .4, .6: mean .4, half of the interval 4.303 * .2 / sqrt(3)
	run table mid figures
	[[ "$output" == *'| SFT | | 3.5000 | |'* ]]
	[[ "$output" == *'| ReFINE, n 1 | | 3.9000 (+0.4000 ± 0.4969) | 0.2500 |'* ]]
	# with differences of .3, .4, .5 the interval is half as wide
	{ figures 1 2.5 2.8; figures 2 3.5 3.9; figures 3 4.5 5; } >figures
	run table mid figures
	[[ "$output" == *'3.9000 (+0.4000 ± 0.2484 *)'* ]]
	run table verdicts figures
	[[ "$output" == *'ReFINE, n 1, against SFT: worse in nll of text (+0.4000)'* ]]
	# if all seeds have the same difference, the interval has no width, and the difference no mark
	{ figures 1 2.5 3; figures 2 3.5 4; figures 3 4.5 5; } >same
	run table mid same
	[[ "$output" == *'4.0000 (+0.5000 ± 0.0000)'* ]]
	# the answer is yes only if both SFT and random rewards are beaten
	for of in sft=3 refine=2 random=3; do
		for seed in 1 2 3; do
			for at in facts-{1,2,4} needle-{1,2,4}; do
				printf 'mid\tdelta_net\t%s\t%d\t%s.nll\t%s\n' "${of%=*}" $seed $at \
					"${of#*=}.$((seed * ${of#*=}))"
			done
		done
	done >answers
	run table answer answers
	[ "$output" = "- DeltaNet, one rollout: yes; better (nll -1.2000) than SFT, better (nll -1.2000) \
than random rewards." ]
	run table answer <(sed '/random/ s/\t[^\t]*$/\t1.5/' answers)
	[ "$output" = "- DeltaNet, one rollout: no; better (nll -1.2000) than SFT, not better than \
random rewards." ]
	# the table reports that the best rate is at an end of the grid
	printf 'grid\tdelta_net\tsft_%s_0\t1\tnll\t%s\n' 1e-4 3 3e-4 2 1e-3 2.5 >grid
	run table grid grid
	[[ "$output" != *'end of the grid'* ]]
	sed -i 's/2.5$/1/' grid
	run table grid grid
	[[ "$output" == *'DeltaNet: 1 of 1 methods do best at an end of the grid'* ]]
	# a single seed gives no interval and no verdict
	run table mid <(grep -P '\t1\t' figures)
	[[ "$output" == *'| 2.8000 (+0.3000) |'* ]]
	run table verdicts <(grep -P '\t1\t' figures)
	[ "$output" = '- DeltaNet: of one seed nothing can be said.' ]
}

@test "make study: has an ablation with positions of least entropy, and SFT as published has SFT's settings" {
	run -0 make -n -f "$P/study.mk" RUN=study FAMILIES=delta_net SEEDS=1 \
		study/mid/delta_net/{min,sft-published}/1.tsv
	grep -A 1 'lr coef <study/chosen/' <<<"$output" >parts
	[ "$(grep -o 'chosen/.*' parts | paste -sd' ')" = 'chosen/delta_net/refine chosen/delta_net/sft' ]
	grep -q "RUN=study/mid/delta_net/min/1 .*SELECT='rf-select --seed 1 --mode min' " parts
	grep -q 'RUN=study/mid/delta_net/sft-published/1 .*METHOD=ntp INNER_STEPS=published ' parts
	printf 'mid\tdelta_net\t%s\t1\ttext.nll\t2\n' refine min >figures
	run -0 table ablations figures
	[[ "$output" == *'| positions of least entropy | | 2.0000 '* ]]
}

@test "study-choose.sh: prints the setting whose answers are most probable" {
	mkdir -p g/refine_1e-4_0.2 g/refine_1e-3_0.05
	printf 'facts-1.nll\t2\nneedle-1.nll\t3\n' >g/refine_1e-4_0.2/1.tsv
	printf 'facts-1.nll\t1\nneedle-1.nll\t3.5\n' >g/refine_1e-3_0.05/1.tsv
	[ "$("$P/study-choose.sh" g/*/1.tsv)" = refine_1e-3_0.05 ]
}

# small_study: copies the pipelines, with a model of width 16, a smaller tokenizer of less text and shorter
# answers, for make check
small_study() {
	mkdir pipelines
	cp -r "$ROOT"/pipelines/{*.mk,lib,demo,study,examples} pipelines
	[ -z "${RF_ALL:-}" ] || return 0
	sed -i 's/"hidden_size": 128/"hidden_size": 16/; s/"num_hidden_layers": 3/"num_hidden_layers": 1/
		s/"vocab_size": 2048/"vocab_size": 1024/' pipelines/study/study-delta_net.json
	sed -i 's/\(scores facts-$times\) 16/\1 4/; s/\(scores needle-$times\) 48/\1 8/' \
		pipelines/study/study-measure.sh
	# only texts of 50000 to 64000 bytes, and words that appear in them at least 20 times
	sed -i 's/-lt $smallest ]/-lt 50000 ] || [ "$(wc -c <"$pod")" -gt 64000 ]/' pipelines/demo/corpus.sh
	sed -i 's/facts 0 3000 /facts 0 300 /; s/\$1 >= 60 /$1 >= 20 /
		s/vocab_size=2048/vocab_size=1024/' pipelines/study/study-data.sh
}

# study WORD...: makes a tiny study
study() {
	RF_BIN=$RF_BIN make -s -f pipelines/study/study.mk RUN=study FAMILIES=delta_net SEEDS=1 \
		LESSONS=20 SHORT=4 \
		PRE=20 PRE_BATCH=20 WARMUP=1 MID=20 BATCH=10 MINI=5 POST=8 TTT=2 TTT_BATCH=2 TTT_MINI=1 \
		ASK=4 LRS=1e-2 COEFS=0.2 MIDS='sft sft-published refine' POSTS='sft refine' \
		TTTS='none refine' \
		IDEAS='sft surprise' "$@"
}

@test "make study: goes from text to a report, whose figures are those of the single programs" {
	command -v spm_train >/dev/null || skip 'spm_train is not installed'
	small_study
	study 2>log || { tail -n 20 log; false; }
	grep -q 'the report is study/report.md' log
	cut -f 1-4 study/figures.tsv | sort -u | cut -f 1 >phases
	[ "$(uniq -c phases | tr -s ' ' | paste -sd,)" = \
		' 1 base, 4 grid, 2 ideas, 3 mid, 2 post, 2 testtime' ]
	# all methods make the same number of steps, and SFT as published makes one per batch
	for m in sft refine; do
		readlink "study/mid/delta_net/$m/1/latest"
	done | sort -u | cmp - <(echo step-000004)
	[ "$(readlink study/mid/delta_net/sft-published/1/latest)" = step-000002 ]
	[ "$(readlink study/post/delta_net/sft/1/latest)" = \
		"$(readlink study/post/delta_net/refine/1/latest)" ]
	for row in 'SFT as published' 'SFT, not nested'; do
		grep -q "^| $row | [0-9]" study/report.md
	done
	# a figure in figures.tsv equals that of rf-ntp
	nll=$(rf-ntp --eval --loss response -m study/mid/delta_net/refine/1 \
		study/data/test/facts-2.ask.rf | jq .nll)
	grep -qx "mid	delta_net	refine	1	facts-2.nll	$nll" study/figures.tsv
	# a second call makes only missing files, with the same bytes
	cp study/figures.tsv before
	rm study/ideas/delta_net/surprise/1.tsv study/testtime/delta_net/refine/1.tsv
	study 2>log
	[ "$(grep -c 'parts$' log)" -le 5 ]
	cmp before study/figures.tsv
	grep -q '^| ReFINE, n 1 |' study/report.md
	# changed and unknown variables are refused
	mentions 2 'study/words: the run was started with other settings' study MID=40
	mentions 2 "MID='16': it must be a whole number, 20 or more" study RUN=new MID=16
	mentions 2 'unknown variable MIDDS' study MIDDS=1
}
